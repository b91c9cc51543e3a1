//! Inner mounts: what others have mounted inside a mount, found in the mount table.
//!
//! A failed lookup makes the kernel drop the name, and detach everything mounted there or below, for everybody. Only `ENOMEM`
//! and `EINTR` do not count as a result, and leave the name in place (Linux, fs/fuse/dir.c, `fuse_dentry_revalidate`). Mounts
//! in a mount namespace that is neither the server's nor the caller's are not visible here.

use crate::fuse::mounting::mount_point::ListedMount;
use procfs::Process;
use procfs::mount_table::{self, Mount, mounts};
use std::collections::HashMap;
use vnode::Errno;

/// The mounts inside one mount.
pub(crate) struct InnerMounts {
    /// The mount's device number; `None` if it is not known.
    device: Option<u64>,
}

impl InnerMounts {
    /// Creates the view of the mounts inside a listed mount.
    pub(crate) fn of(mount: &ListedMount) -> InnerMounts {
        InnerMounts { device: Some(mount.device) }
    }

    /// Returns the error for a failed lookup: that of the stack, unless it would make the kernel detach something that may
    /// well still be there.
    pub(crate) fn lookup_error(&self, errno: Errno, name: &[u8], process: u32) -> Errno {
        let is_shortage = [Errno::EMFILE, Errno::ENFILE].contains(&errno);
        let is_definite =
            [Errno::ENOENT, Errno::ENOTDIR, Errno::ESTALE, Errno::ENAMETOOLONG, Errno::EINVAL].contains(&errno);
        let leaves_name = [Errno::ENOMEM, Errno::EINTR].contains(&errno);
        if is_definite || leaves_name || !(is_shortage || self.may_contain_mount(name, process)) {
            return errno;
        }
        tracing::debug!(%errno, "a look-up failed and is answered with ENOMEM, which detaches nothing");
        Errno::ENOMEM
    }

    /// Returns whether something may be mounted on an object of this name or below it, as the server or the process sees it.
    fn may_contain_mount(&self, name: &[u8], process: u32) -> bool {
        let Some(device) = self.device else { return true };
        let has_mount_below_name = |table: Vec<u8>| has_mount_below_name(&table, device, name);
        let of_process = || Process::Numbered(process).mount_table().unwrap_or_default();
        mount_table::read().map_or(true, has_mount_below_name)
            || (process != 0 && of_process().is_some_and(has_mount_below_name))
    }
}

/// Returns whether a mount table has a mount inside a mount of this device, on a path that contains this name.
fn has_mount_below_name(table: &[u8], device: u64, name: &[u8]) -> bool {
    let mounts: Vec<Mount<'_>> = mounts(table).collect();
    let outer: HashMap<u64, &Mount<'_>> =
        mounts.iter().filter(|mount| mount.device == device).map(|mount| (mount.number, mount)).collect();
    mounts.iter().any(|mount| {
        let Some(outer) = outer.get(&mount.parent) else { return false };
        let below = mount.mount_point.strip_prefix(&*outer.mount_point).unwrap_or(&mount.mount_point);
        [&*outer.root, below].into_iter().any(|path| path.split(|&byte| byte == b'/').any(|part| part == name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    #[test]
    fn inner_mount_is_found_by_every_name_on_its_path() {
        let table = b"1 0 8:1 / / rw - ext4 /dev/a rw\n\
            2 1 0:40 / /mnt/p rw - fuse.plyfs x rw\n\
            3 2 0:41 / /mnt/p/a\\040b/m rw - tmpfs t rw\n\
            4 1 0:40 /bound/dir /elsewhere rw - fuse.plyfs x rw\n\
            5 4 0:42 / /elsewhere/n rw - tmpfs t rw\n\
            6 1 0:43 / /mnt/q rw - tmpfs t rw\n";
        let finds = |name: &str| has_mount_below_name(table, makedev(0, 40), name.as_bytes());
        for name in ["a b", "m", "bound", "dir", "n"] {
            assert!(finds(name), "{name}");
        }
        for name in ["mnt", "p", "q", "elsewhere", "a"] {
            assert!(!finds(name), "{name}");
        }
        assert!(!has_mount_below_name(table, makedev(0, 43), b"m") && !has_mount_below_name(b"", makedev(0, 40), b"m"));
    }

    #[test]
    fn shortages_become_enomem_and_other_errors_stay() {
        let nowhere = InnerMounts { device: Some(0) };
        assert_eq!(nowhere.lookup_error(Errno::EMFILE, b"name", 0), Errno::ENOMEM);
        for errno in [Errno::EIO, Errno::EACCES, Errno::ENOENT, Errno::EINTR, Errno::ENOMEM] {
            assert_eq!(nowhere.lookup_error(errno, b"name", 0), errno);
        }
        let unknown = InnerMounts { device: None };
        assert_eq!(unknown.lookup_error(Errno::EIO, b"name", 0), Errno::ENOMEM);
        assert_eq!(unknown.lookup_error(Errno::ENOENT, b"name", 0), Errno::ENOENT);
    }
}
