//! Cookies: positions in a directory, as the offsets of getdents64(2).

/// Position in a directory: that after the entry which has it. It is below 2^63, unique within the directory, and valid for as long
/// as the directory exists: after it is opened again, and after other entries, or this one, are gone.
///
/// [`Cookie::START`], [`Cookie::DOT`] and [`Cookie::DOT_DOT`] are reserved: a base that would use these itself maps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Cookie(u64);

impl Cookie {
    /// The start of the directory, before all entries. No entry has it.
    pub const START: Self = Self(0);
    /// Position after `.`, for front ends, which list it.
    pub const DOT: Self = Self(1);
    /// Position after `..`, for front ends, which list it.
    pub const DOT_DOT: Self = Self(2);
    /// The first cookie that an entry may have.
    pub const FIRST: Self = Self(3);
    /// The last cookie that an entry may have: the largest offset of a file.
    pub const LAST: Self = Self(i64::MAX as u64);

    /// Creates the cookie from the number that a system call or a format has.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number, as system calls and formats have it.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the cookie of the number after this one, for directories that assign cookies in order. To be called on cookies below
    /// [`Cookie::LAST`].
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_before_the_entries() {
        let reserved = [Cookie::START, Cookie::DOT, Cookie::DOT_DOT];
        assert_eq!(reserved.map(Cookie::next), [Cookie::DOT, Cookie::DOT_DOT, Cookie::FIRST]);
        assert!(reserved.into_iter().all(|cookie| cookie < Cookie::FIRST) && Cookie::FIRST < Cookie::LAST);
        assert_eq!(Cookie::new(Cookie::LAST.get() + 1).get(), 1 << 63, "negative as an offset");
    }
}
