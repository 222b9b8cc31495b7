// SPDX-License-Identifier: GPL-2.0
/* The worker under more work than it can do. */
#define _GNU_SOURCE
#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "util.h"

#define MODERN	(&(struct guest_opt){ .features = F_MODERN | F_MRG | F_EVENT })

/* ---- kicks without end ---- */

#define KICKERS	8

struct kickers {
	int kick[NQ];
	atomic_bool stop;
	pthread_t t[KICKERS];
};

static void *kick_main(void *arg)
{
	struct kickers *k = arg;
	uint64_t one = 1;

	for (unsigned int i = 0; !k->stop; i++)
		CHECK(write(k->kick[i & 1], &one, sizeof(one)) == sizeof(one), "%s",
		      strerror(errno));
	return NULL;
}

static void kickers_start(struct kickers *k, struct guest *g)
{
	k->stop = false;
	for (unsigned int q = 0; q < NQ; q++)
		k->kick[q] = g->q[q].kick;
	for (int i = 0; i < KICKERS; i++)
		CHECK(!pthread_create(&k->t[i], NULL, kick_main, k), "no thread");
}

static void kickers_stop(struct kickers *k)
{
	k->stop = true;
	for (int i = 0; i < KICKERS; i++)
		pthread_join(k->t[i], NULL);
}

/* Through a reset, a second life and the close. */
TEST(lifecycle, kick_from_many_threads, 60)
{
	struct rig r;
	struct flood *f;
	struct kickers k;
	unsigned long passed;

	rig_start(&r, MODERN);
	f = flood_start(&r.g, r.tap.name);
	kickers_start(&k, &r.g);
	sleep_ms(2000);
	passed = flood_count(f);
	CHECK(passed > 100, "only %lu frames in 2 s", passed);
	OK(vhost_ioctl(r.g.dev, VHOST_RESET_OWNER, NULL));
	wait_no_worker(getpid());
	flood_stop(f);
	for (unsigned int q = 0; q < NQ; q++)
		ring_reset(&r.g, q, 0);
	guest_setup(&r.g);
	rig_alive(&r);
	close(r.g.dev);
	r.g.dev = -1;
	wait_no_worker(getpid());
	kickers_stop(&k);
	rig_stop(&r);
}

/* ---- turns ---- */

#define BACKLOG	8192
/* A handler has 256 frames per turn; the rest is for looks that are not quite at once. */
#define LEAD	2048

static void set_queue_len(const char *ifname, int len)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_qlen = len };

	memcpy(ifr.ifr_name, ifname, IFNAMSIZ);
	CHECK(s >= 0 && !ioctl(s, SIOCSIFTXQLEN, &ifr), "%s", strerror(errno));
	close(s);
}

/* As many frames on either side as are there before anybody begins. */
static void pile_up(struct rig *r)
{
	unsigned char frame[FRAME_MIN];

	for (uint32_t i = 0; i < BACKLOG; i++) {
		frame_make(frame, sizeof(frame), i, true);
		host_send(r->host, frame, sizeof(frame));
		frame_make(frame, sizeof(frame), i, false);
		CHECK(guest_send(&r->g, frame, sizeof(frame)), "ring full");
	}
	EQ(guest_fill_n(&r->g, BACKLOG), BACKLOG);
}

struct moved {
	unsigned int rx, tx;
};

/* True if the look was quick enough to tell what both have done at the same time. */
static bool look(struct rig *r, struct moved *m)
{
	unsigned int before = r->g.q[TXQ].used->idx;

	m->rx = r->g.q[RXQ].used->idx;
	m->tx = r->g.q[TXQ].used->idx;
	return m->tx - before < LEAD / 2;
}

static bool both_at_work(const struct moved *m)
{
	return m->rx && m->tx && m->rx < BACKLOG && m->tx < BACKLOG;
}

/* From the first look at which both had begun. */
static void compare(const struct moved *from, const struct moved *m)
{
	unsigned int rx = m->rx - from->rx, tx = m->tx - from->tx;

	CHECK(rx < tx + LEAD, "%u frames received, only %u sent", rx, tx);
	CHECK(tx < rx + LEAD, "%u frames sent, only %u received", tx, rx);
}

/* Returns how many looks saw both queues at work. */
static unsigned int turns(void)
{
	struct rig r;
	struct moved m = { 0 }, from = m;
	unsigned int both = 0;
	int64_t end = now_ms() + WAIT_MS;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN, .num = BACKLOG, .bufsz = 128 });
	set_queue_len(r.tap.name, BACKLOG);
	pile_up(&r);
	ring_kick_always(&r.g.q[TXQ]);
	ring_kick_always(&r.g.q[RXQ]);
	do {
		CHECK(now_ms() < end, "%u received and %u sent of %u", m.rx, m.tx, BACKLOG);
		if (!look(&r, &m) || !both_at_work(&m))
			continue;
		if (!both++)
			from = m;
		compare(&from, &m);
	} while (m.rx < BACKLOG || m.tx < BACKLOG);
	rig_stop(&r);
	return both;
}

TEST(lifecycle, worker_has_turns, 60)
{
	unsigned int both = 0;

	for (int i = 0; i < 5; i++)
		both += turns();
	CHECK(both > 20, "the queues were at work at the same time in %u looks only", both);
}
