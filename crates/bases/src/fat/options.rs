//! The options of `fat`: owners and modes, names, times, where Unix metadata is, memory and safety.

use std::fmt;

use super::format::CodePage;
use super::names::Translation;

/// Where what Unix knows of files is stored, and FAT does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataMode {
    /// As [`MetadataMode::Sidecar`] if the root directory has a sidecar, otherwise as [`MetadataMode::None`].
    #[default]
    Auto,
    /// Nowhere: all files have the owner, group and modes of the options, and times are as exact as FAT has them.
    None,
    /// In a hidden file of each directory.
    Sidecar,
}

/// When the copies of the file allocation table are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirrorMode {
    /// Together with the first table.
    #[default]
    Always,
    /// When the volume is unmounted.
    AtUnmount,
}

/// How a volume is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nothing is written. Default: only if the device is read-only.
    pub read_only: bool,
    /// Where Unix metadata is. Default: as the volume has it.
    pub metadata: MetadataMode,
    /// The owner of files without metadata. Default: the server's user.
    pub uid: u32,
    /// The group of files without metadata. Default: the server's group.
    pub gid: u32,
    /// The permission bits of files without metadata; those for writing are cleared for a file with the read-only attribute. Default:
    /// 755.
    pub file_mode: u32,
    /// The permission bits of directories without metadata. Default: 755.
    pub directory_mode: u32,
    /// How files are shown that have only a short name. Default: as stored.
    pub translation: Translation,
    /// The number of the code page of short names. Default: 437.
    pub code_page: u16,
    /// How far the time in directory entries is ahead of UTC, in minutes. Default: 0.
    pub time_offset_minutes: i32,
    /// Memory for directories and the table that are not in use, in bytes. Default: 32 MiB.
    pub memory: u64,
    /// When the copies of the table are written. Default: together with the first.
    pub mirror: MirrorMode,
    /// Changes of several blocks of directories go through a journal, which is created when it is needed. Without it, a power failure
    /// can leave a part of a rename. Default: yes.
    pub journal: bool,
}

/// The reason why the options of `fat` are invalid.
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
    fn default() -> Self {
        Self {
            read_only: false,
            metadata: MetadataMode::default(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            file_mode: 0o755,
            directory_mode: 0o755,
            translation: Translation::default(),
            code_page: CodePage::default().number(),
            time_offset_minutes: 0,
            memory: 32 << 20,
            mirror: MirrorMode::default(),
            journal: true,
        }
    }
}

impl Options {
    /// Parses `meta=sidecar,uid=0,gid=0,mode=755,fmode=644,dmode=755,names=lower,codepage=850,tz=+1:30,memory=64m,mirror=unmount,journal=no,ro`:
    /// each option is optional, in any order, and the text may be empty. `mode` sets both `fmode` and `dmode`. A size takes the suffixes
    /// k, m and g (powers of 1,024).
    ///
    /// # Errors
    /// [`OptionsError`], naming the option.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            options.set(option)?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str) -> Result<(), OptionsError> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let bad = |expected| OptionsError::BadValue { option: key.to_owned(), expected };
        let bad_mode = bad("an octal mode up to 777");
        match key {
            "ro" if value.is_empty() => self.read_only = true,
            "meta" => self.metadata = metadata_mode(value).ok_or(bad("auto, none or sidecar"))?,
            "uid" => self.uid = id(value).ok_or(bad("a user id"))?,
            "gid" => self.gid = id(value).ok_or(bad("a group id"))?,
            "mode" => {
                let mode = mode(value).ok_or(bad_mode)?;
                (self.file_mode, self.directory_mode) = (mode, mode);
            }
            "fmode" => self.file_mode = mode(value).ok_or(bad_mode)?,
            "dmode" => self.directory_mode = mode(value).ok_or(bad_mode)?,
            "names" => self.translation = translation(value).ok_or(bad("stored, lower or joined"))?,
            "codepage" => {
                let number = value.parse().ok().filter(|&number| CodePage::by_number(number).is_some());
                self.code_page = number.ok_or(bad("the number of a known code page, such as 437, 850 or 932"))?;
            }
            "tz" => {
                self.time_offset_minutes = offset(value).ok_or(bad("UTC, or an offset from it such as +1:30 or -8"))?;
            }
            "memory" => self.memory = size(value).ok_or(bad("a size such as 512k or 64m"))?,
            "mirror" => self.mirror = mirror_mode(value).ok_or(bad("always or unmount"))?,
            "journal" => self.journal = yes_or_no(value).ok_or(bad("yes or no"))?,
            _ => return Err(OptionsError::Unknown(key.to_owned())),
        }
        Ok(())
    }
}

