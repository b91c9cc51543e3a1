//! `map`: IDs mapped by names and offsets, access for mirrored users alone, and attributes that are shown otherwise or kept.

mod common;

use std::fs;

use common::owned::{NONE, below};
use common::{contents, create, layer, list, name, root, user, walk};
use plyfs_layers::OptionProblem;
use vnode::{
    AccessControl, AccessMode, Caller, Errno, FileSystemRef, OpenFlags, SetAttributes, SetTime, TimesTell, Timestamp,
};

fn ids(file_system: &FileSystemRef, path: &str) -> (u32, u32) {
    let attributes = walk(file_system, &root(), path).unwrap().attributes;
    (attributes.uid, attributes.gid)
}

fn chmod(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..NONE }
}

fn problem(options: &[(&str, &str)]) -> OptionProblem {
    let pairs: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    plyfs_layers::map::create(&pairs).unwrap_err().problem
}

#[test]
fn owners_and_groups_have_offsets_of_their_own() {
    let lower = below();
    let upper = layer("map", &[("user-offset", "5"), ("group-offset", "-7")], lower.clone());
    assert_eq!(ids(&upper, "d/file"), (1005, 993));
    let directory = walk(&upper, &root(), "d").unwrap().vnode;
    create(&directory, &Caller::with_groups(1005, 10, &[], 0), "new", 0o600);
    assert_eq!(ids(&lower, "d/new"), (1000, 17));
    let both = problem(&[("id-offset", "1"), ("group-offset", "1")]);
    assert_eq!(both, OptionProblem::Conflict { with: "group-offset" });
    let pairs = problem(&[("user-offset", "1"), ("passwd-below", "/dev/null")]);
    assert_eq!(pairs, OptionProblem::Conflict { with: "passwd-below" });
}

#[test]
fn ids_are_mapped_by_the_names_of_two_systems() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old = file("old", "alice:x:1000:1000::/:/bin/sh\nonly-old:x:7:7::/:/bin/sh\nbob:x:1001:1::/:/bin/sh\n");
    let new = file("new", "# accounts\nbob:x:3001:1::/:/bin/sh\nalice:x:3000:1::/:/bin/sh\n");
    let groups = file("groups", "root:x:1000:\n");
    let lower = below();
    let options = [("passwd-below", &*old), ("passwd-above", &new), ("groups-below", &groups)];
    let upper = layer("map", &options, lower.clone());
    assert_eq!(ids(&upper, "d/file"), (3000, 0), "the group by the groups of this system");
    let vnode = walk(&upper, &user(3000), "d").unwrap().vnode;
    create(&vnode, &user(3000), "new", 0o600);
    assert_eq!(ids(&lower, "d/new").0, 1000);
    // The other direction, and a pair that is given.
    let reversed = [("passwd-below", &*new), ("passwd-above", &old), ("user-map", "1000/9")];
    assert_eq!(ids(&layer("map", &reversed, lower.clone()), "d/file").0, 9);
    let reversed = [("groups-above", &*groups)];
    assert_eq!(ids(&layer("map", &reversed, lower), "").1, 1000);

    let wrong = file("wrong", "alice:x:1000\n\nbob\n");
    assert!(matches!(problem(&[("passwd-below", &wrong)]), OptionProblem::FileLine { line: 3, .. }));
    let missing = problem(&[("groups-above", "/nothing/here")]);
    assert_eq!(missing, OptionProblem::File { path: "/nothing/here".to_owned(), error: Errno::ENOENT });
}

#[test]
fn where_users_are_mirrored_alone_others_have_no_access() {
    let lower = below();
    let upper = layer("map", &[("mirror-only", "5:@60")], lower.clone());
    let member = Caller::with_groups(6, 6, &[60], 0o022);
    for caller in [user(5), member] {
        let entry = walk(&upper, &caller, "d/file").unwrap();
        assert_eq!((entry.attributes.uid, entry.attributes.mode), (caller.uid, 0o640));
        assert_eq!(contents(&entry.vnode, &caller), b"data");
    }
    let directory = walk(&upper, &user(5), "d").unwrap().vnode;
    let file = walk(&upper, &user(5), "d/file").unwrap().vnode;
    for caller in [root(), user(1000)] {
        assert_eq!(walk(&upper, &caller, "d").map(drop), Err(Errno::EACCES));
        assert_eq!(file.open(&caller, OpenFlags::READ).map(drop), Err(Errno::EACCES));
        assert_eq!(file.access(&caller, AccessMode::READ), Err(Errno::EACCES));
        assert_eq!(file.setattr(&caller, &chmod(0o777)), Err(Errno::EACCES));
        assert_eq!(file.getxattr(&caller, b"user.x"), Err(Errno::EACCES));
        assert_eq!(directory.open_directory(&caller).map(drop), Err(Errno::EACCES));
        assert_eq!(directory.mkdir(&caller, name("x"), 0o777).map(drop), Err(Errno::EACCES));
        assert_eq!(directory.unlink(&caller, name("file")), Err(Errno::EACCES));
        // The mount point can be examined, and what is open already stays of use.
        assert_eq!(upper.root().getattr(&caller).unwrap().mode, 0);
        let open = file.open(&user(5), OpenFlags::READ).unwrap();
        assert_eq!(open.read_at(&caller, 0, &mut [0; 9]), Ok(4));
    }
    assert_eq!(list(&directory, &user(5)), ["file"]);
    assert_eq!(upper.properties().promises.access_control, AccessControl::NotShown);
    let both = problem(&[("mirror", "1"), ("mirror-only", "2")]);
    assert_eq!(both, OptionProblem::Conflict { with: "mirror-only" });
}

