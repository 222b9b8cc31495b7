// SPDX-License-Identifier: GPL-2.0

//! Single accesses to user memory.
//!
//! Each function touches the memory exactly once, and none makes a reference or a slice over it:
//! its owner may change it at any time. For user memory that an `ioctl` names, see
//! [`kernel::uaccess`].
//!
//! All of them check that the range may belong to user space, take page faults, and may sleep.
//! Context: process context, with the address space in question: the caller's own or the worker's
//! borrowed one.
//!
//! C header: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h)

use kernel::prelude::*;
use vhost_bindings as ours;

/// Tells whether a range of addresses lies within what user space may have. It says nothing of
/// what is mapped there.
///
/// C twin: `access_ok()`.
#[inline]
pub fn access_ok(addr: usize, size: usize) -> bool {
    // SAFETY: The helper only compares numbers.
    unsafe { ours::kext_access_ok(addr, size) }
}

/// Loads a naturally aligned 16-bit word in one piece.
///
/// # Errors
///
/// `EFAULT`: the address can't be read.
#[inline]
pub fn load16(addr: usize) -> Result<u16> {
    let mut val = 0;
    // SAFETY: `val` is valid for a write; the helper checks the user address.
    match unsafe { ours::kext_get_user_u16(&mut val, addr) } {
        0 => Ok(val),
        _ => Err(EFAULT),
    }
}

/// Stores a naturally aligned 16-bit word in one piece.
///
/// # Errors
///
/// `EFAULT`: the address can't be written.
#[inline]
pub fn store16(addr: usize, val: u16) -> Result {
    // SAFETY: The helper checks the user address.
    match unsafe { ours::kext_put_user_u16(val, addr) } {
        0 => Ok(()),
        _ => Err(EFAULT),
    }
}

/// Copies from user memory. The bytes may come from different moments.
///
/// # Errors
///
/// `EFAULT`: some part can't be read; `dst` has unspecified contents.
#[inline]
pub fn read(addr: usize, dst: &mut [u8]) -> Result {
    // SAFETY: `dst` is valid for writes of its length; the helper checks the user range.
    match unsafe { ours::kext_copy_from_user(dst.as_mut_ptr().cast(), addr, dst.len()) } {
        0 => Ok(()),
        _ => Err(EFAULT),
    }
}

/// Copies to user memory.
///
/// # Errors
///
/// `EFAULT`: some part can't be written; others may have been.
#[inline]
pub fn write(addr: usize, src: &[u8]) -> Result {
    // SAFETY: `src` is valid for reads of its length; the helper checks the user range.
    match unsafe { ours::kext_copy_to_user(addr, src.as_ptr().cast(), src.len()) } {
        0 => Ok(()),
        _ => Err(EFAULT),
    }
}
