//! Formats modes, times and names for people, and parses modes and sizes.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use vnode::{Attributes, FileKind, Timestamp};

/// Returns the kind as stat(1) writes it: `regular file`.
pub(crate) fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharacterDevice => "character special file",
        FileKind::BlockDevice => "block special file",
    }
}

/// Returns the time in UTC: `2026-11-21 17:47:12`.
pub(crate) fn time(time: Timestamp) -> String {
    let (days, seconds) = (time.seconds.div_euclid(86_400), time.seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Returns the time with its nanoseconds and the zone.
pub(crate) fn precise_time(stamp: Timestamp) -> String {
    format!("{}.{:09} +0000", time(stamp), stamp.nanoseconds)
}

/// Returns the new mode from octal digits or from a symbolic mode such as `u+rw,go-x`, as chmod(1); `None` if it is neither.
pub(crate) fn changed_mode(text: &str, attributes: &Attributes, umask: u32) -> Option<u32> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    }
    text.split(',').try_fold(attributes.mode, |mode, clause| changed_by(clause, mode, attributes.is_directory(), umask))
}

/// Parses a size in bytes with an optional suffix K, M, G or T (powers of 1,024).
pub(crate) fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (last, 'K' | 'k') => (&text[..last], 10),
        (last, 'M') => (&text[..last], 20),
        (last, 'G') => (&text[..last], 30),
        (last, 'T') => (&text[..last], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|size| i64::try_from(*size).is_ok())
}

/// The names of users and groups, each looked up once with getent(1), so that every source of names is used.
#[derive(Default)]
pub(crate) struct IdNames {
    cache: HashMap<(&'static str, u32), String>,
}

impl IdNames {
    /// Returns the user's name, or the number.
    pub(crate) fn user(&mut self, uid: u32) -> String {
        self.name("passwd", uid)
    }

    /// Returns the group's name, or the number.
    pub(crate) fn group(&mut self, gid: u32) -> String {
        self.name("group", gid)
    }

    fn name(&mut self, database: &'static str, id: u32) -> String {
        let look_up = || getent(database, &id.to_string()).and_then(|fields| fields.into_iter().next());
        self.cache.entry((database, id)).or_insert_with(|| look_up().unwrap_or_else(|| id.to_string())).clone()
    }
}

/// Returns the uid of a user given by name or number.
pub(crate) fn user_id(text: &str) -> Option<u32> {
    identifier("passwd", text)
}

/// Returns the gid of a group given by name or number.
pub(crate) fn group_id(text: &str) -> Option<u32> {
    identifier("group", text)
}

fn identifier(database: &'static str, text: &str) -> Option<u32> {
    text.parse().ok().or_else(|| getent(database, text)?.get(2)?.parse().ok())
}

/// Returns the fields of one line of a database. The key must not be interpreted as an option.
fn getent(database: &str, key: &str) -> Option<Vec<String>> {
    if key.is_empty() || key.starts_with('-') {
        return None;
    }
    let output =
        Command::new("getent").args([database, key]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| line.trim_end().split(':').map(str::to_owned).collect())
}

/// Returns the year, month and day, by counting the days of 400-year cycles that start on a first of March.
fn date(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (month, day) = (if month < 10 { month + 3 } else { month - 9 }, day_of_year - (153 * month + 2) / 5 + 1);
    (cycle * 400 + year + i64::from(month <= 2), month, day)
}

/// Applies one clause such as `u+rwx` or `=r` to a mode.
fn changed_by(clause: &str, mode: u32, directory: bool, umask: u32) -> Option<u32> {
    let operator_at = clause.find(['+', '-', '='])?;
    let (who, rest) = clause.split_at(operator_at);
    let mut classes = 0;
    for letter in who.chars() {
        classes |= match letter {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => 0o7777,
            _ => return None,
        };
    }
    // Without a class, the clause applies to all of them, except for the bits of the umask.
    let (classes, allowed) = if who.is_empty() { (0o7777, 0o7777 & !umask) } else { (classes, classes) };
    let mut bits = 0;
    for letter in rest[1..].chars() {
        bits |= match letter {
            'r' => 0o444,
            'w' => 0o222,
            'x' => 0o111,
            'X' if directory || mode & 0o111 != 0 => 0o111,
            'X' => 0,
            's' => 0o6000,
            't' => 0o1000,
            _ => return None,
        };
    }
    // The sticky bit belongs to no class.
    let bits = bits & (allowed | bits & 0o1000);
    Some(match rest.as_bytes()[0] {
        b'+' => mode | bits,
        b'-' => mode & !bits,
        // As in chmod(1), set-id bits of directories are kept unless named.
        _ if directory => mode & !(classes & 0o1777) | bits,
        _ => mode & !classes | bits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(kind: FileKind, mode: u32) -> Attributes {
        let zero = Timestamp::default();
        let rdev = vnode::Device::default();
        Attributes {
            kind,
            mode,
            rdev,
            nlink: 1,
            uid: 0,
            gid: 0,
            ino: vnode::InodeNumber::new(1),
            size: 0,
            blocks: 0,
            block_size: 4096,
            atime: zero,
            mtime: zero,
            ctime: zero,
            btime: None,
            flags: 0,
            flags_known: 0,
            is_provisional: false,
        }
    }

    #[test]
    fn modes_are_formatted_as_by_ls() {
        let text = |kind, bits| attributes(kind, bits).mode_text();
        assert_eq!(text(FileKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(text(FileKind::Regular, 0o4755), "-rwsr-xr-x");
        assert_eq!(text(FileKind::Regular, 0o7640), "-rwSr-S--T");
        assert_eq!(text(FileKind::Symlink, 0o777), "lrwxrwxrwx");
    }

    #[test]
    fn modes_are_parsed_as_by_chmod() {
        let file = attributes(FileKind::Regular, 0o644);
        let directory = attributes(FileKind::Directory, 0o2755);
        let changed = |text, attributes| changed_mode(text, attributes, 0o022);
        assert_eq!(changed("4755", &file), Some(0o4755));
        assert_eq!(changed("u+x,go-r", &file), Some(0o700));
        assert_eq!(changed("a=r", &file), Some(0o444));
        assert_eq!(changed("+w", &file), Some(0o644));
        assert_eq!(changed("+x", &file), Some(0o755));
        assert_eq!(changed("a+X", &file), Some(0o644));
        assert_eq!(changed("a-rwx,u=rX", &directory), Some(0o2500));
        assert_eq!(changed("g-s,+t", &directory), Some(0o1755));
        assert_eq!(changed("u+s", &file), Some(0o4644));
        for wrong in ["", "8", "77777", "z+r", "u+q", "u"] {
            assert_eq!(changed(wrong, &file), None, "{wrong}");
        }
    }

    #[test]
    fn dates_before_and_after_1970() {
        let at = |seconds| time(Timestamp { seconds, nanoseconds: 0 });
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
        assert_eq!(at(4_102_444_799), "2099-12-31 23:59:59");
        assert_eq!(at(1_700_000_000), "2023-11-14 22:13:20");
    }

    #[test]
    fn sizes_with_units() {
        assert_eq!(size("0"), Some(0));
        assert_eq!(size("3K"), Some(3_072));
        assert_eq!(size("2G"), Some(2 << 30));
        for wrong in ["", "K", "-1", "1.5M", "99999999T"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
