//! `map`: what callers see, what they may do by it, and what is below.

mod common;

use common::owned::{NONE, below};
use common::{contents, create, layer, list, name, root, user, walk};
use plyfs_layers::OptionProblem;
use vnode::layer::{Layer, LayerVnode};
use vnode::{
    AccessControl, AccessMode, Attributes, Caller, Creation, Device, Entry, Errno, FileKind, FileSystemRef, Name,
    OpenFlags, Promises, RenameMode, Result, SetAttributes, SetTime, Timestamp, XattrMode,
};

fn ids(attributes: &Attributes) -> (u32, u32, u32) {
    (attributes.uid, attributes.gid, attributes.mode)
}

fn seen(file_system: &FileSystemRef, caller: &Caller, path: &str) -> (u32, u32, u32) {
    ids(&walk(file_system, caller, path).unwrap().attributes)
}

#[test]
fn one_owner_for_all_may_what_the_owner_may() {
    let lower = below();
    let upper = layer("map", &[("owner", "2000"), ("group", "2001")], lower.clone());
    assert_eq!(seen(&upper, &user(2000), "d/file"), (2000, 2001, 0o640));
    let file = walk(&upper, &user(2000), "d/file").unwrap().vnode;
    assert_eq!(contents(&file, &user(2000)), b"data");
    file.open(&user(2000), OpenFlags::WRITE).unwrap();
    let member = Caller::with_groups(5, 5, &[2001], 0);
    file.open(&member, OpenFlags::READ).unwrap();
    for (caller, flags) in [(member, OpenFlags::WRITE), (user(1000), OpenFlags::READ), (user(3), OpenFlags::READ)] {
        assert_eq!(file.open(&caller, flags).map(drop), Err(Errno::EACCES));
        assert_eq!(file.open(&caller, OpenFlags::READ.with(OpenFlags::TRUNCATE)).map(drop), Err(Errno::EACCES));
    }
    assert_eq!(file.access(&user(2000), AccessMode::WRITE), Ok(()));
    assert_eq!(file.access(&user(1000), AccessMode::READ), Err(Errno::EACCES));
    assert_eq!(file.setattr(&user(1000), &SetAttributes { mode: Some(0o777), ..NONE }), Err(Errno::EPERM));
    assert_eq!(file.setattr(&user(2000), &SetAttributes { mode: Some(0o600), ..NONE }).unwrap().mode, 0o600);
    assert_eq!(seen(&lower, &root(), "d/file"), (1000, 1000, 0o600));
    let properties = upper.properties();
    assert!(properties.promises.data_untouched && properties.promises.names_untouched);
    assert!(!properties.promises.attributes_untouched && !properties.needs.fresh_attributes);
    assert_eq!(properties.promises.access_control, AccessControl::AsShown, "the view decides by what it shows");
}

#[test]
fn mapped_ids_go_down_and_come_up() {
    let lower = below();
    let upper = layer("map", &[("user-map", "1000/2000"), ("group-map", "1000/2000:7/8")], lower.clone());
    let directory = walk(&upper, &user(2000), "d").unwrap().vnode;
    assert_eq!(ids(&directory.getattr(&user(2000)).unwrap()), (2000, 2000, 0o755));
    let (file, _) = create(&directory, &user(2000), "new", 0o666);
    assert_eq!(ids(&file.getattr(&root()).unwrap()), (2000, 2000, 0o644));
    assert_eq!(seen(&lower, &root(), "d/new"), (1000, 1000, 0o644));
    let made = directory.mkdir(&user(2000), name("sub"), 0o777).unwrap();
    assert_eq!(ids(&made.attributes), (2000, 2000, 0o755));
    directory.symlink(&user(2000), name("symlink"), b"new").unwrap();
    directory.mknod(&user(2000), name("fifo"), FileKind::Fifo, 0o600, Device::default()).unwrap();
    for made in ["d/sub", "d/symlink", "d/fifo"] {
        assert_eq!(seen(&lower, &root(), made).0, 1000, "{made}");
    }
    // Changes of owner name ids above.
    file.setattr(&root(), &SetAttributes { uid: Some(2000), gid: Some(8), ..NONE }).unwrap();
    assert_eq!(seen(&lower, &root(), "d/new"), (1000, 7, 0o644));
    assert_eq!(file.setattr(&user(2000), &SetAttributes { uid: Some(3), ..NONE }), Err(Errno::EPERM));
    let member = Caller::with_groups(2000, 2000, &[8], 0);
    file.setattr(&member, &SetAttributes { gid: Some(2000), ..NONE }).unwrap();
    assert_eq!(seen(&lower, &root(), "d/new").1, 1000);
    // The owner below is nobody special above.
    assert_eq!(directory.unlink(&user(1000), name("new")), Err(Errno::EACCES));
    directory.unlink(&user(2000), name("new")).unwrap();
}

