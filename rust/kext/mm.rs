// SPDX-License-Identifier: GPL-2.0

//! Whose address space is whose.
//!
//! C header: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use kernel::{
    mm::MmWithUser,
    prelude::*,
    sync::aref::ARef, //
};

/// Takes a reference on the address space of the current task.
///
/// Context: process context.
///
/// # Errors
///
/// `EINVAL`: the task has none, as it is a kernel thread.
pub fn current_mm() -> Result<ARef<MmWithUser>> {
    current!().mm().map(ARef::from).ok_or(EINVAL)
}

/// Tells whether the current task runs in the given address space.
pub fn is_current(mm: &MmWithUser) -> bool {
    current!()
        .mm()
        .is_some_and(|current| core::ptr::eq(current, mm))
}
