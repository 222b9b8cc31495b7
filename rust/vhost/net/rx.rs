// SPDX-License-Identifier: GPL-2.0

//! Reception: from the socket to the guest, by copying.
//!
//! C twin: `handle_rx()`, `get_rx_bufs()`.

use super::budget;
use crate::{
    guest_mem::MAX_SEGS,
    vq::{
        Vq,
        USED_BATCH, //
    }, //
};
use kext::uapi::{
    feature,
    hdr, //
};
use vring::{
    Chain,
    V16, //
};

/// How many bytes of descriptors one frame may cost: as much as the longest chain.
const MAX_WALKED: u64 = Chain::MAX_WALK as u64 * vring::layout::DESC_SIZE as u64;

/// What is left to do after one look at the socket and the ring.
enum Step {
    /// So many bytes were written to the guest; 0 if the frame was lost.
    Moved(usize),
    /// There is no frame.
    NoFrame,
    /// There are not enough buffers for the frame.
    NoBuffers,
    /// The queue can't go on until the driver kicks.
    Stuck,
}

/// What was found for a frame.
enum Buffers {
    /// So many heads, which are noted as used already.
    Heads(u16),
    /// Not enough yet.
    TooFew,
    /// All that one frame may take, and yet not enough.
    TooSmall,
    /// Something that is no buffer.
    Malformed,
}

/// Receives what the socket has.
pub(crate) fn handle(vq: &mut Vq) {
    if !vq.enter() {
        return;
    }
    let mut budget = budget();
    loop {
        let moved = match step(vq) {
            Step::Moved(len) => len,
            Step::NoBuffers if vq.enable_notify() => 0,
            Step::NoFrame => {
                vq.wait_for_socket();
                break;
            }
            Step::NoBuffers | Step::Stuck => break,
        };
        if vq.used_len() > USED_BATCH {
            vq.flush_used();
        }
        // What moves no byte counts as a frame too, or a guest could keep the worker here.
        if budget.spend(moved as u64 + vq.take_walked()) {
            vq.requeue();
            break;
        }
    }
    vq.flush_used();
}

/// Receives one frame.
fn step(vq: &mut Vq) -> Step {
    let peeked = vq.peek_len();
    if peeked == 0 {
        return Step::NoFrame;
    }
    let frame = peeked + vq.headers.sock;
    let total = frame + vq.headers.vhost;
    let pending = vq.used_len();
    vq.clear_segs();
    match gather(vq, total) {
        Buffers::Heads(heads) => fill(vq, heads, frame, pending),
        Buffers::TooFew => Step::NoBuffers,
        Buffers::TooSmall => {
            // As much as one byte of it is enough to get rid of the frame.
            vq.receive(1, 0, 1);
            Step::Moved(0)
        }
        Buffers::Malformed => {
            vq.stall();
            Step::Stuck
        }
    }
}

/// Takes buffers for `total` bytes, and notes them as used.
fn gather(vq: &mut Vq, total: usize) -> Buffers {
    let mergeable = vq.features().has(feature::MRG_RXBUF);
    let quota = if mergeable { MAX_SEGS as u16 } else { 1 };
    let pending = vq.used_len();
    let mut left = total;
    let mut heads = 0;
    while left > 0 && heads < quota {
        match vq.pop() {
            Ok(Some(chain)) if is_buffer(&chain) && vq.walked() <= MAX_WALKED => {
                heads += 1;
                let part = usize::try_from(chain.in_len).map_or(left, |len| len.min(left));
                left -= part;
                // CAST: A socket says the length of a frame as an `int`.
                if vq.push_used(chain.head, part as u32).is_err() {
                    give_up(vq, heads, pending);
                    return Buffers::Malformed;
                }
            }
            Ok(Some(chain)) => {
                give_back(vq, &chain, pending);
                return Buffers::Malformed;
            }
            Ok(None) => {
                give_up(vq, heads, pending);
                return Buffers::TooFew;
            }
            Err(_) => {
                give_up(vq, heads, pending);
                return Buffers::Malformed;
            }
        }
    }
    if left > 0 {
        give_up(vq, heads, pending);
        return Buffers::TooSmall;
    }
    Buffers::Heads(heads)
}

/// Tells whether a chain is something to receive into.
fn is_buffer(chain: &Chain) -> bool {
    chain.out_segs == 0 && chain.in_segs != 0
}

/// Leaves the last `heads` chains where they were; `pending` used ones are older.
fn give_up(vq: &mut Vq, heads: u16, pending: usize) {
    vq.ring.undo(heads);
    vq.truncate_used(pending);
}

/// Gives the chains that were taken for a frame back empty, with one behind them that is no
/// buffer: were that one left where it is, the driver would never get past it, and were it taken
/// and not given back, the driver would miss it for ever.
fn give_back(vq: &mut Vq, bad: &Chain, pending: usize) {
    vq.empty_used(pending);
    let _ = vq.push_used(bad.head, 0);
}

/// Receives a frame of `frame` bytes into the buffers at hand.
fn fill(vq: &mut Vq, heads: u16, frame: usize, pending: usize) -> Step {
    let header = vq.headers.vhost;
    let total = header + frame;
    // Another reader of the same socket may have taken the frame, or it is a shorter one.
    if vq.receive(total, header, frame) != Some(frame) {
        give_up(vq, heads, pending);
        return Step::Moved(0);
    }
    if write_header(vq, heads, total).is_none() {
        give_up(vq, heads, pending);
        vq.stall();
        return Step::Stuck;
    }
    Step::Moved(total)
}

/// Writes those parts of the header that the socket doesn't: all of it where it gives none, and
/// the number of buffers.
///
/// VIRTIO 1.3, 5.1.6.4: `num_buffers` is there also without mergeable buffers, unless the device
/// is a legacy one.
fn write_header(vq: &Vq, heads: u16, total: usize) -> Option<()> {
    let zeros = [0; hdr::TUNNEL];
    let own = zeros.get(..vq.headers.vhost)?;
    if !own.is_empty() {
        vq.write_at(total, 0, own)?;
    }
    let features = vq.features();
    if features.has(feature::MRG_RXBUF) || features.has(feature::VERSION_1) {
        let num_buffers = V16::new(heads, vq.ring.endian()).to_ne_bytes();
        vq.write_at(total, hdr::NUM_BUFFERS, &num_buffers)?;
    }
    Some(())
}
