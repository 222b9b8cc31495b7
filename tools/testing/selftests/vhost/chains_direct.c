// SPDX-License-Identifier: GPL-2.0
/* Direct descriptor chains. */
#define _GNU_SOURCE
#include <unistd.h>

#include "chains.h"
#include "util.h"

#define NEXT	VRING_DESC_F_NEXT
#define WRITE	VRING_DESC_F_WRITE

#define REFUSED(name, fate)							\
	TEST(chains, name, 30) { refused_both(name, fate); }			\
	struct dummy_##name
#define LEGAL(name)								\
	TEST(chains, name, 30) { accepted_both(name, NULL); }			\
	struct dummy_##name

static void head_is_num(struct guest *g, struct ring *r)
{
	(void)g;
	ring_post(r, r->num);
}
REFUSED(head_is_num, STAYS);

static void head_65535(struct guest *g, struct ring *r)
{
	(void)g;
	ring_post(r, 65535);
}
REFUSED(head_65535, STAYS);

static void next_is_num(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 100, dir(r) | NEXT, r->num);
	ring_post(r, D);
}
REFUSED(next_is_num, STAYS);

static void next_65535(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 100, dir(r) | NEXT, 65535);
	ring_post(r, D);
}
REFUSED(next_65535, STAYS);

static void loop_self(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 4, dir(r) | NEXT, D);
	ring_post(r, D);
}
REFUSED(loop_self, STAYS);

static void loop_zero_length(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 0, dir(r) | NEXT, D);
	ring_post(r, D);
}
REFUSED(loop_zero_length, STAYS);

static void loop_of_three(struct guest *g, struct ring *r)
{
	(void)g;
	for (unsigned int i = 0; i < 3; i++)
		ring_desc(r, D + i, area, 4, dir(r) | NEXT, D + (i + 1) % 3);
	ring_post(r, D);
}
REFUSED(loop_of_three, STAYS);

static void loop_behind_head(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 4, dir(r) | NEXT, D + 1);
	ring_desc(r, D + 1, area, 4, dir(r) | NEXT, D + 1);
	ring_post(r, D);
}
REFUSED(loop_behind_head, STAYS);

static void post_at(struct ring *r, uint64_t addr, unsigned int len)
{
	ring_desc(r, D, addr, len, dir(r), 0);
	ring_post(r, D);
}

static void addr_zero(struct guest *g, struct ring *r)
{
	(void)g;
	post_at(r, 0, 100);
}
REFUSED(addr_zero, STAYS);

static void addr_before_memory(struct guest *g, struct ring *r)
{
	(void)g;
	post_at(r, GPA_BASE - 1, 2);
}
REFUSED(addr_before_memory, STAYS);

static void addr_behind_memory(struct guest *g, struct ring *r)
{
	(void)g;
	post_at(r, GPA_BASE + MEM_SIZE, 100);
}
REFUSED(addr_behind_memory, STAYS);

static void addr_over_the_end(struct guest *g, struct ring *r)
{
	(void)g;
	post_at(r, GPA_BASE + MEM_SIZE - 99, 100);
}
REFUSED(addr_over_the_end, STAYS);

static void addr_wraps(struct guest *g, struct ring *r)
{
	(void)g;
	post_at(r, ~0ULL - 10, 100);
}
REFUSED(addr_wraps, STAYS);

static void length_4g(struct guest *g, struct ring *r)
{
	(void)g;
	post_at(r, area, 0xffffffff);
}
REFUSED(length_4g, STAYS);

/* The guest's own user address is no guest address. */
static void addr_is_hva(struct guest *g, struct ring *r)
{
	post_at(r, (uintptr_t)gva(g, area), 100);
}
REFUSED(addr_is_hva, STAYS);

static void second_part_unmapped(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 100, dir(r) | NEXT, D + 1);
	ring_desc(r, D + 1, 4096, 100, dir(r), 0);
	ring_post(r, D);
}
REFUSED(second_part_unmapped, STAYS);

static void readable_after_writable(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 100, WRITE | NEXT, D + 1);
	ring_desc(r, D + 1, area + 4096, 100, 0, 0);
	ring_post(r, D);
}
REFUSED(readable_after_writable, STAYS);

static void wrong_direction(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 2048, dir(r) ^ WRITE, 0);
	ring_post(r, D);
}
REFUSED(wrong_direction, SKIPPED);

static void both_directions(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 2048, NEXT, D + 1);
	ring_desc(r, D + 1, area + 4096, 2048, WRITE, 0);
	ring_post(r, D);
}
REFUSED(both_directions, SKIPPED);

static void zero_length(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, 0, dir(r), 0);
	ring_post(r, D);
}
REFUSED(zero_length, SKIPPED);

static void zero_length_parts(struct guest *g, struct ring *r)
{
	(void)g;
	for (unsigned int i = 0; i < 4; i++)
		ring_desc(r, D + i, area, 0, dir(r) | (i < 3 ? NEXT : 0), D + i + 1);
	ring_post(r, D);
}
REFUSED(zero_length_parts, SKIPPED);

