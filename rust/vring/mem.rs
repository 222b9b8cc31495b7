// SPDX-License-Identifier: GPL-2.0

//! The traits through which the ring logic touches memory.
//!
//! The guest may rewrite any byte of it at any time. So there is no method that lends a reference
//! to it: each one moves bytes once, and what was fetched is a copy.

use crate::addr::{
    GuestAddr,
    UserAddr, //
};
use crate::endian::V16;
use crate::error::Error;

/// A part of a split ring; each is an area of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The descriptor table.
    Desc,
    /// The avail ring, with `used_event` at its end.
    Avail,
    /// The used ring, with `avail_event` at its end.
    Used,
}

/// A memory access failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Access to one ring in guest memory.
///
/// Offsets count from the beginning of the part. They are always within the size that
/// [`layout`](crate::layout) gives for the ring, and those of 16-bit accesses are even.
///
/// Each method touches guest memory exactly once.
pub trait RingMem {
    /// Loads a 16-bit field with one untorn access.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the memory cannot be read.
    fn load16(&self, part: Part, off: usize) -> Result<V16, Fault>;

    /// Stores a 16-bit field of the used ring with one untorn access.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the memory cannot be written.
    fn store16(&self, off: usize, val: V16) -> Result<(), Fault>;

    /// Copies bytes out of a part of the ring.
    ///
    /// # Errors
    ///
    /// [`Fault`] if not all of it could be read; `dst` then holds anything.
    fn read(&self, part: Part, off: usize, dst: &mut [u8]) -> Result<(), Fault>;

    /// Copies bytes into the used ring.
    ///
    /// # Errors
    ///
    /// [`Fault`] if not all of it could be written; some of it may have been.
    fn write_used(&self, off: usize, src: &[u8]) -> Result<(), Fault>;

    /// Orders loads before it against loads after it, as other CPUs see them.
    fn rmb(&self);

    /// Orders stores before it against stores after it, as other CPUs see them.
    fn wmb(&self);

    /// Orders all accesses before it against all after it, as other CPUs see them.
    fn mb(&self);
}

/// What the device does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The device reads it.
    Read,
    /// The device writes it.
    Write,
}

/// Takes the segments of a chain, one after the other.
pub trait SegSink {
    /// Takes the next segment.
    ///
    /// # Errors
    ///
    /// [`Error::Segments`] if there is no room for it.
    fn push(&mut self, addr: UserAddr, len: usize) -> Result<(), Error>;
}

/// Access to the memory that descriptors name.
pub trait GuestMem {
    /// Translates a buffer and pushes its segments in order; returns how many.
    ///
    /// A buffer of length 0 has no segment, wherever it is.
    ///
    /// # Errors
    ///
    /// [`Error::Unmapped`] or [`Error::Perm`] for the first address that cannot be accessed, and
    /// whatever the sink returns. Segments before it may have been pushed.
    fn translate(
        &mut self,
        addr: GuestAddr,
        len: u32,
        access: Access,
        sink: &mut impl SegSink,
    ) -> Result<u32, Error>;

    /// Copies bytes out of guest memory, once.
    ///
    /// # Errors
    ///
    /// [`Fault`] if not all of it could be read; `dst` then holds anything.
    fn read(&mut self, addr: UserAddr, dst: &mut [u8]) -> Result<(), Fault>;
}
