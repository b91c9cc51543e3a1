//! How user namespaces map user and group IDs, see user_namespaces(7).

use crate::read::words;

/// Kind of IDs that a user namespace maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// Users.
    User,
    /// Groups.
    Group,
}

impl IdKind {
    /// Returns the name of the file that has the map.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::User => "uid_map",
            Self::Group => "gid_map",
        }
    }
}

/// The map of one kind of IDs, from those in the user namespace of a process to those in the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMap(Vec<u8>);

impl From<Vec<u8>> for IdMap {
    fn from(text: Vec<u8>) -> Self {
        Self(text)
    }
}

impl IdMap {
    /// Returns whether the map leaves all IDs unchanged, as that of the initial namespace does.
    pub fn is_identity(&self) -> bool {
        words(&self.0).eq([&b"0"[..], b"0", b"4294967295"])
    }

    /// Returns the ID in the caller's user namespace of one in that of the process; in the parent of the caller's if both are the same.
    pub fn outside(&self, id: u32) -> Option<u32> {
        let numbers: Vec<u32> = words(&self.0).map_while(|word| str::from_utf8(word).ok()?.parse().ok()).collect();
        let mut ranges = numbers.as_chunks::<3>().0.iter();
        ranges.find_map(|[inside, outside, count]| {
            let offset = id.checked_sub(*inside).filter(|offset| offset < count)?;
            outside.checked_add(offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_map_of_all_ids_to_themselves_is_of_the_machine() {
        let is_identity = |text: &str| IdMap(text.into()).is_identity();
        assert!(is_identity("         0          0 4294967295\n"));
        assert!(!is_identity("         0       1000          1\n"));
        assert!(!is_identity("         0          0          1\n"));
        assert!(!is_identity("         0     100000      65536\n    65536  1 1\n"));
        assert!(!is_identity(""));
    }

    #[test]
    fn ids_are_those_of_the_range_that_has_them() {
        let map = IdMap("         0       1000          1\n         1     100000      65536\n".into());
        assert_eq!([0, 1, 65_536, 65_537].map(|id| map.outside(id)), [Some(1000), Some(100_000), Some(165_535), None]);
        assert_eq!(IdMap("         0          0 4294967295\n".into()).outside(7), Some(7));
        assert_eq!(IdMap("x".into()).outside(0), None);
    }
}
