// SPDX-License-Identifier: GPL-2.0

//! Transmission: from the guest to the socket, by copying.
//!
//! C twin: `handle_tx_copy()`.

use super::{
    budget,
    is_congestion, //
};
use crate::vq::{
    Vq,
    USED_BATCH, //
};
use vring::{
    Budget,
    Chain, //
};

/// What is left to do after one look at the ring.
enum Step {
    /// A frame of this many bytes was taken from the guest.
    Sent(usize),
    /// There is nothing to send.
    Empty,
    /// The queue can't go on until the driver or the socket says so.
    Stuck,
}

/// Sends what the guest has made available.
pub(crate) fn handle(vq: &mut Vq) {
    if !vq.enter() {
        return;
    }
    let mut budget = budget();
    let mut total = 0;
    loop {
        match step(vq, total) {
            Step::Sent(len) => {
                total += len;
                if vq.used_len() >= USED_BATCH {
                    vq.flush_used();
                }
                if budget.spend(len as u64 + vq.take_walked()) {
                    vq.requeue();
                    break;
                }
            }
            Step::Empty => {
                // The driver is told before it is asked to kick, so that it need not.
                vq.flush_used();
                if !vq.enable_notify() {
                    break;
                }
            }
            Step::Stuck => break,
        }
    }
    vq.flush_used();
}

/// Sends one frame; `total` bytes were sent in this run before.
fn step(vq: &mut Vq, total: usize) -> Step {
    vq.clear_segs();
    match vq.pop() {
        Ok(Some(chain)) => send(vq, &chain, total),
        Ok(None) => Step::Empty,
        Err(_) => {
            vq.stall();
            Step::Stuck
        }
    }
}

fn send(vq: &mut Vq, chain: &Chain, total: usize) -> Step {
    let header = vq.headers.vhost;
    // CAST: The pieces have been added up in a `usize`, which failed had it been too narrow.
    let with_header = chain.out_len as usize;
    let len = with_header.saturating_sub(header);
    if chain.in_segs != 0 || len < vq.headers.sock.max(1) {
        // This is no frame: it is for the device to write, or shorter than the header that it has
        // to have. It goes back unsent, or the driver would miss it for ever.
        vq.stall();
        let _ = vq.push_used(chain.head, 0);
        return Step::Stuck;
    }
    // The socket may gather frames if it knows that more come at once.
    let more = ((total + len) as u64) < Budget::NET_BYTES && !vq.ring.avail_empty(&vq.addr);
    match vq.send(with_header, header, more) {
        Err(err) if is_congestion(err) => {
            vq.ring.undo(1);
            vq.wait_for_socket();
            return Step::Stuck;
        }
        // A frame that the socket refuses for good is lost, as on a wire.
        Ok(_) | Err(_) => {}
    }
    match vq.push_used(chain.head, 0) {
        Ok(()) => Step::Sent(len),
        Err(_) => Step::Stuck,
    }
}
