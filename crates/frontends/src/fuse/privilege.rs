//! Whether this process is the machine's root: the root of a user namespace may mount, and has no other right of root's.

/// Whether it is the superuser, and what it is called is not made up by a user namespace. Where /proc is missing, its user id is
/// believed.
pub(crate) fn is_machine_root() -> bool {
    rustix::process::geteuid().is_root()
        && std::fs::read_to_string("/proc/self/uid_map").map_or(true, |map| is_whole(&map))
}

/// Whether a map of user ids (user_namespaces(7)) leaves all as they are, as that of the first namespace does.
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
