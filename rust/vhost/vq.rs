// SPDX-License-Identifier: GPL-2.0

//! A virtqueue: its configuration, its ring, and what is attached to it.

use crate::{
    backend::Backend,
    features::{
        Features,
        Headers, //
    },
    guest_mem::{
        GuestMem,
        MemTable,
        RingAddr,
        Segs,
        MAX_SEGS, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use kext::{
    eventfd::EventFd,
    iov::IoVecs,
    poll::{
        FilePoll,
        Wake, //
    },
    user, //
};
use vring::{
    Chain,
    Hint,
    Split,
    UsedElem, //
};

/// How many used entries gather before the driver is told of them.
///
/// C twin: `VHOST_NET_BATCH`.
pub(crate) const USED_BATCH: usize = 64;

/// How often a driver is asked for a kick that makes chains available at the same time.
const ASK_AGAIN: usize = 16;

/// The kick eventfd of a queue, and the wait for it.
pub(crate) type Kick = Pin<KBox<FilePoll>>;

/// The buffers that a queue needs while the device has an owner.
#[derive(Default)]
struct Bufs {
    /// The pieces of memory of the chains at hand: readable ones first, in the order of the chain.
    segs: IoVecs,
    /// Entries to be written to the used ring.
    used: KVec<UsedElem>,
}

impl Bufs {
    fn new() -> Result<Self> {
        Ok(Self {
            segs: IoVecs::with_capacity(MAX_SEGS)?,
            // A frame may take as many heads as pieces, behind a batch that is not full.
            used: KVec::with_capacity(USED_BATCH + MAX_SEGS, GFP_KERNEL)?,
        })
    }
}

/// The state of a virtqueue, behind its mutex.
pub(crate) struct Vq {
    pub(crate) ring: Split,
    pub(crate) addr: RingAddr,
    pub(crate) mem: Option<Arc<MemTable>>,
    hint: Hint,
    features: Features,
    pub(crate) headers: Headers,
    /// Queues the handler of this queue; there while the device has an owner.
    pub(crate) wake: Option<Wake>,
    pub(crate) kick: Option<Kick>,
    pub(crate) call: Option<EventFd>,
    pub(crate) err: Option<EventFd>,
    pub(crate) backend: Option<Backend>,
    bufs: Bufs,
    /// Bytes of descriptors read since [`Self::take_walked`].
    walked: u64,
}

impl Vq {
    /// Returns a queue as it is when the device was just opened.
    pub(crate) fn new() -> Self {
        Self {
            ring: Split::new(),
            addr: RingAddr::default(),
            mem: None,
            hint: Hint::default(),
            features: Features::default(),
            headers: Headers::default(),
            wake: None,
            kick: None,
            call: None,
            err: None,
            backend: None,
            bufs: Bufs::default(),
            walked: 0,
        }
    }

    /// Gets the queue ready to be used by an owner.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the queue is unchanged.
    pub(crate) fn own(&mut self) -> Result {
        self.bufs = Bufs::new()?;
        Ok(())
    }

    /// Undoes [`Self::own`].
    pub(crate) fn disown(&mut self) {
        self.bufs = Bufs::default();
    }

    /// Returns the acknowledged features.
    #[inline]
    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    /// Takes over acknowledged features, at once also where a backend is attached. Only the byte
    /// order of the ring waits for the next attach.
    pub(crate) fn set_features(&mut self, features: Features) {
        self.features = features;
        self.headers = features.headers();
        self.ring.set_features(features.ring());
    }

    /// Changes the memory table.
    pub(crate) fn set_mem(&mut self, table: Arc<MemTable>) {
        self.hint = Hint::default();
        self.mem = Some(table);
    }

    /// Tells whether the ring and the guest's memory lie where user space may have memory.
    ///
    /// C twin: `vhost_vq_access_ok()`.
    pub(crate) fn access_ok(&self) -> bool {
        let mem_ok = self.mem.as_ref().is_some_and(|mem| table_access_ok(mem));
        mem_ok && self.ring_access_ok(&self.addr)
    }

    /// Tells whether a ring of this queue's size at `addr` lies where user space may have memory.
    pub(crate) fn ring_access_ok(&self, addr: &RingAddr) -> bool {
        addr.access_ok(self.ring.num(), self.features.ring().event_idx)
    }

    /// Signals the error eventfd, if there is one.
    #[cold]
    pub(crate) fn fail(&self) {
        if let Some(err) = &self.err {
            err.signal();
        }
    }

    /// Stops the queue until the next kick, because of something that the driver or the owner did.
    ///
    /// The driver is asked for that kick: it can't know that the device no longer looks by itself.
    #[cold]
    pub(crate) fn stall(&mut self) {
        // Before the signal, as who gets it may mend the chain and look whether to kick at once.
        let asked = self.ask_for_kick();
        self.fail();
        if !asked {
            self.requeue();
        }
    }

    /// Asks for a kick at the next chain that is made available. Returns whether that is sure.
    ///
    /// With event index, a chain that came meanwhile is past the index that was asked for, and
    /// the driver would go on beyond it without a kick: so it has to be asked again. A driver that
    /// is always faster is not waited for.
    fn ask_for_kick(&mut self) -> bool {
        for _ in 0..ASK_AGAIN {
            match self.ring.enable_notify(&self.addr) {
                Ok(true) => self.disable_notify(),
                // If the ring can't be written, the driver can't be asked at all.
                Ok(false) | Err(_) => return true,
            }
        }
        false
    }

    /// As [`Self::fail`], for a result of which only that matters.
    #[inline]
    fn note<T>(&self, result: Result<T, vring::Error>) -> Option<T> {
        result.inspect_err(|_| self.fail()).ok()
    }

    /// Queues the handler of this queue behind all other work.
    pub(crate) fn requeue(&self) {
        if let Some(wake) = &self.wake {
            wake.wake();
        }
    }

    /// Takes the next chain; its pieces are added to those at hand.
    ///
    /// # Errors
    ///
    /// What is wrong with the chain, which stays where it is.
    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Option<Chain>, vring::Error> {
        let Some(table) = &self.mem else {
            return Ok(None);
        };
        let mut mem = GuestMem {
            table,
            hint: &mut self.hint,
        };
        let chain = self
            .ring
            .pop(&self.addr, &mut mem, &mut Segs(&mut self.bufs.segs))?;
        self.walked += chain.map_or(0, |chain| chain.walked_bytes());
        Ok(chain)
    }

    /// Returns how many bytes of descriptors were read since [`Self::take_walked`].
    #[inline]
    pub(crate) fn walked(&self) -> u64 {
        self.walked
    }

    /// As [`Self::walked`], and begins to count anew.
    ///
    /// They are part of what a run may move. A frame may take many descriptors that are empty, and
    /// would otherwise cost more than its bytes tell.
    #[inline]
    pub(crate) fn take_walked(&mut self) -> u64 {
        core::mem::take(&mut self.walked)
    }

    /// Forgets the pieces of the last chains.
    #[inline]
    pub(crate) fn clear_segs(&mut self) {
        self.bufs.segs.clear();
    }

    /// Notes that a chain was used; the driver sees it with the next [`Self::flush_used`].
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: there are too many such notes.
    #[inline]
    pub(crate) fn push_used(&mut self, head: u16, len: u32) -> Result {
        let elem = UsedElem::new(head.into(), len, self.ring.endian());
        let pushed = self.bufs.used.push_within_capacity(elem);
        pushed.map_err(|_| ENOBUFS)
    }

    /// Returns how many used chains the driver has not been told of.
    #[inline]
    pub(crate) fn used_len(&self) -> usize {
        self.bufs.used.len()
    }

    /// Forgets the last used chains, so that only `len` are left.
    #[inline]
    pub(crate) fn truncate_used(&mut self, len: usize) {
        self.bufs.used.truncate(len);
    }

    /// Makes the used chains behind the first `len` ones say that nothing was written.
    #[cold]
    pub(crate) fn empty_used(&mut self, len: usize) {
        let endian = self.ring.endian();
        for elem in self.bufs.used.iter_mut().skip(len) {
            *elem = UsedElem::new(elem.id().get(endian), 0, endian);
        }
    }

    /// Writes all used chains to the ring and signals the driver if it wants that.
    ///
    /// C twin: `vhost_add_used_and_signal_n()`.
    pub(crate) fn flush_used(&mut self) {
        if self.bufs.used.is_empty() {
            return;
        }
        let added = self.ring.add_used(&self.addr, &self.bufs.used);
        self.bufs.used.clear();
        self.note(added);
        let Some(call) = &self.call else {
            return;
        };
        // Where the driver's wish can't be read, it is rather told once too often.
        let wanted = self.ring.needs_signal(&self.addr);
        if wanted.unwrap_or(true) {
            call.signal();
        }
        self.note(wanted);
    }

    /// Asks the driver not to kick.
    #[inline]
    pub(crate) fn disable_notify(&mut self) {
        let done = self.ring.disable_notify(&self.addr);
        self.note(done);
    }

    /// Asks the driver to kick. Returns `true` if there are new chains already: then it is not
    /// asked, and the caller has to look again.
    #[inline]
    pub(crate) fn enable_notify(&mut self) -> bool {
        let enabled = self.ring.enable_notify(&self.addr);
        let again = self.note(enabled).unwrap_or(false);
        if again {
            self.disable_notify();
        }
        again
    }

    /// Returns the length in bytes of the next frame that the socket has, 0 if there is none.
    #[inline]
    pub(crate) fn peek_len(&self) -> usize {
        self.backend
            .as_ref()
            .map_or(0, |backend| backend.sock.peek_len())
    }

    /// Receives a frame of `want` bytes into the first `total` bytes of the pieces at hand, behind
    /// the first `skip`. Returns its length, `None` if there was none or it was lost.
    #[inline]
    pub(crate) fn receive(&self, total: usize, skip: usize, want: usize) -> Option<usize> {
        let backend = self.backend.as_ref()?;
        backend.sock.recv(&self.bufs.segs, total, skip, want).ok()
    }

    /// Sends what is in the first `total` bytes of the pieces at hand, behind the first `skip`.
    ///
    /// # Errors
    ///
    /// As [`Socket::send`](kext::socket::Socket::send).
    #[inline]
    pub(crate) fn send(&self, total: usize, skip: usize, more: bool) -> Result<usize> {
        let backend = self.backend.as_ref().ok_or(EIO)?;
        backend.sock.send(&self.bufs.segs, total, skip, more)
    }

    /// Writes into the first `total` bytes of the pieces at hand, behind the first `skip`. Returns
    /// `None` where that is not possible.
    #[inline]
    pub(crate) fn write_at(&self, total: usize, skip: usize, bytes: &[u8]) -> Option<()> {
        self.bufs.segs.write_at(total, skip, bytes).ok()
    }

    /// Has the handler queued when the socket is ready, which may be at once.
    #[inline]
    pub(crate) fn wait_for_socket(&mut self) {
        if let Some(backend) = &mut self.backend {
            // A socket in an error condition, such as that of a deleted tap, won't become ready.
            let _ = backend.start();
        }
    }

    /// Gets a handler going: returns whether the queue is in use, and if so, stops the kicks of
    /// the driver and the events of the socket until the handler knows what to wait for.
    #[inline]
    pub(crate) fn enter(&mut self) -> bool {
        let Some(backend) = &mut self.backend else {
            return false;
        };
        if self.addr.is_unset() {
            return false;
        }
        backend.stop();
        self.walked = 0;
        self.disable_notify();
        true
    }
}

/// Tells whether a memory table lies where user space may have memory.
///
/// C twin: `vq_memory_access_ok()`.
pub(crate) fn table_access_ok(table: &MemTable) -> bool {
    table.regions().iter().all(|region| {
        let addr = usize::try_from(region.user().get());
        let size = region.size().map(usize::try_from);
        matches!((addr, size), (Ok(addr), Some(Ok(size))) if user::access_ok(addr, size))
    })
}
