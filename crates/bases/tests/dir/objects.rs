//! Objects: attributes, extended attributes, data, names of every length.

use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use vnode::{
    AllocateMode, Creation, Errno, FileKind, OpenFlags, RenameMode, SeekTarget, SetAttributes, SetTime, Timestamp,
    XattrMode,
};

use crate::fixture::{Fixture, content, create_file, creation, entries, name, root, user};

#[test]
fn names_of_255_bytes_work_everywhere() {
    Fixture::each(|fixture| {
        let caller = root();
        let long = [b'\xfe'; 255];
        let (vnode, _) = create_file(&fixture.root, &caller, "short", 0o644, b"x");
        fixture.root.rename(&caller, name("short"), &fixture.root, name(&long), RenameMode::NoReplace).unwrap();
        assert!(std::sync::Arc::ptr_eq(&fixture.root.lookup(&caller, name(&long)).unwrap().vnode, &vnode));
        assert_eq!(entries(&fixture.root).iter().filter(|entry| entry.0 == long).count(), 1);
        fixture.root.unlink(&caller, name(&long)).unwrap();
        fixture.root.mkdir(&caller, name(&long), 0o755).unwrap();
        fixture.root.rmdir(&caller, name(&long)).unwrap();
        fixture.root.symlink(&caller, name(&long), &[b't'; 4_000]).unwrap();
        assert_eq!(fixture.root.lookup(&caller, name(&long)).unwrap().vnode.readlink(&caller).unwrap().len(), 4_000);
    });
}

#[test]
fn symlinks_have_attributes_and_extended_attributes_of_their_own() {
    Fixture::each(|fixture| {
        let caller = root();
        create_file(&fixture.root, &caller, "target", 0o600, b"x");
        let link = fixture.root.symlink(&caller, name("s"), b"target").unwrap().vnode;
        link.setxattr(&caller, b"trusted.a", b"on the link", XattrMode::Create).unwrap();
        assert_eq!(link.getxattr(&caller, b"trusted.a"), Ok(b"on the link".to_vec()));
        assert_eq!(link.listxattr(&caller), Ok(b"trusted.a\0".to_vec()));
        let target = fixture.root.lookup(&caller, name("target")).unwrap().vnode;
        assert_eq!(target.getxattr(&caller, b"trusted.a"), Err(Errno::ENODATA));
        link.removexattr(&caller, b"trusted.a").unwrap();
        assert_eq!(link.listxattr(&caller), Ok(Vec::new()));
        assert_eq!(link.setxattr(&caller, b"user.a", b"", XattrMode::Set), Err(Errno::EPERM));

        let time = Timestamp { seconds: -5, nanoseconds: 123_456_789 };
        let changes = SetAttributes {
            uid: Some(7),
            atime: Some(SetTime::To(time)),
            mtime: Some(SetTime::To(time)),
            ..Default::default()
        };
        let changed = link.setattr(&caller, &changes).unwrap();
        assert_eq!((changed.uid, changed.mtime), (7, time));
        assert_ne!(target.getattr(&caller).unwrap().mtime, time);
        assert_eq!(target.getattr(&caller).unwrap().uid, 0);
        let mode = SetAttributes { mode: Some(0o777), ..Default::default() };
        assert_eq!(link.setattr(&caller, &mode), Err(Errno::EOPNOTSUPP));
        let size = SetAttributes { size: Some(0), ..Default::default() };
        assert_eq!(link.setattr(&caller, &size), Err(Errno::EINVAL));
        assert_eq!(fixture.root.setattr(&caller, &size), Err(Errno::EISDIR));
        assert_eq!(content(&target.open(&caller, OpenFlags::READ).unwrap()), b"x");
    });
}

#[test]
fn attributes_change_together_or_not_at_all() {
    Fixture::each(|fixture| {
        let owner = user(1_000, &[]);
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o644, b"content");
        let before = file.getattr(&owner).unwrap();
        for changes in [
            SetAttributes { size: Some(0), uid: Some(0), ..Default::default() },
            SetAttributes { mode: Some(0o600), gid: Some(4), ..Default::default() },
            SetAttributes { size: Some(1), gid: Some(4), mode: Some(0), ..Default::default() },
        ] {
            assert_eq!(file.setattr(&owner, &changes), Err(Errno::EPERM), "{changes:?}");
            let after = file.getattr(&owner).unwrap();
            assert_eq!(after, before, "{changes:?}");
        }
        let stranger = user(1_001, &[]);
        let changes = SetAttributes { mode: Some(0o600), size: Some(1), ..Default::default() };
        assert_eq!(file.setattr(&stranger, &changes), Err(Errno::EPERM));
        let all = SetAttributes {
            mode: Some(0o4711),
            uid: Some(5),
            gid: Some(6),
            size: Some(3),
            mtime: Some(SetTime::To(Timestamp { seconds: 9, nanoseconds: 8 })),
            ..Default::default()
        };
        let after = file.setattr(&root(), &all).unwrap();
        assert_eq!((after.mode, after.uid, after.gid, after.size), (0o4711, 5, 6, 3));
        assert_eq!((after.mtime, after.atime), (Timestamp { seconds: 9, nanoseconds: 8 }, before.atime));
    });
}