#[test]
fn an_offset_moves_all_ids() {
    let lower = below();
    let upper = layer("map", &[("id-offset", "100000")], lower.clone());
    assert_eq!(seen(&upper, &user(101_000), "d/file"), (101_000, 101_000, 0o640));
    let directory = walk(&upper, &user(101_000), "d").unwrap().vnode;
    create(&directory, &user(101_000), "new", 0o600);
    assert_eq!(seen(&lower, &root(), "d/new"), (1000, 1000, 0o600));
    // The superuser above may do all, but is nobody below who could own anything.
    let new = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
    assert_eq!(directory.create(&root(), name("x"), &new).map(drop), Err(Errno::EOVERFLOW));
    assert_eq!(list(&directory, &root()), ["file", "new"]);
    let file = walk(&upper, &root(), "d/file").unwrap().vnode;
    assert_eq!(contents(&file, &root()), b"data");
    assert_eq!(file.setattr(&root(), &SetAttributes { uid: Some(5), ..NONE }), Err(Errno::EOVERFLOW));
}

#[test]
fn permission_bits_shown_are_those_that_count() {
    let lower = below();
    let upper = layer("map", &[("perms", "a+rX:go-w:o=")], lower.clone());
    assert_eq!(seen(&upper, &root(), "d/file").2, 0o640);
    let directory = walk(&upper, &root(), "d").unwrap();
    assert_eq!(directory.attributes.mode, 0o750);
    assert_eq!(directory.vnode.lookup(&user(3), name("file")).map(drop), Err(Errno::EACCES));
    assert_eq!(directory.vnode.open_directory(&user(3)).map(drop), Err(Errno::EACCES));
    directory.vnode.lookup(&user(1000), name("file")).unwrap();
    assert_eq!(walk(&upper, &user(1000), "d").map(drop), Err(Errno::EACCES), "the root cannot be searched");
    let open = layer("map", &[("perms", "a+rX")], lower.clone());
    let file = walk(&open, &user(3), "d/file").unwrap().vnode;
    assert_eq!(contents(&file, &user(3)), b"data");
    assert_eq!(file.open(&user(3), OpenFlags::WRITE).map(drop), Err(Errno::EACCES));
    assert_eq!(seen(&lower, &root(), "d/file").2, 0o640);
    assert_eq!(file.setattr(&user(3), &SetAttributes { size: Some(0), ..NONE }), Err(Errno::EACCES));
}

#[test]
fn mirrored_users_see_themselves() {
    let lower = below();
    let upper = layer("map", &[("mirror", "5:@60")], lower.clone());
    let member = Caller::with_groups(6, 6, &[60], 0o022);
    for caller in [user(5), member] {
        assert_eq!(seen(&upper, &caller, "d/file").0, caller.uid);
        let file = walk(&upper, &caller, "d/file").unwrap().vnode;
        file.open(&caller, OpenFlags::READ_WRITE).unwrap();
        let past = Some(SetTime::To(Timestamp { seconds: 5, nanoseconds: 6 }));
        file.setattr(&caller, &SetAttributes { mtime: past, ..NONE }).unwrap();
    }
    assert_eq!(seen(&upper, &user(7), "d/file").0, 1000);
    let file = walk(&upper, &user(7), "d/file").unwrap().vnode;
    assert_eq!(file.open(&user(7), OpenFlags::READ).map(drop), Err(Errno::EACCES));
    assert_eq!(walk(&lower, &root(), "d/file").unwrap().attributes.mtime.seconds, 5);
    assert!(upper.properties().needs.fresh_attributes);
}

