// SPDX-License-Identifier: GPL-2.0
/* The fake guest: the driver's side of a split ring, buffers and frames. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "guest.h"
#include "ktap.h"
#include "util.h"

#define WRAP(r, i)	((i) & ((r)->num - 1))

static volatile uint16_t *used_event(struct ring *r)
{
	return &r->avail->ring[r->num];
}

static uint16_t avail_event(struct ring *r)
{
	return *(volatile uint16_t *)&r->used->ring[r->num];
}

void ring_reset(struct guest *g, unsigned int q, unsigned int base)
{
	struct ring *r = &g->q[q];

	r->avail->flags = 0;
	r->avail->idx = (uint16_t)base;
	r->used->flags = 0;
	r->used->idx = (uint16_t)base;
	r->next_avail = r->next_used = r->kicked = (uint16_t)base;
	if (r->event_idx)
		*used_event(r) = (uint16_t)base;
	memset(r->free_slots, 0, (r->slots + 63) / 64 * 8);
	for (unsigned int s = 0; s < r->slots; s++)
		slot_put(r, s);
	eventfd_take(r->call);
	eventfd_take(r->err);
}

void ring_desc(struct ring *r, unsigned int i, uint64_t addr, uint32_t len,
	       unsigned int flags, unsigned int next)
{
	r->desc[i].addr = addr;
	r->desc[i].len = len;
	r->desc[i].flags = (uint16_t)flags;
	r->desc[i].next = (uint16_t)next;
}

void ring_publish(struct ring *r, uint16_t avail_idx)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	r->avail->idx = avail_idx;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void ring_post(struct ring *r, unsigned int head)
{
	r->avail->ring[WRAP(r, r->next_avail)] = (uint16_t)head;
	ring_publish(r, ++r->next_avail);
}

void ring_kick_always(struct ring *r)
{
	uint64_t one = 1;

	r->kicked = r->next_avail;
	CHECK(write(r->kick, &one, sizeof(one)) == sizeof(one), "%s", strerror(errno));
}

bool ring_kick_wanted(struct ring *r)
{
	if (r->event_idx)
		return vring_need_event(avail_event(r), r->next_avail, r->kicked);
	return !(r->used->flags & VRING_USED_F_NO_NOTIFY);
}

void ring_kick(struct ring *r)
{
	if (ring_kick_wanted(r))
		ring_kick_always(r);
	r->kicked = r->next_avail;
}

bool ring_used(struct ring *r, struct vring_used_elem *e)
{
	if (r->used->idx == r->next_used)
		return false;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	*e = *(struct vring_used_elem *)&r->used->ring[WRAP(r, r->next_used)];
	r->next_used++;
	CHECK(e->id < r->num, "used id %u, ring size %u", e->id, r->num);
	return true;
}

bool ring_arm(struct ring *r)
{
	if (r->event_idx)
		*used_event(r) = r->next_used;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return r->used->idx != r->next_used;
}

void ring_calls(struct ring *r, bool on)
{
	r->avail->flags = on ? 0 : VRING_AVAIL_F_NO_INTERRUPT;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

bool ring_wait(struct ring *r, struct vring_used_elem *e, int ms)
{
	int64_t end = now_ms() + ms;

	while (!ring_arm(r)) {
		if (!wait_readable(r->call, end - now_ms()))
			return false;
		eventfd_take(r->call);
	}
	return ring_used(r, e);
}

bool ring_error(struct ring *r, int ms)
{
	return wait_readable(r->err, ms) && eventfd_take(r->err);
}

/* ---- slots ---- */

int slot_get(struct ring *r)
{
	for (unsigned int w = 0; w < (r->slots + 63) / 64; w++) {
		int bit = __builtin_ffsll((long long)r->free_slots[w]) - 1;

		if (bit < 0)
			continue;
		r->free_slots[w] &= ~(1ULL << bit);
		return (int)(w * 64) + bit;
	}
	return -1;
}