#[test]
fn writers_may_set_size_and_times_to_now() {
    Fixture::each(|fixture| {
        let (owner, writer) = (user(1_000, &[]), user(1_001, &[1_000]));
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o664, b"content");
        let mode = SetAttributes { mode: Some(0o664), ..Default::default() };
        file.setattr(&owner, &mode).unwrap();
        let old = Timestamp { seconds: 5, nanoseconds: 0 };
        for size in [None, Some(3)] {
            let both = SetTime::To(old);
            let times = SetAttributes { atime: Some(both), mtime: Some(both), ..Default::default() };
            file.setattr(&owner, &times).unwrap();
            assert_eq!(file.setattr(&writer, &times), Err(Errno::EPERM));
            let now = SetAttributes { mtime: Some(SetTime::Now), size, ..Default::default() };
            match size {
                None => assert_eq!(file.setattr(&writer, &now), Err(Errno::EPERM), "as utimensat"),
                Some(size) => {
                    let changed = file.setattr(&writer, &now).unwrap();
                    assert!(changed.mtime > old && changed.atime == old && changed.size == size);
                    assert_eq!(file.setattr(&user(1_002, &[]), &now), Err(Errno::EACCES));
                }
            }
            let both = SetAttributes { atime: Some(SetTime::Now), mtime: Some(SetTime::Now), ..Default::default() };
            assert!(file.setattr(&writer, &both).unwrap().atime > old);
            assert_eq!(file.setattr(&user(1_002, &[]), &both), Err(Errno::EACCES));
        }
    });
}

/// As a server needs it that tells its clients by the change time whether an object has changed (multigrain timestamps).
#[test]
fn a_change_after_a_look_has_a_later_change_time() {
    if !has_multigrain_timestamps() {
        eprintln!("skipped: needs Linux 6.13");
        return;
    }
    Fixture::each(|fixture| {
        let caller = root();
        let (file, open) = create_file(&fixture.root, &caller, "file", 0o644, b"x");
        let directory = fixture.root.mkdir(&caller, name("directory"), 0o755).unwrap().vnode;
        for round in 0..200_u32 {
            let before = file.getattr(&caller).unwrap().ctime;
            match round % 3 {
                0 => drop(open.write_at(&caller, 0, b"y").unwrap()),
                1 => open.truncate(&caller, round.into()).unwrap(),
                _ => {
                    let mode = SetAttributes { mode: Some(0o600 + round % 8), ..Default::default() };
                    file.setattr(&caller, &mode).unwrap();
                }
            }
            assert!(file.getattr(&caller).unwrap().ctime > before, "{round}");
            let before = directory.getattr(&caller).unwrap().ctime;
            create_file(&directory, &caller, &round.to_string(), 0o644, b"");
            // Not after a removal on tmpfs, which takes the time of the removed object for that of its directory.
            assert!(directory.getattr(&caller).unwrap().ctime > before, "{round}");
        }
    });
}

fn has_multigrain_timestamps() -> bool {
    let release = rustix::system::uname();
    let mut numbers =
        release.release().to_str().unwrap_or_default().split(['.', '-']).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 13)
}

