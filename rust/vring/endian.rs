// SPDX-License-Identifier: GPL-2.0

//! Ring fields as they lie in memory.
//!
//! A virtio 1.0 ring is little-endian; a legacy ring has the guest's byte order. So a field has no
//! value until somebody says which.

/// A byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The byte order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "little") {
        Self::Little
    } else {
        Self::Big
    };
}

/// Defines a field type over an integer.
macro_rules! field {
    ($(#[$attr:meta])* $name:ident, $int:ty, $size:literal) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name($int);

        impl $name {
            /// Makes the field that holds `value` in the given byte order.
            #[inline]
            pub const fn new(value: $int, endian: Endian) -> Self {
                match endian {
                    Endian::Little => Self(value.to_le()),
                    Endian::Big => Self(value.to_be()),
                }
            }

            /// Returns the value, read in the given byte order.
            #[inline]
            pub const fn get(self, endian: Endian) -> $int {
                match endian {
                    Endian::Little => <$int>::from_le(self.0),
                    Endian::Big => <$int>::from_be(self.0),
                }
            }

            /// Makes a field of the integer that a plain load of it returned.
            #[inline]
            pub const fn from_raw(raw: $int) -> Self {
                Self(raw)
            }

            /// Returns the integer that a plain store has to write.
            #[inline]
            pub const fn raw(self) -> $int {
                self.0
            }

            /// Makes a field of its bytes in memory order.
            #[inline]
            pub const fn from_ne_bytes(bytes: [u8; $size]) -> Self {
                Self(<$int>::from_ne_bytes(bytes))
            }

            /// Returns the bytes in memory order.
            #[inline]
            pub const fn to_ne_bytes(self) -> [u8; $size] {
                self.0.to_ne_bytes()
            }
        }
    };
}

field! {
    /// A 16-bit ring field as it lies in memory.
    ///
    /// C twin: `__virtio16`.
    ///
    /// # Examples
    ///
    /// ```
    /// use vring::{Endian, V16};
    ///
    /// let field = V16::new(0x1234, Endian::Big);
    /// assert_eq!(field.to_ne_bytes(), [0x12, 0x34]);
    /// assert_eq!(field.get(Endian::Big), 0x1234);
    /// assert_eq!(field.get(Endian::Little), 0x3412);
    /// ```
    V16, u16, 2
}

field! {
    /// A 32-bit ring field as it lies in memory.
    ///
    /// C twin: `__virtio32`.
    ///
    /// # Examples
    ///
    /// ```
    /// use vring::{Endian, V32};
    ///
    /// assert_eq!(V32::from_ne_bytes([1, 0, 0, 0]).get(Endian::Little), 1);
    /// ```
    V32, u32, 4
}

field! {
    /// A 64-bit ring field as it lies in memory.
    ///
    /// C twin: `__virtio64`.
    ///
    /// # Examples
    ///
    /// ```
    /// use vring::{Endian, V64};
    ///
    /// assert_eq!(V64::new(7, Endian::NATIVE).raw(), 7);
    /// ```
    V64, u64, 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_orders_differ_and_round_trip() {
        for endian in [Endian::Little, Endian::Big] {
            assert_eq!(V16::new(0x0102, endian).get(endian), 0x0102);
            assert_eq!(V32::new(0x0102_0304, endian).get(endian), 0x0102_0304);
            assert_eq!(
                V64::new(0x0102_0304_0506_0708, endian).get(endian),
                0x0102_0304_0506_0708
            );
        }
        assert_eq!(V16::new(0x0102, Endian::Little).to_ne_bytes(), [2, 1]);
        assert_eq!(
            V32::new(0x0102_0304, Endian::Little).to_ne_bytes(),
            [4, 3, 2, 1]
        );
        assert_eq!(
            V64::new(1, Endian::Big).to_ne_bytes(),
            [0, 0, 0, 0, 0, 0, 0, 1]
        );
    }

    #[test]
    fn raw_is_what_lies_in_memory() {
        let field = V16::from_ne_bytes([0xab, 0xcd]);
        assert_eq!(V16::from_raw(field.raw()), field);
        assert_eq!(field.get(Endian::NATIVE), field.raw());
    }
}
