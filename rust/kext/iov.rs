// SPDX-License-Identifier: GPL-2.0

//! Scattered user memory: what a descriptor chain says, after translation.
//!
//! C header: [`include/linux/uio.h`](srctree/include/linux/uio.h)

use core::{
    marker::PhantomData,
    mem::MaybeUninit, //
};
use kernel::{
    bindings,
    prelude::*, //
};

/// A piece of user memory: an allegation, which is checked when it is copied from or to.
///
/// It has the layout of `struct iovec`.
#[repr(C)]
struct IoVec {
    base: usize,
    len: usize,
}

const _: () = {
    assert!(size_of::<IoVec>() == size_of::<bindings::iovec>());
    assert!(align_of::<IoVec>() == align_of::<bindings::iovec>());
    assert!(core::mem::offset_of!(IoVec, base) == core::mem::offset_of!(bindings::iovec, iov_base));
    assert!(core::mem::offset_of!(IoVec, len) == core::mem::offset_of!(bindings::iovec, iov_len));
};

/// Pieces of user memory, in the order in which their bytes count.
///
/// # Invariants
///
/// `total` is the sum of the lengths of `vec`.
#[derive(Default)]
pub struct IoVecs {
    vec: KVec<IoVec>,
    total: usize,
}

impl IoVecs {
    /// Makes an empty list that can take `capacity` pieces.
    ///
    /// # Errors
    ///
    /// `ENOMEM`
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        // INVARIANT: The sum of nothing is 0.
        Ok(Self {
            vec: KVec::with_capacity(capacity, GFP_KERNEL)?,
            total: 0,
        })
    }

    /// Adds `len` bytes at the user address `base`.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: there is no room for another piece.
    #[inline]
    pub fn push(&mut self, base: usize, len: usize) -> Result {
        let total = self.total.checked_add(len).ok_or(ENOBUFS)?;
        let pushed = self.vec.push_within_capacity(IoVec { base, len });
        pushed.map_err(|_| ENOBUFS)?;
        // INVARIANT: The piece was added.
        self.total = total;
        Ok(())
    }

    /// Takes all pieces away.
    #[inline]
    pub fn clear(&mut self) {
        self.vec.clear();
        // INVARIANT: The sum of nothing is 0.
        self.total = 0;
    }

    /// Writes bytes, `skip` bytes behind the start of the first `total`.
    ///
    /// Context: as [`crate::user`].
    ///
    /// # Errors
    ///
    /// `EFAULT`: there is no room for all of the bytes, or some can't be written; others may have
    /// been.
    #[inline]
    pub fn write_at(&self, total: usize, skip: usize, bytes: &[u8]) -> Result {
        let mut iter = self.iter(Direction::Dest, total, skip);
        // SAFETY: `bytes` is valid for reads of its length, and `iter` by its invariants.
        let copied =
            unsafe { bindings::_copy_to_iter(bytes.as_ptr().cast(), bytes.len(), &mut iter.iter) };
        if copied == bytes.len() {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }

    /// Makes an `iov_iter` over the first `total` bytes, behind the first `skip` of them.
    #[inline]
    pub(crate) fn iter(&self, dir: Direction, total: usize, skip: usize) -> IovIter<'_> {
        let dir = match dir {
            Direction::Source => bindings::ITER_SOURCE,
            Direction::Dest => bindings::ITER_DEST,
        };
        let mut iter = MaybeUninit::uninit();
        // SAFETY: `IoVec` has the layout of `struct iovec`. By the type invariants, the pieces have
        // as many bytes as the iterator is told, which goes on for as long as there should be
        // bytes. The function initialises all of `iter`.
        let mut iter = unsafe {
            bindings::iov_iter_init(
                iter.as_mut_ptr(),
                dir,
                self.vec.as_ptr().cast(),
                self.vec.len(),
                total.min(self.total),
            );
            iter.assume_init()
        };
        // SAFETY: `iter` was initialised; to advance beyond its end is to go to its end.
        unsafe { bindings::iov_iter_advance(&mut iter, skip) };
        // INVARIANT: `iter` refers to the pieces, which are borrowed for the lifetime, and counts no
        // more bytes than they have, as `total` was cut above.
        IovIter {
            iter,
            _pieces: PhantomData,
        }
    }
}

/// Which way bytes go through an [`IovIter`].
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// Out of user memory: a device-readable chain.
    Source,
    /// Into user memory: a device-writable chain.
    Dest,
}

/// A position in scattered user memory.
///
/// # Invariants
///
/// `self.iter` is initialised, and refers to pieces that are valid for `'a` and have all the bytes
/// that it counts.
pub(crate) struct IovIter<'a> {
    iter: bindings::iov_iter,
    _pieces: PhantomData<&'a [IoVec]>,
}

impl IovIter<'_> {
    /// Gives the C structure away; it must not be used longer than `self` is valid.
    #[inline]
    pub(crate) fn into_raw(self) -> bindings::iov_iter {
        self.iter
    }
}
