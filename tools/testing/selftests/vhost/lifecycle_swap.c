// SPDX-License-Identifier: GPL-2.0
/* Backends, rings and memory changed under traffic. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

#define MODERN	(&(struct guest_opt){ .features = F_MODERN | F_MRG | F_EVENT })

/* The flood has to get on by itself between two disturbances. */
static void let_pass(struct flood *f, unsigned long n)
{
	unsigned long want = flood_count(f) + n;

	for (int64_t end = now_ms() + WAIT_MS; flood_count(f) < want; sleep_ms(1))
		CHECK(now_ms() < end, "flood stands still at %lu", flood_count(f));
}

/* Two taps in turn and nothing in between, on either queue. */
TEST(lifecycle, swap_backend_under_flood, 60)
{
	struct rig r;
	struct tap other = tap_open(12);
	struct flood *f;
	unsigned long rounds = ROUNDS;

	rig_start(&r, MODERN);
	f = flood_start(&r.g, r.tap.name);
	for (unsigned long i = 0; i < rounds; i++) {
		unsigned int q = i & 1;

		if (i % 16 == 0)
			let_pass(f, 20);
		OK(guest_backend(&r.g, q, other.fd));
		OK(guest_backend(&r.g, q, -1));
		OK(guest_backend(&r.g, q, r.tap.fd));
	}
	let_pass(f, 200);
	flood_stop(f);
	rig_alive(&r);
	rig_stop(&r);
}

/* Detach and attach at once do not lose or repeat a buffer. */
TEST(lifecycle, detach_attach_under_tx_load, 60)
{
	struct rig r;
	uint32_t seq = 0, want = 0;
	unsigned long rounds = ROUNDS;
	static char buf[FRAME_MAX];

	rig_start(&r, MODERN);
	for (unsigned long i = 0; i < rounds; i++) {
		for (int k = 0; k < 20; k++, seq++) {
			frame_make(buf, FRAME_MIN, seq, false);
			CHECK(guest_send(&r.g, buf, FRAME_MIN), "ring full");
		}
		ring_kick(&r.g.q[TXQ]);
		OK(guest_backend(&r.g, TXQ, -1));
		OK(guest_backend(&r.g, TXQ, r.tap.fd));
		for (; want < seq; want++) {
			size_t len = sizeof(buf);
			const char *err;

			CHECK(host_recv(r.host, buf, &len, WAIT_MS), "frame %u lost", want);
			err = frame_error(buf, (unsigned int)len, FRAME_MIN, want);
			CHECK(!err, "frame %u: %s, it says %u", want, err, frame_seq(buf));
		}
		for (int64_t end = now_ms() + WAIT_MS;
		     r.g.q[TXQ].used->idx != r.g.q[TXQ].next_avail; sleep_ms(1))
			CHECK(now_ms() < end, "a head was not given back");
		EQ(guest_reclaim(&r.g), 20);
	}
	rig_stop(&r);
}

/* GET_VRING_BASE counts exactly the heads that were taken. */
static void count_heads(unsigned int base)
{
	struct rig r;
	static char buf[FRAME_MAX];

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .base = base });
	rig_pass(&r, 11, 0, FRAME_MIN);
	guest_fill_n(&r.g, 50);
	ring_kick(&r.g.q[RXQ]);
	for (uint32_t i = 0; i < 7; i++) {
		frame_make(buf, FRAME_MIN, i, true);
		host_send(r.host, buf, FRAME_MIN);
	}
	for (uint32_t i = 0; i < 7; i++)
		CHECK(guest_recv_wait(&r.g, buf, sizeof(buf), NULL, WAIT_MS), "frame %u", i);
	EQ(guest_get_base(&r.g, TXQ), (uint16_t)(base + 11));
	EQ(guest_get_base(&r.g, RXQ), (uint16_t)(base + 7));
	guest_detach_both(&r.g);
	EQ(guest_get_base(&r.g, TXQ), (uint16_t)(base + 11));
	EQ(guest_get_base(&r.g, RXQ), (uint16_t)(base + 7));
	rig_stop(&r);
}

TEST(lifecycle, base_counts_heads, 30)
{
	count_heads(0);
	count_heads(250);
	count_heads(65530);
}

/* A second vhost node over the same guest memory and rings. */
static void take_over(struct guest *from, struct guest *to)
{
	unsigned int base[NQ];

	for (unsigned int q = 0; q < NQ; q++)
		base[q] = guest_get_base(from, q);
	*to = *from;
	to->dev = node_open();
	guest_setup(to);
	for (unsigned int q = 0; q < NQ; q++)
		OK(guest_vring_base(to, q, base[q]));
}

