//! Creating objects: modes, owners, groups, kinds, names.

use vnode::{Caller, Device, Errno, FileKind, FileSystem, OpenFlags};

use super::*;

#[test]
fn the_umask_and_the_callers_ids_make_a_new_file() {
    let root = file_system().root();
    let caller = Caller::with_groups(7, 8, &[], 0o027);
    let (file, _) = create(&root, &caller, "file", 0o6666);
    let found = attributes(&file);
    assert_eq!((found.mode, found.uid, found.gid, found.nlink, found.size), (0o6640, 7, 8, 1, 0));
    assert_eq!(mode_of(&mkdir(&root, &caller, "directory", 0o7777)), 0o1750);
    let link = root.symlink(&caller, name("link"), b"anywhere").unwrap();
    assert_eq!((link.attributes.mode, link.attributes.size), (0o777, 8));
    assert_eq!(link.vnode.readlink(&caller).unwrap(), b"anywhere");
}

#[test]
fn setgid_directory_passes_on_its_group() {
    let root = file_system().root();
    let shared = mkdir(&root, &superuser(), "shared", 0o777);
    chown(&shared, &superuser(), None, Some(50)).unwrap();
    chmod(&shared, &superuser(), 0o2777).unwrap();
    let below = mkdir(&shared, &user(7), "below", 0o755);
    assert_eq!((attributes(&below).gid, mode_of(&below)), (50, 0o2755));
    let (stranger, _) = create(&shared, &user(7), "stranger", 0o2755);
    assert_eq!((attributes(&stranger).gid, mode_of(&stranger)), (50, 0o755));
    let (own, _) = create(&shared, &member(7, &[50]), "own", 0o2755);
    assert_eq!(mode_of(&own), 0o2755);
    let (unexecutable, _) = create(&shared, &user(7), "unexecutable", 0o2644);
    assert_eq!(mode_of(&unexecutable), 0o2644);
}

#[test]
fn existing_name_is_reported_before_permission() {
    let root = file_system().root();
    let closed = mkdir(&root, &superuser(), "closed", 0o755);
    create(&closed, &superuser(), "file", 0o644);
    let exclusive = how(0o644, OpenFlags::READ.with(OpenFlags::EXCLUSIVE));
    assert_eq!(failure(closed.create(&user(7), name("file"), &exclusive)), Errno::EEXIST);
    assert_eq!(failure(closed.mkdir(&user(7), name("file"), 0o755)), Errno::EEXIST);
    assert_eq!(failure(closed.mkdir(&user(7), name("new"), 0o755)), Errno::EACCES);
    assert_eq!(failure(closed.create(&user(7), name("new"), &exclusive)), Errno::EACCES);
    assert!(closed.create(&user(7), name("file"), &how(0, OpenFlags::READ)).is_ok());
    assert_eq!(failure(closed.create(&user(7), name("file"), &how(0, OpenFlags::WRITE))), Errno::EACCES);
    assert_eq!(failure(root.create(&user(7), name("closed"), &how(0, OpenFlags::READ))), Errno::EISDIR);
}

#[test]
fn lookup_and_creation_require_a_directory() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o777);
    assert_eq!(failure(lookup(&file, "x")), Errno::ENOTDIR);
    assert_eq!(failure(file.mkdir(&user(7), name("x"), 0o755)), Errno::ENOTDIR);
    assert_eq!(failure(file.symlink(&user(7), name("x"), b"y")), Errno::ENOTDIR);
    assert_eq!(failure(file.open_directory(&user(7))), Errno::ENOTDIR);
    assert_eq!(failure(file.parent(&user(7))), Errno::ENOTDIR);
    assert_eq!(file.readlink(&user(7)), Err(Errno::EINVAL));
}

