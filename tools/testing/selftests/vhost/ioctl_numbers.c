// SPDX-License-Identifier: GPL-2.0
/* Exact ioctl numbers, unknown ones, later ones, and the 32-bit entry. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"
#include "ktap.h"
#include "util.h"

static int owned(void)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	return dev;
}

static const unsigned long known[] = {
	VHOST_GET_FEATURES, VHOST_SET_FEATURES, VHOST_SET_MEM_TABLE,
	VHOST_SET_VRING_NUM, VHOST_SET_VRING_ADDR, VHOST_SET_VRING_BASE,
	VHOST_GET_VRING_BASE, VHOST_SET_VRING_KICK, VHOST_SET_VRING_CALL,
	VHOST_SET_VRING_ERR, VHOST_SET_BACKEND_FEATURES, VHOST_GET_BACKEND_FEATURES,
	VHOST_NET_SET_BACKEND, VHOST_GET_FEATURES_ARRAY, VHOST_SET_FEATURES_ARRAY,
	VHOST_SET_LOG_BASE, VHOST_SET_LOG_FD, VHOST_SET_VRING_BUSYLOOP_TIMEOUT,
	VHOST_GET_VRING_BUSYLOOP_TIMEOUT, VHOST_SET_FORK_FROM_OWNER,
	VHOST_GET_FORK_FROM_OWNER,
};
#define N_KNOWN	(sizeof(known) / sizeof(*known))

static bool is_known(unsigned long cmd)
{
	for (size_t i = 0; i < N_KNOWN; i++)
		if (known[i] == cmd)
			return true;
	return cmd == VHOST_SET_OWNER || cmd == VHOST_RESET_OWNER;
}

/* Same type and number, but another size or direction: not that call. */
TEST(ioctl, number_wrong_size_or_direction, 30)
{
	static const unsigned int sizes[] = { 0, 1, 4, 7, 8, 9, 16, 24, 40 };
	uint64_t arg[32] = { 0 };
	int dev = owned();

	for (size_t i = 0; i < N_KNOWN; i++)
		for (unsigned int dir = 0; dir < 4; dir++)
			for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
				unsigned long cmd = _IOC(dir, VHOST_VIRTIO,
							 _IOC_NR(known[i]), sizes[k]);
				int r;

				if (is_known(cmd))
					continue;
				r = vhost_ioctl(dev, cmd, arg);
				CHECK(r == -ENOTTY, "number %#lx: %d", cmd, r);
			}
	close(dev);
}

TEST(ioctl, number_unknown, 30)
{
	uint64_t arg[32] = { 0 };
	int dev = owned();

	for (unsigned int nr = 0; nr < 256; nr++)
		for (unsigned int dir = 0; dir < 4; dir++) {
			unsigned long cmd = _IOC(dir, VHOST_VIRTIO, nr, dir ? 8 : 0);

			if (!is_known(cmd))
				ERR(vhost_ioctl(dev, cmd, arg), -ENOTTY);
		}
	/* Another type. */
	ERR(vhost_ioctl(dev, _IO('T', 1), arg), -ENOTTY);
	ERR(vhost_ioctl(dev, _IOR(0xae, 0, uint64_t), arg), -ENOTTY);
	close(dev);
}

/* The numbers of other devices of the family, and of the worker calls. */
TEST(ioctl, number_of_relatives, 30)
{
	static const unsigned long calls[] = {
		VHOST_NEW_WORKER, VHOST_FREE_WORKER, VHOST_ATTACH_VRING_WORKER,
		VHOST_GET_VRING_WORKER, VHOST_SET_VRING_ENDIAN, VHOST_GET_VRING_ENDIAN,
		VHOST_VSOCK_SET_GUEST_CID, VHOST_VSOCK_SET_RUNNING,
		VHOST_SCSI_GET_ABI_VERSION, VHOST_VDPA_GET_STATUS, VHOST_VDPA_SUSPEND,
	};
	uint64_t arg[64] = { 0 };
	int dev = owned();

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		ERR(vhost_ioctl(dev, calls[i], arg), -ENOTTY);
	close(dev);
}

/* An unknown number is taken for a ring call: its index word is looked at first. */
TEST(ioctl, number_unknown_checks_index, 30)
{
	const unsigned long cmd = _IOW(VHOST_VIRTIO, 0xee, uint64_t);
	uint64_t arg = 2;
	int dev = owned();

	ERR(vhost_ioctl(dev, cmd, NULL), -EFAULT);
	ERR(vhost_ioctl(dev, cmd, &arg), -ENOBUFS);
	arg = 1;
	ERR(vhost_ioctl(dev, cmd, &arg), -ENOTTY);
	close(dev);
}

TEST(ioctl, later_log, 30)
{
	static char bitmap[4096];
	int later = expect("log_ioctls") ? 0 : -ENOTTY, dev = owned();
	uint64_t base = 0;
	int fd = -1;

	/* Index word 0, should it be taken for a ring call. */
	ERR(vhost_ioctl(dev, VHOST_SET_LOG_BASE, &base), later);
	if (later) {
		close(dev);
		return;
	}
	base = (uintptr_t)bitmap;
	OK(vhost_ioctl(dev, VHOST_SET_LOG_BASE, &base));
	ERR(vhost_ioctl(dev, VHOST_SET_LOG_BASE, NULL), -EFAULT);
	OK(vhost_ioctl(dev, VHOST_SET_LOG_FD, &fd));
	fd = xeventfd();
	OK(vhost_ioctl(dev, VHOST_SET_LOG_FD, &fd));
	fd = 1 << 20;
	ERR(vhost_ioctl(dev, VHOST_SET_LOG_FD, &fd), -EBADF);
	fd = dev;
	ERR(vhost_ioctl(dev, VHOST_SET_LOG_FD, &fd), -EINVAL);
	ERR(vhost_ioctl(dev, VHOST_SET_LOG_FD, NULL), -EFAULT);
	close(dev);
}