static void hand_over(unsigned int start)
{
	struct rig r;
	struct guest second;
	static char buf[FRAME_MAX];

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .base = start });
	/* Ten buffers, thirty frames: twenty are still on the way when we stop. */
	guest_fill_n(&r.g, 10);
	ring_kick(&r.g.q[RXQ]);
	for (uint32_t i = 0; i < 30; i++) {
		frame_make(buf, FRAME_MIN, i, true);
		host_send(r.host, buf, FRAME_MIN);
	}
	for (uint32_t i = 0; i < 10; i++)
		CHECK(guest_recv_wait(&r.g, buf, sizeof(buf), NULL, WAIT_MS), "frame %u", i);
	guest_detach_both(&r.g);
	EQ(guest_get_base(&r.g, RXQ), (uint16_t)(start + 10));
	/* Three TX frames that nobody has taken yet. */
	for (uint32_t i = 0; i < 3; i++) {
		frame_make(buf, FRAME_MIN, i, false);
		CHECK(guest_send(&r.g, buf, FRAME_MIN), "no slot");
	}
	take_over(&r.g, &second);
	guest_attach_both(&second, r.tap.fd);
	guest_fill(&second);
	ring_kick_always(&second.q[RXQ]);
	for (uint32_t i = 10; i < 30; i++) {
		CHECK(guest_recv_wait(&second, buf, sizeof(buf), NULL, WAIT_MS), "frame %u", i);
		EQ(frame_seq(buf + 12), i);
	}
	for (uint32_t i = 0; i < 3; i++) {
		size_t len = sizeof(buf);

		CHECK(host_recv(r.host, buf, &len, WAIT_MS), "TX frame %u", i);
		EQ(frame_seq(buf), i);
	}
	close(r.g.dev);
	r.g = second;
	rig_alive(&r);
	rig_stop(&r);
}

TEST(lifecycle, hand_over_to_second_node, 30)
{
	hand_over(0);
	hand_over(250);
	hand_over(65531);
}

/* The same pages at another address. */
static char *map_again(struct guest *g)
{
	char *p = mmap(NULL, MEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, g->memfd, 0);

	CHECK(p != MAP_FAILED, "%s", strerror(errno));
	return p;
}

static void split_table(struct guest *g, char *base)
{
	struct vhost_memory_region t[3];
	const uint64_t cut[4] = { 0, (1 << 20) + 4096, 9 << 20, MEM_SIZE };

	for (int i = 0; i < 3; i++)
		t[i] = (struct vhost_memory_region){
			.guest_phys_addr = GPA_BASE + cut[i],
			.memory_size = cut[i + 1] - cut[i],
			.userspace_addr = (uintptr_t)base + cut[i],
		};
	OK(guest_set_regions(g, t, 3));
}

/*
 * The memory table moves to another mapping of the same pages and is split, while
 * frames run; the old mapping is taken away as soon as the call returns.
 */
TEST(lifecycle, mem_table_under_flood, 60)
{
	struct rig r;
	struct flood *f;
	char *old = NULL;

	rig_start(&r, MODERN);
	f = flood_start(&r.g, r.tap.name);
	for (int i = 0; i < 30; i++) {
		char *now = map_again(&r.g);
		struct vhost_memory_region bad = { .guest_phys_addr = 1 };

		split_table(&r.g, now);
		if (old)
			CHECK(!munmap(old, MEM_SIZE), "%s", strerror(errno));
		old = now;
		let_pass(f, 30);
		ERR(guest_set_regions(&r.g, &bad, 1), -EFAULT);
		let_pass(f, 30);
	}
	flood_stop(f);
	CHECK(!eventfd_take(r.g.q[RXQ].err) && !eventfd_take(r.g.q[TXQ].err),
	      "an access failed while the table was changed");
	rig_alive(&r);
	rig_stop(&r);
}

/* The tap goes away while it is attached and busy. */
TEST(lifecycle, tap_deleted_under_flood, 60)
{
	struct rig r;
	struct flood *f;
	struct tap fresh;

	rig_start(&r, MODERN);
	f = flood_start(&r.g, r.tap.name);
	let_pass(f, 200);
	link_del(r.tap.name);
	sleep_ms(50);
	flood_stop(f);
	close(r.host);
	close(r.tap.fd);
	fresh = tap_open(12);
	r.tap = fresh;
	r.host = host_open(fresh.name);
	rig_alive(&r);
	rig_stop(&r);
}