/* A chain of n parts of one byte, the last one larger. */
static void long_chain(struct ring *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		ring_desc(r, i, area + i * 16ULL, i < n - 1 ? 1 : 2048,
			  dir(r) | (i < n - 1 ? NEXT : 0), i + 1);
	ring_post(r, 0);
}

static void parts_1025(struct guest *g, struct ring *r)
{
	(void)g;
	for (unsigned int i = 0; i < 1025; i++)
		ring_desc(r, D + i, area + i * 16ULL, 1, dir(r) | (i < 1024 ? NEXT : 0),
			  D + i + 1);
	ring_post(r, D);
}

TEST(chains, parts_1025, 30)
{
	const struct guest_opt big = { .features = F_MODERN, .num = 2048, .slot_descs = D };

	refused(parts_1025, RXQ, STAYS, &big);
	refused(parts_1025, TXQ, STAYS, &big);
}

/* As many parts as the ring has descriptors. */
static void parts_num(struct guest *g, struct ring *r)
{
	(void)g;
	long_chain(r, r->num);
}

TEST(chains, parts_num, 30)
{
	accepted_both(parts_num, NULL);
	accepted_both(parts_num, CHAIN_OPT(.features = F_MODERN, .num = 1));
	accepted_both(parts_num, CHAIN_OPT(.features = F_MODERN, .num = 2));
	accepted_both(parts_num, CHAIN_OPT(.features = F_MODERN, .num = 1024));
}

static void parts_1022(struct guest *g, struct ring *r)
{
	(void)g;
	long_chain(r, 1022);
}

static void parts_1024(struct guest *g, struct ring *r)
{
	(void)g;
	long_chain(r, 1024);
}

TEST(chains, parts_1024, 30)
{
	const struct guest_opt big = { .features = F_MODERN, .num = 4096, .slot_descs = D };

	accepted_both(parts_1022, &big);
	accepted_both(parts_1024, &big);
}

/* next points backwards. */
static void backwards(struct guest *g, struct ring *r)
{
	(void)g;
	for (unsigned int i = 0; i < 4; i++)
		ring_desc(r, D + i, area + i * 4096ULL, i ? 20 : 2048,
			  dir(r) | (i ? NEXT : 0), D + i - 1);
	ring_post(r, D + 3);
}
LEGAL(backwards);

/* Empty parts before, between and behind the ones that carry something. */
static void empty_parts_between(struct guest *g, struct ring *r)
{
	(void)g;
	for (unsigned int i = 0; i < 7; i++)
		ring_desc(r, D + i, area + i * 4096ULL, i % 2 ? 30 : 0,
			  dir(r) | (i < 6 ? NEXT : 0), D + i + 1);
	ring_post(r, D);
}
LEGAL(empty_parts_between);

/* An empty part may point anywhere. */
static void empty_part_unmapped(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, 16, 0, dir(r) | NEXT, D + 1);
	ring_desc(r, D + 1, area, FRAME_MIN + 12, dir(r), 0);
	ring_post(r, D);
}
LEGAL(empty_part_unmapped);

static void unknown_flags(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area, FRAME_MIN + 12, dir(r) | 0xfff8, 0);
	ring_post(r, D);
}
LEGAL(unknown_flags);

/* Parts at odd addresses with odd lengths. */
static void odd_addresses(struct guest *g, struct ring *r)
{
	(void)g;
	ring_desc(r, D, area + 1, 7, dir(r) | NEXT, D + 1);
	ring_desc(r, D + 1, area + 4095, 3, dir(r) | NEXT, D + 2);
	ring_desc(r, D + 2, area + 8191, FRAME_MIN + 2, dir(r), 0);
	ring_post(r, D);
}
LEGAL(odd_addresses);

/*
 * Less than a header: nobody says what has to happen to it, but the rest of the
 * device has to go on, and the queue once the chain is repaired.
 */
TEST(chains, tx_shorter_than_header, 30)
{
	struct rig r;
	struct ring *q = &r.g.q[TXQ];
	struct vring_used_elem e;
	char name[16], frame[FRAME_MIN + 12] = { 0 };
	long cpu;

	snprintf(name, sizeof(name), "vhost-%d", getpid());
	rig_start(&r, CHAIN_OPT(.features = F_MODERN));
	area = guest_alloc(&r.g, 4096, 4096);
	frame_make(frame + 12, FRAME_MIN, 0, false);
	memcpy(gva(&r.g, area), frame, sizeof(frame));
	ring_desc(q, D, area, 5, 0, 0);
	ring_post(q, D);
	ring_kick_always(q);
	rig_pass(&r, 0, 100, FRAME_MIN);
	cpu = thread_cpu_ms(find_thread(name));
	sleep_ms(300);
	cpu = thread_cpu_ms(find_thread(name)) - cpu;
	CHECK(expect("short_tx_spins") || cpu < 100, "the worker spins: %ld of 300 ms", cpu);
	ring_desc(q, D, area, sizeof(frame), 0, 0);
	frame_make(frame, FRAME_MIN, 1, false);
	CHECK(guest_send(&r.g, frame, FRAME_MIN));
	ring_kick_always(q);
	do {
		CHECK(ring_wait(q, &e, WAIT_MS), "the repaired queue does not work");
	} while (e.id == D);
	rig_alive(&r);
	rig_stop(&r);
}
