// SPDX-License-Identifier: GPL-2.0

//! The ioctls of the device.
//!
//! All of them return 0 on success. Where several things are wrong with a call, the error is the
//! one that the C twin would find first.

use crate::{
    dev::{
        Net,
        Owner, //
    },
    error::to_kernel,
    features::{
        Features,
        WORDS, //
    },
    guest_mem::{
        MemTable,
        RingAddr, //
    },
    vq::{
        table_access_ok,
        Kick,
        Vq, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    uaccess::{
        UserPtr,
        UserSlice,
        UserSliceReader,
        UserSliceWriter, //
    }, //
};
use kext::{
    eventfd::{
        eventfd_file,
        EventFd, //
    },
    poll::{
        Events,
        FilePoll, //
    },
    uapi::ioctl,
    user, //
};
use vring::{
    GuestAddr,
    Region,
    UserAddr, //
};

/// How many bytes a feature word has.
const WORD: usize = size_of::<u64>();

/// The argument of an ioctl: an address in the caller's memory.
#[derive(Clone, Copy)]
struct Arg(UserPtr);

impl Arg {
    fn reader(self, len: usize) -> UserSliceReader {
        UserSlice::new(self.0, len).reader()
    }

    fn writer(self, len: usize) -> UserSliceWriter {
        UserSlice::new(self.0, len).writer()
    }

    fn skip(self, len: usize) -> Self {
        Self(self.0.wrapping_byte_add(len))
    }

    /// Reads the `__u64` that the argument points to.
    fn read_u64(self) -> Result<u64> {
        self.reader(WORD).read()
    }

    fn write_u64(self, val: u64) -> Result<isize> {
        self.writer(WORD).write(&val)?;
        Ok(0)
    }

    fn read_u32(self) -> Result<u32> {
        self.reader(size_of::<u32>()).read()
    }

    fn write_u32(self, val: u32) -> Result {
        self.writer(size_of::<u32>()).write(&val)
    }

    /// Reads the number of a file; `None` for -1, which takes a file away.
    fn read_fd(self) -> Result<Option<i32>> {
        let fd: i32 = self.reader(size_of::<i32>()).read()?;
        Ok(Some(fd).filter(|&fd| fd != -1))
    }

    /// Reads the number of an eventfd, and looks it up.
    ///
    /// # Errors
    ///
    /// - `EBADF`: no open file has this number.
    /// - `EINVAL`: the file is no eventfd.
    fn read_eventfd(self) -> Result<Option<EventFd>> {
        self.read_fd()?.map(EventFd::from_fd).transpose()
    }
}

/// Serves an ioctl.
///
/// Context: process context of the caller, may sleep.
///
/// C twin: `vhost_net_ioctl()`.
///
/// # Errors
///
/// `ENOTTY`: there is no such ioctl. Others: see the function of each.
pub(crate) fn handle(net: ArcBorrow<'_, Net>, cmd: u32, arg: usize) -> Result<isize> {
    let arg = Arg(UserPtr::from_addr(arg));
    match cmd {
        ioctl::NET_SET_BACKEND => {
            let mut file = arg.reader(2 * size_of::<u32>());
            net.set_backend(file.read()?, file.read()?)
        }
        ioctl::GET_FEATURES => arg.write_u64(Features::OFFERED.words()[0]),
        ioctl::SET_FEATURES => net.set_features(Features::acked([arg.read_u64()?, 0])?),
        ioctl::GET_FEATURES_ARRAY => get_features_array(arg),
        ioctl::SET_FEATURES_ARRAY => net.set_features(read_features_array(arg)?),
        ioctl::GET_BACKEND_FEATURES => arg.write_u64(0),
        ioctl::SET_BACKEND_FEATURES => set_backend_features(arg),
        ioctl::SET_OWNER => Net::set_owner(net),
        ioctl::RESET_OWNER => net.reset_owner(),
        // There is one kind of worker. The argument of these has no index of a queue, which is what
        // unknown ioctls are looked through for.
        ioctl::SET_FORK_FROM_OWNER | ioctl::GET_FORK_FROM_OWNER => Err(ENOTTY),
        _ => net.owner_ioctl(cmd, arg),
    }
}

/// Returns the `count` feature words behind the number that the argument points to. A count that no
/// memory can hold is cut to one at which the copy still faults.
fn words_behind(arg: Arg, count: u64) -> UserSlice {
    UserSlice::new(arg.skip(WORD).0, words_len(count))
}

fn words_len(count: u64) -> usize {
    usize::try_from(count).map_or(usize::MAX, |n| n.saturating_mul(WORD))
}

/// `VHOST_GET_FEATURES_ARRAY`: the argument points to the number of words that there is room for
/// behind it. Words beyond those that the device knows are set to 0.
///
/// # Errors
///
/// - `EFAULT`: the memory can't be accessed, or it can't hold so many words.
/// - `EINTR`: a signal came.
fn get_features_array(arg: Arg) -> Result<isize> {
    let count = arg.read_u64()?;
    let mut out = words_behind(arg, count).writer();
    for word in Features::OFFERED.words() {
        if !out.is_empty() {
            out.write(word)?;
        }
    }
    let rest = arg.skip(WORD).0.as_const_ptr() as usize;
    if !user::access_ok(rest, words_len(count)) {
        // Ask first, so as not to run over memory that the caller can't mean.
        return Err(EFAULT);
    }
    let zeros = [0; 512];
    while !out.is_empty() {
        let len = out.len().min(zeros.len());
        // BOUNDS: `len` is at most the length of `zeros`.
        out.write_slice(&zeros[..len])?;
        end_if_signalled(out.len())?;
    }
    Ok(0)
}

/// Reads what `VHOST_SET_FEATURES_ARRAY` acknowledges: a number of words and the words.
///
/// # Errors
///
/// - `EFAULT`: the memory can't be accessed, or it can't hold so many words.
/// - `EOPNOTSUPP`: a bit is not offered.
/// - `EINTR`: a signal came.
fn read_features_array(arg: Arg) -> Result<Features> {
    let mut input = words_behind(arg, arg.read_u64()?).reader();
    let mut words = [0; WORDS];
    for word in &mut words {
        if !input.is_empty() {
            *word = input.read()?;
        }
    }
    while !input.is_empty() {
        if input.read::<u64>()? != 0 {
            return Err(EOPNOTSUPP);
        }
        end_if_signalled(input.len())?;
    }
    Features::acked(words)
}

/// Ends a loop over as many bytes as the caller likes, so that the caller can be killed meanwhile.
/// The last page of them is not broken off.
///
/// # Errors
///
/// `EINTR`: a signal is pending, and `left` bytes are still to come.
fn end_if_signalled(left: usize) -> Result {
    if left >= PAGE_SIZE && current!().signal_pending() {
        return Err(EINTR);
    }
    Ok(())
}

/// `VHOST_SET_BACKEND_FEATURES`: there are none to choose from.
///
/// # Errors
///
/// - `EFAULT`: the argument can't be read.
/// - `EOPNOTSUPP`: a bit is set.
fn set_backend_features(arg: Arg) -> Result<isize> {
    match arg.read_u64()? {
        0 => Ok(0),
        _ => Err(EOPNOTSUPP),
    }
}

/// Reads the memory regions that `VHOST_SET_MEM_TABLE` names.
///
/// C twin: `vhost_set_memory()`.
///
/// # Errors
///
/// - `EFAULT`: the argument can't be read; or a region is empty, or ends behind the last address.
/// - `EOPNOTSUPP`: the padding is not 0.
/// - `E2BIG`: there are more regions than the module parameter `max_mem_regions` allows.
/// - `ENOMEM`
fn read_mem_table(arg: Arg) -> Result<MemTable> {
    const REGION: usize = 4 * size_of::<u64>();

    let mut head = arg.reader(2 * size_of::<u32>());
    let (nregions, padding): (u32, u32) = (head.read()?, head.read()?);
    if padding != 0 {
        return Err(EOPNOTSUPP);
    }
    if nregions > crate::MAX_MEM_REGIONS.get().into() {
        return Err(E2BIG);
    }
    let count = nregions as usize;
    let mut input = arg.skip(2 * size_of::<u32>()).reader(count * REGION);
    let mut regions = KVVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        let (start, size, user): (u64, u64, u64) = (input.read()?, input.read()?, input.read()?);
        let _flags_padding: u64 = input.read()?;
        let region = Region::new(GuestAddr::new(start), size, UserAddr::new(user));
        regions.push(region.map_err(to_kernel)?, GFP_KERNEL)?;
    }
    Ok(MemTable::new(regions))
}