#[test]
fn squashed_callers_are_others() {
    let lower = below();
    let all = layer("map", &[("squash", "all"), ("squash-user", "1000"), ("squash-group", "1000")], lower.clone());
    let directory = walk(&all, &user(3), "d").unwrap().vnode;
    let (_, file) = create(&directory, &user(3), "new", 0o600);
    file.write_at(&user(3), 0, b"x").unwrap();
    assert_eq!(seen(&lower, &root(), "d/new"), (1000, 1000, 0o600));
    let no_root = layer("map", &[("squash", "root")], lower);
    let file = walk(&no_root, &root(), "d/file").unwrap().vnode;
    assert_eq!(file.open(&root(), OpenFlags::READ).map(drop), Err(Errno::EACCES));
    file.open(&user(1000), OpenFlags::READ).unwrap();
    let view = layer("map", &[("squash", "root"), ("owner", "5")], below());
    let file = walk(&view, &root(), "d/file").unwrap().vnode;
    assert_eq!(file.open(&root(), OpenFlags::READ).map(drop), Err(Errno::EACCES));
    file.open(&user(5), OpenFlags::READ).unwrap();
}

#[test]
fn new_objects_get_what_the_options_say() {
    let lower = below();
    let options = [("create-owner", "70"), ("create-group", "71"), ("create-perms", "u=rwX:g=rX:o=")];
    let upper = layer("map", &options, lower.clone());
    let directory = walk(&upper, &user(1000), "d").unwrap().vnode;
    let (_, file) = create(&directory, &user(1000), "new", 0o666);
    file.write_at(&user(1000), 0, b"open files stay usable").unwrap();
    directory.mkdir(&user(1000), name("sub"), 0o700).unwrap();
    directory.symlink(&user(1000), name("symlink"), b"x").unwrap();
    let tmpfile = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
    let unnamed = directory.tmpfile(&user(1000), &tmpfile).unwrap();
    assert_eq!(ids(&unnamed.entry.attributes), (70, 71, 0o640));
    assert_eq!(seen(&lower, &root(), "d/new"), (70, 71, 0o640));
    assert_eq!(seen(&lower, &root(), "d/sub"), (70, 71, 0o750));
    assert_eq!(seen(&lower, &root(), "d/symlink").0, 70);
    // What was there before stays as it is, and who may not create may still not.
    let how = Creation { mode: 0o666, flags: OpenFlags::READ };
    let old = directory.create(&user(1000), name("file"), &how).unwrap();
    assert_eq!(ids(&old.entry.attributes), (1000, 1000, 0o640));
    assert_eq!(directory.mkdir(&user(3), name("x"), 0o700).map(drop), Err(Errno::EACCES));
    assert!(upper.properties().promises.attributes_untouched);
}

#[test]
fn creation_in_a_view_follows_unix() {
    let upper = layer("map", &[("user-map", "1000/2000"), ("group-map", "1000/2000")], below());
    let directory = walk(&upper, &user(2000), "d").unwrap().vnode;
    let how = |mode, flags| Creation { mode, flags };
    // Opening what is there takes no right to the directory, creating does.
    let file = directory.lookup(&root(), name("file")).unwrap().vnode;
    file.setattr(&root(), &SetAttributes { mode: Some(0o666), ..NONE }).unwrap();
    directory.create(&user(3), name("file"), &how(0, OpenFlags::WRITE)).unwrap();
    let exclusive = how(0o600, OpenFlags::READ.with(OpenFlags::EXCLUSIVE));
    assert_eq!(directory.create(&user(2000), name("file"), &exclusive).map(drop), Err(Errno::EEXIST));
    assert_eq!(directory.create(&user(3), name("x"), &how(0o600, OpenFlags::READ)).map(drop), Err(Errno::EACCES));
    directory.symlink(&user(2000), name("symlink"), b"file").unwrap();
    let symlink = directory.create(&user(2000), name("symlink"), &how(0o600, OpenFlags::READ));
    assert_eq!(symlink.map(drop), Err(Errno::ELOOP));
    // A new file may be written to whatever its mode says.
    let created = directory.create(&user(2000), name("r"), &how(0o444, OpenFlags::WRITE)).unwrap();
    assert_eq!(created.file.write_at(&user(2000), 0, b"x"), Ok(1));
    // Set-group-id directories hand their group on.
    directory.setattr(&root(), &SetAttributes { mode: Some(0o2777), ..NONE }).unwrap();
    let made = directory.mkdir(&user(3), name("sub"), 0o755).unwrap();
    assert_eq!(ids(&made.attributes), (3, 2000, 0o2755));
    let (file, _) = create(&directory, &user(3), "s", 0o2755);
    assert_eq!(ids(&file.getattr(&root()).unwrap()), (3, 2000, 0o755));
    // The superuser makes programs of that group too.
    directory.setattr(&root(), &SetAttributes { gid: Some(50), mode: Some(0o2777), ..NONE }).unwrap();
    let (file, _) = create(&directory, &root(), "of root", 0o2755);
    assert_eq!(ids(&file.getattr(&root()).unwrap()), (0, 50, 0o2755));
    let (file, _) = create(&directory, &user(3), "of a user", 0o2755);
    assert_eq!(ids(&file.getattr(&root()).unwrap()), (3, 50, 0o755));
}

