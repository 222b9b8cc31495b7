// SPDX-License-Identifier: GPL-2.0

//! Sizes, offsets and flags of the split ring.
//!
//! VIRTIO 1.3, 2.7.
//!
//! Functions that take a ring size or a slot do not check it: an offset is only as good as the
//! index that it was made of. [`Split`](crate::Split) checks each index where it is loaded.

use crate::endian::{
    Endian,
    V16,
    V32,
    V64, //
};

/// The largest ring size: the largest power of two in 16 bits.
pub const MAX_NUM: u16 = 0x8000;

/// Size of a descriptor in bytes.
pub const DESC_SIZE: usize = 16;
/// In `desc.flags`: the chain goes on in the descriptor named by `next`.
pub const NEXT: u16 = 1;
/// In `desc.flags`: the device writes the buffer; without it, the device reads it.
pub const WRITE: u16 = 2;
/// In `desc.flags`: the buffer is a table of descriptors.
pub const INDIRECT: u16 = 4;
/// Most descriptors that an indirect table can hold, since `next` has 16 bits.
pub const MAX_INDIRECT: u32 = 0x1_0000;

/// Offset of `avail.flags`.
pub const AVAIL_FLAGS: usize = 0;
/// Offset of `avail.idx`.
pub const AVAIL_IDX: usize = 2;
/// Offset of `avail.ring`.
pub const AVAIL_RING: usize = 4;
/// Size of an entry of `avail.ring` in bytes.
pub const AVAIL_ELEM_SIZE: usize = 2;
/// In `avail.flags`: the driver wants no interrupts.
pub const NO_INTERRUPT: u16 = 1;

/// Offset of `used.flags`.
pub const USED_FLAGS: usize = 0;
/// Offset of `used.idx`.
pub const USED_IDX: usize = 2;
/// Offset of `used.ring`.
pub const USED_RING: usize = 4;
/// Size of an entry of `used.ring` in bytes.
pub const USED_ELEM_SIZE: usize = 8;
/// In `used.flags`: the device wants no kicks.
pub const NO_NOTIFY: u16 = 1;

/// Size of `used_event`, and of `avail_event`, in bytes.
const EVENT_SIZE: usize = 2;

/// Returns the slot of a ring of `num` entries that a free-running `index` falls on.
///
/// `num` is a power of two.
///
/// # Examples
///
/// ```
/// assert_eq!(vring::layout::slot(257, 256), 1);
/// assert_eq!(vring::layout::slot(0xffff, 256), 255);
/// ```
#[inline]
pub const fn slot(index: u16, num: u16) -> u16 {
    index & num.wrapping_sub(1)
}

/// Returns the offset of descriptor `index` in the descriptor table.
#[inline]
pub const fn desc(index: u16) -> usize {
    DESC_SIZE * index as usize
}

/// Returns the offset of `avail.ring[slot]`.
#[inline]
pub const fn avail_slot(slot: u16) -> usize {
    AVAIL_RING + AVAIL_ELEM_SIZE * slot as usize
}

/// Returns the offset of `used_event`, which lies behind `avail.ring`.
#[inline]
pub const fn used_event(num: u16) -> usize {
    avail_slot(num)
}

/// Returns the offset of `used.ring[slot]`.
#[inline]
pub const fn used_slot(slot: u16) -> usize {
    USED_RING + USED_ELEM_SIZE * slot as usize
}

/// Returns the offset of `avail_event`, which lies behind `used.ring`.
#[inline]
pub const fn avail_event(num: u16) -> usize {
    used_slot(num)
}

/// Returns the size in bytes of a table of `num` descriptors.
///
/// C twin: `vhost_get_desc_size()`.
#[inline]
pub const fn desc_size(num: u16) -> usize {
    desc(num)
}

/// Returns the size in bytes of the avail ring.
///
/// C twin: `vhost_get_avail_size()`.
///
/// # Examples
///
/// ```
/// use vring::layout;
///
/// assert_eq!(layout::avail_size(256, false), 4 + 2 * 256);
/// assert_eq!(layout::avail_size(256, true), layout::used_event(256) + 2);
/// ```
#[inline]
pub const fn avail_size(num: u16, event_idx: bool) -> usize {
    used_event(num) + event_size(event_idx)
}

/// Returns the size in bytes of the used ring.
///
/// C twin: `vhost_get_used_size()`.
///
/// # Examples
///
/// ```
/// use vring::layout;
///
/// assert_eq!(layout::used_size(256, false), 4 + 8 * 256);
/// assert_eq!(layout::used_size(256, true), layout::avail_event(256) + 2);
/// ```
#[inline]
pub const fn used_size(num: u16, event_idx: bool) -> usize {
    avail_event(num) + event_size(event_idx)
}

const fn event_size(event_idx: bool) -> usize {
    if event_idx {
        EVENT_SIZE
    } else {
        0
    }
}

