// SPDX-License-Identifier: GPL-2.0

//! Avail entries and descriptors that are fetched ahead.
//!
//! A user copy costs far more than the bytes that it moves. So one copy brings the avail entries of
//! several chains, and one their descriptors.
//!
//! Only what the driver has published is fetched ahead: it may not change it any more, and has to
//! keep it readable. A driver that changes it all the same is not seen doing so, or is seen once.

use crate::endian::{
    Endian,
    V16, //
};
use crate::layout::{
    self,
    Desc,
    DESC_SIZE, //
};
use crate::mem::{
    Fault,
    Part,
    RingMem, //
};

/// Most entries that are fetched with one copy.
const RUN: u16 = 16;

/// Largest distance of two heads for which the descriptors between them are fetched as well.
///
/// That many descriptors fill a cache line of 64 bytes, so no line is touched in vain.
const MAX_GAP: u16 = 4;

/// What was fetched ahead.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    heads: Run<{ layout::AVAIL_ELEM_SIZE }>,
    descs: Run<DESC_SIZE>,
}

impl Ahead {
    pub(crate) const fn new() -> Self {
        Self {
            heads: Run::new(),
            descs: Run::new(),
        }
    }

    /// Forgets everything: the ring lies elsewhere, or its position was set.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.heads.len = 0;
        self.descs.len = 0;
    }

    /// Forgets the descriptors: chains were published after they had been fetched.
    #[inline]
    pub(crate) fn forget_descs(&mut self) {
        self.descs.len = 0;
    }

    /// Returns the avail entry at `index`, the first of `ready` published ones.
    pub(crate) fn head(
        &mut self,
        mem: &impl RingMem,
        num: u16,
        index: u16,
        ready: u16,
    ) -> Result<V16, Fault> {
        if let Some(bytes) = self.heads.get(index) {
            return Ok(V16::from_ne_bytes(*bytes));
        }
        // The index is past the run. Once it has gone round, it would be inside again.
        self.heads.len = 0;
        let slot = layout::slot(index, num);
        let off = layout::avail_slot(slot);
        let count = ready.min(num.wrapping_sub(slot));
        if count <= 1 {
            return mem.load16(Part::Avail, off);
        }
        let bytes = self.heads.fill(mem, Part::Avail, off, index, count)?;
        Ok(V16::from_ne_bytes(*bytes))
    }

    /// Fetches the descriptor `head` of the chain at avail index `index`, together with those of
    /// the next chains as far as they are near.
    pub(crate) fn fetch_descs(
        &mut self,
        mem: &impl RingMem,
        num: u16,
        index: u16,
        head: u16,
        endian: Endian,
    ) -> Result<(), Fault> {
        if self.descs.get(head).is_none() {
            let count = self.near(num, index, head, endian);
            self.descs
                .fill(mem, Part::Desc, layout::desc(head), head, count)?;
        }
        Ok(())
    }

    /// Returns descriptor `index` of the ring.
    pub(crate) fn desc(&self, mem: &impl RingMem, index: u16) -> Result<Desc, Fault> {
        if let Some(bytes) = self.descs.get(index) {
            return Ok(Desc::from_bytes(bytes));
        }
        let mut bytes = [0; DESC_SIZE];
        mem.read(Part::Desc, layout::desc(index), &mut bytes)?;
        Ok(Desc::from_bytes(&bytes))
    }

    /// Returns how many descriptors there are from `head` to the last of the heads behind `index`
    /// that follow it in ascending order, each near the one before.
    #[inline]
    fn near(&self, num: u16, index: u16, head: u16, endian: Endian) -> u16 {
        let mut end = head;
        for next in self.heads.behind(index) {
            let next = V16::from_ne_bytes(*next).get(endian);
            let near = next > end && next.wrapping_sub(end) <= MAX_GAP;
            if !near || next >= num || next.wrapping_sub(head) >= RUN {
                break;
            }
            end = next;
        }
        end.wrapping_sub(head).wrapping_add(1)
    }
}

/// Consecutive entries of a part of the ring, from index `at` on.
#[derive(Clone, Debug)]
struct Run<const SIZE: usize> {
    at: u16,
    len: u16,
    entries: [[u8; SIZE]; RUN as usize],
}

impl<const SIZE: usize> Run<SIZE> {
    const fn new() -> Self {
        Self {
            at: 0,
            len: 0,
            entries: [[0; SIZE]; RUN as usize],
        }
    }

    fn entries(&self) -> &[[u8; SIZE]] {
        // BOUNDS: The minimum is for the compiler; `fill()` keeps to it.
        &self.entries[..usize::from(self.len.min(RUN))]
    }

    fn get(&self, index: u16) -> Option<&[u8; SIZE]> {
        self.entries().get(usize::from(index.wrapping_sub(self.at)))
    }

    /// Returns the entries behind `index`, or none if `index` is not there.
    fn behind(&self, index: u16) -> impl Iterator<Item = &[u8; SIZE]> {
        let place = usize::from(index.wrapping_sub(self.at));
        self.entries().iter().skip(place.saturating_add(1))
    }

    /// Fetches up to `count` entries, at least one, from `off` in memory; returns the first.
    fn fill(
        &mut self,
        mem: &impl RingMem,
        part: Part,
        off: usize,
        at: u16,
        count: u16,
    ) -> Result<&[u8; SIZE], Fault> {
        // On a fault the bytes are of no use.
        self.len = 0;
        let count = count.clamp(1, RUN);
        // BOUNDS: `count` is at most the length of the array.
        let entries = &mut self.entries[..usize::from(count)];
        mem.read(part, off, entries.as_flattened_mut())?;
        self.len = count;
        self.at = at;
        let [first, ..] = &self.entries;
        Ok(first)
    }
}
