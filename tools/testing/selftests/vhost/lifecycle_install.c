// SPDX-License-Identifier: GPL-2.0
/*
 * Our module as an administrator meets it: its parameters, and the node that loads
 * it. VHOST_KO is its file, VHOST_KO_ARGS how the other tests want it loaded.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

#define PARAMS "/sys/module/vhost_net_rs/parameters/"

static const char *ko(void)
{
	const char *file = getenv("VHOST_KO");

	if (!file || !*file)
		SKIP("only for a module that VHOST_KO names");
	return file;
}

static void unload(void)
{
	CHECK(!syscall(SYS_delete_module, "vhost_net_rs", O_NONBLOCK), "%s", strerror(errno));
}

/* 0 or a negative errno. */
static int load(const char *args)
{
	int fd = open(ko(), O_RDONLY | O_CLOEXEC), ret;

	CHECK(fd >= 0, "%s: %s", ko(), strerror(errno));
	ret = syscall(SYS_finit_module, fd, args, 0) ? -errno : 0;
	close(fd);
	return ret;
}

static void load_for_others(void)
{
	OK(load(getenv("VHOST_KO_ARGS") ?: ""));
}

static void param_is(const char *name, const char *want)
{
	char path[128], got[64];
	struct stat st;

	snprintf(path, sizeof(path), PARAMS "%s", name);
	CHECK(!stat(path, &st), "%s: %s", path, strerror(errno));
	EQ(st.st_mode & 07777, 0444);
	CHECK(read_file(path, got, sizeof(got)), "%s: %s", path, strerror(errno));
	got[strcspn(got, "\n")] = 0;
	CHECK(!strcmp(got, want), "%s says \"%s\", not \"%s\"", path, got, want);
}

/* A value that is not refused leaves the module loaded: the next load says EEXIST. */
TEST(lifecycle, parameter_refused, 30)
{
	static const char *const bad[] = {
		"max_mem_regions=65536", "max_mem_regions=-1", "max_mem_regions=many",
		"max_mem_regions=", "name=", "name=a/b", "name=..", "name=semi;colon",
		"name=abcdefghijklmnopqrstuvwxyz012345",
	};

	ko();
	unload();
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		int ret = load(bad[i]);

		CHECK(ret == -EINVAL, "%s: %d", bad[i], ret);
	}
	load_for_others();
}

/* The C module has the number of vhost-net, and /dev/null its own name. */
TEST(lifecycle, parameter_name_taken, 30)
{
	ko();
	EQ(run((const char *const[]){ "modprobe", "vhost_net", NULL }), 0);
	unload();
	ERR(load("name=vhost-net"), -EBUSY);
	ERR(load("name=null"), -EBUSY);
	load_for_others();
}

TEST(lifecycle, parameters_readable, 30)
{
	ko();
	unload();
	OK(load("name=vhost-selftest max_mem_regions=0x1fd"));
	param_is("name", "vhost-selftest");
	param_is("max_mem_regions", "509");
	CHECK(!access("/dev/vhost-selftest", R_OK | W_OK), "%s", strerror(errno));
	unload();
	OK(load("name=vhost-selftest"));
	param_is("max_mem_regions", "64");
	unload();
	load_for_others();
}

static int set_table(int dev, unsigned int n)
{
	struct vhost_memory *m = calloc(1, sizeof(*m) + n * sizeof(m->regions[0]));
	int ret;

	CHECK(m, "out of memory");
	m->nregions = n;
	for (unsigned int i = 0; i < n; i++) {
		m->regions[i].guest_phys_addr = i * 8192ULL;
		m->regions[i].memory_size = 4096;
		m->regions[i].userspace_addr = 0x10000 + i * 4096ULL;
	}
	ret = vhost_ioctl(dev, VHOST_SET_MEM_TABLE, m);
	free(m);
	return ret;
}

TEST(lifecycle, parameter_max_mem_regions, 30)
{
	static const unsigned int limits[] = { 0, 1, 509, 65535 };

	ko();
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		char args[64];
		int dev;

		unload();
		snprintf(args, sizeof(args), "name=vhost-selftest max_mem_regions=%u", limits[i]);
		OK(load(args));
		dev = open("/dev/vhost-selftest", O_RDWR | O_CLOEXEC);
		CHECK(dev >= 0, "%s", strerror(errno));
		OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
		OK(set_table(dev, limits[i]));
		ERR(set_table(dev, limits[i] + 1), -E2BIG);
		close(dev);
	}
	unload();
	load_for_others();
}

/*
 * Installs the module among those that it stands in for, of which udev is told not to
 * take the C one, and opens the node that udev would have made at boot. The folder of
 * modules is a small one for that while, as depmod takes minutes for the stock one.
 */
static const char open_loads[] =
	"dir=/lib/modules/$(uname -r) tmp=$(mktemp -d) conf=/run/modprobe.d/vhost-selftest.conf\n"
	"undo() {\n"
	"	rm -f $conf /dev/vhost-net\n"
	"	rmmod vhost_net_rs\n"
	"	umount -l $dir; umount -l $tmp; rmdir $tmp\n"
	"	modprobe vhost_net\n"
	"}\n"
	"trap undo EXIT\n"
	"set -e\n"
	"mount -t tmpfs none $tmp\n"
	"mkdir -p /run/modprobe.d\n"
	"cp $dir/modules.order $dir/modules.builtin* $tmp\n"
	"cp $(modinfo -n tun) $(modinfo -n tap) $(modinfo -n vhost) $(modinfo -n vhost_iotlb) $tmp\n"
	"cp $(modinfo -n vhost_net) $tmp\n"
	"cp $VHOST_KO $tmp/vhost_net_rs.ko\n"
	"modprobe -r vhost_net\n"
	"mount --bind $tmp $dir\n"
	"depmod\n"
	"echo blacklist vhost_net >$conf\n"
	"[ -c /dev/vhost-net ] || mknod /dev/vhost-net c 10 238\n"
	": <>/dev/vhost-net\n"
	"grep -q '^vhost_net_rs ' /proc/modules\n"
	"[ \"$(cat " PARAMS "name)\" = vhost-net ]\n";

TEST(lifecycle, opening_the_node_loads, 90)
{
	ko();
	unload();
	EQ(run((const char *const[]){ "bash", "-c", open_loads, NULL }), 0);
	load_for_others();
}
