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
}
