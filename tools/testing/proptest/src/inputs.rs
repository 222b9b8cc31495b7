// SPDX-License-Identifier: GPL-2.0

//! Random rings, buffers and chains.

use proptest::prelude::*;
use vring_model::driver::{Buf, Config, TABLE};
use vring_model::ring::Place;

/// Buffers may be anywhere below this, across the border of two areas at [`BORDER`].
pub const LOW: u64 = 0x6000;
/// Where the two low areas meet.
pub const BORDER: u64 = 0x4000;
/// First byte of the area that ends with the address space.
pub const TOP: u64 = u64::MAX - 0xfff;
/// First indirect table.
pub const TABLES: u64 = 0x2_0000;
/// Descriptor table of the ring.
pub const DESC: u64 = 0x1000_0000;
/// Avail and used ring, in an area of their own.
pub const RINGS: u64 = 0x2000_0000;

/// The areas of a guest whose ring has `num` entries.
pub fn layout(num: u16) -> Vec<(u64, u64)> {
    let num = u64::from(num);
    // The border is in the middle of a descriptor, which the device has to read in two pieces.
    let tables = TABLE * num / 2 + 24;
    vec![
        (TABLES + tables, TABLE * num - tables + TABLE),
        (0, BORDER),
        (TOP, 0x1000),
        (BORDER, LOW - BORDER),
        (RINGS, 0x100 + 16 * num),
        (TABLES, tables),
        (DESC, 16 * num),
    ]
}

/// Where [`layout`] has room for the ring.
pub fn place(num: u16) -> Place {
    let avail = 4 + 2 * u64::from(num) + 2;
    Place {
        desc: DESC,
        avail: RINGS,
        used: RINGS + avail.next_multiple_of(4),
    }
}

/// The agreement for a ring of `num` entries whose indices start at the given values.
pub fn agreement(num: u16, big: bool, event_idx: bool, avail_base: u16, used_base: u16) -> Config {
    Config {
        num,
        big,
        event_idx,
        avail_base,
        used_base,
        place: place(num),
        tables: TABLES,
        stride: 1,
    }
}

/// A first index, most often shortly before a wrap of the ring or of the index itself.
pub fn base() -> impl Strategy<Value = u16> {
    prop_oneof![
        2 => Just(0u16),
        4 => (0u16..40).prop_map(|back| 0u16.wrapping_sub(back)),
        2 => (0u16..20).prop_map(|back| 0x8000 - back),
        2 => any::<u16>(),
    ]
}

/// Any agreement on a ring of at most 64 entries.
pub fn any_agreement() -> impl Strategy<Value = Config> {
    let stride = prop::sample::select(&[1u16, 5][..]);
    (
        0u32..=6,
        any::<bool>(),
        any::<bool>(),
        base(),
        base(),
        stride,
    )
        .prop_map(|(log, big, event, avail, used, stride)| Config {
            stride,
            ..agreement(1 << log, big, event, avail, used)
        })
}

/// A range of mapped guest memory; one in ten is empty.
fn range() -> impl Strategy<Value = (u64, u32)> {
    let low = (0..LOW, 1u64..0x3000).prop_map(|(at, len)| (at, len.min(LOW - at) as u32));
    let seam = (1u64..64, 1u64..64).prop_map(|(back, len)| (BORDER - back, (back + len) as u32));
    let top =
        (0u64..0x1000, 1u64..0x1000).prop_map(|(at, len)| (TOP + at, len.min(0x1000 - at) as u32));
    let empty = any::<u64>().prop_map(|at| (at, 0));
    prop_oneof![4 => low, 2 => seam, 2 => top, 1 => empty]
}

/// A few ranges; seldom so many that a table of both halves is read in more than one go.
fn ranges() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop_oneof![
        9 => prop::collection::vec(range(), 0..5),
        1 => prop::collection::vec(range(), 9..16),
    ]
}

/// A chain of legal buffers, readable ones first, never without any.
pub fn chain() -> impl Strategy<Value = Vec<Buf>> {
    (ranges(), ranges()).prop_map(|(out, mut inn)| {
        if out.is_empty() && inn.is_empty() {
            inn.push((0, 1));
        }
        let buf = |(addr, len), write| Buf { addr, len, write };
        let out = out.into_iter().map(|r| buf(r, false));
        out.chain(inn.into_iter().map(|r| buf(r, true))).collect()
    })
}

/// How many buffers of a chain stay out of the indirect table.
pub fn split_at() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(usize::MAX), 3 => Just(0), 2 => 1usize..4]
}
