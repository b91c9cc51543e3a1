//! The options of `fat`: owners and modes, names, times, where Unix metadata is, memory and safety.

use std::fmt;

use super::format::CodePage;
use super::names::Translation;
use crate::option_values::{self, scaled};

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
    /// In the time of creation of each entry: kind, mode, owner and group, of which a volume has up to 1,024 each.
    Inline,
    /// In ten bytes of each entry, as the paper on DosFs has it. FAT12 and FAT16 only.
    Paper,
}

/// What becomes of a volume on which damage is found, or a write fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorPolicy {
    /// It can only be read from then on.
    #[default]
    RemountReadOnly,
    /// It can be changed further. What could not be written is tried again.
    Continue,
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

/// Largest [`Options::block`], in bytes.
const BLOCK_MAX: u32 = 4 << 20;

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
    /// 777 without the bits of the server's umask.
    pub file_mode: u32,
    /// The permission bits of directories without metadata. Default: 777 without the bits of the server's umask.
    pub directory_mode: u32,
    /// Mode bits, up to 7777, that no file has, whatever its metadata says. Default: 0.
    pub file_mask: u32,
    /// Mode bits, up to 7777, that no directory has, whatever its metadata says. Default: 0.
    pub directory_mask: u32,
    /// How files are shown that have only a short name. Default: as stored.
    pub translation: Translation,
    /// The number of the code page of short names. Default: 437.
    pub code_page: u16,
    /// How far the time in directory entries is ahead of UTC, in minutes. Default: 0.
    pub time_offset_minutes: i32,
    /// Memory for directories and the table that are not in use, in bytes. Default: 32 MiB.
    pub memory: u64,
    /// Size of reads and writes of files in bytes, a multiple of the cluster size up to 4 MiB; 0 for reads and writes as large as
    /// they are requested. Default: 0.
    pub block: u32,
    /// What becomes of a volume on which damage is found, or a write fails. Default: it becomes read-only.
    pub errors: ErrorPolicy,
    /// A volume that was not unmounted is checked when it is mounted: what is safe to repair is repaired, and if more is left, `errors`
    /// says how it is mounted. Default: yes.
    pub preen: bool,
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
        let mode = 0o777 & !process_umask();
        Self {
            read_only: false,
            metadata: MetadataMode::default(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            file_mode: mode,
            directory_mode: mode,
            file_mask: 0,
            directory_mask: 0,
            translation: Translation::default(),
            code_page: CodePage::default().number(),
            time_offset_minutes: 0,
            memory: 32 << 20,
            block: 0,
            errors: ErrorPolicy::default(),
            preen: true,
            mirror: MirrorMode::default(),
            journal: true,
        }
    }
}

