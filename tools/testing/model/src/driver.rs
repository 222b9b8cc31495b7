// SPDX-License-Identifier: GPL-2.0

//! A virtio driver for one split ring.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ram::Ram;
use crate::ring::Place;

/// Descriptor flag: the chain goes on at `next`.
pub const NEXT: u16 = 1;
/// Descriptor flag: the device writes.
pub const WRITE: u16 = 2;
/// Descriptor flag: the buffer is a table of descriptors.
pub const INDIRECT: u16 = 4;

/// A buffer that the driver offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buf {
    /// Guest address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// The device writes it.
    pub write: bool,
}

/// What a driver and its device agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Ring size, a power of two.
    pub num: u16,
    /// Fields are big-endian.
    pub big: bool,
    /// VIRTIO_F_EVENT_IDX was negotiated.
    pub event_idx: bool,
    /// First avail index, so that wraps come early.
    pub avail_base: u16,
    /// First used index.
    pub used_base: u16,
    /// Where the ring is.
    pub place: Place,
    /// Where the indirect tables are: one of [`TABLE`] bytes for each head.
    pub tables: u64,
    /// Distance of one free descriptor to the next, odd. A chain of a fresh ring with 1 is a run of
    /// neighbours, which the device may fetch at once.
    pub stride: u16,
}

/// Bytes set aside for one indirect table: 32 descriptors.
pub const TABLE: u64 = 512;

/// The driver's side of the ring.
pub struct Driver {
    /// What was agreed.
    pub config: Config,
    ram: Rc<Ram>,
    free: Vec<u16>,
    chains: BTreeMap<u16, Vec<u16>>,
    avail_idx: u16,
    published: u16,
    kicked: u16,
    used_idx: u16,
}

impl Driver {
    /// A driver with an empty ring in zeroed memory.
    pub fn new(ram: Rc<Ram>, config: Config) -> Self {
        let (num, stride) = (u32::from(config.num), u32::from(config.stride));
        let free = (0..num)
            .map(|i| ((i * stride + stride / 2) % num) as u16)
            .collect();
        let driver = Self {
            config,
            ram,
            free,
            chains: BTreeMap::new(),
            avail_idx: config.avail_base,
            published: config.avail_base,
            kicked: config.avail_base,
            used_idx: config.used_base,
        };
        driver.put16(config.place.avail + 2, config.avail_base);
        driver.put16(config.place.used + 2, config.used_base);
        driver
    }

    fn order<const N: usize>(&self, mut little: [u8; N]) -> [u8; N] {
        if self.config.big {
            little.reverse();
        }
        little
    }

    fn put16(&self, addr: u64, val: u16) {
        self.ram.poke(addr, &self.order(val.to_le_bytes()));
    }

    fn get16(&self, addr: u64) -> u16 {
        let mut raw = [0; 2];
        self.ram.peek(addr, &mut raw);
        u16::from_le_bytes(self.order(raw))
    }

    fn get32(&self, addr: u64) -> u32 {
        let mut raw = [0; 4];
        self.ram.peek(addr, &mut raw);
        u32::from_le_bytes(self.order(raw))
    }

    /// Writes one descriptor at a guest address.
    pub fn put_desc(&self, at: u64, addr: u64, len: u32, flags: u16, next: u16) {
        self.ram.poke(at, &self.order(addr.to_le_bytes()));
        self.ram.poke(at + 8, &self.order(len.to_le_bytes()));
        self.put16(at + 12, flags);
        self.put16(at + 14, next);
    }

    /// How many descriptors are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Guest address of a descriptor in the ring's own table.
    pub fn desc_at(&self, i: u16) -> u64 {
        self.config.place.desc + 16 * u64::from(i)
    }

    /// Guest address of a head's indirect table.
    pub fn table_at(&self, head: u16) -> u64 {
        self.config.tables + TABLE * u64::from(head)
    }

