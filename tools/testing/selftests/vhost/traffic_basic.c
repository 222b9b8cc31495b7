// SPDX-License-Identifier: GPL-2.0
/* Numbered frames both ways over feature sets, ring sizes and index wraps. */
#define _GNU_SOURCE
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "util.h"

static void pass(struct guest_opt opt, unsigned long tx, unsigned long rx)
{
	struct rig r;

	rig_start(&r, &opt);
	rig_pass(&r, tx, rx, 0);
	EQ(eventfd_take(r.g.q[RXQ].err), 0);
	EQ(eventfd_take(r.g.q[TXQ].err), 0);
	rig_stop(&r);
}

/* The full count also in a quick run: so many that every index goes round. */
TEST(traffic, both_ways_100000, 180)
{
	pass((struct guest_opt){ .features = F_MODERN | F_MRG | F_EVENT }, 100000, 100000);
}

TEST(traffic, tx_only, 60)
{
	pass((struct guest_opt){ .features = F_MODERN }, FRAMES, 0);
}

TEST(traffic, rx_only, 60)
{
	pass((struct guest_opt){ .features = F_MODERN }, 0, FRAMES);
}

TEST(traffic, modern, 30)
{
	pass((struct guest_opt){ .features = F_MODERN }, 2000, 2000);
}

TEST(traffic, mergeable, 30)
{
	pass((struct guest_opt){ .features = F_MODERN | F_MRG }, 2000, 2000);
}

/* Ten bytes of header, no num_buffers. */
TEST(traffic, legacy, 30)
{
	pass((struct guest_opt){ .features = 0 }, 2000, 2000);
}

TEST(traffic, legacy_mergeable, 30)
{
	pass((struct guest_opt){ .features = F_MRG }, 2000, 2000);
}

/* The tap has no header: vhost makes and strips it. */
TEST(traffic, header_by_vhost, 30)
{
	const uint64_t hdr = BIT(VHOST_NET_F_VIRTIO_NET_HDR);

	pass((struct guest_opt){ .features = hdr }, 1000, 1000);
	pass((struct guest_opt){ .features = hdr | F_MRG }, 1000, 1000);
	pass((struct guest_opt){ .features = hdr | F_MODERN }, 1000, 1000);
}

TEST(traffic, tunnel_header, 30)
{
	pass((struct guest_opt){ .features = F_MODERN | F_MRG,
				 .features1 = FEATURES_WORD1 }, 1000, 1000);
}

TEST(traffic, ring_reset_feature, 30)
{
	pass((struct guest_opt){ .features = F_MODERN | BIT(VIRTIO_F_RING_RESET) }, 500, 500);
}

/* Indices pass 65535 after six frames. */
TEST(traffic, index_wrap, 30)
{
	static const unsigned int nums[] = { 4, 256, 1024 };

	for (int i = 0; i < 3; i++)
		for (int e = 0; e < 2; e++)
			pass((struct guest_opt){
				.features = F_MODERN | F_MRG | (e ? F_EVENT : 0),
				.num = nums[i], .base = 65530 }, 600, 600);
}

/* The same without help: more frames than indices. */
TEST(traffic, index_wrap_long, 60)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_EVENT });
	rig_pass(&r, 66000, 66000, FRAME_MIN);
	rig_stop(&r);
}

/* Chain number i; the buffers are taken in another order after each round of the index. */
static unsigned int numbered_slot(uint32_t i)
{
	return i % 251;
}

static void numbered_post(struct rig *r, uint32_t i)
{
	static unsigned char buf[FRAME_MIN + 64];
	struct ring *q = &r->g.q[TXQ];

	frame_make(buf + r->g.hlen, FRAME_MIN, i, false);
	slot_write(&r->g, q, numbered_slot(i), buf, r->g.hlen + FRAME_MIN);
	slot_post(&r->g, q, numbered_slot(i), r->g.hlen + FRAME_MIN);
}

/* Looks at memory only: sleeping and waking for each chain would take minutes. */
static void numbered_done(struct rig *r, uint32_t i)
{
	struct ring *q = &r->g.q[TXQ];
	int64_t end = now_ms() + WAIT_MS;
	struct vring_used_elem e;
	unsigned char buf[2048];
	size_t len = sizeof(buf);

	while (!ring_used(q, &e))
		CHECK(now_ms() < end, "chain %u is not used", i);
	CHECK(e.id == numbered_slot(i), "chain %u: used id %u, expected %u", i, e.id,
	      numbered_slot(i));
	CHECK(host_recv(r->host, buf, &len, WAIT_MS), "frame %u lost", i);
	CHECK(!frame_error(buf, (unsigned int)len, FRAME_MIN, i), "frame %u, it says %u", i,
	      frame_seq(buf));
}