#[test]
fn the_sticky_bit_counts_by_the_owners_shown() {
    let upper = layer("map", &[("user-map", "1000/2000")], below());
    let directory = walk(&upper, &root(), "d").unwrap().vnode;
    directory.setattr(&root(), &SetAttributes { mode: Some(0o1777), ..NONE }).unwrap();
    create(&directory, &user(3), "three", 0o600);
    create(&directory, &user(4), "four", 0o600);
    let rename =
        |caller: &Caller, from: &str, to: &str, mode| directory.rename(caller, name(from), &directory, name(to), mode);
    assert_eq!(directory.unlink(&user(4), name("three")), Err(Errno::EPERM));
    assert_eq!(rename(&user(4), "three", "x", RenameMode::Replace), Err(Errno::EPERM));
    assert_eq!(rename(&user(4), "four", "three", RenameMode::Replace), Err(Errno::EPERM));
    assert_eq!(rename(&user(4), "four", "three", RenameMode::Exchange), Err(Errno::EPERM));
    assert_eq!(rename(&user(4), "four", "x", RenameMode::Replace), Ok(()));
    assert_eq!(directory.unlink(&user(3), name("three")), Ok(()));
    assert_eq!(directory.unlink(&user(2000), name("x")), Ok(()), "the owner of the directory");
    // A directory that goes elsewhere has to be writable itself.
    let sub = directory.mkdir(&user(3), name("sub"), 0o555).unwrap().vnode;
    directory.mkdir(&user(3), name("to"), 0o755).unwrap();
    let to = directory.lookup(&user(3), name("to")).unwrap().vnode;
    let moved = || directory.rename(&user(3), name("sub"), &to, name("sub"), RenameMode::Replace);
    assert_eq!(moved(), Err(Errno::EACCES));
    sub.setattr(&user(3), &SetAttributes { mode: Some(0o755), ..NONE }).unwrap();
    assert_eq!(moved(), Ok(()));
}

#[test]
fn changes_are_ignored_denied_or_filtered() {
    let chown = SetAttributes { uid: Some(3), gid: Some(3), ..NONE };
    let chmod = SetAttributes { mode: Some(0o777), ..NONE };
    for view in [None, Some(("owner", "1000"))] {
        let with = |options: &[(&str, &str)]| {
            let lower = below();
            let options: Vec<_> = options.iter().copied().chain(view).collect();
            let upper = layer("map", &options, lower.clone());
            (lower, walk(&upper, &root(), "d/file").unwrap().vnode)
        };
        let (lower, file) = with(&[("chown", "ignore"), ("chgrp", "ignore"), ("chmod", "ignore")]);
        file.setattr(&user(1000), &chown).unwrap();
        assert_eq!(file.setattr(&user(1000), &chmod).unwrap().mode, 0o640);
        assert_eq!(seen(&lower, &root(), "d/file"), (1000, 1000, 0o640));
        assert_eq!(file.setattr(&user(3), &chown), Err(Errno::EPERM));
        let (lower, file) = with(&[("chown", "ignore")]);
        file.setattr(&root(), &chown).unwrap();
        assert_eq!(seen(&lower, &root(), "d/file"), (1000, 3, 0o640));
        for key in ["chown", "chgrp", "chmod"] {
            let (lower, file) = with(&[(key, "deny")]);
            let changes = if key == "chmod" { chmod } else { chown };
            assert_eq!(file.setattr(&root(), &changes), Err(Errno::EPERM), "{key}");
            assert_eq!(seen(&lower, &root(), "d/file"), (1000, 1000, 0o640));
        }
        let (lower, file) = with(&[("chmod", "filter"), ("chmod-filter", "o=")]);
        file.setattr(&user(1000), &chmod).unwrap();
        assert_eq!(seen(&lower, &root(), "d/file").2, 0o770);
    }
}