    /// Lays out a chain: `direct` buffers in the ring, the others in an indirect table behind
    /// them. Returns its head, or `None` without free descriptors. Not visible to the device yet.
    pub fn offer(&mut self, bufs: &[Buf], direct: usize) -> Option<u16> {
        let direct = direct.min(bufs.len());
        let (own, inner) = bufs.split_at(direct);
        let need = own.len() + usize::from(!inner.is_empty());
        if need == 0 || need > self.free.len() || inner.len() > (TABLE / 16) as usize {
            return None;
        }
        let ids: Vec<u16> = self.free.drain(..need).collect();
        for (i, buf) in own.iter().enumerate() {
            let next = ids.get(i + 1).copied();
            self.put_desc(
                self.desc_at(ids[i]),
                buf.addr,
                buf.len,
                flags(buf, next),
                tail(next),
            );
        }
        let head = ids[0];
        if !inner.is_empty() {
            self.put_table(ids[need - 1], head, inner);
        }
        self.chains.insert(head, ids);
        self.put_head(head);
        Some(head)
    }

    fn put_table(&self, id: u16, head: u16, inner: &[Buf]) {
        let table = self.table_at(head);
        self.put_desc(
            self.desc_at(id),
            table,
            16 * inner.len() as u32,
            INDIRECT,
            0,
        );
        for (i, buf) in inner.iter().enumerate() {
            let next = (i + 1 < inner.len()).then_some(i as u16 + 1);
            let at = table + 16 * i as u64;
            self.put_desc(at, buf.addr, buf.len, flags(buf, next), tail(next));
        }
    }

    /// Puts a head, good or bad, into the avail ring.
    pub fn put_head(&mut self, head: u16) {
        let slot = u64::from(self.avail_idx % self.config.num);
        self.put16(self.config.place.avail + 4 + 2 * slot, head);
        self.avail_idx = self.avail_idx.wrapping_add(1);
    }

    /// Makes all chains laid out so far visible to the device.
    pub fn publish(&mut self) {
        self.published = self.avail_idx;
        self.put16(self.config.place.avail + 2, self.avail_idx);
    }

    /// Whether a kick is due for what was published since the last call.
    pub fn should_kick(&mut self) -> bool {
        let (old, new) = (self.kicked, self.published);
        self.kicked = new;
        if old == new {
            return false;
        }
        let used = self.config.place.used;
        if self.config.event_idx {
            let event = self.get16(used + 4 + 8 * u64::from(self.config.num));
            return crosses(old, new, event);
        }
        self.get16(used) & 1 == 0
    }

    /// Takes the next used entry as `(id, written length)`.
    ///
    /// # Panics
    ///
    /// If the device returns a head that it does not hold.
    pub fn take_used(&mut self) -> Option<(u32, u32)> {
        let place = self.config.place;
        if self.get16(place.used + 2) == self.used_idx {
            return None;
        }
        let slot = u64::from(self.used_idx % self.config.num);
        let at = place.used + 4 + 8 * slot;
        let (id, len) = (self.get32(at), self.get32(at + 4));
        let ids = u16::try_from(id)
            .ok()
            .and_then(|head| self.chains.remove(&head));
        self.free
            .extend(ids.unwrap_or_else(|| panic!("used entry {id} is not in flight")));
        self.used_idx = self.used_idx.wrapping_add(1);
        Some((id, len))
    }

    /// The next used index that the driver will look at.
    pub fn used_idx(&self) -> u16 {
        self.used_idx
    }

    /// The used index as the device wrote it.
    pub fn device_used_idx(&self) -> u16 {
        self.get16(self.config.place.used + 2)
    }

    /// The flags that the device wrote.
    pub fn device_flags(&self) -> u16 {
        self.get16(self.config.place.used)
    }

    /// Flag mode: asks for interrupts, or for none.
    pub fn set_no_interrupt(&self, off: bool) {
        self.put16(self.config.place.avail, u16::from(off));
    }

    /// Event mode: asks for an interrupt once the entry of this index is used.
    pub fn set_used_event(&self, idx: u16) {
        let at = self.config.place.avail + 4 + 2 * u64::from(self.config.num);
        self.put16(at, idx);
    }
}

fn flags(buf: &Buf, next: Option<u16>) -> u16 {
    let write = if buf.write { WRITE } else { 0 };
    let next = if next.is_some() { NEXT } else { 0 };
    write | next
}

/// An index that nobody may follow, where the chain ends.
fn tail(next: Option<u16>) -> u16 {
    next.unwrap_or(0xffff)
}

/// Whether moving an index from `old` to `new` steps over `event`.
///
/// This counts instead of comparing differences, as `vring_need_event()` would.
pub fn crosses(old: u16, new: u16, event: u16) -> bool {
    let mut at = old;
    while at != new {
        if at == event {
            return true;
        }
        at = at.wrapping_add(1);
    }
    false
}
