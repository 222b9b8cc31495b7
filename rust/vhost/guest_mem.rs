// SPDX-License-Identifier: GPL-2.0

//! Where the ring logic and the kernel's user memory meet.

use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::barrier::{
        smp_mb,
        Full,
        Read,
        Write, //
    }, //
};
use kext::{
    iov::IoVecs,
    user, //
};
use vring::{
    Access,
    Fault,
    GuestAddr,
    Hint,
    Part,
    Region,
    RingMem,
    SegSink,
    UserAddr,
    V16, //
};

/// The guest's memory, as `VHOST_SET_MEM_TABLE` gave it.
pub(crate) type MemTable = vring::MemTable<KVVec<Region>>;

/// The most pieces of memory that one chain may have.
///
/// C twin: `UIO_MAXIOV`.
pub(crate) const MAX_SEGS: usize = 1024;

/// Where the three parts of a ring are, in the owner's address space.
///
/// Nothing is known of the addresses: each access checks its own.
#[derive(Clone, Copy, Default)]
pub(crate) struct RingAddr {
    pub(crate) desc: usize,
    pub(crate) avail: usize,
    pub(crate) used: usize,
}

impl RingAddr {
    /// Tells whether `VHOST_SET_VRING_ADDR` has not been called.
    pub(crate) fn is_unset(&self) -> bool {
        self.desc == 0 && self.avail == 0 && self.used == 0
    }

    /// Tells whether all parts of a ring of `num` entries lie where user space may have memory.
    ///
    /// C twin: `vq_access_ok()`.
    pub(crate) fn access_ok(&self, num: u16, event_idx: bool) -> bool {
        user::access_ok(self.desc, vring::layout::desc_size(num))
            && user::access_ok(self.avail, vring::layout::avail_size(num, event_idx))
            && user::access_ok(self.used, vring::layout::used_size(num, event_idx))
    }

    #[inline]
    fn part(&self, part: Part) -> usize {
        match part {
            Part::Desc => self.desc,
            Part::Avail => self.avail,
            Part::Used => self.used,
        }
    }
}

impl RingMem for RingAddr {
    #[inline]
    fn load16(&self, part: Part, off: usize) -> Result<V16, Fault> {
        let val = user::load16(self.part(part).wrapping_add(off)).map_err(|_| Fault)?;
        Ok(V16::from_raw(val))
    }

    #[inline]
    fn store16(&self, off: usize, val: V16) -> Result<(), Fault> {
        user::store16(self.used.wrapping_add(off), val.raw()).map_err(|_| Fault)
    }

    #[inline]
    fn read(&self, part: Part, off: usize, dst: &mut [u8]) -> Result<(), Fault> {
        user::read(self.part(part).wrapping_add(off), dst).map_err(|_| Fault)
    }

    #[inline]
    fn write_used(&self, off: usize, src: &[u8]) -> Result<(), Fault> {
        user::write(self.used.wrapping_add(off), src).map_err(|_| Fault)
    }

    #[inline]
    fn rmb(&self) {
        smp_mb(Read);
    }

    #[inline]
    fn wmb(&self) {
        smp_mb(Write);
    }

    #[inline]
    fn mb(&self) {
        smp_mb(Full);
    }
}

/// What the ring logic may do with the guest's memory.
pub(crate) struct GuestMem<'a> {
    pub(crate) table: &'a MemTable,
    pub(crate) hint: &'a mut Hint,
}

impl vring::GuestMem for GuestMem<'_> {
    #[inline]
    fn translate(
        &mut self,
        addr: GuestAddr,
        len: u32,
        _access: Access,
        sink: &mut impl SegSink,
    ) -> Result<u32, vring::Error> {
        self.table.translate(addr, len, self.hint, sink)
    }

    #[inline]
    fn read(&mut self, addr: UserAddr, dst: &mut [u8]) -> Result<(), Fault> {
        user::read(to_usize(addr).ok_or(Fault)?, dst).map_err(|_| Fault)
    }
}

/// Collects the translated pieces of chains.
pub(crate) struct Segs<'a>(pub(crate) &'a mut IoVecs);

impl SegSink for Segs<'_> {
    #[inline]
    fn push(&mut self, addr: UserAddr, len: usize) -> Result<(), vring::Error> {
        let base = to_usize(addr).ok_or(vring::Error::Segments)?;
        self.0.push(base, len).map_err(|_| vring::Error::Segments)
    }
}

/// Returns an address as the kernel has it, `None` where that is too narrow for it.
#[inline]
fn to_usize(addr: UserAddr) -> Option<usize> {
    usize::try_from(addr.get()).ok()
}