#[test]
fn writing_takes_set_id_bits_away_though_the_server_writes() {
    let upper = layer("map", &[("perms", "a+rw")], below());
    let file = walk(&upper, &root(), "d/file").unwrap().vnode;
    file.setattr(&root(), &SetAttributes { mode: Some(0o4755), ..NONE }).unwrap();
    let open = file.open(&user(3), OpenFlags::WRITE).unwrap();
    open.write_at(&user(3), 0, b"evil").unwrap();
    assert_eq!(file.getattr(&root()).unwrap().mode & 0o7000, 0);
    file.setattr(&root(), &SetAttributes { mode: Some(0o4755), ..NONE }).unwrap();
    file.setattr(&user(3), &SetAttributes { size: Some(0), ..NONE }).unwrap();
    assert_eq!(file.getattr(&root()).unwrap().mode & 0o7000, 0);
    type Change<'a> = (&'static str, &'a dyn Fn(&Caller));
    let changes: [Change<'_>; 5] = [
        ("truncate", &|caller| open.truncate(caller, 9).unwrap()),
        ("open with O_TRUNC", &|caller| {
            file.open(caller, OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).map(drop).unwrap();
        }),
        ("create an existing file with O_TRUNC", &|caller| {
            let how = Creation { mode: 0o600, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
            walk(&upper, &root(), "d").unwrap().vnode.create(caller, name("file"), &how).map(drop).unwrap();
        }),
        ("fallocate", &|caller| open.allocate(caller, vnode::AllocateMode::ALLOCATE, 0, 100).unwrap()),
        ("copy_file_range", &|caller| {
            let source = file.open(&root(), OpenFlags::READ).unwrap();
            open.truncate(&root(), 100).unwrap();
            assert_eq!(source.copy_range(caller, 0, &open, 50, 5), Ok(5));
        }),
    ];
    for (operation, change) in changes {
        // The superuser keeps the bits, whom the layer maps to itself, unless it kills them.
        for (caller, bits) in [(user(3), 0), (root(), 0o4000), (root().killing_privileges(), 0)] {
            file.setattr(&root(), &SetAttributes { mode: Some(0o4755), ..NONE }).unwrap();
            change(&caller);
            assert_eq!(file.getattr(&root()).unwrap().mode & 0o7000, bits, "{operation}");
        }
    }
}

#[test]
fn hidden_names_do_not_exist() {
    let lower = below();
    let below = walk(&lower, &root(), "d").unwrap().vnode;
    create(&below, &root(), "x.tmp", 0o666);
    create(&below, &root(), ".secret", 0o666);
    let upper = layer("map", &[("hide", "*.tmp:.secret")], lower.clone());
    let directory = walk(&upper, &root(), "d").unwrap().vnode;
    assert_eq!(list(&directory, &root()), ["file"]);
    let file = directory.lookup(&root(), name("file")).unwrap().vnode;
    let how = Creation { mode: 0o600, flags: OpenFlags::READ };
    let rename = |from: &str, to: &str, mode| directory.rename(&root(), name(from), &directory, name(to), mode);
    for (result, expected) in [
        (directory.lookup(&root(), name("x.tmp")).map(drop), Errno::ENOENT),
        (directory.unlink(&root(), name(".secret")), Errno::ENOENT),
        (rename("x.tmp", "y", RenameMode::Replace), Errno::ENOENT),
        (rename("file", "x.tmp", RenameMode::Exchange), Errno::ENOENT),
        (rename("file", "y.tmp", RenameMode::Replace), Errno::EACCES),
        (directory.create(&root(), name("x.tmp"), &how).map(drop), Errno::EACCES),
        (directory.mkdir(&root(), name("z.tmp"), 0o755).map(drop), Errno::EACCES),
        (directory.link(&root(), &file, name("z.tmp")).map(drop), Errno::EACCES),
        (upper.root().rmdir(&root(), name("d")), Errno::ENOTEMPTY),
    ] {
        assert_eq!(result, Err(expected));
    }
    assert_eq!(list(&below, &root()), [".secret", "file", "x.tmp"]);
    assert_eq!(file.path().unwrap(), b"d/file");
    assert!(!upper.properties().promises.names_untouched);
}

#[test]
fn denied_operations_are_denied_to_all() {
    let upper = layer("map", &[("deny", "delete:mknod")], below());
    let directory = walk(&upper, &root(), "d").unwrap().vnode;
    create(&directory, &root(), "new", 0o666);
    directory.mkdir(&root(), name("sub"), 0o755).unwrap();
    let rename = |to: &str, mode| directory.rename(&root(), name("new"), &directory, name(to), mode);
    for result in [
        directory.unlink(&root(), name("file")),
        directory.rmdir(&root(), name("sub")),
        directory.mknod(&root(), name("fifo"), FileKind::Fifo, 0o600, Device::default()).map(drop),
        rename("file", RenameMode::Replace),
    ] {
        assert_eq!(result, Err(Errno::EPERM));
    }
    assert_eq!(rename("other", RenameMode::Replace), Ok(()));
    let reading = layer("map", &[("deny", "read")], below());
    assert!(reading.properties().needs.every_data_operation);
    let file = walk(&reading, &root(), "d/file").unwrap().vnode.open(&root(), OpenFlags::READ).unwrap();
    assert_eq!(file.read_at(&root(), 0, &mut [0; 4]), Err(Errno::EPERM));
}

#[test]
fn extended_attributes_are_shown_changed_or_not_at_all() {
    let lower = below();
    let file = |options: &[(&str, &str)]| {
        let upper = layer("map", options, lower.clone());
        walk(&upper, &root(), "d/file").unwrap().vnode
    };
    let writable = file(&[("owner", "5")]);
    writable.setxattr(&user(5), b"user.x", b"1", XattrMode::Set).unwrap();
    assert_eq!(writable.setxattr(&user(1000), b"user.x", b"2", XattrMode::Set), Err(Errno::EACCES));
    assert_eq!(writable.getxattr(&user(9), b"user.x"), Err(Errno::EACCES));
    assert_eq!(writable.setxattr(&user(5), b"security.capability", b"2", XattrMode::Set), Err(Errno::EPERM));
    assert_eq!(writable.getxattr(&root(), b"system.posix_acl_access"), Err(Errno::EOPNOTSUPP));
    let readable = file(&[("xattr", "ro")]);
    assert_eq!(readable.getxattr(&root(), b"user.x").unwrap(), b"1");
    assert_eq!(readable.listxattr(&root()).unwrap(), b"user.x\0");
    assert_eq!(readable.removexattr(&root(), b"user.x"), Err(Errno::EPERM));
    let none = file(&[("xattr", "none")]);
    assert_eq!(none.getxattr(&root(), b"user.x"), Err(Errno::EOPNOTSUPP));
    assert_eq!(none.listxattr(&root()).unwrap(), b"");
    assert_eq!(none.setxattr(&root(), b"user.x", b"2", XattrMode::Set), Err(Errno::EOPNOTSUPP));
}

#[test]
fn wrong_options_say_what_is_right() {
    let problem = |options: &[(&str, &str)]| {
        let pairs: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        plyfs_layers::map::create(&pairs).unwrap_err()
    };
    assert!(problem(&[("ownr", "1")]).to_string().contains("it has owner, group, user-map"));
    assert!(problem(&[("owner", "no such user")]).to_string().contains("a name that exists"));
    assert!(problem(&[("perms", "u+q")]).to_string().contains("0644"));
    assert!(problem(&[("deny", "delte")]).to_string().contains("delete, getattr"));
    assert!(problem(&[("hide", "a/b")]).to_string().contains("without `/`"));
    assert_eq!(problem(&[("squash-user", "1")]).problem, OptionProblem::Missing);
    assert_eq!(problem(&[("chmod", "filter")]).problem, OptionProblem::Missing);
    let conflict = problem(&[("owner", "1"), ("user-map", "1/2")]).problem;
    assert_eq!(conflict, OptionProblem::Conflict { with: "user-map" });
}

/// Below it, a file of user 7 comes to be right after somebody was told that there is none of that name.
struct Latecomer;

impl Layer for Latecomer {
    type State = ();

    fn kind(&self) -> &'static str {
        "latecomer"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, wanted: Name<'_>) -> Result<Entry> {
        let found = node.forward_lookup(caller, wanted);
        if wanted == name("late") && found.is_err() {
            let how = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
            node.forward_create(&user(7), wanted, &how).unwrap();
        }
        found
    }
}

