// SPDX-License-Identifier: GPL-2.0

//! Misc devices with a minor number and a name that are chosen when the module loads.
//!
//! C header: [`include/linux/miscdevice.h`](srctree/include/linux/miscdevice.h)
//!
//! [`kernel::miscdevice`] knows only dynamic minors and compiled-in names, and cannot poll.

use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    module::this_module,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        ArcBorrow, //
    },
    types::{
        ForeignOwnable,
        Opaque, //
    }, //
};

/// The minor number of a misc device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minor {
    /// Any number that is free.
    Dynamic,
    /// A number from `include/linux/miscdevice.h`, such as [`VHOST_NET_MINOR`].
    Fixed(u8),
}

/// The minor number that is reserved for the vhost-net device.
pub const VHOST_NET_MINOR: u8 = {
    assert!(bindings::VHOST_NET_MINOR < bindings::MISC_DYNAMIC_MINOR);
    // CAST: It is below `MISC_DYNAMIC_MINOR`, which is `u8::MAX`.
    bindings::VHOST_NET_MINOR as u8
};

impl Minor {
    fn into_raw(self) -> Result<c_int> {
        match self {
            Self::Dynamic => Ok(DYNAMIC),
            Self::Fixed(minor) if c_int::from(minor) < DYNAMIC => Ok(minor.into()),
            Self::Fixed(_) => Err(EINVAL),
        }
    }
}

// CAST: The C macro is 255.
const DYNAMIC: c_int = bindings::MISC_DYNAMIC_MINOR as c_int;

/// What an open file of a misc device does. The implementing type is the state of one open file.
#[vtable]
pub trait MiscDevice: Sized + Send + Sync + 'static {
    /// Makes the state of a file that is being opened.
    ///
    /// Context: process, with the lock held under which all misc devices are opened, registered
    /// and deregistered. The module cannot be unloaded from here until the file is released.
    ///
    /// # Errors
    ///
    /// The error becomes the `errno` of `open()`.
    fn open() -> Result<Arc<Self>>;

    /// Ends the last use of a file; no other call for it is running or will come.
    ///
    /// Context: process, not necessarily one that had the file open.
    fn release(this: Arc<Self>);

    /// Serves an ioctl, also of 32-bit programs: `arg` is a pointer that is already widened.
    ///
    /// Context: the calling process; several calls may run at once.
    ///
    /// # Errors
    ///
    /// The error becomes the `errno` of the caller; an unknown `cmd` is `ENOTTY`.
    fn ioctl(this: ArcBorrow<'_, Self>, cmd: u32, arg: usize) -> Result<isize>;
}

/// A registered misc device, which goes away when this is dropped.
///
/// # Invariants
///
/// `inner` is registered with `misc_register()` while the value lives, and its `name` points into
/// `name`.
#[pin_data(PinnedDrop)]
pub struct Registration<T> {
    #[pin]
    inner: Opaque<bindings::miscdevice>,
    name: CString,
    _files: PhantomData<fn() -> T>,
}

// SAFETY: `misc_deregister()` may be called by another thread than `misc_register()`.
unsafe impl<T> Send for Registration<T> {}
// SAFETY: No method takes `&self`.
unsafe impl<T> Sync for Registration<T> {}

impl<T: MiscDevice> Registration<T> {
    /// Registers the device, which appears as `/dev/<name>` for root only unless a udev rule says
    /// otherwise.
    ///
    /// C function: `misc_register()`.
    ///
    /// # Errors
    ///
    /// - `EBUSY`: the fixed minor is taken, or no dynamic one is left.
    /// - `EEXIST`: another device has that name.
    /// - `EINVAL`: the fixed minor is not below `MISC_DYNAMIC_MINOR`.
    /// - `ENOMEM`
    pub fn new(name: &CStr, minor: Minor) -> Result<impl PinInit<Self, Error>> {
        if minor == Minor::Dynamic {
            refuse_taken(name)?;
        }
        let minor = minor.into_raw()?;
        let name = CString::try_from(name)?;
        let name_ptr = name.as_char_ptr();
        // INVARIANT: The text of a `CString` does not move with it, so `name_ptr` still points
        // into the field. Where `misc_register()` fails, no `Self` comes into being.
        Ok(try_pin_init!(Self {
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::miscdevice| {
                let misc = bindings::miscdevice {
                    minor,
                    name: name_ptr,
                    fops: Self::FOPS,
                    ..pin_init::zeroed()
                };
                // SAFETY: `try_ffi_init()` passes a slot that is valid for writes.
                unsafe { slot.write(misc) };
                // SAFETY: `slot` is initialised, pinned, and deregistered before it is freed.
                to_result(unsafe { bindings::misc_register(slot) })
            }),
            name,
            _files: PhantomData,
        }))
    }

    const FOPS: &'static bindings::file_operations = &bindings::file_operations {
        owner: this_module::<T::OwnerModule>().as_ptr(),
        open: Some(Self::open),
        release: Some(Self::release),
        unlocked_ioctl: Some(Self::ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        llseek: Some(bindings::noop_llseek),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by `misc_open()` only, with the file that is being opened.
    unsafe extern "C" fn open(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        match T::open() {
            Ok(this) => {
                // SAFETY: By the caller's promise nobody else can reach the file yet.
                unsafe { (*file).private_data = this.into_foreign() };
                0
            }
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// Called by the VFS only, once, for a file on which [`Self::open`] returned 0.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open()` put the result of `Arc::<T>::into_foreign()` there. The VFS releases a
        // file after all other operations on it have ended, so no borrow is left.
        T::release(unsafe { Arc::from_foreign((*file).private_data) });
        0
    }

    /// # Safety
    ///
    /// Called by the VFS only, for a file on which [`Self::open`] returned 0.
    unsafe extern "C" fn ioctl(file: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
        // SAFETY: `open()` put the result of `Arc::<T>::into_foreign()` there. The VFS holds a
        // reference on the file during the call, so `release()` comes after the borrow.
        let this = unsafe { Arc::<T>::borrow((*file).private_data) };
        // CAST: `isize` and `c_long` have the same size in the kernel.
        T::ioctl(this, cmd, arg).unwrap_or_else(|e| e.to_errno() as isize) as c_long
    }
}

#[pinned_drop]
impl<T> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant, `inner` is registered.
        unsafe { bindings::misc_deregister(self.inner.get()) };
    }
}

/// Fails with `EEXIST` if a misc device or a node in `/dev` has the name already.
///
/// `misc_register()` would fail as well, but not before sysfs has printed a stack trace; or it would
/// succeed and leave the old node in place. A fixed minor is checked before the name, and its node
/// may rightly be there, made from the module's `devname:` alias.
fn refuse_taken(name: &CStr) -> Result {
    for dir in [c"/sys/class/misc", c"/dev"] {
        let path = CString::try_from_fmt(fmt!("{dir}/{name}"))?;
        if path_exists(&path) {
            return Err(EEXIST);
        }
    }
    Ok(())
}

/// Says whether the calling process sees a file of that name.
///
/// C function: `kern_path()`. Context: may sleep.
fn path_exists(name: &CStr) -> bool {
    let mut path: bindings::path = pin_init::zeroed();
    // SAFETY: `name` is NUL-terminated, and `path` is valid for writes.
    if unsafe { vhost_bindings::kern_path(name.as_char_ptr(), 0, &mut path) } != 0 {
        return false;
    }
    // SAFETY: `kern_path()` succeeded, so `path` holds the references that this gives up.
    unsafe { bindings::path_put(&path) };
    true
}
