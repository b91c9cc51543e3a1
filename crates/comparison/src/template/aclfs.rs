//! Aclfs lets one more user and one more group search a directory as its owner and group do.

use std::ops::ControlFlow;

use vnode::layer::{Layer, LayerDirectory, LayerFile, LayerVnode};
use vnode::{
    AccessControl, Attributes, Caller, Cookie, Creation, DirectoryEntry, Entry, Errno, FileKind, Name, Needs,
    OpenFlags, Promises, Result,
};

use super::ioctl;

/// The hidden file that says who: the numbers of a user and of a group.
const LIST: &[u8] = b".acl";
/// The bytes of two numbers.
const LIST_BYTES: usize = 8;
/// The command of a directory's owner that writes it.
const SET_LIST: u32 = ioctl::giving(LIST_BYTES);

/// Lets those in who are on a directory's list.
pub struct Aclfs;

impl Aclfs {
    /// Whether the list of a directory, which is its owner's, has the caller on it.
    fn is_listed(node: &LayerVnode<Self>, caller: &Caller) -> Result<bool> {
        let server = Caller::server();
        let list = node.lower().lookup(&server, Name::new(LIST)?)?;
        let owner = node.lower().getattr(&server)?.uid;
        let Attributes { kind, uid, size, .. } = list.attributes;
        if kind != FileKind::Regular || uid != owner || size != LIST_BYTES as u64 {
            return Ok(false);
        }
        let file = list.vnode.open(&server, OpenFlags::READ)?;
        let (mut user, mut group) = ([0; 4], [0; 4]);
        let read = file.read_at(&server, 0, &mut user)? + file.read_at(&server, 4, &mut group)?;
        let is_on = caller.uid == u32::from_ne_bytes(user) || caller.gid == u32::from_ne_bytes(group);
        Ok(read == LIST_BYTES && is_on)
    }
}

impl Layer for Aclfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "aclfs"
    }

    fn promises(&self) -> Promises {
        Promises { access_control: AccessControl::OpenAsShown, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, failed_lookups: true, overlay: true, ..Needs::NONE }
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let owner = || node.lower().getattr(&Caller::server());
        if name.as_bytes() == LIST && owner()?.uid != caller.uid {
            return Err(Errno::ENOENT);
        }
        match node.forward_lookup(caller, name) {
            Err(Errno::EACCES | Errno::EPERM) if Self::is_listed(node, caller) == Ok(true) => {
                let owner = owner()?;
                node.forward_lookup(&Caller::with_groups(owner.uid, owner.gid, &[], 0), name)
            }
            found => found,
        }
    }

    fn read_directory(
        &self,
        directory: &LayerDirectory<Self>,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        directory.forward_read(caller, cookie, &mut |entry| match entry.name.as_bytes() {
            LIST => ControlFlow::Continue(()),
            _ => sink(entry),
        })
    }

    fn ioctl(
        &self,
        node: &LayerVnode<Self>,
        file: Option<&LayerFile<Self>>,
        caller: &Caller,
        command: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<i32> {
        if command != SET_LIST {
            return match file {
                Some(file) => file.forward_ioctl(caller, command, input, output),
                None => node.forward_ioctl(caller, command, input, output),
            };
        }
        if node.lower().getattr(&Caller::server())?.uid != caller.uid {
            return Err(Errno::EPERM);
        }
        let how = Creation { mode: 0o600, flags: OpenFlags::WRITE };
        let list = node.lower().create(caller, Name::new(LIST)?, &how)?.file;
        match list.write_at(caller, 0, input)? {
            LIST_BYTES => Ok(0),
            _ => Err(Errno::ENOSPC),
        }
    }
}
