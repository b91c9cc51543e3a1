//! The vnode interface on an image: permissions, refusals, and what is declared.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use plyfs_bases::device::MemoryDevice;
use plyfs_bases::iso::{IsoFileSystem, OpenErrorCause, Options};
use vnode::{
    AccessMode, Caller, Creation, Device, Errno, FileKind, FileSystem, Name, OpenFlags, RenameMode, SeekTarget,
    SetAttributes, VnodeRef, XattrMode,
};

use crate::image::{Workshop, find, open, root_user};
use crate::source;
use crate::tools::xorriso;

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

/// Returns an image with a private file and directory of user 0, and public ones.
fn image(workshop: &Workshop) -> IsoFileSystem {
    let source = workshop.source();
    for directory in ["private", "public"] {
        fs::create_dir(source.join(directory)).unwrap();
        source::file(&source.join(directory).join("secret"), 10);
        source::file(&source.join(directory).join("open"), 10);
        fs::set_permissions(source.join(directory).join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(source.join(directory).join("open"), fs::Permissions::from_mode(0o644)).unwrap();
        let mode = if directory == "private" { 0o700 } else { 0o755 };
        fs::set_permissions(source.join(directory), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        source.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    fs::set_permissions(source.join("pipe"), fs::Permissions::from_mode(0o666)).unwrap();
    std::os::unix::fs::symlink("public/open", source.join("link")).unwrap();
    xorriso(&["-R"], &workshop.path("image"), &source);
    open(&workshop.path("image"), "")
}

#[test]
fn modes_decide_who_may_read() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: the source has to belong to another user than the caller");
        return;
    }
    let workshop = Workshop::new();
    let file_system = image(&workshop);
    let user = Caller::with_groups(1000, 1000, &[], 0);
    let private = find(&file_system, "private").unwrap();
    assert_eq!(private.lookup(&user, name("open")).err(), Some(Errno::EACCES));
    assert_eq!(private.open_directory(&user).err(), Some(Errno::EACCES));
    let public = find(&file_system, "public").unwrap();
    let opened = |file| public.lookup(&user, name(file)).unwrap().vnode.open(&user, OpenFlags::READ).err();
    assert_eq!((opened("secret"), opened("open")), (Some(Errno::EACCES), None));
    let secret = find(&file_system, "public/secret").unwrap();
    let access = |caller: &Caller, mode| secret.access(caller, mode).err();
    assert_eq!(access(&user, AccessMode::READ), Some(Errno::EACCES));
    assert_eq!(access(&root_user(), AccessMode::READ), None);
    assert_eq!(access(&root_user(), AccessMode::EXECUTE), Some(Errno::EACCES));
    assert_eq!(access(&root_user(), AccessMode::WRITE), Some(Errno::EROFS));
    assert_eq!(find(&file_system, "pipe").unwrap().access(&user, AccessMode::WRITE), Ok(()));
}

#[test]
fn whatever_would_change_the_image_is_refused() {
    let workshop = Workshop::new();
    let file_system = image(&workshop);
    let (caller, root) = (root_user(), file_system.root());
    let file = find(&file_system, "public/open").unwrap();
    let refused = Some(Errno::EROFS);
    let creation = |flags| Creation { mode: 0o644, flags };
    assert_eq!(root.create(&caller, name("new"), &creation(OpenFlags::READ_WRITE)).err(), refused);
    assert_eq!(root.mkdir(&caller, name("new"), 0o755).err(), refused);
    assert_eq!(root.mknod(&caller, name("new"), FileKind::Fifo, 0o644, Device::default()).err(), refused);
    assert_eq!(root.symlink(&caller, name("new"), b"target").err(), refused);
    assert_eq!(root.link(&caller, &file, name("new")).err(), refused);
    assert_eq!(root.unlink(&caller, name("pipe")).err(), refused);
    assert_eq!(root.rmdir(&caller, name("public")).err(), refused);
    let root_reference: &VnodeRef = &root;
    assert_eq!(root.rename(&caller, name("pipe"), root_reference, name("new"), RenameMode::Replace).err(), refused);
    assert_eq!(root.tmpfile(&caller, &creation(OpenFlags::READ_WRITE)).err(), refused);
    let changes = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    assert_eq!(file.setattr(&caller, &changes).err(), refused);
    assert_eq!(file.setxattr(&caller, b"user.x", b"y", XattrMode::Set).err(), refused);
    assert_eq!(file.removexattr(&caller, b"user.x").err(), refused);
    assert_eq!(file.getxattr(&caller, b"user.x").err(), Some(Errno::EOPNOTSUPP));
    assert_eq!(file.listxattr(&caller), Ok(vec![]));
    for flags in [OpenFlags::WRITE, OpenFlags::READ_WRITE, OpenFlags::READ.with(OpenFlags::TRUNCATE)] {
        assert_eq!(file.open(&caller, flags).err(), refused);
    }
    assert!(file_system.properties().needs.read_only);
}

#[test]
fn what_exists_is_found_before_it_is_refused() {
    let workshop = Workshop::new();
    let file_system = image(&workshop);
    let (caller, public) = (root_user(), find(&file_system, "public").unwrap());
    let exclusive = Creation { mode: 0, flags: OpenFlags::READ.with(OpenFlags::EXCLUSIVE) };
    assert_eq!(public.create(&caller, name("open"), &exclusive).err(), Some(Errno::EEXIST));
    let created = public.create(&caller, name("open"), &Creation { flags: OpenFlags::READ, ..exclusive }).unwrap();
    assert_eq!(created.file.getattr(&caller).unwrap(), created.entry.attributes);
    let root = file_system.root();
    assert_eq!(root.mkdir(&caller, name("public"), 0).err(), Some(Errno::EEXIST));
    assert_eq!(root.symlink(&caller, name("link"), b"x").err(), Some(Errno::EEXIST));
}

#[test]
fn objects_of_other_kinds_are_refused_as_on_linux() {
    let workshop = Workshop::new();
    let file_system = image(&workshop);
    let (caller, root) = (root_user(), file_system.root());
    let [link, pipe, file] = ["link", "pipe", "public/open"].map(|path| find(&file_system, path).unwrap());
    assert_eq!(root.open(&caller, OpenFlags::READ).err(), Some(Errno::EISDIR));
    assert_eq!(link.open(&caller, OpenFlags::READ).err(), Some(Errno::ELOOP));
    assert_eq!(pipe.open(&caller, OpenFlags::READ).err(), Some(Errno::ENXIO));
    assert_eq!(file.open_directory(&caller).err(), Some(Errno::ENOTDIR));
    assert_eq!(file.lookup(&caller, name("x")).err(), Some(Errno::ENOTDIR));
    assert_eq!(file.parent(&caller).err(), Some(Errno::ENOTDIR));
    assert_eq!(file.readlink(&caller).err(), Some(Errno::EINVAL));
    assert_eq!(root.lookup(&caller, name("none")).err(), Some(Errno::ENOENT));
    assert_eq!(root.parent(&caller).unwrap().handle(), root.handle());
    assert_eq!(root.path().unwrap(), b"");
}

#[test]
fn files_are_read_to_their_end() {
    let workshop = Workshop::new();
    let file_system = image(&workshop);
    let caller = root_user();
    let file = find(&file_system, "public/open").unwrap().open(&caller, OpenFlags::READ).unwrap();
    let mut buffer = [0xaa; 20];
    assert_eq!(file.read_at(&caller, 0, &mut buffer), Ok(10));
    assert_eq!(file.read_at(&caller, 7, &mut buffer), Ok(3));
    assert_eq!(file.read_at(&caller, 10, &mut buffer), Ok(0));
    assert_eq!(file.read_at(&caller, u64::MAX, &mut buffer), Ok(0));
    assert_eq!(file.write_at(&caller, 0, b"x").err(), Some(Errno::EBADF));
    assert_eq!(file.seek(&caller, 3, SeekTarget::Hole), Ok(10));
    assert!(file.backing().is_none() && !file.closing_tells());
}

#[test]
fn statistics_are_those_of_the_volume() {
    let workshop = Workshop::new();
    let file_system = image(&workshop);
    let statistics = file_system.root().statfs(&root_user()).unwrap();
    assert_eq!((statistics.block_size, statistics.fragment_size, statistics.blocks_free), (2048, 2048, 0));
    assert_eq!(statistics.blocks, u64::from(file_system.information().block_count));
    assert_eq!(statistics.name_max, 255);
}

#[test]
fn what_is_no_image_is_said() {
    let open = |bytes: &[u8]| {
        let device = Arc::new(MemoryDevice::from_bytes(bytes));
        IsoFileSystem::open(device, "some file", Options::default()).err().unwrap()
    };
    let error = open(&[0; 100_000]);
    assert_eq!(error.cause, OpenErrorCause::NotAnImage);
    assert_eq!(
        error.to_string(),
        "`some file` is no ISO 9660 image: it has no volume descriptor; check what it is with file(1)"
    );
    let workshop = Workshop::new();
    image(&workshop);
    let whole = fs::read(workshop.path("image")).unwrap();
    assert!(matches!(open(&whole[..17 * 2048]).cause, OpenErrorCause::Damaged(_) | OpenErrorCause::Unreadable(_)));
}
