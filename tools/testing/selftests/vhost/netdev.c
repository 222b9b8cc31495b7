// SPDX-License-Identifier: GPL-2.0
/* Backends of vhost-net and the host's side of them. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktap.h"
#include "netdev.h"
#include "util.h"

static void set_hdr(int fd, unsigned int hdr)
{
	int size = (int)hdr;

	if (hdr)
		CHECK(!ioctl(fd, TUNSETVNETHDRSZ, &size), "%s", strerror(errno));
}

int tun_open_bare(void)
{
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	CHECK(fd >= 0, "/dev/net/tun: %s (modprobe tun)", strerror(errno));
	return fd;
}

struct tap tap_open(unsigned int hdr)
{
	struct ifreq ifr = { .ifr_name = "vht%d" };
	struct tap t = { .fd = tun_open_bare() };

	ifr.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | (hdr ? IFF_VNET_HDR : 0));
	CHECK(!ioctl(t.fd, TUNSETIFF, &ifr), "%s", strerror(errno));
	set_hdr(t.fd, hdr);
	memcpy(t.name, ifr.ifr_name, sizeof(t.name));
	link_up(t.name);
	return t;
}

/* Reads "major:minor" of the macvtap's node from a sysfs that knows our netns. */
static dev_t macvtap_devno(const char *ifname)
{
	char dir[] = "/tmp/vhost-sysfs.XXXXXX", path[PATH_MAX], buf[32];
	unsigned int ma = 0, mi = 0;

	CHECK(mkdtemp(dir), "%s", strerror(errno));
	CHECK(!mount("sysfs", dir, "sysfs", 0, NULL), "%s", strerror(errno));
	snprintf(path, sizeof(path), "%s/class/net/%s/tap%d/dev", dir, ifname,
		 link_index(ifname));
	if (!read_file(path, buf, sizeof(buf))) {
		snprintf(path, sizeof(path), "%s/class/net/%s/macvtap/tap%d/dev", dir,
			 ifname, link_index(ifname));
		if (!read_file(path, buf, sizeof(buf)))
			*buf = 0;
	}
	umount(dir);
	rmdir(dir);
	CHECK(sscanf(buf, "%u:%u", &ma, &mi) == 2, "no device number in %s", path);
	return makedev(ma, mi);
}

int macvtap_open(const char *ifname, unsigned int hdr)
{
	struct ifreq ifr = { .ifr_flags = (short)(IFF_TAP | IFF_NO_PI | (hdr ? IFF_VNET_HDR : 0)) };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/vhost-macvtap.%d", getpid());
	CHECK(!mknod(path, S_IFCHR | 0600, macvtap_devno(ifname)), "%s: %s", path,
	      strerror(errno));
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	unlink(path);
	CHECK(fd >= 0, "%s: %s", path, strerror(errno));
	CHECK(!ioctl(fd, TUNSETIFF, &ifr), "%s", strerror(errno));
	set_hdr(fd, hdr);
	return fd;
}

static int packet_socket(const char *ifname, int proto)
{
	struct sockaddr_ll ll = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons((uint16_t)proto),
		.sll_ifindex = link_index(ifname),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, big = 64 << 20;

	CHECK(fd >= 0, "%s", strerror(errno));
	CHECK(!setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)),
	      "%s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof(big));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof(big));
	CHECK(!bind(fd, (void *)&ll, sizeof(ll)), "%s", strerror(errno));
	return fd;
}

int raw_open(const char *ifname, unsigned int hdr)
{
	int fd = packet_socket(ifname, TEST_PROTO), size = (int)hdr;

	if (hdr)
		CHECK(!setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR_SZ, &size, sizeof(size)),
		      "%s", strerror(errno));
	return fd;
}

int host_open(const char *ifname)
{
	return packet_socket(ifname, TEST_PROTO);
}

bool host_recv(int fd, void *buf, size_t *len, int ms)
{
	ssize_t n;

	if (!wait_readable(fd, ms))
		return false;
	n = recv(fd, buf, *len, 0);
	CHECK(n > 0, "%s", strerror(errno));
	*len = (size_t)n;
	return true;
}

void host_send(int fd, const void *buf, size_t len)
{
	CHECK(send(fd, buf, len, 0) == (ssize_t)len, "%zu bytes: %s", len,
	      strerror(errno));
}

static void exec_it(void *arg)
{
	char *const *argv = arg;

	execvp(argv[0], argv);
	_exit(127);
}

int run(const char *const argv[])
{
	return in_child(exec_it, (void *)argv);
}
