//! Extended attributes: namespaces, permissions, sizes.

use vnode::{Errno, FileSystem, XattrMode};

use super::*;

fn set(vnode: &VnodeRef, caller: &Caller, text: &str, value: &[u8]) -> Result<()> {
    vnode.setxattr(caller, text.as_bytes(), value, XattrMode::Set)
}

fn get(vnode: &VnodeRef, caller: &Caller, text: &str) -> Result<Vec<u8>> {
    vnode.getxattr(caller, text.as_bytes())
}

#[test]
fn values_are_set_created_replaced_listed_and_removed() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    let before = attributes(&file);
    let key = b"user.key";
    assert_eq!(file.setxattr(&user(7), key, b"", XattrMode::Replace), Err(Errno::ENODATA));
    file.setxattr(&user(7), key, b"", XattrMode::Create).unwrap();
    assert!(attributes(&file).ctime > before.ctime && attributes(&file).mtime == before.mtime);
    assert_eq!(file.setxattr(&user(7), key, b"x", XattrMode::Create), Err(Errno::EEXIST));
    assert_eq!(get(&file, &user(7), "user.key").unwrap(), b"");
    file.setxattr(&user(7), key, b"value", XattrMode::Replace).unwrap();
    set(&file, &user(7), "user.a", b"1").unwrap();
    assert_eq!(file.listxattr(&user(7)).unwrap(), b"user.a\0user.key\0");
    assert_eq!(get(&file, &user(7), "user.key").unwrap(), b"value");
    let before = attributes(&file);
    set(&file, &user(7), "user.key", b"value").unwrap();
    assert_eq!(attributes(&file).ctime, before.ctime, "it has that value, as on ext4");
    file.removexattr(&user(7), key).unwrap();
    assert_eq!(file.removexattr(&user(7), key), Err(Errno::ENODATA));
    assert_eq!(get(&file, &user(7), "user.key"), Err(Errno::ENODATA));
}

#[test]
fn user_attributes_need_permission_and_a_file_or_directory() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o640);
    set(&file, &user(7), "user.a", b"1").unwrap();
    assert_eq!(get(&file, &user(8), "user.a"), Err(Errno::EACCES));
    assert!(get(&file, &member(8, &[7]), "user.a").is_ok());
    assert_eq!(set(&file, &member(8, &[7]), "user.a", b"2"), Err(Errno::EACCES));
    let link = root.symlink(&user(7), name("link"), b"x").unwrap().vnode;
    let fifo = root.mknod(&user(7), name("fifo"), FileKind::Fifo, 0o666, Default::default()).unwrap().vnode;
    for vnode in [link, fifo] {
        assert_eq!(set(&vnode, &superuser(), "user.a", b"1"), Err(Errno::EPERM));
        assert_eq!(get(&vnode, &superuser(), "user.a"), Err(Errno::ENODATA));
        assert!(set(&vnode, &superuser(), "trusted.a", b"1").is_ok());
    }
    let sticky = mkdir(&root, &user(7), "sticky", 0o1777);
    assert_eq!(set(&sticky, &user(8), "user.a", b"1"), Err(Errno::EPERM));
    assert!(set(&sticky, &user(7), "user.a", b"1").is_ok());
}

#[test]
fn trusted_and_security_attributes_are_the_superusers() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o666);
    assert_eq!(set(&file, &user(7), "trusted.a", b"1"), Err(Errno::EPERM));
    assert_eq!(get(&file, &user(7), "trusted.a"), Err(Errno::ENODATA));
    assert_eq!(set(&file, &user(7), "security.a", b"1"), Err(Errno::EPERM));
    set(&file, &superuser(), "trusted.a", b"1").unwrap();
    set(&file, &superuser(), "security.a", b"2").unwrap();
    assert_eq!(get(&file, &user(7), "security.a").unwrap(), b"2");
    assert_eq!(file.listxattr(&user(7)).unwrap(), b"security.a\0");
    assert_eq!(file.listxattr(&superuser()).unwrap(), b"security.a\0trusted.a\0");
    assert_eq!(file.removexattr(&user(7), b"trusted.a"), Err(Errno::EPERM));
    assert_eq!(file.removexattr(&user(7), b"security.a"), Err(Errno::EPERM));
}

