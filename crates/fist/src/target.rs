//! Targets: what differs between the machines and kernels that a program is prepared for.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::numbers::{ERRORS, FLAGS};
use crate::tree::Direction;

/// What a program is prepared for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Bytes of a page: what filters are given at a time, and what `%pagesize` is.
    pub page_bytes: u64,
    /// How integers lie in memory.
    pub byte_order: ByteOrder,
    /// What addresses of integers are a multiple of at most; otherwise that is their size.
    pub alignment_max: u64,
    /// The numbers of errors.
    pub errors: BTreeMap<&'static str, i32>,
    /// The numbers of flags and kinds.
    pub flags: BTreeMap<&'static str, i64>,
    /// Numbers of errors that are free for a description's own.
    pub own_errors: RangeInclusive<i32>,
    /// How numbers of ioctls are made.
    pub ioctls: IoctlEncoding,
}

/// How integers lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest byte first.
    Little,
    /// The highest byte first.
    Big,
}

/// How numbers of ioctls are made (Linux, `_IOC`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlEncoding {
    /// The bits that say that data come from the program.
    pub from_user: u32,
    /// The bits that say that data go to it.
    pub to_user: u32,
    /// Where those stand.
    pub way_shift: u32,
    /// Where the number of bytes stands.
    pub size_shift: u32,
    /// How many bits that has.
    pub size_bits: u32,
    /// Where the letter of the driver stands.
    pub letter_shift: u32,
}

/// The letter of descriptions' ioctls.
const LETTER: u32 = b'F' as u32;

impl ByteOrder {
    /// This machine's.
    pub const HOST: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    /// The bytes of a value: so many of the lowest.
    #[inline]
    pub fn write(self, value: i64, bytes: &mut [u8]) {
        match self {
            ByteOrder::Little => bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]),
            ByteOrder::Big => bytes.copy_from_slice(&value.to_be_bytes()[8 - bytes.len()..]),
        }
    }

    /// The value that bytes are, of which there are at most eight; above them there are zeros.
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
    /// As most machines have it (Linux, asm-generic/ioctl.h).
    pub const GENERIC: IoctlEncoding =
        IoctlEncoding { from_user: 1, to_user: 2, way_shift: 30, size_shift: 16, size_bits: 14, letter_shift: 8 };

    /// The most bytes that the number of an ioctl can tell.
    pub const fn bytes_max(self) -> u64 {
        (1 << self.size_bits) - 1
    }

    /// The number of an ioctl, as ioctl(2) takes it.
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
    /// This machine, where a server runs programs.
    pub fn host() -> Target {
        Target {
            page_bytes: 4096,
            byte_order: ByteOrder::HOST,
            alignment_max: 8,
            errors: ERRORS.into_iter().collect(),
            flags: FLAGS.into_iter().collect(),
            // Linux's end at 133, and a server may answer up to 511 (fs/fuse/dev.c: `fuse_dev_do_write`).
            own_errors: 134..=511,
            ioctls: IoctlEncoding::GENERIC,
        }
    }

    /// The number of an error; one that the target does not have is its `EIO`.
    pub fn error(&self, name: &str) -> i32 {
        self.errors.get(name).or_else(|| self.errors.get("EIO")).copied().unwrap_or(libc::EIO)
    }

    /// The number of a flag or kind; one that the target does not have is 0.
    pub fn flag(&self, name: &str) -> i64 {
        self.flags.get(name).copied().unwrap_or(0)
    }
}

impl Default for Target {
    fn default() -> Target {
        Target::host()
    }
}
