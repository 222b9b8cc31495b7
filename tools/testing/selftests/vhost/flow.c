// SPDX-License-Identifier: GPL-2.0
/* Numbered frames through the device, checked byte by byte and in order. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

#define STALL_MS	WAIT_MS
#define BATCH		32

struct frame {
	unsigned char dst[6], src[6];
	uint16_t proto;
	uint32_t seq;
	uint32_t len;
	unsigned char data[];
} __attribute__((packed));

static unsigned char pattern(uint32_t seq, unsigned int i)
{
	return (unsigned char)(seq * 31 + i * 7 + (i >> 8));
}

void frame_make(void *buf, unsigned int len, uint32_t seq, bool to_guest)
{
	struct frame *f = buf;

	memcpy(f->dst, to_guest ? GUEST_MAC : HOST_MAC, 6);
	memcpy(f->src, to_guest ? HOST_MAC : GUEST_MAC, 6);
	f->proto = htons(TEST_PROTO);
	f->seq = seq;
	f->len = len;
	for (unsigned int i = 0; i < len - sizeof(*f); i++)
		f->data[i] = pattern(seq, i);
}

uint32_t frame_seq(const void *buf)
{
	return ((const struct frame *)buf)->seq;
}

const char *frame_error(const void *buf, unsigned int len, unsigned int want_len,
			uint32_t seq)
{
	const struct frame *f = buf;

	if (len != want_len)
		return "wrong length";
	if (f->proto != htons(TEST_PROTO) || f->len != len)
		return "wrong header";
	if (f->seq != seq)
		return "wrong number";
	for (unsigned int i = 0; i < len - sizeof(*f); i++)
		if (f->data[i] != pattern(seq, i))
			return "wrong payload";
	return NULL;
}

static unsigned int frame_len(const struct flow *f, uint32_t seq)
{
	return f->len ? f->len : FRAME_MIN + seq * 37 % 1340;
}

struct progress {
	unsigned long tx_sent, tx_got, rx_sent, rx_got;
};

/* Checks one frame that arrived as number *next or, if lossy, later. */
static void check_frame(struct flow *f, const void *buf, unsigned int len,
			unsigned long *next, const char *way)
{
	uint32_t seq = (uint32_t)*next;
	const char *err;

	if (f->lossy && len >= FRAME_MIN && frame_seq(buf) > seq)
		seq = frame_seq(buf);
	err = frame_error(buf, len, frame_len(f, seq), seq);
	if (err)
		FAIL("%s frame %u (%u bytes): %s, it says number %u", way, seq, len, err,
		     frame_seq(buf));
	*next = seq + 1UL;
}

static bool tx_post(struct flow *f, struct progress *p)
{
	static char buf[FRAME_MAX];
	bool any = guest_reclaim(f->g) > 0, posted = false;

	while (p->tx_sent < f->tx && p->tx_sent - p->tx_got < f->window) {
		unsigned int len = frame_len(f, (uint32_t)p->tx_sent);

		frame_make(buf, len, (uint32_t)p->tx_sent, false);
		if (!guest_send(f->g, buf, len))
			break;
		p->tx_sent++;
		posted = true;
	}
	if (posted)
		ring_kick(&f->g->q[TXQ]);
	return any || posted;
}

static bool tx_collect(struct flow *f, struct progress *p)
{
	static char buf[FRAME_MAX];
	bool any = false;
	ssize_t n;

	while (p->tx_got < f->tx && (n = recv(f->host, buf, sizeof(buf), 0)) > 0) {
		check_frame(f, buf, (unsigned int)n, &p->tx_got, "sent");
		any = true;
	}
	return any;
}

static bool rx_send(struct flow *f, struct progress *p)
{
	static char buf[FRAME_MAX];
	bool any = false;

	for (int i = 0; i < BATCH && p->rx_sent < f->rx &&
	     p->rx_sent - p->rx_got < f->window; i++) {
		unsigned int len = frame_len(f, (uint32_t)p->rx_sent);

		frame_make(buf, len, (uint32_t)p->rx_sent, true);
		host_send(f->host, buf, len);
		p->rx_sent++;
		any = true;
	}
	return any;
}

static void check_header(struct flow *f, const char *buf)
{
	struct virtio_net_hdr h;

	memcpy(&h, buf, sizeof(h));
	if (!f->odd_hdr)
		CHECK(!h.flags && !h.gso_type && !h.gso_size,
		      "header flags %x gso %x", h.flags, h.gso_type);
}

static bool rx_collect(struct flow *f, struct progress *p)
{
	static char buf[FRAME_MAX];
	unsigned int len;
	bool any = false;

	while (p->rx_got < f->rx && (len = guest_recv(f->g, buf, sizeof(buf), NULL))) {
		check_header(f, buf);
		check_frame(f, buf + f->g->hlen, len - f->g->hlen, &p->rx_got, "received");
		any = true;
	}
	if (f->rx && guest_fill(f->g))
		ring_kick(&f->g->q[RXQ]);
	return any;
}

/* Sleeps until something can have moved. */
static bool wait_progress(struct flow *f, struct progress *p)
{
	struct pollfd fds[3] = {
		{ .fd = f->g->q[RXQ].call, .events = POLLIN },
		{ .fd = f->g->q[TXQ].call, .events = POLLIN },
		{ .fd = f->host, .events = p->tx_got < f->tx ? POLLIN : 0 },
	};
	bool ready = p->rx_got < f->rx && ring_arm(&f->g->q[RXQ]);

	/* TX slots only matter while there is something left to send. */
	if (p->tx_sent < f->tx)
		ready |= ring_arm(&f->g->q[TXQ]);
	if (ready)
		return true;
	if (poll(fds, 3, STALL_MS) <= 0)
		return false;
	eventfd_take(f->g->q[RXQ].call);
	eventfd_take(f->g->q[TXQ].call);
	return true;
}

