//! Detection of user namespaces: whether this process has the machine's own user and group IDs.
//!
//! Those of a user namespace differ, see user_namespaces(7).

use std::fs;

/// Kind of IDs that a user namespace maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// Users.
    User,
    /// Groups.
    Group,
}

/// Returns whether every ID of this kind maps to itself, as outside of all user namespaces; `None` if that cannot be
/// read because /proc is missing.
pub fn has_machine_ids(kind: IdKind) -> Option<bool> {
    let path = match kind {
        IdKind::User => "/proc/self/uid_map",
        IdKind::Group => "/proc/self/gid_map",
    };
    fs::read_to_string(path).ok().map(|map| is_whole(&map))
}

/// Returns whether a map leaves all IDs unchanged, as that of the initial namespace does.
fn is_whole(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_map_of_all_ids_to_themselves_is_of_the_machine() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0       1000          1\n"));
        assert!(!is_whole("         0          0          1\n"));
        assert!(!is_whole("         0     100000      65536\n    65536  1 1\n"));
        assert!(!is_whole(""));
    }
}
