// SPDX-License-Identifier: GPL-2.0

//! The walk along a descriptor chain.
//!
//! Each descriptor is fetched once; what is checked is what is used. The length of every walk is
//! bounded: by the ring size, or by the length of the indirect table.

use crate::addr::{
    GuestAddr,
    UserAddr, //
};
use crate::endian::Endian;
use crate::error::Error;
use crate::layout::{
    self,
    Desc,
    DESC_SIZE,
    INDIRECT,
    MAX_INDIRECT,
    NEXT,
    WRITE, //
};
use crate::mem::{
    Access,
    Fault,
    GuestMem,
    SegSink, //
};

/// A chain that was taken off the avail ring.
///
/// Its segments went into the sink, those that the device reads (out) first, then those that it
/// writes (in).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Index of the first descriptor; it names the chain in the used ring.
    pub head: u16,
    /// Segments that the device reads.
    pub out_segs: u32,
    /// Segments that the device writes.
    pub in_segs: u32,
    /// Bytes that the device reads.
    pub out_len: u64,
    /// Bytes that the device may write.
    pub in_len: u64,
    /// Descriptors of the ring that the chain takes; an indirect table counts as one.
    pub descs: u16,
    /// Descriptors that were read, also those of an indirect table: what the chain cost, since a
    /// descriptor may be empty and have no segment.
    pub walked: u32,
}

impl Chain {
    /// Most descriptors that one chain can have: a ring full, and an indirect table.
    pub const MAX_WALK: u32 = layout::MAX_NUM as u32 + MAX_INDIRECT;

    /// Returns how many bytes of descriptors were read.
    #[inline]
    pub const fn walked_bytes(&self) -> u64 {
        self.walked as u64 * DESC_SIZE as u64
    }
}

/// A walk along one chain.
pub(crate) struct Walk<'a, G, S> {
    gm: &'a mut G,
    sink: &'a mut S,
    endian: Endian,
    chain: Chain,
}

impl<'a, G: GuestMem, S: SegSink> Walk<'a, G, S> {
    pub(crate) fn new(gm: &'a mut G, sink: &'a mut S, endian: Endian) -> Self {
        Self {
            gm,
            sink,
            endian,
            chain: Chain::default(),
        }
    }

    /// Walks the chain at `head`, which is below `num`; `fetch` returns a descriptor of the ring.
    pub(crate) fn run(
        mut self,
        head: u16,
        num: u16,
        mut fetch: impl FnMut(u16) -> Result<Desc, Fault>,
    ) -> Result<Chain, Error> {
        self.chain.head = head;
        let mut index = head;
        for descs in 1..=num {
            let desc = fetch(index)?;
            self.chain.descs = descs;
            let flags = desc.flags().get(self.endian);
            if flags & INDIRECT != 0 {
                // VIRTIO 1.3, 2.7.5.3.1 forbids both. The C twin goes on behind the table, so
                // that every descriptor of a ring may bring 65536 more; here one table ends it.
                if flags & NEXT != 0 {
                    return Err(Error::IndirectNext { head });
                }
                self.chain.walked = self.chain.walked.saturating_add(1);
                self.indirect(&desc)?;
                return Ok(self.chain);
            }
            self.buffer(&desc)?;
            if flags & NEXT == 0 {
                return Ok(self.chain);
            }
            index = desc.next().get(self.endian);
            if index >= num {
                return Err(Error::Next { next: index, num });
            }
        }
        Err(Error::Loop { head })
    }

    /// Translates the buffer of a descriptor and adds it to the chain.
    fn buffer(&mut self, desc: &Desc) -> Result<(), Error> {
        let addr = GuestAddr::new(desc.addr().get(self.endian));
        let len = desc.len().get(self.endian);
        let chain = &mut self.chain;
        chain.walked = chain.walked.saturating_add(1);
        if desc.flags().get(self.endian) & WRITE != 0 {
            let segs = self.gm.translate(addr, len, Access::Write, self.sink)?;
            chain.in_segs = chain.in_segs.saturating_add(segs);
            chain.in_len = chain.in_len.saturating_add(u64::from(len));
        } else {
            let segs = self.gm.translate(addr, len, Access::Read, self.sink)?;
            // As in the C twin, an empty writable buffer in front is no offence.
            if chain.in_segs != 0 {
                return Err(Error::OutAfterIn { head: chain.head });
            }
            chain.out_segs = chain.out_segs.saturating_add(segs);
            chain.out_len = chain.out_len.saturating_add(u64::from(len));
        }
        Ok(())
    }

