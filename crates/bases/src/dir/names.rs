//! Looks up, removes and renames the names in a directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags};
use vnode::{Caller, Entry, Errno, FileKind, InodeNumber, KeyedGuard, Name, RenameMode, Result, profile};

use super::calls::PATH_ONLY;
use super::credentials::AssumedCredentials;
use super::node::{LookupLocation, Node};
use super::shares::may_retain;
use super::status::Status;
use super::table::fingerprint;
use super::tree::Tree;
use super::{errno, silly_rename, system};

/// Returns the object with that name.
pub(crate) fn lookup(directory: &Node, caller: &Caller, name: Name<'_>) -> Result<Entry> {
    require_directory(directory)?;
    let thread = &mut directory.tree().credentials.thread();
    let descriptor = directory.descriptor(thread)?;
    let (node, attributes) = directory.tree().entry(thread, caller, directory, descriptor.as_fd(), name)?;
    Ok(Entry { vnode: profile::vnode(node), attributes })
}

/// Returns `ENOTDIR` for anything but a directory: an `O_PATH` descriptor of something else would fail the same way, but
/// later.
pub(crate) fn require_directory(node: &Node) -> Result<()> {
    if node.file_kind() == FileKind::Directory { Ok(()) } else { Err(Errno::ENOTDIR) }
}

/// Returns `error` for the name in the root of a directory that is attached there: as with a mount point, nothing takes or removes it.
pub(crate) fn require_not_attached(directory: &Node, name: Name<'_>, error: Errno) -> Result<()> {
    let attached = directory.tree().attached.as_ref().filter(|_| directory.is_root());
    if attached.is_some_and(|attached| attached.at(name).is_some()) { Err(error) } else { Ok(()) }
}

/// Returns `EXDEV` for two objects on different mounts. The kernel would do so too, but opening them may query a server that
/// does not reply, and meanwhile nobody may change either directory.
pub(crate) fn require_same_mount(one: &Node, other: &Node) -> Result<()> {
    // An overlay reports several devices.
    if one.mount().id() == other.mount().id() { Ok(()) } else { Err(Errno::EXDEV) }
}

/// Removes a name that is not a directory's.
pub(crate) fn unlink(directory: &Node, caller: &Caller, name: Name<'_>) -> Result<()> {
    remove(directory, caller, name, AtFlags::empty())
}

/// Removes an empty directory.
pub(crate) fn rmdir(directory: &Node, caller: &Caller, name: Name<'_>) -> Result<()> {
    remove(directory, caller, name, AtFlags::REMOVEDIR)
}

fn remove(directory: &Node, caller: &Caller, name: Name<'_>, flags: AtFlags) -> Result<()> {
    require_directory(directory)?;
    require_not_attached(directory, name, Errno::EBUSY)?;
    let thread = &mut directory.tree().credentials.thread();
    let descriptor = directory.descriptor(thread)?;
    let _name = directory.tree().name_lock(directory.key(), name);
    let acting = thread.act_for(caller)?;
    let victim = Victim::find(directory, &acting, descriptor.as_fd(), name)?;
    let removed = match acting.remove_at(&descriptor, name.as_bytes(), flags) {
        Err(rustix::io::Errno::NOTEMPTY) if directory.mount().has_silly_renames() => {
            silly_rename::remove_directory(&acting, descriptor.as_fd(), name.as_bytes())
        }
        removed => removed,
    };
    removed.map_err(errno)?;
    if let Some(victim) = victim {
        victim.pin();
    }
    Ok(())
}

/// Renames an entry.
pub(crate) fn rename(
    from: &Node,
    caller: &Caller,
    name: Name<'_>,
    to: &Node,
    to_name: Name<'_>,
    mode: RenameMode,
) -> Result<()> {
    require_directory(from)?;
    require_directory(to)?;
    require_same_mount(from, to)?;
    require_not_attached(from, name, Errno::EBUSY)?;
    require_not_attached(to, to_name, Errno::EBUSY)?;
    let thread = &mut from.tree().credentials.thread();
    let (source, target) = (from.descriptor(thread)?, to.descriptor(thread)?);
    let replaces = matches!(mode, RenameMode::Replace | RenameMode::Whiteout);
    let stays = std::ptr::eq(from, to) && name == to_name;
    let _names = from.tree().name_locks([(from.key(), name), (to.key(), to_name)]);
    let acting = thread.act_for(caller)?;
    let victim = match Victim::find(to, &acting, target.as_fd(), to_name) {
        _ if !replaces || stays => None,
        Ok(victim) => victim,
        Err(Errno::ENOENT) => None,
        Err(error) => return Err(error),
    };
    let (name, to_name) = (name.as_bytes(), to_name.as_bytes());
    thread.charge_space(caller, |acting| acting.rename_at(&source, name, &target, to_name, flags(mode)))?;
    if let Some(victim) = victim {
        victim.pin();
    }
    let acting = thread.act_for(caller)?;
    record_location(LookupLocation::At(from, name), to, &acting, target.as_fd(), to_name);
    if mode == RenameMode::Exchange {
        record_location(LookupLocation::At(to, to_name), from, &acting, source.as_fd(), name);
    }
    Ok(())
}

