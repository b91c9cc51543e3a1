//! The vnode interface of a [`Node`], with each operation delegated to the module of its group.

use std::any::Any;
use std::sync::Arc;

use vnode::profile::{self, Part};
use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

use super::KIND;
use super::node::Node;
use super::open_directory::Directory;
use super::{attributes, create, errno, file, ioctl, names, paths, xattrs};

impl Part for Node {
    const PART: &'static str = KIND;
}

impl Vnode for Node {
    fn handle(&self) -> Handle {
        self.wire_handle()
    }

    fn kind(&self) -> FileKind {
        self.file_kind()
    }

    fn path(&self) -> Result<Vec<u8>> {
        paths::path(self)
    }

    fn storage(&self) -> Option<u64> {
        Some(self.mount().device)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        attributes::get(self)
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        with_owner_override(self, caller, |caller| attributes::set(self, caller, changes))
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        with_owner_override(self, caller, |caller| check_access(self, caller, mode))
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        with_owner_override(self, caller, |caller| names::lookup(self, caller, name))
    }

    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        paths::parent(self, caller)
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        with_owner_override(self, caller, |by| create::create(self, caller, by, name, how))
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        with_owner_override(self, caller, |caller| create::mkdir(self, caller, name, mode))
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        with_owner_override(self, caller, |caller| create::mknod(self, caller, name, kind, mode, device))
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        with_owner_override(self, caller, |caller| create::symlink(self, caller, name, target))
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let target = as_own_node(self, target)?;
        let both = [(self, CHANGE_ENTRIES), (target, AccessMode::EXISTS)];
        with_owner_override_of(&both, caller, |caller| create::link(self, caller, target, name))
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        with_owner_override(self, caller, |caller| names::unlink(self, caller, name))
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        with_owner_override(self, caller, |caller| names::rmdir(self, caller, name))
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let to = as_own_node(self, to)?;
        let both = [(self, CHANGE_ENTRIES), (to, CHANGE_ENTRIES)];
        with_owner_override_of(&both, caller, |caller| names::rename(self, caller, name, to, to_name, mode))
    }

    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        paths::readlink(self, caller)
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        with_owner_override(self, caller, |caller| file::open(self, caller, flags))
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        with_owner_override(self, caller, |caller| {
            Ok(profile::open_directory(Arc::new(Directory::open(self, caller)?)))
        })
    }

    fn statfs(&self, _caller: &Caller) -> Result<StatFs> {
        attributes::statfs(self)
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        with_owner_override(self, caller, |caller| xattrs::get(self, caller, name))
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        with_owner_override(self, caller, |caller| xattrs::set(self, caller, name, value, mode))
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        xattrs::list(self, caller)
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        with_owner_override(self, caller, |caller| xattrs::remove(self, caller, name))
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        with_owner_override(self, caller, |caller| create::tmpfile(self, caller, how))
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        ioctl::of_node(self, caller, command, input, output)
    }
}

/// The access needed to change the names in a directory.
const CHANGE_ENTRIES: AccessMode = AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits());

/// Runs an operation on an object. The root of a user namespace may do anything with objects that its user owns; the lower file
/// system, which is called with that user's ids, does not know of it. A caller that the kernel has permitted and that could
/// change the mode is let in.
fn with_owner_override<T>(node: &Node, caller: &Caller, operation: impl Fn(&Caller) -> Result<T>) -> Result<T> {
    with_owner_override_of(&[(node, AccessMode::EXISTS)], caller, operation)
}

/// Like [`with_owner_override`], for several objects: a caller that does not own one of them needs this access to it.
fn with_owner_override_of<T>(
    nodes: &[(&Node, AccessMode)],
    caller: &Caller,
    operation: impl Fn(&Caller) -> Result<T>,
) -> Result<T> {
    let result = operation(caller);
    if !matches!(result, Err(Errno::EACCES)) || !caller.is_admitted_by_kernel() || caller.uid == 0 {
        return result;
    }
    let owned = nodes.iter().map(|(node, _)| is_owned(node, caller));
    let (some, all) = owned.zip(nodes).fold((false, true), |(some, all), (is_owned, (node, mode))| {
        (some | is_owned, all && (is_owned || check_access(node, caller, *mode).is_ok()))
    });
    if some && all { operation(&caller.overriding()) } else { result }
}

/// Returns whether the caller, with its credentials, has this access.
fn check_access(node: &Node, caller: &Caller, mode: AccessMode) -> Result<()> {
    let thread = &mut node.tree().credentials.thread();
    let object = node.descriptor(thread)?;
    thread.act_for(caller)?.access(object, mode.bits()).map_err(errno)
}

fn is_owned(node: &Node, caller: &Caller) -> bool {
    attributes::get(node).is_ok_and(|attributes| attributes.uid == caller.uid)
}

/// Returns the vnode as one of this base.
fn as_own_node<'a>(node: &Node, other: &'a VnodeRef) -> Result<&'a Node> {
    let other = other.as_any().downcast_ref::<Node>().ok_or(Errno::EXDEV)?;
    if Arc::ptr_eq(node.tree(), other.tree()) { Ok(other) } else { Err(Errno::EXDEV) }
}
