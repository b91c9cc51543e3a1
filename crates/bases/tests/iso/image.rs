//! Images for tests: files in a temporary directory, opened as file systems.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plyfs_bases::device::{Access, FileDevice, MemoryDevice};
use plyfs_bases::iso::{IsoFileSystem, OpenError, Options};
use tempfile::TempDir;
use vnode::{Caller, Cookie, Errno, FileKind, FileSystem, InodeNumber, Name, OpenFlags, Result, VnodeRef, read_fully};

/// A temporary directory with a source tree and images.
pub(crate) struct Workshop {
    directory: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// Returns the path of the source tree, which exists.
    pub(crate) fn source(&self) -> PathBuf {
        let path = self.path("source");
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Opens an image in a file.
pub(crate) fn open(image: &Path, options: &str) -> IsoFileSystem {
    let device = FileDevice::open(image, Access::Read).unwrap();
    IsoFileSystem::open(Arc::new(device), "test.iso", Options::parse(options).unwrap()).unwrap()
}

/// Opens an image in memory.
pub(crate) fn open_bytes(image: &[u8], options: &str) -> std::result::Result<IsoFileSystem, OpenError> {
    let device = Arc::new(MemoryDevice::from_bytes(image));
    IsoFileSystem::open(device, "test.iso", Options::parse(options).unwrap())
}

pub(crate) fn root_user() -> Caller {
    Caller::with_groups(0, 0, &[], 0)
}

/// Returns the object at a path.
pub(crate) fn find(file_system: &IsoFileSystem, path: &str) -> Result<VnodeRef> {
    path.split('/').filter(|name| !name.is_empty()).try_fold(file_system.root(), |directory, name| {
        Ok(directory.lookup(&root_user(), Name::new(name.as_bytes())?)?.vnode)
    })
}

/// Returns all contents of a file.
pub(crate) fn read(vnode: &VnodeRef) -> Result<Vec<u8>> {
    let size = vnode.getattr(&root_user())?.size;
    let mut contents = vec![0xaa; size as usize + 1];
    let file = vnode.open(&root_user(), OpenFlags::READ)?;
    let length = read_fully(&*file, &root_user(), 0, &mut contents)?;
    assert_eq!(length as u64, size);
    contents.truncate(length);
    Ok(contents)
}

/// Name, inode number and kind of an object in a directory.
type Listed = (String, InodeNumber, Option<FileKind>);

/// Returns the entries of a directory, and the error at the end, if any.
pub(crate) fn list(vnode: &VnodeRef) -> (Vec<Listed>, Option<Errno>) {
    let open = match vnode.open_directory(&root_user()) {
        Ok(open) => open,
        Err(errno) => return (vec![], Some(errno)),
    };
    let (mut found, mut cookie) = (Vec::new(), Cookie::START);
    loop {
        let before = found.len();
        // Few at a time, so that reading continues at cookies.
        let result = open.read(&root_user(), cookie, &mut |entry| {
            if found.len() == before + 3 {
                return ControlFlow::Break(());
            }
            cookie = entry.cookie;
            found.push((entry.name.display().to_string(), entry.ino, entry.kind));
            ControlFlow::Continue(())
        });
        match result {
            Err(errno) => return (found, Some(errno)),
            Ok(()) if found.len() == before => return (found, None),
            Ok(()) => {}
        }
    }
}

/// Returns the names in a directory, in order.
pub(crate) fn names(vnode: &VnodeRef) -> Vec<String> {
    let (entries, error) = list(vnode);
    assert_eq!(error, None);
    let mut names: Vec<String> = entries.into_iter().map(|(name, ..)| name).collect();
    names.sort();
    names
}