#[test]
fn what_comes_to_be_after_the_check_stays() {
    let below = || vnode::layer::stack(Latecomer, below());
    for operation in ["unlink", "rename", "rmdir", "exchange"] {
        let upper = layer("map", &[("user-map", "1000/2000")], below());
        let directory = walk(&upper, &root(), "d").unwrap().vnode;
        directory.setattr(&root(), &SetAttributes { mode: Some(0o1777), ..NONE }).unwrap();
        create(&directory, &user(8), "mine", 0o600);
        let rename = |mode| directory.rename(&user(8), name("mine"), &directory, name("late"), mode);
        let (refused, errno) = match operation {
            "unlink" => (directory.unlink(&user(8), name("late")), Errno::ENOENT),
            "rmdir" => (directory.rmdir(&user(8), name("late")), Errno::ENOENT),
            "exchange" => (rename(RenameMode::Exchange), Errno::ENOENT),
            _ => (rename(RenameMode::Replace), Errno::EPERM),
        };
        assert_eq!(refused, Err(errno), "{operation}");
        assert_eq!(list(&directory, &root()), ["file", "late", "mine"], "{operation}");
        let late = walk(&upper, &root(), "d/late").unwrap();
        assert_eq!(late.attributes.uid, 7, "{operation}");
        assert_eq!(rename(RenameMode::Replace), Err(Errno::EPERM), "{operation}");
    }
}

