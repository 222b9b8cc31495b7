// SPDX-License-Identifier: GPL-2.0

//! Queueing work when a file becomes ready.
//!
//! A [`FilePoll`] puts an entry on the wait queue of a file, such as a kick eventfd or the socket
//! of a tap. When the file says that it is ready, the entry's wake function runs in the context of
//! whoever woke it, often with interrupts off; it only queues a work item.
//!
//! C header: [`include/linux/poll.h`](srctree/include/linux/poll.h). C twin: `struct vhost_poll`.

use crate::{
    file::FileRef,
    work::WorkRef,
    worker::WorkQueue, //
};
use core::{
    cell::Cell,
    ptr, //
};
use kernel::{
    bindings,
    container_of,
    ffi::{
        c_int,
        c_uint,
        c_void, //
    },
    prelude::*,
    types::Opaque, //
};
use vhost_bindings as ours;

/// What to do on an event: queue this item on that worker.
#[derive(Clone)]
pub struct Wake {
    queue: WorkQueue,
    work: WorkRef,
}

impl Wake {
    /// Pairs an item with the worker that runs it.
    pub fn new(queue: WorkQueue, work: WorkRef) -> Self {
        Self { queue, work }
    }

    /// Queues the item. Context: any.
    #[inline]
    pub fn wake(&self) {
        self.queue.queue(&self.work);
    }
}

/// A file that a [`FilePoll`] may wait for.
///
/// # Invariants
///
/// The wait queue that the file's poll function announces its events on lives as long as the file.
#[derive(Clone)]
pub struct Pollable(FileRef);

impl Pollable {
    /// Says that a file may be waited for.
    ///
    /// # Safety
    ///
    /// The wait queue that the file's poll function announces its events on must live as long as
    /// the file. That is not so for files that send `POLLFREE`, such as a signalfd.
    pub(crate) unsafe fn new(file: FileRef) -> Self {
        // INVARIANT: By the safety requirements.
        Self(file)
    }

    /// Tells whether both are the same file.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }
}

/// The events that a [`FilePoll`] waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Events {
    /// The file can be read.
    In,
    /// The file can be written.
    Out,
}

impl Events {
    const fn mask(self) -> u32 {
        match self {
            Self::In => bindings::POLLIN,
            Self::Out => bindings::POLLOUT,
        }
    }
}

/// Waits for events of a file and queues work for each. Created idle, see [`FilePoll::start`].
///
/// # Invariants
///
/// If `queue` is not null, it is a wait queue of `file`, and `entry` is on it.
#[pin_data(PinnedDrop)]
pub struct FilePoll {
    #[pin]
    entry: Opaque<bindings::wait_queue_entry>,
    #[pin]
    table: Opaque<bindings::poll_table_struct>,
    queue: Cell<*mut bindings::wait_queue_head>,
    events: Events,
    wake: Wake,
    file: Pollable,
}

// SAFETY: The wait queue entry may be added, removed and woken by any thread. The pointer in
// `queue` is only followed under the lock of the wait queue that it names.
unsafe impl Send for FilePoll {}
// SAFETY: `&FilePoll` gives access to `file` only.
unsafe impl Sync for FilePoll {}

impl FilePoll {
    /// Creates an idle entry for `file`, on which it keeps a reference.
    pub fn new(file: Pollable, events: Events, wake: Wake) -> impl PinInit<Self> {
        // INVARIANT: `queue` is null.
        pin_init!(Self {
            entry <- Opaque::ffi_init(|entry| {
                // SAFETY: `entry` is memory for a wait queue entry.
                unsafe { ours::kext_init_wait_entry(entry, Some(on_wake)) }
            }),
            table <- Opaque::ffi_init(|table| {
                // SAFETY: `table` is memory for a poll table.
                unsafe { ours::kext_init_poll_table(table, Some(on_poll_wait)) }
            }),
            queue: Cell::new(ptr::null_mut()),
            events,
            wake,
            file,
        })
    }

