// SPDX-License-Identifier: GPL-2.0
/* How headers and frames lie over descriptors and buffers. */
#define _GNU_SOURCE
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "util.h"

static char big[FRAME_MAX + 64];

static void each_header(enum layout l)
{
	static const uint64_t sets[] = { 0, F_MRG, F_MODERN, F_MODERN | F_MRG };

	for (int i = 0; i < 4; i++) {
		struct rig r;

		rig_start(&r, &(struct guest_opt){
			.features = sets[i] | F_INDIRECT, .layout = l, .num = 128 });
		rig_pass(&r, 500, 500, 0);
		rig_stop(&r);
	}
}

TEST(traffic, header_together, 30) { each_header(ONE); }
TEST(traffic, header_own, 30) { each_header(HDR_OWN); }
TEST(traffic, header_split, 30) { each_header(HDR_SPLIT); }
TEST(traffic, header_indirect, 30) { each_header(INDIRECT); }

static void send_frame(struct rig *r, unsigned int len, uint32_t seq)
{
	static char buf[FRAME_MAX];

	frame_make(buf, len, seq, true);
	host_send(r->host, buf, len);
}

/* Waits for frame seq; returns the number of buffers it took. */
static unsigned int expect_frame(struct rig *r, unsigned int len, uint32_t seq)
{
	unsigned int n = 0, got = guest_recv_wait(&r->g, big, sizeof(big), &n, WAIT_MS);
	const char *err;

	CHECK(got, "frame %u of %u bytes did not come", seq, len);
	err = frame_error(big + r->g.hlen, got - r->g.hlen, len, seq);
	CHECK(!err, "frame %u of %u bytes: %s (%u bytes)", seq, len, err, got);
	return n;
}

static unsigned int header_num_buffers(void)
{
	uint16_t n;

	memcpy(&n, big + offsetof(struct virtio_net_hdr_mrg_rxbuf, num_buffers), 2);
	return n;
}

/* Too big for the only buffer: dropped, and the buffer stays for the next one. */
TEST(traffic, oversize_dropped, 30)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .bufsz = 100 });
	guest_fill_n(&r.g, 1);
	ring_kick(&r.g.q[RXQ]);
	for (uint32_t i = 0; i < 10; i++)
		send_frame(&r, 1500 - i, i);
	send_frame(&r, FRAME_MIN, 10);
	EQ(expect_frame(&r, FRAME_MIN, 10), 1);
	EQ(header_num_buffers(), 1);
	EQ(r.g.q[RXQ].used->idx, 1);
	EQ(guest_get_base(&r.g, RXQ), 1);
	EQ(eventfd_take(r.g.q[RXQ].err), 0);
	rig_stop(&r);
}

/* A frame that just fits, and one that is a byte too long. */
TEST(traffic, exact_fit, 30)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .bufsz = 12 + 300 });
	guest_fill(&r.g);
	ring_kick(&r.g.q[RXQ]);
	send_frame(&r, 300, 0);
	send_frame(&r, 301, 1);
	send_frame(&r, 299, 2);
	expect_frame(&r, 300, 0);
	expect_frame(&r, 299, 2);
	rig_stop(&r);
}

/* VERSION_1 has num_buffers, and it is 1 without MRG_RXBUF. */
TEST(traffic, num_buffers_without_mrg, 30)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	memset(r.g.mem + (r.g.q[RXQ].data - GPA_BASE), 0xee, 4096);
	guest_fill_n(&r.g, 1);
	ring_kick(&r.g.q[RXQ]);
	send_frame(&r, 100, 0);
	expect_frame(&r, 100, 0);
	EQ(header_num_buffers(), 1);
	rig_stop(&r);
}

/* ceil(len / buffer) buffers; a jumbo frame spills over several. */
TEST(traffic, mrg_spill, 30)
{
	static const unsigned int lens[] = { 60, 1511, 1523, 1524, 1525, 3060, 3061, 8999, 9014 };
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_MRG, .bufsz = 1536 });
	link_set_mtu(r.tap.name, 9000);
	guest_fill(&r.g);
	ring_kick(&r.g.q[RXQ]);
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		send_frame(&r, lens[i], i);
		EQ(expect_frame(&r, lens[i], i), (lens[i] + 12 + 1535) / 1536);
	}
	rig_stop(&r);
}

/* Buffers smaller than the header, and around its size. */
TEST(traffic, mrg_tiny_buffers, 30)
{
	static const unsigned int sizes[] = { 1, 5, 10, 11, 12, 13, 64 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct rig r;
		unsigned int len = FRAME_MIN + (unsigned int)i;

		rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_MRG,
						   .bufsz = sizes[i], .num = 256 });
		guest_fill(&r.g);
		ring_kick(&r.g.q[RXQ]);
		send_frame(&r, len, 3);
		EQ(expect_frame(&r, len, 3), (len + 12 + sizes[i] - 1) / sizes[i]);
		rig_stop(&r);
	}
}

/* 1024 buffers is the most a frame may take; one more drops the frame. */
TEST(traffic, mrg_1024_heads, 30)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_MRG, .bufsz = 1,
					   .num = 2048 });
	guest_fill(&r.g);
	ring_kick(&r.g.q[RXQ]);
	send_frame(&r, 1024 - 12, 0);
	EQ(expect_frame(&r, 1024 - 12, 0), 1024);
	guest_fill(&r.g);
	ring_kick(&r.g.q[RXQ]);
	send_frame(&r, 1025 - 12, 1);
	send_frame(&r, FRAME_MIN, 2);
	EQ(expect_frame(&r, FRAME_MIN, 2), FRAME_MIN + 12);
	rig_stop(&r);
}

