// SPDX-License-Identifier: GPL-2.0

//! The device side of a split ring.
//!
//! VIRTIO 1.3, 2.7.

use crate::ahead::Ahead;
use crate::chain::{
    Chain,
    Walk, //
};
use crate::endian::{
    Endian,
    V16, //
};
use crate::error::Error;
use crate::layout::{
    self,
    UsedElem,
    NO_INTERRUPT,
    NO_NOTIFY,
    USED_ELEM_SIZE, //
};
use crate::mem::{
    GuestMem,
    Part,
    RingMem,
    SegSink, //
};

/// Most used entries that are written with one copy.
const USED_RUN: usize = 64;

/// The negotiated features that change how a ring works.
///
/// Indirect tables are taken whether or not they were negotiated, as by the C twin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `VIRTIO_RING_F_EVENT_IDX`: either side says at which index it wants to be notified.
    pub event_idx: bool,
    /// `VIRTIO_F_NOTIFY_ON_EMPTY`: the driver wants to know when the avail ring runs empty.
    pub notify_on_empty: bool,
}

/// The device side of a split ring: cursors and configuration.
///
/// It holds no memory; each operation is handed the [`RingMem`] of this ring. The
/// [crate documentation](crate) shows a round trip.
///
/// # Examples
///
/// ```
/// use vring::{Error, Features, Split};
///
/// let mut ring = Split::new();
/// ring.set_num(256)?;
/// ring.set_base(0)?;
/// ring.set_features(Features { event_idx: true, ..Features::default() });
///
/// assert_eq!(ring.set_num(257), Err(Error::Num { num: 257 }));
/// assert_eq!(ring.num(), 256);
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// `num` is a power of two.
#[derive(Clone, Debug)]
pub struct Split {
    num: u16,
    endian: Endian,
    features: Features,
    /// The avail entry to take next, free-running.
    last_avail_idx: u16,
    /// `avail.idx` as it was read last; entries before it are published.
    avail_idx: u16,
    /// `used.idx` as it was stored last.
    last_used_idx: u16,
    /// The `used.flags` that the device wants; with event index they are not stored.
    used_flags: u16,
    /// `last_used_idx` when the driver was last asked for its wish, unless that was so long ago
    /// that the index has gone round.
    signalled_used: Option<u16>,
    ahead: Ahead,
}

impl Default for Split {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl Split {
    /// Makes a ring of size 1 at position 0, in the byte order of this machine.
    ///
    /// C twin: `vhost_vq_reset()`.
    #[inline]
    pub const fn new() -> Self {
        Self {
            num: 1,
            endian: Endian::NATIVE,
            features: Features {
                event_idx: false,
                notify_on_empty: false,
            },
            last_avail_idx: 0,
            avail_idx: 0,
            last_used_idx: 0,
            used_flags: 0,
            signalled_used: None,
            ahead: Ahead::new(),
        }
    }

    /// Sets the ring size.
    ///
    /// Only for a ring that is not running.
    ///
    /// VIRTIO 1.3, 2.7. C twin: `vhost_vring_set_num()`.
    ///
    /// # Errors
    ///
    /// [`Error::Num`] unless it is a power of two that is no larger than
    /// [`MAX_NUM`](layout::MAX_NUM).
    #[inline]
    pub fn set_num(&mut self, num: u32) -> Result<(), Error> {
        let size = u16::try_from(num).map_err(|_| Error::Num { num })?;
        if !size.is_power_of_two() {
            return Err(Error::Num { num });
        }
        // INVARIANT: It was just checked.
        self.num = size;
        self.ahead.forget();
        Ok(())
    }

    /// Returns the ring size.
    #[inline]
    pub const fn num(&self) -> u16 {
        self.num
    }

    /// Sets the position: the avail entry to take next.
    ///
    /// Only for a ring that is not running.
    ///
    /// C twin: `vhost_vring_ioctl()`, `VHOST_SET_VRING_BASE`.
    ///
    /// # Errors
    ///
    /// [`Error::Base`] if it does not fit in 16 bits.
    #[inline]
    pub fn set_base(&mut self, base: u32) -> Result<(), Error> {
        let index = u16::try_from(base).map_err(|_| Error::Base { base })?;
        self.last_avail_idx = index;
        self.avail_idx = index;
        self.ahead.forget();
        Ok(())
    }

