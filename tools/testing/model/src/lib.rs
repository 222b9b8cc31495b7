// SPDX-License-Identifier: GPL-2.0

//! The other side of the ring: guest memory and a virtio driver.
//!
//! Nothing here shares code with `vring`. The driver writes descriptors, the avail ring and its
//! events byte by byte from the VIRTIO 1.3 layout, and [`oracle`] walks chains the plain way, so
//! that a mistake in `vring` cannot hide behind the same mistake in its test.
//!
//! - [`ram`]: guest memory as areas of one byte vector, at scattered user addresses;
//! - [`probe`]: counts and records what the device touches, and makes it fail on demand;
//! - [`ring`]: `vring::RingMem`, `vring::GuestMem` and `vring::SegSink` over those;
//! - [`driver`]: the driver;
//! - [`oracle`]: what a correct device must see, in O(n).

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod driver;
pub mod oracle;
pub mod probe;
pub mod ram;
pub mod ring;
