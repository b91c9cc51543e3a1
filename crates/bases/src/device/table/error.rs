//! Reasons why a partition table cannot be read.

use std::fmt;

use vnode::Errno;

/// The reason why a partition table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// The partition of this number is empty, or does not end within the device or within the extended partition that it is in.
    OutOfRange(u32),
    /// The list of logical partitions leads back to one of them.
    Loop,
    /// There are more logical partitions than Plyfs reads.
    TooMany,
    /// An entry of the list of logical partitions is no partition table.
    NoLogicalTable,
    /// Both copies of a GPT are damaged or missing.
    Damaged,
    /// The device cannot be read.
    Device(Errno),
}

impl fmt::Display for TableError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self {
            Self::OutOfRange(number) => &format!("partition {number} does not end within the device"),
            Self::Loop => "the list of logical partitions leads back to one of them",
            Self::TooMany => "it has more than 128 logical partitions",
            Self::NoLogicalTable => "the list of logical partitions is damaged",
            Self::Damaged => "both copies of its GPT are damaged",
            Self::Device(errno) => return write!(formatter, "its partition table cannot be read: {errno}"),
        };
        write!(formatter, "its partition table is invalid: {cause}; correct it with fdisk(8)")
    }
}

impl std::error::Error for TableError {}