void flow_run(struct flow *f)
{
	struct progress p = { 0 };

	if (!f->window)
		f->window = 64;
	if (f->rx && guest_fill(f->g))
		ring_kick(&f->g->q[RXQ]);
	while (p.tx_got < f->tx || p.rx_got < f->rx) {
		bool any = tx_post(f, &p);

		any |= tx_collect(f, &p);
		any |= rx_send(f, &p);
		any |= rx_collect(f, &p);
		if (!any && !wait_progress(f, &p))
			FAIL("stall: sent %lu, arrived %lu of %lu; to guest %lu, arrived %lu of %lu",
			     p.tx_sent, p.tx_got, f->tx, p.rx_sent, p.rx_got, f->rx);
	}
}

static void drain(int host)
{
	char buf[64];

	while (recv(host, buf, sizeof(buf), 0) > 0)
		;
}

static void restart(struct guest *g, unsigned int q)
{
	OK(guest_backend(g, q, -1));
	ring_reset(g, q, 0);
	OK(guest_vring_base(g, q, 0));
	OK(guest_vring_addr(g, q));
}

/* Takes out what waits in the backend, so that numbers start at 0 again. */
static void drain_backend(int backend)
{
	char buf[64];

	while (read(backend, buf, sizeof(buf)) > 0)
		;
}

void alive(struct guest *g, int backend, int host)
{
	struct flow f = { .g = g, .host = host, .tx = 200, .rx = 200, .len = FRAME_MIN };

	restart(g, RXQ);
	restart(g, TXQ);
	drain_backend(backend);
	drain(host);
	guest_attach_both(g, backend);
	flow_run(&f);
}

/* ---- rig ---- */

void rig_start(struct rig *r, const struct guest_opt *opt)
{
	/* With VHOST_NET_F_VIRTIO_NET_HDR the header is vhost's affair, not the tap's. */
	bool by_vhost = opt->features & BIT(VHOST_NET_F_VIRTIO_NET_HDR);

	r->tap = tap_open(by_vhost ? 0 : header_size(opt->features, opt->features1));
	r->host = host_open(r->tap.name);
	guest_start(&r->g, opt);
	guest_attach_both(&r->g, r->tap.fd);
}

void rig_stop(struct rig *r)
{
	guest_stop(&r->g);
	close(r->tap.fd);
	close(r->host);
}

void rig_pass(struct rig *r, unsigned long tx, unsigned long rx, unsigned int len)
{
	struct flow f = { .g = &r->g, .host = r->host, .tx = tx, .rx = rx, .len = len };

	flow_run(&f);
}

void rig_alive(struct rig *r)
{
	alive(&r->g, r->tap.fd, r->host);
}

void wait_no_worker(pid_t pid)
{
	char name[16];

	snprintf(name, sizeof(name), "vhost-%d", pid);
	for (int64_t end = now_ms() + WAIT_MS; find_thread(name); sleep_ms(5))
		CHECK(now_ms() < end, "worker %s is still there", name);
}

/* ---- flood ---- */

struct flood {
	struct guest *g;
	int host;
	pthread_t thread;
	atomic_bool stop;
	atomic_ulong passed;
};

static void flood_rx(struct flood *f)
{
	static char buf[FRAME_MAX];
	unsigned int len;

	while ((len = guest_recv(f->g, buf, sizeof(buf), NULL))) {
		char *frame = buf + f->g->hlen;
		const char *err = frame_error(frame, len - f->g->hlen, FRAME_MIN,
					      frame_seq(frame));

		CHECK(!err, "%s", err);
		f->passed++;
	}
	if (guest_fill(f->g))
		ring_kick(&f->g->q[RXQ]);
}

static void flood_host(struct flood *f, uint32_t seq)
{
	static char buf[FRAME_MAX];
	ssize_t n;

	while ((n = recv(f->host, buf, sizeof(buf), 0)) > 0) {
		const char *err = frame_error(buf, (unsigned int)n, FRAME_MIN,
					      frame_seq(buf));

		CHECK(!err, "%s", err);
		f->passed++;
	}
	for (int i = 0; i < BATCH; i++) {
		frame_make(buf, FRAME_MIN, seq + (uint32_t)i, true);
		/* The device may be gone or its queue full: that is the point. */
		if (send(f->host, buf, FRAME_MIN, 0) < 0)
			break;
	}
}

static void flood_tx(struct flood *f, uint32_t seq)
{
	static char buf[FRAME_MAX];
	bool any = false;

	guest_reclaim(f->g);
	for (int i = 0; i < BATCH; i++) {
		frame_make(buf, FRAME_MIN, seq + (uint32_t)i, false);
		if (!guest_send(f->g, buf, FRAME_MIN))
			break;
		any = true;
	}
	if (any)
		ring_kick(&f->g->q[TXQ]);
}

static void *flood_main(void *arg)
{
	struct flood *f = arg;

	for (uint32_t seq = 0; !f->stop; seq += BATCH) {
		flood_tx(f, seq);
		flood_host(f, seq);
		flood_rx(f);
	}
	return NULL;
}

struct flood *flood_start(struct guest *g, const char *ifname)
{
	struct flood *f = calloc(1, sizeof(*f));

	CHECK(f, "out of memory");
	f->g = g;
	f->host = host_open(ifname);
	CHECK(!pthread_create(&f->thread, NULL, flood_main, f), "no thread");
	return f;
}

unsigned long flood_count(struct flood *f)
{
	return f->passed;
}

unsigned long flood_stop(struct flood *f)
{
	unsigned long n;

	f->stop = true;
	pthread_join(f->thread, NULL);
	n = f->passed;
	close(f->host);
	free(f);
	return n;
}