impl fmt::Display for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = match self.metadata {
            MetadataMode::Auto => "auto",
            MetadataMode::None => "none",
            MetadataMode::Sidecar => "sidecar",
        };
        let names = match self.translation {
            Translation::Stored => "stored",
            Translation::Lower => "lower",
            Translation::Joined => "joined",
        };
        let mirror = if self.mirror == MirrorMode::Always { "always" } else { "unmount" };
        let journal = if self.journal { "yes" } else { "no" };
        let minutes = self.time_offset_minutes;
        let (sign, hours) = (if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60);
        write!(formatter, "meta={metadata},uid={},gid={}", self.uid, self.gid)?;
        write!(formatter, ",fmode={:o},dmode={:o},names={names}", self.file_mode, self.directory_mode)?;
        write!(formatter, ",codepage={},tz={sign}{hours}:{:02}", self.code_page, minutes.abs() % 60)?;
        write!(formatter, ",memory={},mirror={mirror},journal={journal}", self.memory)?;
        if self.read_only { write!(formatter, ",ro") } else { Ok(()) }
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => {
                write!(
                    formatter,
                    "`fat` has no option `{option}`; it has meta, uid, gid, mode, fmode, dmode, names, "
                )?;
                write!(formatter, "codepage, tz, memory, mirror, journal and ro")
            }
            Self::BadValue { option, expected } => write!(formatter, "the option `{option}` of `fat` takes {expected}"),
        }
    }
}

impl std::error::Error for OptionsError {}

fn metadata_mode(text: &str) -> Option<MetadataMode> {
    match text {
        "auto" => Some(MetadataMode::Auto),
        "none" => Some(MetadataMode::None),
        "sidecar" => Some(MetadataMode::Sidecar),
        _ => None,
    }
}

fn translation(text: &str) -> Option<Translation> {
    match text {
        "stored" => Some(Translation::Stored),
        "lower" => Some(Translation::Lower),
        "joined" => Some(Translation::Joined),
        _ => None,
    }
}

fn mirror_mode(text: &str) -> Option<MirrorMode> {
    match text {
        "always" => Some(MirrorMode::Always),
        "unmount" => Some(MirrorMode::AtUnmount),
        _ => None,
    }
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Returns a number without sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns a user or group ID. The largest number stands for none.
fn id(text: &str) -> Option<u32> {
    u32::try_from(number(text)?).ok().filter(|&id| id != u32::MAX)
}

fn mode(text: &str) -> Option<u32> {
    let octal = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    octal.then(|| u32::from_str_radix(text, 8).ok())?.filter(|&mode| mode <= 0o777)
}

/// Returns the minutes of an offset in hours, or hours and minutes, up to a day.
fn offset(text: &str) -> Option<i32> {
    if text == "UTC" {
        return Some(0);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = hours.checked_mul(60)?.checked_add(minutes)?;
    (minutes < 60 && total <= 24 * 60).then_some(sign * total as i32)
}

fn size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let suffix = ["k", "m", "g"].iter().position(|suffix| lower.ends_with(suffix));
    let (digits, shift) = match suffix {
        Some(index) => (&lower[..lower.len() - 1], 10 * (index + 1)),
        None => (&lower[..], 0),
    };
    number(digits)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_parsed_and_shown() {
        let text = "meta=sidecar,uid=5,gid=6,fmode=644,dmode=700,names=lower,codepage=850,tz=-1:30,memory=64m,\
                    mirror=unmount,journal=no,ro";
        let options = Options::parse(text).unwrap();
        assert_eq!((options.uid, options.gid, options.file_mode, options.directory_mode), (5, 6, 0o644, 0o700));
        assert_eq!((options.metadata, options.translation), (MetadataMode::Sidecar, Translation::Lower));
        assert_eq!((options.code_page, options.time_offset_minutes, options.memory), (850, -90, 64 << 20));
        assert_eq!((options.mirror, options.journal, options.read_only), (MirrorMode::AtUnmount, false, true));
        assert_eq!(Options::parse(&options.to_string()).unwrap(), options);
        assert_eq!(Options::parse("").unwrap(), Options::default());
        let mode = Options::parse("mode=750").unwrap();
        assert_eq!((mode.file_mode, mode.directory_mode), (0o750, 0o750));
        let offset = |text: &str| Options::parse(&format!("tz={text}")).unwrap().time_offset_minutes;
        assert_eq!(["UTC", "+8", "8:05", "-0:30"].map(offset), [0, 480, 485, -30]);
    }

    #[test]
    fn invalid_options_are_named() {
        assert_eq!(Options::parse("umask=1").unwrap_err(), OptionsError::Unknown("umask".into()));
        for text in [
            "meta",
            "uid=-1",
            "uid=4294967295",
            "gid=x",
            "mode=1777",
            "names=upper",
            "codepage=1",
            "tz=25",
            "tz=1:60",
            "memory=x",
            "mirror=no",
            "journal",
            "fmode=8",
        ] {
            let error = Options::parse(text).unwrap_err();
            assert!(matches!(&error, OptionsError::BadValue { option, .. } if text.starts_with(option)), "{text}");
        }
    }
}
