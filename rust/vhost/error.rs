// SPDX-License-Identifier: GPL-2.0

//! From the ring logic's errors to the kernel's.

use kernel::prelude::*;

/// Returns the error number that user space sees.
pub(crate) fn to_kernel(err: vring::Error) -> Error {
    Error::from_errno(-err.errno())
}
