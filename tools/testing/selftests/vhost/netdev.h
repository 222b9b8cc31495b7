/* SPDX-License-Identifier: GPL-2.0 */
/* Network devices: what vhost-net gets as a backend, and the host's side of it. */
#ifndef NETDEV_H
#define NETDEV_H

#include <stdbool.h>
#include <stddef.h>

#define GUEST_MAC	"\x02\x00\x00\x00\x00\x02"
#define HOST_MAC	"\x02\x00\x00\x00\x00\x01"
#define TEST_PROTO	0x88b5	/* IEEE 802 local experimental */

/* rtnetlink; ifname is at most 15 characters */
int link_index(const char *ifname);
bool link_exists(const char *ifname);
void link_up(const char *ifname);
void link_down(const char *ifname);
void link_del(const char *ifname);
void link_set_mtu(const char *ifname, unsigned int mtu);
void link_set_master(const char *ifname, const char *master);
void link_add_veth(const char *ifname, const char *peer);
void link_add_bridge(const char *ifname);
void link_add_macvtap(const char *ifname, const char *lower);

/* A tap queue: the name is filled in, the device lives as long as the fd. */
struct tap {
	int fd;
	char name[16];
};

/* hdr: size of the virtio-net header the tap shall speak, 0 for none. */
struct tap tap_open(unsigned int hdr);
/* A tun file without an interface. */
int tun_open_bare(void);
/* The character device of a macvtap. */
int macvtap_open(const char *ifname, unsigned int hdr);
/* AF_PACKET socket as backend; hdr 0, 10 or 12. */
int raw_open(const char *ifname, unsigned int hdr);

/*
 * The host's side: an AF_PACKET socket that sees only frames of TEST_PROTO
 * coming in over the device, and whose sends go out over it.
 */
int host_open(const char *ifname);
/* One frame; false if it did not come within ms. */
bool host_recv(int fd, void *buf, size_t *len, int ms);
void host_send(int fd, const void *buf, size_t len);
/* Runs a program by name, without a shell; its exit code, 127 if it is missing. */
int run(const char *const argv[]);

#endif /* NETDEV_H */
