// SPDX-License-Identifier: GPL-2.0
/* NET_SET_BACKEND: what is a backend and what is not. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/ethernet.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "flow.h"
#include "guest.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

#define MODERN	(&(struct guest_opt){ .features = F_MODERN })

TEST(ioctl, backend_bad_pointer, 30)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	ERR(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, NULL), -EFAULT);
	ERR(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, prot_none()), -EFAULT);
	ERR(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, guard_page() - 4), -EFAULT);
	close(dev);
}

TEST(ioctl, backend_tap, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;

	guest_start(&g, MODERN);
	for (unsigned int q = 0; q < NQ; q++) {
		OK(guest_backend(&g, q, tap.fd));
		OK(guest_backend(&g, q, tap.fd));
		OK(guest_backend(&g, q, -1));
		OK(guest_backend(&g, q, -1));
		OK(guest_backend(&g, q, tap.fd));
	}
	guest_stop(&g);
}

TEST(ioctl, backend_packet_socket, 30)
{
	struct guest g;
	int fd;

	link_add_veth("va0", "va1");
	link_up("va0");
	link_up("va1");
	fd = raw_open("va0", 12);
	guest_start(&g, MODERN);
	guest_attach_both(&g, fd);
	guest_detach_both(&g);
	guest_stop(&g);
	link_del("va0");
}

struct odd_fd {
	const char *what;
	int fd;
};

static int sock(int family, int type, int proto)
{
	return socket(family, type | SOCK_CLOEXEC, proto);
}

static size_t odd_fds(struct odd_fd *t, int vhost)
{
	int pipes[2], closed = dup(0), pair[2];
	size_t n = 0;

	CHECK(!pipe(pipes) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "%s",
	      strerror(errno));
	close(closed);
	t[n++] = (struct odd_fd){ "AF_INET raw", sock(AF_INET, SOCK_RAW, IPPROTO_ICMP) };
	t[n++] = (struct odd_fd){ "AF_INET6 raw", sock(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6) };
	t[n++] = (struct odd_fd){ "AF_INET udp", sock(AF_INET, SOCK_DGRAM, 0) };
	t[n++] = (struct odd_fd){ "AF_INET tcp", sock(AF_INET, SOCK_STREAM, 0) };
	t[n++] = (struct odd_fd){ "AF_PACKET dgram", sock(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL)) };
	t[n++] = (struct odd_fd){ "AF_NETLINK raw", sock(AF_NETLINK, SOCK_RAW, 0) };
	t[n++] = (struct odd_fd){ "AF_VSOCK", sock(AF_VSOCK, SOCK_STREAM, 0) };
	t[n++] = (struct odd_fd){ "AF_UNIX", pair[0] };
	t[n++] = (struct odd_fd){ "pipe, read end", pipes[0] };
	t[n++] = (struct odd_fd){ "pipe, write end", pipes[1] };
	t[n++] = (struct odd_fd){ "eventfd", xeventfd() };
	t[n++] = (struct odd_fd){ "timerfd", timerfd_create(CLOCK_MONOTONIC, 0) };
	t[n++] = (struct odd_fd){ "epoll", epoll_create1(0) };
	t[n++] = (struct odd_fd){ "memfd", memfd_create("x", 0) };
	t[n++] = (struct odd_fd){ "regular file", open("/proc/self/exe", O_RDONLY) };
	t[n++] = (struct odd_fd){ "directory", open("/", O_RDONLY) };
	t[n++] = (struct odd_fd){ "/dev/null", open("/dev/null", O_RDWR) };
	t[n++] = (struct odd_fd){ "O_PATH of /dev/net/tun", open("/dev/net/tun", O_PATH) };
	t[n++] = (struct odd_fd){ "the vhost node itself", vhost };
	t[n++] = (struct odd_fd){ "a closed fd", closed };
	t[n++] = (struct odd_fd){ "fd -2", -2 };
	t[n++] = (struct odd_fd){ "fd 1 << 20", 1 << 20 };
	t[n++] = (struct odd_fd){ "fd INT_MIN", (int)0x80000000 };
	return n;
}

static void refuse_all(struct guest *g)
{
	struct odd_fd t[32];
	size_t n = odd_fds(t, g->dev);

	for (size_t i = 0; i < n; i++)
		for (unsigned int q = 0; q < NQ; q++) {
			int r;

			if (t[i].fd == -1)
				continue;	/* this kernel has no such socket */
			r = guest_backend(g, q, t[i].fd);
			CHECK(r == -ENOTSOCK, "%s on queue %u: %s", t[i].what, q,
			      strerror(-r));
		}
}

