//! Inode numbers, as statx(2) and getdents64(2) report them.

use std::fmt;

/// An inode number. Two objects of a file system that exist at the same time have two numbers, as far as a base can tell; a later
/// object may get the number of one that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct InodeNumber(u64);

impl InodeNumber {
    /// Creates the inode number from the number that a system call or a format has.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number, as system calls and formats have it.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// In decimal digits, as ls(1) and stat(1) show it.
impl fmt::Display for InodeNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_shown_in_the_width_that_is_requested() {
        let number = InodeNumber::new(42);
        assert_eq!((number.get(), format!("{number} {number:>5} {number:<5}|")), (42, "42    42 42   |".to_owned()));
    }
}
