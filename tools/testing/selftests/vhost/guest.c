// SPDX-License-Identifier: GPL-2.0
/* The fake guest: node, memory, ioctls. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"
#include "ktap.h"
#include "util.h"

int node_open(void)
{
	int fd = open(node_path(), O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0, "%s: %s", node_path(), strerror(errno));
	return fd;
}

int vhost_ioctl(int dev, unsigned long req, const void *arg)
{
	return ioctl(dev, req, arg) < 0 ? -errno : 0;
}

unsigned int header_size(uint64_t features, uint64_t features1)
{
	if (features1 & FEATURES_WORD1)
		return sizeof(struct virtio_net_hdr_v1_hash_tunnel);
	if (features & (F_MRG | F_MODERN))
		return sizeof(struct virtio_net_hdr_mrg_rxbuf);
	return sizeof(struct virtio_net_hdr);
}

uint64_t guest_alloc(struct guest *g, uint64_t size, uint64_t align)
{
	uint64_t gpa = (g->brk + align - 1) / align * align;

	CHECK(gpa + size <= GPA_BASE + MEM_SIZE, "guest memory is used up");
	g->brk = gpa + size;
	return gpa;
}

void *gva(struct guest *g, uint64_t gpa)
{
	return g->mem + (gpa - GPA_BASE);
}

static void mem_init(struct guest *g)
{
	g->memfd = memfd_create("guest", MFD_CLOEXEC);
	CHECK(g->memfd >= 0, "%s", strerror(errno));
	CHECK(!ftruncate(g->memfd, MEM_SIZE), "%s", strerror(errno));
	g->mem = mmap(NULL, MEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, g->memfd, 0);
	CHECK(g->mem != MAP_FAILED, "%s", strerror(errno));
	g->brk = GPA_BASE + 4096;
}

static void ring_alloc(struct guest *g, unsigned int q)
{
	struct ring *r = &g->q[q];
	unsigned int n = g->opt.num;

	r->index = q;
	r->num = n;
	r->event_idx = g->opt.features & F_EVENT;
	r->desc = gva(g, guest_alloc(g, n * sizeof(struct vring_desc), 16));
	r->avail = gva(g, guest_alloc(g, 6 + n * 2, 2));
	r->used = gva(g, guest_alloc(g, 6 + n * sizeof(struct vring_used_elem), 4));
	r->kick = xeventfd();
	r->call = xeventfd();
	r->err = xeventfd();
}

static void slots_alloc(struct guest *g, unsigned int q)
{
	static const unsigned int per_slot[] = { 1, 2, 3, 1 };
	struct ring *r = &g->q[q];

	r->layout = g->opt.layout;
	r->per_slot = per_slot[r->layout];
	CHECK(r->num >= r->per_slot, "ring too small for this layout");
	r->slots = r->num / r->per_slot;
	if (g->opt.slot_descs && g->opt.slot_descs < r->num)
		r->slots = g->opt.slot_descs / r->per_slot;
	r->bufsz = g->opt.bufsz;
	r->hlen = g->hlen;
	/* A gap of 64 bytes between parts: they must not be taken as one piece. */
	r->stride = (r->bufsz + 3 * 64 + 63) & ~63U;
	r->data = guest_alloc(g, (uint64_t)r->slots * r->stride, 4096);
	r->tables = guest_alloc(g, (uint64_t)r->slots * 64, 64);
	r->free_slots = calloc((r->slots + 63) / 64, 8);
	CHECK(r->free_slots, "out of memory");
}

void guest_init(struct guest *g, int dev, const struct guest_opt *opt)
{
	memset(g, 0, sizeof(*g));
	g->dev = dev;
	g->opt = *opt;
	if (!g->opt.num)
		g->opt.num = 256;
	if (!g->opt.bufsz)
		g->opt.bufsz = 2048;
	g->hlen = header_size(opt->features, opt->features1);
	mem_init(g);
	for (unsigned int q = 0; q < NQ; q++) {
		ring_alloc(g, q);
		slots_alloc(g, q);
		ring_reset(g, q, g->opt.base);
	}
}

void guest_start(struct guest *g, const struct guest_opt *opt)
{
	guest_init(g, node_open(), opt);
	guest_setup(g);
}

void guest_stop(struct guest *g)
{
	close(g->dev);
	for (unsigned int q = 0; q < NQ; q++) {
		close(g->q[q].kick);
		close(g->q[q].call);
		close(g->q[q].err);
		free(g->q[q].free_slots);
	}
	munmap(g->mem, MEM_SIZE);
	close(g->memfd);
}

