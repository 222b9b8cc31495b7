// SPDX-License-Identifier: GPL-2.0

//! Module parameters that can be read in `/sys/module/<module>/parameters`.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)
//!
//! Parameters made by [`kernel::prelude::module!`] are in no such file, take any value of their
//! type, and are refused without a word on what would be right.

use core::{
    cell::UnsafeCell,
    marker::PhantomData, //
};
use kernel::{
    bindings,
    fmt::{
        self,
        Write, //
    },
    prelude::*,
    str::{
        parse_int::ParseInt,
        BStr, //
    }, //
};

/// Which values a parameter takes, and how they look as text.
pub trait Kind: Sync + 'static {
    /// What is stored.
    type Value: Copy + Send + Sync;

    /// The type that `modinfo` shows.
    const TYPE: &'static str;

    /// Reads a value from what follows `=` on the command line; [`None`] refuses it.
    fn parse(&self, text: &BStr) -> Option<Self::Value>;

    /// Says what [`Self::parse`] takes, to follow "expected".
    fn expected(&self, f: &mut dyn Write) -> fmt::Result;

    /// Writes a value as [`Self::parse`] would read it.
    fn show(value: &Self::Value, f: &mut dyn Write) -> fmt::Result;
}

/// A whole number between two limits, both included.
pub struct Range<T> {
    min: T,
    max: T,
}

impl<T> Range<T> {
    /// Takes the numbers from `min` to `max`.
    pub const fn new(min: T, max: T) -> Self {
        Self { min, max }
    }
}

impl Kind for Range<u16> {
    type Value = u16;
    const TYPE: &'static str = "ushort";

    fn parse(&self, text: &BStr) -> Option<u16> {
        let value = u16::from_str(text).ok()?;
        (self.min..=self.max).contains(&value).then_some(value)
    }

    fn expected(&self, f: &mut dyn Write) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.min, self.max)
    }

    fn show(value: &u16, f: &mut dyn Write) -> fmt::Result {
        write!(f, "{value}")
    }
}

/// The name of a device node: 1 to [`Self::MAX_LEN`] of the characters `A-Z a-z 0-9 _ -`.
///
/// # Invariants
///
/// The bytes before the first NUL are such a name, and there is a NUL.
#[derive(Clone, Copy)]
pub struct NodeName([u8; NodeName::MAX_LEN + 1]);

impl NodeName {
    /// The most characters that a name may have.
    pub const MAX_LEN: usize = 31;

    /// Makes a name, or [`None`] where the text is not one.
    pub const fn new(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() > Self::MAX_LEN {
            return None;
        }
        let mut bytes = [0; Self::MAX_LEN + 1];
        let mut i = 0;
        while i < text.len() {
            // BOUNDS: `i < text.len() <= MAX_LEN`.
            if !matches!(text[i], b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-') {
                return None;
            }
            bytes[i] = text[i];
            i += 1;
        }
        // INVARIANT: Each byte was checked, and the last one was not written to.
        Some(Self(bytes))
    }

    /// Makes a name of a constant. To be used where the compiler evaluates it: there, a text that
    /// is no name does not build.
    pub const fn of_constant(text: &CStr) -> Self {
        match Self::new(text.to_bytes()) {
            Some(name) => name,
            // PANIC: While compiling only, see above.
            None => panic!(),
        }
    }