#[test]
fn chown_without_ids_clears_set_id_bits() {
    Fixture::each(|fixture| {
        let owner = user(1_000, &[]);
        let (file, _) = create_file(&fixture.root, &owner, "file", 0o777, b"x");
        let beside = fixture.path.join("beside");
        std::fs::write(&beside, "x").unwrap();
        let kill = SetAttributes { kill_privileges: true, ..Default::default() };
        for mode in [0o6777, 0o4777, 0o2777, 0o2767, 0o777] {
            let set = SetAttributes { mode: Some(mode), ..Default::default() };
            for caller in [root(), owner.clone()] {
                file.setattr(&root(), &set).unwrap();
                std::os::unix::fs::chown(&beside, Some(1_000), Some(1_000)).unwrap();
                std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode)).unwrap();
                std::os::unix::fs::chown(&beside, None, None).unwrap();
                let expected = std::fs::metadata(&beside).unwrap().mode() & 0o7777;
                assert_eq!(file.setattr(&caller, &kill).unwrap().mode, expected, "{mode:o}");
            }
        }
        let set = SetAttributes { mode: Some(0o4777), ..Default::default() };
        file.setattr(&root(), &set).unwrap();
        assert_eq!(file.setattr(&user(1_001, &[]), &kill).err(), Some(Errno::EPERM));
        assert_eq!(file.getattr(&root()).unwrap().mode, 0o4777);
    });
}

#[test]
fn writes_by_others_clear_set_id_bits() {
    Fixture::each(|fixture| {
        let stranger = user(1_001, &[]);
        let (file, _) = create_file(&fixture.root, &root(), "f", 0o666, b"content");
        let open = file.open(&stranger, OpenFlags::WRITE);
        assert_eq!(open.err(), Some(Errno::EACCES), "the umask took the right to write");
        let arm = SetAttributes { mode: Some(0o6777), ..Default::default() };
        let mode = || std::fs::metadata(fixture.path.join("f")).unwrap().permissions().mode() & 0o7777;

        file.setattr(&root(), &arm).unwrap();
        let open = file.open(&stranger, OpenFlags::WRITE).unwrap();
        assert_eq!(mode(), 0o6777, "opening changes nothing");
        open.write_at(&stranger, 0, b"x").unwrap();
        assert_eq!(mode(), 0o777);

        file.setattr(&root(), &arm).unwrap();
        open.write_at(&root(), 0, b"x").unwrap();
        assert_eq!(mode(), 0o6777, "root keeps them");
        open.write_at(&root().killing_privileges(), 0, b"x").unwrap();
        assert_eq!(mode(), 0o777, "unless told otherwise");

        file.setattr(&root(), &arm).unwrap();
        open.truncate(&stranger, 1).unwrap();
        assert_eq!(mode(), 0o777);

        file.setattr(&root(), &arm).unwrap();
        file.setattr(&stranger, &SetAttributes { size: Some(0), ..Default::default() }).unwrap();
        assert_eq!(mode(), 0o777);

        file.setattr(&root(), &arm).unwrap();
        let kill = SetAttributes { size: Some(0), kill_privileges: true, ..Default::default() };
        file.setattr(&root(), &kill).unwrap();
        assert_eq!(mode(), 0o777);

        file.setattr(&root(), &arm).unwrap();
        file.setattr(&root(), &SetAttributes { uid: Some(3), ..Default::default() }).unwrap();
        assert_eq!(mode(), 0o777, "a new owner takes them");

        file.setattr(&root(), &SetAttributes { mode: Some(0o2766), uid: Some(0), ..Default::default() }).unwrap();
        open.write_at(&root().killing_privileges(), 0, b"x").unwrap();
        assert_eq!(mode(), 0o2766, "a file that its group may not execute is marked for mandatory locks");

        file.setattr(&root(), &SetAttributes { mode: Some(0o6777), ..Default::default() }).unwrap();
        let reader = file.open(&stranger, OpenFlags::READ).unwrap();
        assert_eq!(reader.write_at(&stranger, 0, b"x"), Err(Errno::EBADF));
        assert_eq!(reader.truncate(&stranger, 0), Err(Errno::EINVAL));
        assert_eq!(open.write_at(&stranger, 0, b""), Ok(0));
        let unknown = open.allocate(&stranger, AllocateMode::from_bits(0x8000), 0, 1);
        assert_eq!(unknown, Err(Errno::EOPNOTSUPP));
        assert_eq!(open.allocate(&stranger, AllocateMode::ALLOCATE, 0, 0), Err(Errno::EINVAL));
        assert_eq!(mode(), 0o6777, "nothing was written");
        open.allocate(&stranger, AllocateMode::ALLOCATE, 0, 10).unwrap();
        assert_eq!(mode(), 0o777);
    });
}