/*
 * A burst, which a device may fetch ahead, and then one chain at a time until the
 * index is there again: nothing of the burst may be left.
 */
TEST(traffic, one_chain_at_a_time_70000, 90)
{
	const uint32_t burst = 16, n = 70000;
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	ring_calls(&r.g.q[TXQ], false);
	for (uint32_t i = 0; i < burst; i++)
		numbered_post(&r, i);
	ring_kick(&r.g.q[TXQ]);
	for (uint32_t i = 0; i < burst; i++)
		numbered_done(&r, i);
	for (uint32_t i = burst; i < n; i++) {
		numbered_post(&r, i);
		ring_kick(&r.g.q[TXQ]);
		numbered_done(&r, i);
	}
	rig_stop(&r);
}

static void ring_size(unsigned int num, unsigned int bufsz, unsigned long n)
{
	for (int e = 0; e < 2; e++)
		pass((struct guest_opt){ .features = F_MODERN | (e ? F_EVENT : 0),
					 .num = num, .bufsz = bufsz }, n, n);
}

TEST(traffic, ring_1, 30) { ring_size(1, 2048, 200); }
TEST(traffic, ring_2, 30) { ring_size(2, 2048, 300); }
TEST(traffic, ring_4, 30) { ring_size(4, 2048, 500); }
TEST(traffic, ring_1024, 30) { ring_size(1024, 2048, WAIT_MS); }

TEST(traffic, ring_32768, 60)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_EVENT, .num = 32768,
					   .bufsz = 128 });
	rig_pass(&r, 1000, 1000, FRAME_MIN);
	rig_stop(&r);
}

/* All of a big ring made available by one index store. */
TEST(traffic, ring_32768_full, 60)
{
	struct rig r;
	struct vring_used_elem e;
	unsigned char frame[FRAME_MIN];
	unsigned int seen = 0;
	uint16_t start;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .num = 32768,
					   .bufsz = 128, .base = 40000 });
	start = r.g.q[TXQ].next_avail;
	frame_make(frame, sizeof(frame), 0, false);
	while (guest_send(&r.g, frame, sizeof(frame)))
		;
	EQ((uint16_t)(r.g.q[TXQ].next_avail - start), 32768);
	ring_kick(&r.g.q[TXQ]);
	for (; seen < 32768; seen++)
		CHECK(ring_wait(&r.g.q[TXQ], &e, WAIT_MS), "%u of 32768 used", seen);
	CHECK(!ring_used(&r.g.q[TXQ], &e), "more used than available");
	rig_stop(&r);
}

/* Buffers posted and frames sent before the attach are handled without a kick. */
TEST(traffic, posted_before_attach, 30)
{
	struct rig r;
	struct vring_used_elem e;
	unsigned char frame[FRAME_MIN], buf[2048];

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	guest_detach_both(&r.g);
	guest_fill_n(&r.g, 8);
	frame_make(frame, sizeof(frame), 1, false);
	CHECK(guest_send(&r.g, frame, sizeof(frame)));
	frame_make(frame, sizeof(frame), 2, true);
	host_send(r.host, frame, sizeof(frame));
	guest_attach_both(&r.g, r.tap.fd);
	CHECK(ring_wait(&r.g.q[TXQ], &e, WAIT_MS), "TX waits for a kick");
	EQ(guest_recv_wait(&r.g, buf, sizeof(buf), NULL, WAIT_MS), 12 + FRAME_MIN);
	rig_stop(&r);
}

/* Kicks on a queue without a backend do nothing and do no harm. */
TEST(traffic, kick_while_detached, 30)
{
	struct rig r;
	struct vring_used_elem e;
	unsigned char frame[FRAME_MIN] = { 0 };

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	OK(guest_backend(&r.g, TXQ, -1));
	CHECK(guest_send(&r.g, frame, sizeof(frame)));
	for (int i = 0; i < 100; i++)
		ring_kick_always(&r.g.q[TXQ]);
	CHECK(!ring_wait(&r.g.q[TXQ], &e, 50), "served without a backend");
	EQ(guest_get_base(&r.g, TXQ), 0);
	rig_alive(&r);
	rig_stop(&r);
}