impl Net {
    /// `VHOST_SET_FEATURES`, `VHOST_SET_FEATURES_ARRAY`: takes over acknowledged features.
    ///
    /// It needs no owner, as with the C twin.
    fn set_features(&self, features: Features) -> Result<isize> {
        let _dev = self.dev.lock();
        for vq in self.vqs() {
            vq.lock().set_features(features);
        }
        Ok(0)
    }

    /// Serves the ioctls that only the owner may call.
    ///
    /// C twin: `vhost_dev_ioctl()`.
    ///
    /// # Errors
    ///
    /// `EPERM`: the caller is not the owner. Others: as [`Self::set_mem_table`] and
    /// [`Self::vring_ioctl`].
    fn owner_ioctl(&self, cmd: u32, arg: Arg) -> Result<isize> {
        let dev = self.dev.lock();
        let owner = dev.owner()?;
        match cmd {
            ioctl::SET_MEM_TABLE => {
                self.set_mem_table(arg)?;
                // The handlers may still be at work with what the former table said.
                owner.worker.flush();
                Ok(0)
            }
            // These come with the dirty log. Their argument doesn't begin with an index.
            ioctl::SET_LOG_BASE | ioctl::SET_LOG_FD => Err(ENOTTY),
            _ => self.vring_ioctl(owner, cmd, arg),
        }
    }