    /// Returns the file that is polled.
    pub fn file(&self) -> &Pollable {
        &self.file
    }

    /// Starts to wait for events, unless it does so already. If the file is ready now, the work is
    /// queued at once.
    ///
    /// Context: process context, may sleep.
    ///
    /// C twin: `vhost_poll_start()`.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the file reports an error condition; it is not waited for. The work may have been
    /// queued all the same, if the file is ready as well.
    #[inline]
    pub fn start(mut self: Pin<&mut Self>) -> Result {
        if !self.queue.get().is_null() {
            return Ok(());
        }
        // SAFETY: Both are valid: the file is referenced, and `table` was initialised by `new()`.
        // A poll function calls `on_poll_wait` with this very table, which `self` contains.
        let ready = unsafe { ours::kext_vfs_poll(self.file.0.as_ptr(), self.table.get()) };
        if ready & self.events.mask() != 0 {
            self.wake.wake();
        }
        if ready & bindings::POLLERR != 0 {
            self.as_mut().stop();
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Stops to wait for events. When it returns, the wake function is not running and will not
    /// run; work that it has queued may still be queued.
    ///
    /// Context: process context.
    ///
    /// C twin: `vhost_poll_stop()`.
    #[inline]
    pub fn stop(self: Pin<&mut Self>) {
        // INVARIANT: Where the entry is on a queue, it is taken off below.
        let queue = self.queue.replace(ptr::null_mut());
        if !queue.is_null() {
            // SAFETY: By the type invariants, the entry is on this queue, which lives as long as
            // `self.file` by the invariants of `Pollable`.
            unsafe { bindings::remove_wait_queue(queue, self.entry.get()) };
        }
    }
}

#[pinned_drop]
impl PinnedDrop for FilePoll {
    fn drop(self: Pin<&mut Self>) {
        self.stop();
    }
}

/// Called by a file's poll function with the wait queue on which its events are announced.
///
/// # Safety
///
/// `table` must be the one of a pinned `FilePoll`, and the caller must be inside of its `start()`.
unsafe extern "C" fn on_poll_wait(
    _file: *mut bindings::file,
    queue: *mut bindings::wait_queue_head,
    table: *mut bindings::poll_table_struct,
) {
    // SAFETY: By the safety requirements, `table` is embedded in a `FilePoll`, which `start()`
    // lends to this function. `Opaque` is transparent.
    let this = unsafe { &*container_of!(table.cast::<Opaque<_>>(), FilePoll, table) };
    // One entry can be on one queue only; a file that announces its events on several is followed
    // on the first.
    if queue.is_null() || !this.queue.get().is_null() {
        return;
    }
    // INVARIANT: The queue belongs to the file whose poll function calls us.
    this.queue.set(queue);
    // SAFETY: The entry was initialised by `new()`, and it is on no queue.
    unsafe { bindings::add_wait_queue(queue, this.entry.get()) };
}

/// The wake function: queues the work if one of the awaited events is announced.
///
/// Context: any; the lock of the wait queue is held.
///
/// # Safety
///
/// `entry` must be the one of a pinned `FilePoll`, and on a wait queue whose lock is held.
unsafe extern "C" fn on_wake(
    entry: *mut bindings::wait_queue_entry,
    _mode: c_uint,
    _flags: c_int,
    key: *mut c_void,
) -> c_int {
    // SAFETY: By the safety requirements, `entry` is embedded in a `FilePoll`. It lives while the
    // entry is on the queue, since taking it off needs the lock that is held. `Opaque` is
    // transparent.
    let this: *mut FilePoll = unsafe { container_of!(entry.cast::<Opaque<_>>(), FilePoll, entry) };
    // SAFETY: As above; these two fields never change.
    let (events, wake) = unsafe { ((*this).events, &(*this).wake) };
    // CAST: A poll key carries the announced events in its low 32 bits.
    if key as usize as u32 & events.mask() != 0 {
        wake.wake();
    }
    0
}