#[test]
fn changes_clear_capabilities() {
    let root = file_system().root();
    let (file, open) = create(&root, &user(7), "file", 0o666);
    let capability = [&[0, 0, 0, 2][..], &[0; 16]].concat();
    let key = "security.capability";
    assert_eq!(set(&file, &superuser(), key, b"nonsense"), Err(Errno::EINVAL));
    let present = || get(&file, &user(7), key).is_ok();
    let reset = || set(&file, &superuser(), key, &capability).unwrap();
    reset();
    open.write_at(&superuser(), 0, b"x").unwrap();
    assert!(!present());
    reset();
    resize(&file, &user(8), 0).unwrap();
    assert!(!present());
    reset();
    chown(&file, &superuser(), Some(9), None).unwrap();
    assert!(!present());
    reset();
    chmod(&file, &superuser(), 0o777).unwrap();
    assert!(present());
}

#[test]
fn capabilities_without_bytes_stay_as_on_linux() {
    let root = file_system().root();
    let (file, open) = create(&root, &user(7), "file", 0o666);
    set(&file, &superuser(), "security.capability", b"").unwrap();
    open.write_at(&user(8), 0, b"x").unwrap();
    resize(&file, &user(8), 0).unwrap();
    chown(&file, &superuser(), Some(9), None).unwrap();
    assert_eq!(file.listxattr(&superuser()).unwrap(), b"security.capability\0");
}

#[test]
fn names_and_values_have_limits() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    assert_eq!(set(&file, &user(7), "", b""), Err(Errno::ERANGE));
    assert_eq!(set(&file, &user(7), &format!("user.{}", "x".repeat(251)), b""), Err(Errno::ERANGE));
    assert!(set(&file, &user(7), &format!("user.{}", "x".repeat(250)), b"").is_ok());
    assert_eq!(set(&file, &user(7), "user.", b""), Err(Errno::EINVAL));
    for unknown in ["other.a", "user", "system.other", "system.posix_acl_accessory"] {
        assert_eq!(set(&file, &user(7), unknown, b""), Err(Errno::EOPNOTSUPP));
        assert_eq!(get(&file, &user(7), unknown), Err(Errno::EOPNOTSUPP));
    }
    assert_eq!(set(&file, &user(7), "user.a", &[0; 65_537]), Err(Errno::E2BIG));
    set(&file, &user(7), "user.a", &[5; 65_536]).unwrap();
    assert_eq!(get(&file, &user(7), "user.a").unwrap().len(), 65_536);
    let error = (0..).find_map(|number| set(&file, &user(7), &format!("user.{number:0245}"), b"").err());
    assert_eq!(error, Some(Errno::ENOSPC));
    let listed = file.listxattr(&user(7)).unwrap().len();
    assert!((65_536 - 256..=65_536).contains(&listed));
}

#[test]
fn values_count_as_space() {
    let memory = MemoryFileSystem::new(Options { size: 10 * 4096, mode: 0o777, ..Options::default() });
    let root = memory.root();
    let (file, open) = create(&root, &user(7), "file", 0o600);
    set(&file, &user(7), "user.a", &[0; 8 * 4096]).unwrap();
    assert_eq!(attributes(&file).blocks, 9 * 8);
    assert_eq!(set(&file, &user(7), "user.b", &[0; 9000]), Err(Errno::ENOSPC));
    open.write_at(&user(7), 0, &[0; 4096]).unwrap();
    assert_eq!(open.write_at(&user(7), 4096, b"x"), Err(Errno::ENOSPC));
    file.removexattr(&user(7), b"user.a").unwrap();
    assert_eq!(root.statfs(&user(7)).unwrap().blocks_free, 9);
    set(&file, &user(7), "user.a", b"1").unwrap();
    root.unlink(&user(7), name("file")).unwrap();
    drop((file, open));
    assert_eq!(root.statfs(&user(7)).unwrap().blocks_free, 10);
}