    /// Returns the name as C has it.
    pub fn as_cstr(&self) -> &CStr {
        // By the type invariant there is a NUL, so the default is never taken.
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// Takes any [`NodeName`].
pub struct AnyNodeName;

impl Kind for AnyNodeName {
    type Value = NodeName;
    const TYPE: &'static str = "string";

    fn parse(&self, text: &BStr) -> Option<NodeName> {
        NodeName::new(text)
    }

    fn expected(&self, f: &mut dyn Write) -> fmt::Result {
        write!(
            f,
            "1 to {} of the characters A-Z a-z 0-9 _ -",
            NodeName::MAX_LEN
        )
    }

    fn show(value: &NodeName, f: &mut dyn Write) -> fmt::Result {
        f.write_str(value.as_cstr().to_str().map_err(|_| fmt::Error)?)
    }
}

/// A module parameter; [`crate::module_param!`] declares one.
///
/// # Invariants
///
/// `value` is written only by [`KernelParam::set`], that is while the arguments of the module are
/// parsed: `load_module()` does that on one thread, before it creates the files in sysfs and before
/// any other code of the module runs. The files are read-only and have no `store` function.
pub struct Param<K: Kind> {
    name: &'static CStr,
    kind: K,
    value: UnsafeCell<K::Value>,
}

// SAFETY: By the type invariant, nothing reads `value` until it has been written for the last
// time, and `K` and `K::Value` may be shared.
unsafe impl<K: Kind> Sync for Param<K> {}

impl<K: Kind> Param<K> {
    /// Makes the parameter `name=`. The default is not checked against `kind`.
    pub const fn new(name: &'static CStr, kind: K, default: K::Value) -> Self {
        // INVARIANT: Nothing has been written yet.
        Self {
            name,
            kind,
            value: UnsafeCell::new(default),
        }
    }

    /// Returns the value that the module was loaded with, or the default.
    pub fn get(&self) -> K::Value {
        // SAFETY: By the type invariant, the value no longer changes.
        unsafe { *self.value.get() }
    }

    /// Explains in one line of the kernel log why `text` is refused.
    fn refuse(&self, text: &BStr) {
        pr_err!(
            "{}={} is not valid: expected {}\n",
            self.name,
            text,
            Expected(&self.kind)
        );
    }
}

/// Prints what a kind of parameter takes.
struct Expected<'a, K>(&'a K);

impl<K: Kind> fmt::Display for Expected<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expected(f)
    }
}

/// A `struct kernel_param`, to be put in the section `__param`.
#[doc(hidden)]
#[repr(transparent)]
pub struct KernelParam(bindings::kernel_param);

// SAFETY: Only the C side reads it, under a lock of its own.
unsafe impl Sync for KernelParam {}

impl KernelParam {
    /// Describes `param` to the module loader: readable by all, writable by nobody.
    pub const fn new<K: Kind>(param: &'static Param<K>, module: &ThisModule) -> Self {
        Self(bindings::kernel_param {
            name: kernel::str::as_char_ptr_in_const_context(param.name),
            mod_: module.as_ptr(),
            ops: Ops::<K>::OPS,
            perm: 0o444,
            level: -1,
            flags: 0,
            __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 {
                arg: core::ptr::from_ref(param).cast_mut().cast(),
            },
        })
    }
}

/// The functions behind a [`KernelParam`] of one kind.
struct Ops<K>(PhantomData<K>);

impl<K: Kind> Ops<K> {
    const OPS: &'static bindings::kernel_param_ops = &bindings::kernel_param_ops {
        flags: 0,
        set: Some(Self::set),
        get: Some(Self::get),
        free: None,
    };

    /// Sets the value; given twice, a parameter has the last one, as in C.
    ///
    /// # Safety
    ///
    /// Called by `parse_one()` only, with the text of the argument and the [`KernelParam`] of a
    /// [`Param<K>`], while the module is being loaded.
    unsafe extern "C" fn set(text: *const c_char, kp: *const bindings::kernel_param) -> c_int {
        // SAFETY: `text` is not null, since `flags` lacks `KERNEL_PARAM_OPS_FL_NOARG`, and it is
        // NUL-terminated. It outlives this call.
        let text: &BStr = unsafe { CStr::from_char_ptr(text) }.as_ref();
        // SAFETY: By the caller's promise, `kp` comes from `KernelParam::new()` for a `Param<K>`,
        // which is a static.
        let param = unsafe { &*(*kp).__bindgen_anon_1.arg.cast::<Param<K>>() };
        let Some(value) = param.kind.parse(text) else {
            param.refuse(text);
            return EINVAL.to_errno();
        };
        // SAFETY: By the type invariant of `Param`, nobody reads or writes the value now.
        // INVARIANT: This is the write that the invariant allows.
        unsafe { *param.value.get() = value };
        0
    }

    /// Writes the value and a newline into the buffer of a read from sysfs.
    ///
    /// # Safety
    ///
    /// Called by `param_attr_show()` only, with a buffer of one page and the [`KernelParam`] of a
    /// [`Param<K>`].
    unsafe extern "C" fn get(buffer: *mut c_char, kp: *const bindings::kernel_param) -> c_int {
        // SAFETY: By the caller's promise, `kp` comes from `KernelParam::new()` for a `Param<K>`,
        // which is a static.
        let param = unsafe { &*(*kp).__bindgen_anon_1.arg.cast::<Param<K>>() };
        // SAFETY: By the caller's promise, that many bytes are valid and nobody else's. A page that
        // sysfs hands out was zeroed.
        let buffer = unsafe {
            core::slice::from_raw_parts_mut(buffer.cast::<u8>(), kernel::page::PAGE_SIZE)
        };
        let mut out = Text { buffer, len: 0 };
        match K::show(&param.get(), &mut out).and_then(|()| out.write_str("\n")) {
            // CAST: `len` is at most the size of a page.
            Ok(()) => out.len as c_int,
            Err(fmt::Error) => EOVERFLOW.to_errno(),
        }
    }
}

