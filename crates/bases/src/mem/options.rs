//! The options of `mem`: limits and the root directory's attributes, parsed from the location of a stack expression.

use std::fmt;

use super::data::PAGE_SIZE;
use crate::option_values::{mode, scaled};

/// Limits of a file system in memory, and the initial attributes of its root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum size of data and extended attributes together in bytes, rounded down to pages of 4,096 bytes.
    pub size: u64,
    /// Maximum number of inodes, including the root's.
    pub inodes: u64,
    /// The permission bits of the root directory.
    pub mode: u32,
    /// The owner of the root directory.
    pub uid: u32,
    /// The group of the root directory.
    pub gid: u32,
}

/// The reason why the options of `mem` are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsError {
    /// An option of this name does not exist.
    Unknown(String),
    /// The value of this option is missing or invalid.
    BadValue {
        /// The option.
        option: String,
        /// Description of valid values.
        expected: &'static str,
    },
}

impl Default for Options {
    /// Returns half of the machine's memory as the size, one inode for each page of that, and a root directory of the
    /// server's user.
    fn default() -> Self {
        let memory = memory_bytes();
        Self {
            size: memory / 2,
            inodes: memory / 2 / PAGE_SIZE,
            mode: 0o755,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }
}

impl Options {
    /// Parses `size=64m,inodes=1000,mode=1777,uid=0,gid=0`: each option is optional, in any order, and the text may be
    /// empty. Sizes and counts take the suffixes k, m, g and t (powers of 1,024); a size also takes `%`, of the machine's
    /// memory.
    ///
    /// # Errors
    /// [`OptionsError`], naming the option.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let bad = |expected| OptionsError::BadValue { option: key.to_owned(), expected };
            match key {
                "size" => options.size = size(value).ok_or(bad("a size from 4096, such as 64m, 2g or 25%"))?,
                "inodes" => options.inodes = count(value).ok_or(bad("a count from 1, such as 1000 or 10k"))?,
                "mode" => options.mode = mode(value).ok_or(bad("an octal mode up to 7777"))?,
                "uid" => options.uid = value.parse().map_err(|_| bad("a user id"))?,
                "gid" => options.gid = value.parse().map_err(|_| bad("a group id"))?,
                _ => return Err(OptionsError::Unknown(key.to_owned())),
            }
        }
        Ok(options)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "size={},inodes={},mode={:o}", self.size, self.inodes, self.mode)?;
        write!(formatter, ",uid={},gid={}", self.uid, self.gid)
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => {
                write!(formatter, "`mem` has no option `{option}`; it has size, inodes, mode, uid and gid")
            }
            Self::BadValue { option, expected } => write!(formatter, "the option `{option}` of `mem` takes {expected}"),
        }
    }
}

impl std::error::Error for OptionsError {}

/// Returns the machine's memory in bytes.
fn memory_bytes() -> u64 {
    let information = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion, reason = "the width of the field differs between machines")]
    let total = u64::from(information.totalram);
    total.saturating_mul(u64::from(information.mem_unit.max(1))).max(2 * PAGE_SIZE)
}

fn size(text: &str) -> Option<u64> {
    let size = match text.strip_suffix('%') {
        Some(percent) => (memory_bytes() / 100).checked_mul(percent.parse().ok()?)?,
        None => count(text)?,
    };
    (size >= PAGE_SIZE).then_some(size)
}

fn count(text: &str) -> Option<u64> {
    scaled(text).filter(|&number| number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_parsed() {
        let options = Options::parse("size=64m,inodes=2K,mode=1777,uid=5,gid=6").unwrap();
        assert_eq!(options, Options { size: 64 << 20, inodes: 2048, mode: 0o1777, uid: 5, gid: 6 });
        assert_eq!(Options::parse(&options.to_string()).unwrap(), options);
        assert_eq!(Options::parse("").unwrap(), Options::default());
        let (half, quarter) = (Options::default().size, Options::parse("size=25%").unwrap().size);
        assert!(quarter.abs_diff(half / 2) < 1000);
    }

    #[test]
    fn invalid_options_are_named() {
        assert_eq!(Options::parse("sizes=1").unwrap_err(), OptionsError::Unknown("sizes".into()));
        for text in
            ["size", "size=", "size=0", "size=4k4", "size=99999999999g", "inodes=0", "inodes=-1", "inodes=+1", "mode=8"]
        {
            let error = Options::parse(text).unwrap_err();
            assert!(matches!(&error, OptionsError::BadValue { option, .. } if text.starts_with(option)), "{text}");
        }
    }
}
