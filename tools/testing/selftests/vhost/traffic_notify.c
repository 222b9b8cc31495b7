// SPDX-License-Identifier: GPL-2.0
/* Who wakes whom: flags, event index, NOTIFY_ON_EMPTY. */
#define _GNU_SOURCE
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "util.h"

/* Sends one frame and waits for it to be used by looking at memory only. */
static void send_and_spin(struct rig *r)
{
	struct ring *q = &r->g.q[TXQ];
	int64_t end = now_ms() + WAIT_MS;
	unsigned char frame[FRAME_MIN];
	struct vring_used_elem e;

	frame_make(frame, sizeof(frame), 0, false);
	CHECK(guest_send(&r->g, frame, sizeof(frame)));
	ring_kick_always(q);
	while (!ring_used(q, &e)) {
		CHECK(now_ms() < end, "not used");
		sleep_ms(1);
	}
	slot_put(q, slot_of(q, e.id));
}

static bool called(struct rig *r, int ms)
{
	int fd = r->g.q[TXQ].call;

	return wait_readable(fd, ms) && eventfd_take(fd);
}

#define QUIET_MS	40

TEST(traffic, no_interrupt_flag, 30)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	send_and_spin(&r);
	CHECK(called(&r, WAIT_MS), "no call with flags 0");
	ring_calls(&r.g.q[TXQ], false);
	for (int i = 0; i < 5; i++)
		send_and_spin(&r);
	CHECK(!called(&r, QUIET_MS), "call in spite of NO_INTERRUPT");
	ring_calls(&r.g.q[TXQ], true);
	send_and_spin(&r);
	CHECK(called(&r, WAIT_MS), "no call after NO_INTERRUPT was taken off");
	rig_stop(&r);
}

/* With the feature an emptied ring signals whatever the flag says. */
TEST(traffic, notify_on_empty, 30)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = BIT(VIRTIO_F_NOTIFY_ON_EMPTY) });
	ring_calls(&r.g.q[TXQ], false);
	send_and_spin(&r);
	CHECK(called(&r, WAIT_MS), "no call though the ring ran empty");
	rig_stop(&r);
}

/* The first used entry after an attach is always signalled. */
TEST(traffic, event_first_signal, 30)
{
	struct rig r;
	struct ring *q = &r.g.q[TXQ];

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_EVENT });
	q->avail->ring[q->num] = 100;
	send_and_spin(&r);
	CHECK(called(&r, WAIT_MS), "first use after attach was not signalled");
	send_and_spin(&r);
	CHECK(!called(&r, QUIET_MS), "call, but used_event is far away");
	OK(guest_backend(&r.g, TXQ, -1));
	OK(guest_backend(&r.g, TXQ, r.tap.fd));
	send_and_spin(&r);
	CHECK(called(&r, WAIT_MS), "first use after the second attach was not signalled");
	rig_stop(&r);
}

/* A call exactly when the used index passes used_event, around the wrap too. */
TEST(traffic, event_exact, 30)
{
	static const unsigned int bases[] = { 0, 255, 32766, 65530 };

	for (int b = 0; b < 4; b++) {
		struct rig r;
		struct ring *q = &r.g.q[TXQ];

		rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_EVENT,
						   .base = bases[b] });
		send_and_spin(&r);
		CHECK(called(&r, WAIT_MS), "first");
		for (unsigned int dist = 0; dist < 4; dist++) {
			q->avail->ring[q->num] = (uint16_t)(q->next_used + dist);
			for (unsigned int i = 0; i < dist; i++)
				send_and_spin(&r);
			CHECK(!called(&r, 10), "call before used_event");
			send_and_spin(&r);
			CHECK(called(&r, WAIT_MS), "no call at used_event, distance %u", dist);
		}
		rig_stop(&r);
	}
}

/* When the device is idle it asks for the very next kick. */
TEST(traffic, kick_wanted_when_idle, 30)
{
	for (int event = 0; event < 2; event++) {
		struct rig r;
		struct ring *q = &r.g.q[TXQ];
		int64_t end = now_ms() + WAIT_MS;

		rig_start(&r, &(struct guest_opt){
			.features = F_MODERN | (event ? F_EVENT : 0), .base = 65534 });
		for (int i = 0; i < 4; i++)
			send_and_spin(&r);
		while (event ? *(volatile uint16_t *)&q->used->ring[q->num] != q->next_avail :
			       q->used->flags & VRING_USED_F_NO_NOTIFY) {
			CHECK(now_ms() < end, "no kick wanted though idle");
			sleep_ms(1);
		}
		rig_stop(&r);
	}
}

/*
 * Every round depends on a kick and on a call; no timer helps. A lost one shows
 * as a timeout. One frame at a time, so that each round goes idle in between.
 */
static void ping(uint64_t features, unsigned int num, unsigned int base)
{
	struct rig r;
	unsigned char frame[FRAME_MIN], buf[2048];

	rig_start(&r, &(struct guest_opt){ .features = features, .num = num, .base = base });
	guest_fill(&r.g);
	ring_kick(&r.g.q[RXQ]);
	for (uint32_t i = 0; i < 300; i++) {
		struct vring_used_elem e;
		struct ring *q = &r.g.q[TXQ];

		frame_make(frame, sizeof(frame), i, false);
		CHECK(guest_send(&r.g, frame, sizeof(frame)), "round %u", i);
		ring_kick(q);
		CHECK(ring_wait(q, &e, WAIT_MS), "lost kick or call on TX, round %u", i);
		slot_put(q, slot_of(q, e.id));
		frame_make(frame, sizeof(frame), i, true);
		host_send(r.host, frame, sizeof(frame));
		CHECK(guest_recv_wait(&r.g, buf, sizeof(buf), NULL, WAIT_MS),
		      "lost kick or call on RX, round %u", i);
		guest_fill(&r.g);
		ring_kick(&r.g.q[RXQ]);
	}
	rig_stop(&r);
}

TEST(traffic, ping_flags, 30)
{
	ping(F_MODERN, 256, 65400);
	ping(F_MODERN, 1, 65400);
}

TEST(traffic, ping_event, 30)
{
	ping(F_MODERN | F_EVENT, 256, 65400);
	ping(F_MODERN | F_EVENT, 1, 65400);
	ping(F_MODERN | F_EVENT, 2, 32700);
}

TEST(traffic, busy_poll, 60)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_EVENT, .base = 65500 });
	if (!guest_busyloop(&r.g, 100))
		SKIP("the module has no busy polling");
	rig_pass(&r, 2000, 2000, 0);
	rig_alive(&r);
	rig_stop(&r);
}

/* Small rings run empty all the time: the device has to look again before it sleeps. */
TEST(traffic, event_small_ring_flood, 60)
{
	for (unsigned int num = 1; num <= 8; num *= 2) {
		struct rig r;

		rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_EVENT,
						   .num = num, .base = 65500 });
		rig_pass(&r, 1000, 1000, FRAME_MIN);
		rig_stop(&r);
	}
}
