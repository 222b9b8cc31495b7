// SPDX-License-Identifier: GPL-2.0
/* Ring set-up: NUM, BASE, ADDR, KICK, CALL, ERR. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "guest.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

static const unsigned long vring_calls[] = {
	VHOST_SET_VRING_NUM, VHOST_SET_VRING_ADDR, VHOST_SET_VRING_BASE,
	VHOST_GET_VRING_BASE, VHOST_SET_VRING_KICK, VHOST_SET_VRING_CALL,
	VHOST_SET_VRING_ERR,
};
#define N_CALLS	(sizeof(vring_calls) / sizeof(*vring_calls))

static int owned(void)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	return dev;
}

TEST(ioctl, vring_null_efault, 30)
{
	int dev = owned();

	for (size_t i = 0; i < N_CALLS; i++)
		ERR(vhost_ioctl(dev, vring_calls[i], NULL), -EFAULT);
	close(dev);
}

TEST(ioctl, vring_prot_none_efault, 30)
{
	void *bad = prot_none();
	int dev = owned();

	for (size_t i = 0; i < N_CALLS; i++)
		ERR(vhost_ioctl(dev, vring_calls[i], bad), -EFAULT);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_NUM, (void *)~0xfffUL), -EFAULT);
	close(dev);
}

/* The index word is readable, what follows is not. */
TEST(ioctl, vring_cut_argument_efault, 30)
{
	int dev = owned();

	for (size_t i = 0; i < N_CALLS; i++) {
		uint32_t *p = (uint32_t *)guard_page() - 1;

		*p = 0;
		ERR(vhost_ioctl(dev, vring_calls[i], p), -EFAULT);
	}
	close(dev);
}

TEST(ioctl, vring_index_enobufs, 30)
{
	static const uint32_t bad[] = { 2, 3, 0x7fffffff, 0x80000000, 0xffffffff };
	int dev = owned();

	for (size_t i = 0; i < N_CALLS; i++)
		for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
			/* Only the index can be read: it is checked before the rest. */
			uint32_t *p = (uint32_t *)guard_page() - 1;

			*p = bad[k];
			ERR(vhost_ioctl(dev, vring_calls[i], p), -ENOBUFS);
		}
	close(dev);
}

TEST(ioctl, backend_index_enobufs, 30)
{
	int dev = owned();
	struct vhost_vring_file f = { .index = 2, .fd = -1 };

	ERR(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, &f), -ENOBUFS);
	f.index = 0xffffffff;
	ERR(vhost_ioctl(dev, VHOST_NET_SET_BACKEND, &f), -ENOBUFS);
	close(dev);
}

TEST(ioctl, vring_num_values, 30)
{
	struct guest g = { .dev = owned() };

	for (unsigned int n = 1; n <= 32768; n *= 2)
		OK(guest_vring_num(&g, n & 1, n));
	ERR(guest_vring_num(&g, 0, 0), -EINVAL);
	ERR(guest_vring_num(&g, 0, 3), -EINVAL);
	ERR(guest_vring_num(&g, 0, 255), -EINVAL);
	ERR(guest_vring_num(&g, 0, 65535), -EINVAL);
	ERR(guest_vring_num(&g, 0, 65536), -EINVAL);
	ERR(guest_vring_num(&g, 0, 0x80000000), -EINVAL);
	ERR(guest_vring_num(&g, 0, 0xffffffff), -EINVAL);
	close(g.dev);
}

TEST(ioctl, vring_base_values, 30)
{
	static const unsigned int good[] = { 0, 1, 255, 256, 32768, 65535 };
	struct guest g = { .dev = owned() };

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		for (unsigned int q = 0; q < NQ; q++) {
			OK(guest_vring_base(&g, q, good[i]));
			EQ(guest_get_base(&g, q), good[i]);
		}
	ERR(guest_vring_base(&g, 0, 65536), -EINVAL);
	ERR(guest_vring_base(&g, 0, 0xffffffff), -EINVAL);
	EQ(guest_get_base(&g, 0), 65535);
	close(g.dev);
}

TEST(ioctl, vring_base_queues_apart, 30)
{
	struct guest g = { .dev = owned() };

	OK(guest_vring_base(&g, RXQ, 11));
	OK(guest_vring_base(&g, TXQ, 22));
	EQ(guest_get_base(&g, RXQ), 11);
	EQ(guest_get_base(&g, TXQ), 22);
	close(g.dev);
}

static struct guest attached(struct tap *tap)
{
	struct guest g;

	*tap = tap_open(12);
	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	guest_attach_both(&g, tap->fd);
	return g;
}