TEST(ioctl, backend_wrong_fd, 30)
{
	struct guest g;

	guest_start(&g, MODERN);
	refuse_all(&g);
	/* Nothing was attached by that. */
	OK(guest_vring_num(&g, RXQ, 256));
	OK(guest_vring_num(&g, TXQ, 256));
	guest_stop(&g);
}

TEST(ioctl, backend_wrong_fd_keeps_old, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;
	struct flow f = { .g = &g, .host = host_open(tap.name), .tx = 300, .rx = 300 };

	guest_start(&g, MODERN);
	guest_attach_both(&g, tap.fd);
	refuse_all(&g);
	ERR(guest_vring_num(&g, RXQ, 256), -EBUSY);
	flow_run(&f);
	guest_stop(&g);
}

/* A tun file without an interface polls as an error. */
TEST(ioctl, backend_bare_tun, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;
	struct flow f = { .g = &g, .host = host_open(tap.name), .tx = 300, .rx = 300 };
	int bare = tun_open_bare();

	guest_start(&g, MODERN);
	for (unsigned int q = 0; q < NQ; q++)
		ERR(guest_backend(&g, q, bare), -EINVAL);
	guest_attach_both(&g, tap.fd);
	for (unsigned int q = 0; q < NQ; q++)
		ERR(guest_backend(&g, q, bare), -EINVAL);
	close(bare);
	flow_run(&f);
	guest_stop(&g);
}

/* A tap whose interface was deleted, likewise; its file goes away first. */
TEST(ioctl, backend_deleted_tap, 30)
{
	struct tap tap = tap_open(12), gone = tap_open(12);
	struct guest g;
	struct flow f = { .g = &g, .host = host_open(tap.name), .tx = 300, .rx = 300 };

	guest_start(&g, MODERN);
	link_del(gone.name);
	for (unsigned int q = 0; q < NQ; q++)
		ERR(guest_backend(&g, q, gone.fd), -EINVAL);
	guest_attach_both(&g, tap.fd);
	for (unsigned int q = 0; q < NQ; q++)
		ERR(guest_backend(&g, q, gone.fd), -EINVAL);
	close(gone.fd);
	flow_run(&f);
	guest_stop(&g);
}

TEST(ioctl, backend_order_of_checks, 30)
{
	struct vhost_vring_file f = { .index = 5, .fd = 0 };
	struct guest g;

	guest_start(&g, MODERN);
	/* Index before anything about the fd. */
	ERR(vhost_ioctl(g.dev, VHOST_NET_SET_BACKEND, &f), -ENOBUFS);
	/* The ring before the fd. */
	OK(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR,
		       &(struct vhost_vring_addr){ .index = TXQ,
						   .desc_user_addr = ~0ULL << 47 }));
	ERR(guest_backend(&g, TXQ, 1 << 20), -EFAULT);
	guest_stop(&g);
}

/* The attached backend holds the file: closing our fd does not end it. */
TEST(ioctl, backend_survives_close_of_fd, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;
	struct flow f = { .g = &g, .host = host_open(tap.name), .tx = 200, .rx = 200 };

	guest_start(&g, MODERN);
	guest_attach_both(&g, tap.fd);
	close(tap.fd);
	flow_run(&f);
	guest_detach_both(&g);
	/* Now it is gone, and with it the interface. */
	for (int64_t end = now_ms() + WAIT_MS; link_exists(tap.name); sleep_ms(5))
		CHECK(now_ms() < end, "the tap is still there after detach");
	guest_stop(&g);
}