    /// Returns the position: the avail entry to take next.
    #[inline]
    pub const fn base(&self) -> u16 {
        self.last_avail_idx
    }

    /// Sets the features.
    #[inline]
    pub fn set_features(&mut self, features: Features) {
        self.features = features;
    }

    /// Returns the features.
    #[inline]
    pub const fn features(&self) -> Features {
        self.features
    }

    /// Returns the byte order of the ring.
    #[inline]
    pub const fn endian(&self) -> Endian {
        self.endian
    }

    /// Forgets what was fetched ahead, because the ring now lies elsewhere.
    ///
    /// To be called whenever the address of a part changes while the ring runs.
    #[inline]
    pub fn moved(&mut self) {
        self.ahead.forget();
    }

    /// Starts the ring: shows the driver the flags, and goes on where `used.idx` stands.
    ///
    /// C twin: `vhost_vq_init_access()`.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] if the used ring cannot be accessed; the byte order is then as before.
    #[inline]
    pub fn start(&mut self, mem: &impl RingMem, endian: Endian) -> Result<(), Error> {
        self.ahead.forget();
        mem.store16(layout::USED_FLAGS, V16::new(self.used_flags, endian))?;
        self.signalled_used = None;
        let used_idx = mem.load16(Part::Used, layout::USED_IDX)?;
        self.last_used_idx = used_idx.get(endian);
        self.endian = endian;
        Ok(())
    }

    /// Returns whether there is surely no chain to take.
    ///
    /// An error counts as not empty, so that the next [`pop()`](Self::pop) reports it.
    ///
    /// C twin: `vhost_vq_avail_empty()`.
    #[inline]
    pub fn avail_empty(&mut self, mem: &impl RingMem) -> bool {
        self.avail_idx == self.last_avail_idx && self.fetch_avail_idx(mem) == Ok(false)
    }

    /// Takes the next chain off the avail ring, or `None` if there is none.
    ///
    /// The segments go into `sink`: those that the device reads, then those that it writes.
    ///
    /// Entries and descriptors of chains that were published together may be fetched together. So
    /// what the driver changes in a published chain, which it must not, may be seen or not.
    ///
    /// VIRTIO 1.3, 2.7.5 and 2.7.6. C twin: `vhost_get_vq_desc_n()`.
    ///
    /// # Errors
    ///
    /// - [`Error::Fault`]: the ring cannot be read.
    /// - [`Error::AvailJump`], [`Error::Head`], [`Error::Next`], [`Error::Loop`],
    ///   [`Error::OutAfterIn`]: the driver broke the rules of the ring.
    /// - [`Error::IndirectLen`], [`Error::IndirectTooBig`], [`Error::IndirectLoop`],
    ///   [`Error::IndirectNext`], [`Error::IndirectNested`], [`Error::IndirectFault`]: it broke
    ///   those of an indirect table.
    /// - [`Error::Unmapped`], [`Error::Perm`], [`Error::Segments`], or whatever else `gm` and
    ///   `sink` return.
    ///
    /// The position then does not move, so that the chain may be tried again. The sink may hold
    /// some of its segments.
    ///
    /// # Examples
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testing.rs"));
    /// # fn main() -> Result<(), Error> {
    /// # let (mem, mut ram, mut segs) = (Mem::new(4, Endian::NATIVE), Ram::new(), Segs::new());
    /// # let mut ring = Split::new();
    /// # ring.set_num(4)?;
    /// # ring.start(&mem, Endian::NATIVE)?;
    /// // The driver publishes a chain whose head is not a descriptor of a ring of 4.
    /// mem.publish(&[7]);
    /// let got = ring.pop(&mem, &mut ram, &mut segs);
    /// assert_eq!(got, Err(Error::Head { head: 7, num: 4 }));
    /// assert_eq!(ring.base(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn pop(
        &mut self,
        mem: &impl RingMem,
        gm: &mut impl GuestMem,
        sink: &mut impl SegSink,
    ) -> Result<Option<Chain>, Error> {
        let taken = self.take(mem, gm, sink);
        if taken.is_err() {
            // The driver may mend in place what is wrong with the chain.
            self.ahead.forget();
        }
        taken
    }

