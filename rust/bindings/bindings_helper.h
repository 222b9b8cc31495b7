/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads to make the vhost_bindings crate: headers that the
 * kernel's own bindings leave out. Sorted alphabetically.
 */

#include <linux/if_tap.h>
#include <linux/if_tun.h>
#include <linux/namei.h>
#include <uapi/linux/vhost.h>
#include <uapi/linux/vhost_types.h>
#include <uapi/linux/virtio_config.h>
#include <uapi/linux/virtio_net.h>
#include <uapi/linux/virtio_ring.h>

/*
 * bindgen cannot evaluate a macro that contains sizeof(), as an ioctl number
 * does. The prefix keeps the constant apart from its macro and is cut off again
 * after generation.
 */
#define CONST_U32(name) const __u32 RUST_CONST_HELPER_##name = (name)

CONST_U32(VHOST_GET_FEATURES);
CONST_U32(VHOST_SET_FEATURES);
CONST_U32(VHOST_SET_OWNER);
CONST_U32(VHOST_RESET_OWNER);
CONST_U32(VHOST_SET_MEM_TABLE);
CONST_U32(VHOST_SET_LOG_BASE);
CONST_U32(VHOST_SET_LOG_FD);
CONST_U32(VHOST_SET_VRING_NUM);
CONST_U32(VHOST_SET_VRING_ADDR);
CONST_U32(VHOST_SET_VRING_BASE);
CONST_U32(VHOST_GET_VRING_BASE);
CONST_U32(VHOST_SET_VRING_KICK);
CONST_U32(VHOST_SET_VRING_CALL);
CONST_U32(VHOST_SET_VRING_ERR);
CONST_U32(VHOST_SET_BACKEND_FEATURES);
CONST_U32(VHOST_GET_BACKEND_FEATURES);
CONST_U32(VHOST_NET_SET_BACKEND);
CONST_U32(VHOST_GET_FEATURES_ARRAY);
CONST_U32(VHOST_SET_FEATURES_ARRAY);
CONST_U32(VHOST_SET_FORK_FROM_OWNER);
CONST_U32(VHOST_GET_FORK_FROM_OWNER);
