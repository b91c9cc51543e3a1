//! Completes mount points of Plyfs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use stack::printable::printable;

use crate::mount_table::{self, MountEntry};

/// Returns the mount points of Plyfs that begin with what has been typed; directories, if there are none.
pub(crate) fn complete(current: &OsStr) -> Vec<CompletionCandidate> {
    let mounts = matching(&mount_table::read(), current);
    match mounts.is_empty() {
        true => PathCompleter::dir().complete(current),
        false => mounts,
    }
}

fn matching(table: &[MountEntry], current: &OsStr) -> Vec<CompletionCandidate> {
    let mounts = table.iter().filter(|entry| entry.is_plyfs() && is_plain(entry.mount_point.as_os_str()));
    let matching = mounts.filter(|entry| entry.mount_point.as_os_str().as_bytes().starts_with(current.as_bytes()));
    let candidate = |entry: &MountEntry| {
        CompletionCandidate::new(entry.mount_point.as_os_str()).help(Some(printable(&entry.source).into()))
    };
    matching.map(candidate).collect()
}

/// Returns whether a shell takes a path literally: the scripts insert candidates without quotes, and any user can mount on a
/// directory of any name.
fn is_plain(path: &OsStr) -> bool {
    path.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn only_mounts_of_plyfs_that_match_are_completed() {
        let entry = |mount_point: &str, kind: &str| MountEntry {
            mount: 1,
            device: 1,
            mount_point: PathBuf::from(mount_point),
            kind: kind.to_owned(),
            source: "mem:".to_owned(),
            options: Vec::new(),
            user: None,
        };
        let table = [entry("/mnt/a", "fuse.plyfs"), entry("/mnt/b", "ext4"), entry("/srv/c", "fuse.plyfs")];
        let completed = |current: &str| -> Vec<_> {
            matching(&table, OsStr::new(current)).iter().map(|candidate| candidate.get_value().to_owned()).collect()
        };
        assert_eq!(completed("/m"), ["/mnt/a"]);
        assert_eq!(completed(""), ["/mnt/a", "/srv/c"]);
        assert!(completed("/mnt/b").is_empty());
        assert!(
            matching(&[entry("/tmp/a$(b)", "fuse.plyfs"), entry("/tmp/a b", "fuse.plyfs")], OsStr::new("/")).is_empty()
        );
    }
}
