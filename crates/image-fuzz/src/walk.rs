//! Reads everything that a file system shows, up to a number of objects.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use vnode::{Caller, Cookie, FileKind, FileSystem, Name, OpenFlags, SeekTarget, Vnode, VnodeRef};

/// Largest number of objects that are looked at.
const OBJECTS_MAX: usize = 300;
/// Largest number of entries of one directory that are looked at.
const ENTRIES_MAX: usize = 200;
/// Largest number of reads of one file.
const READS_MAX: usize = 24;

/// Walks the tree from the root, breadth first; returns the objects that it found.
pub(crate) fn walk(file_system: &dyn FileSystem, caller: &Caller) -> Vec<VnodeRef> {
    let mut seen = Vec::new();
    let mut queue = VecDeque::from([file_system.root()]);
    while let Some(vnode) = queue.pop_front() {
        look_at(file_system, &*vnode, caller);
        if vnode.kind() == FileKind::Directory {
            let room = OBJECTS_MAX.saturating_sub(seen.len() + queue.len());
            queue.extend(children(&*vnode, caller).into_iter().take(room));
        }
        seen.push(vnode);
    }
    seen
}

/// Does with an object what reads it.
fn look_at(file_system: &dyn FileSystem, vnode: &dyn Vnode, caller: &Caller) {
    let _ = vnode.getattr(caller);
    let _ = vnode.statfs(caller);
    let _ = vnode.path();
    let _ = vnode.parent(caller);
    let _ = file_system.resolve(caller, &vnode.handle());
    let names = vnode.listxattr(caller).unwrap_or_default();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let _ = vnode.getxattr(caller, name);
    }
    match vnode.kind() {
        FileKind::Symlink => drop(vnode.readlink(caller)),
        FileKind::Regular => read(vnode, caller),
        _ => {}
    }
}

/// Reads the beginning of a file, and its end.
fn read(vnode: &dyn Vnode, caller: &Caller) {
    let Ok(file) = vnode.open(caller, OpenFlags::READ) else { return };
    let size = file.getattr(caller).map_or(0, |attributes| attributes.size);
    let mut buffer = vec![0; 4096];
    let mut offset = 0;
    for _ in 0..READS_MAX {
        match file.read_at(caller, offset, &mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => offset += count as u64,
        }
    }
    for offset in [size.saturating_sub(1000), size, u64::MAX - 4096] {
        let _ = file.read_at(caller, offset, &mut buffer);
    }
    let _ = file.seek(caller, size / 2, SeekTarget::Data);
    let _ = file.seek(caller, 0, SeekTarget::Hole);
}

/// Returns the children of a directory, each found by its name.
fn children(directory: &dyn Vnode, caller: &Caller) -> Vec<VnodeRef> {
    let mut names = Vec::new();
    let mut sink = |entry: vnode::DirectoryEntry<'_>| {
        names.push(entry.name.as_bytes().to_vec());
        if names.len() < ENTRIES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    if let Ok(open) = directory.open_directory(caller) {
        let _ = open.read(caller, Cookie::START, &mut sink);
    }
    let found = |name: &Vec<u8>| Some(directory.lookup(caller, Name::new(name).ok()?).ok()?.vnode);
    names.iter().filter_map(found).collect()
}
