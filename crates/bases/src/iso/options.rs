//! The options of `iso`: what an image without Unix attributes shows, and which of several trees is read.

use std::fmt;

use super::format::names::NameMapping;
use crate::option_values::{self, scaled};

/// Smallest value of [`Options::memory`]: enough for the largest block of a compressed file.
const MEMORY_MIN: u64 = 4 << 20;

/// Choices about an image. The first ones apply to what has no attributes of Rock Ridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The owner. Default: the server's user.
    pub uid: u32,
    /// The group. Default: the server's.
    pub gid: u32,
    /// Permission bits of files. Default: 0555, since any file may be a program.
    pub mode: u32,
    /// Permission bits of directories. Default: 0555.
    pub directory_mode: u32,
    /// How names of plain ISO 9660 are shown.
    pub names: NameMapping,
    /// The session to read, from 1. Default: the last.
    pub session: Option<u32>,
    /// First sector of the session to read, as a drive's table of contents has it, instead of its number.
    pub start: Option<u32>,
    /// Whether Rock Ridge is used where it is there. Default: yes.
    pub rock: bool,
    /// Whether Joliet is used where it is there and Rock Ridge is not. Default: yes.
    pub joliet: bool,
    /// Whether an enhanced descriptor is used where neither of these is. Default: yes.
    pub enhanced: bool,
    /// Whether files compressed with zisofs are shown decompressed. Default: yes.
    pub zisofs: bool,
    /// Whether boot images are shown as files, in a directory `[BOOT]`. Default: yes.
    pub boot: bool,
    /// Bound of the memory for caches in bytes, a quarter of it for decompressed blocks. A directory that does not fit into the
    /// rest cannot be read. Default: 64 MiB.
    pub memory: u64,
}

/// The reason why the options of `iso` are invalid.
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
    /// Both of two options select the session.
    TwoSessions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            mode: 0o555,
            directory_mode: 0o555,
            names: NameMapping::default(),
            session: None,
            start: None,
            rock: true,
            joliet: true,
            enhanced: true,
            zisofs: true,
            boot: true,
            memory: 64 << 20,
        }
    }
}

impl Options {
    /// Parses `uid=0,gid=0,mode=444,dmode=555,session=1,rock=no,…`: each option is optional, in any order, and the text may be
    /// empty. `memory` takes the suffixes k, m, g and t (powers of 1,024).
    ///
    /// # Errors
    /// [`OptionsError`], naming the option.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        let pairs = text.split(',').filter(|option| !option.is_empty());
        Self::from_pairs(pairs.map(|option| option.split_once('=').unwrap_or((option, ""))))
    }

    /// Parses options that are already separated into names and values.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        for (key, value) in pairs {
            options.set(key, value)?;
        }
        if options.session.is_some() && options.start.is_some() { Err(OptionsError::TwoSessions) } else { Ok(options) }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), OptionsError> {
        let bad = |expected| OptionsError::BadValue { option: key.to_owned(), expected };
        let switch = || yes_or_no(value).ok_or(bad("yes or no"));
        let mode = || option_values::mode(value).ok_or(bad("an octal mode up to 7777"));
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
        match key {
            "uid" => self.uid = number(value).ok_or(bad("a user id"))?,
            "gid" => self.gid = number(value).ok_or(bad("a group id"))?,
            "mode" => self.mode = mode()?,
            "dmode" => self.directory_mode = mode()?,
            "names" => self.names = name_mapping(value).ok_or(bad("lower, as-is or raw"))?,
            "session" => {
                let session = number(value).filter(|number| *number > 0);
                self.session = Some(session.ok_or(bad("the number of a session, from 1"))?);
            }
            "start" => self.start = Some(number(value).ok_or(bad("the first sector of a session"))?),
            "rock" => self.rock = switch()?,
            "joliet" => self.joliet = switch()?,
            "enhanced" => self.enhanced = switch()?,
            "zisofs" => self.zisofs = switch()?,
            "boot" => self.boot = switch()?,
            "memory" => {
                let memory = scaled(value).filter(|size| *size >= MEMORY_MIN);
                self.memory = memory.ok_or(bad("a size from 4m, such as 64m"))?;
            }
            _ => return Err(OptionsError::Unknown(key.to_owned())),
        }
        Ok(())
    }
}

/// In the form that [`Options::parse`] reads.
impl fmt::Display for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |switch| if switch { "yes" } else { "no" };
        let names = match self.names {
            NameMapping::Lower => "lower",
            NameMapping::AsIs => "as-is",
            NameMapping::Raw => "raw",
        };
        write!(formatter, "uid={},gid={},mode={:o},dmode={:o}", self.uid, self.gid, self.mode, self.directory_mode)?;
        write!(formatter, ",names={names}")?;
        if let Some(session) = self.session {
            write!(formatter, ",session={session}")?;
        }
        if let Some(start) = self.start {
            write!(formatter, ",start={start}")?;
        }
        write!(formatter, ",rock={},joliet={},enhanced={}", word(self.rock), word(self.joliet), word(self.enhanced))?;
        write!(formatter, ",zisofs={},boot={},memory={}", word(self.zisofs), word(self.boot), self.memory)
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => write!(
                formatter,
                "`iso` has no option `{option}`; it has uid, gid, mode, dmode, names, session, start, rock, joliet, \
                 enhanced, zisofs, boot and memory"
            ),
            Self::BadValue { option, expected } => write!(formatter, "the option `{option}` of `iso` takes {expected}"),
            Self::TwoSessions => formatter.write_str("`iso` takes either the option `session` or `start`, not both"),
        }
    }
}

impl std::error::Error for OptionsError {}

fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

fn name_mapping(text: &str) -> Option<NameMapping> {
    match text {
        "lower" => Some(NameMapping::Lower),
        "as-is" => Some(NameMapping::AsIs),
        "raw" => Some(NameMapping::Raw),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_parsed() {
        let text = "uid=5,gid=6,mode=440,dmode=550,names=raw,session=2,rock=no,joliet=no,enhanced=no,zisofs=no,boot=no,\
                    memory=8M";
        let options = Options::parse(text).unwrap();
        let expected = Options {
            uid: 5,
            gid: 6,
            mode: 0o440,
            directory_mode: 0o550,
            names: NameMapping::Raw,
            session: Some(2),
            start: None,
            rock: false,
            joliet: false,
            enhanced: false,
            zisofs: false,
            boot: false,
            memory: 8 << 20,
        };
        assert_eq!(options, expected);
        assert_eq!(Options::parse(&options.to_string()).unwrap(), options);
        assert_eq!(Options::parse("start=32").unwrap().start, Some(32));
        assert_eq!(Options::parse("").unwrap(), Options::default());
    }

    #[test]
    fn invalid_options_are_named() {
        assert_eq!(Options::parse("rocks=no").unwrap_err(), OptionsError::Unknown("rocks".into()));
        assert_eq!(Options::parse("session=1,start=32").unwrap_err(), OptionsError::TwoSessions);
        for text in [
            "uid",
            "uid=",
            "uid=-1",
            "uid=+1",
            "gid=x",
            "mode=8",
            "mode=10000",
            "dmode=",
            "names=upper",
            "session=0",
            "start=x",
            "rock=1",
            "joliet",
            "zisofs=on",
            "boot=",
            "memory=1m",
            "memory=",
            "memory=99999999999t",
        ] {
            let error = Options::parse(text).unwrap_err();
            assert!(matches!(&error, OptionsError::BadValue { option, .. } if text.starts_with(option)), "{text}");
        }
    }
}
