// SPDX-License-Identifier: GPL-2.0

//! The guest's memory regions, and the translation of buffers through them.

use core::ops::DerefMut;

use crate::addr::{
    GuestAddr,
    UserAddr, //
};
use crate::error::Error;
use crate::mem::SegSink;

/// A run of guest memory that lies in one piece in the owner's address space.
///
/// # Examples
///
/// ```
/// use vring::{GuestAddr, Region, UserAddr};
///
/// let ram = Region::new(GuestAddr::new(0x1000), 0x2000, UserAddr::new(0x7f00_0000)).unwrap();
/// assert_eq!(ram.last(), GuestAddr::new(0x2fff));
/// assert_eq!(ram.size(), Some(0x2000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Region {
    start: GuestAddr,
    last: GuestAddr,
    user: UserAddr,
    /// Place among the regions as they were given; breaks ties of `start`.
    seq: usize,
    /// Largest `last` of this region and all that sort before it.
    max_last: GuestAddr,
}

impl Region {
    /// Makes a region of `size` bytes.
    ///
    /// A region may end at 2^64. Start 0 with size 0 is the whole of the 2^64 bytes.
    ///
    /// C twin: `vhost_iotlb_add_range()`.
    ///
    /// # Errors
    ///
    /// [`Error::Region`] if the region is empty or ends past 2^64.
    #[inline]
    pub const fn new(start: GuestAddr, size: u64, user: UserAddr) -> Result<Self, Error> {
        let last = start.get().wrapping_add(size).wrapping_sub(1);
        if last < start.get() {
            return Err(Error::Region { start, size });
        }
        let last = GuestAddr::new(last);
        Ok(Self {
            start,
            last,
            user,
            seq: 0,
            max_last: last,
        })
    }

    /// Returns the first guest address.
    #[inline]
    pub const fn start(&self) -> GuestAddr {
        self.start
    }

    /// Returns the last guest address.
    #[inline]
    pub const fn last(&self) -> GuestAddr {
        self.last
    }

    /// Returns where the region lies in the owner's address space.
    #[inline]
    pub const fn user(&self) -> UserAddr {
        self.user
    }

    /// Returns the size in bytes, or `None` for 2^64.
    #[inline]
    pub const fn size(&self) -> Option<u64> {
        self.last
            .get()
            .wrapping_sub(self.start.get())
            .checked_add(1)
    }

    #[inline]
    fn contains(&self, addr: GuestAddr) -> bool {
        self.start <= addr && addr <= self.last
    }
}

/// Remembers the region that was hit last.
///
/// It may be stale, or of another table: a hit is checked like any other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint(usize);

/// The memory regions of a guest, all of them readable and writable.
///
/// The storage is whatever the caller can allocate: a slice, a `Vec`, the kernel's `KVec`.
///
/// # Invariants
///
/// - Regions are sorted by start, those with the same start as they were given.
/// - `max_last` of each is the largest `last` of it and those before it.
/// - If `disjoint` is set, no two regions have an address in common.
///
/// # Examples
///
/// ```
/// use vring::{Error, GuestAddr, Hint, MemTable, Region, SegSink, UserAddr};
///
/// struct Segs(Vec<(u64, usize)>);
///
/// impl SegSink for Segs {
///     fn push(&mut self, addr: UserAddr, len: usize) -> Result<(), Error> {
///         self.0.push((addr.get(), len));
///         Ok(())
///     }
/// }
///
/// let table = MemTable::new(vec![
///     Region::new(GuestAddr::new(0x2000), 0x1000, UserAddr::new(0x9000))?,
///     Region::new(GuestAddr::new(0x1000), 0x1000, UserAddr::new(0x5000))?,
/// ]);
/// let (mut hint, mut segs) = (Hint::default(), Segs(Vec::new()));
///
/// // A buffer over the border of two regions has two segments.
/// table.translate(GuestAddr::new(0x1ff0), 0x20, &mut hint, &mut segs)?;
/// assert_eq!(segs.0, [(0x5ff0, 0x10), (0x9000, 0x10)]);
///
/// // The first address without memory is reported.
/// let hole = table.translate(GuestAddr::new(0x2ff0), 0x20, &mut hint, &mut segs);
/// assert_eq!(hole, Err(Error::Unmapped { addr: GuestAddr::new(0x3000) }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct MemTable<S> {
    regions: S,
    disjoint: bool,
}

impl<S: DerefMut<Target = [Region]>> MemTable<S> {
    /// Makes a table of regions in any order; they may overlap.
    #[inline]
    pub fn new(mut regions: S) -> Self {
        let disjoint = index(&mut regions);
        // INVARIANT: `index()` has just seen to all three.
        Self { regions, disjoint }
    }

