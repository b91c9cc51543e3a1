//! Losses of copies: attributes that a branch could not preserve, recorded in its state directory.
//!
//! The file `.wh..wh.plyfs/losses` has the form's version, and a line for each such copy: the losses, separated by commas, and the
//! path in the branch in hexadecimal digits. Nothing depends on it: it only documents what is missing. Earlier versions wrote no
//! version; what a later one has written is neither read nor changed.
//!
//! A crash may cut off the last line. It is then ended so that it cannot be read as a shorter path, and the next one follows it.

use vnode::{Caller, Entry, OpenFlags, Result, VnodeRef, read_fully};

use super::encoding;
use super::objects;
use super::state_directory::{self, LATER_VERSION};

/// First line.
const HEADER: &str = "plyfs losses 1";

/// Maximum size in bytes; further losses are not recorded.
const MAX_LOSSES_BYTES: u64 = 1 << 20;

/// End of a line that was cut off: no path has this digit.
const CUT_END: &str = "?\n";

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

/// The record of a branch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LossesRecord {
    /// Paths in the branch, and what is missing there; the earliest first.
    pub(crate) losses: Vec<(Vec<u8>, Losses)>,
    /// Lines that cannot be read, such as one that was not written to its end, without their newlines.
    pub(crate) unreadable: Vec<Vec<u8>>,
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

    /// The others.
    #[must_use]
    pub(crate) fn without(self, loss: Loss) -> Self {
        Self(self.0 & !loss.bit())
    }

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
    let created = state_directory::create_own(state, state_directory::LOSSES, OpenFlags::READ_WRITE)?;
    let (line, size) = (line(path, losses), created.file.getattr(&server)?.size);
    let mut first = [0; HEADER.len() + 1];
    let length = read_fully(&*created.file, &server, 0, &mut first)?;
    if &first[..length] != format!("{HEADER}\n").as_bytes() {
        return rewrite(state, &created.entry, &line);
    }
    let mut last = [0];
    read_fully(&*created.file, &server, size.saturating_sub(1), &mut last)?;
    let added = [if last == *b"\n" { "" } else { CUT_END }, &line].concat();
    if size + added.len() as u64 > MAX_LOSSES_BYTES {
        return Ok(());
    }
    objects::write_all(&*created.file, size, added.as_bytes())
}

/// Writes a record anew that has no version yet, with one more line: completely or not at all.
fn rewrite(state: &VnodeRef, file: &Entry, added: &str) -> Result<()> {
    let mut known = read_text(file)?;
    if HEADER.as_bytes().starts_with(&known) {
        // Nothing but a part of the first line was ever written.
        known.clear();
    }
    if known.last().is_some_and(|last| *last != b'\n') {
        known.extend_from_slice(CUT_END.as_bytes());
    }
    let text = [HEADER.as_bytes(), b"\n", &known, added.as_bytes()].concat();
    if text.len() as u64 > MAX_LOSSES_BYTES {
        return Ok(());
    }
    state_directory::write_state_file(state, state_directory::LOSSES, &text)
}

/// Removes lines that cannot be read from the record of a branch.
///
/// # Errors
/// As [`recorded`], and those of writing.
pub(crate) fn remove_unreadable(state: &VnodeRef) -> Result<()> {
    let record = recorded(state)?;
    if record.unreadable.is_empty() {
        return Ok(());
    }
    let known: String = record.losses.iter().map(|(path, losses)| line(path, *losses)).collect();
    state_directory::write_state_file(state, state_directory::LOSSES, format!("{HEADER}\n{known}").as_bytes())
}

/// Reads the record of a branch.
///
/// # Errors
/// Storage errors, and [`LATER_VERSION`].
pub(crate) fn recorded(state: &VnodeRef) -> Result<LossesRecord> {
    let file = state_directory::find_own(state, state_directory::LOSSES)?;
    file.map_or(Ok(LossesRecord::default()), |file| Ok(parse(&read_text(&file)?)))
}

/// Returns the text of a record.
///
/// # Errors
/// Storage errors, and [`LATER_VERSION`].
fn read_text(file: &Entry) -> Result<Vec<u8>> {
    let text = objects::read_all(file, MAX_LOSSES_BYTES)?;
    let is_later = state_directory::is_later_version(&String::from_utf8_lossy(&text), HEADER);
    if is_later { Err(LATER_VERSION) } else { Ok(text) }
}

/// Returns what the text of a record says, in the first line of which there may be a version.
fn parse(text: &[u8]) -> LossesRecord {
    let mut record = LossesRecord::default();
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    for line in lines.skip_while(|line| line.strip_suffix(b"\n") == Some(HEADER.as_bytes())) {
        // Without its end it may be that of a shorter path.
        match line.strip_suffix(b"\n").and_then(|line| parse_line(std::str::from_utf8(line).ok()?)) {
            Some(loss) => record.losses.push(loss),
            None => record.unreadable.push(line.strip_suffix(b"\n").unwrap_or(line).to_vec()),
        }
    }
    record
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