impl Options {
    /// Parses options such as `meta=sidecar,uid=0,gid=0,umask=022,names=lower,tz=+1:30,memory=64m,ro`: each is optional, in any order,
    /// and the text may be empty.
    ///
    /// - `owner=root` has all files belong to the superuser, with all permissions for everybody; `owner=user`, the default, has them
    ///   belong to the server's user, with the permissions that its umask leaves. `uid`, `gid`, `mode` (both `fmode` and `dmode`) and the
    ///   masks override that.
    /// - `umask` sets both `fmask` and `dmask`: bits that no file and no directory has, whatever its metadata says. Without metadata,
    ///   they have all other permissions, unless `fmode` or `dmode` is given.
    /// - A size takes the suffixes k, m and g (powers of 1,024).
    ///
    /// # Errors
    /// [`OptionsError`], naming the option.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        // What others refer to comes first.
        let order = |option: &&str| match option.split_once('=').map_or("", |(key, _)| key) {
            "owner" => 0,
            "umask" => 1,
            "fmask" | "dmask" => 2,
            "mode" => 3,
            _ => 4,
        };
        let mut ordered: Vec<&str> = text.split(',').filter(|option| !option.is_empty()).collect();
        ordered.sort_by_key(order);
        for option in ordered {
            options.set(option)?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str) -> Result<(), OptionsError> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let bad = |expected| OptionsError::BadValue { option: key.to_owned(), expected };
        let bad_mode = bad("an octal mode up to 777");
        let bad_mask = bad("an octal mask up to 7777");
        match key {
            "ro" if value.is_empty() => self.read_only = true,
            "meta" => self.metadata = metadata_mode(value).ok_or(bad("auto, none, sidecar, inline or paper"))?,
            "owner" => self.set_owner(value).ok_or(bad("root or user"))?,
            "uid" => self.uid = id(value).ok_or(bad("a user id"))?,
            "gid" => self.gid = id(value).ok_or(bad("a group id"))?,
            "mode" => {
                let mode = mode(value).ok_or(bad_mode)?;
                (self.file_mode, self.directory_mode) = (mode, mode);
            }
            "umask" => {
                let mask = option_values::mode(value).ok_or(bad_mask)?;
                self.set_file_mask(mask);
                self.set_directory_mask(mask);
            }
            "fmask" => self.set_file_mask(option_values::mode(value).ok_or(bad_mask)?),
            "dmask" => self.set_directory_mask(option_values::mode(value).ok_or(bad_mask)?),
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
            "memory" => self.memory = scaled(value).ok_or(bad("a size such as 512k or 64m"))?,
            "block" => {
                let block = scaled(value).and_then(|size| u32::try_from(size).ok()).filter(|&size| size <= BLOCK_MAX);
                self.block = block.ok_or(bad("a size up to 4m, such as 64k"))?;
            }
            "errors" => self.errors = error_policy(value).ok_or(bad("remount-ro or continue"))?,
            "preen" => self.preen = yes_or_no(value).ok_or(bad("yes or no"))?,
            "mirror" => self.mirror = mirror_mode(value).ok_or(bad("always or unmount"))?,
            "journal" => self.journal = yes_or_no(value).ok_or(bad("yes or no"))?,
            _ => return Err(OptionsError::Unknown(key.to_owned())),
        }
        Ok(())
    }

    fn set_owner(&mut self, owner: &str) -> Option<()> {
        match owner {
            "root" => {
                (self.uid, self.gid) = (0, 0);
                (self.file_mode, self.directory_mode) = (0o777, 0o777);
            }
            "user" => {}
            _ => return None,
        }
        Some(())
    }

    fn set_file_mask(&mut self, mask: u32) {
        (self.file_mask, self.file_mode) = (mask, 0o777 & !mask);
    }

    fn set_directory_mask(&mut self, mask: u32) {
        (self.directory_mask, self.directory_mode) = (mask, 0o777 & !mask);
    }

    /// Returns the mode bits that an object never has.
    pub(crate) fn mask(&self, is_directory: bool) -> u32 {
        if is_directory { self.directory_mask } else { self.file_mask }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = match self.metadata {
            MetadataMode::Auto => "auto",
            MetadataMode::None => "none",
            MetadataMode::Sidecar => "sidecar",
            MetadataMode::Inline => "inline",
            MetadataMode::Paper => "paper",
        };
        let names = match self.translation {
            Translation::Stored => "stored",
            Translation::Lower => "lower",
            Translation::Joined => "joined",
        };
        let mirror = if self.mirror == MirrorMode::Always { "always" } else { "unmount" };
        let yes_or_no = |value| if value { "yes" } else { "no" };
        let (journal, preen) = (yes_or_no(self.journal), yes_or_no(self.preen));
        let errors = if self.errors == ErrorPolicy::Continue { "continue" } else { "remount-ro" };
        let minutes = self.time_offset_minutes;
        let (sign, hours) = (if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60);
        write!(formatter, "meta={metadata},uid={},gid={}", self.uid, self.gid)?;
        write!(formatter, ",fmask={:o},dmask={:o}", self.file_mask, self.directory_mask)?;
        write!(formatter, ",fmode={:o},dmode={:o},names={names}", self.file_mode, self.directory_mode)?;
        write!(formatter, ",codepage={},tz={sign}{hours}:{:02}", self.code_page, minutes.abs() % 60)?;
        write!(formatter, ",memory={},block={},mirror={mirror}", self.memory, self.block)?;
        write!(formatter, ",journal={journal},errors={errors},preen={preen}")?;
        if self.read_only { write!(formatter, ",ro") } else { Ok(()) }
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => {
                write!(
                    formatter,
                    "`fat` has no option `{option}`; it has meta, owner, uid, gid, umask, fmask, dmask, mode, fmode, dmode, "
                )?;
                write!(formatter, "names, codepage, tz, memory, block, mirror, journal, errors, preen and ro")
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
        "inline" => Some(MetadataMode::Inline),
        "paper" => Some(MetadataMode::Paper),
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

fn error_policy(text: &str) -> Option<ErrorPolicy> {
    match text {
        "remount-ro" => Some(ErrorPolicy::RemountReadOnly),
        "continue" => Some(ErrorPolicy::Continue),
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
    option_values::mode(text).filter(|&mode| mode <= 0o777)
}

/// Returns the mode bits that this process clears of new files; the usual ones if they are not known.
fn process_umask() -> u32 {
    let status = std::fs::read("/proc/thread-self/status").ok().map(procfs::Status::from);
    status.and_then(|status| status.umask()).unwrap_or(0o022)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_parsed_and_shown() {
        let text = "meta=sidecar,uid=5,gid=6,fmode=644,dmode=700,names=lower,codepage=850,tz=-1:30,memory=64m,\
                    mirror=unmount,journal=no,block=64k,errors=continue,preen=no,ro";
        let options = Options::parse(text).unwrap();
        assert_eq!((options.uid, options.gid, options.file_mode, options.directory_mode), (5, 6, 0o644, 0o700));
        assert_eq!((options.metadata, options.translation), (MetadataMode::Sidecar, Translation::Lower));
        assert_eq!((options.code_page, options.time_offset_minutes, options.memory), (850, -90, 64 << 20));
        assert_eq!((options.mirror, options.journal, options.read_only), (MirrorMode::AtUnmount, false, true));
        assert_eq!(Options::parse(&options.to_string()).unwrap(), options);
        assert_eq!(Options::parse("").unwrap(), Options::default());
        let mode = Options::parse("mode=750").unwrap();
        assert_eq!((mode.file_mode, mode.directory_mode), (0o750, 0o750));
        assert_eq!((options.block, options.errors, options.preen), (64 << 10, ErrorPolicy::Continue, false));
        let offset = |text: &str| Options::parse(&format!("tz={text}")).unwrap().time_offset_minutes;
        assert_eq!(["UTC", "+8", "8:05", "-0:30"].map(offset), [0, 480, 485, -30]);
    }

    #[test]
    fn masks_and_owners_are_those_of_the_most_exact_option() {
        let shown = |text: &str| {
            let options = Options::parse(text).unwrap();
            let ids = (options.uid, options.gid);
            (ids, [options.file_mode, options.directory_mode, options.file_mask, options.directory_mask])
        };
        let own = Options::default();
        assert_eq!(shown("owner=root"), ((0, 0), [0o777, 0o777, 0, 0]));
        assert_eq!(shown("gid=7,dmode=700,owner=root"), ((0, 7), [0o777, 0o700, 0, 0]));
        assert_eq!(shown("owner=user,umask=027").1, [0o750, 0o750, 0o27, 0o27]);
        assert_eq!(shown("fmask=6111,umask=002"), ((own.uid, own.gid), [0o666, 0o775, 0o6111, 0o2]));
        assert_eq!(shown("fmode=600,fmask=133").1[0], 0o600);
    }

    #[test]
    fn invalid_options_are_named() {
        assert_eq!(Options::parse("quiet=1").unwrap_err(), OptionsError::Unknown("quiet".into()));
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
            "umask=77777",
            "owner=me",
            "block=5m",
            "errors=panic",
            "preen",
        ] {
            let error = Options::parse(text).unwrap_err();
            assert!(matches!(&error, OptionsError::BadValue { option, .. } if text.starts_with(option)), "{text}");
        }
    }
}