#[test]
fn set_id_bits_go_before_data_change_that_an_error_is_reported_of() {
    for (operation, way) in
        ["fallocate", "copy_file_range"].iter().flat_map(|one| [(one, "error"), (one, "late-error")])
    {
        let faulty = layer("faulty", &[("operations", operation), (way, "EIO")], below());
        let upper = layer("map", &[("user-map", "1000/2000")], faulty.clone());
        let file = walk(&upper, &root(), "d/file").unwrap().vnode;
        file.setattr(&root(), &SetAttributes { mode: Some(0o6777), ..NONE }).unwrap();
        let caller = user(5);
        let open = file.open(&caller, OpenFlags::READ_WRITE).unwrap();
        let answer = match *operation {
            "fallocate" => open.allocate(&caller, vnode::AllocateMode::ALLOCATE, 0, 100),
            _ => open.copy_range(&caller, 0, &open, 50, 5).map(drop),
        };
        assert_eq!(answer, Err(Errno::EIO), "{operation} {way}");
        assert_eq!(file.getattr(&root()).unwrap().mode & 0o6000, 0, "{operation} {way}");
    }
}

/// Below it, new objects get no owner: their names go to other files meanwhile.
struct FullQuota {
    below: FileSystemRef,
}

impl Layer for FullQuota {
    type State = ();

    fn kind(&self) -> &'static str {
        "full quota"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn setattr(&self, _: &LayerVnode<Self>, _: &Caller, _: &SetAttributes) -> Result<Attributes> {
        let directory = walk(&self.below, &root(), "d").unwrap().vnode;
        directory.unlink(&root(), name("taken"))?;
        create(&directory, &user(0), "taken", 0o600);
        Err(Errno::EDQUOT)
    }
}

#[test]
fn what_cannot_get_its_owner_goes_and_nothing_else_that_has_its_name() {
    for (made, left) in [("taken", &["file", "taken"][..]), ("new", &["file"])] {
        let below = below();
        let upper = layer(
            "map",
            &[("user-map", "1000/2000")],
            vnode::layer::stack(FullQuota { below: below.clone() }, below.clone()),
        );
        let directory = walk(&upper, &user(2000), "d").unwrap().vnode;
        let how = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
        let error = directory.create(&user(2000), name(made), &how).map(drop).unwrap_err();
        assert_eq!(error, if made == "taken" { Errno::EDQUOT } else { Errno::ENOENT });
        assert_eq!(list(&walk(&below, &root(), "d").unwrap().vnode, &root()), left);
    }
}

#[test]
fn only_who_may_read_and_write_a_file_of_others_links_to_it() {
    let protects = std::fs::read("/proc/sys/fs/protected_hardlinks").is_ok_and(|switch| !switch.starts_with(b"0"));
    let upper = layer("map", &[("user-map", "1000/2000"), ("squash", "root")], below());
    let directory = walk(&upper, &user(2000), "d").unwrap().vnode;
    let own = walk(&upper, &user(2000), "d/file").unwrap().vnode;
    directory.link(&user(2000), &own, name("another")).unwrap();
    directory.setattr(&user(2000), &SetAttributes { mode: Some(0o777), ..NONE }).unwrap();
    if protects {
        for by in [user(5), root()] {
            assert_eq!(directory.link(&by, &own, name("kept")).map(drop), Err(Errno::EPERM));
        }
    }
    own.setattr(&user(2000), &SetAttributes { mode: Some(0o666), ..NONE }).unwrap();
    directory.link(&user(5), &own, name("free")).unwrap();
}

