// SPDX-License-Identifier: GPL-2.0

//! `vring`'s traits over [`Ram`], watched by a [`Probe`].

use std::rc::Rc;

use vring::{
    Access, Error, Fault, GuestAddr, GuestMem, Hint, MemTable, Part, Region, RingMem, SegSink,
    UserAddr, V16,
};

use crate::oracle;
use crate::probe::{Event, Probe, Where};
use crate::ram::Ram;

/// Where the three parts of a ring are, in guest addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Descriptor table.
    pub desc: u64,
    /// Driver area.
    pub avail: u64,
    /// Device area.
    pub used: u64,
}

/// The ring as the device reaches it.
pub struct Ring {
    /// The memory it lies in.
    pub ram: Rc<Ram>,
    /// Watches each access.
    pub probe: Rc<Probe>,
    user: [u64; 3],
    size: [usize; 3],
}

impl Ring {
    /// A ring of `num` entries, each part inside one area.
    pub fn new(ram: Rc<Ram>, probe: Rc<Probe>, place: Place, num: u16, event_idx: bool) -> Self {
        let n = usize::from(num);
        let event = if event_idx { 2 } else { 0 };
        let size = [16 * n, 4 + 2 * n + event, 4 + 8 * n + event];
        let user = [place.desc, place.avail, place.used]
            .map(|addr| ram.user(addr).expect("a ring part outside of guest memory"));
        Self {
            ram,
            probe,
            user,
            size,
        }
    }

    /// Checks what the device may never get wrong, whatever the guest does.
    fn at(&self, part: Where, off: usize, len: usize) -> u64 {
        let i = part as usize;
        assert!(
            off.checked_add(len).is_some_and(|end| end <= self.size[i]),
            "device leaves the {part:?} part: offset {off}, length {len}, size {}",
            self.size[i]
        );
        self.user[i] + off as u64
    }

    fn at16(&self, part: Where, off: usize) -> u64 {
        assert!(off % 2 == 0, "torn 16-bit access at offset {off}");
        self.at(part, off, 2)
    }
}

impl RingMem for Ring {
    fn load16(&self, part: Part, off: usize) -> Result<V16, Fault> {
        let part = Where::from(part);
        let user = self.at16(part, off);
        let mut raw = [0; 2];
        self.probe.touch(Event::Load(part, off)).ok_or(Fault)?;
        self.ram.user_read(user, &mut raw).ok_or(Fault)?;
        Ok(V16::from_ne_bytes(raw))
    }

    fn store16(&self, off: usize, val: V16) -> Result<(), Fault> {
        let user = self.at16(Where::Used, off);
        self.probe.touch(Event::Store(off)).ok_or(Fault)?;
        self.ram.user_write(user, &val.to_ne_bytes()).ok_or(Fault)
    }

    fn read(&self, part: Part, off: usize, dst: &mut [u8]) -> Result<(), Fault> {
        let part = Where::from(part);
        let user = self.at(part, off, dst.len());
        self.probe
            .touch(Event::Read(part, off, dst.len()))
            .ok_or(Fault)?;
        self.ram.user_read(user, dst).ok_or(Fault)
    }

    fn write_used(&self, off: usize, src: &[u8]) -> Result<(), Fault> {
        let user = self.at(Where::Used, off, src.len());
        self.probe
            .touch(Event::Write(off, src.len()))
            .ok_or(Fault)?;
        self.ram.user_write(user, src).ok_or(Fault)
    }

    fn rmb(&self) {
        self.probe.touch(Event::Rmb);
    }

    fn wmb(&self) {
        self.probe.touch(Event::Wmb);
    }

    fn mb(&self) {
        self.probe.touch(Event::Mb);
    }
}

/// The segments of one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segs {
    /// `(user address, length)`, in order.
    pub list: Vec<(u64, u64)>,
    /// How many fit.
    pub cap: usize,
}

impl Segs {
    /// An empty list for at most `cap` segments.
    pub fn new(cap: usize) -> Self {
        Self {
            list: Vec::new(),
            cap,
        }
    }
}

impl SegSink for Segs {
    fn push(&mut self, addr: UserAddr, len: usize) -> Result<(), Error> {
        if self.list.len() >= self.cap {
            return Err(Error::Segments);
        }
        self.list.push((addr.get(), len as u64));
        Ok(())
    }
}

/// How guest addresses are translated.
pub enum Table {
    /// By the table under test.
    Fast(MemTable<Vec<Region>>, Hint),
    /// By the oracle, which knows permissions.
    Plain,
}

/// Guest memory as the device reaches it.
pub struct Guest {
    ram: Rc<Ram>,
    probe: Rc<Probe>,
    table: Table,
}

impl Guest {
    /// Translates by `vring::MemTable`.
    pub fn fast(ram: Rc<Ram>, probe: Rc<Probe>) -> Self {
        let regions = ram.areas().iter().map(|a| {
            let size = (a.last - a.start).wrapping_add(1);
            Region::new(GuestAddr::new(a.start), size, UserAddr::new(a.user))
                .expect("an area that MemTable refuses")
        });
        let table = Table::Fast(MemTable::new(regions.collect()), Hint::default());
        Self { ram, probe, table }
    }

    /// Translates by [`oracle::pieces`].
    pub fn plain(ram: Rc<Ram>, probe: Rc<Probe>) -> Self {
        Self {
            ram,
            probe,
            table: Table::Plain,
        }
    }
}

impl GuestMem for Guest {
    fn translate(
        &mut self,
        addr: GuestAddr,
        len: u32,
        access: Access,
        sink: &mut impl SegSink,
    ) -> Result<u32, Error> {
        self.probe.touch(Event::Translate(addr.get(), len));
        if let Table::Fast(table, hint) = &mut self.table {
            return table.translate(addr, len, hint, sink);
        }
        let write = matches!(access, Access::Write);
        let mut pushed = 0;
        for piece in oracle::pieces(self.ram.areas(), addr.get(), len, write) {
            let (user, len) = piece.map_err(|miss| match miss {
                oracle::Miss::Hole(at) => Error::Unmapped {
                    addr: GuestAddr::new(at),
                },
                oracle::Miss::Perm(at) => Error::Perm {
                    addr: GuestAddr::new(at),
                },
            })?;
            sink.push(UserAddr::new(user), len as usize)?;
            pushed += 1;
        }
        Ok(pushed)
    }

    fn read(&mut self, addr: UserAddr, dst: &mut [u8]) -> Result<(), Fault> {
        self.probe
            .touch(Event::GuestRead(addr.get(), dst.len()))
            .ok_or(Fault)?;
        self.ram.user_read(addr.get(), dst).ok_or(Fault)
    }
}