TEST(ioctl, later_busyloop, 30)
{
	int later = expect("busyloop_ioctls") ? 0 : -ENOTTY, dev = owned();
	struct vhost_vring_state s = { .index = 1, .num = 50 };

	ERR(vhost_ioctl(dev, VHOST_SET_VRING_BUSYLOOP_TIMEOUT, &s), later);
	s.num = 7;
	ERR(vhost_ioctl(dev, VHOST_GET_VRING_BUSYLOOP_TIMEOUT, &s), later);
	EQ(s.num, later ? 7 : 50);
	s.index = 2;
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_BUSYLOOP_TIMEOUT, &s), -ENOBUFS);
	ERR(vhost_ioctl(dev, VHOST_GET_VRING_BUSYLOOP_TIMEOUT, &s), -ENOBUFS);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_BUSYLOOP_TIMEOUT, NULL), -EFAULT);
	close(dev);
}

/* Without an owner the C module takes it; where it is not known, EPERM or ENOTTY. */
TEST(ioctl, later_fork_owner, 30)
{
	int dev = node_open();
	uint8_t v[8] = { 1 };
	int r = vhost_ioctl(dev, VHOST_SET_FORK_FROM_OWNER, v);

	if (!expect("fork_owner_ioctls")) {
		CHECK(r == -EPERM || r == -ENOTTY, "%d", r);
		OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
		ERR(vhost_ioctl(dev, VHOST_SET_FORK_FROM_OWNER, v), -ENOTTY);
		ERR(vhost_ioctl(dev, VHOST_GET_FORK_FROM_OWNER, v), -ENOTTY);
		close(dev);
		return;
	}
	OK(r);
	v[0] = 0;
	OK(vhost_ioctl(dev, VHOST_SET_FORK_FROM_OWNER, v));
	OK(vhost_ioctl(dev, VHOST_GET_FORK_FROM_OWNER, v));
	EQ(v[0], 0);
	v[0] = 2;
	ERR(vhost_ioctl(dev, VHOST_SET_FORK_FROM_OWNER, v), -EINVAL);
	v[0] = 255;
	ERR(vhost_ioctl(dev, VHOST_SET_FORK_FROM_OWNER, v), -EINVAL);
	ERR(vhost_ioctl(dev, VHOST_SET_FORK_FROM_OWNER, NULL), -EFAULT);
	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	v[0] = 1;
	ERR(vhost_ioctl(dev, VHOST_SET_FORK_FROM_OWNER, v), -EBUSY);
	close(dev);
}

#if defined(__x86_64__)

static void no_ia32(int sig)
{
	(void)sig;
	SKIP("this kernel has no 32-bit entry (int 0x80)");
}

/* ioctl() by the 32-bit entry: `arg` has to lie below 4 GiB. */
static int ioctl32(int fd, unsigned long cmd, void *arg)
{
	long ret;

	CHECK((uintptr_t)arg < 1ULL << 32, "argument above 4 GiB");
	asm volatile("int $0x80"
		     : "=a"(ret)
		     : "a"(54L), "b"((long)fd), "c"(cmd), "d"(arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)ret;
}

static void *low_buffer(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	CHECK(p != MAP_FAILED, "%s", strerror(errno));
	signal(SIGSEGV, no_ia32);
	signal(SIGILL, no_ia32);
	return p;
}

TEST(ioctl, compat, 30)
{
	uint64_t *p = low_buffer();
	struct vhost_vring_state *s = (void *)p;
	struct vhost_vring_file *f = (void *)p;
	struct vhost_vring_addr *a = (void *)p;
	int dev = node_open();

	OK(ioctl32(dev, VHOST_SET_OWNER, NULL));
	ERR(ioctl32(dev, VHOST_SET_OWNER, NULL), -EBUSY);
	OK(ioctl32(dev, VHOST_GET_FEATURES, p));
	EQ(*p, expect("features"));
	ERR(ioctl32(dev, VHOST_GET_FEATURES, NULL), -EFAULT);
	*s = (struct vhost_vring_state){ .index = 1, .num = 512 };
	OK(ioctl32(dev, VHOST_SET_VRING_NUM, s));
	s->num = 3;
	ERR(ioctl32(dev, VHOST_SET_VRING_NUM, s), -EINVAL);
	s->num = 1234;
	OK(ioctl32(dev, VHOST_SET_VRING_BASE, s));
	s->num = 0;
	OK(ioctl32(dev, VHOST_GET_VRING_BASE, s));
	EQ(s->num, 1234);
	*f = (struct vhost_vring_file){ .index = 1, .fd = xeventfd() };
	OK(ioctl32(dev, VHOST_SET_VRING_KICK, f));
	memset(a, 0, sizeof(*a));
	OK(ioctl32(dev, VHOST_SET_VRING_ADDR, a));
	memset(p, 0, 64);
	OK(ioctl32(dev, VHOST_SET_MEM_TABLE, p));
	*s = (struct vhost_vring_state){ .index = 7 };
	ERR(ioctl32(dev, VHOST_SET_VRING_NUM, s), -ENOBUFS);
	ERR(ioctl32(dev, _IOW(VHOST_VIRTIO, 0xee, uint64_t), memset(p, 0, 8)), -ENOTTY);
	OK(ioctl32(dev, VHOST_RESET_OWNER, NULL));
	close(dev);
}

#endif
