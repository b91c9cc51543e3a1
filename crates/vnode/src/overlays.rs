//! The kernel's overlayfs mounts over FUSE file systems, found in mount tables.
//!
//! Such a mount makes requests with the credentials of its mounter, in the process of its user.
//!
//! Only an administrator of a mount namespace can mount there. Overlays are therefore looked up in mount namespaces of
//! the server's user namespace, where nobody can mount one to be taken for its mounter. Their layers are not accessed,
//! since these might not answer: a layer is on the file system that holds its path according to the table. A relative
//! path, which may lead anywhere, counts as one on FUSE.

use std::sync::{Mutex, PoisonError};

use procfs::Process;
use procfs::mount_table::{Mount, MountTable, mounts, unescape};

use crate::process_files::unless_short;
use crate::{Errno, Result};

/// The server's mount table, and whether it has an overlay over FUSE.
struct OwnTable {
    table: MountTable,
    has_overlay: bool,
}

/// Read on first use.
static OWN: Mutex<Option<OwnTable>> = Mutex::new(None);

/// Returns whether an overlay may be making requests through this process: there is one over FUSE in the server's mount
/// namespace, or in that of a process that is in the server's user namespace.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`: no table can be read at present.
pub(crate) fn may_ask_by(pid: u32, is_in_own_user_namespace: bool) -> Result<bool> {
    if in_own_table()? {
        return Ok(true);
    }
    let table = if is_in_own_user_namespace { unless_short(Process::Numbered(pid).mount_table())? } else { None };
    Ok(table.is_some_and(|table| is_in(&table)))
}

fn in_own_table() -> Result<bool> {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = own.as_mut() {
        if own.table.has_changed() {
            own.read()?;
        }
        return Ok(own.has_overlay);
    }
    let table = match MountTable::open().map_err(Errno::from) {
        Ok(table) => table,
        Err(error @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => return Err(error),
        Err(_) => return Ok(false),
    };
    let mut new = OwnTable { table, has_overlay: false };
    new.read()?;
    Ok(own.insert(new).has_overlay)
}

impl OwnTable {
    fn read(&mut self) -> Result<()> {
        self.has_overlay = is_in(&self.table.read().map_err(Errno::from)?);
        Ok(())
    }
}

/// Returns whether a table has an overlay with a layer on FUSE.
fn is_in(table: &[u8]) -> bool {
    let mounts: Vec<Mount<'_>> = mounts(table).collect();
    let is_on_fuse = |path: &[u8]| {
        // The last of several mounts at one mount point covers the others.
        let found = mounts.iter().filter(|mount| is_above(mount, path)).max_by_key(|mount| mount.mount_point.len());
        !path.starts_with(b"/") || found.is_some_and(Mount::is_fuse)
    };
    let mut overlays = mounts.iter().filter(|mount| *mount.kind == *b"overlay");
    overlays.any(|overlay| layers(overlay.file_system_options).iter().any(|path| is_on_fuse(path)))
}

/// Returns whether the path is on this mount, unless something is mounted further down.
fn is_above(mount: &Mount<'_>, path: &[u8]) -> bool {
    let below = path.strip_prefix(mount.mount_point.strip_suffix(b"/").unwrap_or(&mount.mount_point));
    below.is_some_and(|below| below.is_empty() || below.starts_with(b"/"))
}

/// Returns the paths of an overlay's layers.
fn layers(options: &[u8]) -> Vec<Vec<u8>> {
    let pairs = options.split(|&byte| byte == b',').filter_map(|option| {
        let middle = option.iter().position(|&byte| byte == b'=')?;
        Some((&option[..middle], unescape(&option[middle + 1..])))
    });
    let each = pairs.flat_map(|(key, value)| match key {
        b"lowerdir" => split_list(&value),
        b"lowerdir+" | b"datadir+" | b"upperdir" => vec![value.into_owned()],
        _ => Vec::new(),
    });
    each.collect()
}

/// Splits a colon-separated list of paths, in which a backslash escapes the next character.
fn split_list(list: &[u8]) -> Vec<Vec<u8>> {
    let (mut paths, mut path, mut bytes) = (Vec::new(), Vec::new(), list.iter());
    while let Some(&byte) = bytes.next() {
        match byte {
            b':' => paths.push(std::mem::take(&mut path)),
            b'\\' => path.extend(bytes.next()),
            byte => path.push(byte),
        }
    }
    paths.push(path);
    // A double colon precedes data-only layers.
    paths.retain(|path| !path.is_empty());
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "1 0 8:1 / / rw - ext4 /dev/vda rw\n\
        2 1 0:40 / /mnt/p\\040q rw,nosuid - fuse.plyfs /srv rw,user_id=0\n\
        3 2 0:41 / /mnt/p\\040q/inner rw - tmpfs none rw\n\
        4 1 0:42 / /mnt/covered rw - fuse x rw\n\
        5 4 0:43 / /mnt/covered rw - tmpfs none rw\n";

    fn is_over_fuse(options: &str) -> bool {
        is_in(format!("{MOUNTS}9 1 0:50 / /merged rw shared:1 - overlay overlay rw,{options},uuid=on\n").as_bytes())
    }

    #[test]
    fn overlays_over_fuse_are_found_by_their_layers() {
        assert!(!is_in(MOUNTS.as_bytes()) && !is_in(b""));
        for options in [
            "lowerdir=/mnt/p\\040q",
            "lowerdir=/usr:/mnt/p\\040q/below",
            "lowerdir=/a,upperdir=/mnt/p\\040q/u,workdir=/mnt/p\\040q/w",
            "lowerdir+=/a,lowerdir+=/mnt/p\\040q",
            "lowerdir=/a::/mnt/p\\040q/data",
            "lowerdir=/a,datadir+=/mnt/p\\040q/data",
            "lowerdir=relative:/a",
        ] {
            assert!(is_over_fuse(options), "{options}");
        }
    }

    #[test]
    fn overlays_over_other_file_systems_are_not_taken_for_ones_over_fuse() {
        for options in [
            "lowerdir=/usr:/mnt",
            "lowerdir=/mnt/p\\040q/inner/l",
            "lowerdir=/mnt/p\\040query",
            "lowerdir=/mnt/covered/l",
            "lowerdir=/a\\134:/mnt/p\\040q",
            "lowerdir=/a\\134\\054lowerdir+=/mnt/p\\040q",
            "redirect_dir=on",
        ] {
            assert!(!is_over_fuse(options), "{options}");
        }
        assert!(!is_in(format!("{MOUNTS}9 1 0:50 / /merged rw - tmpfs lowerdir=/mnt/p\\040q rw\n").as_bytes()));
    }
}
