// SPDX-License-Identifier: GPL-2.0

//! Event file descriptors, to signal and to be signalled.
//!
//! C header: [`include/linux/eventfd.h`](srctree/include/linux/eventfd.h)

use crate::{
    file::FileRef,
    poll::Pollable, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*, //
};

/// An eventfd to signal: `call` or `error` of a virtqueue.
///
/// # Invariants
///
/// `self.0` points to an `eventfd_ctx` on which `self` owns a reference.
pub struct EventFd(NonNull<bindings::eventfd_ctx>);

// SAFETY: An `eventfd_ctx` may be used and put by any thread.
unsafe impl Send for EventFd {}
// SAFETY: `eventfd_signal_mask()` takes the lock of the `eventfd_ctx`.
unsafe impl Sync for EventFd {}

impl EventFd {
    /// Looks an eventfd of the current task up by its number.
    ///
    /// Context: process context.
    ///
    /// # Errors
    ///
    /// - `EBADF`: no open file has this number.
    /// - `EINVAL`: the file is no eventfd.
    pub fn from_fd(fd: i32) -> Result<Self> {
        // SAFETY: The function may be called with any number.
        let ctx = from_err_ptr(unsafe { bindings::eventfd_ctx_fdget(fd) })?;
        // INVARIANT: On success, the function returns a reference that is ours.
        NonNull::new(ctx).map(Self).ok_or(EBADF)
    }

    /// Adds one to the counter of the eventfd and wakes who waits for it.
    ///
    /// Context: any.
    #[inline]
    pub fn signal(&self) {
        // SAFETY: By the type invariants, the pointer is valid until `self` is dropped.
        unsafe { bindings::eventfd_signal_mask(self.0.as_ptr(), 0) };
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        // SAFETY: By the type invariants, the reference is ours to give up.
        unsafe { bindings::eventfd_ctx_put(self.0.as_ptr()) };
    }
}

/// Looks the file of an eventfd up, to poll it: the `kick` of a virtqueue.
///
/// Context: process context.
///
/// # Errors
///
/// As [`EventFd::from_fd`].
pub fn eventfd_file(fd: i32) -> Result<Pollable> {
    // SAFETY: The function may be called with any number.
    let file = from_err_ptr(unsafe { bindings::eventfd_fget(fd) })?;
    // SAFETY: On success, the function returns a referenced file, and the reference is ours.
    let file = unsafe { FileRef::from_owned(file) }?;
    // SAFETY: The wait queue of an eventfd is part of its context, which the file keeps.
    Ok(unsafe { Pollable::new(file) })
}
