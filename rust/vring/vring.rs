// SPDX-License-Identifier: GPL-2.0

//! The device side of a virtio ring, as pure logic.
//!
//! VIRTIO 1.3, 2.7. C twin: the ring half of `drivers/vhost/vhost.c`.
//!
//! This crate knows neither the kernel nor an allocator, prints nothing and has no unsafe code. It
//! reaches memory through three traits that the device layer implements: [`RingMem`] for the ring
//! itself, [`GuestMem`] for what descriptors name, and [`SegSink`] for the buffers found. So the
//! same files are built into the module by Kbuild (with `--cfg kernel`) and by Cargo for tests.
//!
//! # Hostile guests
//!
//! The guest may rewrite the ring and its buffers at any time, and may fill them with anything.
//! Therefore
//!
//! - each value is fetched once, and the copy is what gets checked and used;
//! - no reference to guest memory exists, since the traits only copy;
//! - each index is checked where it is loaded, and each loop over guest data has a bound;
//! - no input makes this crate panic: a broken rule becomes an [`Error`], which stops that ring.
//!
//! # Examples
//!
//! A driver offers a frame, the device takes it and gives it back. `Mem`, `Ram` and `Segs` are the
//! three traits over plain bytes; `testing.rs` has them.
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testing.rs"));
//! # fn main() -> Result<(), Error> {
//! let endian = Endian::Little;
//! let (mem, mut ram, mut segs) = (Mem::new(4, endian), Ram::new(), Segs::new());
//!
//! let mut ring = Split::new();
//! ring.set_num(4)?;
//! ring.start(&mem, endian)?;
//! ring.disable_notify(&mem)?;
//!
//! // Driver: descriptor 2 is a frame of 60 bytes.
//! mem.set_desc(2, GUEST, 60, 0, 0);
//! mem.publish(&[2]);
//!
//! // Device: the frame is one segment in the owner's memory.
//! let chain = ring.pop(&mem, &mut ram, &mut segs)?.unwrap();
//! assert_eq!((chain.head, chain.out_len, chain.in_len), (2, 60, 0));
//! assert_eq!(segs.list, [(USER, 60)]);
//! assert_eq!(ring.pop(&mem, &mut ram, &mut segs)?, None);
//!
//! // Device: done with it. Does the driver want to know?
//! ring.add_used(&mem, &[UsedElem::new(u32::from(chain.head), 0, endian)])?;
//! assert!(ring.needs_signal(&mem)?);
//! assert_eq!(mem.used(), [(2, 0)]);
//!
//! // Device: nothing came in the meantime, so sleep until the next kick.
//! assert!(!ring.enable_notify(&mem)?);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(kernel), no_std)]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(test)]
extern crate self as vring;
#[cfg(test)]
extern crate std;

mod addr;
mod ahead;
mod budget;
mod chain;
mod endian;
mod error;
pub mod layout;
mod mem;
mod mem_table;
mod split;
#[cfg(test)]
mod testing;

pub use addr::{
    GuestAddr,
    UserAddr, //
};
pub use budget::Budget;
pub use chain::Chain;
pub use endian::{
    Endian,
    V16,
    V32,
    V64, //
};
pub use error::Error;
pub use layout::{
    Desc,
    UsedElem, //
};
pub use mem::{
    Access,
    Fault,
    GuestMem,
    Part,
    RingMem,
    SegSink, //
};
pub use mem_table::{
    Hint,
    MemTable,
    Region, //
};
pub use split::{
    Features,
    Split, //
};