TEST(ioctl, vring_attached_ebusy, 30)
{
	struct tap tap;
	struct guest g = attached(&tap);

	for (unsigned int q = 0; q < NQ; q++) {
		ERR(guest_vring_num(&g, q, 128), -EBUSY);
		ERR(guest_vring_num(&g, q, 3), -EBUSY);
		ERR(guest_vring_base(&g, q, 5), -EBUSY);
		ERR(guest_vring_base(&g, q, 65536), -EBUSY);
		EQ(guest_get_base(&g, q), 0);
		OK(guest_backend(&g, q, -1));
		OK(guest_vring_num(&g, q, 128));
		OK(guest_vring_base(&g, q, 5));
	}
	guest_stop(&g);
}

/* One queue attached does not bind the other. */
TEST(ioctl, vring_attached_other_queue_free, 30)
{
	struct tap tap;
	struct guest g = attached(&tap);

	OK(guest_backend(&g, RXQ, -1));
	OK(guest_vring_num(&g, RXQ, 64));
	ERR(guest_vring_num(&g, TXQ, 64), -EBUSY);
	guest_stop(&g);
}

static struct vhost_vring_addr good_addr(struct guest *g, unsigned int q)
{
	return (struct vhost_vring_addr){
		.index = q,
		.desc_user_addr = (uintptr_t)g->q[q].desc,
		.avail_user_addr = (uintptr_t)g->q[q].avail,
		.used_user_addr = (uintptr_t)g->q[q].used,
	};
}

TEST(ioctl, vring_addr_flags, 30)
{
	struct guest g;
	struct vhost_vring_addr a;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	a = good_addr(&g, 0);
	OK(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR, &a));
	for (unsigned int bit = 1; bit < 32; bit++) {
		a.flags = 1U << bit;
		ERR(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR, &a), -EOPNOTSUPP);
	}
	/* Flags are looked at before alignment. */
	a.avail_user_addr |= 1;
	ERR(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR, &a), -EOPNOTSUPP);
	guest_stop(&g);
}

TEST(ioctl, vring_addr_alignment, 30)
{
	struct guest g;
	struct vhost_vring_addr a;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	a = good_addr(&g, 0);
	a.avail_user_addr |= 1;
	ERR(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR, &a), -EINVAL);
	for (unsigned int off = 1; off < 4; off++) {
		a = good_addr(&g, 0);
		a.used_user_addr |= off;
		ERR(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR, &a), -EINVAL);
		a = good_addr(&g, 0);
		a.log_guest_addr |= off;
		ERR(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR, &a), -EINVAL);
	}
	/* Descriptors may lie anywhere. */
	a = good_addr(&g, 0);
	a.desc_user_addr |= 1;
	OK(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR, &a));
	guest_stop(&g);
}

/* Where each of the three parts lies out of user space. */
static void each_bad_part(struct guest *g, unsigned int q, int want_addr, int fd)
{
	for (int part = 0; part < 3; part++) {
		struct vhost_vring_addr a = good_addr(g, q);

		*(part == 0 ? &a.desc_user_addr :
		  part == 1 ? &a.avail_user_addr : &a.used_user_addr) =
			0xffff888000000000ULL;
		ERR(vhost_ioctl(g->dev, VHOST_SET_VRING_ADDR, &a), want_addr);
		if (fd >= 0)
			ERR(guest_backend(g, q, fd), -EFAULT);
	}
}

TEST(ioctl, vring_addr_bad_detached, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	for (unsigned int q = 0; q < NQ; q++) {
		each_bad_part(&g, q, 0, tap.fd);
		OK(guest_vring_addr(&g, q));
		OK(guest_backend(&g, q, tap.fd));
	}
	guest_stop(&g);
}

TEST(ioctl, vring_addr_bad_attached, 30)
{
	struct tap tap;
	struct guest g = attached(&tap);

	for (unsigned int q = 0; q < NQ; q++) {
		each_bad_part(&g, q, -EINVAL, -1);
		OK(guest_vring_addr(&g, q));
	}
	guest_stop(&g);
}

/* In user space, but nothing mapped there: seen when the used ring is touched. */
TEST(ioctl, vring_addr_unmapped_used, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;
	struct vhost_vring_addr a;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	a = good_addr(&g, TXQ);
	a.used_user_addr = (uintptr_t)prot_none();
	OK(vhost_ioctl(g.dev, VHOST_SET_VRING_ADDR, &a));
	ERR(guest_backend(&g, TXQ, tap.fd), -EFAULT);
	/* Not attached by the failure. */
	OK(guest_vring_num(&g, TXQ, 256));
	OK(guest_vring_addr(&g, TXQ));
	OK(guest_backend(&g, TXQ, tap.fd));
	guest_stop(&g);
}

