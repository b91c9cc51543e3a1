//! Objects that have the number of an earlier one: neither is taken for the other.

mod support;

use bases::dir::{DirectoryFileSystem, Options};
use plyfs_frontends::fuse::MountOptions;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use support::{memory, mount_with, unmount_when_unused};
use vnode::layer::{Layer, stack};
use vnode::{Attributes, Caller, Errno, FileKind, FileSystemRef, InodeNumber, Name, OpenFlags, Promises, RenameMode};

/// All files have one number, and nobody knows when they were made: as on a file system that gives numbers again.
struct OneNumber;

impl Layer for OneNumber {
    type State = ();

    fn kind(&self) -> &'static str {
        "onenumber"
    }

    fn promises(&self) -> Promises {
        Promises { attributes_untouched: false, ..Promises::TRANSPARENT }
    }

    fn map_attributes(&self, _: &Caller, attributes: &mut Attributes) {
        attributes.btime = None;
        if attributes.kind == FileKind::Regular {
            attributes.ino = InodeNumber::new(42);
        }
    }
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

/// A directory base over a mount of such a file system.
fn base(path: &Path) -> FileSystemRef {
    std::sync::Arc::new(DirectoryFileSystem::open(path, Options::default()).unwrap())
}

#[test]
fn reused_inode_number_is_another_object() {
    let Some(mounted) = mount_with(stack(OneNumber, memory()), MountOptions::default()) else { return };
    let (server, below) = (Caller::server(), mounted.mount.mount_point());
    fs::create_dir(mounted.path("directory")).unwrap();
    fs::write(mounted.path("old"), b"old").unwrap();
    let base = base(below);
    let root = base.root();
    let old = root.lookup(&server, name("old")).unwrap().vnode;
    assert_eq!(root.lookup(&server, name("old")).unwrap().vnode.handle(), old.handle(), "it is where it was");
    // By somebody else, who makes another that gets the number.
    fs::remove_file(mounted.path("old")).unwrap();
    fs::write(mounted.path("new"), b"another").unwrap();
    let new = root.lookup(&server, name("new")).unwrap();
    assert_eq!(new.attributes.ino.get(), 42);
    assert_ne!(new.vnode.handle(), old.handle());
    assert_eq!(old.getattr(&server), Err(Errno::ESTALE));
    assert_eq!(new.vnode.getattr(&server).unwrap().size, 7);
    // What is moved through the base stays what it is, with or without another of that number beside it.
    fs::write(mounted.path("beside"), b"").unwrap();
    let directory = root.lookup(&server, name("directory")).unwrap().vnode;
    root.rename(&server, name("new"), &directory, name("moved"), RenameMode::Replace).unwrap();
    assert_eq!(directory.lookup(&server, name("moved")).unwrap().vnode.handle(), new.vnode.handle());
    assert_eq!(new.vnode.getattr(&server).unwrap().size, 7);
    let open = new.vnode.open(&server, OpenFlags::READ).unwrap();
    directory.unlink(&server, name("moved")).unwrap();
    assert_eq!(open.getattr(&server).unwrap().size, 7);
    assert_eq!(new.vnode.getattr(&server).unwrap().nlink, 0, "it stays usable without a name");
}

#[test]
fn concurrent_lookups_find_one_object() {
    let Some(mounted) = mount_with(stack(OneNumber, memory()), MountOptions::default()) else { return };
    for round in 0..50 {
        let text = format!("file{round}");
        fs::write(mounted.path(&text), b"").unwrap();
        let base = base(mounted.mount.mount_point());
        let find = || base.root().lookup(&Caller::server(), name(&text)).unwrap().vnode;
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(find)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|vnode| vnode.handle() == found[0].handle()), "{text}");
    }
}

/// What name_to_handle_at(2) gives.
fn handle_of(path: &Path) -> [u64; 20] {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let (mut handle, mut mount) = ([0u64; 20], 0);
    // The number of bytes that there is room for, in the low half, as the kernel lays the structure out.
    handle[0] = 128;
    // SAFETY: the kernel fills `handle`, 8 bytes of header and room for 128, and `mount`.
    let result = unsafe {
        libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), handle.as_mut_ptr().cast(), &raw mut mount, 0)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    handle
}

fn open_handle(root: &Path, handle: &mut [u64; 20]) -> io::Result<File> {
    let root = File::open(root)?;
    // SAFETY: `handle` was filled by the kernel.
    let descriptor = unsafe { libc::open_by_handle_at(root.as_raw_fd(), handle.as_mut_ptr().cast(), libc::O_RDONLY) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

#[test]
fn a_handle_of_an_earlier_mount_is_stale() {
    let Some(first) = mount_with(memory(), MountOptions::default()) else { return };
    fs::write(first.path("old"), b"old").unwrap();
    let mut handle = handle_of(&first.path("old"));
    assert!(open_handle(first.mount.mount_point(), &mut handle).is_ok());
    unmount_when_unused(&first.mount);
    let Some(second) = mount_with(memory(), MountOptions::default()) else { return };
    // The first node of this mount has the number that the first of the other had.
    fs::write(second.path("new"), b"new").unwrap();
    let opened = open_handle(second.mount.mount_point(), &mut handle);
    assert_eq!(opened.map(drop).map_err(|error| error.raw_os_error()), Err(Some(libc::ESTALE)));
    assert!(open_handle(second.mount.mount_point(), &mut handle_of(&second.path("new"))).is_ok());
}
