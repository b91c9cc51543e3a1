//! Arguments of operations that rules assign: the operation gets them below.

use vnode::{Caller, Creation, Device, Errno, FileKind, OpenFlags, RenameMode, SetAttributes, VnodeRef};

use super::{attributes, create, described, in_both_tiers, name, names_in, user, write};

/// Makes one of each kind that has a name.
fn make_all(root: &VnodeRef) {
    let server = Caller::server();
    root.mkdir(&server, name("directory"), 0o777).unwrap();
    root.mknod(&server, name("fifo"), FileKind::Fifo, 0o666, Device::default()).unwrap();
    root.symlink(&server, name("symlink"), b"nowhere").unwrap();
    let file = create(root, &server, "file").unwrap().entry.vnode;
    root.link(&server, &file, name("link")).unwrap();
}

#[test]
fn what_is_made_and_found_has_the_name_that_a_rule_gives_it() {
    let rules = "%%\n%createops:name:precall { $name = fistStrAdd($name, \".new\"); }\n";
    in_both_tiers("names", rules, |mount| {
        make_all(&mount.root());
        let expected = ["directory.new", "fifo.new", "file.new", "link.new", "symlink.new"];
        assert_eq!(names_in(&mount.root_below(0)), expected);
        let properties = mount.file_system.properties();
        assert!(properties.needs.every_lookup && properties.needs.failed_lookups, "the kernel keeps no names");
    });
    let rules = "%%\n%op:name:precall { $name = fistStrAdd(\"x\", $name); }\n%op:rename:precall { $toname = fistStrAdd(\"y\", $toname); }\n";
    in_both_tiers("names", rules, |mount| {
        let (root, below, server) = (mount.root(), mount.root_below(0), Caller::server());
        make_all(&root);
        assert_eq!(names_in(&below), ["xdirectory", "xfifo", "xfile", "xlink", "xsymlink"]);
        assert!(root.lookup(&server, name("file")).is_ok());
        assert_eq!(root.lookup(&server, name("xfile")).err(), Some(Errno::ENOENT));
        root.unlink(&server, name("fifo")).unwrap();
        root.rmdir(&server, name("directory")).unwrap();
        root.rename(&server, name("file"), &root, name("renamed"), RenameMode::Replace).unwrap();
        assert_eq!(names_in(&below), ["xlink", "xsymlink", "yrenamed"]);
    });
}

#[test]
fn names_stay_in_their_directory() {
    let long = "x".repeat(256);
    for (assigned, error) in [
        ("", Errno::ENOENT),
        (".", Errno::EINVAL),
        ("..", Errno::EINVAL),
        ("a/b", Errno::EINVAL),
        ("/", Errno::EINVAL),
        ("../a", Errno::EINVAL),
        (&long, Errno::ENAMETOOLONG),
    ] {
        let rules = format!(
            "per_vfs {{ int done; }};\n%%\n%op:name:precall {{ if ($name[0] == 'a') {{ $name = \"{assigned}\"; $vfs.done = 1; }} }}\n\
            %op:rename:precall {{ if ($toname[0] == 'a') $toname = \"{assigned}\"; }}\n\
            %op:statfs:precall {{ if ($vfs.done) fistRetErr(EBUSY); }}\n"
        );
        in_both_tiers("names", &rules, |mount| {
            let (root, server) = (mount.root(), Caller::server());
            write(&root, &server, "file", b"text").unwrap();
            assert_eq!(mount.mkdir("a"), Err(error), "{assigned}");
            assert_eq!(create(&root, &server, "a").err(), Some(error), "{assigned}");
            assert_eq!(root.lookup(&server, name("a")).err(), Some(error), "{assigned}");
            assert_eq!(root.unlink(&server, name("a")), Err(error), "{assigned}");
            let rename = |from, to| root.rename(&server, name(from), &root, name(to), RenameMode::Replace);
            assert_eq!((rename("file", "a"), rename("a", "file")), (Err(error), Err(error)), "{assigned}");
            assert_eq!(names_in(&mount.root_below(0)), ["file"], "{assigned}");
            assert!(root.statfs(&server).is_ok(), "the rule has ended where it assigned what cannot be");
        });
    }
}

