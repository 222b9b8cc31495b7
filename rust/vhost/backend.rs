// SPDX-License-Identifier: GPL-2.0

//! What is behind a virtqueue: a socket, and the wait for its events.

use crate::{
    dev::{
        Net,
        RX, //
    },
    vq::Vq, //
};
use kernel::prelude::*;
use kext::{
    poll::{
        Events,
        FilePoll,
        Wake, //
    },
    socket::Socket, //
};

/// The socket behind a virtqueue.
pub(crate) struct Backend {
    pub(crate) sock: Socket,
    /// Queues the handler when the socket can be read (RX) or written (TX).
    poll: Pin<KBox<FilePoll>>,
}

impl Backend {
    fn new(sock: Socket, events: Events, wake: Wake) -> Result<Self> {
        let poll = FilePoll::new(sock.file(), events, wake);
        let poll = KBox::pin_init(poll, GFP_KERNEL)?;
        Ok(Self { sock, poll })
    }

    /// Waits for events of the socket.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the socket reports an error condition.
    #[inline]
    pub(crate) fn start(&mut self) -> Result {
        self.poll.as_mut().start()
    }

    /// Waits no longer for events of the socket.
    #[inline]
    pub(crate) fn stop(&mut self) {
        self.poll.as_mut().stop();
    }
}

/// Looks up what `VHOST_NET_SET_BACKEND` names; `None` for -1, which detaches.
fn from_fd(fd: i32, index: usize, wake: Wake) -> Result<Option<Backend>> {
    if fd == -1 {
        return Ok(None);
    }
    let events = if index == RX { Events::In } else { Events::Out };
    Backend::new(Socket::from_fd(fd)?, events, wake).map(Some)
}

/// Makes `new` the backend, and returns the one before. On an error, that one goes on.
fn attach(vq: &mut Vq, mut new: Option<Backend>) -> Result<Option<Backend>> {
    if let Some(old) = &mut vq.backend {
        old.stop();
    }
    let started = match &mut new {
        Some(new) => start_ring(vq).and_then(|()| new.start()),
        None => Ok(()),
    };
    if let Err(err) = started {
        if let Some(old) = &mut vq.backend {
            // The old socket was good when it was attached. If it no longer is, there is nothing
            // to wait for, and the owner is told of this error anyway.
            let _ = old.start();
        }
        return Err(err);
    }
    Ok(core::mem::replace(&mut vq.backend, new))
}

/// Gets the ring going where its used index stands.
fn start_ring(vq: &mut Vq) -> Result {
    let endian = vq.features().endian();
    let started = vq.ring.start(&vq.addr, endian);
    started.map_err(|err| {
        vq.fail();
        crate::error::to_kernel(err)
    })
}

impl Net {
    /// `VHOST_NET_SET_BACKEND`: puts a socket behind a virtqueue, or takes it away.
    ///
    /// When it returns, the former socket is not used any more.
    ///
    /// C twin: `vhost_net_set_backend()`.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the caller is not the owner.
    /// - `ENOBUFS`: there is no such queue.
    /// - `EFAULT`: there is no memory table, it or the ring lies outside of what user space may
    ///   have, or the ring can't be accessed.
    /// - `ENOTSOCK`: `fd` is neither of a tap, a tun or a macvtap, nor a raw packet socket.
    /// - `EINVAL`: the socket reports an error condition.
    /// - `ENOMEM`
    pub(crate) fn set_backend(&self, index: u32, fd: i32) -> Result<isize> {
        let dev = self.dev.lock();
        let owner = dev.owner()?;
        let (index, vq) = self.vq(index)?;
        let mut vq = vq.lock();
        if !vq.access_ok() {
            return Err(EFAULT);
        }
        let wake = vq.wake.clone().ok_or(EPERM)?;
        let new = from_fd(fd, index, wake)?;
        if let (Some(new), Some(old)) = (&new, &vq.backend) {
            if new.sock.is_same(&old.sock) {
                return Ok(0);
            }
        }
        let old = attach(&mut vq, new)?;
        drop(vq);
        if old.is_some() {
            // The handler may have been at work with the former socket when it was replaced, and
            // it may be queued for it still.
            owner.worker.flush();
        }
        Ok(0)
    }
}