void slot_put(struct ring *r, unsigned int slot)
{
	uint64_t *w = &r->free_slots[slot / 64], bit = 1ULL << slot % 64;

	CHECK(slot < r->slots && !(*w & bit), "buffer %u given back twice", slot);
	*w |= bit;
}

unsigned int slot_of(struct ring *r, unsigned int head)
{
	CHECK(head % r->per_slot == 0, "used id %u is no head", head);
	return head / r->per_slot;
}

/* Lengths of the parts of `total` bytes; returns their number. */
static unsigned int cut(struct ring *r, unsigned int total, unsigned int len[3])
{
	unsigned int at[3] = { 0 }, n = 1, used = 0;

	if (r->layout == HDR_OWN || r->layout == INDIRECT) {
		at[0] = r->hlen;
		n = 2;
	} else if (r->layout == HDR_SPLIT) {
		at[0] = 5;
		at[1] = r->hlen - 5;
		n = 3;
	}
	for (unsigned int i = 0; i < n; i++) {
		len[i] = total - used;
		if (i < n - 1 && len[i] > at[i])
			len[i] = at[i];
		used += len[i];
		if (used == total)
			return i + 1;
	}
	return n;
}

static uint64_t part_addr(struct ring *r, unsigned int slot, unsigned int part,
			  unsigned int off)
{
	return r->data + (uint64_t)slot * r->stride + off + part * 64;
}

/* One part of a buffer as a descriptor of the right direction. */
static struct vring_desc part_desc(struct ring *r, uint64_t addr, unsigned int len,
				   bool last, unsigned int next)
{
	struct vring_desc d = {
		.addr = addr,
		.len = len,
		.next = (uint16_t)next,
		.flags = (uint16_t)((r->index == RXQ ? VRING_DESC_F_WRITE : 0) |
				    (last ? 0 : VRING_DESC_F_NEXT)),
	};

	return d;
}

void slot_post(struct guest *g, struct ring *r, unsigned int slot, unsigned int total)
{
	unsigned int len[3], n = cut(r, total, len), off = 0;
	unsigned int first = slot * r->per_slot;
	uint64_t table = r->tables + slot * 64ULL;
	struct vring_desc *t = gva(g, table);

	for (unsigned int i = 0; i < n; i++) {
		unsigned int next = (r->layout == INDIRECT ? 0 : first) + i + 1;
		struct vring_desc d = part_desc(r, part_addr(r, slot, i, off), len[i],
						i == n - 1, next);

		if (r->layout == INDIRECT)
			t[i] = d;
		else
			ring_desc(r, first + i, d.addr, d.len, d.flags, d.next);
		off += len[i];
	}
	if (r->layout == INDIRECT)
		ring_desc(r, first, table, n * sizeof(*t), VRING_DESC_F_INDIRECT, 0);
	ring_post(r, first);
}

static void slot_copy(struct guest *g, struct ring *r, unsigned int slot, char *buf,
		      unsigned int total, unsigned int size, bool in)
{
	unsigned int len[3], n = cut(r, total, len), off = 0;

	for (unsigned int i = 0; i < n && off < size; i++) {
		char *p = gva(g, part_addr(r, slot, i, off));
		unsigned int l = len[i] < size - off ? len[i] : size - off;

		memcpy(in ? p : buf + off, in ? buf + off : p, l);
		off += len[i];
	}
}

void slot_write(struct guest *g, struct ring *r, unsigned int slot, const void *src,
		unsigned int len)
{
	slot_copy(g, r, slot, (char *)src, len, len, true);
}

void slot_read(struct guest *g, struct ring *r, unsigned int slot, void *dst,
	       unsigned int len)
{
	slot_copy(g, r, slot, dst, r->bufsz, len, false);
}

/* ---- frames ---- */

