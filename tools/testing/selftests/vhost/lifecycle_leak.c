// SPDX-License-Identifier: GPL-2.0
/* Repetitions that must leave nothing behind: files, threads, kernel memory. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "util.h"

/* Freed objects come back late (RCU, per-CPU caches): so much is no leak. */
#define SLACK_KB	2048
#define SLACK_FILES	32
#define SLACK_THREADS	32
#define SLACK_OBJECTS	128
#define CACHES		160

struct level {
	long files, threads, kb;
	struct cache cache[CACHES];
	unsigned int n_caches;
};

static void take_level(struct level *l)
{
	/* Objects on their way through RCU and work queues get their time. */
	sleep_ms(100);
	l->files = open_files();
	l->threads = all_threads();
	l->kb = kernel_kb();
	l->n_caches = kmalloc_objects(l->cache, CACHES);
}

/* What has grown too much, or NULL. One object a round shows from 300 rounds on. */
static const char *grown(const struct level *a, const struct level *b,
			 unsigned long rounds)
{
	static char text[128];
	const char *what = b->files > a->files + SLACK_FILES ? "files" :
			   b->threads > a->threads + SLACK_THREADS ? "threads" :
			   b->kb > a->kb + SLACK_KB ? "kB of kernel memory" : NULL;

	if (what) {
		snprintf(text, sizeof(text), "%s: files %+ld, threads %+ld, kB %+ld", what,
			 b->files - a->files, b->threads - a->threads, b->kb - a->kb);
		return text;
	}
	for (unsigned int i = 0; i < a->n_caches && i < b->n_caches; i++) {
		long more = b->cache[i].objects - a->cache[i].objects;

		if (strcmp(a->cache[i].name, b->cache[i].name) ||
		    more <= SLACK_OBJECTS + (long)rounds / 2)
			continue;
		snprintf(text, sizeof(text), "%ld objects more in %s", more, a->cache[i].name);
		return text;
	}
	return NULL;
}

static void check_flat(const char *what, const struct level *before, unsigned long rounds)
{
	static struct level now;
	int64_t end = now_ms() + WAIT_MS / 2;
	const char *more;

	do {
		take_level(&now);
		more = grown(before, &now, rounds);
	} while (more && now_ms() < end);
	CHECK(!more, "%s, %lu rounds: %s", what, rounds, more);
}

static struct level before;

static void repeat(const char *what, void (*once)(void), unsigned long rounds)
{
	char name[16];

	/* The first rounds fill caches. */
	for (int i = 0; i < 5; i++)
		once();
	take_level(&before);
	for (unsigned long i = 0; i < rounds; i++)
		once();
	check_flat(what, &before, rounds);
	snprintf(name, sizeof(name), "vhost-%d", getpid());
	CHECK(!find_thread(name), "%s: a worker is left", what);
}

static void open_close(void)
{
	close(node_open());
}

TEST(lifecycle, leak_open_close, 60)
{
	repeat("open, close", open_close, ROUNDS * 2);
}

static void own_close(void)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	close(dev);
}

TEST(lifecycle, leak_owner, 60)
{
	repeat("SET_OWNER, close", own_close, ROUNDS);
}

static struct tap tap;

static void attach_close(void)
{
	struct guest g;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN, .num = 16 });
	guest_attach_both(&g, tap.fd);
	guest_stop(&g);
}

TEST(lifecycle, leak_close_without_detach, 60)
{
	tap = tap_open(12);
	repeat("attach, close", attach_close, ROUNDS);
}

static void traffic_close(void)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .num = 64 });
	rig_pass(&r, 10, 10, FRAME_MIN);
	rig_stop(&r);
}

TEST(lifecycle, leak_traffic_close, 60)
{
	repeat("frames, close", traffic_close, ROUNDS / 2 + 1);
}

/* Frames that wait in the backend and in the device when the fd is closed. */
static void close_with_frames(void)
{
	struct rig r;
	static char frame[FRAME_MIN];

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .num = 16 });
	for (uint32_t i = 0; i < 50; i++) {
		frame_make(frame, sizeof(frame), i, true);
		host_send(r.host, frame, sizeof(frame));
	}
	guest_fill_n(&r.g, 3);
	ring_kick(&r.g.q[RXQ]);
	rig_stop(&r);
}

TEST(lifecycle, leak_close_with_frames, 60)
{
	repeat("close with frames", close_with_frames, ROUNDS / 2 + 1);
}

static void failed_attach_close(void)
{
	struct guest g;
	int bare = tun_open_bare();

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN, .num = 16 });
	OK(guest_backend(&g, RXQ, tap.fd));
	ERR(guest_backend(&g, RXQ, bare), -EINVAL);
	ERR(guest_backend(&g, TXQ, bare), -EINVAL);
	ERR(guest_backend(&g, TXQ, 0x7fffffff), -ENOTSOCK);
	close(bare);
	guest_stop(&g);
}

TEST(lifecycle, leak_failed_attach, 60)
{
	tap = tap_open(12);
	repeat("failed attach, close", failed_attach_close, ROUNDS);
}

static void reset_close(void)
{
	struct guest g;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN, .num = 16 });
	guest_attach_both(&g, tap.fd);
	OK(vhost_ioctl(g.dev, VHOST_RESET_OWNER, NULL));
	guest_stop(&g);
}

TEST(lifecycle, leak_reset_owner, 60)
{
	tap = tap_open(12);
	repeat("RESET_OWNER, close", reset_close, ROUNDS);
}

/* Calls that replace something the device held. */
static struct guest held;

static void replace_all(void)
{
	static const unsigned long calls[] = {
		VHOST_SET_VRING_KICK, VHOST_SET_VRING_CALL, VHOST_SET_VRING_ERR,
	};
	int fd;

	for (unsigned int q = 0; q < NQ; q++)
		for (int i = 0; i < 3; i++) {
			fd = xeventfd();
			OK(guest_vring_file(&held, calls[i], q, fd));
			close(fd);
		}
	guest_set_mem(&held);
	guest_set_features(&held, F_MODERN, 0);
	if (expect("log_ioctls")) {
		fd = xeventfd();
		OK(vhost_ioctl(held.dev, VHOST_SET_LOG_FD, &fd));
		close(fd);
	}
}

TEST(lifecycle, leak_replaced_eventfds, 60)
{
	tap = tap_open(12);
	guest_start(&held, &(struct guest_opt){ .features = F_MODERN, .num = 16 });
	/* Held by the device while this runs: the worker is still there at the end. */
	for (int attached = 0; attached < 2; attached++) {
		if (attached)
			guest_attach_both(&held, tap.fd);
		for (int i = 0; i < 5; i++)
			replace_all();
		take_level(&before);
		for (unsigned long i = 0; i < ROUNDS * 5; i++)
			replace_all();
		check_flat("replaced eventfds", &before, ROUNDS * 5);
	}
	guest_stop(&held);
}

/* Bad chains over and over: what was gathered for them is given back. */
TEST(lifecycle, leak_bad_chains, 60)
{
	struct rig r;
	struct ring *q = &r.g.q[TXQ];
	unsigned long rounds = ROUNDS * 10;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	ring_desc(q, 0, GPA_BASE + 4096, 100, VRING_DESC_F_NEXT, 1);
	ring_desc(q, 1, 4096, 100, 0, 0);
	ring_post(q, 0);
	for (unsigned long i = 0; i < rounds; i++) {
		if (i == 20)
			take_level(&before);
		ring_kick_always(q);
		CHECK(ring_error(q, WAIT_MS), "round %lu", i);
	}
	check_flat("bad chains", &before, rounds);
	rig_stop(&r);
}
