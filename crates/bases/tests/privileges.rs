//! What changes of data do to set-ID bits and file capabilities, on both bases: whoever may not keep them loses them, by every
//! operation. Needs root, for `dir` also a file system with capabilities in the temporary directory.

use plyfs_bases::dir::{self, DirectoryFileSystem};
use plyfs_bases::mem::{self, MemoryFileSystem};
use vnode::{
    AllocateMode, Caller, Creation, Errno, FileSystem, Name, OpenFileRef, OpenFlags, Result, SetAttributes, VnodeRef,
    XattrMode,
};

const CAPABILITY: &[u8] = b"security.capability";
/// Revision 2, effective, with the bit of CAP_NET_BIND_SERVICE permitted.
const BIND_PORTS: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Number of bytes in each file: several blocks of any file system.
const SIZE: u64 = 16384;
const BLOCK: u64 = 4096;

/// A file that everybody may write, and another to copy from.
struct Scene {
    directory: VnodeRef,
    file: VnodeRef,
    open: OpenFileRef,
    source: OpenFileRef,
}

type Change = (&'static str, fn(&Scene, &Caller) -> Result<()>);

/// Every operation that changes data or the size.
const CHANGES: [Change; 13] = [
    ("write", |scene, caller| scene.open.write_at(caller, 0, b"x").map(drop)),
    ("truncate an open file", |scene, caller| scene.open.truncate(caller, SIZE / 2)),
    ("truncate", |scene, caller| {
        scene.file.setattr(caller, &SetAttributes { size: Some(1), ..SetAttributes::default() }).map(drop)
    }),
    ("open with O_TRUNC", |scene, caller| {
        scene.file.open(caller, OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).map(drop)
    }),
    ("create an existing file with O_TRUNC", |scene, caller| {
        let how = Creation { mode: 0o600, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
        scene.directory.create(caller, name("file"), &how).map(drop)
    }),
    ("allocate", |scene, caller| allocate(scene, caller, 0)),
    ("allocate past the end", |scene, caller| allocate(scene, caller, libc::FALLOC_FL_KEEP_SIZE)),
    ("punch", |scene, caller| allocate(scene, caller, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)),
    ("zero", |scene, caller| allocate(scene, caller, libc::FALLOC_FL_ZERO_RANGE)),
    ("zero within the size", |scene, caller| {
        allocate(scene, caller, libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE)
    }),
    ("collapse", |scene, caller| allocate(scene, caller, libc::FALLOC_FL_COLLAPSE_RANGE)),
    ("insert", |scene, caller| allocate(scene, caller, libc::FALLOC_FL_INSERT_RANGE)),
    ("copy", |scene, caller| scene.source.copy_range(caller, 0, &scene.open, 0, BLOCK).map(drop)),
];

fn allocate(scene: &Scene, caller: &Caller, mode: i32) -> Result<()> {
    scene.open.allocate(caller, AllocateMode::from_bits(mode as u32), BLOCK, BLOCK)
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

fn root() -> Caller {
    Caller::with_groups(0, 0, &[], 0)
}

fn user() -> Caller {
    Caller::with_groups(1000, 1000, &[], 0)
}

impl Scene {
    fn new(file_system: &dyn FileSystem) -> Self {
        let directory = file_system.root();
        let create = |text: &str| {
            let how = Creation { mode: 0o777, flags: OpenFlags::READ_WRITE };
            let created = directory.create(&root(), name(text), &how).unwrap();
            (created.entry.vnode, created.file)
        };
        let ((file, open), (_, source)) = (create("file"), create("source"));
        source.write_at(&root(), 0, &[1; SIZE as usize]).unwrap();
        Self { directory, file, open, source }
    }

    /// Gives the file its size, its set-ID bits and a capability.
    fn arm(&self) {
        self.open.truncate(&root(), 0).unwrap();
        self.open.write_at(&root(), 0, &[2; SIZE as usize]).unwrap();
        let mode = SetAttributes { mode: Some(0o6777), ..SetAttributes::default() };
        self.file.setattr(&root(), &mode).unwrap();
        self.file.setxattr(&root(), CAPABILITY, &BIND_PORTS, XattrMode::Set).unwrap();
    }

    fn mode(&self) -> u32 {
        self.file.getattr(&root()).unwrap().mode
    }

    fn has_capability(&self) -> bool {
        self.file.getxattr(&root(), CAPABILITY).is_ok()
    }
}

/// Runs the test on `mem`, and on `dir` on two file systems.
fn each(test: impl Fn(&str, &Scene)) {
    test("mem", &Scene::new(&MemoryFileSystem::new(mem::Options::default())));
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: `dir` needs root to act for its callers");
        return;
    }
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        let path = tempfile::tempdir_in(&place).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path.path(), open).unwrap();
        let file_system = DirectoryFileSystem::open(path.path(), dir::Options::default()).unwrap();
        test(&format!("dir in {}", place.display()), &Scene::new(&file_system));
    }
}

/// Makes a change; returns whether the file system supports it.
fn is_made(label: &str, scene: &Scene, caller: &Caller, (what, change): &Change) -> bool {
    match change(scene, caller) {
        Err(Errno::EOPNOTSUPP | Errno::EXDEV) => {
            eprintln!("{label} cannot {what}");
            false
        }
        made => made.map(|()| true).unwrap_or_else(|error| panic!("{label}: {what}: {error}")),
    }
}

#[test]
fn every_change_takes_privileges_from_a_user() {
    each(|label, scene| {
        for change in &CHANGES {
            scene.arm();
            if is_made(label, scene, &user(), change) {
                assert_eq!((scene.mode(), scene.has_capability()), (0o777, false), "{label}: {}", change.0);
            }
        }
    });
}

#[test]
fn every_change_takes_privileges_if_the_caller_kills_them() {
    each(|label, scene| {
        for caller in [root(), Caller::server(), user()] {
            for change in &CHANGES {
                scene.arm();
                if is_made(label, scene, &caller.clone().killing_privileges(), change) {
                    assert_eq!((scene.mode(), scene.has_capability()), (0o777, false), "{label}: {}", change.0);
                }
            }
        }
    });
}

#[test]
fn a_superuser_keeps_set_id_bits() {
    each(|label, scene| {
        for caller in [root(), Caller::server(), Caller::server_for(&user().killing_privileges())] {
            for change in &CHANGES {
                scene.arm();
                if is_made(label, scene, &caller, change) {
                    // Linux clears capabilities whoever writes.
                    assert_eq!((scene.mode(), scene.has_capability()), (0o6777, false), "{label}: {}", change.0);
                }
            }
        }
    });
}

#[test]
fn what_changes_no_data_keeps_privileges() {
    each(|label, scene| {
        for caller in [user().killing_privileges(), root().killing_privileges()] {
            scene.arm();
            scene.file.open(&caller, OpenFlags::READ_WRITE).unwrap().write_at(&caller, 0, b"").unwrap();
            assert_eq!(scene.source.copy_range(&caller, 0, &scene.open, 0, 0), Ok(0), "{label}");
            assert_eq!(scene.open.allocate(&caller, AllocateMode::ALLOCATE, 0, 0), Err(Errno::EINVAL), "{label}");
            let now = SetAttributes {
                mtime: Some(vnode::SetTime::Now),
                atime: Some(vnode::SetTime::Now),
                ..SetAttributes::default()
            };
            scene.file.setattr(&caller, &now).unwrap();
            assert_eq!((scene.mode(), scene.has_capability()), (0o6777, true), "{label}");
        }
    });
}
