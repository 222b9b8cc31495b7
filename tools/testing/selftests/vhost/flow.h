/* SPDX-License-Identifier: GPL-2.0 */
/* Numbered frames through the device, checked byte by byte and in order. */
#ifndef FLOW_H
#define FLOW_H

#include "guest.h"
#include "netdev.h"

#define FRAME_MIN	60
#define FRAME_MAX	65550

/* Fills buf with frame number seq; to_guest picks the MAC addresses. */
void frame_make(void *buf, unsigned int len, uint32_t seq, bool to_guest);
/* NULL, or what is wrong with it. */
const char *frame_error(const void *buf, unsigned int len, unsigned int want_len,
			uint32_t seq);
uint32_t frame_seq(const void *buf);

struct flow {
	struct guest *g;
	int host;		/* host_open() */
	unsigned long tx, rx;	/* frames to send from and to the guest */
	unsigned int len;	/* frame size; 0: FRAME_MIN..1400, changing */
	unsigned int window;	/* frames under way at most, 64 if 0 */
	bool lossy;		/* gaps in the numbers are fine, disorder is not */
	bool odd_hdr;		/* do not look at the received header's flags */
};

/*
 * Runs until all frames have arrived. Fails if nothing moves for 5 s. RX buffers
 * that were posted before are used; what is posted at the end stays posted.
 */
void flow_run(struct flow *f);

/* A guest on a tap with both queues attached, and the host's side of it. */
struct rig {
	struct tap tap;
	struct guest g;
	int host;
};

void rig_start(struct rig *r, const struct guest_opt *opt);
void rig_stop(struct rig *r);
/* Frames each way; len 0: changing sizes. */
void rig_pass(struct rig *r, unsigned long tx, unsigned long rx, unsigned int len);
/* alive() for a rig. */
void rig_alive(struct rig *r);
/* Until the worker of that owner has exited. */
void wait_no_worker(pid_t pid);

/*
 * Does the device still work? Takes a guest in whatever state, detaches it,
 * starts both rings afresh, and passes 200 frames each way.
 */
void alive(struct guest *g, int backend, int host);

/*
 * A flood in a thread of its own for tests that disturb it: both directions,
 * frames may be lost, none may be wrong. stop returns the number of frames that
 * got through.
 */
struct flood;
struct flood *flood_start(struct guest *g, const char *ifname);
unsigned long flood_count(struct flood *f);
unsigned long flood_stop(struct flood *f);

#endif /* FLOW_H */