TEST(lifecycle, tap_down_and_up, 30)
{
	struct rig r;
	static char buf[FRAME_MAX];
	struct vring_used_elem e;

	rig_start(&r, MODERN);
	rig_pass(&r, 50, 50, FRAME_MIN);
	link_down(r.tap.name);
	for (uint32_t i = 0; i < 10; i++) {
		frame_make(buf, FRAME_MIN, i, false);
		CHECK(guest_send(&r.g, buf, FRAME_MIN), "no slot");
	}
	ring_kick(&r.g.q[TXQ]);
	/* Frames into a dead link are gone, their buffers are not. */
	guest_reclaim(&r.g);
	ring_wait(&r.g.q[TXQ], &e, 200);
	link_up(r.tap.name);
	rig_alive(&r);
	rig_stop(&r);
}

/* Attach and detach against creation and deletion of the interface. */
TEST(lifecycle, attach_dying_taps, 60)
{
	struct guest g;
	unsigned long rounds = ROUNDS / 4 + 1;

	guest_start(&g, MODERN);
	for (unsigned long i = 0; i < rounds; i++) {
		struct tap t = tap_open(12);
		int r;

		if (i % 3 == 0)
			link_del(t.name);
		for (unsigned int q = 0; q < NQ; q++) {
			r = guest_backend(&g, q, t.fd);
			CHECK(r == (i % 3 ? 0 : -EINVAL), "%d", r);
		}
		if (i % 3 == 1)
			link_del(t.name);
		close(t.fd);
		guest_detach_both(&g);
	}
	guest_stop(&g);
}

/* ---- one number, many files ---- */

#define SWAPPED_FD	100

struct swap {
	struct guest *g;
	const char *second;	/* the tap that no flood helper knows */
	int files[4];
	atomic_bool stop;
	unsigned long good, refused;
};

static void *swap_files(void *arg)
{
	struct swap *s = arg;

	for (unsigned int i = 0; !s->stop; i++) {
		CHECK(dup2(s->files[i % 4], SWAPPED_FD) == SWAPPED_FD, "%s", strerror(errno));
		if (i % 5 == 0)
			close(SWAPPED_FD);
	}
	return NULL;
}

static void *swap_attach(void *arg)
{
	struct swap *s = arg;

	for (unsigned int i = 0; !s->stop; i++) {
		int ret = guest_backend(s->g, i & 1, SWAPPED_FD);

		CHECK(!ret || ret == -ENOTSOCK, "%s", strerrorname_np(-ret));
		s->good += !ret;
		s->refused += !!ret;
		OK(guest_backend(s->g, i & 1, -1));
	}
	return NULL;
}

static void *swap_push(void *arg)
{
	struct swap *s = arg;
	int host = host_open(s->second);
	unsigned char frame[FRAME_MIN];

	for (uint32_t i = 0; !s->stop; i++) {
		frame_make(frame, sizeof(frame), i, true);
		if (send(host, frame, sizeof(frame), 0) < 0)
			sleep_ms(1);
	}
	close(host);
	return NULL;
}

/*
 * The number that is attached names another file at any moment. Each attach takes
 * one of them as a whole, and gives it back.
 */
TEST(lifecycle, backend_fd_swapped, 90)
{
	static void *(*const mains[])(void *) = { swap_files, swap_attach, swap_push };
	struct rig r;
	struct tap second = tap_open(12);
	struct swap s = { .g = &r.g, .second = second.name };
	struct flood *f;
	pthread_t t[3];
	int pair[2];

	rig_start(&r, MODERN);
	CHECK(!pipe(pair), "%s", strerror(errno));
	s.files[0] = r.tap.fd;
	s.files[1] = pair[0];
	s.files[2] = second.fd;
	s.files[3] = socket(AF_INET, SOCK_DGRAM, 0);
	f = flood_start(&r.g, r.tap.name);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&t[i], NULL, mains[i], &s), "no thread");
	sleep_ms((unsigned int)ROUNDS * 30);
	s.stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	flood_stop(f);
	close(SWAPPED_FD);
	CHECK(s.good > 10 && s.refused > 10, "%lu attached, %lu refused", s.good, s.refused);
	/* A file that is still referenced keeps its interface. */
	close(second.fd);
	for (int64_t end = now_ms() + WAIT_MS; link_exists(second.name); sleep_ms(5))
		CHECK(now_ms() < end, "%s is still held", second.name);
	rig_alive(&r);
	guest_detach_both(&r.g);
	link_del(r.tap.name);
	rig_stop(&r);
}
