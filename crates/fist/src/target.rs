//! Targets: what differs between the machines and kernels for which a program is prepared.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::numbers::{ERRORS, FLAGS};
use crate::tree::Direction;

/// The machine and kernel for which a program is prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Page size in bytes: the unit passed to filters, and the value of `%pagesize`.
    pub page_bytes: u64,
    /// Byte order of integers in memory.
    pub byte_order: ByteOrder,
    /// Maximum alignment of integers; a smaller integer is aligned to its size.
    pub alignment_max: u64,
    /// Error numbers.
    pub errors: BTreeMap<&'static str, i32>,
    /// Values of flags and file types.
    pub flags: BTreeMap<&'static str, i64>,
    /// Error numbers available to a FiST program's own errors.
    pub own_errors: RangeInclusive<i32>,
    /// Encoding of ioctl numbers.
    pub ioctls: IoctlEncoding,
}

/// Byte order of integers in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Encoding of ioctl numbers (Linux, `_IOC`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlEncoding {
    /// Direction bits for data from the user process.
    pub from_user: u32,
    /// Direction bits for data to the user process.
    pub to_user: u32,
    /// Shift of the direction bits.
    pub way_shift: u32,
    /// Shift of the size.
    pub size_shift: u32,
    /// Width of the size in bits.
    pub size_bits: u32,
    /// Shift of the driver's type letter.
    pub letter_shift: u32,
}

/// The type letter of FiST ioctls.
const LETTER: u32 = b'F' as u32;

impl ByteOrder {
    /// The byte order of this machine.
    pub const HOST: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    /// Writes the low bytes of a value, as many as the buffer has.
    #[inline]
    pub fn write(self, value: i64, bytes: &mut [u8]) {
        match self {
            ByteOrder::Little => bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]),
            ByteOrder::Big => bytes.copy_from_slice(&value.to_be_bytes()[8 - bytes.len()..]),
        }
    }

    /// Reads a value from at most eight bytes, zero-extended.
    #[inline]
    pub fn read(self, bytes: &[u8]) -> i64 {
        let mut whole = [0; 8];
        match self {
            ByteOrder::Little => {
                whole[..bytes.len()].copy_from_slice(bytes);
                i64::from_le_bytes(whole)
            }
            ByteOrder::Big => {
                whole[8 - bytes.len()..].copy_from_slice(bytes);
                i64::from_be_bytes(whole)
            }
        }
    }
}

impl IoctlEncoding {
    /// The encoding of most machines (Linux, asm-generic/ioctl.h).
    pub const GENERIC: IoctlEncoding =
        IoctlEncoding { from_user: 1, to_user: 2, way_shift: 30, size_shift: 16, size_bits: 14, letter_shift: 8 };

    /// Maximum size of data in bytes that an ioctl number can encode.
    pub const fn bytes_max(self) -> u64 {
        (1 << self.size_bits) - 1
    }

    /// Returns the number of an ioctl, as ioctl(2) takes it.
    pub const fn command(self, direction: Direction, bytes: u64, number: u32) -> u32 {
        let way = match direction {
            Direction::FromUser => self.from_user,
            Direction::ToUser => self.to_user,
            Direction::Both => self.from_user | self.to_user,
        };
        way << self.way_shift | (bytes as u32) << self.size_shift | LETTER << self.letter_shift | number
    }
}

impl Target {
    /// This machine, on which a server runs programs.
    pub fn host() -> Target {
        Target {
            page_bytes: 4096,
            byte_order: ByteOrder::HOST,
            alignment_max: 8,
            errors: ERRORS.into_iter().collect(),
            flags: FLAGS.into_iter().collect(),
            // Linux's end at 133, and a server may return up to 511 (fs/fuse/dev.c: `fuse_dev_do_write`).
            own_errors: 134..=511,
            ioctls: IoctlEncoding::GENERIC,
        }
    }

    /// Returns the number of an error; `EIO` for one that the target does not have.
    pub fn error(&self, name: &str) -> i32 {
        self.errors.get(name).or_else(|| self.errors.get("EIO")).copied().unwrap_or(libc::EIO)
    }

    /// Returns the value of a flag or file type; 0 for one that the target does not have.
    pub fn flag(&self, name: &str) -> i64 {
        self.flags.get(name).copied().unwrap_or(0)
    }
}

impl Default for Target {
    fn default() -> Target {
        Target::host()
    }
}
