//! Unix metadata in directory entries: what is kept, what is refused, and what other systems do to it.

use std::sync::Arc;

use plyfs_bases::device::MemoryDevice;
use plyfs_bases::fat::{FatFileSystem, MetadataMode, MountError, Options};
use vnode::{
    Attributes, Creation, Device, Errno, FileKind, FileSystem, OpenFlags, RenameMode, SetAttributes, SetTime,
    Timestamp, VnodeRef, XattrMode,
};

use crate::image::{self, KINDS, find, get, in_entries, name, names, put, superuser, without_sidecars};

const MODES: [MetadataMode; 2] = [MetadataMode::Inline, MetadataMode::Paper];

fn device() -> Option<Arc<MemoryDevice>> {
    image::format(KINDS[1]).map(Arc::new)
}

fn set(vnode: &VnodeRef, changes: SetAttributes) -> vnode::Result<Attributes> {
    vnode.setattr(&superuser(), &changes)
}

fn chown(vnode: &VnodeRef, uid: u32, gid: u32) -> vnode::Result<Attributes> {
    set(vnode, SetAttributes { uid: Some(uid), gid: Some(gid), ..Default::default() })
}

fn chmod(vnode: &VnodeRef, mode: u32) -> vnode::Result<Attributes> {
    set(vnode, SetAttributes { mode: Some(mode), ..Default::default() })
}

/// Kind, mode, owner, group and device number.
fn shown(directory: &VnodeRef, path: &str) -> (FileKind, u32, u32, u32, Device) {
    let Attributes { kind, mode, uid, gid, rdev, .. } = find(directory, path).unwrap().attributes;
    (kind, mode, uid, gid, rdev)
}

#[test]
fn owners_modes_and_kinds_stay() {
    for mode in MODES {
        let Some(device) = device() else { return };
        let file_system = image::mount(&device, in_entries(mode));
        let root = file_system.root();
        let directory = root.mkdir(&superuser(), name("A directory"), 0o711).unwrap().vnode;
        let file = put(&directory, "A file", b"text").unwrap();
        chown(&file, 1000, 2000).unwrap();
        chmod(&file, 0o6751).unwrap();
        let empty = put(&directory, "empty", b"").unwrap();
        chmod(&empty, 0o400).unwrap();
        directory.symlink(&superuser(), name("symlink"), b"../target").unwrap();
        directory.mknod(&superuser(), name("fifo"), FileKind::Fifo, 0o640, Device::default()).unwrap();
        directory.mknod(&superuser(), name("socket"), FileKind::Socket, 0o755, Device::default()).unwrap();
        let number = Device { major: 8, minor: 17 };
        directory.mknod(&superuser(), name("block"), FileKind::BlockDevice, 0o660, number).unwrap();
        directory.mknod(&superuser(), name("character"), FileKind::CharacterDevice, 0o666, number).unwrap();
        chown(&directory, 1000, 0).unwrap();
        let check = |root: &VnodeRef| {
            let at = |text: &str| shown(root, &format!("A directory/{text}"));
            assert_eq!(
                shown(root, "A directory"),
                (FileKind::Directory, 0o711, 1000, 0, Device::default()),
                "{mode:?}"
            );
            assert_eq!(at("A file"), (FileKind::Regular, 0o6751, 1000, 2000, Device::default()), "{mode:?}");
            assert_eq!(at("empty"), (FileKind::Regular, 0o400, 0, 0, Device::default()));
            assert_eq!(at("symlink").0, FileKind::Symlink);
            assert_eq!(find(root, "A directory/symlink").unwrap().vnode.readlink(&superuser()).unwrap(), b"../target");
            assert_eq!(at("fifo"), (FileKind::Fifo, 0o640, 0, 0, Device::default()));
            assert_eq!(at("socket").0, FileKind::Socket);
            assert_eq!(at("block"), (FileKind::BlockDevice, 0o660, 0, 0, number));
            assert_eq!(at("character"), (FileKind::CharacterDevice, 0o666, 0, 0, number));
            assert_eq!(find(root, "A directory/block").unwrap().attributes.size, 0);
            assert_eq!(names(root), ["A directory"], "numbers of owners are not shown");
        };
        check(&root);
        drop((root, directory, file, empty, file_system));
        image::check(&device);
        let file_system = image::mount(&device, in_entries(mode));
        check(&file_system.root());
        find(&file_system.root(), "A directory/block").unwrap();
        file_system
            .root()
            .rename(&superuser(), name("A directory"), &file_system.root(), name("another name"), RenameMode::Replace)
            .unwrap();
        file_system.end_of_use().unwrap();
        let file_system = image::mount(&device, in_entries(mode));
        assert_eq!(shown(&file_system.root(), "another name").1, 0o711);
        drop(file_system);
        image::check(&device);
    }
}