/// Text that grows in a buffer and does not outgrow it.
struct Text<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len.checked_add(text.len()).ok_or(fmt::Error)?;
        let free = self.buffer.get_mut(self.len..end).ok_or(fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Returns the size of [`modinfo`] of the same parts.
#[doc(hidden)]
pub const fn modinfo_len(parts: &[&[u8]]) -> usize {
    let mut len = 1;
    let mut i = 0;
    while i < parts.len() {
        // BOUNDS: `i < parts.len()`.
        len += parts[i].len();
        i += 1;
    }
    len
}

/// Joins the parts of an entry of the section `.modinfo`, and ends it with a NUL.
#[doc(hidden)]
pub const fn modinfo<const LEN: usize>(parts: &[&[u8]]) -> [u8; LEN] {
    let mut entry = [0; LEN];
    let mut len = 0;
    let mut i = 0;
    while i < parts.len() {
        let mut j = 0;
        // BOUNDS: This runs at compile time only, where a bad index is an error.
        while j < parts[i].len() {
            entry[len] = parts[i][j];
            len += 1;
            j += 1;
        }
        i += 1;
    }
    entry
}

/// Puts text into the section `.modinfo`.
#[doc(hidden)]
#[macro_export]
macro_rules! modinfo_entry {
    ($($part:expr),+) => {
        const _: () = {
            const PARTS: &[&[u8]] = &[$($part),+];
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static ENTRY: [u8; $crate::param::modinfo_len(PARTS)] = $crate::param::modinfo(PARTS);
        };
    };
}

/// Declares a module parameter that shows in `modinfo` and in sysfs.
///
/// The item is a `static` [`param::Param`], to be read with its `get()`. The macro is for the crate
/// that contains `module!`.
///
/// # Examples
///
/// ```ignore
/// kext::module_param! {
///     /// How many widgets a device may have.
///     static MAX_WIDGETS: Range<u16> = {
///         name: c"max_widgets",
///         kind: Range::new(1, 1000),
///         default: 64,
///         description: "most widgets of a device",
///     };
/// }
/// ```
///
/// [`param::Param`]: crate::param::Param
// It is the calling crate whose `module!` has made `LocalModule`.
#[expect(clippy::crate_in_macro_def)]
#[macro_export]
macro_rules! module_param {
    (
        $(#[$meta:meta])*
        $vis:vis static $ident:ident: $kind_type:ty = {
            name: $name:expr,
            kind: $kind:expr,
            default: $default:expr,
            description: $description:expr,
        };
    ) => {
        $(#[$meta])*
        $vis static $ident: $crate::param::Param<$kind_type> =
            $crate::param::Param::new($name, $kind, $default);

        const _: () = {
            #[link_section = "__param"]
            #[used(compiler)]
            static PARAM: $crate::param::KernelParam = $crate::param::KernelParam::new(
                &$ident,
                ::kernel::module::this_module::<crate::LocalModule>(),
            );
        };
        $crate::modinfo_entry!(
            b"parm=", $name.to_bytes(), b":", $description.as_bytes()
        );
        $crate::modinfo_entry!(
            b"parmtype=", $name.to_bytes(), b":",
            <$kind_type as $crate::param::Kind>::TYPE.as_bytes()
        );
    };
}