fn flags(mode: RenameMode) -> RenameFlags {
    match mode {
        RenameMode::Replace => RenameFlags::empty(),
        RenameMode::NoReplace => RenameFlags::NOREPLACE,
        RenameMode::Exchange => RenameFlags::EXCHANGE,
        RenameMode::Whiteout => RenameFlags::WHITEOUT,
        RenameMode::WhiteoutNoReplace => RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
    }
}

/// Records the new location of a live vnode that has no handle.
fn record_location(
    before: LookupLocation<'_>,
    directory: &Node,
    acting: &AssumedCredentials<'_>,
    descriptor: BorrowedFd<'_>,
    name: &[u8],
) {
    if directory.mount().handles().is_some() {
        return;
    }
    let tree = directory.tree();
    let Ok(status) = tree.status_at(acting, &directory.mount(), descriptor, name) else { return };
    // An overlay reports several devices.
    let Some(mount) = tree.mounts.of(&status) else { return };
    let fingerprint = fingerprint(mount.index, mount.identity_ino(&status));
    if let Some(node) = directory.tree().table.find(fingerprint, |node| node.matches_at(&status, before)) {
        node.set_location(directory, name);
    }
}

/// An object with a live vnode that is about to lose a name. While this is held, callers that find the object gone wait, and
/// so do removals of its other names: which of them is the last is certain.
struct Victim<'a> {
    /// The vnode and its object, opened beforehand so that the vnode stays usable afterwards; `None` if it has other names.
    kept: Option<(Arc<Node>, OwnedFd)>,
    _lock: KeyedGuard<'a, InodeNumber>,
}

impl<'a> Victim<'a> {
    /// Returns the object with that name, if it has a live vnode that the removal could make unreachable.
    fn find(
        parent: &'a Node,
        acting: &AssumedCredentials<'_>,
        directory: BorrowedFd<'_>,
        name: Name<'_>,
    ) -> Result<Option<Self>> {
        let tree = parent.tree();
        let parent_mount = parent.mount();
        let status_now = || tree.status_at(acting, &parent_mount, directory, name.as_bytes());
        let status = status_now()?;
        let Some(mount) = tree.mounts.of(&status) else { return Ok(None) };
        if mount.is_fuse_root(&status) {
            // The name of a mount point cannot be removed.
            return Ok(None);
        }
        let mut nodes = tree.table.find_all(fingerprint(mount.index, status.ino()));
        nodes.retain(|node| node.pinned().is_none() && !node.is_root());
        if nodes.is_empty() {
            return Ok(None);
        }
        let lock = tree.removal_lock(status.ino());
        // The link count is queried again under the lock: another name may just have been removed.
        let has_other_names = status.kind != FileKind::Directory && status.nlink() > 1 && status_now()?.nlink() > 1;
        if has_other_names {
            nodes.retain(|node| !node.is_identified_by_handle());
        }
        if nodes.is_empty() {
            return Ok(Some(Self { kept: None, _lock: lock }));
        }
        // By name and with the caller's credentials: changing those costs more than this check.
        let object = match open(tree, acting, directory, name) {
            // It is better that a vnode without a name becomes stale than that nothing can be removed.
            Err(Errno::EMFILE | Errno::ENFILE) => return Ok(None),
            Ok(object) if !may_retain(&object) => return Ok(None),
            opened => opened?,
        };
        // A vnode of an earlier object with that number cannot be saved any more.
        let node = nodes.into_iter().find(|node| is_object_of_node(node, object.as_fd(), location(parent, name)));
        Ok(node.map(|node| Self { kept: Some((node, object)), _lock: lock }))
    }

    /// Pins the object, whose name has been removed, unless it has others: its vnode keeps it open.
    fn pin(self) {
        if let Some((node, object)) = self.kept {
            node.pin(object);
            node.record_lost_name();
        }
    }
}

fn open(
    tree: &Tree<Node>,
    acting: &AssumedCredentials<'_>,
    directory: BorrowedFd<'_>,
    name: Name<'_>,
) -> Result<OwnedFd> {
    tree.open_with_retry(|| acting.open_at(directory, name.as_bytes(), PATH_ONLY).map_err(errno))
}

/// Returns whether the open object, found there, is the object of a vnode.
fn is_object_of_node(node: &Node, object: BorrowedFd<'_>, location: LookupLocation<'_>) -> bool {
    if node.is_identified_by_handle() {
        system::name_to_handle_at(object, b"", system::EMPTY_PATH).is_ok_and(|handle| node.has_handle(&handle))
    } else {
        Status::of_descriptor(object)
            .is_ok_and(|status| node.is_object_of(&status) && node.matches_at(&status, location))
    }
}

/// Returns the location of an entry of a directory.
pub(crate) fn location<'a>(directory: &'a Node, name: Name<'a>) -> LookupLocation<'a> {
    LookupLocation::At(directory, name.as_bytes())
}
