//! The kernel's mount table, limited to what Plyfs needs.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use procfs::mount_table::{self, Mount, mounts, unescape};

/// One mount of the caller's mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// The kernel's mount ID.
    pub mount: u64,
    /// Device number of its file system: several mounts of one file system have the same.
    pub device: u64,
    /// Path of the mount point.
    pub mount_point: PathBuf,
    /// The type, such as `fuse.plyfs`.
    pub kind: String,
    /// The source that mount(8) shows.
    pub source: String,
    /// The options of the mount, followed by those of its file system.
    pub options: Vec<String>,
    /// For FUSE, the uid of the user whose server it is.
    pub user: Option<u32>,
}

impl MountEntry {
    /// Returns whether it is a mount of Plyfs.
    pub(crate) fn is_plyfs(&self) -> bool {
        self.kind == "fuse.plyfs"
    }

    /// Returns whether a server's report is of this mount point. Reports are text, which not all paths are.
    pub(crate) fn is_reported_as(&self, mount_point: &str) -> bool {
        self.mount_point.to_string_lossy() == mount_point
    }
}

/// Returns all mounts, in the order in which they were made.
pub(crate) fn read() -> Vec<MountEntry> {
    let table = mount_table::read().unwrap_or_default();
    mounts(&table).map(entry).collect()
}

/// Returns the mount points of file systems that processes serve through FUSE.
pub(crate) fn fuse_mount_points() -> Vec<PathBuf> {
    let table = mount_table::read().unwrap_or_default();
    mounts(&table).filter(Mount::is_fuse).map(|mount| path(mount.mount_point)).collect()
}

/// Returns the topmost mount on exactly this path.
pub(crate) fn find_at(mount_point: &Path) -> Option<MountEntry> {
    read().into_iter().rfind(|entry| entry.mount_point == mount_point)
}

/// Returns the mounts on directories above this path, outermost first.
pub(crate) fn above(path: &Path) -> Vec<MountEntry> {
    let mut mounts = read();
    mounts.retain(|entry| entry.mount_point != path && path.starts_with(&entry.mount_point));
    mounts.sort_by_key(|entry| entry.mount_point.components().count());
    mounts
}

/// Returns the mount with this ID, if it is attached to the tree.
pub(crate) fn find_by_id(mount: u64) -> Option<MountEntry> {
    read().into_iter().find(|entry| entry.mount == mount)
}

/// Returns the path in the form in which the kernel lists mounts: absolute, without symlinks or `..`. Does not access a mount
/// point itself if its path is already listed: its server might not answer.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let listed = |path: &Path| read().iter().any(|entry| entry.is_plyfs() && entry.mount_point == path);
    // `absolute` keeps `..` and empty trailing components; mounts are never listed with them.
    let absolute: PathBuf = absolute.components().collect();
    if listed(&absolute) {
        return absolute;
    }
    if let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name())
        && let Ok(parent) = parent.canonicalize()
        && listed(&parent.join(name))
    {
        return parent.join(name);
    }
    absolute.canonicalize().unwrap_or(absolute)
}

fn entry(mount: Mount<'_>) -> MountEntry {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Commas within the options are escaped.
    let words = |bytes: &[u8]| bytes.split(|&byte| byte == b',').map(|word| text(&unescape(word))).collect::<Vec<_>>();
    let of_file_system = words(mount.file_system_options);
    let user = of_file_system.iter().find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
    MountEntry {
        mount: mount.number,
        device: mount.device,
        mount_point: path(mount.mount_point),
        kind: text(&mount.kind),
        source: text(&mount.source),
        options: [words(mount.options), of_file_system].concat(),
        user,
    }
}

fn path(bytes: Cow<'_, [u8]>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo() {
        let line = br"311 98 0:57 / /mnt/a\040b rw,nosuid shared:1 master:2 - fuse.plyfs /srv\040|\040audit rw,user_id=1000,group_id=0";
        let entry = entry(Mount::parse(line).unwrap());
        assert_eq!((entry.mount, entry.mount_point.as_path()), (311, Path::new("/mnt/a b")));
        assert!(entry.is_plyfs());
        assert_eq!(entry.source, "/srv | audit");
        assert_eq!(entry.options, ["rw", "nosuid", "rw", "user_id=1000", "group_id=0"]);
        assert_eq!(entry.user, Some(1000));
    }

    #[test]
    fn a_comma_in_an_option_does_not_end_it() {
        let line = br"40 1 0:9 / /o rw - overlay o rw,lowerdir=/a\054user_id=7,upperdir=/b";
        assert_eq!(entry(Mount::parse(line).unwrap()).options[2..], ["lowerdir=/a,user_id=7", "upperdir=/b"]);
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(find_at(Path::new("/")).is_some_and(|entry| !entry.is_plyfs()));
        assert_eq!(canonical(Path::new("/tmp/../.")), Path::new("/"));
    }
}
