// SPDX-License-Identifier: GPL-2.0
/* Other backends than a plain tap: finite send buffer, packet socket, macvtap. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

static void set_sndbuf(int fd, int bytes)
{
	CHECK(!ioctl(fd, TUNSETSNDBUF, &bytes), "%s", strerror(errno));
}

TEST(traffic, sndbuf_finite, 30)
{
	static const int sizes[] = { 1, 3000, 65536, 1 << 20, INT_MAX };
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	for (int i = 0; i < 5; i++) {
		set_sndbuf(r.tap.fd, sizes[i]);
		rig_pass(&r, 500, 500, 0);
	}
	rig_stop(&r);
}

/*
 * A slow link behind the tap: the frames under way hold the tap's send buffer,
 * the guest's ring fills, and nothing is lost.
 */
TEST(traffic, sndbuf_back_pressure, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;
	struct flow f = { .g = &g, .tx = 1000, .len = 1200, .window = 1000 };
	int tc;

	link_add_bridge("vbr0");
	link_add_veth("va0", "va1");
	link_set_master(tap.name, "vbr0");
	link_set_master("va0", "vbr0");
	link_up("vbr0");
	link_up("va0");
	link_up("va1");
	tc = run((const char *const[]){ "tc", "qdisc", "add", "dev", "va0", "root", "tbf",
		 "rate", "10mbit", "burst", "5kb", "limit", "10mb", NULL });
	if (tc)
		SKIP("tc cannot add a tbf qdisc (exit %d): install iproute2, modprobe sch_tbf", tc);
	set_sndbuf(tap.fd, 16384);
	f.host = host_open("va1");
	guest_start(&g, &(struct guest_opt){ .features = F_MODERN, .num = 1024 });
	guest_attach_both(&g, tap.fd);
	flow_run(&f);
	guest_stop(&g);
	link_del("va0");
	link_del("vbr0");
}

static void packet(uint64_t features, unsigned int hdr)
{
	struct guest g;
	struct flow f = { .g = &g, .tx = 1000, .rx = 1000, .odd_hdr = true };
	int fd;

	link_add_veth("va0", "va1");
	link_up("va0");
	link_up("va1");
	fd = raw_open("va0", hdr);
	f.host = host_open("va1");
	guest_start(&g, &(struct guest_opt){ .features = features });
	guest_attach_both(&g, fd);
	flow_run(&f);
	guest_stop(&g);
	close(fd);
	close(f.host);
	link_del("va0");
}

TEST(traffic, packet_socket, 30)
{
	packet(F_MODERN, 12);
	packet(F_MODERN | F_MRG | F_EVENT, 12);
}

TEST(traffic, packet_socket_legacy, 30)
{
	packet(0, 10);
}

TEST(traffic, packet_socket_header_by_vhost, 30)
{
	packet(BIT(VHOST_NET_F_VIRTIO_NET_HDR), 0);
	packet(BIT(VHOST_NET_F_VIRTIO_NET_HDR) | F_MODERN | F_MRG, 0);
}

static void macvtap(uint64_t features)
{
	struct guest g;
	struct flow f = { .g = &g, .tx = 1000, .rx = 1000, .odd_hdr = true };
	int fd;

	link_add_veth("va0", "va1");
	link_add_macvtap("vmt0", "va0");
	link_up("va0");
	link_up("va1");
	link_up("vmt0");
	fd = macvtap_open("vmt0", header_size(features, 0));
	f.host = host_open("va1");
	guest_start(&g, &(struct guest_opt){ .features = features });
	guest_attach_both(&g, fd);
	flow_run(&f);
	guest_stop(&g);
	close(fd);
	close(f.host);
	link_del("va0");
}

TEST(traffic, macvtap, 30)
{
	macvtap(F_MODERN | F_MRG | F_EVENT);
	macvtap(F_MODERN);
}

TEST(traffic, macvtap_legacy, 30)
{
	macvtap(0);
}

/* Each queue on a tap of its own. */
TEST(traffic, two_taps, 30)
{
	struct tap a = tap_open(12), b = tap_open(12);
	struct guest g;
	struct flow rx = { .g = &g, .host = host_open(a.name), .rx = 500 };
	struct flow tx = { .g = &g, .host = host_open(b.name), .tx = 500 };

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	OK(guest_backend(&g, RXQ, a.fd));
	OK(guest_backend(&g, TXQ, b.fd));
	flow_run(&rx);
	flow_run(&tx);
	guest_stop(&g);
}

/* Only one queue of the pair. */
TEST(traffic, one_queue_only, 30)
{
	struct rig r;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	OK(guest_backend(&r.g, RXQ, -1));
	rig_pass(&r, 500, 0, 0);
	OK(guest_backend(&r.g, RXQ, r.tap.fd));
	OK(guest_backend(&r.g, TXQ, -1));
	rig_pass(&r, 0, 500, 0);
	rig_stop(&r);
}
