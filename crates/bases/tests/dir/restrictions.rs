//! What the flags of mounts below the directory forbid, and what a second mount of the same file system does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, makedev};
use vnode::{AccessMode, Caller, Errno, FileSystem, OpenFlags, SetAttributes, VnodeRef, XattrMode};

use crate::fixture::{Fixture, content, create_file, name, root, run, user};

/// A program with set-id bits and, where the file system keeps them, capabilities.
fn make_program(directory: &Path) {
    let program = directory.join("program");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o6755)).unwrap();
    // cap_net_raw, permitted and effective; as VFS_CAP_REVISION_2 of Linux has it.
    let capabilities: Vec<u8> = [0x0200_0001u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::fs::setxattr(&program, c"security.capability", &capabilities, rustix::fs::XattrFlags::empty()).unwrap();
}

fn remount(options: &str, point: &Path) {
    run("mount", &["-o", &format!("remount,bind,{options}"), point.to_str().unwrap()]);
}

fn is_capable(program: &VnodeRef) -> (bool, bool) {
    let listed = program.listxattr(&root()).unwrap();
    let lists = listed.split(|&byte| byte == 0).any(|name| name == b"security.capability");
    let got = program.getxattr(&root(), b"security.capability");
    assert!(got.is_ok() || got == Err(Errno::ENODATA), "{got:?}");
    (lists, got.is_ok())
}

#[test]
fn nosuid_mount_hides_set_id_bits() {
    Fixture::each(|fixture| {
        for kind in ["tmpfs", "ext4"] {
            let point = fixture.mount_below(kind, kind);
            make_program(&point);
            let below = fixture.root.lookup(&root(), name(kind)).unwrap().vnode;
            let mode = || below.lookup(&root(), name("program")).unwrap().attributes.mode;
            assert_eq!(mode(), 0o6755);
            let program = below.lookup(&root(), name("program")).unwrap().vnode;
            assert_eq!(is_capable(&program), (true, true));
            remount("nosuid", &point);
            assert_eq!(mode(), 0o755, "on {kind}, from the moment that the mount forbids them");
            assert_eq!(program.getattr(&root()).unwrap().mode, 0o755);
            assert_eq!(program.open(&root(), OpenFlags::READ).unwrap().getattr(&root()).unwrap().mode, 0o755);
            assert_eq!(is_capable(&program), (false, false));
            let set = SetAttributes { mode: Some(0o4711), ..Default::default() };
            assert_eq!(program.setattr(&root(), &set).unwrap().mode, 0o711);
            let set = SetAttributes { mode: Some(0o2775), ..Default::default() };
            assert_eq!(below.setattr(&root(), &set).unwrap().mode, 0o2775, "a directory's bit means its group");
            remount("suid", &point);
            assert_eq!(mode(), 0o4711, "what is below is as it was set");
        }
    });
}

#[test]
fn devices_on_a_nodev_mount_cannot_be_opened() {
    Fixture::each(|fixture| {
        let point = fixture.mount_below("stick", "tmpfs");
        let make_device = |file: &str, kind, major, minor| {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                point.join(file),
                kind,
                Mode::from_raw_mode(0o666),
                makedev(major, minor),
            )
            .unwrap();
        };
        make_device("null", FileType::CharacterDevice, 1, 3);
        make_device("disk", FileType::BlockDevice, 7, 200);
        make_device("whiteout", FileType::CharacterDevice, 0, 0);
        let below = fixture.root.lookup(&root(), name("stick")).unwrap().vnode;
        let number = |file: &str| {
            let device = below.lookup(&root(), name(file)).unwrap().attributes.rdev;
            (device.major, device.minor)
        };
        assert_eq!([number("null"), number("disk"), number("whiteout")], [(1, 3), (7, 200), (0, 0)]);
        remount("nodev", &point);
        for file in ["null", "disk"] {
            let (major, minor) = number(file);
            let shown = fixture.path.join("shown");
            let kind = if file == "null" { FileType::CharacterDevice } else { FileType::BlockDevice };
            rustix::fs::mknodat(rustix::fs::CWD, &shown, kind, Mode::from_raw_mode(0o666), makedev(major, minor))
                .unwrap();
            let opened = std::fs::File::open(&shown).map_err(|error| error.raw_os_error());
            assert_eq!(opened.err(), Some(Some(libc::ENXIO)), "{file} as {major}:{minor}");
            std::fs::remove_file(&shown).unwrap();
        }
        assert_eq!(number("whiteout"), (0, 0));
    });
}

