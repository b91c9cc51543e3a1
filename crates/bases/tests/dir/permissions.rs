//! Permissions: several users, supplementary groups, umask, ACLs, privileged attributes.

use std::os::unix::fs::MetadataExt;

use vnode::{AccessMode, Caller, Errno, OpenFlags, SetAttributes, XattrMode};

use crate::ground::{Ground, creation, make, name, root, user};

#[test]
fn the_lower_file_system_decides_by_the_callers_credentials() {
    Ground::each(|ground| {
        let (owner, member, stranger) = (user(1_000, &[]), user(1_001, &[7, 1_000]), user(1_002, &[7]));
        let (file, _) = make(&ground.root, &owner, "f", 0o640, b"x");
        let attributes = file.getattr(&root()).unwrap();
        assert_eq!((attributes.uid, attributes.gid), (1_000, 1_000));
        assert!(file.open(&member, OpenFlags::READ).is_ok());
        assert_eq!(file.open(&member, OpenFlags::WRITE).err(), Some(Errno::EACCES));
        assert_eq!(file.open(&stranger, OpenFlags::READ).err(), Some(Errno::EACCES));
        assert!(file.open(&root(), OpenFlags::READ_WRITE).is_ok());
        assert_eq!(file.access(&member, AccessMode::READ), Ok(()));
        assert_eq!(file.access(&member, AccessMode::WRITE), Err(Errno::EACCES));
        assert_eq!(file.access(&stranger, AccessMode::READ), Err(Errno::EACCES));
        assert_eq!(file.access(&stranger, AccessMode::EXISTS), Ok(()));
        assert_eq!(file.access(&root(), AccessMode::EXECUTE), Err(Errno::EACCES));
        assert!(file.open(&stranger, OpenFlags::READ).is_err(), "also after root's turn");
        assert!(file.open(&Caller::server(), OpenFlags::READ).is_ok());
    });
}

#[test]
fn a_group_that_may_do_less_than_others_is_held_to_it() {
    Ground::each(|ground| {
        let (file, _) = make(&ground.root, &user(1_000, &[]), "f", 0o604, b"x");
        assert!(file.open(&user(1_001, &[]), OpenFlags::READ).is_ok());
        assert_eq!(file.open(&user(1_001, &[1_000]), OpenFlags::READ).err(), Some(Errno::EACCES));
    });
}

#[test]
fn directories_are_searched_listed_and_changed_with_permission_only() {
    Ground::each(|ground| {
        let (owner, stranger) = (user(1_000, &[]), user(1_001, &[]));
        let closed = ground.root.mkdir(&owner, name("closed"), 0o700).unwrap().vnode;
        make(&closed, &owner, "f", 0o666, b"x");
        assert_eq!(closed.lookup(&stranger, name("f")).err(), Some(Errno::EACCES));
        assert_eq!(closed.lookup(&stranger, name("absent")).err(), Some(Errno::EACCES));
        assert_eq!(closed.open_directory(&stranger).err(), Some(Errno::EACCES));
        assert_eq!(closed.create(&stranger, name("g"), &creation(0o600)).err(), Some(Errno::EACCES));
        assert_eq!(closed.unlink(&stranger, name("f")).err(), Some(Errno::EACCES));
        assert_eq!(closed.lookup(&owner, name("absent")).err(), Some(Errno::ENOENT));

        let listed = ground.root.mkdir(&owner, name("listed"), 0o744).unwrap().vnode;
        assert!(listed.open_directory(&stranger).is_ok(), "reading needs no search permission");
        let sticky = ground.root.mkdir(&root(), name("sticky"), 0o1777).unwrap().vnode;
        sticky.setattr(&root(), &SetAttributes { mode: Some(0o1777), ..Default::default() }).unwrap();
        make(&sticky, &owner, "f", 0o666, b"x");
        assert_eq!(sticky.unlink(&stranger, name("f")).err(), Some(Errno::EPERM));
        assert_eq!(sticky.unlink(&owner, name("f")), Ok(()));
    });
}

#[test]
fn the_umask_counts_unless_a_default_acl_rules() {
    Ground::each(|ground| {
        let caller = Caller::with_groups(1_000, 1_000, &[], 0o077);
        let made = ground.root.create(&caller, name("f"), &creation(0o666)).unwrap();
        assert_eq!(made.entry.attributes.mode, 0o600);
        let open = Caller::with_groups(1_000, 1_000, &[], 0);
        let made = ground.root.create(&open, name("g"), &creation(0o666)).unwrap();
        assert_eq!(made.entry.attributes.mode, 0o666);
        let directory = ground.root.mkdir(&caller, name("d"), 0o777).unwrap();
        assert_eq!(directory.attributes.mode, 0o700);
        // user::rwx, group::r-x, other::r--
        let mut acl = vec![2, 0, 0, 0];
        for (tag, permissions) in [(1u16, 7u16), (4, 5), (0x20, 4)] {
            acl.extend(tag.to_le_bytes());
            acl.extend(permissions.to_le_bytes());
            acl.extend(u32::MAX.to_le_bytes());
        }
        let directory = directory.vnode;
        directory.setxattr(&caller, b"system.posix_acl_default", &acl, XattrMode::Set).unwrap();
        assert_eq!(directory.getxattr(&caller, b"system.posix_acl_default"), Ok(acl));
        let made = directory.create(&caller, name("f"), &creation(0o666)).unwrap();
        assert_eq!(made.entry.attributes.mode, 0o644, "the ACL, not the umask");
    });
}

