// SPDX-License-Identifier: GPL-2.0
/* Runaway avail indices, and refusals at every position of the ring. */
#define _GNU_SOURCE
#include <unistd.h>

#include "chains.h"
#include "util.h"

/* Sends frames and waits for their chains, which come back later than the host has them. */
static void send_some(struct rig *r, unsigned int n)
{
	struct ring *q = &r->g.q[TXQ];

	rig_pass(r, n, 0, FRAME_MIN);
	for (int64_t end = now_ms() + WAIT_MS; q->used->idx != q->next_avail; sleep_ms(1))
		CHECK(now_ms() < end, "a chain was not given back");
	guest_reclaim(&r->g);
}

/* Publishes an index `delta` away from the right one, looks at the outcome, repairs. */
static void jump(unsigned int q, unsigned int num, unsigned int base, unsigned int delta)
{
	struct rig r;
	struct ring *ring = &r.g.q[q];
	uint16_t used;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .num = num, .base = base,
					   .bufsz = 128 });
	send_some(&r, 5);
	used = ring->used->idx;
	ring_publish(ring, (uint16_t)(ring->next_avail + delta));
	ring_kick_always(ring);
	if (q == RXQ)
		host_frame(&r, 0);
	CHECK(ring_error(ring, WAIT_MS), "queue %u: jump by %u of %u taken", q, delta, num);
	sleep_ms(20);
	EQ(ring->used->idx, used);
	rig_pass(&r, q == RXQ ? 30 : 0, q == RXQ ? 0 : 30, FRAME_MIN);
	ring_publish(ring, ring->next_avail);
	eventfd_take(ring->err);
	ring_kick_always(ring);
	if (q == TXQ)
		rig_pass(&r, 30, 0, FRAME_MIN);
	rig_alive(&r);
	rig_stop(&r);
}

TEST(chains, avail_jump, 60)
{
	for (unsigned int q = 0; q < NQ; q++) {
		jump(q, 256, 0, 257);
		jump(q, 256, 65400, 257);
		jump(q, 256, 0, 0x8000);
		jump(q, 256, 0, 0xffff - 5);
		jump(q, 16, 65530, 17);
		jump(q, 32768, 0, 32769);
	}
}

TEST(chains, avail_back_by_one, 30)
{
	for (unsigned int q = 0; q < NQ; q++) {
		jump(q, 256, 0, 0xffff);
		jump(q, 256, 65531, 0xffff);
	}
}

/* A jump by exactly the ring size is a full ring. */
TEST(chains, avail_full_ring, 30)
{
	static const unsigned int bases[] = { 0, 1, 65535 };

	for (int i = 0; i < 3; i++) {
		struct rig r;
		struct vring_used_elem e;
		unsigned char frame[FRAME_MIN];

		rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .num = 16,
						   .base = bases[i] });
		frame_make(frame, sizeof(frame), 0, false);
		for (int k = 0; k < 16; k++)
			CHECK(guest_send(&r.g, frame, sizeof(frame)), "%d", k);
		ring_kick(&r.g.q[TXQ]);
		for (int k = 0; k < 16; k++)
			CHECK(ring_wait(&r.g.q[TXQ], &e, WAIT_MS), "%d of 16", k);
		CHECK(!ring_error(&r.g.q[TXQ], 0), "error on a full ring");
		rig_stop(&r);
	}
}

/*
 * A frame that needs three buffers, of which the third is bad: none of the three
 * is used, at any place of the ring, and the frame is not torn.
 */
static void third_head_bad(unsigned int base)
{
	static char buf[2048];
	struct rig r;
	struct ring *q = &r.g.q[RXQ];
	unsigned char frame[300];
	unsigned int n = 0;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_MRG, .base = base,
					   .bufsz = 110 });
	guest_fill_n(&r.g, 2);
	ring_post(q, 60000);
	ring_kick_always(q);
	frame_make(frame, sizeof(frame), 4, true);
	host_send(r.host, frame, sizeof(frame));
	CHECK(ring_error(q, WAIT_MS), "base %u: no error", base);
	sleep_ms(10);
	EQ(q->used->idx, (uint16_t)base);
	EQ(guest_get_base(&r.g, RXQ), base);
	rig_pass(&r, 30, 0, FRAME_MIN);
	q->next_avail--;
	guest_fill_n(&r.g, 1);
	ring_kick_always(q);
	EQ(guest_recv_wait(&r.g, buf, sizeof(buf), &n, WAIT_MS), 312);
	EQ(n, 3);
	CHECK(!frame_error(buf + 12, 300, 300, 4), "torn frame");
	rig_alive(&r);
	rig_stop(&r);
}

