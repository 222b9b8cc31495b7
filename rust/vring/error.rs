// SPDX-License-Identifier: GPL-2.0

//! What can go wrong, one variant per cause.

use core::fmt;

use crate::addr::GuestAddr;
use crate::mem::Fault;

/// Why a ring operation failed.
///
/// It carries the numbers, so that one line can say all about it. None of them is a kernel or user
/// address. The module prints none, as a guest could fill the log with them.
///
/// # Examples
///
/// ```
/// use vring::Error;
///
/// let err = Error::Head { head: 300, num: 256 };
/// assert_eq!(err.errno(), 22);
/// assert_eq!(err.to_string(), "chain head 300 is not below the ring size 256");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// An access to the ring itself failed.
    Fault,
    /// `avail.idx` is more than a ring ahead of what was taken.
    AvailJump {
        /// The next avail entry to take.
        last_avail_idx: u16,
        /// What the driver wrote.
        avail_idx: u16,
        /// The ring size.
        num: u16,
    },
    /// An avail entry names a descriptor that does not exist.
    Head {
        /// The avail entry.
        head: u16,
        /// The ring size.
        num: u16,
    },
    /// A descriptor goes on in one that does not exist.
    Next {
        /// The `next` field.
        next: u16,
        /// The ring size.
        num: u16,
    },
    /// A chain is longer than the ring, so it goes in circles.
    Loop {
        /// Where the chain begins.
        head: u16,
    },
    /// A chain has a device-readable buffer behind a device-writable one.
    OutAfterIn {
        /// Where the chain begins.
        head: u16,
    },
    /// The length of an indirect table is zero or no multiple of a descriptor's size.
    IndirectLen {
        /// Length of the table in bytes.
        len: u32,
    },
    /// An indirect table has more descriptors than `next` can number.
    IndirectTooBig {
        /// Length of the table in bytes.
        len: u32,
    },
    /// The last descriptor of an indirect table still has a next one.
    IndirectLoop {
        /// Length of the table in bytes.
        len: u32,
    },
    /// A descriptor names an indirect table and a next descriptor at once.
    IndirectNext {
        /// Where the chain begins.
        head: u16,
    },
    /// An indirect table holds a descriptor that names another one.
    IndirectNested,
    /// An indirect table is in the memory table but cannot be read.
    IndirectFault,
    /// A buffer is not, or not wholly, in the memory table.
    Unmapped {
        /// The first address without memory.
        addr: GuestAddr,
    },
    /// A buffer is mapped, but not for this direction.
    Perm {
        /// The first address with the wrong permission.
        addr: GuestAddr,
    },
    /// A chain has more segments than its sink can hold.
    Segments,
    /// A ring size is no power of two up to 32768.
    Num {
        /// The refused size.
        num: u32,
    },
    /// A ring position does not fit in 16 bits.
    Base {
        /// The refused position.
        base: u32,
    },
    /// A memory region is empty or ends past 2^64.
    Region {
        /// Where the region begins.
        start: GuestAddr,
        /// The refused size.
        size: u64,
    },
}

// The numbers of asm-generic, which every architecture with Rust in its kernel uses.
const EPERM: i32 = 1;
const E2BIG: i32 = 7;
const EFAULT: i32 = 14;
const EINVAL: i32 = 22;
const ENOBUFS: i32 = 105;

impl Error {
    /// Returns the positive Linux error number.
    #[inline]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Fault | Self::Unmapped { .. } | Self::Region { .. } => EFAULT,
            Self::AvailJump { .. }
            | Self::Head { .. }
            | Self::Next { .. }
            | Self::Loop { .. }
            | Self::OutAfterIn { .. }
            | Self::IndirectLen { .. }
            | Self::IndirectLoop { .. }
            | Self::IndirectNext { .. }
            | Self::IndirectNested
            | Self::IndirectFault
            | Self::Num { .. }
            | Self::Base { .. } => EINVAL,
            Self::IndirectTooBig { .. } => E2BIG,
            Self::Perm { .. } => EPERM,
            Self::Segments => ENOBUFS,
        }
    }
}