#[test]
fn execute_permissions_of_files_change_where_others_do_not() {
    for view in [None, Some(("owner", "1000"))] {
        let with = |options: &[(&str, &str)]| {
            let options: Vec<_> = options.iter().copied().chain(view).chain([("chmod-allow-x", "yes")]).collect();
            let lower = below();
            let upper = layer("map", &options, lower.clone());
            (lower, walk(&upper, &root(), "d/file").unwrap().vnode, walk(&upper, &root(), "d").unwrap().vnode)
        };
        let mode = |lower: &FileSystemRef, path: &str| walk(lower, &root(), path).unwrap().attributes.mode;

        let (lower, file, directory) = with(&[("chmod", "ignore")]);
        assert_eq!(file.setattr(&user(1000), &chmod(0o707)).unwrap().mode, 0o741);
        assert_eq!(file.setattr(&user(1000), &chmod(0)).unwrap().mode, 0o640);
        assert_eq!(file.setattr(&user(3), &chmod(0o777)), Err(Errno::EPERM));
        directory.setattr(&user(1000), &chmod(0o700)).unwrap();
        assert_eq!((mode(&lower, "d/file"), mode(&lower, "d")), (0o640, 0o755));

        let (lower, file, directory) = with(&[("chmod", "deny")]);
        assert_eq!(file.setattr(&user(1000), &chmod(0o750)).unwrap().mode, 0o750);
        assert_eq!(file.setattr(&user(1000), &chmod(0o700)), Err(Errno::EPERM));
        assert_eq!(file.setattr(&user(3), &chmod(0o740)), Err(Errno::EPERM));
        assert_eq!(directory.setattr(&user(1000), &chmod(0o700)), Err(Errno::EPERM));
        assert_eq!((mode(&lower, "d/file"), mode(&lower, "d")), (0o750, 0o755));

        let (lower, file, directory) = with(&[("chmod", "filter"), ("chmod-filter", "go=")]);
        file.setattr(&user(1000), &chmod(0o775)).unwrap();
        directory.setattr(&user(1000), &chmod(0o775)).unwrap();
        assert_eq!((mode(&lower, "d/file"), mode(&lower, "d")), (0o711, 0o700));
    }
    assert_eq!(problem(&[("chmod-allow-x", "yes")]), OptionProblem::Missing);
}

#[test]
fn the_time_of_a_change_is_that_of_the_data() {
    let lower = below();
    for options in [vec![("ctime-from-mtime", "yes")], vec![("ctime-from-mtime", "yes"), ("owner", "5")]] {
        let upper = layer("map", &options, lower.clone());
        let file = walk(&upper, &root(), "d/file").unwrap().vnode;
        let past = Timestamp { seconds: 5, nanoseconds: 6 };
        let changed = file.setattr(&root(), &SetAttributes { mtime: Some(SetTime::To(past)), ..NONE }).unwrap();
        assert_eq!((changed.ctime, file.getattr(&root()).unwrap().ctime), (past, past));
        assert_ne!(walk(&lower, &root(), "d/file").unwrap().attributes.ctime, past);
        let created = upper.root().mkdir(&root(), name("new"), 0o755).unwrap().attributes;
        assert_eq!(created.ctime, created.mtime);
        upper.root().rmdir(&root(), name("new")).unwrap();
        let promises = upper.properties().promises;
        assert_eq!((promises.times_tell_changes, promises.attributes_untouched), (TimesTell::OfNone, false));
    }
}

#[test]
fn each_name_of_a_file_is_shown_as_its_only_one() {
    let lower = below();
    let upper = layer("map", &[("hide-hard-links", "yes")], lower.clone());
    let (directory, file) = (walk(&upper, &root(), "d").unwrap().vnode, walk(&upper, &root(), "d/file").unwrap().vnode);
    directory.link(&root(), &file, name("other")).unwrap();
    for path in ["d/file", "d/other"] {
        assert_eq!(walk(&upper, &root(), path).unwrap().attributes.nlink, 1, "{path}");
        assert_eq!(walk(&lower, &root(), path).unwrap().attributes.nlink, 2, "{path}");
    }
    assert_eq!(directory.getattr(&root()).unwrap().nlink, 2, "a directory has links of its own");
    let open = file.open(&root(), OpenFlags::READ).unwrap();
    for path in ["file", "other"] {
        directory.unlink(&root(), name(path)).unwrap();
    }
    assert_eq!(open.getattr(&root()).unwrap().nlink, 0);
}