    /// `VHOST_SET_MEM_TABLE`: says which memory the guest has, and where in the owner's.
    ///
    /// # Errors
    ///
    /// As [`read_mem_table`]; and `EFAULT`: a queue is in use, and a region lies outside of what
    /// user space may have. The former table stays.
    fn set_mem_table(&self, arg: Arg) -> Result {
        let table = Arc::new(read_mem_table(arg)?, GFP_KERNEL)?;
        let in_use = self.vqs().iter().any(|vq| vq.lock().backend.is_some());
        if in_use && !table_access_ok(&table) {
            return Err(EFAULT);
        }
        for vq in self.vqs() {
            vq.lock().set_mem(table.clone());
        }
        Ok(())
    }

    /// Serves the ioctls that concern one queue, whose index is the first word of the argument.
    ///
    /// C twin: `vhost_vring_ioctl()`.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: the argument can't be accessed.
    /// - `ENOBUFS`: there is no such queue.
    /// - `ENOTTY`: there is no such ioctl.
    fn vring_ioctl(&self, owner: &Owner, cmd: u32, arg: Arg) -> Result<isize> {
        let index: u32 = arg.reader(size_of::<u32>()).read()?;
        let (_, vq) = self.vq(index)?;
        let mut vq = vq.lock();
        let arg = arg.skip(size_of::<u32>());
        match cmd {
            ioctl::SET_VRING_NUM => vq.set_num(arg)?,
            ioctl::SET_VRING_ADDR => vq.set_addr(arg)?,
            ioctl::SET_VRING_BASE => vq.set_base(arg)?,
            ioctl::GET_VRING_BASE => arg.write_u32(vq.ring.base().into())?,
            ioctl::SET_VRING_KICK => {
                let (old, started) = vq.set_kick(arg.read_fd()?)?;
                drop(vq);
                if old.is_some() {
                    owner.worker.flush();
                }
                started?;
            }
            ioctl::SET_VRING_CALL => vq.call = arg.read_eventfd()?,
            ioctl::SET_VRING_ERR => vq.err = arg.read_eventfd()?,
            _ => return Err(ENOTTY),
        }
        Ok(0)
    }
}

