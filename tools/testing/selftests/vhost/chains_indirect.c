// SPDX-License-Identifier: GPL-2.0
/* Indirect descriptor tables. */
#define _GNU_SOURCE
#include "chains.h"
#include "util.h"

#define NEXT		VRING_DESC_F_NEXT
#define WRITE		VRING_DESC_F_WRITE
#define INDIRECT_F	VRING_DESC_F_INDIRECT

/* Tables lie behind the buffers. */
#define TABLE	(area + (2 << 20))

static void entry(struct guest *g, unsigned int i, uint64_t addr, unsigned int len,
		  unsigned int flags, unsigned int next)
{
	struct vring_desc d = {
		.addr = addr, .len = len, .flags = (uint16_t)flags, .next = (uint16_t)next,
	};

	memcpy(gva(g, TABLE + i * sizeof(d)), &d, sizeof(d));
}

static void post_table(struct ring *r, uint64_t addr, unsigned int bytes)
{
	ring_desc(r, D, addr, bytes, INDIRECT_F, 0);
	ring_post(r, D);
}

/* n entries that would be fine: 16 bytes each, the last one larger. */
static void good_table(struct guest *g, struct ring *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		entry(g, i, area + i * 64ULL, i < n - 1 ? 1 : 2048,
		      dir(r) | (i < n - 1 ? NEXT : 0), i + 1);
}

static void length_case(struct guest *g, struct ring *r, unsigned int bytes)
{
	good_table(g, r, 4);
	post_table(r, TABLE, bytes);
}

static void table_length_0(struct guest *g, struct ring *r) { length_case(g, r, 0); }
static void table_length_15(struct guest *g, struct ring *r) { length_case(g, r, 15); }
static void table_length_17(struct guest *g, struct ring *r) { length_case(g, r, 17); }
static void table_length_big(struct guest *g, struct ring *r)
{
	length_case(g, r, (1 << 20) + 16);
}
static void table_length_4g(struct guest *g, struct ring *r)
{
	length_case(g, r, 0xfffffff0);
}

TEST(chains, table_lengths, 60)
{
	refused_both(table_length_0, STAYS);
	refused_both(table_length_15, STAYS);
	refused_both(table_length_17, STAYS);
	refused_both(table_length_big, STAYS);
	refused_both(table_length_4g, STAYS);
}

static void table_unmapped(struct guest *g, struct ring *r)
{
	(void)g;
	post_table(r, 4096, 64);
}

static void table_over_the_end(struct guest *g, struct ring *r)
{
	(void)g;
	post_table(r, GPA_BASE + MEM_SIZE - 16, 32);
}

/* The first entry is there and complete, what follows is not mapped. */
static void table_tail_unmapped(struct guest *g, struct ring *r)
{
	struct vring_desc d = { .addr = area, .len = 2048, .flags = (uint16_t)dir(r) };

	memcpy(gva(g, GPA_BASE + MEM_SIZE - 16), &d, sizeof(d));
	post_table(r, GPA_BASE + MEM_SIZE - 16, 64);
}

static void table_wraps(struct guest *g, struct ring *r)
{
	(void)g;
	post_table(r, ~0ULL - 15, 32);
}

TEST(chains, table_not_in_memory, 60)
{
	refused_both(table_unmapped, STAYS);
	refused_both(table_over_the_end, STAYS);
	refused_both(table_tail_unmapped, STAYS);
	refused_both(table_wraps, STAYS);
}

static void nested_first(struct guest *g, struct ring *r)
{
	entry(g, 0, TABLE, 16, INDIRECT_F, 0);
	post_table(r, TABLE, 16);
}

static void nested_second(struct guest *g, struct ring *r)
{
	entry(g, 0, area, 20, dir(r) | NEXT, 1);
	entry(g, 1, TABLE, 16, INDIRECT_F, 0);
	post_table(r, TABLE, 32);
}

TEST(chains, table_nested, 30)
{
	refused_both(nested_first, STAYS);
	refused_both(nested_second, STAYS);
}

