// SPDX-License-Identifier: GPL-2.0
/* Buffers and tables that cross memory regions, and holes between them. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "chains.h"
#include "util.h"

#define PAGE	4096
/* Three pages that are neighbours for the guest and scattered for us. */
#define THREE	0x300000000ULL

static char *hva[3];

/* Each page between two guard pages, and in another order than for the guest. */
static void map_three(void)
{
	char *p = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const int place[3] = { 5, 1, 3 };

	CHECK(p != MAP_FAILED, "%s", strerror(errno));
	for (int i = 0; i < 3; i++) {
		hva[i] = p + place[i] * PAGE;
		CHECK(!mprotect(hva[i], PAGE, PROT_READ | PROT_WRITE), "%s", strerror(errno));
		memset(hva[i], 0x55, PAGE);
	}
}

static char *at(uint64_t gpa)
{
	return hva[(gpa - THREE) / PAGE] + (gpa - THREE) % PAGE;
}

static void put_bytes(uint64_t gpa, const void *src, unsigned int len)
{
	for (unsigned int i = 0; i < len; i++)
		*at(gpa + i) = ((const char *)src)[i];
}

static void get_bytes(uint64_t gpa, void *dst, unsigned int len)
{
	for (unsigned int i = 0; i < len; i++)
		((char *)dst)[i] = *at(gpa + i);
}

static struct vhost_memory_region page_region(uint64_t gpa, void *p)
{
	return (struct vhost_memory_region){
		.guest_phys_addr = gpa, .memory_size = PAGE, .userspace_addr = (uintptr_t)p,
	};
}

/* The guest's own memory and those of the three pages that `mask` names. */
static void set_regions(struct guest *g, unsigned int mask)
{
	struct vhost_memory_region t[4] = { {
		.guest_phys_addr = GPA_BASE, .memory_size = MEM_SIZE,
		.userspace_addr = (uintptr_t)g->mem,
	} };
	unsigned int n = 1;

	for (unsigned int i = 0; i < 3; i++)
		if (mask & 1U << i)
			t[n++] = page_region(THREE + i * PAGE, hva[i]);
	OK(guest_set_regions(g, t, n));
}

static char buf[FRAME_MAX];

static void tx_from(struct rig *r, uint64_t gpa, unsigned int len, uint32_t seq)
{
	struct ring *q = &r->g.q[TXQ];
	struct vring_used_elem e;
	size_t got = sizeof(buf);
	const char *err;

	memset(buf, 0, 12);
	frame_make(buf + 12, len, seq, false);
	put_bytes(gpa, buf, len + 12);
	ring_desc(q, D, gpa, len + 12, 0, 0);
	ring_post(q, D);
	ring_kick(q);
	CHECK(ring_wait(q, &e, WAIT_MS), "TX at +%#llx", (long long)(gpa - THREE));
	CHECK(host_recv(r->host, buf, &got, WAIT_MS), "no frame");
	err = frame_error(buf, (unsigned int)got, len, seq);
	CHECK(!err, "TX at +%#llx, %u bytes: %s", (long long)(gpa - THREE), len, err);
}

static void rx_into(struct rig *r, uint64_t gpa, unsigned int len, uint32_t seq)
{
	struct ring *q = &r->g.q[RXQ];
	struct vring_used_elem e;
	const char *err;

	ring_desc(q, D, gpa, len + 12, VRING_DESC_F_WRITE, 0);
	ring_post(q, D);
	ring_kick(q);
	frame_make(buf, len, seq, true);
	host_send(r->host, buf, len);
	CHECK(ring_wait(q, &e, WAIT_MS), "RX at +%#llx", (long long)(gpa - THREE));
	EQ(e.len, len + 12);
	get_bytes(gpa, buf, len + 12);
	err = frame_error(buf + 12, len, len, seq);
	CHECK(!err, "RX at +%#llx, %u bytes: %s", (long long)(gpa - THREE), len, err);
}

static void start(struct rig *r, unsigned int mask)
{
	map_three();
	rig_start(r, CHAIN_OPT(.features = F_MODERN | F_INDIRECT));
	link_set_mtu(r->tap.name, 9000);
	set_regions(&r->g, mask);
}

/* Borders one byte to either side, in the header, and two borders at once. */
TEST(chains, regions_crossed, 30)
{
	static const unsigned int before[] = { 1, 2, 11, 12, 13, 40, 71, 72 };
	struct rig r;
	uint32_t seq = 0;

	start(&r, 7);
	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
		tx_from(&r, THREE + PAGE - before[i], FRAME_MIN, seq++);
		rx_into(&r, THREE + PAGE - before[i], FRAME_MIN, seq++);
		tx_from(&r, THREE + 2 * PAGE - before[i], FRAME_MIN, seq++);
		rx_into(&r, THREE + 2 * PAGE - before[i], FRAME_MIN, seq++);
		tx_from(&r, THREE + PAGE - before[i], PAGE + 200, seq++);
		rx_into(&r, THREE + PAGE - before[i], PAGE + 200, seq++);
	}
	/* All three, from the first byte to the last. */
	tx_from(&r, THREE, 3 * PAGE - 12 - 3300, seq++);
	rx_into(&r, THREE + 3300, 3 * PAGE - 12 - 3300, seq++);
	rig_stop(&r);
}

