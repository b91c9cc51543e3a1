//! The release of the running kernel, for features that mounts lack on earlier releases.

/// Returns whether the running kernel is this release or a later one.
pub(crate) fn is_at_least(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname();
    parsed(&release.release().to_string_lossy()).is_none_or(|running| running >= (major, minor))
}

fn parsed(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(parsed("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(parsed("6.18-rc2"), Some((6, 18)));
        assert_eq!(parsed("unknown"), None);
        assert!(is_at_least(5, 9) && !is_at_least(1000, 0));
    }
}