#[test]
fn data_is_read_written_copied_and_made_sparse() {
    Fixture::each(|fixture| {
        let caller = root();
        let (vnode, file) = create_file(&fixture.root, &caller, "f", 0o644, b"0123456789");
        let mut buffer = [0; 4];
        assert_eq!(file.read_at(&caller, 8, &mut buffer), Ok(2));
        assert_eq!(file.read_at(&caller, 100, &mut buffer), Ok(0));
        let far = 1 << 33;
        file.write_at(&caller, far, b"end").unwrap();
        assert_eq!(file.getattr(&caller).unwrap().size, far + 3);
        assert!(file.seek(&caller, 0, SeekTarget::Hole).unwrap() < far);
        assert_eq!(file.seek(&caller, 1 << 20, SeekTarget::Data), Ok(far));
        assert_eq!(file.seek(&caller, far + 3, SeekTarget::Data), Err(Errno::ENXIO));
        let punch = AllocateMode::from_bits(AllocateMode::PUNCH_HOLE.bits() | AllocateMode::KEEP_SIZE.bits());
        file.allocate(&caller, punch, 0, 4).unwrap();
        file.truncate(&caller, 10).unwrap();
        assert_eq!(content(&file), b"\0\0\0\x00456789");

        let (_, to) = create_file(&fixture.root, &caller, "g", 0o644, b"");
        match file.copy_range(&caller, 4, &to, 0, 100) {
            Ok(copied) => assert_eq!((copied, content(&to)), (6, b"456789".to_vec())),
            Err(error) => assert_eq!(error, Errno::EXDEV),
        }
        file.fsync(&caller, false).unwrap();
        let read_only = vnode.open(&caller, OpenFlags::READ).unwrap();
        assert_eq!(read_only.write_at(&caller, 0, b"x"), Err(Errno::EBADF));
        let cut = vnode.open(&caller, OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).unwrap();
        assert_eq!(cut.getattr(&caller).unwrap().size, 0);
        let direct = OpenFlags::from_bits((libc::O_RDWR | libc::O_DIRECT) as u32);
        assert_eq!(vnode.open(&caller, direct).unwrap().write_at(&caller, 1, b"odd"), Ok(3));
    });
}

#[test]
fn appending_writers_never_overwrite_each_other() {
    Fixture::each(|fixture| {
        let caller = root();
        let (vnode, _) = create_file(&fixture.root, &caller, "log", 0o644, b"");
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let vnode = &vnode;
                scope.spawn(move || {
                    let file = vnode.open(&root(), OpenFlags::WRITE.with(OpenFlags::APPEND)).unwrap();
                    for _ in 0..500 {
                        assert_eq!(file.write_at(&root(), 0, &[b'a' + writer; 8]), Ok(8));
                    }
                });
            }
        });
        let all = content(&vnode.open(&caller, OpenFlags::READ).unwrap());
        assert_eq!(all.len(), 4 * 500 * 8);
        assert!(all.chunks(8).all(|chunk| chunk.iter().all(|byte| *byte == chunk[0])));
    });
}

#[test]
fn creation_opens_what_exists_unless_exclusive() {
    Fixture::each(|fixture| {
        let caller = root();
        let (vnode, _) = create_file(&fixture.root, &caller, "f", 0o644, b"old");
        assert_eq!(fixture.root.create(&caller, name("f"), &creation(0o600)).err(), Some(Errno::EEXIST));
        let how = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
        let opened = fixture.root.create(&caller, name("f"), &how).unwrap();
        assert!(std::sync::Arc::ptr_eq(&opened.entry.vnode, &vnode));
        assert_eq!((content(&opened.file), opened.entry.attributes.mode), (b"old".to_vec(), 0o644));
        let how = Creation { flags: how.flags.with(OpenFlags::TRUNCATE), ..how };
        assert_eq!(fixture.root.create(&caller, name("f"), &how).unwrap().entry.attributes.size, 0);
        let how = Creation { mode: 0o444, flags: OpenFlags::WRITE };
        let unwritable = fixture.root.create(&user(1_000, &[]), name("r"), &how).unwrap();
        assert_eq!(unwritable.file.write_at(&user(1_000, &[]), 0, b"x"), Ok(1));
    });
}

#[test]
fn special_files_are_created_and_reported() {
    Fixture::each(|fixture| {
        let caller = root();
        let device = vnode::Device { major: 1, minor: 3 };
        let made = fixture.root.mknod(&caller, name("null"), FileKind::CharacterDevice, 0o666, device).unwrap();
        assert_eq!((made.attributes.kind, made.attributes.rdev), (FileKind::CharacterDevice, device));
        assert_eq!(std::fs::metadata(fixture.path.join("null")).unwrap().rdev(), libc::makedev(1, 3));
        let plain = fixture.root.mknod(&caller, name("plain"), FileKind::Regular, 0o666, device).unwrap();
        assert_eq!((plain.attributes.mode, plain.attributes.rdev), (0o644, Default::default()));
        let directory = fixture.root.mknod(&caller, name("d"), FileKind::Directory, 0o755, device);
        assert_eq!(directory.err(), Some(Errno::EINVAL));
        let refused = fixture.root.mknod(&user(5, &[]), name("n"), FileKind::BlockDevice, 0o600, device);
        assert_eq!(refused.err(), Some(Errno::EPERM));
    });
}