#[test]
fn noexec_mount_refuses_execution() {
    Fixture::each(|fixture| {
        let point = fixture.mount_below("stick", "tmpfs");
        make_program(&point);
        let below = fixture.root.lookup(&root(), name("stick")).unwrap().vnode;
        let program = below.lookup(&root(), name("program")).unwrap().vnode;
        let for_execution = OpenFlags::from_bits(0x20);
        for caller in [root(), user(1_000, &[])] {
            assert_eq!(program.access(&caller, AccessMode::EXECUTE), Ok(()));
            assert!(program.open(&caller, for_execution).is_ok());
        }
        remount("noexec", &point);
        for caller in [root(), user(1_000, &[]), Caller::server()] {
            assert_eq!(program.access(&caller, AccessMode::EXECUTE), Err(Errno::EACCES));
            assert_eq!(program.open(&caller, for_execution).err(), Some(Errno::EACCES));
            assert!(program.open(&caller, OpenFlags::READ).is_ok());
        }
    });
}

#[test]
fn a_second_mount_of_a_file_system_keeps_its_own_flags() {
    Fixture::each(|fixture| {
        let caller = root();
        create_file(&fixture.root, &caller, "f", 0o644, b"here");
        make_program(&fixture.path);
        let frozen = fixture.path.join("frozen");
        std::fs::create_dir(&frozen).unwrap();
        run("mount", &["--bind", fixture.path.to_str().unwrap(), frozen.to_str().unwrap()]);
        remount("ro,nosuid,noexec", &frozen);
        let frozen = fixture.root.lookup(&caller, name("frozen")).unwrap().vnode;
        let file = frozen.lookup(&caller, name("f")).unwrap();
        let own = fixture.root.lookup(&caller, name("f")).unwrap();
        assert_eq!(file.attributes.ino, own.attributes.ino, "as beside the mount");
        assert_ne!(file.vnode.handle(), own.vnode.handle());
        assert_eq!(content(&file.vnode.open(&caller, OpenFlags::READ).unwrap()), b"here");
        let mode = SetAttributes { mode: Some(0o600), ..Default::default() };
        for _ in 0..2 {
            assert_eq!(file.vnode.open(&caller, OpenFlags::READ_WRITE).err(), Some(Errno::EROFS));
            assert_eq!(file.vnode.setattr(&caller, &mode).err(), Some(Errno::EROFS));
            assert_eq!(file.vnode.setxattr(&caller, b"user.a", b"1", XattrMode::Set), Err(Errno::EROFS));
            assert_eq!(frozen.unlink(&caller, name("f")), Err(Errno::EROFS));
            assert_eq!(frozen.mkdir(&caller, name("d"), 0o755).err(), Some(Errno::EROFS));
            assert!(own.vnode.open(&caller, OpenFlags::READ_WRITE).is_ok());
        }
        let program = frozen.lookup(&caller, name("program")).unwrap();
        assert_eq!((program.attributes.mode, is_capable(&program.vnode)), (0o755, (false, false)));
        assert_eq!(program.vnode.access(&caller, AccessMode::EXECUTE), Err(Errno::EACCES));
        let program = fixture.root.lookup(&caller, name("program")).unwrap();
        assert_eq!((program.attributes.mode, is_capable(&program.vnode)), (0o6755, (true, true)));
        if fixture.has_handles() {
            for vnode in [&file.vnode, &frozen] {
                let again = fixture.again();
                let resolved = again.resolve(&root(), &vnode.handle()).unwrap();
                assert_eq!(resolved.handle(), vnode.handle());
                assert_eq!(resolved.setattr(&caller, &mode).err(), Some(Errno::EROFS), "also after a restart");
            }
        }
    });
}

#[test]
fn handle_is_resolved_by_the_most_restricted_mount() {
    Fixture::each(|fixture| {
        if !fixture.has_handles() {
            return;
        }
        let (first, second) = (fixture.mount_below("first", "tmpfs"), fixture.path.join("second"));
        std::fs::write(first.join("f"), "x").unwrap();
        std::fs::create_dir(&second).unwrap();
        run("mount", &["--bind", first.to_str().unwrap(), second.to_str().unwrap()]);
        remount("ro,nosuid", &second);
        let caller = root();
        // Met first, the frozen one is the device's.
        let frozen = fixture.root.lookup(&caller, name("second")).unwrap().vnode;
        let handle = frozen.lookup(&caller, name("f")).unwrap().vnode.handle();
        let mode = SetAttributes { mode: Some(0o600), ..Default::default() };
        let resolved = fixture.again().resolve(&root(), &handle).unwrap();
        assert_eq!(resolved.setattr(&caller, &mode).err(), Some(Errno::EROFS));
        remount("rw,nosuid", &second);
        remount("nodev", &first);
        assert_eq!(
            fixture.again().resolve(&root(), &handle).err(),
            Some(Errno::ESTALE),
            "neither forbids all that both do"
        );
    });
}