TEST(chains, mrg_third_head_bad, 30)
{
	third_head_bad(0);
	third_head_bad(255);
	third_head_bad(65534);
	third_head_bad(65535);
}

/* Bad chains in a row: one error per kick, and none without. */
TEST(chains, bad_chain_at_every_kick, 30)
{
	struct rig r;
	struct ring *q = &r.g.q[TXQ];

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	ring_post(q, 60000);
	for (int i = 0; i < 50; i++) {
		ring_kick_always(q);
		CHECK(ring_error(q, WAIT_MS), "kick %d: no error", i);
	}
	EQ(q->used->idx, 0);
	EQ(guest_get_base(&r.g, TXQ), 0);
	rig_alive(&r);
	rig_stop(&r);
}

/* Refusals work without an error eventfd, too. */
TEST(chains, bad_chain_without_eventfds, 30)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	for (unsigned int q = 0; q < NQ; q++) {
		OK(guest_vring_file(&r.g, VHOST_SET_VRING_ERR, q, -1));
		OK(guest_vring_file(&r.g, VHOST_SET_VRING_CALL, q, -1));
		ring_post(&r.g.q[q], 60000);
		ring_kick_always(&r.g.q[q]);
		host_frame(&r, 0);
	}
	sleep_ms(50);
	for (unsigned int q = 0; q < NQ; q++)
		OK(guest_vring_file(&r.g, VHOST_SET_VRING_CALL, q, r.g.q[q].call));
	rig_alive(&r);
	rig_stop(&r);
}

/* A bad chain in the way, a good one in its place, and a second good one behind. */
static void repair_and_add(struct rig *r, struct ring *ring, unsigned int heads[2])
{
	static char buf[FRAME_MIN + 64];

	frame_make(buf + r->g.hlen, FRAME_MIN, 7, false);
	ring->next_avail--;
	for (int i = 0; i < 2; i++) {
		unsigned int slot = (unsigned int)slot_get(ring);
		unsigned int len = r->g.hlen + FRAME_MIN;

		heads[i] = slot * ring->per_slot;
		if (ring->index == TXQ)
			slot_write(&r->g, ring, slot, buf, len);
		slot_post(&r->g, ring, slot, ring->index == TXQ ? len : ring->bufsz);
	}
}

static void kick_wanted(unsigned int q, uint64_t features)
{
	struct rig r;
	struct ring *ring = &r.g.q[q];
	bool want = expect("kick_after_bad_chain");
	int64_t end;
	unsigned int heads[2];
	struct vring_used_elem e;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | features });
	send_some(&r, 3);
	ring_post(ring, 60000);
	ring_kick_always(ring);
	for (uint32_t i = 0; q == RXQ && i < 2; i++)
		host_frame(&r, i);
	CHECK(ring_error(ring, WAIT_MS), "queue %u: no error", q);
	repair_and_add(&r, ring, heads);
	/* The error is signalled while the handler still runs. */
	end = now_ms() + (want ? WAIT_MS : 50);
	while (!ring_kick_wanted(ring) && now_ms() < end)
		sleep_ms(1);
	CHECK(ring_kick_wanted(ring) == want, "queue %u, features %llx: kick wanted: %d", q,
	      (unsigned long long)features, !want);
	if (want)
		ring_kick(ring);
	else
		ring_kick_always(ring);
	for (int i = 0; i < 2; i++) {
		CHECK(ring_wait(ring, &e, WAIT_MS), "queue %u: no recovery", q);
		EQ(e.id, heads[i]);
		slot_put(ring, slot_of(ring, e.id));
	}
	rig_alive(&r);
	rig_stop(&r);
}

/* A driver that only kicks when it is asked to recovers from a bad chain by itself. */
TEST(chains, kick_wanted_after_bad_chain, 30)
{
	for (unsigned int q = 0; q < NQ; q++) {
		kick_wanted(q, 0);
		kick_wanted(q, F_EVENT);
	}
}
