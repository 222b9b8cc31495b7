// SPDX-License-Identifier: GPL-2.0
/* What has to hold for a refused chain, and for an accepted one. */
#define _GNU_SOURCE
#include <unistd.h>

#include "chains.h"
#include "util.h"

#define QUIET_MS	30

uint64_t area;

static const struct guest_opt dflt = { .features = F_MODERN | F_INDIRECT, .slot_descs = D };

unsigned int dir(const struct ring *r)
{
	return r->index == RXQ ? VRING_DESC_F_WRITE : 0;
}

static void start(struct rig *r, const struct guest_opt *opt)
{
	rig_start(r, opt ? opt : &dflt);
	area = guest_alloc(&r->g, 4 << 20, 4096);
}

void host_frame(struct rig *r, uint32_t seq)
{
	unsigned char frame[FRAME_MIN];

	frame_make(frame, sizeof(frame), seq, true);
	host_send(r->host, frame, sizeof(frame));
}

/* Makes the device look at the queue: a kick, and on RX a frame to place. */
static void provoke(struct rig *r, unsigned int q, uint32_t seq)
{
	ring_kick_always(&r->g.q[q]);
	if (q == RXQ)
		host_frame(r, seq);
}

/*
 * One chain may be reported more than once, by the attach and by the kick, but
 * then there has to be silence.
 */
static void expect_quiet(struct rig *r, unsigned int q)
{
	struct ring *ring = &r->g.q[q];
	int64_t end = now_ms() + 1000;
	uint16_t used;

	while (ring_error(ring, QUIET_MS))
		CHECK(now_ms() < end, "errors without end");
	used = ring->used->idx;
	if (q == RXQ)
		host_frame(r, 2);
	CHECK(!ring_error(ring, QUIET_MS), "error signalled again without a kick");
	EQ(ring->used->idx, used);
}

static void other_queue(struct rig *r, unsigned int q)
{
	rig_pass(r, q == RXQ ? 40 : 0, q == RXQ ? 0 : 40, FRAME_MIN);
}

static unsigned int post_good(struct rig *r, unsigned int q)
{
	struct ring *ring = &r->g.q[q];
	static char buf[FRAME_MIN + 64];
	unsigned int slot = (unsigned int)slot_get(ring);

	memset(buf, 0, sizeof(buf));
	frame_make(buf + r->g.hlen, FRAME_MIN, 7, false);
	if (q == TXQ)
		slot_write(&r->g, ring, slot, buf, r->g.hlen + FRAME_MIN);
	slot_post(&r->g, ring, slot, q == TXQ ? r->g.hlen + FRAME_MIN : ring->bufsz);
	return slot * ring->per_slot;
}

/* A good chain in the place of the bad one, a second one behind it, and a kick. */
static void repair(struct rig *r, unsigned int q, enum fate fate, unsigned int bad)
{
	struct ring *ring = &r->g.q[q];
	unsigned int first, second, mask = ring->num - 1;
	bool first_used = false;
	struct vring_used_elem e;

	ring->next_avail--;
	first = post_good(r, q);
	CHECK(ring->avail->ring[(ring->next_avail - 1) & mask] == first, "rig");
	second = post_good(r, q);
	provoke(r, q, 3);
	do {
		CHECK(ring_wait(ring, &e, WAIT_MS), "the repaired queue does not work");
		first_used |= e.id == first;
		CHECK(e.id == first || e.id == second ||
		      (fate == SKIPPED && e.id == bad && e.len == 0),
		      "used id %u length %u", e.id, e.len);
	} while (e.id != second);
	if (fate == STAYS)
		CHECK(first_used, "the place of the refused head was skipped");
	slot_put(ring, slot_of(ring, first));
	slot_put(ring, slot_of(ring, second));
}

void refused(build_fn build, unsigned int q, enum fate fate, const struct guest_opt *opt)
{
	struct rig r;
	struct ring *ring = &r.g.q[q];
	unsigned int bad;

	start(&r, opt);
	rig_pass(&r, 3, 0, FRAME_MIN);
	build(&r.g, ring);
	bad = ring->avail->ring[(ring->next_avail - 1) & (ring->num - 1)];
	provoke(&r, q, 1);
	CHECK(ring_error(ring, WAIT_MS), "no error on queue %u", q);
	expect_quiet(&r, q);
	other_queue(&r, q);
	CHECK(!ring_error(&r.g.q[!q], 0), "error on the wrong queue");
	repair(&r, q, fate, bad);
	rig_alive(&r);
	rig_stop(&r);
}

