//! Purpose of an entry in the work directory of a branch, encoded in its name.

use vnode::Timestamp;

/// Purpose of an entry in the work directory, encoded as the prefix of its name, so that a leftover name records what was not
/// finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryPurpose {
    /// An object to be moved into place, or taken out of sight to be removed.
    Transit,
    /// A copy of a file. If the links directory already has a name for it, that name is removed too, since the original still
    /// exists.
    Copy,
    /// A name of a copied file that is to replace one of the original's names. The number is the original's name count before
    /// the step; recovery resets the copy's count to it.
    Name(u32),
    /// A name of a metadata-only copy whose data are being filled in, and the modification time that recovery restores.
    Times(Timestamp),
    /// A record of the removals that belong to a rename.
    Record,
    /// A record of files that change places with their copies for a snapshot: see [`crate::union::snapshots::direct_files`].
    DirectFiles,
}

impl EntryPurpose {
    /// Prefix of the names of such entries.
    pub(crate) fn prefix(self) -> String {
        match self {
            Self::Transit => String::new(),
            Self::Copy => "copy.".to_owned(),
            Self::Name(names) => format!("name.{names}."),
            Self::Times(time) => format!("times.{}.{}.", time.seconds, time.nanoseconds),
            Self::Record => "record.".to_owned(),
            Self::DirectFiles => "kept.".to_owned(),
        }
    }

    /// The purpose encoded in a name; `None` if only a later version can have written it.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let words: Vec<&str> = std::str::from_utf8(name).ok()?.split('.').collect();
        let (_, words) = words.split_last().filter(|(number, _)| is_number(number))?;
        Some(match words {
            [] => Self::Transit,
            ["copy"] => Self::Copy,
            ["record"] => Self::Record,
            ["kept"] => Self::DirectFiles,
            ["name", names] => Self::Name(names.parse().ok()?),
            ["times", seconds, nanoseconds] => {
                Self::Times(Timestamp { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? })
            }
            _ => return None,
        })
    }
}
