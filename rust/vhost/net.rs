// SPDX-License-Identifier: GPL-2.0

//! The datapath: frames between the guest's rings and the socket.
//!
//! Both directions run on the worker, under the mutex of their queue. Each run ends when there is
//! nothing more to do, when the queue is stuck, or after a budget of frames and bytes: then it
//! queues itself behind the others, so that neither direction starves the other.

pub(crate) mod rx;
pub(crate) mod tx;

use kernel::prelude::*;
use vring::Budget;

/// What one run may move: 256 frames or 512 KiB.
fn budget() -> Budget {
    Budget::new(Budget::NET_PKTS, Budget::NET_BYTES)
}

/// Tells whether sending can be tried again when the socket says that it can be written.
fn is_congestion(err: Error) -> bool {
    err == EAGAIN || err == ENOMEM || err == ENOBUFS
}
