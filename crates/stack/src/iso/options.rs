//! The options of the base `iso` in stack expressions.

use bases::iso;
use layers::options::{OptionProblem, Options, option};
use layers::{OptionError, OptionSpecification};

use crate::kinds::PARTITION;

/// All options.
pub(crate) const OPTIONS: &[OptionSpecification] = &[
    option(
        PARTITION,
        "NUMBER",
        "the partition with the image; default: the whole, or the only partition with an image",
    ),
    option("uid", "UID", "owner of objects without Rock Ridge, by number; default: the server's user"),
    option("gid", "GID", "group of objects without Rock Ridge, by number; default: the server's group"),
    option("mode", "MODE", "permission bits of files without Rock Ridge, octal; default: 555"),
    option("dmode", "MODE", "permission bits of directories without Rock Ridge, octal; default: 555"),
    option("names", "lower|as-is|raw", "how plain ISO 9660 names are shown; default: lower"),
    option("session", "NUMBER", "the session to show, from 1; default: the last"),
    option("start", "SECTOR", "the session to show, by its first sector"),
    option("rock", "yes|no", "use Rock Ridge; default: yes"),
    option("joliet", "yes|no", "use Joliet; default: yes"),
    option("enhanced", "yes|no", "use ISO 9660:1999; default: yes"),
    option("zisofs", "yes|no", "decompress files; default: yes"),
    option("boot", "yes|no", "show boot images in a directory [BOOT]; default: yes"),
    option("memory", "SIZE", "memory for directories and decompressed blocks; default: 64m"),
];

/// Returns the options in the form that the base takes.
pub(crate) fn parse(given: &Options<'_>) -> Result<iso::Options, OptionError> {
    let keys = OPTIONS.iter().map(|option| option.key).filter(|key| *key != PARTITION);
    let pairs = keys.filter_map(|key| Some((key, given.text(key)?)));
    iso::Options::from_pairs(pairs).map_err(|error| match error {
        iso::OptionsError::BadValue { option, expected } => {
            let value = given.text(&option).unwrap_or_default().to_owned();
            given.error(&option, OptionProblem::BadValue { value, expected: expected.to_owned() })
        }
        iso::OptionsError::Unknown(key) => {
            given.error(&key, OptionProblem::UnknownKey { valid: OPTIONS.iter().map(|known| known.key).collect() })
        }
        iso::OptionsError::TwoSessions => given.error("session", OptionProblem::Conflict { with: "start" }),
    })
}
