// SPDX-License-Identifier: GPL-2.0
/* Feature words, feature arrays, backend features. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

static uint64_t offered(int dev)
{
	uint64_t f = 0;

	OK(vhost_ioctl(dev, VHOST_GET_FEATURES, &f));
	return f;
}

TEST(ioctl, features_offered, 30)
{
	int dev = node_open();

	EQ(offered(dev), expect("features"));
	close(dev);
}

TEST(ioctl, features_bad_pointer, 30)
{
	static const unsigned long calls[] = {
		VHOST_GET_FEATURES, VHOST_SET_FEATURES, VHOST_GET_FEATURES_ARRAY,
		VHOST_SET_FEATURES_ARRAY, VHOST_GET_BACKEND_FEATURES,
		VHOST_SET_BACKEND_FEATURES,
	};
	int dev = node_open();

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		ERR(vhost_ioctl(dev, calls[i], NULL), -EFAULT);
		ERR(vhost_ioctl(dev, calls[i], prot_none()), -EFAULT);
		ERR(vhost_ioctl(dev, calls[i], guard_page() - 4), -EFAULT);
	}
	close(dev);
}

TEST(ioctl, features_each_bit, 30)
{
	int dev = node_open();
	uint64_t have = offered(dev);

	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t f = BIT(bit);
		int want = have & f ? 0 : -EOPNOTSUPP;

		ERR(vhost_ioctl(dev, VHOST_SET_FEATURES, &f), want);
	}
	OK(vhost_ioctl(dev, VHOST_SET_FEATURES, &(uint64_t){ 0 }));
	ERR(vhost_ioctl(dev, VHOST_SET_FEATURES, &(uint64_t){ ~0ULL }), -EOPNOTSUPP);
	close(dev);
}

/* All at once, without the IOTLB and the log, which need more set-up. */
TEST(ioctl, features_all, 30)
{
	int dev = node_open();
	uint64_t f = offered(dev) & FEATURES_BASE;

	OK(vhost_ioctl(dev, VHOST_SET_FEATURES, &f));
	close(dev);
}

/* Features may change while a backend is attached. */
TEST(ioctl, features_while_attached, 30)
{
	struct tap tap = tap_open(12);
	struct guest g;

	guest_start(&g, &(struct guest_opt){ .features = F_MODERN });
	guest_attach_both(&g, tap.fd);
	guest_set_features(&g, F_MODERN | F_MRG, 0);
	ERR(vhost_ioctl(g.dev, VHOST_SET_FEATURES, &(uint64_t){ BIT(63) }), -EOPNOTSUPP);
	guest_set_features(&g, 0, 0);
	guest_stop(&g);
}

/* The buffer ends at a guard page, so that one byte too many is a fault. */
static uint64_t *array_at_guard(uint64_t words, uint64_t count)
{
	uint64_t *p = (uint64_t *)guard_page() - 1 - words;

	p[0] = count;
	for (uint64_t i = 0; i < words; i++)
		p[1 + i] = 0xeeeeeeeeeeeeeeeeULL;
	return p;
}

TEST(ioctl, features_array_get, 30)
{
	static const uint64_t counts[] = { 0, 1, 2, 3, 64 };
	int dev = node_open();

	for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++) {
		uint64_t n = counts[k], *p = array_at_guard(n, n);

		OK(vhost_ioctl(dev, VHOST_GET_FEATURES_ARRAY, p));
		EQ(p[0], n);
		for (uint64_t i = 0; i < n; i++)
			EQ(p[1 + i], i == 0 ? offered(dev) : i == 1 ? FEATURES_WORD1 : 0);
	}
	close(dev);
}

/* Nothing is written behind what was asked for. */
TEST(ioctl, features_array_get_bounds, 30)
{
	int dev = node_open();

	for (uint64_t n = 0; n < 5; n++) {
		uint64_t *p = array_at_guard(8, n);

		OK(vhost_ioctl(dev, VHOST_GET_FEATURES_ARRAY, p));
		for (uint64_t i = n; i < 8; i++)
			EQ(p[1 + i], 0xeeeeeeeeeeeeeeeeULL);
	}
	close(dev);
}

TEST(ioctl, features_array_get_faults, 30)
{
	static const uint64_t counts[] = { 9, 600, 1ULL << 60, 1ULL << 61, 1ULL << 62, ~0ULL };
	int dev = node_open();

	for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++)
		ERR(vhost_ioctl(dev, VHOST_GET_FEATURES_ARRAY, array_at_guard(8, counts[k])),
		    -EFAULT);
	ERR(vhost_ioctl(dev, VHOST_GET_FEATURES_ARRAY, array_at_guard(0, 1)), -EFAULT);
	ERR(vhost_ioctl(dev, VHOST_GET_FEATURES_ARRAY, array_at_guard(1, 2)), -EFAULT);
	close(dev);
}