    /// Adds the buffers of an indirect table.
    ///
    /// VIRTIO 1.3, 2.7.5.3. C twin: `get_indirect()`, which takes the descriptors of a table in
    /// their order in memory whatever `next` says; so does this.
    fn indirect(&mut self, desc: &Desc) -> Result<(), Error> {
        let len = desc.len().get(self.endian);
        let addr = GuestAddr::new(desc.addr().get(self.endian));
        let mut table = Table::open(self.gm, addr, len)?;
        let mut run = [[0; DESC_SIZE]; RUN];
        while table.left != 0 {
            for bytes in table.next_run(self.gm, &mut run)? {
                let desc = Desc::from_bytes(bytes);
                let flags = desc.flags().get(self.endian);
                if flags & INDIRECT != 0 {
                    return Err(Error::IndirectNested);
                }
                self.buffer(&desc)?;
                if flags & NEXT == 0 {
                    return Ok(());
                }
            }
        }
        Err(Error::IndirectLoop { len })
    }
}

/// Most descriptors that are fetched with one copy.
const RUN: usize = 16;

/// Most segments that an indirect table may lie in.
///
/// C twin: `UIO_MAXIOV`.
const MAX_TABLE_SEGS: u32 = 1024;

/// An indirect table, read from front to back.
///
/// Only the current segment is remembered. Nearly every table lies in one; for the others each
/// piece is translated again when its turn comes, which needs no room for a list.
struct Table {
    /// First byte that was not read yet.
    at: GuestAddr,
    /// Bytes that were not read yet.
    left: u32,
    /// Where the bytes from `at` on lie, as far as is known.
    seg: Seg,
}

impl Table {
    /// Checks that a table has a sound length and is mapped as a whole.
    fn open(gm: &mut impl GuestMem, at: GuestAddr, left: u32) -> Result<Self, Error> {
        if left == 0 || left % DESC_SIZE as u32 != 0 {
            return Err(Error::IndirectLen { len: left });
        }
        let seg = FirstSeg::find(gm, at, left)?;
        if left / DESC_SIZE as u32 > MAX_INDIRECT {
            return Err(Error::IndirectTooBig { len: left });
        }
        Ok(Self { at, left, seg })
    }

    /// Fetches the next descriptors; there is at least one.
    fn next_run<'r>(
        &mut self,
        gm: &mut impl GuestMem,
        run: &'r mut [[u8; DESC_SIZE]; RUN],
    ) -> Result<&'r [[u8; DESC_SIZE]], Error> {
        // CAST: `usize` has at least 32 bits wherever Linux runs.
        let count = RUN.min(self.left as usize / DESC_SIZE);
        // BOUNDS: `count` is at most the length of the array.
        let run = &mut run[..count];
        let mut dst = run.as_flattened_mut();
        while !dst.is_empty() {
            if self.seg.len == 0 {
                // CAST: At most `RUN` descriptors.
                self.seg = FirstSeg::find(gm, self.at, dst.len() as u32)?;
            }
            let len = dst.len().min(self.seg.len);
            // BOUNDS: `len` is at most `dst.len()`.
            let (now, later) = dst.split_at_mut(len);
            gm.read(self.seg.addr, now)
                .map_err(|Fault| Error::IndirectFault)?;
            self.advance(len);
            dst = later;
        }
        Ok(run)
    }

    /// Steps over `len` bytes, which are no more than the segment and the table have left.
    #[inline]
    fn advance(&mut self, len: usize) {
        // CAST: At most `RUN` descriptors.
        let step = len as u32;
        self.at = GuestAddr::new(self.at.get().wrapping_add(u64::from(step)));
        self.left = self.left.saturating_sub(step);
        self.seg.addr = UserAddr::new(self.seg.addr.get().wrapping_add(u64::from(step)));
        self.seg.len = self.seg.len.saturating_sub(len);
    }
}

/// A piece of memory in the owner's address space.
#[derive(Clone, Copy)]
struct Seg {
    addr: UserAddr,
    len: usize,
}

/// Keeps the first segment of a translation and counts them all.
struct FirstSeg {
    first: Option<Seg>,
    count: u32,
}

impl FirstSeg {
    /// Translates the whole of a buffer and returns its first segment, which is not empty.
    fn find(gm: &mut impl GuestMem, addr: GuestAddr, len: u32) -> Result<Seg, Error> {
        let mut sink = Self {
            first: None,
            count: 0,
        };
        gm.translate(addr, len, Access::Read, &mut sink)?;
        // Without progress the walk would not end.
        sink.first
            .filter(|seg| seg.len != 0)
            .ok_or(Error::Unmapped { addr })
    }
}

impl SegSink for FirstSeg {
    #[inline]
    fn push(&mut self, addr: UserAddr, len: usize) -> Result<(), Error> {
        if self.count == MAX_TABLE_SEGS {
            return Err(Error::Segments);
        }
        self.count = self.count.saturating_add(1);
        self.first = self.first.or(Some(Seg { addr, len }));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