impl Vq {
    fn refuse_in_use(&self) -> Result {
        match self.backend {
            Some(_) => Err(EBUSY),
            None => Ok(()),
        }
    }

    /// `VHOST_SET_VRING_NUM`: sets how many entries the ring has.
    ///
    /// # Errors
    ///
    /// - `EBUSY`: a backend is attached.
    /// - `EINVAL`: it is no power of two from 1 to 32768.
    fn set_num(&mut self, arg: Arg) -> Result {
        self.refuse_in_use()?;
        self.ring.set_num(arg.read_u32()?).map_err(to_kernel)
    }

    /// `VHOST_SET_VRING_BASE`: sets which available entry comes next.
    ///
    /// # Errors
    ///
    /// - `EBUSY`: a backend is attached.
    /// - `EINVAL`: it is more than 65535.
    fn set_base(&mut self, arg: Arg) -> Result {
        self.refuse_in_use()?;
        self.ring.set_base(arg.read_u32()?).map_err(to_kernel)
    }

    /// `VHOST_SET_VRING_ADDR`: sets where the three parts of the ring are, in the owner's memory.
    ///
    /// C twin: `vhost_vring_set_addr()`.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: a flag is set. That includes `VHOST_VRING_F_LOG`, as long as the dirty log
    ///   is not offered.
    /// - `EFAULT`: an address is larger than addresses are on this machine.
    /// - `EINVAL`: a part, or the address for the log, is not aligned; or a backend is attached, and the ring lies outside of
    ///   what user space may have.
    fn set_addr(&mut self, arg: Arg) -> Result {
        let mut addr = arg.reader(size_of::<u32>() + 4 * size_of::<u64>());
        let flags: u32 = addr.read()?;
        let (desc, used, avail, log): (u64, u64, u64, u64) =
            (addr.read()?, addr.read()?, addr.read()?, addr.read()?);
        if flags != 0 {
            return Err(EOPNOTSUPP);
        }
        let to_usize = |addr| usize::try_from(addr).map_err(|_| EFAULT);
        let addr = RingAddr {
            desc: to_usize(desc)?,
            avail: to_usize(avail)?,
            used: to_usize(used)?,
        };
        // The driver's entries are 2 bytes wide, the device's 4.
        if avail % 2 != 0 || used % 4 != 0 || log % 4 != 0 {
            return Err(EINVAL);
        }
        if self.backend.is_some() && !self.ring_access_ok(&addr) {
            return Err(EINVAL);
        }
        self.addr = addr;
        self.ring.moved();
        Ok(())
    }

    /// `VHOST_SET_VRING_KICK`: sets the eventfd that the driver kicks. Returns the former one, after
    /// which the worker has to be flushed, and whether the new one can be waited for.
    ///
    /// # Errors
    ///
    /// As [`Arg::read_eventfd`], and `ENOMEM`; the former one stays.
    fn set_kick(&mut self, fd: Option<i32>) -> Result<(Option<Kick>, Result)> {
        let file = fd.map(eventfd_file).transpose()?;
        if let (Some(old), Some(file)) = (&self.kick, &file) {
            if old.file().is_same(file) {
                return Ok((None, Ok(())));
            }
        }
        let wake = self.wake.clone().ok_or(EPERM)?;
        let new = file
            .map(|file| KBox::pin_init(FilePoll::new(file, Events::In, wake), GFP_KERNEL))
            .transpose()?;
        let mut old = core::mem::replace(&mut self.kick, new);
        if let Some(old) = &mut old {
            old.as_mut().stop();
        }
        let started = self
            .kick
            .as_mut()
            .map_or(Ok(()), |new| new.as_mut().start());
        Ok((old, started))
    }
}
