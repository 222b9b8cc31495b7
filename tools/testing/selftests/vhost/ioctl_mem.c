// SPDX-License-Identifier: GPL-2.0
/* SET_MEM_TABLE. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "guest.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

static int set(int dev, const void *m)
{
	return vhost_ioctl(dev, VHOST_SET_MEM_TABLE, m);
}

static int owned(void)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	return dev;
}

static struct vhost_memory_region region(uint64_t gpa, uint64_t size, uint64_t uaddr)
{
	return (struct vhost_memory_region){
		.guest_phys_addr = gpa, .memory_size = size, .userspace_addr = uaddr,
	};
}

TEST(ioctl, mem_table_bad_pointer, 30)
{
	int dev = owned();
	struct vhost_memory *m = (void *)(guard_page() - sizeof(*m));

	ERR(set(dev, NULL), -EFAULT);
	ERR(set(dev, prot_none()), -EFAULT);
	ERR(set(dev, (char *)prot_none() - 4), -EFAULT);
	/* The head can be read, the regions cannot. */
	m->nregions = 1;
	ERR(set(dev, m), -EFAULT);
	m->nregions = 0;
	OK(set(dev, m));
	close(dev);
}

TEST(ioctl, mem_table_padding, 30)
{
	int dev = owned();
	struct vhost_memory m = { .padding = 1 };

	ERR(set(dev, &m), -EOPNOTSUPP);
	m.padding = 0x80000000;
	ERR(set(dev, &m), -EOPNOTSUPP);
	/* Padding is looked at before the count. */
	m.nregions = 0xffffffff;
	ERR(set(dev, &m), -EOPNOTSUPP);
	close(dev);
}

TEST(ioctl, mem_table_counts, 30)
{
	struct vhost_memory_region r[65];
	struct guest g = { .dev = owned() };
	struct vhost_memory m = { .nregions = 65 };

	for (unsigned int i = 0; i < 65; i++)
		r[i] = region(i * 4096ULL, 4096, 0x10000 + i * 4096ULL);
	OK(guest_set_regions(&g, r, 0));
	OK(guest_set_regions(&g, r, 1));
	OK(guest_set_regions(&g, r, 63));
	OK(guest_set_regions(&g, r, 64));
	ERR(guest_set_regions(&g, r, 65), -E2BIG);
	/* The count decides before any region is read. */
	ERR(set(g.dev, (m.nregions = 65, &m)), -E2BIG);
	ERR(set(g.dev, (m.nregions = 509, &m)), -E2BIG);
	ERR(set(g.dev, (m.nregions = 65535, &m)), -E2BIG);
	ERR(set(g.dev, (m.nregions = 0xffffffff, &m)), -E2BIG);
	close(g.dev);
}

TEST(ioctl, mem_table_ranges, 30)
{
	struct guest g = { .dev = owned() };
	struct vhost_memory_region r;

	r = region(4096, 0, 0x10000);
	ERR(guest_set_regions(&g, &r, 1), -EFAULT);
	r = region(~0ULL - 4095, 8192, 0x10000);
	ERR(guest_set_regions(&g, &r, 1), -EFAULT);
	r = region(1, ~0ULL, 0x10000);
	OK(guest_set_regions(&g, &r, 1));
	r = region(2, ~0ULL, 0x10000);
	ERR(guest_set_regions(&g, &r, 1), -EFAULT);
	/* Ends with the last address there is. */
	r = region(~0ULL - 4095, 4096, 0x10000);
	OK(guest_set_regions(&g, &r, 1));
	/* Start 0 and size 0 is all of the address space. */
	r = region(0, 0, 0x10000);
	OK(guest_set_regions(&g, &r, 1));
	/* Neither alignment nor overlap is looked at. */
	r = region(3, 5, 7);
	OK(guest_set_regions(&g, &r, 1));
	close(g.dev);
}

TEST(ioctl, mem_table_overlap, 30)
{
	struct guest g = { .dev = owned() };
	struct vhost_memory_region r[2] = {
		region(0, 8192, 0x10000), region(4096, 8192, 0x20000),
	};

	OK(guest_set_regions(&g, r, 2));
	r[1] = r[0];
	OK(guest_set_regions(&g, r, 2));
	close(g.dev);
}

/* One bad region spoils the table, and the old one stays. */
TEST(ioctl, mem_table_bad_keeps_old, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;
	struct vring_used_elem e;
	struct vhost_memory_region r[2];
	char frame[60] = { 0 };

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	guest_attach_both(&g, tap.fd);
	r[0] = region(0, 4096, 0x10000);
	r[1] = region(8192, 0, 0x20000);
	ERR(guest_set_regions(&g, r, 2), -EFAULT);
	CHECK(guest_send(&g, frame, sizeof(frame)));
	ring_kick(&g.q[TXQ]);
	CHECK(ring_wait(&g.q[TXQ], &e, WAIT_MS), "the old table is gone");
	CHECK(!ring_error(&g.q[TXQ], 0), "error on the old table");
	guest_stop(&g);
}

TEST(ioctl, mem_table_kernel_address, 30)
{
	struct tap tap = tap_open(12);
	struct vhost_memory_region bad[] = {
		region(GPA_BASE, 4096, 0xffff888000000000ULL),
		region(GPA_BASE, 0x7fffffffffffffffULL, 0x10000),
		region(GPA_BASE, 4096, ~0ULL - 4095),
		region(GPA_BASE, 8192, ~0ULL - 4095),
		region(0, 0, 0x10000),
	};
	struct guest g;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		/* Detached: taken, and refused at attach. */
		OK(guest_set_regions(&g, &bad[i], 1));
		ERR(guest_backend(&g, TXQ, tap.fd), -EFAULT);
		/* Attached: refused at once. */
		guest_set_mem(&g);
		OK(guest_backend(&g, TXQ, tap.fd));
		ERR(guest_set_regions(&g, &bad[i], 1), -EFAULT);
		OK(guest_backend(&g, TXQ, -1));
	}
	guest_stop(&g);
}

TEST(ioctl, mem_table_missing, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;

	guest_init(&g, owned(), &(struct guest_opt){ .features = F_MODERN });
	guest_set_features(&g, F_MODERN, 0);
	OK(guest_vring_addr(&g, TXQ));
	ERR(guest_backend(&g, TXQ, tap.fd), -EFAULT);
	ERR(guest_backend(&g, TXQ, -1), -EFAULT);
	guest_set_mem(&g);
	OK(guest_backend(&g, TXQ, tap.fd));
	guest_stop(&g);
}
