// SPDX-License-Identifier: GPL-2.0

//! Open files that were handed over by number.
//!
//! C header: [`include/linux/file.h`](srctree/include/linux/file.h)

use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};

/// A reference on an open file.
///
/// Unlike [`kernel::fs::File`], it gives no access to the position of the file, so that it doesn't
/// matter which locks the current thread holds on that.
///
/// # Invariants
///
/// `self.0` points to a `struct file` on which `self` owns a reference.
pub(crate) struct FileRef(NonNull<bindings::file>);

// SAFETY: A reference on a file may be given up by any thread, and what this crate calls on files
// may be called by any thread.
unsafe impl Send for FileRef {}
// SAFETY: As above; what is called does its own locking.
unsafe impl Sync for FileRef {}

impl FileRef {
    /// Takes a reference on the file that has a number in the current task.
    ///
    /// Context: process context.
    ///
    /// # Errors
    ///
    /// `EBADF`: no open file has this number, or it was opened with `O_PATH`.
    pub(crate) fn from_fd(fd: i32) -> Result<Self> {
        // CAST: A negative number becomes one that no file can have.
        // SAFETY: The function may be called with any number. It returns null, or a reference.
        unsafe { Self::from_owned(bindings::fget(fd as u32)) }
    }

    /// Wraps a file that a C function returned with a reference.
    ///
    /// # Safety
    ///
    /// `file` must be null or a valid file on which the caller owns a reference, which it gives up.
    pub(crate) unsafe fn from_owned(file: *mut bindings::file) -> Result<Self> {
        // INVARIANT: By the safety requirements, the reference is ours now.
        NonNull::new(file).map(Self).ok_or(EBADF)
    }

    /// Returns the C structure, which is valid as long as `self` is.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::file {
        self.0.as_ptr()
    }
}

impl Clone for FileRef {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants, the file is valid and referenced.
        unsafe { bindings::get_file(self.0.as_ptr()) };
        // INVARIANT: A reference was taken for the new value.
        Self(self.0)
    }
}

impl Drop for FileRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants, the reference is ours to give up.
        unsafe { bindings::fput(self.0.as_ptr()) };
    }
}
