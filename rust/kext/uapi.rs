// SPDX-License-Identifier: GPL-2.0

//! The numbers of the vhost and virtio ABI, as the C headers give them.
//!
//! C headers: [`include/uapi/linux/vhost.h`](srctree/include/uapi/linux/vhost.h),
//! [`include/uapi/linux/virtio_net.h`](srctree/include/uapi/linux/virtio_net.h)

use vhost_bindings as ours;

/// Numbers of ioctls, named as in C less the `VHOST_`.
pub mod ioctl {
    use super::ours;

    macro_rules! numbers {
        ($($name:ident = $c:ident: $doc:literal;)*) => {$(
            #[doc = $doc]
            pub const $name: u32 = ours::$c;
        )*};
    }

    numbers! {
        GET_FEATURES = VHOST_GET_FEATURES: "Gets the features offered: `__u64`.";
        SET_FEATURES = VHOST_SET_FEATURES: "Acknowledges features: `__u64`.";
        GET_FEATURES_ARRAY = VHOST_GET_FEATURES_ARRAY: "As `GET_FEATURES`, for any number of words.";
        SET_FEATURES_ARRAY = VHOST_SET_FEATURES_ARRAY: "As `SET_FEATURES`, for any number of words.";
        GET_BACKEND_FEATURES = VHOST_GET_BACKEND_FEATURES: "Gets the features of the ABI: `__u64`.";
        SET_BACKEND_FEATURES = VHOST_SET_BACKEND_FEATURES: "Chooses features of the ABI: `__u64`.";
        SET_OWNER = VHOST_SET_OWNER: "Makes the caller the owner.";
        RESET_OWNER = VHOST_RESET_OWNER: "Ends the ownership.";
        SET_MEM_TABLE = VHOST_SET_MEM_TABLE: "Sets the guest's memory: `struct vhost_memory`.";
        SET_FORK_FROM_OWNER = VHOST_SET_FORK_FROM_OWNER: "Sets the kind of worker: `__u8`.";
        GET_FORK_FROM_OWNER = VHOST_GET_FORK_FROM_OWNER: "Gets the kind of worker: `__u8`.";
        SET_LOG_BASE = VHOST_SET_LOG_BASE: "Sets where the dirty log is: `__u64`.";
        SET_LOG_FD = VHOST_SET_LOG_FD: "Sets the eventfd of the dirty log: `int`.";
        SET_VRING_NUM = VHOST_SET_VRING_NUM: "Sets the size of a ring: `struct vhost_vring_state`.";
        SET_VRING_ADDR = VHOST_SET_VRING_ADDR: "Sets where a ring is: `struct vhost_vring_addr`.";
        SET_VRING_BASE = VHOST_SET_VRING_BASE: "Sets the position: `struct vhost_vring_state`.";
        GET_VRING_BASE = VHOST_GET_VRING_BASE: "Gets the position: `struct vhost_vring_state`.";
        SET_VRING_KICK = VHOST_SET_VRING_KICK: "Sets the kick eventfd: `struct vhost_vring_file`.";
        SET_VRING_CALL = VHOST_SET_VRING_CALL: "Sets the call eventfd: `struct vhost_vring_file`.";
        SET_VRING_ERR = VHOST_SET_VRING_ERR: "Sets the error eventfd: `struct vhost_vring_file`.";
        NET_SET_BACKEND = VHOST_NET_SET_BACKEND: "Sets the socket: `struct vhost_vring_file`.";
    }
}

/// Numbers of feature bits.
pub mod feature {
    use super::ours;

    /// An interrupt also when the available ring ran empty, whatever the driver asked for.
    pub const NOTIFY_ON_EMPTY: u32 = ours::VIRTIO_F_NOTIFY_ON_EMPTY;
    /// The device puts a `virtio_net_hdr` before each frame, as the socket has none. The number is
    /// also that of `VIRTIO_F_ANY_LAYOUT`.
    pub const VIRTIO_NET_HDR: u32 = ours::VHOST_NET_F_VIRTIO_NET_HDR;
    /// Receive buffers may be merged.
    pub const MRG_RXBUF: u32 = ours::VIRTIO_NET_F_MRG_RXBUF;
    /// Descriptors may name tables of descriptors.
    pub const INDIRECT_DESC: u32 = ours::VIRTIO_RING_F_INDIRECT_DESC;
    /// Notifications are suppressed by index.
    pub const EVENT_IDX: u32 = ours::VIRTIO_RING_F_EVENT_IDX;
    /// The device is not a legacy one.
    pub const VERSION_1: u32 = ours::VIRTIO_F_VERSION_1;
    /// A queue can be reset by itself.
    pub const RING_RESET: u32 = ours::VIRTIO_F_RING_RESET;
    /// The guest takes GSO frames inside of UDP tunnels.
    pub const GUEST_UDP_TUNNEL_GSO: u32 = ours::VIRTIO_NET_F_GUEST_UDP_TUNNEL_GSO;
    /// The host takes GSO frames inside of UDP tunnels.
    pub const HOST_UDP_TUNNEL_GSO: u32 = ours::VIRTIO_NET_F_HOST_UDP_TUNNEL_GSO;
}

/// Sizes in bytes of the headers before a frame.
pub mod hdr {
    use super::ours;

    /// Of `struct virtio_net_hdr`.
    pub const LEGACY: usize = size_of::<ours::virtio_net_hdr>();
    /// Of `struct virtio_net_hdr_mrg_rxbuf`.
    pub const MRG_RXBUF: usize = size_of::<ours::virtio_net_hdr_mrg_rxbuf>();
    /// Where in it `num_buffers` is, as an offset. All longer headers begin alike.
    pub const NUM_BUFFERS: usize =
        core::mem::offset_of!(ours::virtio_net_hdr_mrg_rxbuf, num_buffers);
    /// Of `struct virtio_net_hdr_v1_hash_tunnel`.
    pub const TUNNEL: usize = size_of::<ours::virtio_net_hdr_v1_hash_tunnel>();
}
