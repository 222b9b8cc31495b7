// SPDX-License-Identifier: GPL-2.0
/* Who may do what: SET_OWNER, RESET_OWNER, and everything else without being owner. */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

TEST(ioctl, set_owner, 30)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	close(dev);
}

TEST(ioctl, set_owner_twice, 30)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	ERR(vhost_ioctl(dev, VHOST_SET_OWNER, NULL), -EBUSY);
	ERR(vhost_ioctl(dev, VHOST_SET_OWNER, NULL), -EBUSY);
	close(dev);
}

/* Two opens are two devices. */
TEST(ioctl, two_opens_two_owners, 30)
{
	int a = node_open(), b = node_open();

	OK(vhost_ioctl(a, VHOST_SET_OWNER, NULL));
	OK(vhost_ioctl(b, VHOST_SET_OWNER, NULL));
	close(a);
	ERR(vhost_ioctl(b, VHOST_SET_OWNER, NULL), -EBUSY);
	close(b);
}

/* Every call that asks for the owner, with an argument that would be fine otherwise. */
static void expect_eperm(int dev)
{
	struct vhost_memory mem = { 0 };
	struct vhost_vring_state state = { .num = 256 };
	struct vhost_vring_addr addr = { 0 };
	struct vhost_vring_file file = { .fd = -1 };
	uint64_t log = 0;
	int none = -1;

	ERR(vhost_ioctl(dev, VHOST_RESET_OWNER, NULL), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_MEM_TABLE, &mem), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_LOG_BASE, &log), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_LOG_FD, &none), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_NUM, &state), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_BASE, &state), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_GET_VRING_BASE, &state), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_ADDR, &addr), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_KICK, &file), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_CALL, &file), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_ERR, &file), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_ENDIAN, &state), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_GET_VRING_ENDIAN, &state), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_BUSYLOOP_TIMEOUT, &state), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_GET_VRING_BUSYLOOP_TIMEOUT, &state), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, &file), -EPERM);
	/* A number nobody knows is also asked for the owner first. */
	ERR(vhost_ioctl(dev, _IO(VHOST_VIRTIO, 0xee), NULL), -EPERM);
}

/* What needs no owner works for everybody. */
static void expect_open_calls(int dev)
{
	uint64_t f = 0, array[2] = { 1, 0 };

	OK(vhost_ioctl(dev, VHOST_GET_FEATURES, &f));
	f = F_MODERN;
	OK(vhost_ioctl(dev, VHOST_SET_FEATURES, &f));
	OK(vhost_ioctl(dev, VHOST_GET_FEATURES_ARRAY, array));
	array[1] = F_MODERN;
	OK(vhost_ioctl(dev, VHOST_SET_FEATURES_ARRAY, array));
	OK(vhost_ioctl(dev, VHOST_GET_BACKEND_FEATURES, &f));
	f = 0;
	OK(vhost_ioctl(dev, VHOST_SET_BACKEND_FEATURES, &f));
}

TEST(ioctl, no_owner_eperm, 30)
{
	int dev = node_open();

	expect_eperm(dev);
	close(dev);
}

TEST(ioctl, no_owner_allowed, 30)
{
	int dev = node_open();

	expect_open_calls(dev);
	close(dev);
}

static void other_process(void *arg)
{
	int dev = *(int *)arg;

	expect_eperm(dev);
	expect_open_calls(dev);
	ERR(vhost_ioctl(dev, VHOST_SET_OWNER, NULL), -EBUSY);
}

TEST(ioctl, other_owner_eperm, 30)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	EQ(in_child(other_process, &dev), 0);
	close(dev);
}

/* A child that owns the device and leaves: the parent never becomes owner by that. */
static void own_it(void *arg)
{
	OK(vhost_ioctl(*(int *)arg, VHOST_SET_OWNER, NULL));
}

TEST(ioctl, dead_owner_stays_owner, 30)
{
	int dev = node_open();

	EQ(in_child(own_it, &dev), 0);
	expect_eperm(dev);
	ERR(vhost_ioctl(dev, VHOST_SET_OWNER, NULL), -EBUSY);
	close(dev);
}

/* The owner check comes before the argument is read, except for SET_BACKEND. */
TEST(ioctl, owner_check_before_argument, 30)
{
	int dev = node_open();
	void *bad = prot_none();

	ERR(vhost_ioctl(dev, VHOST_SET_MEM_TABLE, bad), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_NUM, bad), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_KICK, bad), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, bad), -EFAULT);
	close(dev);
}

TEST(ioctl, reset_owner_gives_up, 30)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	OK(vhost_ioctl(dev, VHOST_RESET_OWNER, NULL));
	expect_eperm(dev);
	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	ERR(vhost_ioctl(dev, VHOST_SET_OWNER, NULL), -EBUSY);
	close(dev);
}

static void take_over(void *arg)
{
	int dev = *(int *)arg;

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	OK(vhost_ioctl(dev, VHOST_RESET_OWNER, NULL));
}

/* After the reset another process may take it. */
TEST(ioctl, reset_owner_then_other_process, 30)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	OK(vhost_ioctl(dev, VHOST_RESET_OWNER, NULL));
	EQ(in_child(take_over, &dev), 0);
	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	close(dev);
}

/* A reset forgets rings, eventfds, backends and positions. */
TEST(ioctl, reset_owner_forgets, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN, .base = 77 });
	guest_attach_both(&g, tap.fd);
	ERR(guest_vring_num(&g, RXQ, 128), -EBUSY);
	EQ(guest_get_base(&g, TXQ), 77);
	OK(vhost_ioctl(g.dev, VHOST_RESET_OWNER, NULL));
	OK(vhost_ioctl(g.dev, VHOST_SET_OWNER, NULL));
	EQ(guest_get_base(&g, RXQ), 0);
	EQ(guest_get_base(&g, TXQ), 0);
	/* Not attached any more, or these were EBUSY. */
	OK(guest_vring_num(&g, RXQ, 128));
	OK(guest_vring_base(&g, TXQ, 5));
	/* No ring address either: the used ring would be at 0. */
	ERR(guest_backend(&g, TXQ, tap.fd), -EFAULT);
	guest_stop(&g);
}

/* The memory table of a fresh device is missing, that of a reset one is empty. */
TEST(ioctl, reset_owner_empty_mem_table, 30)
{
	int dev = node_open();
	struct vhost_vring_file detach = { .fd = -1 };

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	ERR(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, &detach), -EFAULT);
	OK(vhost_ioctl(dev, VHOST_RESET_OWNER, NULL));
	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	OK(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, &detach));
	close(dev);
}