#[test]
fn rename_modes_behave_as_documented() {
    Fixture::each(|fixture| {
        let caller = root();
        let (a, _) = create_file(&fixture.root, &caller, "a", 0o644, b"a");
        let (b, _) = create_file(&fixture.root, &caller, "b", 0o644, b"b");
        let rename = |mode| fixture.root.rename(&caller, name("a"), &fixture.root, name("b"), mode);
        assert_eq!(rename(RenameMode::NoReplace), Err(Errno::EEXIST));
        rename(RenameMode::Exchange).unwrap();
        let found = |file: &str| fixture.root.lookup(&caller, name(file)).unwrap().vnode;
        assert!(std::sync::Arc::ptr_eq(&found("a"), &b) && std::sync::Arc::ptr_eq(&found("b"), &a));
        assert_eq!(content(&b.open(&caller, OpenFlags::READ).unwrap()), b"b");
        rename(RenameMode::Whiteout).unwrap();
        assert_eq!(found("a").kind(), FileKind::CharacterDevice);
        assert_eq!(a.getattr(&caller).unwrap().nlink, 0);
        assert!(std::sync::Arc::ptr_eq(&found("b"), &b));
    });
}

#[test]
fn inode_flags_pass_through_ioctl() {
    Fixture::each(|fixture| {
        let caller = root();
        let (vnode, file) = create_file(&fixture.root, &caller, "f", 0o644, b"x");
        const NO_DUMP: u32 = 0x40;
        let mut flags = [0; 8];
        vnode.ioctl(&caller, 0x8008_6601, &[], &mut flags).unwrap();
        let wanted = u32::from_ne_bytes(flags[..4].try_into().unwrap()) | NO_DUMP;
        file.ioctl(&caller, 0x4008_6602, &wanted.to_ne_bytes(), &mut []).unwrap();
        vnode.ioctl(&caller, 0x8008_6601, &[], &mut flags).unwrap();
        assert_eq!(u32::from_ne_bytes(flags[..4].try_into().unwrap()), wanted);
        let refused = vnode.ioctl(&user(9, &[]), 0x4008_6602, &[0; 8], &mut []);
        assert!(matches!(refused, Err(Errno::EPERM | Errno::EACCES)), "{refused:?}");
        assert_eq!(vnode.ioctl(&caller, 0x5401, &[], &mut flags), Err(Errno::ENOTTY));
    });
}

#[test]
fn it_is_known_whether_a_file_is_open_elsewhere() {
    Fixture::each(|fixture| {
        let (vnode, _) = create_file(&fixture.root, &root(), "f", 0o600, b"x");
        let file = vnode.open(&root(), OpenFlags::READ_WRITE).unwrap();
        assert!(!file.is_open_elsewhere());
        let backing = file.backing().expect("the kernel can write it").as_raw_fd();
        for writes in [true, false] {
            // As the kernel opens it for a program's mapping.
            let open =
                std::fs::File::options().read(true).write(writes).open(format!("/proc/self/fd/{backing}")).unwrap();
            assert!(file.is_open_elsewhere(), "{writes}");
            drop(open);
            assert!(!file.is_open_elsewhere(), "{writes}");
        }
        file.write_at(&root(), 0, b"y").unwrap();
        // Whoever owns it, and whom the thread acted for before.
        let owner = SetAttributes { uid: Some(1_000), gid: Some(1_000), ..Default::default() };
        vnode.setattr(&root(), &owner).unwrap();
        let open = std::fs::File::open(format!("/proc/self/fd/{backing}")).unwrap();
        for caller in [user(1_000, &[]), user(1_001, &[])] {
            let _ = vnode.access(&caller, vnode::AccessMode::from_bits(4));
            let _ = fixture.root.mkdir(&caller, name("d"), 0o700);
            assert!(file.is_open_elsewhere(), "{}", caller.uid);
        }
        drop(open);
        assert!(!file.is_open_elsewhere());
    });
}
