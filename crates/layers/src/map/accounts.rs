//! Files in the formats of passwd(5) and group(5), by whose names `map` maps IDs.

use std::collections::HashMap;

use crate::options::{OptionError, OptionProblem, Options};
use crate::text_file;

/// The options that name files of users, or of groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountFiles {
    /// Key of the option that names the file with the lower IDs.
    pub(crate) below: &'static str,
    /// Key of the option that names the file with the IDs shown.
    pub(crate) above: &'static str,
}

/// A name and its ID.
type Account = (String, u32);

/// Returns the lower ID and the ID shown of each name that both sides have. Without a file, a side has what `system` finds, the
/// accounts of the system; without both, nothing is mapped.
///
/// # Errors
/// Fails if a file cannot be read, or has a line of another form.
pub(crate) fn pairs(
    options: &Options<'_>,
    files: AccountFiles,
    system: impl Fn(&str) -> Option<u32>,
) -> Result<Vec<(u32, u32)>, OptionError> {
    let (below, above) = (read(options, files.below)?, read(options, files.above)?);
    Ok(match (below, above) {
        (None, None) => Vec::new(),
        (Some(below), None) => below.into_iter().filter_map(|(name, lower)| Some((lower, system(&name)?))).collect(),
        (None, Some(above)) => above.into_iter().filter_map(|(name, shown)| Some((system(&name)?, shown))).collect(),
        (Some(below), Some(above)) => {
            // Of several lines with a name, the first counts, as for the system.
            let shown: HashMap<String, u32> = above.into_iter().rev().collect();
            below.into_iter().filter_map(|(name, lower)| Some((lower, *shown.get(&name)?))).collect()
        }
    })
}

/// Reads the file that an option names, if it is given.
fn read(options: &Options<'_>, key: &str) -> Result<Option<Vec<Account>>, OptionError> {
    let Some(path) = options.text(key) else { return Ok(None) };
    let path_owned = || path.to_owned();
    let text = text_file::read_lossy(path)
        .map_err(|error| options.error(key, OptionProblem::File { path: path_owned(), error }))?;
    parse(&text).map(Some).map_err(|line| {
        let message = "expected NAME:PASSWORD:NUMBER and more fields after colons".to_owned();
        options.error(key, OptionProblem::FileLine { path: path_owned(), line, message })
    })
}

/// Parses lines such as `alice:x:1000:1000::/home/alice:/bin/sh` or `staff:x:50:alice`. Comments, and references to other sources
/// of accounts (`+`, `-`), are skipped.
///
/// # Errors
/// The number of the first line of another form, counted from 1.
fn parse(text: &str) -> Result<Vec<Account>, usize> {
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with(['#', '+', '-']));
    lines.map(|(index, line)| account(line).ok_or(index + 1)).collect()
}

/// Parses a line. A name of digits would be taken for an ID, and the ID with all bits set means "none".
fn account(line: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let (name, id) = (fields.next()?, fields.nth(1)?.trim().parse::<u32>().ok()?);
    let is_name = !name.is_empty() && name.parse::<u32>().is_err();
    (is_name && id != u32::MAX).then(|| (name.to_owned(), id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_from_either_format() {
        let text = "# users\nalice:x:1000:1000::/home/alice:/bin/sh\n\nstaff:*:50:alice,bob\n+@others::::::\n";
        assert_eq!(parse(text).unwrap(), [("alice".to_owned(), 1000), ("staff".to_owned(), 50)]);
        for (text, line) in
            [("alice:x:1000\nbob:x:many", 2), ("alice", 1), (":x:5", 1), ("a:x:4294967295", 1), ("7:x:7", 1)]
        {
            assert_eq!(parse(text), Err(line), "{text}");
        }
    }
}
