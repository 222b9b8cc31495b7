// SPDX-License-Identifier: GPL-2.0

//! An open `/dev/vhost-net`: its owner, its two queues, and how it ends.
//!
//! # Lock order
//!
//! 1. [`Net::dev`]: what concerns the device as a whole. Held by ioctls and at release, also while
//!    they wait for the worker; so nothing that the worker runs may take it.
//! 2. [`Net::vqs`], one of them at a time: all of a queue. Held by ioctls, and by the queue's
//!    handler on the worker for as long as it runs.
//! 3. The wait queues of kick eventfds and sockets, which [`kext::poll`] takes. A wake-up comes
//!    with that lock held, and only queues work, which takes none.

use crate::{
    backend::Backend,
    guest_mem::MemTable,
    net,
    vq::Vq, //
};
use kernel::{
    mm::MmWithUser,
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        ArcBorrow,
        Mutex, //
    }, //
};
use kext::{
    impl_has_work,
    misc,
    mm,
    poll::Wake,
    work::{
        Work,
        WorkItem,
        WorkRef, //
    },
    worker::Worker, //
};

/// The index of the queue that receives, from the guest's point of view.
pub(crate) const RX: usize = 0;
/// The index of the queue that transmits, from the guest's point of view.
pub(crate) const TX: usize = 1;

/// The task, or rather the address space, that the device works for.
pub(crate) struct Owner {
    mm: ARef<MmWithUser>,
    pub(crate) worker: Worker,
}

/// What concerns the device as a whole.
pub(crate) struct Dev {
    owner: Option<Owner>,
}

impl Dev {
    /// Returns the owner if the caller is it.
    ///
    /// C twin: `vhost_dev_check_owner()`.
    ///
    /// # Errors
    ///
    /// `EPERM`: there is no owner, or it is somebody else.
    pub(crate) fn owner(&self) -> Result<&Owner> {
        let owner = self.owner.as_ref().ok_or(EPERM)?;
        if mm::is_current(&owner.mm) {
            Ok(owner)
        } else {
            Err(EPERM)
        }
    }
}

/// An open vhost-net device.
#[pin_data]
pub(crate) struct Net {
    #[pin]
    pub(crate) dev: Mutex<Dev>,
    #[pin]
    rx: Mutex<Vq>,
    #[pin]
    tx: Mutex<Vq>,
    rx_work: Work<Self, { RX as u64 }>,
    tx_work: Work<Self, { TX as u64 }>,
}

impl_has_work! {
    impl HasWork<{ RX as u64 }> for Net { self.rx_work }
    impl HasWork<{ TX as u64 }> for Net { self.tx_work }
}

impl WorkItem<{ RX as u64 }> for Net {
    fn run(this: Arc<Self>) {
        net::rx::handle(&mut this.rx.lock());
    }
}

impl WorkItem<{ TX as u64 }> for Net {
    fn run(this: Arc<Self>) {
        net::tx::handle(&mut this.tx.lock());
    }
}

impl Net {
    fn new() -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            dev <- new_mutex!(Dev { owner: None }, "Net::dev"),
            rx <- new_mutex!(Vq::new(), "Net::rx"),
            tx <- new_mutex!(Vq::new(), "Net::tx"),
            rx_work: Work::new(),
            tx_work: Work::new(),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Returns both queues, in the order of their indices.
    pub(crate) fn vqs(&self) -> [&Mutex<Vq>; 2] {
        [&self.rx, &self.tx]
    }

    /// Returns the queue with the given index, and the index as one that can't be wrong.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: there is no such queue.
    pub(crate) fn vq(&self, index: u32) -> Result<(usize, &Mutex<Vq>)> {
        match index {
            0 => Ok((RX, &self.rx)),
            1 => Ok((TX, &self.tx)),
            _ => Err(ENOBUFS),
        }
    }

    /// `VHOST_SET_OWNER`: makes the caller's address space the one that the device works in, and
    /// starts its worker.
    ///
    /// C twin: `vhost_net_set_owner()`.
    ///
    /// # Errors
    ///
    /// - `EBUSY`: there is an owner.
    /// - `ENOMEM`: there is no memory, the thread can't be created, or it can't join the control
    ///   groups of the caller.
    pub(crate) fn set_owner(this: ArcBorrow<'_, Self>) -> Result<isize> {
        let mut dev = this.dev.lock();
        if dev.owner.is_some() {
            return Err(EBUSY);
        }
        let mm = mm::current_mm()?;
        for vq in this.vqs() {
            vq.lock().own()?;
        }
        let worker = Worker::spawn(mm.clone()).map_err(|_| {
            this.vqs().iter().for_each(|vq| vq.lock().disown());
            ENOMEM
        })?;
        let rx_work = WorkRef::new::<Self, { RX as u64 }>(this.into());
        let tx_work = WorkRef::new::<Self, { TX as u64 }>(this.into());
        this.rx.lock().wake = Some(Wake::new(worker.queue().clone(), rx_work));
        this.tx.lock().wake = Some(Wake::new(worker.queue().clone(), tx_work));
        dev.owner = Some(Owner { mm, worker });
        Ok(0)
    }

    /// `VHOST_RESET_OWNER`: makes the device as if it were just opened, but for its empty memory
    /// table.
    ///
    /// C twin: `vhost_net_reset_owner()`.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the caller is not the owner.
    /// - `ENOMEM`; the owner stays.
    pub(crate) fn reset_owner(&self) -> Result<isize> {
        let mut dev = self.dev.lock();
        dev.owner()?;
        let empty = Arc::new(MemTable::new(KVVec::new()), GFP_KERNEL)?;
        self.stop(&mut dev);
        for vq in self.vqs() {
            vq.lock().set_mem(empty.clone());
        }
        Ok(0)
    }

    /// Takes everything from the device that its owner gave it. When it returns, the worker has
    /// exited, and nothing that it worked with is used any more.
    fn stop(&self, dev: &mut Dev) {
        let mut backends = self.vqs().map(|vq| vq.lock().backend.take());
        let kicks = self.vqs().map(|vq| vq.lock().kick.take());
        backends.iter_mut().flatten().for_each(Backend::stop);
        drop(kicks);
        // Nobody is woken from here on. No lock of a queue is held while the worker comes to its
        // end, as its last items need them.
        if let Some(owner) = dev.owner.take() {
            owner.worker.flush();
        }
        for vq in self.vqs() {
            let old = core::mem::replace(&mut *vq.lock(), Vq::new());
            drop(old);
        }
        drop(backends);
    }
}

#[vtable]
impl misc::MiscDevice for Net {
    fn open() -> Result<Arc<Self>> {
        Self::new()
    }

    fn release(this: Arc<Self>) {
        // Whoever closes the file last need not be the owner, who may have exited long ago.
        this.stop(&mut this.dev.lock());
    }

    fn ioctl(this: ArcBorrow<'_, Self>, cmd: u32, arg: usize) -> Result<isize> {
        crate::ioctl::handle(this, cmd, arg)
    }
}