#[test]
fn devices_are_for_the_superuser_but_whiteouts_for_all() {
    let root = file_system().root();
    let device = Device { major: 1, minor: 3 };
    let make = |caller: &Caller, text: &str, kind, device| root.mknod(caller, name(text), kind, 0o600, device);
    assert_eq!(failure(make(&user(7), "null", FileKind::CharacterDevice, device)), Errno::EPERM);
    assert_eq!(failure(make(&user(7), "disk", FileKind::BlockDevice, Device::default())), Errno::EPERM);
    let null = make(&superuser(), "null", FileKind::CharacterDevice, device).unwrap();
    assert_eq!((null.attributes.rdev, null.attributes.kind), (device, FileKind::CharacterDevice));
    assert_eq!(failure(null.vnode.open(&superuser(), OpenFlags::READ)), Errno::ENXIO);
    assert!(make(&user(7), "whiteout", FileKind::CharacterDevice, Device::default()).is_ok());
    let fifo = make(&user(7), "fifo", FileKind::Fifo, device).unwrap();
    assert_eq!(fifo.attributes.rdev, Device::default());
    assert!(make(&user(7), "socket", FileKind::Socket, device).is_ok());
    assert_eq!(make(&user(7), "file", FileKind::Regular, device).unwrap().attributes.kind, FileKind::Regular);
    assert_eq!(failure(make(&user(7), "other", FileKind::Directory, device)), Errno::EINVAL);
}

#[test]
fn symlinks_have_targets_of_1_to_4095_bytes() {
    let root = file_system().root();
    assert_eq!(failure(root.symlink(&user(7), name("none"), b"")), Errno::ENOENT);
    assert_eq!(failure(root.symlink(&user(7), name("long"), &[b'x'; 4096])), Errno::ENAMETOOLONG);
    let link = root.symlink(&user(7), name("longest"), &[b'x'; 4095]).unwrap();
    assert_eq!(link.vnode.readlink(&user(8)).unwrap().len(), 4095);
    assert_eq!(failure(link.vnode.open(&user(7), OpenFlags::READ)), Errno::ELOOP);
    assert_eq!(chmod(&link.vnode, &user(7), 0o600), Err(Errno::EOPNOTSUPP));
}

#[test]
fn links_share_the_inode_and_directories_have_none() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    let before = attributes(&file);
    let link = root.link(&user(8), &file, name("link")).unwrap();
    assert_eq!((link.attributes.ino, link.attributes.nlink), (before.ino, 2));
    assert!(link.attributes.ctime > before.ctime);
    assert_eq!(link.vnode.handle(), file.handle());
    let directory = mkdir(&root, &user(7), "directory", 0o755);
    assert_eq!(failure(root.link(&superuser(), &directory, name("second"))), Errno::EPERM);
    assert_eq!(failure(root.link(&user(7), &file, name("directory"))), Errno::EEXIST);
    assert_eq!(failure(file_system().root().link(&user(7), &file, name("other"))), Errno::EXDEV);
    root.unlink(&user(7), name("file")).unwrap();
    root.unlink(&user(7), name("link")).unwrap();
    assert_eq!(failure(root.link(&user(7), &file, name("again"))), Errno::ENOENT);
}

#[test]
fn links_end_at_65000() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "0", 0o600);
    for number in 1..65_000 {
        root.link(&user(7), &file, name(&number.to_string())).unwrap();
    }
    assert_eq!(failure(root.link(&user(7), &file, name("more"))), Errno::EMLINK);
    root.unlink(&user(7), name("17")).unwrap();
    assert!(root.link(&user(7), &file, name("more")).is_ok());
}

#[test]
fn an_unnamed_file_can_be_linked_unless_it_is_exclusive() {
    let root = file_system().root();
    let made = root.tmpfile(&user(7), &how(0o640, OpenFlags::READ_WRITE)).unwrap();
    assert_eq!((made.entry.attributes.nlink, made.entry.attributes.mode), (0, 0o640));
    made.file.write_at(&user(7), 0, b"text").unwrap();
    assert_eq!(made.entry.vnode.path(), Err(Errno::ENOENT));
    let linked = root.link(&user(7), &made.entry.vnode, name("named")).unwrap();
    assert_eq!((linked.attributes.nlink, linked.attributes.size), (1, 4));
    root.unlink(&user(7), name("named")).unwrap();
    assert_eq!(failure(root.link(&user(7), &linked.vnode, name("again"))), Errno::ENOENT);
    let exclusive = root.tmpfile(&user(7), &how(0o640, OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE))).unwrap();
    assert_eq!(failure(root.link(&user(7), &exclusive.entry.vnode, name("never"))), Errno::ENOENT);
    let closed = mkdir(&root, &superuser(), "closed", 0o755);
    assert_eq!(failure(closed.tmpfile(&user(7), &how(0o640, OpenFlags::WRITE))), Errno::EACCES);
}
