// SPDX-License-Identifier: GPL-2.0
/*
 * Loading and unloading. VHOST_KMOD is the module's name, VHOST_KO its file
 * (the C module is loaded by modprobe), VHOST_KO_ARGS its parameters.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "util.h"

static const char *kmod(void)
{
	const char *m = getenv("VHOST_KMOD");

	return m && *m ? m : "vhost_net";
}

static long use_count(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/%s/refcnt", kmod());
	if (access(path, R_OK))
		SKIP("%s is built in or goes by another name (VHOST_KMOD)", kmod());
	return read_long(path);
}

/* 0 or a negative errno; never waits. */
static int unload(void)
{
	return syscall(SYS_delete_module, kmod(), O_NONBLOCK) ? -errno : 0;
}

static void load(void)
{
	const char *ko = getenv("VHOST_KO"), *args = getenv("VHOST_KO_ARGS");
	int fd;

	if (!ko || !*ko) {
		EQ(run((const char *const[]){ "modprobe", kmod(), NULL }), 0);
		return;
	}
	fd = open(ko, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0, "%s: %s", ko, strerror(errno));
	CHECK(!syscall(SYS_finit_module, fd, args ? args : "", 0), "%s: %s", ko,
	      strerror(errno));
	close(fd);
}

static void wait_node(void)
{
	for (int64_t end = now_ms() + WAIT_MS; access(node_path(), R_OK | W_OK); sleep_ms(5))
		CHECK(now_ms() < end, "%s does not appear", node_path());
}

static void wait_unused(void)
{
	for (int64_t end = now_ms() + WAIT_MS; use_count(); sleep_ms(5))
		CHECK(now_ms() < end, "use count stays at %ld", use_count());
}

TEST(lifecycle, module_use_count, 30)
{
	struct rig r;
	long before = use_count();
	int dev = node_open();

	EQ(use_count(), before + 1);
	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	CHECK(use_count() >= before + 2, "%ld after the second open", use_count());
	rig_pass(&r, 50, 50, FRAME_MIN);
	rig_stop(&r);
	close(dev);
	wait_unused();
}

TEST(lifecycle, module_unload_refused_while_open, 30)
{
	int dev;

	use_count();
	dev = node_open();
	ERR(unload(), -EAGAIN);
	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	ERR(unload(), -EAGAIN);
	close(dev);
}

/* A second load of the same module, and a node that is taken, are refused. */
TEST(lifecycle, module_load_twice_refused, 30)
{
	const char *ko = getenv("VHOST_KO");
	int fd;

	if (!ko || !*ko)
		SKIP("VHOST_KO names no module file");
	fd = open(ko, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0, "%s: %s", ko, strerror(errno));
	CHECK(syscall(SYS_finit_module, fd, getenv("VHOST_KO_ARGS") ?: "", 0) < 0,
	      "loaded twice");
	EQ(errno, EEXIST);
	close(fd);
}

TEST(lifecycle, module_reload_20, 60)
{
	wait_unused();
	for (int i = 0; i < 20; i++) {
		int dev;

		OK(unload());
		for (int64_t end = now_ms() + WAIT_MS; !access(node_path(), F_OK); sleep_ms(5))
			CHECK(now_ms() < end, "%s stays after unload %d", node_path(), i);
		load();
		wait_node();
		EQ(use_count(), 0);
		dev = node_open();
		OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
		close(dev);
		wait_unused();
	}
}

/* The module can go at once after a device with traffic was closed. */
TEST(lifecycle, module_unload_after_traffic, 30)
{
	use_count();
	for (int i = 0; i < 3; i++) {
		struct rig r;

		rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
		rig_pass(&r, 200, 200, FRAME_MIN);
		rig_stop(&r);
		wait_unused();
		OK(unload());
		load();
		wait_node();
	}
}

/* The node: a character device that root may use. */
TEST(lifecycle, node_is_chardev, 30)
{
	struct stat st;

	CHECK(!stat(node_path(), &st), "%s", strerror(errno));
	CHECK(S_ISCHR(st.st_mode), "%s is no character device", node_path());
}