/* A table over a border, split inside a descriptor. */
TEST(chains, regions_table_crossed, 30)
{
	struct rig r;

	start(&r, 7);
	area = guest_alloc(&r.g, 8192, 4096);
	for (unsigned int off = 1; off < 40; off += 6) {
		struct ring *q = &r.g.q[TXQ];
		struct vring_used_elem e;
		size_t got = sizeof(buf);
		struct vring_desc t[2] = {
			{ .addr = area, .len = 12, .flags = VRING_DESC_F_NEXT, .next = 1 },
			{ .addr = area + 4096, .len = FRAME_MIN },
		};

		put_bytes(THREE + PAGE - off, t, sizeof(t));
		frame_make(gva(&r.g, area + 4096), FRAME_MIN, off, false);
		ring_desc(q, D, THREE + PAGE - off, sizeof(t), VRING_DESC_F_INDIRECT, 0);
		ring_post(q, D);
		ring_kick(q);
		CHECK(ring_wait(q, &e, WAIT_MS), "table %u bytes before the border", off);
		CHECK(host_recv(r.host, buf, &got, WAIT_MS), "no frame");
		CHECK(!frame_error(buf, (unsigned int)got, FRAME_MIN, off), "offset %u", off);
	}
	rig_stop(&r);
}

/* Nothing else may be in the receive ring: the frame would go there. */
static void over_hole(struct rig *r, unsigned int q, uint64_t gpa, unsigned int len)
{
	struct ring *ring = &r->g.q[q];

	ring_desc(ring, D, gpa, len, dir(ring), 0);
	ring_post(ring, D);
	ring_kick_always(ring);
	if (q == RXQ) {
		frame_make(buf, FRAME_MIN, 1, true);
		host_send(r->host, buf, FRAME_MIN);
	}
	CHECK(ring_error(ring, WAIT_MS), "queue %u: the hole was not seen", q);
	rig_alive(r);
}

static void over_middle(unsigned int q, uint64_t gpa, unsigned int len)
{
	struct rig r;

	start(&r, 5);
	over_hole(&r, q, gpa, len);
	tx_from(&r, THREE + PAGE - 72, FRAME_MIN, 1);
	tx_from(&r, THREE + 2 * PAGE, FRAME_MIN, 2);
	rig_stop(&r);
}

/* The middle page is missing. */
TEST(chains, regions_hole, 30)
{
	for (unsigned int q = 0; q < NQ; q++) {
		over_middle(q, THREE + PAGE - 50, 2 * PAGE);
		over_middle(q, THREE + PAGE - 50, 100);
		over_middle(q, THREE + PAGE, 100);
		over_middle(q, THREE + 2 * PAGE - 1, 100);
		over_middle(q, THREE + 3 * PAGE - 99, 100);
	}
}

/* A buffer that ends with the last guest address there is. */
TEST(chains, region_at_the_end, 30)
{
	struct vhost_memory_region t[2];
	struct rig r;
	struct ring *q = &r.g.q[TXQ];
	struct vring_used_elem e;
	size_t got = sizeof(buf);

	start(&r, 0);
	t[0] = (struct vhost_memory_region){ .guest_phys_addr = GPA_BASE,
		.memory_size = MEM_SIZE, .userspace_addr = (uintptr_t)r.g.mem };
	t[1] = page_region(~0ULL - (PAGE - 1), hva[0]);
	OK(guest_set_regions(&r.g, t, 2));
	memset(hva[0] + PAGE - 72, 0, 12);
	frame_make(hva[0] + PAGE - 60, FRAME_MIN, 5, false);
	ring_desc(q, D, ~0ULL - 71, 72, 0, 0);
	ring_post(q, D);
	ring_kick(q);
	CHECK(ring_wait(q, &e, WAIT_MS), "not used");
	CHECK(host_recv(r.host, buf, &got, WAIT_MS), "no frame");
	CHECK(!frame_error(buf, (unsigned int)got, FRAME_MIN, 5), "wrong frame");
	over_hole(&r, TXQ, ~0ULL - 71, 73);
	rig_stop(&r);
}

/* Mapped for the guest, but our own page behind it is not there. */
TEST(chains, region_without_pages, 30)
{
	for (unsigned int q = 0; q < NQ; q++) {
		struct rig r;
		struct ring *ring = &r.g.q[q];

		start(&r, 7);
		CHECK(!mprotect(hva[1], PAGE, PROT_NONE), "%s", strerror(errno));
		ring_desc(ring, D, THREE + PAGE, 200, dir(ring), 0);
		ring_post(ring, D);
		ring_kick_always(ring);
		if (q == RXQ) {
			frame_make(buf, FRAME_MIN, 1, true);
			host_send(r.host, buf, FRAME_MIN);
		}
		/* What becomes of this frame is open; the other queue goes on. */
		rig_pass(&r, q == RXQ ? 30 : 0, q == RXQ ? 0 : 30, FRAME_MIN);
		rig_alive(&r);
		rig_stop(&r);
	}
}

/* The ring itself in a page that goes away. */
TEST(chains, ring_pages_unmapped, 30)
{
	struct rig r;
	struct ring *q = &r.g.q[TXQ];
	uintptr_t desc;

	rig_start(&r, CHAIN_OPT(.features = F_MODERN));
	rig_pass(&r, 5, 0, FRAME_MIN);
	desc = (uintptr_t)q->desc & ~(uintptr_t)(PAGE - 1);
	frame_make(buf, FRAME_MIN, 0, false);
	CHECK(guest_send(&r.g, buf, FRAME_MIN), "no slot");
	CHECK(!mprotect((void *)desc, PAGE, PROT_NONE), "%s", strerror(errno));
	ring_kick_always(q);
	CHECK(ring_error(q, WAIT_MS), "no error");
	CHECK(!mprotect((void *)desc, PAGE, PROT_READ | PROT_WRITE), "%s", strerror(errno));
	ring_kick_always(q);
	CHECK(ring_wait(q, &(struct vring_used_elem){ 0 }, WAIT_MS), "not used after repair");
	rig_alive(&r);
	rig_stop(&r);
}