static int attach_avail_at(struct guest *g, uint64_t avail, int fd)
{
	struct vhost_vring_addr a = good_addr(g, TXQ);
	int ret;

	a.avail_user_addr = avail;
	OK(vhost_ioctl(g->dev, VHOST_SET_VRING_ADDR, &a));
	ret = guest_backend(g, TXQ, fd);
	OK(guest_vring_addr(g, TXQ));
	OK(guest_backend(g, TXQ, -1));
	return ret;
}

/* The event word at the end of the avail ring counts in the size check. */
TEST(ioctl, vring_addr_event_index_size, 30)
{
	struct tap tap;
	struct guest g = attached(&tap);
	uint64_t at = 1ULL << 47;

	OK(guest_backend(&g, TXQ, -1));
	if (!attach_avail_at(&g, at, tap.fd))
		SKIP("user space is larger than 47 bits");
	/* The highest place where a ring without the word fits. */
	for (at -= 4096 + 516 + 16; attach_avail_at(&g, at + 2, tap.fd) == 0; at += 2)
		;
	OK(attach_avail_at(&g, at, tap.fd));
	guest_set_features(&g, F_MODERN | F_EVENT, 0);
	ERR(attach_avail_at(&g, at, tap.fd), -EFAULT);
	OK(attach_avail_at(&g, at - 2, tap.fd));
	guest_stop(&g);
}

static const unsigned long file_calls[] = {
	VHOST_SET_VRING_KICK, VHOST_SET_VRING_CALL, VHOST_SET_VRING_ERR,
};

TEST(ioctl, vring_file_wrong_fd, 30)
{
	struct guest g = { .dev = owned() };
	int pipes[2], null = open("/dev/null", O_RDWR), good = xeventfd();
	int path = open("/dev/null", O_PATH);

	CHECK(!pipe(pipes) && null >= 0 && path >= 0, "%s", strerror(errno));
	for (size_t i = 0; i < 3; i++) {
		unsigned long c = file_calls[i];

		OK(guest_vring_file(&g, c, 0, good));
		ERR(guest_vring_file(&g, c, 0, pipes[0]), -EINVAL);
		ERR(guest_vring_file(&g, c, 0, null), -EINVAL);
		ERR(guest_vring_file(&g, c, 0, g.dev), -EINVAL);
		ERR(guest_vring_file(&g, c, 0, 1 << 20), -EBADF);
		ERR(guest_vring_file(&g, c, 0, -2), -EBADF);
		ERR(guest_vring_file(&g, c, 0, path), -EBADF);
		OK(guest_vring_file(&g, c, 0, good));
	}
	close(g.dev);
}

TEST(ioctl, vring_file_unbind, 30)
{
	struct guest g = { .dev = owned() };
	int good = xeventfd();

	for (size_t i = 0; i < 3; i++)
		for (unsigned int q = 0; q < NQ; q++) {
			OK(guest_vring_file(&g, file_calls[i], q, -1));
			OK(guest_vring_file(&g, file_calls[i], q, good));
			OK(guest_vring_file(&g, file_calls[i], q, good));
			OK(guest_vring_file(&g, file_calls[i], q, -1));
		}
	close(g.dev);
}

/* A call eventfd that was replaced is not signalled any more; the new one is. */
TEST(ioctl, vring_call_replaced, 30)
{
	struct tap tap;
	struct guest g = attached(&tap);
	struct ring *r = &g.q[TXQ];
	int second = xeventfd();
	char frame[60] = { 0 };

	OK(guest_vring_file(&g, VHOST_SET_VRING_CALL, TXQ, second));
	CHECK(guest_send(&g, frame, sizeof(frame)));
	ring_kick(r);
	CHECK(wait_readable(second, WAIT_MS), "the new eventfd was not signalled");
	EQ(eventfd_take(r->call), 0);
	eventfd_take(second);
	OK(guest_vring_file(&g, VHOST_SET_VRING_CALL, TXQ, r->call));
	CHECK(guest_send(&g, frame, sizeof(frame)));
	ring_kick(r);
	CHECK(wait_readable(r->call, WAIT_MS), "the old one was not signalled again");
	EQ(eventfd_take(second), 0);
	guest_stop(&g);
}

/* A kick that was written before the eventfd was handed over counts. */
TEST(ioctl, vring_kick_pending, 30)
{
	struct tap tap;
	struct guest g = attached(&tap);
	struct ring *r = &g.q[TXQ];
	struct vring_used_elem e;
	char frame[60] = { 0 };

	OK(guest_vring_file(&g, VHOST_SET_VRING_KICK, TXQ, -1));
	CHECK(guest_send(&g, frame, sizeof(frame)));
	ring_kick_always(r);
	CHECK(!ring_wait(r, &e, 100), "served without a kick eventfd");
	OK(guest_vring_file(&g, VHOST_SET_VRING_KICK, TXQ, r->kick));
	CHECK(ring_wait(r, &e, WAIT_MS), "the pending kick was lost");
	guest_stop(&g);
}
