//! Stacks: built from an expression, read by paths, walked, mounted.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use frontends::fuse::MountOptions;
use vnode::{Caller, FileKind, FileSystemRef, OpenFlags, VnodeRef};

use crate::caller::own_caller;
use crate::error::Error;
use crate::mounted::Mounted;
use crate::tree::{CallerTree, ResolvedPath};
use crate::walk::Walk;
use ::stack::{BuildError, Registry, syntax};

/// A base and the layers on it. Paths begin at its root, with or without a slash; operations on them are done as the user that this
/// process runs as.
#[derive(Clone)]
pub struct Stack {
    file_system: FileSystemRef,
    expression: String,
}

impl Stack {
    /// Builds the stack that an expression describes, such as `/srv/data | audit | readonly`. Relative paths in it begin at the
    /// current directory.
    ///
    /// # Errors
    /// [`Error::Build`], with what is wrong, where, and what to do; nothing is open then.
    pub fn open(expression: &str) -> Result<Stack, Error> {
        Stack::open_with(&Registry::default(), expression)
    }

    /// Builds as [`Stack::open`], with the kinds of layers in a registry: those of Plyfs, and others.
    ///
    /// # Errors
    /// As [`Stack::open`].
    pub fn open_with(registry: &Registry, expression: &str) -> Result<Stack, Error> {
        let failed = |error: BuildError| Error::Build { expression: expression.to_owned(), error: Box::new(error) };
        let mut parsed = syntax::parse(expression).map_err(|error| failed(error.into()))?;
        registry.make_absolute(&mut parsed, &std::env::current_dir().map_err(Error::CurrentDirectory)?);
        let file_system = registry.build(&parsed).map_err(failed)?;
        Ok(Stack { file_system, expression: parsed.to_string() })
    }

    /// Returns the expression in its canonical form, with absolute paths.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Returns the file system: every operation, as any caller.
    pub fn file_system(&self) -> &FileSystemRef {
        &self.file_system
    }

    /// Returns the members of the stack and what each declares, as `plyfs explain` prints them.
    pub fn explain(&self) -> String {
        ::stack::explain(self.file_system.as_ref())
    }

    /// Returns the stack as a caller sees it, by paths.
    pub fn tree(&self, caller: Caller) -> CallerTree {
        CallerTree::new(self.file_system.clone(), caller)
    }

    /// Returns the object at a path. Follows symlinks.
    ///
    /// # Errors
    /// [`Error::Object`], as open(2).
    pub fn lookup(&self, path: impl AsRef<Path>) -> Result<VnodeRef, Error> {
        let path = path.as_ref();
        let found = resolve(&self.tree(own_caller()), path);
        found.map(|found| found.vnode().clone()).map_err(|errno| object_error(path, errno))
    }

    /// Returns the content of the file at a path.
    ///
    /// # Errors
    /// [`Error::Object`], as open(2) and read(2).
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        let vnode = self.lookup(&path)?;
        read(&vnode, &own_caller()).map_err(|errno| object_error(path.as_ref(), errno))
    }

    /// Returns an iterator over the object at a path and, if that is a directory, everything below it.
    ///
    /// # Errors
    /// [`Error::Object`], as open(2). What cannot be read on the way is an error of the iterator.
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk, Error> {
        let tree = self.tree(own_caller());
        let start = resolve(&tree, path.as_ref()).map_err(|errno| object_error(path.as_ref(), errno))?;
        Ok(Walk::new(tree, &start))
    }

    /// Returns the options with which [`Stack::mount`] mounts: the mount table has the expression as the source, and a mount by root
    /// is accessible to all users, with their permissions.
    pub fn mount_options(&self) -> MountOptions {
        MountOptions {
            source: self.expression.clone().into(),
            allow_other: rustix::process::geteuid().is_root(),
            ..MountOptions::default()
        }
    }

    /// Mounts the stack on a directory. On return the mount is usable; threads of this process serve it until it is unmounted or the
    /// result is dropped.
    ///
    /// # Errors
    /// [`Error::Mount`], with cause and remedy; nothing stays mounted then.
    pub fn mount(&self, mount_point: impl AsRef<Path>) -> Result<Mounted, Error> {
        self.mount_with(mount_point, &self.mount_options())
    }

    /// Mounts as [`Stack::mount`], with options: [`Stack::mount_options`], and what differs from them.
    ///
    /// # Errors
    /// As [`Stack::mount`].
    pub fn mount_with(&self, mount_point: impl AsRef<Path>, options: &MountOptions) -> Result<Mounted, Error> {
        Mounted::new(self.file_system.clone(), mount_point.as_ref(), options)
    }

    /// Ends the use of the stack: stores everything that was written, and marks disks as no longer in use, as unmounting does.
    /// Changes after that may fail with `EROFS`. Dropping the last reference does the same, but reports errors only to the log.
    ///
    /// # Errors
    /// [`Error::Sync`]: what was not synchronized before may be lost.
    pub fn close(&self) -> Result<(), Error> {
        match self.file_system.end_of_use() {
            // Nothing could be written to it.
            Err(vnode::Errno::EROFS) | Ok(()) => Ok(()),
            Err(errno) => Err(Error::Sync(errno)),
        }
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stack").field("expression", &self.expression).finish_non_exhaustive()
    }
}

fn resolve(tree: &CallerTree, path: &Path) -> vnode::Result<ResolvedPath> {
    match path.as_os_str().as_bytes() {
        b"" => Ok(tree.root()),
        bytes => tree.find(&tree.root(), bytes, true),
    }
}

fn read(vnode: &VnodeRef, caller: &Caller) -> vnode::Result<Vec<u8>> {
    const PIECE: usize = 1 << 20;
    if vnode.kind() != FileKind::Regular {
        let is_directory = vnode.kind() == FileKind::Directory;
        return Err(if is_directory { vnode::Errno::EISDIR } else { vnode::Errno::EINVAL });
    }
    let file = vnode.open(caller, OpenFlags::READ)?;
    let mut content = Vec::new();
    loop {
        let end = content.len();
        content.resize(end + PIECE, 0);
        let more = vnode::read_fully(file.as_ref(), caller, end as u64, &mut content[end..])?;
        content.truncate(end + more);
        if more < PIECE {
            return Ok(content);
        }
    }
}

fn object_error(path: &Path, errno: vnode::Errno) -> Error {
    let path = if path.as_os_str().is_empty() { Path::new(OsStr::new("/")) } else { path };
    Error::Object { path: PathBuf::from(path), errno }
}
