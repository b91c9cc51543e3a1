//! The exit codes of the command, in one table, and how the failures that carry them end the process.

pub use stack::command::{Exit, Failure, Outcome};

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
    row(Exit::Busy, 12, "the mount, a branch, or an image or device is in use"),
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

/// Returns the code with this number.
pub fn from_number(number: u8) -> Option<Exit> {
    TABLE.iter().find(|row| row.exit.number() == number).map(|row| row.exit)
}

/// Returns the table as text, for `--help` and the man pages.
pub fn table() -> String {
    let mut text = String::from("Exit codes:\n");
    for row in &TABLE {
        text.push_str(&format!("  {:>2}  {}\n", row.number, row.meaning));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_ordered_and_convert_back() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(usize::from(row.number), index);
            assert_eq!(from_number(row.number), Some(row.exit));
            assert_eq!(row.exit.number(), row.number);
        }
        assert_eq!(from_number(200), None);
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
}
