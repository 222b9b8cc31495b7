/* SPDX-License-Identifier: GPL-2.0 */
/* Descriptor chains of every shape, tried on both queues. */
#ifndef CHAINS_H
#define CHAINS_H

#include "flow.h"
#include "ktap.h"

/* Free descriptors for hand-made chains; slots use those below, and keep theirs. */
#define D	200

/* Options of a rig for hand-made chains. */
#define CHAIN_OPT(...) (&(struct guest_opt){ __VA_ARGS__, .slot_descs = D })

enum fate {
	STAYS,		/* refused; the head is still the next one */
	SKIPPED,	/* refused; the head may be lost or come back with length 0 */
};

/* Where hand-made buffers lie: 4 MiB of guest memory. */
extern uint64_t area;

/* WRITE on the receive queue, nothing on the transmit queue. */
unsigned int dir(const struct ring *r);

/* Sends frame number seq towards the guest. */
void host_frame(struct rig *r, uint32_t seq);

typedef void (*build_fn)(struct guest *g, struct ring *r);

/*
 * Posts the chain on a queue and checks all that a refusal means: the error
 * eventfd, silence until the next kick, the other queue works, the ring works
 * again once it is repaired, the device can be restarted.
 */
void refused(build_fn build, unsigned int q, enum fate fate,
	     const struct guest_opt *opt);
void refused_both(build_fn build, enum fate fate);
/* The chain carries one frame of FRAME_MIN bytes either way. */
void accepted(build_fn build, unsigned int q, const struct guest_opt *opt);
void accepted_both(build_fn build, const struct guest_opt *opt);

/* Copies a header and frame number seq over/from the parts of a direct chain or a table. */
void chain_put(struct guest *g, struct ring *r, unsigned int head, const void *src,
	       unsigned int len);
void chain_get(struct guest *g, struct ring *r, unsigned int head, void *dst,
	       unsigned int len);

#endif /* CHAINS_H */
