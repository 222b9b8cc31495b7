// SPDX-License-Identifier: GPL-2.0

//! The two kinds of address, as types that do not mix.

/// Defines an address type over `u64`.
macro_rules! address {
    ($(#[$attr:meta])* $name:ident) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Makes an address of its number.
            #[inline]
            pub const fn new(addr: u64) -> Self {
                Self(addr)
            }

            /// Returns the number.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Returns the address `offset` bytes further on, or `None` past 2^64.
            #[inline]
            pub const fn checked_add(self, offset: u64) -> Option<Self> {
                match self.0.checked_add(offset) {
                    Some(addr) => Some(Self(addr)),
                    None => None,
                }
            }
        }
    };
}

address! {
    /// What a descriptor says: a guest-physical address, or an IOVA behind an IOTLB.
    ///
    /// It cannot be accessed; [`GuestMem::translate()`](crate::GuestMem::translate) has to
    /// make [`UserAddr`]s of it first.
    ///
    /// # Examples
    ///
    /// ```
    /// use vring::GuestAddr;
    ///
    /// let addr = GuestAddr::new(u64::MAX - 1);
    /// assert_eq!(addr.checked_add(1), Some(GuestAddr::new(u64::MAX)));
    /// assert_eq!(addr.checked_add(2), None);
    /// ```
    GuestAddr
}

address! {
    /// An address in the address space of the device's owner.
    ///
    /// It is no pointer: the device layer still checks and copies.
    ///
    /// # Examples
    ///
    /// ```
    /// use vring::UserAddr;
    ///
    /// assert_eq!(UserAddr::new(0x7000).get(), 0x7000);
    /// ```
    UserAddr
}
