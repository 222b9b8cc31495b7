// SPDX-License-Identifier: GPL-2.0

// A ring and guest memory over plain bytes, for the unit tests and, by `include!`, for the examples
// in the documentation. So there are no `//!` comments, and paths begin with `vring`.

use std::cell::{Cell, RefCell};
use std::vec::Vec;
use std::{mem, vec};

use vring::*;

/// Where guest memory begins for the guest.
pub(crate) const GUEST: u64 = 0x4000_0000;
/// Where guest memory begins in the owner's address space.
pub(crate) const USER: u64 = 0x7f00_0000_0000;
/// How much guest memory there is.
pub(crate) const RAM: usize = 0x2_0000;

/// What the device did to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Load(Part, usize),
    Store(usize),
    Read(Part, usize, usize),
    Write(usize, usize),
    Rmb,
    Wmb,
    Mb,
}

/// The three parts of a ring, and the driver's side of it.
pub(crate) struct Mem {
    num: u16,
    endian: Endian,
    desc: RefCell<Vec<u8>>,
    avail: RefCell<Vec<u8>>,
    used: RefCell<Vec<u8>>,
    trace: RefCell<Vec<Op>>,
    /// How many accesses succeed before all fail.
    good: Cell<usize>,
}

impl Mem {
    pub(crate) fn new(num: u16, endian: Endian) -> Self {
        Self {
            num,
            endian,
            desc: RefCell::new(vec![0; layout::desc_size(num)]),
            avail: RefCell::new(vec![0; layout::avail_size(num, true)]),
            used: RefCell::new(vec![0; layout::used_size(num, true)]),
            trace: RefCell::new(Vec::new()),
            good: Cell::new(usize::MAX),
        }
    }

    /// Writes a descriptor.
    pub(crate) fn set_desc(&self, index: u16, addr: u64, len: u32, flags: u16, next: u16) {
        let off = layout::desc(index);
        let desc = desc_bytes(self.endian, addr, len, flags, next);
        self.desc.borrow_mut()[off..off + layout::DESC_SIZE].copy_from_slice(&desc);
    }

    /// Puts chains into the avail ring and moves `avail.idx`.
    pub(crate) fn publish(&self, heads: &[u16]) {
        let mut index = self.avail16(layout::AVAIL_IDX);
        for head in heads {
            self.set_avail16(layout::avail_slot(layout::slot(index, self.num)), *head);
            index = index.wrapping_add(1);
        }
        self.set_avail16(layout::AVAIL_IDX, index);
    }

    pub(crate) fn avail16(&self, off: usize) -> u16 {
        get16(&self.avail.borrow(), off).get(self.endian)
    }

    pub(crate) fn set_avail16(&self, off: usize, value: u16) {
        set16(
            &mut self.avail.borrow_mut(),
            off,
            V16::new(value, self.endian),
        );
    }

    pub(crate) fn used16(&self, off: usize) -> u16 {
        get16(&self.used.borrow(), off).get(self.endian)
    }

    pub(crate) fn set_used16(&self, off: usize, value: u16) {
        set16(
            &mut self.used.borrow_mut(),
            off,
            V16::new(value, self.endian),
        );
    }

    /// Returns entry `slot` of the used ring.
    pub(crate) fn used_elem(&self, slot: u16) -> (u32, u32) {
        let off = layout::used_slot(slot);
        let bytes = self.used.borrow()[off..off + layout::USED_ELEM_SIZE].try_into();
        let elem = UsedElem::from_bytes(&bytes.unwrap());
        (elem.id().get(self.endian), elem.len().get(self.endian))
    }

    /// Returns the used entries from slot 0 up to `used.idx`.
    pub(crate) fn used(&self) -> Vec<(u32, u32)> {
        let end = self.used16(layout::USED_IDX);
        (0..end).map(|slot| self.used_elem(slot)).collect()
    }

    /// Lets `good` more accesses succeed, and fails all others.
    pub(crate) fn fail_after(&self, good: usize) {
        self.good.set(good);
    }

    /// Returns what the device did since the last call.
    pub(crate) fn trace(&self) -> Vec<Op> {
        mem::take(&mut *self.trace.borrow_mut())
    }

    fn access(&self, op: Op) -> Result<(), Fault> {
        self.good.set(self.good.get().checked_sub(1).ok_or(Fault)?);
        self.trace.borrow_mut().push(op);
        Ok(())
    }

    fn part(&self, part: Part) -> &RefCell<Vec<u8>> {
        match part {
            Part::Desc => &self.desc,
            Part::Avail => &self.avail,
            Part::Used => &self.used,
        }
    }
}

