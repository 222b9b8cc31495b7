// SPDX-License-Identifier: GPL-2.0

//! Bindings to the C headers that the kernel's own bindings leave out, and to this module's C
//! helpers.
//!
//! Types that `kernel::bindings` has are not generated again: they stay the kernel's. Only the
//! `kext` crate uses this one.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

// Nobody uses all that the headers declare.
#[allow(dead_code)]
mod headers {
    use kernel::{
        bindings::*,
        ffi, //
    };
    use pin_init::MaybeZeroable;

    include!(concat!(
        env!("VHOST_BINDINGS_DIR"),
        "/bindings_generated.rs"
    ));
}

mod helpers {
    // Not every set of helpers has an argument of a type of ours.
    #[allow(unused_imports)]
    use super::headers::*;
    use kernel::{
        bindings::*,
        ffi, //
    };

    include!(concat!(env!("VHOST_BINDINGS_DIR"), "/helpers_generated.rs"));
}

pub use headers::*;
pub use helpers::*;
