/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place where the two modules may differ. The C module is the oracle;
 * each row says what it does, what ours does, and why. A row whose two values
 * have become equal is to be removed.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <linux/vhost.h>
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(n)	(1ULL << (n))

#define FEATURES_BASE								\
	(BIT(VIRTIO_F_NOTIFY_ON_EMPTY) | BIT(VIRTIO_RING_F_INDIRECT_DESC) |	\
	 BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(VIRTIO_F_ANY_LAYOUT) |		\
	 BIT(VIRTIO_F_VERSION_1) | BIT(VHOST_NET_F_VIRTIO_NET_HDR) |		\
	 BIT(VIRTIO_NET_F_MRG_RXBUF) | BIT(VIRTIO_F_RING_RESET))
#define FEATURES_LATER								\
	(BIT(VHOST_F_LOG_ALL) | BIT(VIRTIO_F_ACCESS_PLATFORM) |			\
	 BIT(VIRTIO_F_IN_ORDER))
/* The same in both; here because two tests use it. */
#define FEATURES_WORD1								\
	(BIT(VIRTIO_NET_F_GUEST_UDP_TUNNEL_GSO - 64) |				\
	 BIT(VIRTIO_NET_F_HOST_UDP_TUNNEL_GSO - 64))

struct expect_row {
	const char *key;
	uint64_t c;
	uint64_t rs;
	const char *why;
};

static const struct expect_row expect_rows[] = {
	{ "features", FEATURES_BASE | FEATURES_LATER, FEATURES_BASE,
	  "dirty log, IOTLB and in-order come in a later release" },
	{ "backend_features", BIT(VHOST_BACKEND_F_IOTLB_MSG_V2), 0,
	  "IOTLB messages come with the IOTLB" },
	{ "log_ioctls", 1, 0, "SET_LOG_BASE and SET_LOG_FD come with the dirty log" },
	{ "busyloop_ioctls", 1, 0, "busy polling comes in a later release" },
	{ "fork_owner_ioctls", 1, 0, "ours has one worker model, the kthread" },
	{ "kthread_worker", 0, 1, "the C default is a thread of the owner" },
	{ "indirect_next", 1, 0,
	  "INDIRECT with NEXT is forbidden by VIRTIO 2.7.5.3.1; ours refuses, C walks on" },
	{ "short_tx_spins", 1, 0,
	  "C retries a TX chain shorter than the header without pause" },
	{ "kick_after_bad_chain", 0, 1,
	  "C leaves kicks off although it no longer looks; ours asks for the next one" },
	{ "empty_descs_hog", 1, 0,
	  "C counts frames, ours also the descriptors that a frame costs" },
	{ "features_array_hog", 1, 0,
	  "C clears the array in one go; ours ends when the caller is killed" },
};

/* Which module is under test: VHOST_IMPL=c (default) or rs. */
static inline const char *impl_name(void)
{
	const char *impl = getenv("VHOST_IMPL");

	return impl && !strcmp(impl, "rs") ? "rs" : "c";
}

static inline const char *node_path(void)
{
	const char *node = getenv("VHOST_NODE");

	return node && *node ? node : "/dev/vhost-net";
}

static inline uint64_t expect(const char *key)
{
	for (size_t i = 0; i < sizeof(expect_rows) / sizeof(*expect_rows); i++)
		if (!strcmp(expect_rows[i].key, key))
			return *impl_name() == 'c' ? expect_rows[i].c : expect_rows[i].rs;
	fprintf(stderr, "expect.h has no row \"%s\"\n", key);
	abort();
}

#endif /* EXPECT_H */