    /// Returns the regions, sorted by start.
    #[inline]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Returns the first region, by start, that has an address in common with `addr..=last`.
    ///
    /// Regions with the same start count in the order in which they were given. The region may
    /// begin behind `addr`.
    ///
    /// C twin: `vhost_iotlb_itree_first()`.
    #[inline]
    pub fn lookup(&self, addr: GuestAddr, last: u64, hint: &mut Hint) -> Option<&Region> {
        let regions = self.regions();
        let hit = |at: usize| regions.get(at).is_some_and(|r| r.contains(addr));
        let first = if self.disjoint && hit(hint.0) {
            // No other region has `addr`, and those before it end before `addr`.
            hint.0
        } else {
            // Where the running maximum first reaches `addr`, the region itself does.
            regions.partition_point(|r| r.max_last < addr)
        };
        let region = regions.get(first).filter(|r| r.start.get() <= last)?;
        *hint = Hint(first);
        Some(region)
    }

    /// Translates a buffer and pushes its segments, split where regions meet; returns how many.
    ///
    /// A buffer of length 0 has no segment, wherever it is.
    ///
    /// C twin: `translate_desc()`.
    ///
    /// # Errors
    ///
    /// [`Error::Unmapped`] with the first address that no region has, or with `addr` itself if
    /// the buffer ends past 2^64; and whatever the sink returns. Segments before it have been
    /// pushed.
    #[inline]
    pub fn translate(
        &self,
        addr: GuestAddr,
        len: u32,
        hint: &mut Hint,
        sink: &mut impl SegSink,
    ) -> Result<u32, Error> {
        let Some(more) = len.checked_sub(1) else {
            return Ok(0);
        };
        let last = addr
            .checked_add(u64::from(more))
            .ok_or(Error::Unmapped { addr })?;
        let mut at = addr;
        let mut segs = 0_u32;
        loop {
            let region = self
                .lookup(at, last.get(), hint)
                .filter(|r| r.start <= at)
                .ok_or(Error::Unmapped { addr: at })?;
            let end = region.last.min(last);
            let skip = at.get().wrapping_sub(region.start.get());
            // CAST: It is a piece of `len`, and `usize` has at least 32 bits wherever Linux runs.
            let piece = end.get().wrapping_sub(at.get()).wrapping_add(1) as usize;
            sink.push(UserAddr::new(region.user.get().wrapping_add(skip)), piece)?;
            // OVERFLOW: Each segment has at least one of `len` bytes.
            segs = segs.wrapping_add(1);
            match end.checked_add(1) {
                Some(next) if end < last => at = next,
                _ => return Ok(segs),
            }
        }
    }
}

/// Sorts the regions and fills in what the look-up needs; returns whether they are disjoint.
fn index(regions: &mut [Region]) -> bool {
    for (seq, region) in regions.iter_mut().enumerate() {
        region.seq = seq;
    }
    sort(regions);

    let mut disjoint = true;
    let mut max_last = None;
    for region in regions {
        disjoint &= max_last.is_none_or(|max| max < region.start);
        region.max_last = max_last.map_or(region.last, |max| region.last.max(max));
        max_last = Some(region.max_last);
    }
    disjoint
}

/// Sorts by start, and by place among those with the same start: a heap sort.
///
/// The sorts of `core` end in a panic on an order that contradicts itself, which the kernel's
/// `objtool` does not know to be final: it would warn of code that runs on into nowhere.
fn sort(regions: &mut [Region]) {
    for root in (0..regions.len() / 2).rev() {
        sift_down(regions, root);
    }
    for end in (1..regions.len()).rev() {
        // BOUNDS: `end` is below the length, here and in the next line.
        regions.swap(0, end);
        sift_down(&mut regions[..end], 0);
    }
}

/// Lets a region sink until none of the two below it sorts behind it.
fn sift_down(heap: &mut [Region], mut root: usize) {
    let key = |heap: &[Region], at: usize| heap.get(at).map(|r| (r.start, r.seq));
    loop {
        // OVERFLOW: `root` counts regions, which are larger than two bytes.
        let left = 2 * root + 1;
        // A place behind the end is `None`, which sorts before all regions.
        let child = if key(heap, left + 1) > key(heap, left) {
            left + 1
        } else {
            left
        };
        if key(heap, child) <= key(heap, root) {
            return;
        }
        // BOUNDS: Both have a region, or the comparison would have ended the loop.
        heap.swap(root, child);
        root = child;
    }
}

#[cfg(test)]
mod tests;