#[test]
fn new_objects_get_the_callers_group_or_the_directorys() {
    Ground::each(|ground| {
        let caller = Caller::with_groups(1_000, 50, &[60], 0o022);
        let made = ground.root.create(&caller, name("f"), &creation(0o666)).unwrap();
        assert_eq!((made.entry.attributes.uid, made.entry.attributes.gid), (1_000, 50));
        let shared = ground.root.mkdir(&root(), name("shared"), 0o777).unwrap().vnode;
        let group = SetAttributes { gid: Some(60), mode: Some(0o2777), ..Default::default() };
        shared.setattr(&root(), &group).unwrap();
        let made = shared.create(&caller, name("f"), &creation(0o666)).unwrap();
        assert_eq!(made.entry.attributes.gid, 60);
        let below = shared.mkdir(&caller, name("d"), 0o755).unwrap();
        assert_eq!((below.attributes.gid, below.attributes.mode), (60, 0o2755));
        let administrator = Caller::with_groups(0, 77, &[], 0o022);
        let made = ground.root.create(&administrator, name("g"), &creation(0o600)).unwrap();
        assert_eq!((made.entry.attributes.uid, made.entry.attributes.gid), (0, 77));
    });
}

#[test]
fn owners_change_what_owners_may() {
    Ground::each(|ground| {
        let owner = user(1_000, &[60]);
        let (file, _) = make(&ground.root, &owner, "f", 0o644, b"x");
        let group = |gid| SetAttributes { gid: Some(gid), ..Default::default() };
        assert_eq!(file.setattr(&owner, &group(60)).unwrap().gid, 60);
        assert_eq!(file.setattr(&owner, &group(61)).err(), Some(Errno::EPERM));
        let away = SetAttributes { uid: Some(1), ..Default::default() };
        assert_eq!(file.setattr(&owner, &away).err(), Some(Errno::EPERM));
        let mode = SetAttributes { mode: Some(0o777), ..Default::default() };
        assert_eq!(file.setattr(&user(1_001, &[]), &mode).err(), Some(Errno::EPERM));
        assert_eq!(file.setattr(&owner, &mode).unwrap().mode, 0o777);
        file.setattr(&root(), &group(99)).unwrap();
        let set_group = SetAttributes { mode: Some(0o2777), ..Default::default() };
        assert_eq!(file.setattr(&owner, &set_group).unwrap().mode, 0o777, "not for a group of others");
    });
}

#[test]
fn privileged_attributes_are_the_superusers() {
    Ground::each(|ground| {
        let owner = user(1_000, &[]);
        let (file, _) = make(&ground.root, &owner, "f", 0o644, b"x");
        file.setxattr(&root(), b"trusted.a", b"1", XattrMode::Set).unwrap();
        for (attribute, error) in [(&b"trusted.a"[..], Errno::EPERM), (b"security.capability", Errno::EPERM)] {
            assert_eq!(file.setxattr(&owner, attribute, b"1", XattrMode::Set), Err(error));
            assert_eq!(file.removexattr(&owner, attribute), Err(error));
        }
        assert_eq!(file.getxattr(&owner, b"trusted.a"), Err(Errno::ENODATA));
        assert_eq!(file.listxattr(&owner), Ok(Vec::new()));
        assert_eq!(file.listxattr(&root()), Ok(b"trusted.a\0".to_vec()));
        if ground.label.starts_with("ext4") {
            file.setxattr(&owner, b"user.big", &[7; 3_000], XattrMode::Create).unwrap();
            assert_eq!(file.getxattr(&owner, b"user.big"), Ok(vec![7; 3_000]));
            assert_eq!(file.setxattr(&owner, b"user.big", b"", XattrMode::Create), Err(Errno::EEXIST));
            assert_eq!(file.setxattr(&owner, b"user.none", b"", XattrMode::Replace), Err(Errno::ENODATA));
            assert_eq!(file.setxattr(&user(1_001, &[]), b"user.x", b"", XattrMode::Set), Err(Errno::EACCES));
        }
    });
}

#[test]
fn threads_act_for_different_users_at_once() {
    Ground::each(|ground| {
        std::thread::scope(|scope| {
            for uid in [0, 1_000, 1_001, 1_002] {
                scope.spawn(move || {
                    for round in 0..200 {
                        let uid = if round % 3 == 0 { uid + 10 } else { uid };
                        let caller = Caller::with_groups(uid, uid + 1, &[uid + 2], 0o027);
                        let file = format!("{uid}-{round}");
                        make(&ground.root, &caller, &file, 0o666, b"x");
                        let made = std::fs::metadata(ground.path.join(&file)).unwrap();
                        assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (uid, uid + 1, 0o640));
                    }
                });
            }
        });
    });
}

#[test]
fn executing_needs_no_permission_to_read() {
    Ground::each(|ground| {
        let (file, _) = make(&ground.root, &root(), "program", 0o711, b"x");
        let for_execution = OpenFlags::from_bits(0x20);
        assert!(file.open(&user(1_000, &[]), for_execution).is_ok());
        assert_eq!(file.open(&user(1_000, &[]), OpenFlags::READ).err(), Some(Errno::EACCES));
        let (data, _) = make(&ground.root, &root(), "data", 0o600, b"x");
        assert_eq!(data.open(&user(1_000, &[]), for_execution).err(), Some(Errno::EACCES));
    });
}