impl From<Fault> for Error {
    #[inline]
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

impl fmt::Display for Error {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Fault => f.write_str("the ring cannot be accessed"),
            Self::AvailJump {
                last_avail_idx,
                avail_idx,
                num,
            } => write!(
                f,
                "avail index went from {last_avail_idx} to {avail_idx} in a ring of {num}"
            ),
            Self::Head { head, num } => {
                write!(f, "chain head {head} is not below the ring size {num}")
            }
            Self::Next { next, num } => {
                write!(f, "next descriptor {next} is not below the ring size {num}")
            }
            Self::Loop { head } => write!(f, "chain {head} goes in circles"),
            Self::OutAfterIn { head } => {
                write!(f, "chain {head} has a readable buffer after a writable one")
            }
            Self::IndirectLen { len } => {
                write!(
                    f,
                    "indirect table of {len} bytes holds no whole descriptors"
                )
            }
            Self::IndirectTooBig { len } => {
                write!(
                    f,
                    "indirect table of {len} bytes has over 65536 descriptors"
                )
            }
            Self::IndirectLoop { len } => {
                write!(f, "indirect table of {len} bytes has no last descriptor")
            }
            Self::IndirectNext { head } => {
                write!(f, "chain {head} goes on after its indirect table")
            }
            Self::IndirectNested => f.write_str("indirect table inside an indirect table"),
            Self::IndirectFault => f.write_str("indirect table cannot be read"),
            Self::Unmapped { addr } => {
                write!(f, "guest address {:#x} is in no memory region", addr.get())
            }
            Self::Perm { addr } => write!(
                f,
                "guest address {:#x} is mapped without the needed permission",
                addr.get()
            ),
            Self::Segments => f.write_str("chain has too many segments"),
            Self::Num { num } => {
                write!(f, "ring size {num} is no power of two from 1 to 32768")
            }
            Self::Base { base } => write!(f, "ring position {base} is over 65535"),
            Self::Region { start, size } => write!(
                f,
                "memory region of {size:#x} bytes at {:#x} is empty or ends past 2^64",
                start.get()
            ),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::string::ToString;

    const ADDR: GuestAddr = GuestAddr::new(0x1000);

    /// Each variant once, with its number in the kernel.
    const ALL: [(Error, i32); 18] = [
        (Error::Fault, EFAULT),
        (
            Error::AvailJump {
                last_avail_idx: 65530,
                avail_idx: 3,
                num: 8,
            },
            EINVAL,
        ),
        (Error::Head { head: 9, num: 8 }, EINVAL),
        (Error::Next { next: 9, num: 8 }, EINVAL),
        (Error::Loop { head: 1 }, EINVAL),
        (Error::OutAfterIn { head: 1 }, EINVAL),
        (Error::IndirectLen { len: 17 }, EINVAL),
        (Error::IndirectTooBig { len: 0x10_0010 }, E2BIG),
        (Error::IndirectLoop { len: 32 }, EINVAL),
        (Error::IndirectNext { head: 1 }, EINVAL),
        (Error::IndirectNested, EINVAL),
        (Error::IndirectFault, EINVAL),
        (Error::Unmapped { addr: ADDR }, EFAULT),
        (Error::Perm { addr: ADDR }, EPERM),
        (Error::Segments, ENOBUFS),
        (Error::Num { num: 3 }, EINVAL),
        (Error::Base { base: 0x1_0000 }, EINVAL),
        (
            Error::Region {
                start: ADDR,
                size: 0,
            },
            EFAULT,
        ),
    ];

    #[test]
    fn errno_of_each() {
        for (err, errno) in ALL {
            assert_eq!(err.errno(), errno, "{err:?}");
        }
    }

    #[test]
    fn each_has_its_own_line() {
        let lines: BTreeSet<_> = ALL.iter().map(|(err, _)| err.to_string()).collect();
        assert_eq!(lines.len(), ALL.len());
        assert!(lines.iter().all(|line| !line.contains('\n')));
    }

    #[test]
    fn lines_carry_the_numbers() {
        let jump = ALL[1].0.to_string();
        assert_eq!(jump, "avail index went from 65530 to 3 in a ring of 8");
        let hole = Error::Unmapped { addr: ADDR }.to_string();
        assert_eq!(hole, "guest address 0x1000 is in no memory region");
    }

    #[test]
    fn a_fault_is_an_error() {
        assert_eq!(Error::from(Fault), Error::Fault);
    }
}