#[test]
fn modes_sizes_and_owners_are_what_a_rule_makes_of_them() {
    let rules = "%%\n%createops:all:precall { $mode = $mode & 0750 | 01; }\n\
        %op:setattr:precall { if ($mode >= 0) $mode &= ~022; if ($size > 100) $size = 100; if ($owner == 7) { $owner = -1; $group = 9; } }\n\
        %op:truncate:call { if ($size > 10) $size = 10; fistSetErr(fistOp($1)); }\n";
    in_both_tiers("modes", rules, |mount| {
        let (root, below, server) = (mount.root(), mount.root_below(0), Caller::server());
        root.mkdir(&server, name("directory"), 0o777).unwrap();
        root.mknod(&server, name("fifo"), FileKind::Fifo, 0o666, Device::default()).unwrap();
        let file = create(&root, &server, "file").unwrap();
        let how = Creation { mode: 0o777, flags: OpenFlags::READ_WRITE };
        let unnamed = root.tmpfile(&server, &how).unwrap().entry.attributes;
        let mode = |at| attributes(&below, at).mode;
        assert_eq!([mode("directory"), mode("fifo"), mode("file"), unnamed.mode], [0o751, 0o641, 0o641, 0o751]);
        let vnode = file.entry.vnode;
        let change = |changes: SetAttributes| vnode.setattr(&server, &changes).unwrap();
        assert_eq!(change(SetAttributes { mode: Some(0o666), ..Default::default() }).mode, 0o644);
        assert_eq!(change(SetAttributes { size: Some(5000), ..Default::default() }).size, 100);
        let changed = change(SetAttributes { uid: Some(7), ..Default::default() });
        assert_eq!((changed.uid, changed.gid), (0, 9));
        file.file.truncate(&server, 50).unwrap();
        assert_eq!(attributes(&below, "file").size, 10);
        file.file.truncate(&server, 5).unwrap();
        assert_eq!(attributes(&below, "file").size, 5);
    });
}

#[test]
fn a_symbolic_link_points_to_where_a_rule_has_it_point() {
    let rules = "%%\n%op:symlink:precall { $target = $target[0] == 'l' ? fistStrAdd(\"/\", $target) : \"\"; }\n";
    in_both_tiers("links", rules, |mount| {
        let (root, server) = (mount.root(), Caller::server());
        let made = root.symlink(&server, name("one"), b"lost").unwrap().vnode;
        assert_eq!(made.readlink(&server).unwrap(), b"/lost");
        assert_eq!(root.symlink(&server, name("other"), b"x").err(), Some(Errno::ENOENT));
    });
}

#[test]
fn numbers_that_an_argument_cannot_be_refuse_the_operation() {
    let rules = "per_vfs { int n; };\nioctl:fromuser SET 1 { long mode; };\n%%\n%op:mkdir:precall { $mode = 010000; }\n\
        %op:create:precall { $mode = -1; }\n%op:truncate:precall { $size = -1; }\n%op:setattr:precall { $owner = 4294967295; }\n";
    in_both_tiers("modes", rules, |mount| {
        let (root, server) = (mount.root(), Caller::server());
        assert_eq!(mount.mkdir("new"), Err(Errno::EINVAL));
        assert_eq!(create(&root, &server, "new").err(), Some(Errno::EINVAL));
        let changes = SetAttributes { mode: Some(0o700), ..Default::default() };
        assert_eq!(root.setattr(&server, &changes).err(), Some(Errno::EINVAL));
        let file = create(&mount.root_below(0), &server, "file").unwrap();
        file.file.write_at(&server, 0, b"text").unwrap();
        let opened = root.lookup(&server, name("file")).unwrap().vnode.open(&server, OpenFlags::READ_WRITE).unwrap();
        assert_eq!(opened.truncate(&server, 2), Err(Errno::EINVAL));
        assert_eq!((names_in(&mount.root_below(0)).len(), attributes(&mount.root_below(0), "file").size), (1, 4));
    });
}

/// Nobody gets more by a rule than he could have asked for.
#[test]
fn rules_change_no_attributes_that_the_caller_may_not() {
    let (owner, other) = (user(1000), user(1001));
    // Whoever may write to the file may cut it, and nothing else.
    for (assignment, of_owner, of_other) in [
        ("$mode = 04755", Ok(()), Err(Errno::EPERM)),
        ("$mode = 02755", Err(Errno::EPERM), Err(Errno::EPERM)),
        ("$owner = 1001", Err(Errno::EPERM), Err(Errno::EPERM)),
        ("$owner = 0", Err(Errno::EPERM), Err(Errno::EPERM)),
        ("$owner = 1000", Ok(()), Err(Errno::EPERM)),
        ("$group = 0", Err(Errno::EPERM), Err(Errno::EPERM)),
        ("$group = 1000", Ok(()), Err(Errno::EPERM)),
        ("$size = 1", Ok(()), Ok(())),
    ] {
        let rules = format!("%%\n%op:setattr:precall {{ if ($size >= 0) {assignment}; }}\n");
        in_both_tiers("rights", &rules, |mount| {
            let (root, server) = (mount.root(), Caller::server());
            let file = create(&root, &server, "file").unwrap().entry.vnode;
            // The group is one that the owner is not in.
            let ready = SetAttributes { uid: Some(1000), gid: Some(2000), mode: Some(0o666), ..Default::default() };
            file.setattr(&server, &ready).unwrap();
            let before = file.getattr(&server).unwrap();
            let cut = SetAttributes { size: Some(0), ..Default::default() };
            for (caller, expected) in [(&other, of_other), (&owner, of_owner)] {
                let done = file.setattr(caller, &cut).map(drop);
                assert_eq!(done, expected, "{assignment} of {}", caller.uid);
                let now = file.getattr(&server).unwrap();
                if done.is_err() {
                    assert_eq!((now.mode, now.uid, now.gid), (before.mode, before.uid, before.gid), "{assignment}");
                }
            }
        });
    }
    // A size that is added needs what writing needs.
    let rules = "%%\n%op:setattr:precall { $size = 0; }\n";
    in_both_tiers("rights", rules, |mount| {
        let (root, server) = (mount.root(), Caller::server());
        write(&root, &server, "file", b"text").unwrap();
        let file = root.lookup(&server, name("file")).unwrap().vnode;
        let touch = SetAttributes { atime: Some(vnode::SetTime::Now), ..Default::default() };
        assert_eq!(file.setattr(&other, &touch).err(), Some(Errno::EACCES));
        assert_eq!(file.getattr(&server).unwrap().size, 4);
        assert_eq!(file.setattr(&server, &touch).unwrap().size, 0);
    });
}