impl RingMem for Mem {
    fn load16(&self, part: Part, off: usize) -> Result<V16, Fault> {
        assert_eq!(off % 2, 0);
        self.access(Op::Load(part, off))?;
        Ok(get16(&self.part(part).borrow(), off))
    }

    fn store16(&self, off: usize, val: V16) -> Result<(), Fault> {
        assert_eq!(off % 2, 0);
        self.access(Op::Store(off))?;
        set16(&mut self.used.borrow_mut(), off, val);
        Ok(())
    }

    fn read(&self, part: Part, off: usize, dst: &mut [u8]) -> Result<(), Fault> {
        self.access(Op::Read(part, off, dst.len()))?;
        dst.copy_from_slice(&self.part(part).borrow()[off..off + dst.len()]);
        Ok(())
    }

    fn write_used(&self, off: usize, src: &[u8]) -> Result<(), Fault> {
        self.access(Op::Write(off, src.len()))?;
        self.used.borrow_mut()[off..off + src.len()].copy_from_slice(src);
        Ok(())
    }

    fn rmb(&self) {
        self.trace.borrow_mut().push(Op::Rmb);
    }

    fn wmb(&self) {
        self.trace.borrow_mut().push(Op::Wmb);
    }

    fn mb(&self) {
        self.trace.borrow_mut().push(Op::Mb);
    }
}

/// Guest memory.
pub(crate) struct Ram {
    table: MemTable<Vec<Region>>,
    hint: Hint,
    pub(crate) bytes: Vec<u8>,
    /// Guest addresses without permission begin here.
    pub(crate) denied: u64,
    /// Bytes of each copy out of guest memory.
    pub(crate) reads: Vec<usize>,
    /// Whether reads fail.
    pub(crate) broken: bool,
}

impl Ram {
    /// Makes guest memory of one region.
    pub(crate) fn new() -> Self {
        Self::cut(&[RAM])
    }

    /// Makes guest memory of regions with these sizes, one behind the other.
    pub(crate) fn cut(sizes: &[usize]) -> Self {
        let mut at = 0;
        let mut regions = Vec::new();
        for size in sizes {
            let (guest, user) = (GuestAddr::new(GUEST + at), UserAddr::new(USER + at));
            regions.push(Region::new(guest, *size as u64, user).unwrap());
            at += *size as u64;
        }
        Self {
            table: MemTable::new(regions),
            hint: Hint::default(),
            bytes: vec![0; at as usize],
            denied: u64::MAX,
            reads: Vec::new(),
            broken: false,
        }
    }
}

impl GuestMem for Ram {
    fn translate(
        &mut self,
        addr: GuestAddr,
        len: u32,
        _access: Access,
        sink: &mut impl SegSink,
    ) -> Result<u32, Error> {
        if addr.get() >= self.denied {
            return Err(Error::Perm { addr });
        }
        self.table.translate(addr, len, &mut self.hint, sink)
    }

    fn read(&mut self, addr: UserAddr, dst: &mut [u8]) -> Result<(), Fault> {
        if self.broken {
            return Err(Fault);
        }
        self.reads.push(dst.len());
        let at = (addr.get() - USER) as usize;
        dst.copy_from_slice(&self.bytes[at..at + dst.len()]);
        Ok(())
    }
}

/// A list of segments.
pub(crate) struct Segs {
    pub(crate) list: Vec<(u64, usize)>,
    /// How many segments fit.
    pub(crate) max: usize,
}

impl Segs {
    pub(crate) fn new() -> Self {
        Self {
            list: Vec::new(),
            max: usize::MAX,
        }
    }
}

impl SegSink for Segs {
    fn push(&mut self, addr: UserAddr, len: usize) -> Result<(), Error> {
        if self.list.len() == self.max {
            return Err(Error::Segments);
        }
        self.list.push((addr.get(), len));
        Ok(())
    }
}

/// Returns a descriptor as it lies in memory.
pub(crate) fn desc_bytes(endian: Endian, addr: u64, len: u32, flags: u16, next: u16) -> [u8; 16] {
    let (addr, len) = (V64::new(addr, endian), V32::new(len, endian));
    Desc::new(addr, len, V16::new(flags, endian), V16::new(next, endian)).to_bytes()
}

fn get16(bytes: &[u8], off: usize) -> V16 {
    V16::from_ne_bytes([bytes[off], bytes[off + 1]])
}

fn set16(bytes: &mut [u8], off: usize, val: V16) {
    bytes[off..off + 2].copy_from_slice(&val.to_ne_bytes());
}
