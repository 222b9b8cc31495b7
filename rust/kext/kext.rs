// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over what vhost needs of the kernel and the `kernel` crate does not have.
//!
//! This is the only crate of the module that contains `unsafe` or uses bindings. One file per C
//! concept, so that each can move into the `kernel` crate by itself.

pub mod eventfd;
pub(crate) mod file;
pub mod iov;
pub mod misc;
pub mod mm;
pub mod param;
pub mod poll;
pub mod socket;
pub mod uapi;
pub mod user;
pub mod work;
pub mod worker;

/// Begins each line that this crate prints, as [`kernel::pr_err`] and its kind expect. The crate
/// is part of one module only, so this is that module's name.
const __LOG_PREFIX: &[u8] = b"vhost_net_rs\0";
