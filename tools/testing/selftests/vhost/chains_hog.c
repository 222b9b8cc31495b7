// SPDX-License-Identifier: GPL-2.0
/* Chains that cost much and carry little must not keep the worker. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chains.h"
#include "util.h"

#define ENTRIES	32768
#define BIG	1500
#define LIMIT_MS 2000

/* Unbounded, one look at 512 heads takes several seconds, at 128 a part of that. */
static unsigned int heads(void)
{
	return expect("empty_descs_hog") ? 128 : 512;
}

struct hog {
	struct rig r;
	pthread_t thread;
	atomic_bool stop;
};

/* One table for all heads: nothing, nothing, ..., and at its end a buffer of `last` bytes. */
static void post_heads(struct guest *g, unsigned int last)
{
	uint64_t at = guest_alloc(g, ENTRIES * sizeof(struct vring_desc), 4096);
	uint64_t buf = guest_alloc(g, 4096, 4096);
	struct vring_desc *t = gva(g, at);

	for (unsigned int i = 0; i < ENTRIES; i++)
		t[i] = (struct vring_desc){
			.addr = buf, .len = i < ENTRIES - 1 ? 0 : last,
			.flags = VRING_DESC_F_WRITE | (i < ENTRIES - 1 ? VRING_DESC_F_NEXT : 0),
		};
	for (unsigned int i = 0; i < heads(); i++) {
		ring_desc(&g->q[RXQ], i, at, ENTRIES * sizeof(*t), VRING_DESC_F_INDIRECT, 0);
		ring_post(&g->q[RXQ], i);
	}
}

/* What comes back is posted again at once, and the device is kicked without need. */
static void *hog_main(void *arg)
{
	struct hog *h = arg;
	struct ring *q = &h->r.g.q[RXQ];
	int host = host_open(h->r.tap.name);
	struct vring_used_elem e;
	unsigned char frame[BIG];

	frame_make(frame, sizeof(frame), 0, true);
	while (!h->stop) {
		for (int i = 0; i < 32; i++)
			if (send(host, frame, sizeof(frame), 0) < 0)
				break;
		while (ring_used(q, &e))
			ring_post(q, e.id);
		ring_kick_always(q);
		sleep_ms(1);
	}
	close(host);
	return NULL;
}

static void hog_start(struct hog *h, unsigned int last)
{
	rig_start(&h->r, &(struct guest_opt){ .num = heads(), .bufsz = 128,
					      .features = F_MODERN | F_MRG | F_INDIRECT });
	post_heads(&h->r.g, last);
	h->stop = false;
	CHECK(!pthread_create(&h->thread, NULL, hog_main, h), "no thread");
	sleep_ms(50);
}

/* Frames the other way, one at a time; returns the longest time that one took. */
static int64_t slowest_frame(struct rig *r, unsigned int n)
{
	int64_t slowest = 0;

	for (unsigned int i = 0; i < n && slowest < LIMIT_MS; i++) {
		int64_t start = now_ms();

		rig_pass(r, 1, 0, FRAME_MIN);
		if (now_ms() - start > slowest)
			slowest = now_ms() - start;
	}
	return slowest;
}

static void hogged(unsigned int last)
{
	bool bounded = !expect("empty_descs_hog");
	struct hog h;
	int64_t frame, detach, end;

	hog_start(&h, last);
	frame = slowest_frame(&h.r, bounded ? 30 : 1);
	detach = now_ms();
	guest_detach_both(&h.r.g);
	detach = now_ms() - detach;
	guest_attach_both(&h.r.g, h.r.tap.fd);
	sleep_ms(20);
	end = now_ms();
	close(h.r.g.dev);
	h.r.g.dev = -1;
	end = now_ms() - end;
	h.stop = true;
	pthread_join(h.thread, NULL);
	ktap_note("last entry of %u: frame %lld ms, detach %lld ms, close %lld ms", last,
		  (long long)frame, (long long)detach, (long long)end);
	if (bounded)
		CHECK(frame < LIMIT_MS && detach < LIMIT_MS && end < LIMIT_MS, "too long");
	rig_stop(&h.r);
}

/*
 * Too little for a frame, so that it would take all heads; and enough in one head.
 * Without a bound one of them takes long enough.
 */
TEST(chains, empty_descriptors_bounded, 60)
{
	hogged(1);
	if (!expect("empty_descs_hog"))
		hogged(2048);
}
