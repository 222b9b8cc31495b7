// SPDX-License-Identifier: GPL-2.0

//! Which features the device offers, and what the acknowledged ones mean for it.
//!
//! A feature is offered once it works. What the C twin offers beyond this set is listed in
//! `Documentation/uapi-parity.rst`.

use kernel::prelude::*;
use kext::uapi::{
    feature,
    hdr, //
};

/// How many 64-bit words hold all feature bits.
pub(crate) const WORDS: usize = 2;

/// A set of feature bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features([u64; WORDS]);

impl Features {
    /// What the device offers.
    pub(crate) const OFFERED: Self = Self::of(&[
        feature::NOTIFY_ON_EMPTY,
        feature::VIRTIO_NET_HDR,
        feature::MRG_RXBUF,
        feature::INDIRECT_DESC,
        feature::EVENT_IDX,
        feature::VERSION_1,
        feature::RING_RESET,
        feature::GUEST_UDP_TUNNEL_GSO,
        feature::HOST_UDP_TUNNEL_GSO,
    ]);

    const fn of(bits: &[u32]) -> Self {
        let mut words = [0; WORDS];
        let mut i = 0;
        // A loop by hand, as iterators don't work in constants.
        while i < bits.len() {
            // BOUNDS: Evaluated by the compiler, which refuses a bit beyond the last word.
            words[bits[i] as usize / 64] |= 1 << (bits[i] % 64);
            i += 1;
        }
        Self(words)
    }

    /// Makes a set of the words that user space acknowledges.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: one of the bits is not offered.
    pub(crate) fn acked(words: [u64; WORDS]) -> Result<Self> {
        let unknown = words.iter().zip(Self::OFFERED.0).any(|(w, o)| w & !o != 0);
        if unknown {
            return Err(EOPNOTSUPP);
        }
        Ok(Self(words))
    }

    /// Returns the words of the set, lowest bits first.
    pub(crate) const fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// Tells whether a bit is in the set.
    pub(crate) fn has(&self, bit: u32) -> bool {
        let word = self.0.get(bit as usize / 64);
        word.is_some_and(|w| w >> (bit % 64) & 1 != 0)
    }

    /// Returns who puts how long a header before each frame.
    ///
    /// VIRTIO 1.3, 5.1.6. C twin: `vhost_net_set_features()`.
    pub(crate) fn headers(&self) -> Headers {
        let tunnel =
            self.has(feature::HOST_UDP_TUNNEL_GSO) || self.has(feature::GUEST_UDP_TUNNEL_GSO);
        let len = if tunnel {
            hdr::TUNNEL
        } else if self.has(feature::MRG_RXBUF) || self.has(feature::VERSION_1) {
            hdr::MRG_RXBUF
        } else {
            hdr::LEGACY
        };
        if self.has(feature::VIRTIO_NET_HDR) {
            Headers {
                vhost: len,
                sock: 0,
            }
        } else {
            Headers {
                vhost: 0,
                sock: len,
            }
        }
    }

    /// Returns what the ring logic has to know.
    pub(crate) fn ring(&self) -> vring::Features {
        vring::Features {
            event_idx: self.has(feature::EVENT_IDX),
            notify_on_empty: self.has(feature::NOTIFY_ON_EMPTY),
        }
    }

    /// Returns the byte order of the rings.
    ///
    /// VIRTIO 1.3, 2.7.3: a legacy device has the order of the guest, which is the host's here.
    pub(crate) fn endian(&self) -> vring::Endian {
        if self.has(feature::VERSION_1) {
            vring::Endian::Little
        } else {
            vring::Endian::NATIVE
        }
    }
}

/// Lengths in bytes of the header before a frame. At most one of the two is not 0.
#[derive(Clone, Copy, Default)]
pub(crate) struct Headers {
    /// What this device adds on reception and takes off on transmission.
    pub(crate) vhost: usize,
    /// What the socket gives and takes.
    pub(crate) sock: usize,
}