/* Small frames waiting as a batch, then one that takes very many buffers. */
TEST(traffic, mrg_batch_then_many_heads, 30)
{
	static const unsigned int heads[] = { 960, 961, 962, 1000 };

	for (int k = 0; k < 4; k++) {
		struct rig r;
		struct ring *q;

		rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_MRG,
						   .bufsz = 1, .num = 2048 });
		q = &r.g.q[RXQ];
		/* 63 big buffers: one descriptor each, in front of the one-byte ones. */
		uint64_t room = guest_alloc(&r.g, 63 * 2048, 64);

		for (unsigned int i = 0; i < 63; i++) {
			unsigned int slot = (unsigned int)slot_get(q);

			ring_desc(q, slot, room + i * 2048ULL, 2048, VRING_DESC_F_WRITE, 0);
			ring_post(q, slot);
		}
		guest_fill_n(&r.g, 1100);
		for (uint32_t i = 0; i < 63; i++)
			send_frame(&r, FRAME_MIN, i);
		send_frame(&r, heads[k] - 12, 63);
		ring_kick(q);
		for (uint32_t i = 0; i < 63; i++) {
			struct vring_used_elem e;

			CHECK(ring_wait(q, &e, WAIT_MS), "frame %u", i);
			EQ(e.id, i);
			EQ(e.len, FRAME_MIN + 12);
			CHECK(!frame_error((char *)gva(&r.g, room + i * 2048ULL) + 12,
					   FRAME_MIN, FRAME_MIN, i), "frame %u", i);
		}
		EQ(expect_frame(&r, heads[k] - 12, 63), heads[k]);
		rig_stop(&r);
	}
}

/* Too few buffers for the frame: it waits, complete, until more are there. */
TEST(traffic, mrg_waits_for_buffers, 30)
{
	struct rig r;
	struct vring_used_elem e;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_MRG, .bufsz = 400 });
	guest_fill_n(&r.g, 2);
	ring_kick(&r.g.q[RXQ]);
	send_frame(&r, 1400, 0);
	CHECK(!ring_wait(&r.g.q[RXQ], &e, 100), "half a frame was delivered");
	guest_fill_n(&r.g, 1);
	ring_kick(&r.g.q[RXQ]);
	CHECK(!ring_wait(&r.g.q[RXQ], &e, 100), "half a frame was delivered");
	guest_fill_n(&r.g, 1);
	ring_kick(&r.g.q[RXQ]);
	EQ(expect_frame(&r, 1400, 0), 4);
	rig_stop(&r);
}

/* One big buffer takes every frame whole. */
TEST(traffic, mrg_big_buffers, 30)
{
	static const unsigned int lens[] = { 64, 1514, 9014, 20000, 65000 };
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_MRG, .bufsz = 65562,
					   .num = 64 });
	link_set_mtu(r.tap.name, 65000);
	guest_fill(&r.g);
	ring_kick(&r.g.q[RXQ]);
	for (uint32_t i = 0; i < 5; i++) {
		send_frame(&r, lens[i], i);
		EQ(expect_frame(&r, lens[i], i), 1);
	}
	rig_stop(&r);
}

/* Frames up to the largest out of the guest: batched and single path. */
TEST(traffic, tx_big, 30)
{
	static const unsigned int lens[] = { 60, 3000, 3700, 3800, 4000, 4096, 9014, 65000 };
	struct rig r;
	char *frame = big;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .bufsz = 65562, .num = 64 });
	link_set_mtu(r.tap.name, 65000);
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		frame_make(frame, lens[i], i, false);
		CHECK(guest_send(&r.g, frame, lens[i]));
	}
	ring_kick(&r.g.q[TXQ]);
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		size_t len = sizeof(big);
		const char *err;

		CHECK(host_recv(r.host, big, &len, WAIT_MS), "frame %u", i);
		err = frame_error(big, (unsigned int)len, lens[i], i);
		CHECK(!err, "frame %u of %u bytes: %s (%zu bytes)", i, lens[i], err, len);
	}
	rig_stop(&r);
}

/* Less than an Ethernet header: dropped, used, and its neighbours arrive. */
TEST(traffic, tx_short_payload, 30)
{
	static const unsigned int shorts[] = { 0, 1, 13 };
	struct rig r;
	uint32_t good = 0, want = 0;
	unsigned int used = 0;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	for (unsigned int i = 0; i < 192; i++) {
		unsigned int len = FRAME_MIN;

		/* Positions 0, 31 and 63 of a batch, and one in five. */
		if (i % 64 == 0 || i % 64 == 31 || i % 64 == 63 || i % 5 == 0)
			len = shorts[i % 3];
		frame_make(big, FRAME_MIN, good, false);
		CHECK(guest_send(&r.g, big, len));
		good += len == FRAME_MIN;
	}
	ring_kick(&r.g.q[TXQ]);
	for (struct vring_used_elem e; used < 192; used++)
		CHECK(ring_wait(&r.g.q[TXQ], &e, WAIT_MS), "%u of 192 used", used);
	for (; want < good; want++) {
		size_t len = sizeof(big);

		CHECK(host_recv(r.host, big, &len, WAIT_MS), "%u of %u good frames", want, good);
		CHECK(!frame_error(big, (unsigned int)len, FRAME_MIN, want), "frame %u", want);
	}
	rig_stop(&r);
}
