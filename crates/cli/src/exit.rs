//! The exit codes of the command, in one table, and the failure that carries one up to `main`.

use std::fmt;

/// The reason why the command ended. The numbers are stable: a code is never reused for another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Success,
    /// A command of `plyfs shell` failed, a check found something, or another failure without a code of its own.
    Failure,
    /// The command line is invalid.
    Usage,
    /// The stack expression has a syntax error.
    Expression,
    /// The expression names a kind, layer or option that does not exist, or gives an option an invalid value.
    Unknown,
    /// A base or layer cannot be opened.
    Stack,
    /// The mount point is missing or not a directory.
    MountPoint,
    /// The mount point is already a mount of Plyfs.
    Mounted,
    /// FUSE is not available.
    NoFuse,
    /// The user lacks permission.
    Permission,
    /// The mount failed for another reason.
    Mount,
    /// No such mount exists.
    NoMount,
    /// The mount or a branch is in use.
    Busy,
    /// The server of a mount does not answer.
    NoAnswer,
    /// The server ended before the mount was usable.
    Died,
}

/// One line of the table.
pub struct Row {
    /// The code.
    pub exit: Exit,
    /// Exit status of the process.
    pub number: u8,
    /// Its meaning.
    pub meaning: &'static str,
}

const fn row(exit: Exit, number: u8, meaning: &'static str) -> Row {
    Row { exit, number, meaning }
}

/// Every exit code, by number.
pub const TABLE: [Row; 15] = [
    row(Exit::Success, 0, "done"),
    row(
        Exit::Failure,
        1,
        "a command of the shell failed, a check found something, or something without a code of its own",
    ),
    row(Exit::Usage, 2, "the command line or a mount option is wrong"),
    row(Exit::Expression, 3, "the text of the stack expression is wrong"),
    row(Exit::Unknown, 4, "unknown kind, layer or layer option, or a wrong value for one"),
    row(Exit::Stack, 5, "a base or layer cannot be opened: missing directory, wrong file"),
    row(Exit::MountPoint, 6, "the mount point is missing or not a directory"),
    row(Exit::Mounted, 7, "the mount point is a mount of Plyfs already"),
    row(Exit::NoFuse, 8, "FUSE is missing: no /dev/fuse, or no fusermount3 for a user"),
    row(Exit::Permission, 9, "the user may not do this"),
    row(Exit::Mount, 10, "the mount failed for another reason"),
    row(Exit::NoMount, 11, "there is no such mount"),
    row(Exit::Busy, 12, "the mount, or a branch, is in use"),
    row(Exit::NoAnswer, 13, "the server of the mount does not answer"),
    row(Exit::Died, 14, "the server ended before the mount was usable"),
];

/// The exit status of `mount.plyfs`, as mount(8) expects it of its helpers.
pub mod mount_helper {
    use super::Exit;

    /// Returns the exit code of mount(8) for one of ours: 1 for incorrect usage or permissions, 32 for a failed mount.
    pub fn number(exit: Exit) -> u8 {
        match exit {
            Exit::Success => 0,
            Exit::Usage | Exit::Permission => 1,
            _ => 32,
        }
    }
}

/// The exit status of `plyfs run` where its command does not determine it, as with env(1), timeout(1) and others.
pub mod run_command {
    use super::Exit;

    /// The command was found but cannot be executed.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// The command was not found.
    pub const NOT_FOUND: u8 = 127;

    /// Returns the exit status for any failure of our own.
    pub fn number(_: Exit) -> u8 {
        125
    }
}

impl Exit {
    /// Returns the exit status of the process.
    pub fn number(self) -> u8 {
        TABLE.iter().find(|row| row.exit == self).map_or(1, |row| row.number)
    }

    /// Returns the code with that number.
    pub fn from_number(number: u8) -> Option<Exit> {
        TABLE.iter().find(|row| row.number == number).map(|row| row.exit)
    }
}

/// Returns the table as text, for `--help` and the man pages.
pub fn table() -> String {
    let mut text = String::from("Exit codes:\n");
    for row in &TABLE {
        text.push_str(&format!("  {:>2}  {}\n", row.number, row.meaning));
    }
    text
}

/// A failed command: the code, and one line that names the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code to end with.
    pub exit: Exit,
    /// Cause and remedy, in one line.
    pub message: String,
    /// The location in the expression that the message refers to: two more lines.
    pub excerpt: Option<String>,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Returns a failure without an excerpt.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Failure { exit, message: one_line(&message.to_string()), excerpt: None }
    }

    /// Returns a failure that was already reported where it happened.
    pub fn silent(exit: Exit) -> Self {
        Failure { exit, message: String::new(), excerpt: None }
    }

    /// Returns whether nothing is left to report.
    pub fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// Returns the failure with an excerpt below its message.
    pub fn with_excerpt(mut self, excerpt: String) -> Self {
        self.excerpt = Some(excerpt);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        match &self.excerpt {
            Some(excerpt) => write!(formatter, "\n{}", indented(excerpt)),
            None => Ok(()),
        }
    }
}

impl Failure {
    /// Returns the failure for a message whose first line names the failure, and whose other lines show it.
    pub fn from_lines(exit: Exit, message: &str) -> Self {
        match message.split_once('\n') {
            Some((first, rest)) => Failure::new(exit, first).with_excerpt(rest.trim_end().to_owned()),
            None => Failure::new(exit, message),
        }
    }
}

impl std::error::Error for Failure {}

/// Replaces line breaks, so that messages stay on one line even where they quote a name that contains one.
fn one_line(message: &str) -> String {
    let mut line = String::new();
    for character in message.chars() {
        match character {
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line
}

fn indented(excerpt: &str) -> String {
    excerpt.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_ordered_and_convert_back() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(usize::from(row.number), index);
            assert_eq!(Exit::from_number(row.number), Some(row.exit));
            assert_eq!(row.exit.number(), row.number);
        }
        assert_eq!(Exit::from_number(200), None);
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exit-codes.md"));
        let rows: Vec<String> = TABLE
            .iter()
            .map(|row| format!("| {} | {} | {} |", row.number, row.meaning, mount_helper::number(row.exit)))
            .collect();
        let written: Vec<&str> =
            page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| code")).collect();
        assert_eq!(written, rows, "docs/exit-codes.md differs from the table");
    }

    #[test]
    fn messages_stay_on_one_line() {
        assert_eq!(Failure::new(Exit::Failure, "no \n name").to_string(), "no \\n name");
    }
}