void refused_both(build_fn build, enum fate fate)
{
	refused(build, RXQ, fate, NULL);
	refused(build, TXQ, fate, NULL);
}

static struct vring_desc desc_at(struct guest *g, struct ring *r, uint64_t table,
				 unsigned int i)
{
	struct vring_desc d;

	if (table)
		memcpy(&d, gva(g, table + i * sizeof(d)), sizeof(d));
	else
		d = *(struct vring_desc *)&r->desc[i];
	return d;
}

/* Walks a chain and copies up to len bytes; returns the bytes of all its parts. */
static unsigned int chain_copy(struct guest *g, struct ring *r, unsigned int head,
			       char *buf, unsigned int len, bool in)
{
	unsigned int i = head, done = 0, total = 0;
	uint64_t table = 0;

	for (;;) {
		struct vring_desc d = desc_at(g, r, table, i);
		unsigned int n = d.len < len - done ? d.len : len - done;

		if (d.flags & VRING_DESC_F_INDIRECT && !table) {
			table = d.addr;
			i = 0;
			continue;
		}
		if (n)
			memcpy(in ? gva(g, d.addr) : buf + done,
			       in ? buf + done : gva(g, d.addr), n);
		done += n;
		total += d.len;
		if (!(d.flags & VRING_DESC_F_NEXT))
			break;
		i = d.next;
	}
	EQ(done, len);
	return total;
}

static unsigned int chain_len(struct guest *g, struct ring *r, unsigned int head)
{
	return chain_copy(g, r, head, NULL, 0, false);
}

void chain_put(struct guest *g, struct ring *r, unsigned int head, const void *src,
	       unsigned int len)
{
	chain_copy(g, r, head, (char *)src, len, true);
}

void chain_get(struct guest *g, struct ring *r, unsigned int head, void *dst,
	       unsigned int len)
{
	chain_copy(g, r, head, dst, len, false);
}

/* The frame that the host got: what the whole chain held behind the header. */
static const char *host_got(struct rig *r, unsigned int chain_len, uint32_t seq)
{
	static char buf[8192];
	size_t got = sizeof(buf);

	if (!host_recv(r->host, buf, &got, WAIT_MS))
		return "no frame at the host";
	if (got != chain_len - r->g.hlen)
		return "the host got another number of bytes";
	return frame_error(buf, FRAME_MIN, FRAME_MIN, seq);
}

void accepted(build_fn build, unsigned int q, const struct guest_opt *opt)
{
	static char buf[FRAME_MIN + 64];
	struct rig r;
	struct ring *ring = &r.g.q[q];
	unsigned int head, len;
	struct vring_used_elem e;
	const char *err;

	start(&r, opt);
	len = r.g.hlen + FRAME_MIN;
	/* Detached, so that nobody looks at the chain before it has its contents. */
	OK(guest_backend(&r.g, q, -1));
	build(&r.g, ring);
	head = ring->avail->ring[(ring->next_avail - 1) & (ring->num - 1)];
	memset(buf, 0, sizeof(buf));
	frame_make(buf + r.g.hlen, FRAME_MIN, 9, q == RXQ);
	link_set_mtu(r.tap.name, 9000);
	if (q == TXQ)
		chain_put(&r.g, ring, head, buf, len);
	OK(guest_backend(&r.g, q, r.tap.fd));
	provoke(&r, q, 9);
	CHECK(ring_wait(ring, &e, WAIT_MS), "queue %u did not use the chain", q);
	EQ(e.id, head);
	if (q == TXQ) {
		err = host_got(&r, chain_len(&r.g, ring, head), 9);
	} else {
		EQ(e.len, len);
		chain_get(&r.g, ring, head, buf, len);
		err = frame_error(buf + r.g.hlen, FRAME_MIN, FRAME_MIN, 9);
	}
	CHECK(!err, "queue %u: %s", q, err);
	CHECK(!ring_error(ring, 0), "error on a good chain, queue %u", q);
	rig_stop(&r);
}

void accepted_both(build_fn build, const struct guest_opt *opt)
{
	accepted(build, RXQ, opt);
	accepted(build, TXQ, opt);
}
