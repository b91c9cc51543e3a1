//! What the tests of layers share: a file system in memory, callers, seeds, and data layers of every shape.

#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod codecs;
pub(crate) mod image;
pub(crate) mod interrupted;
pub(crate) mod owned;
pub(crate) mod plain;
pub(crate) mod reporting;
pub(crate) mod steps;
pub(crate) mod unions;

use std::sync::Arc;

use bases::mem::{MemoryFileSystem, Options};
use vnode::{
    Caller, Cookie, Creation, Entry, FileSystemRef, InodeNumber, Name, NameBuf, OpenDirectoryRef, OpenFileRef,
    OpenFlags, Result, VnodeRef,
};

/// An empty file system in memory that anybody may write to.
pub(crate) fn memory() -> FileSystemRef {
    let options = Options { size: 1 << 30, inodes: 100_000, mode: 0o777, uid: 0, gid: 0 };
    Arc::new(MemoryFileSystem::new(options))
}

/// An empty file system in memory for this many bytes.
pub(crate) fn small_memory(size: u64) -> FileSystemRef {
    Arc::new(MemoryFileSystem::new(Options { size, inodes: 100_000, mode: 0o777, uid: 0, gid: 0 }))
}

/// A layer by name, with its options, on a file system.
pub(crate) fn layer(name: &str, options: &[(&str, &str)], lower: FileSystemRef) -> FileSystemRef {
    let options: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    plyfs_layers::kind(name).unwrap().stack(&options, lower).unwrap_or_else(|error| panic!("{error}"))
}

/// The superuser.
pub(crate) fn root() -> Caller {
    Caller::with_groups(0, 0, &[], 0o022)
}

/// A user with a group of the same number.
pub(crate) fn user(id: u32) -> Caller {
    Caller::with_groups(id, id, &[], 0o022)
}

/// A name.
pub(crate) fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

/// Creates a file, open for reading and writing.
pub(crate) fn create(directory: &VnodeRef, caller: &Caller, text: &str, mode: u32) -> (VnodeRef, OpenFileRef) {
    let how = Creation { mode, flags: OpenFlags::READ_WRITE };
    let created = directory.create(caller, name(text), &how).unwrap();
    (created.entry.vnode, created.file)
}

/// The entry at a path of several names.
pub(crate) fn walk(file_system: &FileSystemRef, caller: &Caller, path: &str) -> Result<Entry> {
    let vnode = file_system.root();
    let mut entry = Entry { attributes: vnode.getattr(caller)?, vnode };
    for component in path.split('/').filter(|component| !component.is_empty()) {
        entry = entry.vnode.lookup(caller, name(component))?;
    }
    Ok(entry)
}

/// All of a file.
pub(crate) fn contents(vnode: &VnodeRef, caller: &Caller) -> Vec<u8> {
    let file = vnode.open(caller, OpenFlags::READ).unwrap();
    let mut data = vec![0; file.getattr(caller).unwrap().size as usize + 10];
    let length = file.read_at(caller, 0, &mut data).unwrap();
    data.truncate(length);
    data
}

/// The names in a directory, sorted.
pub(crate) fn list(directory: &VnodeRef, caller: &Caller) -> Vec<String> {
    names(&directory.open_directory(caller).unwrap(), caller)
}

/// The names that an open directory has from its start, sorted.
pub(crate) fn names(open: &OpenDirectoryRef, caller: &Caller) -> Vec<String> {
    let listed = numbered(open, caller).into_iter();
    let mut names: Vec<String> =
        listed.map(|(name, _)| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect();
    names.sort();
    names
}

/// The names that an open directory has from its start and their inode numbers, as they are listed.
pub(crate) fn numbered(open: &OpenDirectoryRef, caller: &Caller) -> Vec<(NameBuf, InodeNumber)> {
    let mut listed = Vec::new();
    open.read(caller, Cookie::START, &mut |entry| {
        listed.push((entry.name.to_owned(), entry.ino));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    listed
}

/// Random numbers of the seed in `PLYFS_TEST_SEED`, or of a new one. A test that fails has its seed in its output.
pub(crate) fn random() -> fastrand::Rng {
    let given = std::env::var("PLYFS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("PLYFS_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// A shared file system, to be owned.
pub(crate) struct Shared(pub FileSystemRef);

impl vnode::FileSystem for Shared {
    fn root(&self) -> vnode::VnodeRef {
        self.0.root()
    }

    fn resolve(&self, caller: &Caller, handle: &vnode::Handle) -> vnode::Result<vnode::VnodeRef> {
        self.0.resolve(caller, handle)
    }

    fn properties(&self) -> vnode::Properties {
        self.0.properties()
    }

    fn describe(&self) -> Vec<vnode::Description> {
        self.0.describe()
    }
}

/// Gives every caller the number of a process.
#[derive(Debug)]
pub(crate) struct As(pub u32);

impl vnode::layer::Layer for As {
    type State = ();

    fn kind(&self) -> &'static str {
        "as"
    }

    fn promises(&self) -> vnode::Promises {
        vnode::Promises::TRANSPARENT
    }

    fn map_caller<'a>(&'a self, caller: &'a Caller) -> std::borrow::Cow<'a, Caller> {
        let mut caller = caller.clone();
        caller.pid = self.0;
        std::borrow::Cow::Owned(caller)
    }
}