#[test]
fn inline_metadata_is_recognized() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, in_entries(MetadataMode::Inline));
    let file = put(&file_system.root(), "file", b"1").unwrap();
    chmod(&file, 0o604).unwrap();
    drop((file, file_system));
    let file_system = image::mount(&device, in_entries(MetadataMode::Auto));
    assert_eq!(shown(&file_system.root(), "file").1, 0o604);
    chmod(&find(&file_system.root(), "file").unwrap().vnode, 0o640).unwrap();
    let own = file_system.root().create(
        &superuser(),
        name("000003e8.u00"),
        &Creation { mode: 0o644, flags: OpenFlags::WRITE },
    );
    assert_eq!(own.err(), Some(Errno::EPERM), "a name of an owner's number");
}

#[test]
fn an_object_whose_owner_lost_its_number_is_for_the_superuser_only() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, in_entries(MetadataMode::Inline));
    let root = file_system.root();
    let private = put(&root, "private", b"1").unwrap();
    chown(&private, 1000, 1000).unwrap();
    chmod(&private, 0o600).unwrap();
    drop((root, private, file_system));
    let mut bytes = device.contents();
    // Another system has removed the entry of user 1000.
    let entry = bytes.windows(9).position(|window| window == b"000003E8U").unwrap();
    let removed = bytes[entry..entry + 32].to_vec();
    bytes[entry] = 0xE5;
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let file_system = image::mount(&device, in_entries(MetadataMode::Inline));
    let root = file_system.root();
    let private = find(&root, "private").unwrap();
    assert_eq!(private.attributes.mode, 0);
    for uid in [0xFFFF, 65_534, 1000, 1001] {
        let other = vnode::Caller::with_groups(uid, uid, &[], 0o22);
        assert_eq!(private.vnode.open(&other, OpenFlags::READ).err(), Some(Errno::EACCES));
        let opened = SetAttributes { mode: Some(0o644), ..Default::default() };
        assert_eq!(private.vnode.setattr(&other, &opened).err(), Some(Errno::EPERM));
    }
    assert_eq!(chmod(&private.vnode, 0o644).err(), Some(Errno::EPERM), "of whom is not known");
    // Nobody else gets the number, and the file keeps it when it is changed.
    let another = put(&root, "another", b"2").unwrap();
    chown(&another, 1001, 1001).unwrap();
    put(&root, "private", b"3").unwrap();
    drop((root, private, another, file_system));
    let mut bytes = device.contents();
    let file_system = image::mount(&device, in_entries(MetadataMode::Inline));
    assert_eq!(shown(&file_system.root(), "private").1, 0);
    drop(file_system);
    let free = (entry..).step_by(32).find(|&slot| bytes[slot] == 0).unwrap();
    bytes[free..free + 32].copy_from_slice(&removed);
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let file_system = image::mount(&device, in_entries(MetadataMode::Inline));
    let private = shown(&file_system.root(), "private");
    assert_eq!((private.1, private.2, private.3), (0o600, 1000, 1000));
    assert_eq!(shown(&file_system.root(), "another").2, 1001);
}

#[test]
fn what_entries_have_no_room_for_is_refused() {
    for mode in MODES {
        let Some(device) = device() else { return };
        let file_system = image::mount(&device, in_entries(mode));
        let root = file_system.root();
        let file = put(&root, "file", b"text").unwrap();
        assert_eq!(file.setxattr(&superuser(), b"user.a", b"1", XattrMode::Set), Err(Errno::EOPNOTSUPP));
        assert_eq!(root.link(&superuser(), &file, name("link")).err(), Some(Errno::EPERM));
        assert_eq!(chmod(&root, 0o700).err(), Some(Errno::EPERM), "the root directory has no entry");
        assert!(!file_system.properties().promises.persistent_handles);
        match mode {
            MetadataMode::Paper => {
                assert_eq!(chown(&file, 65_536, 0).err(), Some(Errno::EPERM));
                let large = Device { major: 300, minor: 0 };
                let node = root.mknod(&superuser(), name("device"), FileKind::CharacterDevice, 0o600, large);
                assert_eq!(node.err(), Some(Errno::EPERM));
            }
            _ => {
                chown(&file, 65_536, 0).unwrap();
                let failed = (1..2000).map(|uid| chown(&file, uid, uid)).find_map(Result::err);
                assert_eq!(failed, Some(Errno::ENOSPC), "the root directory is full");
            }
        }
        drop((root, file, file_system));
        image::check(&device);
    }
    let Some(device) = image::format(KINDS[2]).map(Arc::new) else { return };
    let opened = FatFileSystem::open(device, "test", in_entries(MetadataMode::Paper));
    assert_eq!(opened.err(), Some(MountError::PaperOnFat32));
}

