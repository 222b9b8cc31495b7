// SPDX-License-Identifier: GPL-2.0

//! What a correct device sees, worked out the plain way.
//!
//! C twin: `translate_desc()`, `vhost_get_vq_desc_n()`, `get_indirect()`, `vhost_iotlb`'s interval
//! tree. Where `vring` differs on purpose (INDIRECT together with NEXT is refused), so does this.

use crate::driver::{INDIRECT, NEXT, WRITE};
use crate::ram::{Area, Ram};
use crate::ring::Place;

/// A bad address, argument or index in the ring (`EINVAL`).
pub const EINVAL: i32 = 22;
/// Memory that is not there (`EFAULT`).
pub const EFAULT: i32 = 14;
/// Memory that may not be used this way (`EPERM`).
pub const EPERM: i32 = 1;
/// An indirect table that no 16-bit index can walk (`E2BIG`).
pub const E2BIG: i32 = 7;
/// More segments than the caller holds (`ENOBUFS`).
pub const ENOBUFS: i32 = 105;

/// Why a guest address cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Nothing is mapped at this address.
    Hole(u64),
    /// What is mapped at this address does not allow the access.
    Perm(u64),
}

/// The leftmost area with a byte in `first..=last`: by start, then in the order of insertion.
pub fn first_overlap(areas: &[Area], first: u64, last: u64) -> Option<usize> {
    let hits = areas
        .iter()
        .enumerate()
        .filter(|(_, a)| a.overlaps(first, last));
    hits.min_by_key(|(i, a)| (a.start, *i)).map(|(i, _)| i)
}

/// The pieces of a guest range as `(user address, length)`, ending at the first failure.
pub fn pieces(
    areas: &[Area],
    addr: u64,
    len: u32,
    write: bool,
) -> impl Iterator<Item = Result<(u64, u64), Miss>> + '_ {
    let mut at = u128::from(addr);
    let end = at + u128::from(len);
    // A range past the end of the address space has no last byte that a lookup could name.
    let wraps = end > 1 << 64;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let first = at as u64;
        let piece = piece(areas, first, end, wraps, write);
        at = match piece {
            Ok((_, size)) => at + u128::from(size),
            Err(_) => end,
        };
        Some(piece)
    })
}

fn piece(
    areas: &[Area],
    first: u64,
    end: u128,
    wraps: bool,
    write: bool,
) -> Result<(u64, u64), Miss> {
    if wraps {
        return Err(Miss::Hole(first));
    }
    let hit = first_overlap(areas, first, (end - 1) as u64).map(|i| areas[i]);
    let area = hit.filter(|a| a.start <= first).ok_or(Miss::Hole(first))?;
    if !(if write { area.writable } else { area.readable }) {
        return Err(Miss::Perm(first));
    }
    let stop = end.min(u128::from(area.last) + 1);
    let user = area.user.wrapping_add(first - area.start);
    Ok((user, (stop - u128::from(first)) as u64))
}

/// A chain as the device must report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// All segments, readable ones first.
    pub segs: Vec<(u64, u64)>,
    /// How many of them are device-readable.
    pub out_segs: u32,
    /// How many of them are device-writable.
    pub in_segs: u32,
    /// Device-readable bytes.
    pub out_len: u64,
    /// Device-writable bytes.
    pub in_len: u64,
    /// Descriptors of the ring's own table.
    pub descs: u16,
}

/// A ring to walk.
pub struct View<'a> {
    /// The memory it lies in.
    pub ram: &'a Ram,
    /// Where its parts are.
    pub place: Place,
    /// Its size.
    pub num: u16,
    /// Its byte order.
    pub big: bool,
    /// How many segments the device can hold.
    pub cap: usize,
}

#[derive(Clone, Copy)]
struct Raw {
    addr: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl View<'_> {
    fn raw(&self, bytes: [u8; 16]) -> Raw {
        let field = |from: usize, to: usize| {
            let fold = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
            match self.big {
                true => bytes[from..to].iter().fold(0, fold),
                false => bytes[from..to].iter().rev().fold(0, fold),
            }
        };
        Raw {
            addr: field(0, 8),
            len: field(8, 12) as u32,
            flags: field(12, 14) as u16,
            next: field(14, 16) as u16,
        }
    }

    fn add(&self, walk: &mut Walk, desc: Raw) -> Result<(), i32> {
        let write = desc.flags & WRITE != 0;
        for piece in pieces(self.ram.areas(), desc.addr, desc.len, write) {
            let piece = piece.map_err(|miss| match miss {
                Miss::Hole(_) => EFAULT,
                Miss::Perm(_) => EPERM,
            })?;
            if walk.segs.len() >= self.cap {
                return Err(ENOBUFS);
            }
            walk.segs.push(piece);
            if write {
                walk.in_segs += 1;
                walk.in_len += piece.1;
            } else {
                walk.out_segs += 1;
                walk.out_len += piece.1;
            }
        }
        if !write && walk.in_segs > 0 {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Tables are read in order; only NEXT matters there, not the index beside it.
    fn table(&self, walk: &mut Walk, desc: Raw) -> Result<(), i32> {
        if desc.flags & NEXT != 0 || desc.len == 0 || desc.len % 16 != 0 {
            return Err(EINVAL);
        }
        let mut user = Vec::new();
        for piece in pieces(self.ram.areas(), desc.addr, desc.len, false) {
            let (at, len) = piece.map_err(|miss| match miss {
                Miss::Hole(_) => EFAULT,
                Miss::Perm(_) => EPERM,
            })?;
            if user.len() == 1024 {
                return Err(ENOBUFS);
            }
            user.push((at, len));
        }
        if desc.len / 16 > 65536 {
            return Err(E2BIG);
        }
        for i in 0..u64::from(desc.len / 16) {
            let mut bytes = [0; 16];
            self.ram.peek(desc.addr + 16 * i, &mut bytes);
            let inner = self.raw(bytes);
            if inner.flags & INDIRECT != 0 {
                return Err(EINVAL);
            }
            self.add(walk, inner)?;
            if inner.flags & NEXT == 0 {
                return Ok(());
            }
        }
        Err(EINVAL)
    }

    /// Walks the chain that starts at `head`, or says with which errno it has to be refused.
    pub fn walk(&self, head: u16) -> Result<Walk, i32> {
        let mut walk = Walk::default();
        let mut i = head;
        loop {
            if i >= self.num || walk.descs == self.num {
                return Err(EINVAL);
            }
            let mut bytes = [0; 16];
            self.ram
                .peek(self.place.desc + 16 * u64::from(i), &mut bytes);
            let desc = self.raw(bytes);
            walk.descs += 1;
            if desc.flags & INDIRECT != 0 {
                self.table(&mut walk, desc)?;
            } else {
                self.add(&mut walk, desc)?;
            }
            if desc.flags & NEXT == 0 {
                return Ok(walk);
            }
            i = desc.next;
        }
    }
}
