//! Locations in a tree of vnodes: path resolution, one component at a time, with the caller's own permissions.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use vnode::{Attributes, Caller, Cookie, Errno, FileKind, FileSystemRef, Name, NameBuf, Result, VnodeRef};

/// Maximum number of symlinks that the resolution of a path may follow, as on Linux.
const MAX_SYMLINKS: u32 = 40;

/// A file system as one caller sees it, by paths.
#[derive(Clone)]
pub struct CallerTree {
    file_system: FileSystemRef,
    /// The caller whose permissions apply.
    pub caller: Caller,
}

/// A vnode and the path by which it was reached from the root. Holds the vnodes on the way, so that it stays valid when they are
/// renamed.
#[derive(Clone)]
pub struct ResolvedPath {
    root: VnodeRef,
    steps: Vec<(NameBuf, VnodeRef)>,
}

/// One entry of a directory.
pub struct DirectoryEntry {
    /// The name.
    pub name: NameBuf,
    /// The kind, if the directory reports it.
    pub kind: Option<FileKind>,
}

impl CallerTree {
    /// Returns the tree of a file system, for this caller.
    pub fn new(file_system: FileSystemRef, caller: Caller) -> Self {
        CallerTree { file_system, caller }
    }

    /// Returns the file system.
    pub fn file_system(&self) -> &FileSystemRef {
        &self.file_system
    }

    /// Returns the root directory.
    pub fn root(&self) -> ResolvedPath {
        ResolvedPath { root: self.file_system.root(), steps: Vec::new() }
    }

    /// Resolves `path` relative to `from`: follows symlinks on the way, and in the last component if `follow`.
    ///
    /// # Errors
    /// As [`Vnode::lookup`](vnode::Vnode::lookup); `ELOOP` after 40 symlinks.
    pub fn find(&self, from: &ResolvedPath, path: &[u8], follow: bool) -> Result<ResolvedPath> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let must_be_directory = path.ends_with(b"/");
        let mut object = if path.starts_with(b"/") { self.root() } else { from.clone() };
        let mut pending: VecDeque<Vec<u8>> = components(path).collect();
        let mut symlinks = 0;
        while let Some(component) = pending.pop_front() {
            if object.vnode().kind() != FileKind::Directory {
                return Err(Errno::ENOTDIR);
            }
            if component == b".." {
                object.steps.pop();
                continue;
            }
            let name = NameBuf::new(component)?;
            let entry = object.vnode().lookup(&self.caller, name.as_name())?;
            let last = pending.is_empty() && !must_be_directory;
            if entry.attributes.kind == FileKind::Symlink && (follow || !last) {
                symlinks += 1;
                if symlinks > MAX_SYMLINKS {
                    return Err(Errno::ELOOP);
                }
                let target = entry.vnode.readlink(&self.caller)?;
                if target.starts_with(b"/") {
                    object = self.root();
                }
                components(&target).rev().for_each(|component| pending.push_front(component));
                continue;
            }
            object.steps.push((name, entry.vnode));
        }
        if must_be_directory && object.vnode().kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(object)
    }

    /// Returns the directory that contains the last component of `path`, or in which it may be created, and that component.
    ///
    /// # Errors
    /// As [`CallerTree::find`]; `EBUSY` for the root, `EINVAL` for a path that ends in `.` or `..`.
    pub fn find_parent(&self, from: &ResolvedPath, path: &[u8]) -> Result<(ResolvedPath, NameBuf)> {
        let trimmed = path.iter().rposition(|byte| *byte != b'/').map_or(&b""[..], |last| &path[..=last]);
        let slash = trimmed.iter().rposition(|byte| *byte == b'/');
        let (directory, name) = match slash {
            Some(slash) => (&trimmed[..=slash], &trimmed[slash + 1..]),
            None => (&b"."[..], trimmed),
        };
        let name = match name {
            b"" if path.is_empty() => return Err(Errno::ENOENT),
            b"" => return Err(Errno::EBUSY),
            b"." | b".." => return Err(Errno::EINVAL),
            name => NameBuf::new(name)?,
        };
        let object = self.find(from, directory, true)?;
        if object.vnode().kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok((object, name))
    }

    /// Looks up an object by name, without following it.
    ///
    /// # Errors
    /// As [`Vnode::lookup`](vnode::Vnode::lookup).
    pub fn child(&self, directory: &ResolvedPath, name: Name<'_>) -> Result<ResolvedPath> {
        let entry = directory.vnode().lookup(&self.caller, name)?;
        Ok(directory.joined(name, entry.vnode))
    }

    /// Returns the attributes.
    ///
    /// # Errors
    /// As [`Vnode::getattr`](vnode::Vnode::getattr).
    pub fn attributes(&self, object: &ResolvedPath) -> Result<Attributes> {
        object.vnode().getattr(&self.caller)
    }

    /// Returns all entries of a directory, ordered by name.
    ///
    /// # Errors
    /// As [`Vnode::open_directory`](vnode::Vnode::open_directory).
    pub fn list(&self, directory: &ResolvedPath) -> Result<Vec<DirectoryEntry>> {
        self.entries(directory.vnode())
    }

    /// Returns all entries of a directory, ordered by name.
    pub(crate) fn entries(&self, directory: &VnodeRef) -> Result<Vec<DirectoryEntry>> {
        let open = directory.open_directory(&self.caller)?;
        let mut entries = Vec::new();
        open.read(&self.caller, Cookie::START, &mut |entry| {
            entries.push(DirectoryEntry { name: entry.name.to_owned(), kind: entry.kind });
            ControlFlow::Continue(())
        })?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

impl ResolvedPath {
    /// Returns the vnode at this location.
    pub fn vnode(&self) -> &VnodeRef {
        self.steps.last().map_or(&self.root, |(_, vnode)| vnode)
    }

    /// Returns the last component; `None` for the root.
    pub fn name(&self) -> Option<&NameBuf> {
        self.steps.last().map(|(name, _)| name)
    }

    /// Returns the path from the root, starting with a slash.
    pub fn path(&self) -> Vec<u8> {
        if self.steps.is_empty() {
            return b"/".to_vec();
        }
        self.steps.iter().flat_map(|(name, _)| [b"/", name.as_bytes()].concat()).collect()
    }

    /// Returns a location in this directory.
    pub fn joined(&self, name: Name<'_>, vnode: VnodeRef) -> ResolvedPath {
        let mut object = self.clone();
        object.steps.push((name.to_owned(), vnode));
        object
    }

    /// Returns whether this location is `other` or below it.
    pub fn is_within(&self, other: &ResolvedPath) -> bool {
        let handle = other.vnode().handle();
        other.steps.is_empty() || self.steps.iter().any(|(_, vnode)| vnode.handle() == handle)
    }
}

/// Returns the components of a path, without empty ones and `.`.
fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> + '_ {
    path.split(|byte| *byte == b'/').filter(|component| !matches!(*component, b"" | b".")).map(<[u8]>::to_vec)
}