bool guest_send(struct guest *g, const void *frame, unsigned int len)
{
	static char buf[70000];
	struct ring *r = &g->q[TXQ];
	int slot = slot_get(r);

	if (slot < 0)
		return false;
	CHECK(g->hlen + len <= r->bufsz, "frame of %u bytes, buffer of %u", len, r->bufsz);
	memset(buf, 0, g->hlen);
	memcpy(buf + g->hlen, frame, len);
	slot_write(g, r, (unsigned int)slot, buf, g->hlen + len);
	slot_post(g, r, (unsigned int)slot, g->hlen + len);
	return true;
}

/* The next used entry that names a slot. Chains made by hand come back empty, if at all. */
static bool used_slot(struct ring *r, struct vring_used_elem *e)
{
	while (ring_used(r, e)) {
		if (e->id < r->slots * r->per_slot)
			return true;
		CHECK(!e->len, "used id %u, which is no slot, with length %u", e->id, e->len);
	}
	return false;
}

unsigned int guest_reclaim(struct guest *g)
{
	struct ring *r = &g->q[TXQ];
	struct vring_used_elem e;
	unsigned int n = 0;

	for (; used_slot(r, &e); n++)
		slot_put(r, slot_of(r, e.id));
	return n;
}

unsigned int guest_fill_n(struct guest *g, unsigned int max)
{
	struct ring *r = &g->q[RXQ];
	unsigned int n = 0;
	int slot;

	for (; n < max && (slot = slot_get(r)) >= 0; n++)
		slot_post(g, r, (unsigned int)slot, r->bufsz);
	return n;
}

unsigned int guest_fill(struct guest *g)
{
	return guest_fill_n(g, ~0U);
}

/* num_buffers as the device wrote it, 1 where the header has no such field. */
static unsigned int num_buffers(struct guest *g, const char *hdr)
{
	uint16_t n;

	if (!(g->opt.features & F_MRG))
		return 1;
	memcpy(&n, hdr + offsetof(struct virtio_net_hdr_mrg_rxbuf, num_buffers), 2);
	return n;
}

static unsigned int take_buffer(struct guest *g, const struct vring_used_elem *e,
				char *dst, unsigned int room)
{
	struct ring *r = &g->q[RXQ];
	unsigned int slot = slot_of(r, e->id);

	CHECK(e->len <= r->bufsz, "used length %u, buffer of %u", e->len, r->bufsz);
	CHECK(e->len <= room, "frame larger than expected");
	slot_read(g, r, slot, dst, e->len);
	slot_put(r, slot);
	return e->len;
}

unsigned int guest_recv(struct guest *g, void *buf, unsigned int size,
			unsigned int *nbufs)
{
	struct ring *r = &g->q[RXQ];
	struct vring_used_elem e;
	unsigned int len, n, i;

	if (!used_slot(r, &e))
		return 0;
	len = take_buffer(g, &e, buf, size);
	/* Buffers shorter than the header: the count is known once it is complete. */
	for (i = 1; len < g->hlen && used_slot(r, &e); i++)
		len += take_buffer(g, &e, (char *)buf + len, size - len);
	CHECK(len >= g->hlen, "%u bytes, less than a header", len);
	n = num_buffers(g, buf);
	CHECK(n >= i, "num_buffers %u, header alone took %u", n, i);
	for (; i < n; i++) {
		CHECK(ring_used(r, &e), "%u of %u buffers of a frame are used", i, n);
		len += take_buffer(g, &e, (char *)buf + len, size - len);
	}
	if (nbufs)
		*nbufs = n;
	return len;
}

unsigned int guest_recv_wait(struct guest *g, void *buf, unsigned int size,
			     unsigned int *nbufs, int ms)
{
	struct ring *r = &g->q[RXQ];
	int64_t end = now_ms() + ms;

	while (!ring_arm(r)) {
		if (!wait_readable(r->call, end - now_ms()))
			return 0;
		eventfd_take(r->call);
	}
	return guest_recv(g, buf, size, nbufs);
}