#[test]
fn rules_below_see_what_rules_above_have_assigned() {
    let directory = tempfile::tempdir().unwrap();
    let file = |at: &str, text: &str| {
        let path = directory.path().join(at);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let upper = file("upper.fist", "%%\n%op:mkdir:precall { $name = fistStrAdd(\"b\", $name); $mode = 0701; }\n");
    let lower = file(
        "lower.fist",
        "%%\n%op:mkdir:precall { if ($name[0] != 'b' || $mode != 0701) fistRetErr(EPERM); $name += 1; $mode |= 010; }\n",
    );
    for collapse in ["yes", "no"] {
        let stack = format!("mem: | {lower}(collapse={collapse}) | {upper}(collapse={collapse})");
        let file_system = plyfs_stack::build(&plyfs_stack::syntax::parse(&stack).unwrap()).unwrap();
        let is_one = file_system.describe().iter().any(|member| member.details.contains("in one layer with"));
        assert_eq!(is_one, collapse == "yes");
        let root = file_system.root();
        root.mkdir(&Caller::server(), name("new"), 0o777).unwrap();
        assert_eq!((names_in(&root), attributes(&root, "new").mode), (vec!["new".to_owned()], 0o711), "{collapse}");
    }
}

/// Whether the caller may set it is asked below, which a rule there for that would see.
#[test]
fn rules_that_set_attributes_are_no_one_layer_with_rules_for_asking() {
    let directory = tempfile::tempdir().unwrap();
    let file = |at: &str, text: &str| {
        let path = directory.path().join(at);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let lower = file("lower.fist", "%%\n%op:getattr:precall { fistPrintf(\"asked\"); }\n");
    for (body, expected) in [("$mode = 0700;", false), ("if ($mode) fistPrintf(\"set\");", true)] {
        let upper = file("upper.fist", &format!("%%\n%op:setattr:precall {{ {body} }}\n"));
        let stack = format!("mem: | {lower} | {upper}");
        let file_system = plyfs_stack::build(&plyfs_stack::syntax::parse(&stack).unwrap()).unwrap();
        let is_one = file_system.describe().iter().any(|member| member.details.contains("in one layer with"));
        assert_eq!(is_one, expected, "{body}");
    }
}

#[test]
fn what_a_rule_reads_is_what_it_has_assigned() {
    let rules = "%%\n%op:unlink:precall {\n    if ($0.size != 1) fistRetErr(EIO);\n    $name = \"two\";\n\
        \x20   if ($0.size != 2 || !fistStrEq($name, \"two\")) fistRetErr(EBUSY);\n}\n\
        %op:unlink:postcall { if (!fistStrEq($name, \"two\")) fistSetErr(EBUSY); }\n";
    let mount = described("names", rules, &[]);
    let (root, server) = (mount.root(), Caller::server());
    write(&root, &server, "one", b"1").unwrap();
    write(&root, &server, "two", b"22").unwrap();
    root.unlink(&server, name("one")).unwrap();
    assert_eq!(names_in(&root), ["one"]);
}

#[test]
fn what_a_caller_may_not_look_up_has_no_handle_for_it() {
    let rules = "%%\n%op:lookup:precall { if ($name[0] == '.') fistRetErr(ENOENT); \
                 if ($name[0] == 'p' && %uid == 5) fistRetErr(EACCES); }\n";
    in_both_tiers("hides", rules, |mount| {
        let (below, server) = (mount.root_below(0), Caller::server());
        let file = |text: &str| create(&below, &server, text).unwrap().entry.vnode.handle();
        let (plain, hidden, private) = (file("file"), file(".hidden"), file("private"));
        let directory = below.mkdir(&server, name("p"), 0o755).unwrap().vnode;
        let inside = create(&directory, &server, "file").unwrap().entry.vnode.handle();
        let resolve = |caller: &Caller, handle| mount.file_system.resolve(caller, handle).map(drop);
        for caller in [user(5), user(6), server.clone()] {
            assert_eq!(resolve(&caller, &plain), Ok(()));
        }
        for caller in [user(5), user(6)] {
            assert_eq!(resolve(&caller, &hidden), Err(Errno::ESTALE));
        }
        for handle in [&private, &inside] {
            assert_eq!(resolve(&user(5), handle), Err(Errno::EACCES));
            assert_eq!(resolve(&user(6), handle), Ok(()));
        }
        // What the server has recorded.
        assert_eq!(resolve(&server, &hidden), Ok(()));
    });
}