    /// Puts the last `chains` chains back, to be taken again.
    ///
    /// They must have been taken by [`pop()`](Self::pop) and not been used.
    ///
    /// C twin: `vhost_discard_vq_desc()`.
    ///
    /// # Examples
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testing.rs"));
    /// # fn main() -> Result<(), Error> {
    /// # let (mem, mut ram, mut segs) = (Mem::new(4, Endian::NATIVE), Ram::new(), Segs::new());
    /// # let mut ring = Split::new();
    /// # ring.set_num(4)?;
    /// # ring.start(&mem, Endian::NATIVE)?;
    /// mem.set_desc(3, GUEST, 60, 0, 0);
    /// mem.publish(&[3]);
    ///
    /// let first = ring.pop(&mem, &mut ram, &mut segs)?;
    /// ring.undo(1);
    /// assert_eq!(ring.pop(&mem, &mut ram, &mut segs)?, first);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn undo(&mut self, chains: u16) {
        self.last_avail_idx = self.last_avail_idx.wrapping_sub(chains);
    }

    /// Puts entries into the used ring and shows them to the driver.
    ///
    /// More entries than the ring has go round, but never out of it.
    ///
    /// VIRTIO 1.3, 2.7.8. C twin: `vhost_add_used_n()`, out of order.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] if the used ring cannot be written. The driver then sees none of the
    /// entries (of the last ring full of them, if they go round), and the call may be repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testing.rs"));
    /// # fn main() -> Result<(), Error> {
    /// # let (mem, mut ram, mut segs) = (Mem::new(4, Endian::NATIVE), Ram::new(), Segs::new());
    /// # let mut ring = Split::new();
    /// # ring.set_num(4)?;
    /// # ring.start(&mem, Endian::NATIVE)?;
    /// let elems = [(2, 60), (0, 1514)].map(|(id, len)| UsedElem::new(id, len, ring.endian()));
    /// ring.add_used(&mem, &elems)?;
    /// assert_eq!(mem.used(), [(2, 60), (0, 1514)]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn add_used(&mut self, mem: &impl RingMem, elems: &[UsedElem]) -> Result<(), Error> {
        // `num` is never 0; the maximum is for the compiler.
        for batch in elems.chunks(usize::from(self.num.max(1))) {
            self.add_batch(mem, batch)?;
        }
        Ok(())
    }

    /// Returns whether the driver wants to be notified of the entries used since the last call.
    ///
    /// VIRTIO 1.3, 2.7.7.2. C twin: `vhost_notify()`.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] if its wish cannot be read. The caller then notifies it: one call too many
    /// is harmless, one too few may hang it.
    ///
    /// # Examples
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testing.rs"));
    /// # fn main() -> Result<(), Error> {
    /// # let (mem, mut ram, mut segs) = (Mem::new(4, Endian::NATIVE), Ram::new(), Segs::new());
    /// # let mut ring = Split::new();
    /// # ring.set_num(4)?;
    /// # ring.start(&mem, Endian::NATIVE)?;
    /// mem.set_avail16(layout::AVAIL_FLAGS, layout::NO_INTERRUPT);
    /// assert!(!ring.needs_signal(&mem)?);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn needs_signal(&mut self, mem: &impl RingMem) -> Result<bool, Error> {
        // ORDERING: `used.idx` is visible before the wish is read; pairs with the driver's full
        // barrier between storing its wish and looking at `used.idx` again.
        mem.mb();
        if self.features.notify_on_empty && self.avail_idx == self.last_avail_idx {
            return Ok(true);
        }
        if !self.features.event_idx {
            let flags = mem.load16(Part::Avail, layout::AVAIL_FLAGS)?;
            return Ok(flags.get(self.endian) & NO_INTERRUPT == 0);
        }
        let new = self.last_used_idx;
        let Some(old) = self.signalled_used.replace(new) else {
            return Ok(true);
        };
        let event = mem.load16(Part::Avail, layout::used_event(self.num))?;
        Ok(crossed(event.get(self.endian), old, new))
    }

    /// Asks the driver for kicks; returns whether chains have appeared in the meantime.
    ///
    /// On `true` no kick may come for them: the caller disables kicks again and goes on. Does
    /// nothing if kicks are enabled already.
    ///
    /// VIRTIO 1.3, 2.7.10. C twin: `vhost_enable_notify()`.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] if the wish cannot be stored, and [`Error::Fault`] or
    /// [`Error::AvailJump`] from the second look. The C twin takes all of them for `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testing.rs"));
    /// # fn main() -> Result<(), Error> {
    /// # let (mem, mut ram, mut segs) = (Mem::new(4, Endian::NATIVE), Ram::new(), Segs::new());
    /// # let mut ring = Split::new();
    /// # ring.set_num(4)?;
    /// # ring.start(&mem, Endian::NATIVE)?;
    /// ring.disable_notify(&mem)?;
    /// mem.publish(&[0]); // The driver gives no kick for it.
    ///
    /// if ring.enable_notify(&mem)? {
    ///     ring.disable_notify(&mem)?;
    /// }
    /// assert_eq!(mem.used16(layout::USED_FLAGS), layout::NO_NOTIFY);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn enable_notify(&mut self, mem: &impl RingMem) -> Result<bool, Error> {
        if self.used_flags & NO_NOTIFY == 0 {
            return Ok(false);
        }
        self.used_flags &= !NO_NOTIFY;
        if self.features.event_idx {
            // Not `last_avail_idx`: a chain that was put back is no reason for a kick.
            let event = V16::new(self.avail_idx, self.endian);
            mem.store16(layout::avail_event(self.num), event)?;
        } else {
            self.store_flags(mem)?;
        }
        // ORDERING: The wish is visible before the second look; pairs with the driver's full
        // barrier between publishing a chain and reading the wish.
        mem.mb();
        self.fetch_avail_idx(mem)
    }

    /// Tells the driver that the device looks by itself and needs no kicks.
    ///
    /// With event index nothing is stored: the event left behind only gets older.
    ///
    /// VIRTIO 1.3, 2.7.10. C twin: `vhost_disable_notify()`.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] if the flags cannot be stored; kicks may then still come.
    #[inline]
    pub fn disable_notify(&mut self, mem: &impl RingMem) -> Result<(), Error> {
        if self.used_flags & NO_NOTIFY != 0 {
            return Ok(());
        }
        self.used_flags |= NO_NOTIFY;
        if self.features.event_idx {
            return Ok(());
        }
        self.store_flags(mem)
    }

    fn store_flags(&self, mem: &impl RingMem) -> Result<(), Error> {
        let flags = V16::new(self.used_flags, self.endian);
        mem.store16(layout::USED_FLAGS, flags)?;
        Ok(())
    }

    fn take(
        &mut self,
        mem: &impl RingMem,
        gm: &mut impl GuestMem,
        sink: &mut impl SegSink,
    ) -> Result<Option<Chain>, Error> {
        let Some(head) = self.next_head(mem)? else {
            return Ok(None);
        };
        let Self { num, endian, .. } = *self;
        self.ahead
            .fetch_descs(mem, num, self.last_avail_idx, head, endian)?;
        let fetch = |index| self.ahead.desc(mem, index);
        let chain = Walk::new(gm, sink, endian).run(head, num, fetch)?;
        self.last_avail_idx = self.last_avail_idx.wrapping_add(1);
        Ok(Some(chain))
    }

    /// Returns the head of the next chain, which is below `num`.
    fn next_head(&mut self, mem: &impl RingMem) -> Result<Option<u16>, Error> {
        if self.avail_idx == self.last_avail_idx && !self.fetch_avail_idx(mem)? {
            return Ok(None);
        }
        let Self { num, endian, .. } = *self;
        let index = self.last_avail_idx;
        let ready = self.avail_idx.wrapping_sub(index);
        let head = self.ahead.head(mem, num, index, ready)?.get(endian);
        if head >= num {
            return Err(Error::Head { head, num });
        }
        Ok(Some(head))
    }

    /// Reads `avail.idx`; returns whether it differs from the last time.
    ///
    /// C twin: `vhost_get_avail_idx()`.
    fn fetch_avail_idx(&mut self, mem: &impl RingMem) -> Result<bool, Error> {
        let field = mem.load16(Part::Avail, layout::AVAIL_IDX)?;
        let avail_idx = field.get(self.endian);
        let Self {
            num,
            last_avail_idx,
            ..
        } = *self;
        if avail_idx.wrapping_sub(last_avail_idx) > num {
            return Err(Error::AvailJump {
                last_avail_idx,
                avail_idx,
                num,
            });
        }
        if avail_idx == self.avail_idx {
            return Ok(false);
        }
        self.avail_idx = avail_idx;
        // Descriptors may have been used and published again since.
        self.ahead.forget_descs();
        // ORDERING: `avail.idx` is read before the entries and descriptors that it publishes;
        // pairs with the driver's write barrier between storing those and `avail.idx`.
        mem.rmb();
        Ok(true)
    }

    /// Puts up to `num` entries into the used ring and shows them to the driver.
    fn add_batch(&mut self, mem: &impl RingMem, elems: &[UsedElem]) -> Result<(), Error> {
        let old = self.last_used_idx;
        let slot = layout::slot(old, self.num);
        let room = usize::from(self.num.wrapping_sub(slot));
        // BOUNDS: The minimum is at most the length.
        let (front, wrapped) = elems.split_at(room.min(elems.len()));
        write_used(mem, slot, front)?;
        write_used(mem, 0, wrapped)?;

        // CAST: A batch has at most `num` entries.
        let new = old.wrapping_add(elems.len() as u16);
        // ORDERING: The entries, and the bytes in the driver's buffers, are visible before
        // `used.idx`; pairs with the driver's read barrier behind its load of it.
        mem.wmb();
        mem.store16(layout::USED_IDX, V16::new(new, self.endian))?;
        self.last_used_idx = new;
        // Once the index passes the mark again, the distance from it no longer fits in 16 bits.
        self.signalled_used = self.signalled_used.filter(|mark| !passed(*mark, old, new));
        Ok(())
    }
}