#[test]
fn other_systems_take_metadata_away_and_never_give_it_to_another_file() {
    for mode in MODES {
        let Some(device) = device() else { return };
        let file_system = image::mount(&device, in_entries(mode));
        for text in ["kept", "renamed", "rewritten", "replaced"] {
            let file = put(&file_system.root(), text, text.as_bytes()).unwrap();
            chown(&file, 7, 8).unwrap();
            chmod(&file, 0o4711).unwrap();
        }
        drop(file_system);
        // A system that keeps times of creation.
        let others = image::mount(&device, without_sidecars());
        let root = others.root();
        root.rename(&superuser(), name("renamed"), &root, name("with a new name"), RenameMode::Replace).unwrap();
        put(&root, "rewritten", b"other text").unwrap();
        root.unlink(&superuser(), name("replaced")).unwrap();
        put(&root, "replaced", b"new").unwrap();
        put(&root, "renamed", b"new, too").unwrap();
        drop((root, others));
        let file_system = image::mount(&device, in_entries(mode));
        let found = |text: &str| {
            let (_, mode, uid, gid, _) = shown(&file_system.root(), text);
            (mode, uid, gid)
        };
        assert_eq!(found("kept"), (0o4711, 7, 8), "{mode:?}");
        assert_eq!([found("replaced"), found("renamed")], [(0o755, 0, 0); 2], "{mode:?}");
        if mode == MetadataMode::Inline {
            assert_eq!(found("with a new name"), (0o4711, 7, 8));
            assert_eq!(found("rewritten"), (0o711, 7, 8), "it does not act for its owner any more");
        }
        assert_eq!(get(&file_system.root(), "rewritten").unwrap(), b"other text");
    }
}

#[test]
fn mtools_keep_inline_metadata_of_renamed_files() {
    let Some(device) = device() else { return };
    let file_system = image::mount(&device, in_entries(MetadataMode::Inline));
    let file = put(&file_system.root(), "a long name", b"text").unwrap();
    chown(&file, 7, 8).unwrap();
    chmod(&file, 0o640).unwrap();
    drop((file, file_system));
    let image_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(image_file.path(), device.contents()).unwrap();
    let mut command = std::process::Command::new("mren");
    match command.arg("-i").arg(image_file.path()).args(["::a long name", "::another name"]).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return println!("skipped: mren: {error}"),
    }
    let device = Arc::new(MemoryDevice::from_bytes(&std::fs::read(image_file.path()).unwrap()));
    let file_system = image::mount(&device, in_entries(MetadataMode::Auto));
    let found = shown(&file_system.root(), "another name");
    assert_eq!((found.1, found.2, found.3), (0o640, 7, 8));
}

#[test]
fn times_are_those_of_fat() {
    for mode in MODES {
        let Some(device) = device() else { return };
        let file_system = image::mount(&device, in_entries(mode));
        let file = put(&file_system.root(), "file", b"text").unwrap();
        let time = Some(SetTime::To(Timestamp { seconds: 1_500_000_001, nanoseconds: 5 }));
        let shown = set(&file, SetAttributes { mtime: time, ..Default::default() }).unwrap();
        assert_eq!((shown.mtime.seconds, shown.btime), (1_500_000_000, None));
        drop((file, file_system));
        let file_system = image::mount(&device, in_entries(mode));
        let again = find(&file_system.root(), "file").unwrap().attributes;
        assert_eq!(again.mtime, shown.mtime);
        if mode == MetadataMode::Paper {
            assert_eq!(again.atime, shown.mtime, "the group is in its place");
        }
    }
}

#[test]
fn masks_hide_bits_and_keep_them() {
    for metadata in [MetadataMode::Sidecar, MetadataMode::Inline] {
        let Some(device) = device() else { return };
        let file_system = image::mount(&device, in_entries(metadata));
        let file = put(&file_system.root(), "file", b"text").unwrap();
        chmod(&file, 0o4775).unwrap();
        file_system.root().mkdir(&superuser(), name("directory"), 0o777).unwrap();
        drop((file, file_system));
        let parsed = Options::parse("fmask=6111,dmask=022,uid=0,gid=0").unwrap();
        let masked = Options { metadata, ..parsed };
        let file_system = image::mount(&device, masked);
        let root = file_system.root();
        let mode = |text: &str| shown(&root, text).1;
        assert_eq!((mode("file"), mode("directory")), (0o664, 0o755));
        let file = find(&root, "file").unwrap().vnode;
        assert_eq!(chmod(&file, 0o755).err(), Some(Errno::EPERM), "what is hidden is not set");
        let time = Some(SetTime::To(Timestamp { seconds: 1_500_000_000, nanoseconds: 0 }));
        set(&file, SetAttributes { mtime: time, ..Default::default() }).unwrap();
        put(&root, "new", b"").unwrap();
        assert_eq!(mode("new"), 0o644);
        drop((root, file, file_system));
        let file_system = image::mount(&device, in_entries(metadata));
        assert_eq!(shown(&file_system.root(), "file").1, 0o4775, "{metadata:?}");
    }
}