/// A descriptor, copied out of guest memory.
///
/// VIRTIO 1.3, 2.7.5. C twin: `struct vring_desc`.
///
/// # Examples
///
/// ```
/// use vring::{Desc, Endian};
///
/// let bytes = [0, 0x10, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 2, 0, 7, 0];
/// let desc = Desc::from_bytes(&bytes);
/// assert_eq!(desc.addr().get(Endian::Little), 0x1000);
/// assert_eq!(desc.len().get(Endian::Little), 60);
/// assert_eq!(desc.flags().get(Endian::Little), vring::layout::WRITE);
/// assert_eq!(desc.next().get(Endian::Little), 7);
/// assert_eq!(desc.to_bytes(), bytes);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Desc {
    addr: V64,
    len: V32,
    flags: V16,
    next: V16,
}

impl Desc {
    /// Makes a descriptor of its fields.
    #[inline]
    pub const fn new(addr: V64, len: V32, flags: V16, next: V16) -> Self {
        Self {
            addr,
            len,
            flags,
            next,
        }
    }

    /// Makes a descriptor of its bytes.
    #[inline]
    pub const fn from_bytes(bytes: &[u8; DESC_SIZE]) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1] = *bytes;
        Self {
            addr: V64::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            len: V32::from_ne_bytes([l0, l1, l2, l3]),
            flags: V16::from_ne_bytes([f0, f1]),
            next: V16::from_ne_bytes([n0, n1]),
        }
    }

    /// Returns the bytes of the descriptor.
    #[inline]
    pub const fn to_bytes(&self) -> [u8; DESC_SIZE] {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.addr.to_ne_bytes();
        let [l0, l1, l2, l3] = self.len.to_ne_bytes();
        let [f0, f1] = self.flags.to_ne_bytes();
        let [n0, n1] = self.next.to_ne_bytes();
        [
            a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1,
        ]
    }

    /// Returns where the buffer begins.
    #[inline]
    pub const fn addr(&self) -> V64 {
        self.addr
    }

    /// Returns how long the buffer is.
    #[inline]
    pub const fn len(&self) -> V32 {
        self.len
    }

    /// Returns the flags.
    #[inline]
    pub const fn flags(&self) -> V16 {
        self.flags
    }

    /// Returns the index of the next descriptor, of meaning only with [`NEXT`].
    #[inline]
    pub const fn next(&self) -> V16 {
        self.next
    }
}

/// An entry of the used ring.
///
/// VIRTIO 1.3, 2.7.8. C twin: `struct vring_used_elem`.
///
/// # Examples
///
/// ```
/// use vring::{Endian, UsedElem};
///
/// let elem = UsedElem::new(3, 1514, Endian::Little);
/// assert_eq!(elem.to_bytes(), [3, 0, 0, 0, 0xea, 5, 0, 0]);
/// assert_eq!(UsedElem::from_bytes(&elem.to_bytes()), elem);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedElem {
    id: V32,
    len: V32,
}

impl UsedElem {
    /// Makes an entry: the chain's head, and how many bytes the device wrote into it.
    #[inline]
    pub const fn new(id: u32, len: u32, endian: Endian) -> Self {
        Self {
            id: V32::new(id, endian),
            len: V32::new(len, endian),
        }
    }

    /// Makes an entry of its bytes.
    #[inline]
    pub const fn from_bytes(bytes: &[u8; USED_ELEM_SIZE]) -> Self {
        let [i0, i1, i2, i3, l0, l1, l2, l3] = *bytes;
        Self {
            id: V32::from_ne_bytes([i0, i1, i2, i3]),
            len: V32::from_ne_bytes([l0, l1, l2, l3]),
        }
    }

    /// Returns the bytes of the entry.
    #[inline]
    pub const fn to_bytes(&self) -> [u8; USED_ELEM_SIZE] {
        let [i0, i1, i2, i3] = self.id.to_ne_bytes();
        let [l0, l1, l2, l3] = self.len.to_ne_bytes();
        [i0, i1, i2, i3, l0, l1, l2, l3]
    }

    /// Returns the head of the chain.
    #[inline]
    pub const fn id(&self) -> V32 {
        self.id
    }

    /// Returns how many bytes the device wrote.
    #[inline]
    pub const fn len(&self) -> V32 {
        self.len
    }
}

// The ring parts have no padding, and the largest ring keeps its offsets far from any overflow.
const _: () = {
    assert!(size_of::<Desc>() == DESC_SIZE);
    assert!(size_of::<UsedElem>() == USED_ELEM_SIZE);
    assert!(desc_size(MAX_NUM) == 0x8_0000);
    assert!(avail_size(MAX_NUM, true) == 0x1_0006);
    assert!(used_size(MAX_NUM, true) == 0x4_0006);
    assert!(MAX_NUM.is_power_of_two() && MAX_NUM.checked_mul(2).is_none());
};