/// Writes entries from `slot` on, where there is room for them.
fn write_used(mem: &impl RingMem, slot: u16, elems: &[UsedElem]) -> Result<(), Error> {
    if let [elem] = elems {
        mem.write_used(layout::used_slot(slot), &elem.to_bytes())?;
        return Ok(());
    }
    let mut off = layout::used_slot(slot);
    let mut bytes = [[0; USED_ELEM_SIZE]; USED_RUN];
    for run in elems.chunks(USED_RUN) {
        for (dst, elem) in bytes.iter_mut().zip(run) {
            *dst = elem.to_bytes();
        }
        // BOUNDS: A run is at most as long as the array; the minimum is for the compiler.
        let src = bytes[..run.len().min(USED_RUN)].as_flattened();
        mem.write_used(off, src)?;
        off = off.saturating_add(src.len());
    }
    Ok(())
}

/// Returns whether the index passed `mark` on its way from `old` to `new`.
#[inline]
fn passed(mark: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(mark) < new.wrapping_sub(old)
}

/// Returns whether the entry at `event` is one of those from `old` up to, not including, `new`.
///
/// VIRTIO 1.3, 2.7.7.2. C twin: `vring_need_event()`.
#[inline]
fn crossed(event: u16, old: u16, new: u16) -> bool {
    passed(event.wrapping_add(1), old, new)
}

#[cfg(test)]
mod tests;
