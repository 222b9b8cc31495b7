// SPDX-License-Identifier: GPL-2.0

//! Guest memory: areas of guest addresses, each somewhere else in the owner's address space.

use std::cell::RefCell;

/// One run of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First guest address.
    pub start: u64,
    /// Last guest address, so that an area may end at `u64::MAX`.
    pub last: u64,
    /// User address of the first byte.
    pub user: u64,
    /// The device may read it.
    pub readable: bool,
    /// The device may write it.
    pub writable: bool,
}

impl Area {
    /// Whether the area has a byte in `first..=last`.
    pub fn overlaps(&self, first: u64, last: u64) -> bool {
        self.start <= last && first <= self.last
    }

    fn len(&self) -> usize {
        (self.last - self.start + 1) as usize
    }
}

/// Guest memory. The driver uses guest addresses, the device user addresses.
#[derive(Debug)]
pub struct Ram {
    areas: Vec<Area>,
    bytes: RefCell<Vec<Vec<u8>>>,
}

impl Ram {
    /// Makes zeroed memory of `(first guest address, length)` pairs.
    ///
    /// Neighbours in the guest are never neighbours in the owner's address space, so a device
    /// that forgets to split a range at the end of an area reads foreign bytes.
    pub fn new(layout: &[(u64, u64)]) -> Self {
        let mut user = 0x7fff_0000_0000u64;
        let mut areas = Vec::new();
        for &(start, len) in layout {
            assert!(len > 0, "an area needs at least one byte");
            user -= len + 0x1_0000;
            areas.push(Area {
                start,
                last: start + (len - 1),
                user: user & !0xfff,
                readable: true,
                writable: true,
            });
        }
        let bytes = areas.iter().map(|a| vec![0; a.len()]).collect();
        Self {
            areas,
            bytes: RefCell::new(bytes),
        }
    }

    /// Changes what the device may do with the area that holds `addr`.
    pub fn protect(&mut self, addr: u64, readable: bool, writable: bool) {
        for area in self.areas.iter_mut().filter(|a| a.overlaps(addr, addr)) {
            area.readable = readable;
            area.writable = writable;
        }
    }

    /// The areas, in the order in which they were given.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Returns the user address of a guest address.
    pub fn user(&self, addr: u64) -> Option<u64> {
        let area = self.areas.iter().find(|a| a.overlaps(addr, addr))?;
        Some(area.user + (addr - area.start))
    }

    fn guest_slot(&self, addr: u64) -> Option<(usize, usize)> {
        let i = self.areas.iter().position(|a| a.overlaps(addr, addr))?;
        Some((i, (addr - self.areas[i].start) as usize))
    }

    fn user_slot(&self, user: u64, len: usize) -> Option<(usize, usize)> {
        let i = self
            .areas
            .iter()
            .position(|a| a.user <= user && user - a.user < a.len() as u64)?;
        let at = (user - self.areas[i].user) as usize;
        (len <= self.areas[i].len() - at).then_some((i, at))
    }

    /// Driver: writes bytes at a guest address, across areas. Bytes outside are dropped.
    pub fn poke(&self, addr: u64, src: &[u8]) {
        let mut bytes = self.bytes.borrow_mut();
        for (i, byte) in src.iter().enumerate() {
            if let Some((area, at)) = self.guest_slot(addr.wrapping_add(i as u64)) {
                bytes[area][at] = *byte;
            }
        }
    }

    /// Driver: reads bytes at a guest address, across areas.
    ///
    /// # Panics
    ///
    /// If there is no memory at one of them: the driver is ours and knows its memory.
    pub fn peek(&self, addr: u64, dst: &mut [u8]) {
        let bytes = self.bytes.borrow();
        for (i, byte) in dst.iter_mut().enumerate() {
            let slot = self.guest_slot(addr + i as u64);
            let (area, at) = slot.expect("the driver reads memory that it does not have");
            *byte = bytes[area][at];
        }
    }

    /// Device: reads bytes at a user address; `None` if not all of them are in one area.
    pub fn user_read(&self, user: u64, dst: &mut [u8]) -> Option<()> {
        let (area, at) = self.user_slot(user, dst.len())?;
        dst.copy_from_slice(&self.bytes.borrow()[area][at..at + dst.len()]);
        Some(())
    }

    /// Device: writes bytes at a user address; `None` if not all of them are in one area.
    pub fn user_write(&self, user: u64, src: &[u8]) -> Option<()> {
        let (area, at) = self.user_slot(user, src.len())?;
        self.bytes.borrow_mut()[area][at..at + src.len()].copy_from_slice(src);
        Some(())
    }
}
