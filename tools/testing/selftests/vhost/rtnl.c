// SPDX-License-Identifier: GPL-2.0
/* The few rtnetlink requests the tests need. */
#define _GNU_SOURCE
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ktap.h"
#include "netdev.h"

struct request {
	struct nlmsghdr n;
	struct ifinfomsg i;
	char attrs[512];
};

static struct request request(int type, int flags)
{
	struct request r = {
		.n = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			.nlmsg_type = (unsigned short)type,
			.nlmsg_flags = (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags),
		},
	};
	return r;
}

static struct rtattr *put(struct request *r, unsigned short type, const void *data,
			  size_t len)
{
	struct rtattr *a = (void *)((char *)r + NLMSG_ALIGN(r->n.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(len);
	if (len)
		memcpy(RTA_DATA(a), data, len);
	r->n.nlmsg_len = NLMSG_ALIGN(r->n.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

static void put_str(struct request *r, unsigned short type, const char *s)
{
	put(r, type, s, strlen(s) + 1);
}

static void put_u32(struct request *r, unsigned short type, unsigned int v)
{
	put(r, type, &v, sizeof(v));
}

static void nest_end(struct request *r, struct rtattr *a)
{
	a->rta_len = (unsigned short)((char *)r + r->n.nlmsg_len - (char *)a);
}

static void talk(struct request *r, const char *what, const char *ifname)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct { struct nlmsghdr n; struct nlmsgerr e; char rest[512]; } answer;

	CHECK(fd >= 0, "%s", strerror(errno));
	CHECK(send(fd, r, r->n.nlmsg_len, 0) == r->n.nlmsg_len, "%s", strerror(errno));
	CHECK(recv(fd, &answer, sizeof(answer), 0) > 0, "%s", strerror(errno));
	close(fd);
	if (answer.n.nlmsg_type == NLMSG_ERROR && answer.e.error)
		FAIL("%s %s: %s (is the module for this kind of link there?)", what,
		     ifname, strerror(-answer.e.error));
}

int link_index(const char *ifname)
{
	int i = (int)if_nametoindex(ifname);

	CHECK(i > 0, "%s: %s", ifname, strerror(errno));
	return i;
}

bool link_exists(const char *ifname)
{
	return if_nametoindex(ifname) != 0;
}

static void set_flags(const char *ifname, unsigned int flags)
{
	struct request r = request(RTM_NEWLINK, 0);

	r.i.ifi_index = link_index(ifname);
	r.i.ifi_flags = flags;
	r.i.ifi_change = IFF_UP;
	talk(&r, "link up/down", ifname);
}

void link_up(const char *ifname)
{
	char path[128];
	FILE *f;

	/* Without IPv6 the kernel sends nothing of its own over the link. */
	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", ifname);
	f = fopen(path, "w");
	if (f) {
		fputs("1", f);
		fclose(f);
	}
	set_flags(ifname, IFF_UP);
}

void link_down(const char *ifname)
{
	set_flags(ifname, 0);
}

void link_del(const char *ifname)
{
	struct request r = request(RTM_DELLINK, 0);

	r.i.ifi_index = link_index(ifname);
	talk(&r, "link del", ifname);
}

void link_set_mtu(const char *ifname, unsigned int mtu)
{
	struct request r = request(RTM_NEWLINK, 0);

	r.i.ifi_index = link_index(ifname);
	put_u32(&r, IFLA_MTU, mtu);
	talk(&r, "link mtu", ifname);
}

void link_set_master(const char *ifname, const char *master)
{
	struct request r = request(RTM_NEWLINK, 0);

	r.i.ifi_index = link_index(ifname);
	put_u32(&r, IFLA_MASTER, (unsigned int)link_index(master));
	talk(&r, "link master", ifname);
}

void link_add_veth(const char *ifname, const char *peer)
{
	struct request r = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	struct ifinfomsg zero = { 0 };
	struct rtattr *info, *data, *p;

	put_str(&r, IFLA_IFNAME, ifname);
	info = put(&r, IFLA_LINKINFO, NULL, 0);
	put_str(&r, IFLA_INFO_KIND, "veth");
	data = put(&r, IFLA_INFO_DATA, NULL, 0);
	p = put(&r, VETH_INFO_PEER, &zero, sizeof(zero));
	put_str(&r, IFLA_IFNAME, peer);
	nest_end(&r, p);
	nest_end(&r, data);
	nest_end(&r, info);
	talk(&r, "link add veth", ifname);
}

static void add_kind(struct request *r, const char *ifname, const char *kind)
{
	struct rtattr *info;

	put_str(r, IFLA_IFNAME, ifname);
	info = put(r, IFLA_LINKINFO, NULL, 0);
	put_str(r, IFLA_INFO_KIND, kind);
	nest_end(r, info);
	talk(r, "link add", ifname);
}

void link_add_bridge(const char *ifname)
{
	struct request r = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);

	add_kind(&r, ifname, "bridge");
}

void link_add_macvtap(const char *ifname, const char *lower)
{
	struct request r = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);

	put_u32(&r, IFLA_LINK, (unsigned int)link_index(lower));
	put(&r, IFLA_ADDRESS, GUEST_MAC, 6);
	add_kind(&r, ifname, "macvtap");
}
