//! What a copy that a rule makes has of the original, and that it lets nobody do more.

use vnode::{AccessMode, Attributes, Caller, SetAttributes, SetTime, Timestamp, VnodeRef, XattrMode};

use super::{Described, attributes, in_both_tiers, name, read, user, write};

/// Copies what is deleted.
const COPYING: &str =
    "%%\n%op:unlink:precall { if ($name[0] != '.') fistSetErr(fistCopyFile($0, fistStrAdd(\"kept.\", $name))); }\n";
const LIST: &[u8] = b"system.posix_acl_access";

/// An access control list: tags, permissions and numbers, as in posix_acl_xattr.h.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, number) in entries {
        bytes.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

const OWNER: u16 = 1;
const NAMED_USER: u16 = 2;
const GROUP: u16 = 4;
const NAMED_GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHERS: u16 = 32;
const NOBODY: u32 = u32::MAX;

/// The directory of a mount, which everybody may write to, with a file of user 1000 and group 1000.
fn with_file(mount: &Described, mode: u32) -> (VnodeRef, VnodeRef) {
    let (root, server) = (mount.root(), Caller::server());
    root.setattr(&server, &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
    write(&root, &user(1000), "file", b"text").unwrap();
    let file = root.lookup(&server, name("file")).unwrap().vnode;
    file.setattr(&server, &SetAttributes { mode: Some(mode), ..Default::default() }).unwrap();
    (root, file)
}

/// Deletes the file: its copy.
fn copied(root: &VnodeRef, caller: &Caller) -> (VnodeRef, Attributes) {
    root.unlink(caller, name("file")).unwrap();
    assert_eq!(read(root, &Caller::server(), "kept.file").unwrap(), b"text");
    (root.lookup(&Caller::server(), name("kept.file")).unwrap().vnode, attributes(root, "kept.file"))
}

fn may(object: &VnodeRef, caller: &Caller, mode: AccessMode) -> bool {
    object.access(caller, mode).is_ok()
}

#[test]
fn a_copy_has_the_list_of_the_original() {
    let (friend, foe, member, other) =
        (user(1001), user(1002), Caller::with_groups(1003, 50, &[], 0), Caller::with_groups(1004, 1000, &[], 0));
    let entries = [
        (OWNER, 6, NOBODY),
        (NAMED_USER, 6, 1001),
        (NAMED_USER, 0, 1002),
        (GROUP, 0, NOBODY),
        (NAMED_GROUP, 4, 50),
        (MASK, 6, NOBODY),
        (OTHERS, 4, NOBODY),
    ];
    for deleting in [user(1000), Caller::server(), user(0)] {
        in_both_tiers("copying", COPYING, |mount| {
            let (root, file) = with_file(mount, 0o664);
            file.setxattr(&Caller::server(), LIST, &list(&entries), XattrMode::Set).unwrap();
            let rights = |object: &VnodeRef| {
                [&friend, &foe, &member, &other, &user(1000), &user(1005)]
                    .map(|caller| [AccessMode::READ, AccessMode::WRITE].map(|mode| may(object, caller, mode)))
            };
            let before = rights(&file);
            let (copy, now) = copied(&root, &deleting);
            assert_eq!(rights(&copy), before);
            assert_eq!((now.uid, now.gid, now.mode), (1000, 1000, 0o664));
        });
    }
}

#[test]
fn a_copy_of_another_group_is_open_to_nobody_who_could_not_read_the_original() {
    let stranger = Caller::with_groups(1001, 7, &[], 0);
    in_both_tiers("copying", COPYING, |mount| {
        // The group may less than all others.
        let (root, _) = with_file(mount, 0o606);
        let (_, now) = copied(&root, &stranger);
        assert_eq!((now.uid, now.gid, now.mode), (1001, 7, 0o600));
    });
    in_both_tiers("copying", COPYING, |mount| {
        let (root, _) = with_file(mount, 0o646);
        assert_eq!(copied(&root, &stranger).1.mode, 0o644);
    });
    in_both_tiers("copying", COPYING, |mount| {
        let (root, file) = with_file(mount, 0o604);
        let entries =
            [(OWNER, 6, NOBODY), (NAMED_USER, 0, 1002), (GROUP, 4, NOBODY), (MASK, 4, NOBODY), (OTHERS, 4, NOBODY)];
        file.setxattr(&Caller::server(), LIST, &list(&entries), XattrMode::Set).unwrap();
        let (copy, now) = copied(&root, &stranger);
        assert!(!may(&copy, &user(1002), AccessMode::READ), "whom the list keeps out");
        assert_eq!((now.mode, copy.getxattr(&stranger, LIST).is_err()), (0o600, true));
    });
}

#[test]
fn the_list_that_a_directory_gives_is_none_of_a_copy() {
    in_both_tiers("copying", COPYING, |mount| {
        let (root, _) = with_file(mount, 0o640);
        let given =
            [(OWNER, 7, NOBODY), (NAMED_USER, 7, 1001), (GROUP, 7, NOBODY), (MASK, 7, NOBODY), (OTHERS, 0, NOBODY)];
        root.setxattr(&Caller::server(), b"system.posix_acl_default", &list(&given), XattrMode::Set).unwrap();
        let (copy, now) = copied(&root, &user(1000));
        assert!(!may(&copy, &user(1001), AccessMode::READ));
        assert_eq!(now.mode, 0o640);
    });
}

#[test]
fn a_copy_has_attributes_and_times_of_the_original_and_no_privileges() {
    in_both_tiers("copying", COPYING, |mount| {
        let (root, file) = with_file(mount, 0o6755);
        let (owner, server) = (user(1000), Caller::server());
        file.setxattr(&owner, b"user.comment", b"mine", XattrMode::Set).unwrap();
        file.setxattr(&server, b"trusted.overlay.metacopy", b"", XattrMode::Set).unwrap();
        let time = Timestamp { seconds: 1_000_000_000, nanoseconds: 5 };
        file.setattr(&server, &SetAttributes { mtime: Some(SetTime::To(time)), ..Default::default() }).unwrap();
        let (copy, now) = copied(&root, &owner);
        assert_eq!((now.mode, now.mtime), (0o755, time));
        assert_eq!(copy.getxattr(&server, b"user.comment").unwrap(), b"mine");
        assert!(copy.getxattr(&server, b"trusted.overlay.metacopy").is_err(), "a mark of the original alone");
    });
}

#[test]
fn holes_are_holes_of_the_copy() {
    in_both_tiers("copying", COPYING, |mount| {
        let (root, file) = with_file(mount, 0o644);
        let size = 1 << 40;
        file.setattr(&user(1000), &SetAttributes { size: Some(size), ..Default::default() }).unwrap();
        root.unlink(&user(1000), name("file")).unwrap();
        let now = attributes(&root, "kept.file");
        assert!(now.size == size && now.blocks < 1000, "{now:?}");
    });
}

/// A copy that is given up undoes nothing, and is told once: a rule that goes on begins no other for whom nobody waits.
#[test]
fn no_copy_begins_for_a_caller_who_is_gone() {
    let copying =
        "%%\n%op:unlink:precall { for (int i = 0; i < 3; i++) fistCopyFile($0, fistStrAdd(\"kept.\", $name)); }\n";
    in_both_tiers("copying", copying, |mount| {
        let (root, _) = with_file(mount, 0o644);
        let source = vnode::CancellationSource::new();
        let gone = user(1000).cancelled_by(source.begin(1, 0));
        source.cancel(1);
        let _ = root.unlink(&gone, name("file"));
        assert!(root.lookup(&user(1000), name("kept.file")).is_err());
    });
}