void guest_set_features(struct guest *g, uint64_t features, uint64_t features1)
{
	uint64_t array[3] = { 2, features, features1 };

	if (features1)
		OK(vhost_ioctl(g->dev, VHOST_SET_FEATURES_ARRAY, array));
	else
		OK(vhost_ioctl(g->dev, VHOST_SET_FEATURES, &features));
}

int guest_set_regions(struct guest *g, const struct vhost_memory_region *r, unsigned int n)
{
	size_t bytes = n * sizeof(*r);
	struct vhost_memory *m = calloc(1, sizeof(*m) + bytes);
	int ret;

	CHECK(m, "out of memory");
	m->nregions = n;
	memcpy(m->regions, r, bytes);
	ret = vhost_ioctl(g->dev, VHOST_SET_MEM_TABLE, m);
	free(m);
	return ret;
}

void guest_set_mem(struct guest *g)
{
	struct vhost_memory_region r = {
		.guest_phys_addr = GPA_BASE,
		.memory_size = MEM_SIZE,
		.userspace_addr = (uintptr_t)g->mem,
	};

	OK(guest_set_regions(g, &r, 1));
}

int guest_vring_num(struct guest *g, unsigned int q, unsigned int num)
{
	struct vhost_vring_state s = { .index = q, .num = num };

	return vhost_ioctl(g->dev, VHOST_SET_VRING_NUM, &s);
}

int guest_vring_base(struct guest *g, unsigned int q, unsigned int base)
{
	struct vhost_vring_state s = { .index = q, .num = base };

	return vhost_ioctl(g->dev, VHOST_SET_VRING_BASE, &s);
}

unsigned int guest_get_base(struct guest *g, unsigned int q)
{
	struct vhost_vring_state s = { .index = q };

	OK(vhost_ioctl(g->dev, VHOST_GET_VRING_BASE, &s));
	EQ(s.index, q);
	return s.num;
}

int guest_vring_addr(struct guest *g, unsigned int q)
{
	struct vhost_vring_addr a = {
		.index = q,
		.desc_user_addr = (uintptr_t)g->q[q].desc,
		.avail_user_addr = (uintptr_t)g->q[q].avail,
		.used_user_addr = (uintptr_t)g->q[q].used,
	};

	return vhost_ioctl(g->dev, VHOST_SET_VRING_ADDR, &a);
}

int guest_vring_file(struct guest *g, unsigned long req, unsigned int q, int fd)
{
	struct vhost_vring_file f = { .index = q, .fd = fd };

	return vhost_ioctl(g->dev, req, &f);
}

void guest_setup(struct guest *g)
{
	OK(vhost_ioctl(g->dev, VHOST_SET_OWNER, NULL));
	guest_set_features(g, g->opt.features, g->opt.features1);
	guest_set_mem(g);
	for (unsigned int q = 0; q < NQ; q++) {
		OK(guest_vring_num(g, q, g->q[q].num));
		OK(guest_vring_base(g, q, g->q[q].next_avail));
		OK(guest_vring_addr(g, q));
		OK(guest_vring_file(g, VHOST_SET_VRING_KICK, q, g->q[q].kick));
		OK(guest_vring_file(g, VHOST_SET_VRING_CALL, q, g->q[q].call));
		OK(guest_vring_file(g, VHOST_SET_VRING_ERR, q, g->q[q].err));
	}
}

bool guest_busyloop(struct guest *g, unsigned int usecs)
{
	if (!expect("busyloop_ioctls"))
		return false;
	for (unsigned int q = 0; q < NQ; q++) {
		struct vhost_vring_state s = { .index = q, .num = usecs };

		OK(vhost_ioctl(g->dev, VHOST_SET_VRING_BUSYLOOP_TIMEOUT, &s));
	}
	return true;
}

int guest_backend(struct guest *g, unsigned int q, int fd)
{
	return guest_vring_file(g, VHOST_NET_SET_BACKEND, q, fd);
}

void guest_attach_both(struct guest *g, int fd)
{
	OK(guest_backend(g, RXQ, fd));
	OK(guest_backend(g, TXQ, fd));
}

void guest_detach_both(struct guest *g)
{
	OK(guest_backend(g, RXQ, -1));
	OK(guest_backend(g, TXQ, -1));
}
