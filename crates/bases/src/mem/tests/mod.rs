//! Tests of the file system in memory, rule by rule.

mod acls;
mod attributes;
mod creation;
mod directories;
mod files;
mod limits;
mod random;
mod removal;
mod renames;
mod storm;
mod xattrs;

use std::ops::ControlFlow;

use vnode::{
    Attributes, Caller, Cookie, Creation, Entry, FileKind, Name, OpenFileRef, OpenFlags, Result, SetAttributes,
    VnodeRef,
};

use super::{MemoryFileSystem, Options};

/// A file system whose root belongs to the superuser and is open to all.
fn file_system() -> MemoryFileSystem {
    MemoryFileSystem::new(Options { size: 64 << 20, inodes: 10_000, mode: 0o777, uid: 0, gid: 0 })
}

fn superuser() -> Caller {
    Caller::with_groups(0, 0, &[], 0)
}

fn user(id: u32) -> Caller {
    Caller::with_groups(id, id, &[], 0)
}

fn member(id: u32, groups: &[u32]) -> Caller {
    Caller::with_groups(id, id, groups, 0)
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

fn how(mode: u32, flags: OpenFlags) -> Creation {
    Creation { mode, flags }
}

fn create(directory: &VnodeRef, caller: &Caller, text: &str, mode: u32) -> (VnodeRef, OpenFileRef) {
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    let created = directory.create(caller, name(text), &how(mode, flags)).unwrap();
    (created.entry.vnode, created.file)
}

fn mkdir(directory: &VnodeRef, caller: &Caller, text: &str, mode: u32) -> VnodeRef {
    directory.mkdir(caller, name(text), mode).unwrap().vnode
}

fn mode_of(vnode: &VnodeRef) -> u32 {
    attributes(vnode).mode
}

fn attributes(vnode: &VnodeRef) -> Attributes {
    vnode.getattr(&superuser()).unwrap()
}

fn chmod(vnode: &VnodeRef, caller: &Caller, mode: u32) -> Result<Attributes> {
    vnode.setattr(caller, &SetAttributes { mode: Some(mode), ..Default::default() })
}

fn chown(vnode: &VnodeRef, caller: &Caller, uid: Option<u32>, gid: Option<u32>) -> Result<Attributes> {
    vnode.setattr(caller, &SetAttributes { uid, gid, ..Default::default() })
}

fn resize(vnode: &VnodeRef, caller: &Caller, size: u64) -> Result<Attributes> {
    vnode.setattr(caller, &SetAttributes { size: Some(size), ..Default::default() })
}

/// Returns the error of a look-up or creation, since its result cannot be printed.
fn failure<T>(result: Result<T>) -> vnode::Errno {
    result.err().expect("the operation fails")
}

fn lookup(directory: &VnodeRef, text: &str) -> Result<Entry> {
    directory.lookup(&superuser(), name(text))
}

/// Returns all entries after `cookie`: name, kind, cookie.
fn entries_after(directory: &VnodeRef, cookie: Cookie) -> Vec<(String, FileKind, Cookie)> {
    let mut found = Vec::new();
    let open = directory.open_directory(&superuser()).unwrap();
    open.read(&superuser(), cookie, &mut |entry| {
        found.push((entry.name.display().to_string(), entry.kind.unwrap(), entry.cookie));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

fn names(directory: &VnodeRef) -> Vec<String> {
    entries_after(directory, Cookie::START).into_iter().map(|(name, ..)| name).collect()
}
