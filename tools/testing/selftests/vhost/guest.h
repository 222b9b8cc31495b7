/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fake guest: memory that a virtual machine would have, two split rings in
 * it written by hand, and the ioctls a VMM would issue. No guest system runs.
 *
 *	struct tap tap = tap_open(12);
 *	struct guest g;
 *
 *	guest_start(&g, &(struct guest_opt){ .features = F_MODERN, .num = 256 });
 *	guest_attach_both(&g, tap.fd);
 *	...
 *	guest_stop(&g);
 */
#ifndef GUEST_H
#define GUEST_H

#include <linux/vhost.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "expect.h"

enum { RXQ, TXQ, NQ };

/* Guest memory starts here: above 4 GiB, so that a GPA is never a valid HVA. */
#define GPA_BASE	0x100000000ULL
#define MEM_SIZE	(128ULL << 20)

#define F_MODERN	BIT(VIRTIO_F_VERSION_1)
#define F_MRG		BIT(VIRTIO_NET_F_MRG_RXBUF)
#define F_EVENT		BIT(VIRTIO_RING_F_EVENT_IDX)
#define F_INDIRECT	BIT(VIRTIO_RING_F_INDIRECT_DESC)

/* How a frame lies over descriptors. */
enum layout {
	ONE,		/* header and payload in one descriptor */
	HDR_OWN,	/* header in a descriptor of its own */
	HDR_SPLIT,	/* 5 bytes, the rest of the header, payload */
	INDIRECT,	/* as HDR_OWN, in an indirect table */
};

struct guest_opt {
	uint64_t features;	/* word 0 */
	uint64_t features1;	/* word 1 */
	unsigned int num;	/* ring size, 256 if 0 */
	unsigned int base;	/* first avail and used index */
	unsigned int bufsz;	/* bytes per buffer with header, 2048 if 0 */
	unsigned int slot_descs; /* slots use so many descriptors, all if 0 */
	enum layout layout;
};

/* One split ring, the driver's side of it. */
struct ring {
	unsigned int index;		/* RXQ or TXQ */
	unsigned int num;
	volatile struct vring_desc *desc;
	volatile struct vring_avail *avail;
	volatile struct vring_used *used;
	uint16_t next_avail;		/* where the next head goes */
	uint16_t next_used;		/* the next used entry to look at */
	uint16_t kicked;		/* avail index at the last look at the kick rule */
	bool event_idx;
	int kick, call, err;		/* eventfds */

	/* Buffers: slot s has descriptors from s * per_slot on. */
	enum layout layout;
	unsigned int per_slot, slots, bufsz, hlen, stride;
	uint64_t data, tables;		/* GPAs */
	uint64_t *free_slots;		/* one bit each */
};

struct guest {
	int dev;			/* the vhost node */
	int memfd;
	char *mem;
	uint64_t brk;			/* next free GPA */
	unsigned int hlen;		/* size of the virtio-net header */
	struct guest_opt opt;
	struct ring q[NQ];
};

/* ---- device ---- */
int node_open(void);
/* 0 or a negative errno */
int vhost_ioctl(int dev, unsigned long req, const void *arg);
unsigned int header_size(uint64_t features, uint64_t features1);

/* Opens the node, owns it, sets features, memory and both rings. Attaches nothing. */
void guest_start(struct guest *g, const struct guest_opt *opt);
/* The same on a node that is open already, and memory that exists. */
void guest_init(struct guest *g, int dev, const struct guest_opt *opt);
void guest_stop(struct guest *g);
/* Only the ioctls: what a VMM does after RESET_OWNER or on another node. */
void guest_setup(struct guest *g);
void guest_set_features(struct guest *g, uint64_t features, uint64_t features1);
void guest_set_mem(struct guest *g);
int guest_set_regions(struct guest *g, const struct vhost_memory_region *r, unsigned int n);
/* SET_BACKEND: 0 or a negative errno; fd -1 detaches. */
int guest_backend(struct guest *g, unsigned int q, int fd);
void guest_attach_both(struct guest *g, int fd);
void guest_detach_both(struct guest *g);
int guest_vring_num(struct guest *g, unsigned int q, unsigned int num);
int guest_vring_base(struct guest *g, unsigned int q, unsigned int base);
unsigned int guest_get_base(struct guest *g, unsigned int q);
int guest_vring_addr(struct guest *g, unsigned int q);
int guest_vring_file(struct guest *g, unsigned long req, unsigned int q, int fd);

/* Busy polling on both queues; false if the module has none. */
bool guest_busyloop(struct guest *g, unsigned int usecs);

/* ---- memory ---- */
uint64_t guest_alloc(struct guest *g, uint64_t size, uint64_t align);
void *gva(struct guest *g, uint64_t gpa);

/* ---- rings, raw ---- */
/* Sets ring indices back to `base` and forgets all buffers. Queue is detached. */
void ring_reset(struct guest *g, unsigned int q, unsigned int base);
void ring_desc(struct ring *r, unsigned int i, uint64_t addr, uint32_t len,
	       unsigned int flags, unsigned int next);
/* Makes a head available. No kick. */
void ring_post(struct ring *r, unsigned int head);
void ring_publish(struct ring *r, uint16_t avail_idx);
/* Has the device asked for a kick after what was made available since the last one? */
bool ring_kick_wanted(struct ring *r);
/* Kicks if the device asked for it; ring_kick_always() does anyway. */
void ring_kick(struct ring *r);
void ring_kick_always(struct ring *r);
bool ring_used(struct ring *r, struct vring_used_elem *e);
/* Waits for a used entry by the call eventfd; false after ms. */
bool ring_wait(struct ring *r, struct vring_used_elem *e, int ms);
/* Asks for a call at the next used entry; true if one is there already. */
bool ring_arm(struct ring *r);
void ring_calls(struct ring *r, bool on);
/* Waits for the error eventfd. */
bool ring_error(struct ring *r, int ms);

/* ---- rings, by slot ---- */
int slot_get(struct ring *r);
void slot_put(struct ring *r, unsigned int slot);
unsigned int slot_of(struct ring *r, unsigned int head);
/* Writes the descriptors of a slot and makes it available. */
void slot_post(struct guest *g, struct ring *r, unsigned int slot, unsigned int len);
void slot_write(struct guest *g, struct ring *r, unsigned int slot, const void *src,
		unsigned int len);
void slot_read(struct guest *g, struct ring *r, unsigned int slot, void *dst,
	       unsigned int len);

/* ---- frames ---- */
/* Queues header + frame on TX; false if no slot is free. No kick. */
bool guest_send(struct guest *g, const void *frame, unsigned int len);
/* Takes back used TX slots; returns how many. */
unsigned int guest_reclaim(struct guest *g);
/* Fills RX with buffers; returns how many. No kick. */
unsigned int guest_fill(struct guest *g);
unsigned int guest_fill_n(struct guest *g, unsigned int n);
/*
 * One received frame with its header, over as many buffers as it took. Buffers
 * are free again afterwards. Returns its bytes, 0 if there is none yet.
 */
unsigned int guest_recv(struct guest *g, void *buf, unsigned int size,
			unsigned int *nbufs);
/* The same, waiting at most ms. */
unsigned int guest_recv_wait(struct guest *g, void *buf, unsigned int size,
			     unsigned int *nbufs, int ms);

#endif /* GUEST_H */