/* Every entry says there is another one. */
static void table_no_end(struct guest *g, struct ring *r)
{
	for (unsigned int i = 0; i < 4; i++)
		entry(g, i, area, 8, dir(r) | NEXT, (i + 1) % 4);
	post_table(r, TABLE, 64);
}

static void table_no_end_of_one(struct guest *g, struct ring *r)
{
	entry(g, 0, area, 8, dir(r) | NEXT, 0);
	post_table(r, TABLE, 16);
}

TEST(chains, table_loop, 30)
{
	refused_both(table_no_end, STAYS);
	refused_both(table_no_end_of_one, STAYS);
}

static void table_entry_unmapped(struct guest *g, struct ring *r)
{
	entry(g, 0, area, 20, dir(r) | NEXT, 1);
	entry(g, 1, 4096, 20, dir(r), 0);
	post_table(r, TABLE, 32);
}

static void table_out_after_in(struct guest *g, struct ring *r)
{
	entry(g, 0, area, 20, WRITE | NEXT, 1);
	entry(g, 1, area + 4096, 2048, 0, 0);
	post_table(r, TABLE, 32);
}

static void table_1025(struct guest *g, struct ring *r)
{
	good_table(g, r, 1025);
	post_table(r, TABLE, 1025 * 16);
}

static void table_65536(struct guest *g, struct ring *r)
{
	good_table(g, r, 65536);
	post_table(r, TABLE, 65536 * 16);
}

TEST(chains, table_bad_entries, 60)
{
	refused_both(table_entry_unmapped, STAYS);
	refused_both(table_out_after_in, STAYS);
	refused_both(table_1025, STAYS);
	refused_both(table_65536, STAYS);
}

static void table_wrong_direction(struct guest *g, struct ring *r)
{
	entry(g, 0, area, 2048, dir(r) ^ WRITE, 0);
	post_table(r, TABLE, 16);
}

static void table_zero_lengths(struct guest *g, struct ring *r)
{
	for (unsigned int i = 0; i < 3; i++)
		entry(g, i, area, 0, dir(r) | (i < 2 ? NEXT : 0), i + 1);
	post_table(r, TABLE, 48);
}

TEST(chains, table_nothing_usable, 30)
{
	refused_both(table_wrong_direction, SKIPPED);
	refused_both(table_zero_lengths, SKIPPED);
}

/* Readable and writable descriptors over a direct one and a table. */
static void direct_in_table_out(struct guest *g, struct ring *r)
{
	ring_desc(r, D + 1, area, 100, WRITE | NEXT, D);
	entry(g, 0, area + 4096, 100, 0, 0);
	ring_desc(r, D, TABLE, 16, INDIRECT_F, 0);
	ring_post(r, D + 1);
}

TEST(chains, table_out_after_direct_in, 30)
{
	refused_both(direct_in_table_out, STAYS);
}

static void table_1(struct guest *g, struct ring *r)
{
	good_table(g, r, 1);
	post_table(r, TABLE, 16);
}

static void table_2(struct guest *g, struct ring *r)
{
	good_table(g, r, 2);
	post_table(r, TABLE, 32);
}

/* More entries in the table than in the chain. */
static void table_rest_unused(struct guest *g, struct ring *r)
{
	good_table(g, r, 2);
	entry(g, 2, 4096, 0xffffffff, INDIRECT_F, 0);
	post_table(r, TABLE, 16 * 16);
}

static void table_17(struct guest *g, struct ring *r)
{
	good_table(g, r, 17);
	post_table(r, TABLE, 17 * 16);
}

static void table_1022(struct guest *g, struct ring *r)
{
	good_table(g, r, 1022);
	post_table(r, TABLE, 1022 * 16);
}

static void table_1024(struct guest *g, struct ring *r)
{
	good_table(g, r, 1024);
	post_table(r, TABLE, 1024 * 16);
}

