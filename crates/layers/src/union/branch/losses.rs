//! Losses of copies: attributes that a branch could not preserve, recorded in its state directory.
//!
//! The file `.wh..wh.plyfs/losses` has the form's version, and a line for each such copy: the losses, separated by commas, and the
//! path in the branch in hexadecimal digits. Nothing depends on it: it only documents what is missing. Earlier versions wrote no
//! version; what a later one has written is neither read nor changed.

use vnode::{Caller, Creation, Entry, OpenFlags, Result, VnodeRef, read_fully};

use super::encoding;
use super::objects;
use super::state_directory::{self, LATER_VERSION};

/// First line.
const HEADER: &str = "plyfs losses 1";

/// Maximum size in bytes; further losses are not recorded.
const MAX_LOSSES_BYTES: u64 = 1 << 20;

/// Something that a copy lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Owner and group are those that the branch assigns.
    Owner,
    /// The mode differs: the branch has no set-id bits, or no permissions for each object.
    Mode,
    /// Times differ: the branch cannot store any that old or that new.
    Times,
    /// Extended attributes are missing.
    Attributes,
    /// Labels of security modules are missing.
    Labels,
}

/// Set of losses of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses(u8);

impl Loss {
    const ALL: [Self; 5] = [Self::Owner, Self::Mode, Self::Times, Self::Attributes, Self::Labels];

    /// Word for it, in the record and in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Mode => "mode",
            Self::Times => "times",
            Self::Attributes => "attributes",
            Self::Labels => "labels",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The form for messages.
impl std::fmt::Display for Losses {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.joined(", "))
    }
}

impl Losses {
    /// No losses.
    pub const NONE: Self = Self(0);

    /// Adds a loss if the condition is true.
    #[must_use]
    pub fn with_if(self, is_lost: bool, loss: Loss) -> Self {
        Self(if is_lost { self.0 | loss.bit() } else { self.0 })
    }

    /// The union of both sets.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns whether the set has this loss.
    pub fn has(self, loss: Loss) -> bool {
        self.0 & loss.bit() != 0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// The losses in their recorded form.
    pub(crate) fn words(self) -> String {
        self.joined(",")
    }

    fn joined(self, separator: &str) -> String {
        let words: Vec<&str> = Loss::ALL.into_iter().filter(|loss| self.has(*loss)).map(Loss::word).collect();
        words.join(separator)
    }

    pub(crate) fn parse_words(words: &str) -> Option<Self> {
        let loss = |word: &str| Loss::ALL.into_iter().find(|loss| loss.word() == word);
        words.split(',').try_fold(Self::NONE, |losses, word| Some(losses.with_if(true, loss(word)?)))
    }
}

/// Records what the copy at a path of the branch lacks. Without space for it, nothing is recorded.
///
/// # Errors
/// Storage errors; [`LATER_VERSION`] if the record has a form of later versions: it stays as it is.
pub(crate) fn record(state: &VnodeRef, path: &[u8], losses: Losses) -> Result<()> {
    let server = Caller::server();
    let creation = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
    let created = state.create(&server, state_directory::own_name(state_directory::LOSSES), &creation)?;
    let (line, size) = (line(path, losses), created.file.getattr(&server)?.size);
    let mut first = [0; HEADER.len() + 1];
    let length = read_fully(&*created.file, &server, 0, &mut first)?;
    if &first[..length] != format!("{HEADER}\n").as_bytes() {
        return rewrite(state, &created.entry, &line);
    }
    if size + line.len() as u64 > MAX_LOSSES_BYTES {
        return Ok(());
    }
    objects::write_all(&*created.file, size, line.as_bytes())
}

/// Writes a record anew that has no version yet, with one more line: completely or not at all.
fn rewrite(state: &VnodeRef, file: &Entry, added: &str) -> Result<()> {
    let known: String = read(file)?.iter().map(|(path, losses)| line(path, *losses)).collect();
    let text = format!("{HEADER}\n{known}{added}");
    if text.len() as u64 > MAX_LOSSES_BYTES {
        return Ok(());
    }
    state_directory::write_state_file(state, state_directory::LOSSES, text.as_bytes())
}

/// Recorded losses of a branch: paths, and what is missing there.
///
/// # Errors
/// Storage errors, and [`LATER_VERSION`].
pub(crate) fn recorded(state: &VnodeRef) -> Result<Vec<(Vec<u8>, Losses)>> {
    let file = objects::find(state, state_directory::own_name(state_directory::LOSSES))?;
    file.map_or(Ok(Vec::new()), |file| read(&file))
}

fn read(file: &Entry) -> Result<Vec<(Vec<u8>, Losses)>> {
    let text = objects::read_all(file, MAX_LOSSES_BYTES)?;
    let text = String::from_utf8_lossy(&text);
    if state_directory::is_later_version(&text, HEADER) {
        return Err(LATER_VERSION);
    }
    // A line that was not written to its end is ignored, and so is the version.
    Ok(text.lines().filter_map(parse_line).collect())
}

fn line(path: &[u8], losses: Losses) -> String {
    format!("{} {}\n", losses.words(), encoding::to_hex(path))
}

fn parse_line(line: &str) -> Option<(Vec<u8>, Losses)> {
    let (words, path) = line.split_once(' ')?;
    Some((encoding::from_hex(path)?, Losses::parse_words(words)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_round_trip() {
        for losses in 1..1 << Loss::ALL.len() {
            let recorded = (b"a b/\xff\n".to_vec(), Losses(losses));
            assert_eq!(parse_line(line(&recorded.0, recorded.1).trim_end()), Some(recorded));
        }
        for line in ["", "owner", "x 00", "owner 0", "owner, 00"] {
            assert_eq!(parse_line(line), None, "{line:?}");
        }
    }
}
