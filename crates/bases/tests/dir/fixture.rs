//! The test fixture: a fresh directory on an ext4 image in RAM, and on tmpfs, with and without file handles.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use plyfs_bases::dir::{DirectoryFileSystem, Options};
use vnode::{Caller, Cookie, Creation, FileSystem, InodeNumber, Name, OpenFileRef, OpenFlags, VnodeRef};

/// A fresh directory, served.
pub(crate) struct Fixture {
    /// What it is, for messages.
    pub label: &'static str,
    /// The directory.
    pub path: PathBuf,
    /// The base over it.
    pub file_system: DirectoryFileSystem,
    /// Its root.
    pub root: VnodeRef,
    options: Options,
    scratch: PathBuf,
}

impl Fixture {
    /// Runs a test on every kind of file system. Without root, which mounts need, reports that the test is skipped.
    pub(crate) fn each(test: impl Fn(&Fixture)) {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root to mount file systems");
            return;
        }
        for (label, kind, file_handles) in
            [("ext4", "ext4", true), ("tmpfs", "tmpfs", true), ("ext4 without handles", "ext4", false)]
        {
            let fixture = Self::new(label, kind, Options { file_handles, ..Options::default() });
            eprintln!("on {label}");
            test(&fixture);
        }
    }

    fn new(label: &'static str, kind: &str, options: Options) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A mount namespace of the test's thread: whatever happens, its mounts go with it.
        // SAFETY: unsharing the mount namespace touches no memory.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        run("mount", &["--make-rprivate", "/"]);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let scratch = PathBuf::from(format!("/dev/shm/plyfs-dir-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&scratch).unwrap();
        run("mount", &["-t", "tmpfs", "none", scratch.to_str().unwrap()]);
        let mounted = scratch.join("mounted");
        std::fs::create_dir(&mounted).unwrap();
        mount(kind, &scratch, "image", &mounted);
        let path = mounted.join("served");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        let file_system = DirectoryFileSystem::open(&path, options).unwrap();
        let root = file_system.root();
        Self { label, path, file_system, root, options, scratch }
    }

    /// Opens the same directory anew, as after a restart.
    pub(crate) fn again(&self) -> DirectoryFileSystem {
        DirectoryFileSystem::open(&self.path, self.options).unwrap()
    }

    /// Returns whether objects are identified by handle.
    pub(crate) fn has_handles(&self) -> bool {
        self.options.file_handles
    }

    /// Mounts another file system on a directory of the tree.
    pub(crate) fn mount_below(&self, name: &str, kind: &str) -> PathBuf {
        let point = self.path.join(name);
        std::fs::create_dir_all(&point).unwrap();
        mount(kind, &self.scratch, &format!("image-{}", name.replace('/', "-")), &point);
        point
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        plyfs_bases::dir::restore_thread_credentials();
        // Lazily, with all that is mounted below.
        let _ = Command::new("umount").args(["-l", self.scratch.to_str().unwrap()]).status();
        let _ = std::fs::remove_dir(&self.scratch);
    }
}

fn mount(kind: &str, scratch: &Path, image: &str, point: &Path) {
    let point = point.to_str().unwrap();
    if kind == "tmpfs" {
        return run("mount", &["-t", "tmpfs", "none", point]);
    }
    let image = scratch.join(image);
    std::fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
    let image = image.to_str().unwrap();
    run("mkfs.ext4", &["-q", "-F", "-b", "4096", "-N", "40000", image]);
    run("mount", &["-o", "loop", image, point]);
}

/// Runs a command that has to succeed.
pub(crate) fn run(command: &str, arguments: &[&str]) {
    let output = Command::new(command).args(arguments).output().unwrap();
    assert!(output.status.success(), "{command} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The superuser.
pub(crate) fn root() -> Caller {
    Caller::with_groups(0, 0, &[], 0o022)
}

/// A user with supplementary groups.
pub(crate) fn user(uid: u32, groups: &[u32]) -> Caller {
    Caller::with_groups(uid, uid, groups, 0o022)
}

/// A name.
pub(crate) fn name(bytes: &(impl AsRef<[u8]> + ?Sized)) -> Name<'_> {
    Name::new(bytes.as_ref()).unwrap()
}

/// Creation for reading and writing.
pub(crate) fn creation(mode: u32) -> Creation {
    Creation { mode, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) }
}

/// A new file with this content.
pub(crate) fn create_file(
    directory: &VnodeRef,
    caller: &Caller,
    file: &str,
    mode: u32,
    content: &[u8],
) -> (VnodeRef, OpenFileRef) {
    let created = directory.create(caller, name(file), &creation(mode)).unwrap();
    assert_eq!(created.file.write_at(caller, 0, content), Ok(content.len()));
    (created.entry.vnode, created.file)
}

/// The content of an open file, up to 64 KiB.
pub(crate) fn content(file: &OpenFileRef) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let length = file.read_at(&root(), 0, &mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

/// The names in a directory with their numbers and cookies.
pub(crate) fn entries(directory: &VnodeRef) -> Vec<(Vec<u8>, InodeNumber, Cookie)> {
    let open = directory.open_directory(&root()).unwrap();
    let mut all = Vec::new();
    open.read(&root(), Cookie::START, &mut |entry| {
        all.push((entry.name.as_bytes().to_vec(), entry.ino, entry.cookie));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    all
}
