// SPDX-License-Identifier: GPL-2.0

//! The sockets that can be behind a virtqueue: those of tun and tap devices, of macvtap and
//! ipvtap devices, and packet sockets.
//!
//! C headers: [`include/linux/net.h`](srctree/include/linux/net.h),
//! [`include/linux/if_tun.h`](srctree/include/linux/if_tun.h),
//! [`include/linux/if_tap.h`](srctree/include/linux/if_tap.h)

use crate::{
    file::FileRef,
    iov::{
        Direction,
        IoVecs, //
    },
    poll::Pollable, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::from_err_ptr,
    ffi::c_int,
    prelude::*, //
};
use vhost_bindings as ours;

/// A socket that sends and receives whole frames, together with the open file that it belongs to.
///
/// # Invariants
///
/// `self.sock` points to the socket of `self.file`, has a `sock`, and lives as long as the file.
pub struct Socket {
    sock: NonNull<bindings::socket>,
    file: FileRef,
}

// SAFETY: The operations of a socket may be called by any thread.
unsafe impl Send for Socket {}
// SAFETY: The operations of a socket do their own locking.
unsafe impl Sync for Socket {}

impl Socket {
    /// Looks a socket up by the number of a file of the current task.
    ///
    /// The number is looked up once, so that all parts of the result belong to the same file.
    ///
    /// Context: process context.
    ///
    /// C twin: `get_socket()`.
    ///
    /// # Errors
    ///
    /// `ENOTSOCK`: the number names no file, or none that can be behind a virtqueue.
    pub fn from_fd(fd: i32) -> Result<Self> {
        let file = FileRef::from_fd(fd).map_err(|_| ENOTSOCK)?;
        let sock = Self::packet(&file)
            .or_else(|| Self::tun(&file))
            .or_else(|| Self::tap(&file))
            .ok_or(ENOTSOCK)?;
        // INVARIANT: Each of the three returns the socket of the file that it was given. The file
        // keeps it: it is part of what the file's release function frees. Its `sock` is made with
        // it; only closed sockets of other families have none.
        Ok(Self { sock, file })
    }

    /// Returns the file's socket if it is a raw packet socket.
    fn packet(file: &FileRef) -> Option<NonNull<bindings::socket>> {
        // SAFETY: The file is valid. The function returns null for a file that is no socket.
        let sock = NonNull::new(unsafe { bindings::sock_from_file(file.as_ptr()) })?;
        // SAFETY: `sock` is the socket of a valid file.
        unsafe { ours::kext_sock_is_raw_packet(sock.as_ptr()) }.then_some(sock)
    }

    fn tun(file: &FileRef) -> Option<NonNull<bindings::socket>> {
        // SAFETY: The file is valid. The function returns an error for files of other kinds.
        NonNull::new(from_err_ptr(unsafe { ours::tun_get_socket(file.as_ptr()) }).ok()?)
    }

    fn tap(file: &FileRef) -> Option<NonNull<bindings::socket>> {
        // SAFETY: The file is valid. The function returns an error for files of other kinds.
        NonNull::new(from_err_ptr(unsafe { ours::tap_get_socket(file.as_ptr()) }).ok()?)
    }

    /// Returns the open file that the socket belongs to, to wait for its events.
    pub fn file(&self) -> Pollable {
        // SAFETY: The wait queue of a socket is freed with the socket, which the file keeps; and
        // those of tun and tap are part of what the file keeps.
        unsafe { Pollable::new(self.file.clone()) }
    }

    /// Tells whether two values name the same socket.
    pub fn is_same(&self, other: &Self) -> bool {
        self.sock == other.sock
    }

    /// Returns the length in bytes of the frame that would be received next, without the
    /// `virtio_net_hdr` and with a VLAN tag that is kept beside the frame; 0 if there is none.
    ///
    /// Another reader may take that frame at any time.
    ///
    /// Context: any that may take the socket's receive lock.
    #[inline]
    pub fn peek_len(&self) -> usize {
        // SAFETY: By the type invariants, the socket is valid.
        unsafe { ours::kext_sock_peek_len(self.sock.as_ptr()) }
    }

    /// Sends one frame out of user memory, without blocking.
    ///
    /// The frame is in the bytes `skip..total` of `segs`; `total` is cut to what `segs` has. `more`
    /// says that another frame follows at once.
    ///
    /// Returns the number of bytes that the socket took.
    ///
    /// Context: process context with the address space of `segs`; may sleep.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`, `ENOMEM`, `ENOBUFS`: there is no room now; try again when the socket is writable.
    /// - Others: the socket refuses this frame.
    #[inline]
    pub fn send(&self, segs: &IoVecs, total: usize, skip: usize, more: bool) -> Result<usize> {
        let flags = bindings::MSG_DONTWAIT | if more { bindings::MSG_MORE } else { 0 };
        let mut msg = message(Direction::Source, segs, total, skip, flags);
        // SAFETY: By the type invariants, the socket is valid; `msg` is initialised and refers to
        // `segs`, which outlive the call.
        let ret = unsafe {
            ours::kext_sock_sendmsg(self.sock.as_ptr(), &mut msg, total.saturating_sub(skip))
        };
        usize::try_from(ret).map_err(|_| Error::from_errno(ret))
    }

    /// Receives one frame into user memory, without blocking, and returns its whole length, also
    /// if it was longer than `want` and thus cut.
    ///
    /// The frame goes into the bytes `skip..total` of `segs`; `total` is cut to what `segs` has.
    ///
    /// Context: process context with the address space of `segs`; may sleep.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: there is no frame. Others: a frame was lost, for instance because the user memory
    /// can't be written.
    #[inline]
    pub fn recv(&self, segs: &IoVecs, total: usize, skip: usize, want: usize) -> Result<usize> {
        let flags = bindings::MSG_DONTWAIT | bindings::MSG_TRUNC;
        let mut msg = message(Direction::Dest, segs, total, skip, flags);
        // CAST: The flags are small numbers.
        let flags = flags as c_int;
        // SAFETY: As in `send()`.
        let ret = unsafe { ours::kext_sock_recvmsg(self.sock.as_ptr(), &mut msg, want, flags) };
        usize::try_from(ret).map_err(|_| Error::from_errno(ret))
    }
}

/// Makes a message that carries user memory and nothing else. It is valid for as long as `segs` is.
#[inline]
fn message(
    dir: Direction,
    segs: &IoVecs,
    total: usize,
    skip: usize,
    flags: u32,
) -> bindings::msghdr {
    // SAFETY: All of its pointers may be null, and 0 is a valid value of its other fields.
    let mut msg: bindings::msghdr = unsafe { core::mem::zeroed() };
    msg.msg_iter = segs.iter(dir, total, skip).into_raw();
    msg.msg_flags = flags;
    msg
}
