//! All that users see of a tree, as data.

use std::collections::BTreeMap;

use vnode::{Attributes, Caller, Cookie, FileKind, FileSystem, InodeNumber, Name, OpenFlags, Timestamp, VnodeRef};

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub ino: InodeNumber,
    pub attributes: CheckedAttributes,
    /// Data, or the target of a symlink.
    pub data: Vec<u8>,
}

/// Attributes that a cut may not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedAttributes {
    pub kind: FileKind,
    pub mode: u32,
    pub owner: (u32, u32),
    /// Of anything but a directory, as the times.
    pub names: u32,
    pub mtime: Option<Timestamp>,
    pub xattrs: Vec<(String, String)>,
}

impl CheckedAttributes {
    /// Whether it is the same but for the time.
    pub(crate) fn equals_except_mtime(&self, other: &Self) -> bool {
        *self == Self { mtime: self.mtime, ..other.clone() }
    }
}

/// A tree: each path with its object.
pub(crate) type State = BTreeMap<String, Object>;

/// The tree that the superuser sees.
///
/// # Errors
/// In words, if something cannot be looked at.
pub(crate) fn state_of(file_system: &dyn FileSystem) -> Result<State, String> {
    let mut state = State::new();
    collect_tree(&file_system.root(), "", &mut state)?;
    Ok(state)
}

fn collect_tree(directory: &VnodeRef, path: &str, state: &mut State) -> Result<(), String> {
    let server = Caller::server();
    let failed = |path: &str, error| format!("{path}: {error}");
    let mut names = Vec::new();
    let opened = directory.open_directory(&server).map_err(|error| failed(path, error))?;
    let listed = opened.read(&server, Cookie::START, &mut |entry| {
        names.push(entry.name.to_owned());
        std::ops::ControlFlow::Continue(())
    });
    listed.map_err(|error| failed(path, error))?;
    for name in names {
        let path = format!("{path}/{}", String::from_utf8_lossy(name.as_bytes()));
        let entry = directory.lookup(&server, name.as_name()).map_err(|error| failed(&path, error))?;
        let object = object(&entry.vnode, &entry.attributes).map_err(|error| failed(&path, error))?;
        state.insert(path.clone(), object);
        if entry.attributes.is_directory() {
            collect_tree(&entry.vnode, &path, state)?;
        }
    }
    Ok(())
}

fn object(vnode: &VnodeRef, attributes: &Attributes) -> vnode::Result<Object> {
    let server = Caller::server();
    let Attributes { kind, mode, uid, gid, ino, nlink, mtime, size, .. } = *attributes;
    let data = match kind {
        FileKind::Symlink => vnode.readlink(&server)?,
        FileKind::Regular => {
            let mut data = vec![0; size as usize];
            let length = vnode::read_fully(&*vnode.open(&server, OpenFlags::READ)?, &server, 0, &mut data)?;
            data.truncate(length);
            data
        }
        _ => Vec::new(),
    };
    let mut xattrs = Vec::new();
    for name in vnode.listxattr(&server)?.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let value = vnode.getxattr(&server, name)?;
        xattrs.push((String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(&value).into_owned()));
    }
    xattrs.sort();
    // Links of directories nobody counts, and their times are put back after what users are not to see.
    let is_directory = kind == FileKind::Directory;
    let names = if is_directory { 0 } else { nlink };
    let mtime = (!is_directory).then_some(mtime);
    Ok(Object { ino, attributes: CheckedAttributes { kind, mode, owner: (uid, gid), names, mtime, xattrs }, data })
}

/// The vnode at a path.
pub(crate) fn at(file_system: &dyn FileSystem, path: &str) -> VnodeRef {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.fold(file_system.root(), |vnode, part| {
        let name = Name::new(part.as_bytes()).unwrap();
        vnode.lookup(&Caller::server(), name).unwrap_or_else(|error| panic!("{path}: {error}")).vnode
    })
}
