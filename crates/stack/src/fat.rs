//! The kind of base `fat`: its options, and how a volume is recognised, found and opened.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use bases::device::{Access, DeviceRef, FileDevice, find_volume};
use bases::fat;
use layers::options::{OptionProblem, Options, number};
use layers::{OptionError, OptionSpecification};
use vnode::FileSystemRef;

use crate::kinds::{BaseError, BaseKind, PARTITION};

/// The kind.
pub(crate) const KIND: BaseKind =
    BaseKind::new("fat", "PATH", "a FAT12, FAT16 or FAT32 volume in a file or on a block device", open)
        .with_options(OPTIONS)
        .with_probe("a FAT volume", fat::is_fat);

const OPTIONS: &[OptionSpecification] = &[
    option(PARTITION, "NUMBER", "the partition to use; default: the whole, or the only partition with a FAT volume"),
    option("ro", "yes|no", "write nothing; default: no"),
    option("meta", "auto|none|sidecar", "where Unix metadata is kept; default: as the volume has it"),
    option("uid", "USER", "owner, by number, of files without metadata; default: the server's user"),
    option("gid", "GROUP", "group, by number, of files without metadata; default: the server's group"),
    option("mode", "MODE", "permission bits of files and directories without metadata, octal; default: 755"),
    option("fmode", "MODE", "permission bits of files without metadata, octal; default: 755"),
    option("dmode", "MODE", "permission bits of directories without metadata, octal; default: 755"),
    option("names", "stored|lower|joined", "how short names are shown; default: stored"),
    option("codepage", "NUMBER", "code page of short names; default: 437"),
    option("tz", "OFFSET", "how far the volume's times are ahead of UTC, as +1:30; default: UTC"),
    option("memory", "SIZE", "memory for directories and the table that are not in use; default: 32m"),
    option("mirror", "always|unmount", "when copies of the table are written; default: always"),
    option("journal", "yes|no", "changes of several blocks go through a journal; default: yes"),
];

const fn option(key: &'static str, value: &'static str, summary: &'static str) -> OptionSpecification {
    OptionSpecification { key, value, summary }
}

fn open(location: &OsStr, given: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    let path = Path::new(location);
    let options = parse(given)?;
    let partition = given.read(PARTITION, number)?;
    let access = if options.read_only { Access::Read } else { Access::WriteIfPossible };
    let device: DeviceRef = Arc::new(FileDevice::open(path, access)?);
    let refused = |reason: &dyn std::fmt::Display| BaseError::Contents(format!("`{}`: {reason}", path.display()));
    let volume = find_volume(&device, partition, &mut fat::is_fat).map_err(|error| refused(&error))?;
    let opened = fat::FatFileSystem::open(volume, &path.display().to_string(), options);
    Ok(Arc::new(opened.map_err(|error| refused(&error))?))
}

/// Returns the options in the form that the base takes.
fn parse(given: &Options<'_>) -> Result<fat::Options, OptionError> {
    let mut text = String::new();
    for key in OPTIONS.iter().map(|option| option.key).filter(|key| *key != PARTITION && *key != "ro") {
        if let Some(value) = given.text(key) {
            text.push_str(&format!("{key}={value},"));
        }
    }
    if given.flag("ro")? {
        text.push_str("ro");
    }
    fat::Options::parse(&text).map_err(|error| match error {
        fat::OptionsError::BadValue { option, expected } => {
            let value = given.text(&option).unwrap_or_default().to_owned();
            given.error(&option, OptionProblem::BadValue { value, expected: expected.to_owned() })
        }
        fat::OptionsError::Unknown(option) => {
            given.error(&option, OptionProblem::UnknownKey { valid: OPTIONS.iter().map(|known| known.key).collect() })
        }
    })
}
