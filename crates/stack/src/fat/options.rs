//! The options of the base `fat` in stack expressions.

use bases::fat::{self, OptionsError};
use layers::options::{OptionProblem, Options, option};
use layers::{OptionError, OptionSpecification};

use crate::kinds::{BaseError, PARTITION};

/// All options.
pub(crate) const OPTIONS: &[OptionSpecification] = &[
    option(
        PARTITION,
        "NUMBER",
        "the partition of a disk; by default the whole, or the only one with a FAT file system",
    ),
    option("ro", "yes|no", "write nothing (default: only if the device cannot be written)"),
    option("meta", "auto|none|sidecar|inline|paper", "where Unix metadata is (default auto: as the volume has it)"),
    option("owner", "user|root", "who owns files without metadata: the server's user, or the superuser (default user)"),
    option("uid", "UID", "owner of files without metadata, instead"),
    option("gid", "GID", "group of files without metadata, instead"),
    option("mode", "MODE", "permission bits of files and directories without metadata, octal (default: as owner says)"),
    option("fmode", "MODE", "the same of files only"),
    option("dmode", "MODE", "the same of directories only"),
    option("umask", "MASK", "mode bits that nothing has, octal (default 0)"),
    option("fmask", "MASK", "the same of files only"),
    option("dmask", "MASK", "the same of directories only"),
    option("names", "stored|lower|joined", "how names are shown that have only a short form (default stored)"),
    option("codepage", "NUMBER", "code page of short names (default 437)"),
    option("tz", "ZONE", "time zone of times on the disk: UTC, or an offset such as +1:30 (default UTC)"),
    option(
        "block",
        "SIZE",
        "size of reads and writes of files, a multiple of the cluster size (default: as requested)",
    ),
    option("memory", "SIZE", "memory for directories and the table that are not in use (default 32m)"),
    option("mirror", "always|unmount", "when the copies of the table are written (default always)"),
    option("journal", "yes|no", "whether changes of several blocks are safe from a power failure (default yes)"),
    option("preen", "yes|no", "whether a volume that was not unmounted is checked first (default yes)"),
    option("errors", "remount-ro|continue", "what follows damage and failed writes (default remount-ro)"),
];

/// Converts the options to those of the file system.
pub(crate) fn parse(options: &Options<'_>) -> Result<fat::Options, BaseError> {
    let mut text = String::from(if options.flag("ro")? { "ro" } else { "" });
    let keys = OPTIONS.iter().map(|option| option.key).filter(|key| ![PARTITION, "ro"].contains(key));
    for key in keys {
        let Some(value) = options.text(key) else { continue };
        let one = format!("{key}={value}");
        let is_one = fat::Options::parse(&one).and_then(|_| match value.contains(',') {
            true => Err(OptionsError::BadValue { option: key.to_owned(), expected: "a value without a comma" }),
            false => Ok(()),
        });
        is_one.map_err(|error| option_error(options, key, value, &error))?;
        text = format!("{text},{one}");
    }
    fat::Options::parse(&text).map_err(|error| BaseError::Location(error.to_string()))
}

fn option_error(options: &Options<'_>, key: &str, value: &str, error: &OptionsError) -> OptionError {
    let expected = match error {
        OptionsError::BadValue { expected, .. } => (*expected).to_owned(),
        OptionsError::Unknown(_) => "another value".to_owned(),
    };
    options.error(key, OptionProblem::BadValue { value: value.to_owned(), expected })
}
