//! Permission changes of `map`: octal numbers, and clauses in the syntax of chmod(1).

/// A sequence of changes to permission bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PermissionChanges(Vec<PermissionChange>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermissionChange {
    /// Sets exactly these bits for everybody, whatever the mode was before.
    To(u32),
    Clause(Clause),
}

/// One operator with its operands: `ug`, `+`, `rwX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clause {
    /// Mask of the bits of the classes that the clause is about.
    who: u32,
    directories: bool,
    files: bool,
    operator: char,
    /// `r`, `w`, `x`, as in one digit of a mode.
    bits: u32,
    /// `X`: execution where anybody may execute, and search of directories.
    executable: bool,
    /// `D`: search of directories.
    search: bool,
    /// `u`, `g`, `o`: classes whose bits are copied, as shifts.
    copied: [Option<u32>; 3],
}

const EXPECTED: &str = "octal numbers and clauses as of chmod, such as 0644 or go-w:a+rX";

impl PermissionChanges {
    /// Parses changes separated by `:` or `,`.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut changes = Vec::new();
        for part in text.split([':', ',']) {
            if part.starts_with(|character: char| character.is_ascii_digit()) {
                let bits = u32::from_str_radix(part, 8).ok().filter(|bits| *bits <= 0o777);
                changes.push(PermissionChange::To(bits.ok_or(EXPECTED)?));
            } else {
                clauses(part, &mut changes).ok_or(EXPECTED)?;
            }
        }
        Ok(Self(changes))
    }

    /// Returns the mode after the changes. Set-ID and sticky bits stay.
    pub(crate) fn apply(&self, mode: u32, is_directory: bool) -> u32 {
        self.0.iter().fold(mode, |mode, change| match change {
            PermissionChange::To(bits) => (mode & !0o777) | bits,
            PermissionChange::Clause(clause) => clause.apply(mode, is_directory),
        })
    }
}

impl Clause {
    fn apply(&self, mode: u32, is_directory: bool) -> u32 {
        if !(if is_directory { self.directories } else { self.files }) {
            return mode;
        }
        let mut bits = self.bits;
        bits |= u32::from(self.executable && (is_directory || mode & 0o111 != 0));
        bits |= u32::from(self.search && is_directory);
        bits |= self.copied.iter().flatten().fold(0, |bits, shift| bits | (mode >> shift & 7));
        let bits = (bits * 0o111) & self.who;
        match self.operator {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => (mode & !self.who) | bits,
        }
    }
}

/// Parses `[ugoadf]*([-+=][rwxXDugo]*)+`.
fn clauses(text: &str, changes: &mut Vec<PermissionChange>) -> Option<()> {
    let start = text.find(['+', '-', '='])?;
    let (mut who, mut directories, mut files) = (0, false, false);
    for letter in text[..start].chars() {
        match letter {
            'u' => who |= 0o700,
            'g' => who |= 0o070,
            'o' => who |= 0o007,
            'a' => who |= 0o777,
            'd' => directories = true,
            'f' => files = true,
            _ => return None,
        }
    }
    if who == 0 {
        who = 0o777;
    }
    if !directories && !files {
        (directories, files) = (true, true);
    }
    let mut rest = text[start..].chars().peekable();
    while let Some(operator) = rest.next() {
        let (bits, executable, search, copied) = (0, false, false, [None; 3]);
        let mut clause = Clause { who, directories, files, operator, bits, executable, search, copied };
        while let Some(letter) = rest.next_if(|letter| !"+-=".contains(*letter)) {
            match letter {
                'r' => clause.bits |= 4,
                'w' => clause.bits |= 2,
                'x' => clause.bits |= 1,
                'X' => clause.executable = true,
                'D' => clause.search = true,
                'u' => clause.copied[0] = Some(6),
                'g' => clause.copied[1] = Some(3),
                'o' => clause.copied[2] = Some(0),
                _ => return None,
            }
        }
        changes.push(PermissionChange::Clause(clause));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_match_chmod() {
        for (text, mode, directory, expected) in [
            ("0644", 0o4777, false, 0o4644),
            ("u+rwX,go-w", 0o066, false, 0o644),
            ("u+rwX:go-w", 0o067, false, 0o745),
            ("u+rwX:go-w", 0o066, true, 0o744),
            ("o-rwx", 0o777, false, 0o770),
            ("g=rD", 0o777, true, 0o757),
            ("g=rD", 0o777, false, 0o747),
            ("a+X", 0o644, false, 0o644),
            ("+x", 0o644, false, 0o755),
            ("gd-w", 0o664, false, 0o664),
            ("gd-w", 0o775, true, 0o755),
            ("f=", 0o777, false, 0),
            ("g=u", 0o640, false, 0o660),
            ("ug+o", 0o004, false, 0o444),
            ("0000:u=rD", 0o777, true, 0o500),
            ("u+r-w=x", 0o200, false, 0o100),
        ] {
            assert_eq!(PermissionChanges::parse(text).unwrap().apply(mode, directory), expected, "{text} on {mode:o}");
        }
        for text in ["", "rwx", "u+s", "0999", "1777", "z+r", "u+r::g+r"] {
            assert!(PermissionChanges::parse(text).is_err(), "{text}");
        }
    }
}
