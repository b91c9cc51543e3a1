//! Access control lists on objects: checks, chmod, inheritance.

use vnode::{AccessMode, Errno, FileSystem, XattrMode};

use super::*;

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// A list for owner, user 8, owning group, group 20, mask, others.
fn list(permissions: [u16; 6]) -> Vec<u8> {
    let entries = [(1u16, u32::MAX), (2, 8), (4, u32::MAX), (8, 20), (16, u32::MAX), (32, u32::MAX)];
    let mut bytes = vec![2, 0, 0, 0];
    for ((tag, id), permissions) in entries.into_iter().zip(permissions) {
        bytes.extend([&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    bytes
}

fn mode_only(permissions: [u16; 3]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    for (tag, permissions) in [1u16, 4, 32].into_iter().zip(permissions) {
        bytes.extend([&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &[255; 4]].concat());
    }
    bytes
}

fn set(vnode: &VnodeRef, caller: &Caller, name: &[u8], value: &[u8]) -> Result<()> {
    vnode.setxattr(caller, name, value, XattrMode::Set)
}

fn may(vnode: &VnodeRef, caller: &Caller, bits: u32) -> bool {
    vnode.access(caller, AccessMode::from_bits(bits)).is_ok()
}

#[test]
fn acl_decides_and_chmod_changes_its_mask() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    assert_eq!(file.getxattr(&user(9), ACCESS), Err(Errno::ENODATA));
    assert_eq!(set(&file, &user(8), ACCESS, &list([6, 6, 4, 7, 6, 0])), Err(Errno::EPERM));
    set(&file, &user(7), ACCESS, &list([6, 6, 4, 7, 6, 0])).unwrap();
    assert_eq!(mode_of(&file), 0o660);
    assert_eq!(file.getxattr(&user(9), ACCESS).unwrap(), list([6, 6, 4, 7, 6, 0]));
    assert!(may(&file, &user(8), 6) && may(&file, &member(9, &[20]), 6));
    assert!(may(&file, &member(9, &[7]), 4) && !may(&file, &member(9, &[7]), 2) && !may(&file, &user(9), 4));
    chmod(&file, &user(7), 0o646).unwrap();
    assert_eq!(file.getxattr(&user(9), ACCESS).unwrap(), list([6, 6, 4, 7, 4, 6]));
    assert!(may(&file, &user(8), 4) && !may(&file, &user(8), 2) && may(&file, &user(9), 6));
    chmod(&file, &user(7), 0o606).unwrap();
    assert!(may(&file, &user(8), 6), "with an empty mask Linux looks at the mode alone");
    assert_eq!(file.listxattr(&user(9)).unwrap(), b"system.posix_acl_access\0");
}

#[test]
fn minimal_acl_becomes_the_mode() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    set(&file, &user(7), ACCESS, &list([6, 6, 4, 7, 6, 0])).unwrap();
    set(&file, &user(7), ACCESS, &mode_only([7, 5, 1])).unwrap();
    assert_eq!((mode_of(&file), file.getxattr(&user(7), ACCESS)), (0o751, Err(Errno::ENODATA)));
    assert_eq!(file.removexattr(&user(7), ACCESS), Ok(()));
    assert_eq!(file.removexattr(&user(8), ACCESS), Err(Errno::EPERM));
}

#[test]
fn acl_equal_to_the_mode_changes_nothing() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o640);
    let before = file.getattr(&user(7)).unwrap();
    set(&file, &user(7), ACCESS, &mode_only([6, 4, 0])).unwrap();
    assert_eq!(file.getattr(&user(7)).unwrap(), before, "as ext4 leaves even the time of change");
    set(&file, &user(7), ACCESS, &mode_only([6, 4, 4])).unwrap();
    assert!(file.getattr(&user(7)).unwrap().ctime > before.ctime);
}

#[test]
fn setting_an_acl_drops_setgid_of_foreign_groups() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    chown(&file, &superuser(), None, Some(50)).unwrap();
    chmod(&file, &superuser(), 0o6755).unwrap();
    set(&file, &user(7), ACCESS, &mode_only([7, 5, 5])).unwrap();
    assert_eq!(mode_of(&file), 0o4755);
}

#[test]
fn default_acl_is_inherited_instead_of_the_umask() {
    let root = file_system().root();
    let directory = mkdir(&root, &user(7), "directory", 0o777);
    let default = list([7, 6, 5, 4, 6, 1]);
    set(&directory, &user(7), DEFAULT, &default).unwrap();
    assert_eq!(mode_of(&directory), 0o777);
    let caller = Caller::with_groups(7, 7, &[], 0o077);
    let (file, _) = create(&directory, &caller, "file", 0o666);
    assert_eq!(mode_of(&file), 0o660);
    assert_eq!(file.getxattr(&caller, ACCESS).unwrap(), list([6, 6, 5, 4, 6, 0]));
    assert_eq!(file.getxattr(&caller, DEFAULT), Err(Errno::ENODATA));
    let below = mkdir(&directory, &caller, "below", 0o755);
    assert_eq!(mode_of(&below), 0o741);
    assert_eq!(below.getxattr(&caller, DEFAULT).unwrap(), default);
    assert_eq!(below.getxattr(&caller, ACCESS).unwrap(), list([7, 6, 5, 4, 4, 1]));
    let link = directory.symlink(&caller, name("link"), b"x").unwrap();
    assert_eq!(link.attributes.mode, 0o777);
    assert_eq!(link.vnode.getxattr(&caller, ACCESS), Err(Errno::EOPNOTSUPP));
    set(&directory, &user(7), DEFAULT, &mode_only([7, 7, 0])).unwrap();
    let (plain, _) = create(&directory, &caller, "plain", 0o666);
    assert_eq!((mode_of(&plain), plain.getxattr(&caller, ACCESS)), (0o660, Err(Errno::ENODATA)));
    directory.removexattr(&user(7), DEFAULT).unwrap();
    assert_eq!(mode_of(&create(&directory, &caller, "masked", 0o666).0), 0o600);
}

#[test]
fn acls_are_refused_on_unsupported_objects() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    assert_eq!(set(&file, &user(7), DEFAULT, &mode_only([7, 7, 0])), Err(Errno::EACCES));
    let link = root.symlink(&user(7), name("link"), b"x").unwrap().vnode;
    assert_eq!(set(&link, &user(7), ACCESS, &mode_only([7, 7, 0])), Err(Errno::EOPNOTSUPP));
    assert_eq!(set(&file, &user(7), ACCESS, b"nonsense"), Err(Errno::EOPNOTSUPP));
    assert_eq!(set(&file, &user(7), ACCESS, &list([6, 6, 4, 7, 6, 8])), Err(Errno::EINVAL));
}