TEST(chains, table_sizes, 60)
{
	accepted_both(table_1, NULL);
	accepted_both(table_2, NULL);
	accepted_both(table_rest_unused, NULL);
	accepted_both(table_17, NULL);
	accepted_both(table_1022, NULL);
	accepted_both(table_1024, NULL);
}

/* A ring of one descriptor carries chains by way of a table. */
static void table_ring_of_one(struct guest *g, struct ring *r)
{
	good_table(g, r, 5);
	ring_desc(r, 0, TABLE, 80, INDIRECT_F, 0);
	ring_post(r, 0);
}

TEST(chains, table_ring_of_one, 30)
{
	accepted_both(table_ring_of_one,
		      CHAIN_OPT(.features = F_MODERN | F_INDIRECT, .num = 1));
}

/* The header directly, the rest by a table at the end of the chain. */
static void table_at_end(struct guest *g, struct ring *r)
{
	ring_desc(r, D + 1, area + 4096, 12, dir(r) | NEXT, D);
	good_table(g, r, 3);
	ring_desc(r, D, TABLE, 48, INDIRECT_F, 0);
	ring_post(r, D + 1);
}

TEST(chains, table_at_end_of_chain, 30)
{
	accepted_both(table_at_end, NULL);
}

/* The device has to ignore WRITE on the descriptor that names the table. */
static void table_write_flag(struct guest *g, struct ring *r)
{
	good_table(g, r, 3);
	ring_desc(r, D, TABLE, 48, INDIRECT_F | WRITE, 0);
	ring_post(r, D);
}

TEST(chains, table_write_flag_ignored, 30)
{
	accepted_both(table_write_flag, NULL);
}

/* Tables lie anywhere, also across a page border. */
static void table_unaligned(struct guest *g, struct ring *r)
{
	uint64_t at = TABLE + 4096 - 25;
	struct vring_desc d[3];

	good_table(g, r, 3);
	memcpy(d, gva(g, TABLE), sizeof(d));
	memcpy(gva(g, at), d, sizeof(d));
	post_table(r, at, sizeof(d));
}

TEST(chains, table_unaligned, 30)
{
	accepted_both(table_unaligned, NULL);
}

/* Taken although the feature was not acknowledged, as in the C module. */
TEST(chains, table_without_feature, 30)
{
	accepted_both(table_2, CHAIN_OPT(.features = F_MODERN));
}

/* INDIRECT with NEXT: see expect.h. */
static void table_with_next(struct guest *g, struct ring *r)
{
	entry(g, 0, area, 12, dir(r), 0);
	ring_desc(r, D, TABLE, 16, INDIRECT_F | NEXT, D + 1);
	ring_desc(r, D + 1, area + 4096, 2048, dir(r), 0);
	ring_post(r, D);
}

static void table_with_next_loop(struct guest *g, struct ring *r)
{
	entry(g, 0, area, 12, dir(r), 0);
	ring_desc(r, D, TABLE, 16, INDIRECT_F | NEXT, D);
	ring_post(r, D);
}

TEST(chains, table_with_next, 30)
{
	struct rig r;

	/* A loop by NEXT is refused whatever the rule. */
	refused_both(table_with_next_loop, STAYS);
	if (!expect("indirect_next")) {
		refused_both(table_with_next, STAYS);
		return;
	}
	rig_start(&r, CHAIN_OPT(.features = F_MODERN | F_INDIRECT));
	area = guest_alloc(&r.g, 4 << 20, 4096);
	for (unsigned int q = 0; q < NQ; q++) {
		struct vring_used_elem e;
		unsigned char frame[FRAME_MIN];

		table_with_next(&r.g, &r.g.q[q]);
		frame_make(frame, sizeof(frame), 1, true);
		host_send(r.host, frame, sizeof(frame));
		ring_kick_always(&r.g.q[q]);
		CHECK(ring_wait(&r.g.q[q], &e, WAIT_MS), "queue %u", q);
		EQ(e.id, D);
	}
	rig_stop(&r);
}