static int set_array(int dev, uint64_t words, uint64_t count, uint64_t w0, uint64_t w1,
		     uint64_t rest)
{
	uint64_t *p = array_at_guard(words, count);

	for (uint64_t i = 0; i < words; i++)
		p[1 + i] = i == 0 ? w0 : i == 1 ? w1 : rest;
	return vhost_ioctl(dev, VHOST_SET_FEATURES_ARRAY, p);
}

TEST(ioctl, features_array_set, 30)
{
	int dev = node_open();

	OK(set_array(dev, 0, 0, 0, 0, 0));
	OK(set_array(dev, 1, 1, F_MODERN, 0, 0));
	OK(set_array(dev, 2, 2, F_MODERN, FEATURES_WORD1, 0));
	OK(set_array(dev, 3, 3, F_MODERN, FEATURES_WORD1, 0));
	OK(set_array(dev, 64, 64, F_MODERN, 0, 0));
	close(dev);
}

TEST(ioctl, features_array_set_unknown, 30)
{
	int dev = node_open();

	ERR(set_array(dev, 1, 1, BIT(0), 0, 0), -EOPNOTSUPP);
	for (unsigned int bit = 0; bit < 64; bit++)
		ERR(set_array(dev, 2, 2, F_MODERN, BIT(bit), 0),
		    BIT(bit) & FEATURES_WORD1 ? 0 : -EOPNOTSUPP);
	ERR(set_array(dev, 3, 3, F_MODERN, 0, 1), -EOPNOTSUPP);
	ERR(set_array(dev, 64, 64, F_MODERN, 0, BIT(63)), -EOPNOTSUPP);
	close(dev);
}

TEST(ioctl, features_array_set_faults, 30)
{
	int dev = node_open();

	ERR(set_array(dev, 0, 1, 0, 0, 0), -EFAULT);
	ERR(set_array(dev, 1, 2, 0, 0, 0), -EFAULT);
	ERR(set_array(dev, 2, 3, 0, 0, 0), -EFAULT);
	ERR(set_array(dev, 64, 65, 0, 0, 0), -EFAULT);
	ERR(set_array(dev, 8, 1ULL << 61, 0, 0, 0), -EFAULT);
	ERR(set_array(dev, 8, ~0ULL, 0, 0, 0), -EFAULT);
	/* A bit that is not known comes before the fault behind it. */
	ERR(set_array(dev, 8, ~0ULL, 0, 0, 1), -EOPNOTSUPP);
	close(dev);
}

#define PIECE	(64UL << 20)
#define PIECES	64

struct long_call {
	volatile bool begun, done;
};

/* 4 GiB of addresses over 64 MiB of memory, all of them to be cleared. */
static void clear_4g(void *arg)
{
	struct long_call *c = arg;
	int dev = node_open(), fd = memfd_create("array", MFD_CLOEXEC);
	char *p = mmap(NULL, PIECE * PIECES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(fd >= 0 && !ftruncate(fd, PIECE) && p != MAP_FAILED, "%s", strerror(errno));
	for (unsigned long i = 0; i < PIECES; i++)
		CHECK(mmap(p + i * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   fd, 0) != MAP_FAILED, "%s", strerror(errno));
	/* The pieces are the same memory: the count is overwritten after it was read. */
	*(uint64_t *)p = PIECE * PIECES / 8 - 1;
	c->begun = true;
	vhost_ioctl(dev, VHOST_GET_FEATURES_ARRAY, p);
	c->done = true;
}

TEST(ioctl, features_array_killable, 60)
{
	struct long_call *c = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t start;
	pid_t pid;

	if (expect("features_array_hog"))
		SKIP("the caller cannot be killed before all is cleared");
	CHECK(c != MAP_FAILED, "%s", strerror(errno));
	pid = spawn(clear_4g, c);
	for (int64_t end = now_ms() + WAIT_MS; !c->begun; sleep_ms(1))
		CHECK(now_ms() < end, "the child does not begin");
	sleep_ms(100);
	CHECK(!c->done, "over before it could be killed");
	start = now_ms();
	kill(pid, SIGKILL);
	reap_ok(pid, WAIT_MS * 3);
	CHECK(now_ms() - start < 1000, "killed after %lld ms", (long long)(now_ms() - start));
}

TEST(ioctl, backend_features, 30)
{
	int dev = node_open();
	uint64_t f;

	OK(vhost_ioctl(dev, VHOST_GET_BACKEND_FEATURES, &f));
	EQ(f, expect("backend_features"));
	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t b = BIT(bit);

		ERR(vhost_ioctl(dev, VHOST_SET_BACKEND_FEATURES, &b), f & b ? 0 : -EOPNOTSUPP);
	}
	close(dev);
}