/// `FS_IOC_SETFLAGS` of either width, and `FS_IOC_FSSETXATTR` for the same flags: the kernel checks neither of the first two
/// itself where a program asks for the other width.
#[test]
fn owning_a_file_in_a_view_allows_no_more_than_owning_it() {
    const NO_DUMP: u32 = 0x40;
    const IMMUTABLE: u32 = 0x10;
    const EXTENDED: u32 = 0x401c_5820;
    const EXTENDED_NO_DUMP: u32 = 0x80;
    const EXTENDED_IMMUTABLE: u32 = 0x8;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"data").unwrap();
    let flags = || rustix::fs::ioctl_getflags(std::fs::File::open(&path).unwrap());
    if !rustix::process::geteuid().is_root() || flags().is_err() {
        eprintln!("skipped: needs root and a file system with flags");
        return;
    }
    let base = bases::dir::DirectoryFileSystem::open(directory.path(), bases::dir::Options::default()).unwrap();
    let upper = layer("map", &[("user-map", "1000/2000")], std::sync::Arc::new(base));
    let container = || root().without_capabilities();
    let kept = flags().unwrap().bits();
    for owner in [1000, 0] {
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
        let shown = if owner == 0 { 0 } else { 2000 };
        let file = walk(&upper, &root(), "file").unwrap().vnode;
        let open = file.open(&root(), OpenFlags::READ).unwrap();
        let owner_in_view = if owner == 0 { container() } else { user(shown) };
        for (command, no_dump, immutable) in [
            (0x4008_6602, NO_DUMP, IMMUTABLE),
            (0x4004_6602, NO_DUMP, IMMUTABLE),
            (EXTENDED, EXTENDED_NO_DUMP, EXTENDED_IMMUTABLE),
        ] {
            let set = |caller: &Caller, bits: u32| {
                // As programs do: what ext4 notes of how the file is stored stays, which it may be unable to change.
                let bits = if command == EXTENDED { bits } else { bits | kept };
                let mut input = [0; 28];
                input[..4].copy_from_slice(&bits.to_ne_bytes());
                let by_file = open.ioctl(caller, command, &input, &mut []).map(drop);
                assert_eq!(file.ioctl(caller, command, &input, &mut []).map(drop), by_file);
                by_file
            };
            let has = |flag| flags().unwrap().contains(flag);
            let immutable_bit = rustix::fs::IFlags::IMMUTABLE;
            set(&owner_in_view, no_dump).unwrap();
            assert!(has(rustix::fs::IFlags::NODUMP), "{command:x}");
            assert_eq!(set(&owner_in_view, immutable), Err(Errno::EPERM), "{command:x}");
            assert_eq!(set(&user(7), no_dump), Err(Errno::EPERM), "{command:x}");
            set(&root(), immutable).unwrap();
            assert!(has(immutable_bit), "{command:x}");
            assert_eq!(set(&owner_in_view, no_dump), Err(Errno::EPERM), "{command:x}");
            assert!(has(immutable_bit), "{command:x}");
            set(&root(), 0).unwrap();
        }
    }
}

#[test]
fn squashed_callers_make_no_programs_that_run_as_whom_they_are_squashed_to() {
    for view in [&[][..], &[("perms", "a+rw")]] {
        let lower = below();
        let squash = [("squash", "all"), ("squash-user", "1000"), ("squash-group", "1000")];
        let upper = layer("map", &[&squash[..], view].concat(), lower.clone());
        let directory = upper.root().lookup(&root(), name("d")).unwrap().vnode;
        lower.root().lookup(&root(), name("d")).unwrap().vnode.setattr(&root(), &chmod(0o777)).unwrap();
        for (caller, may) in [(user(3), 0), (user(1000), 0o6000), (root(), 0)] {
            let how = Creation { mode: 0o6755, flags: OpenFlags::WRITE };
            let made = directory.create(&caller, name("program"), &how).unwrap().entry;
            let (path, bits) = ("d/program", |mode: u32| mode & 0o6000);
            assert_eq!(bits(seen(&lower, &root(), path).2) & !may, 0, "created by {}", caller.uid);
            made.vnode.setattr(&caller, &chmod(0o6755)).unwrap();
            assert_eq!(bits(seen(&lower, &root(), path).2), may, "chmod by {}", caller.uid);
            directory.unlink(&caller, name("program")).unwrap();
            // A directory's bit is no program's.
            directory.mkdir(&caller, name("below"), 0o755).unwrap().vnode.setattr(&caller, &chmod(0o2755)).unwrap();
            assert_eq!(bits(seen(&lower, &root(), "d/below").2), 0o2000, "directory of {}", caller.uid);
            directory.rmdir(&caller, name("below")).unwrap();
        }
    }
}

fn chmod(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..NONE }
}
