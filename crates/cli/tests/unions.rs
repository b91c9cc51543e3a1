//! Mounted unions: branches that change under running programs, and data that never goes past a copy.

mod support;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::process::{Pid, Signal, kill_process};
use support::{Scratch, can_mount, requests, run, umount, wait_until};

/// The union of the directories `upper` and `lower` in the scratch directory, mounted.
fn mounted(scratch: &Scratch) -> String {
    for name in ["upper", "lower"] {
        fs::create_dir_all(scratch.path(name)).unwrap();
    }
    let mount = scratch.name("mount");
    run(["mount", &stack(scratch), &mount]).succeeded();
    mount
}

fn stack(scratch: &Scratch) -> String {
    format!("{}=rw, {}=ro | union", scratch.name("upper"), scratch.name("lower"))
}

#[test]
fn branches_change_while_programs_use_them() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for (path, text) in [("lower/f", "lower"), ("new/f", "new"), ("new/d/g", "g")] {
        fs::create_dir_all(scratch.path(path).parent().unwrap()).unwrap();
        fs::write(scratch.path(path), text).unwrap();
    }
    let mount = mounted(&scratch);
    let see = |path: &str| fs::read_to_string(scratch.path(&format!("mount/{path}"))).ok();
    let branch = |name: &str| scratch.name(name);
    assert_eq!((see("f").as_deref(), see("d/g")), (Some("lower"), None));
    let list = run(["union", "add", &mount, &format!("{}=ro", branch("new")), "--at", "1"]).succeeded();
    assert_eq!(list, format!("{}=rw\n{}=ro\n{}=ro\n", branch("upper"), branch("new"), branch("lower")));
    assert_eq!((see("f").as_deref(), see("d/g").as_deref()), (Some("new"), Some("g")));
    run(["union", "move", &mount, "1", "2"]).succeeded();
    assert_eq!(see("f").as_deref(), Some("lower"));
    run(["union", "mode", &mount, &branch("new"), "rw"]).succeeded();
    fs::write(scratch.path("mount/d/g"), "changed").unwrap();
    assert_eq!(fs::read_to_string(scratch.path("new/d/g")).unwrap(), "changed");
    run(["union", "rm", &mount, &branch("new")]).succeeded();
    assert_eq!((see("f").as_deref(), see("d/g")), (Some("lower"), None));
    assert_eq!(run(["union", "list", &mount]).succeeded().lines().count(), 2);
    let unknown = run(["union", "remove", &mount, "/nowhere"]);
    assert!(unknown.code != 0 && unknown.errors.contains("there is no branch /nowhere"), "{unknown:?}");
    umount(&mount);
}

#[test]
fn branches_are_named_by_paths_as_they_are_typed() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("my data")).unwrap();
    let mount = mounted(&scratch);
    let (new, lower) = (scratch.name("my data"), scratch.name("lower"));
    let list = run(["union", "add", &mount, &format!("{new}=ro")]).succeeded();
    assert!(list.contains(&format!("\"{new}\"=ro\n")), "{list}");
    let list = run(["union", "remove", &mount, &format!("{new}/")]).succeeded();
    assert!(!list.contains("my data"), "{list}");
    let list = run(["union", "remove", &mount, &format!("{lower}//")]).succeeded();
    assert_eq!(list, format!("{}=rw\n", scratch.name("upper")));
    umount(&mount);
}

#[test]
fn branches_that_are_not_what_they_seem_are_named() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (upper, lower, mount) = (scratch.name("upper"), scratch.name("lower"), scratch.name("mount"));
    ["upper", "lower/inner"].iter().for_each(|name| fs::create_dir_all(scratch.path(name)).unwrap());
    let cases = [
        (format!("{lower}=ro, {upper}=rw | union"), format!("no branch before {lower} can be written")),
        (format!("{upper}, {lower}, {lower}/. | union"), format!("the branch {lower} is given twice")),
        (
            format!("{upper}, {lower}, {lower}/inner | union"),
            format!("the branch {lower}/inner is in the branch {lower}"),
        ),
    ];
    for (stack, warning) in cases {
        let result = run(["mount", &stack, &mount]);
        umount(&mount);
        assert!(result.code == 0 && result.errors.starts_with(&format!("plyfs: warning: {warning}")), "{result:?}");
        assert_eq!(result.errors.lines().count(), 1, "{result:?}");
    }
    let usual = run(["mount", &stack(&scratch), &mount]);
    umount(&mount);
    assert_eq!((usual.code, usual.errors.as_str()), (0, ""));
}

#[test]
fn cached_data_stay_over_an_open_unless_they_are_those_of_another_file() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, path, below) = (scratch.name("mount"), scratch.path("mount/f"), scratch.path("lower/f"));
    for name in ["upper", "lower"] {
        fs::create_dir(scratch.path(name)).unwrap();
    }
    fs::write(&below, [1; 300_000]).unwrap();
    let stack = format!("{}(metacopy=on)", stack(&scratch));
    run(["mount", "-o", "nopassthrough", &stack, &mount]).succeeded();
    // As long as times may not tell a change, nothing is kept.
    let settle = || std::thread::sleep(Duration::from_millis(50));
    let read_anew = |expected: u8| {
        let before = requests(&mount, "read");
        assert_eq!(fs::read(&path).unwrap(), [expected; 300_000]);
        requests(&mount, "read") > before
    };
    settle();
    assert!(read_anew(1));
    // On a busy machine it takes longer until times tell.
    wait_until("it is cached", || !read_anew(1));
    fs::write(&path, [2; 300_000]).unwrap();
    settle();
    wait_until("it is cached, in the other branch", || !read_anew(2));
    fs::remove_file(&path).unwrap();
    fs::write(&below, [3; 300_000]).unwrap();
    fs::remove_file(scratch.path("upper/.wh.f")).unwrap();
    settle();
    wait_until("the file is back", || path.exists());
    // A copy of the metadata only: its times say nothing of the data.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    settle();
    assert!(read_anew(3) && read_anew(3));
    fs::write(&below, [4; 300_000]).unwrap();
    assert!(read_anew(4));
    umount(&mount);
}

#[test]
fn a_file_open_for_reading_sees_what_is_written_to_its_copy() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("lower")).unwrap();
    fs::write(scratch.path("lower/f"), "as it was").unwrap();
    let mount = mounted(&scratch);
    let path = scratch.path("mount/f");
    let mut reader = File::open(&path).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "as it was");
    let number = reader.metadata().unwrap().ino();
    let mut writer = File::options().write(true).open(&path).unwrap();
    writer.write_all(b"now it is").unwrap();
    reader.seek(SeekFrom::Start(0)).unwrap();
    text.clear();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "now it is");
    assert_eq!((reader.metadata().unwrap().ino(), fs::metadata(&path).unwrap().ino()), (number, number));
    assert_eq!(fs::read_to_string(scratch.path("lower/f")).unwrap(), "as it was", "the lower branch is never written");
    assert_eq!(fs::read_to_string(scratch.path("upper/f")).unwrap(), "now it is");
    drop((reader, writer));
    umount(&mount);
}

#[test]
fn locks_are_between_programs_of_the_mount_unless_they_are_to_reach_the_branches() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for (path, text) in [("lower/f", "lower"), ("upper/g", "upper")] {
        fs::create_dir_all(scratch.path(path).parent().unwrap()).unwrap();
        fs::write(scratch.path(path), text).unwrap();
    }
    let open = |path: &str| File::options().read(true).write(true).open(scratch.path(path)).unwrap();
    for reaches_branches in [false, true] {
        let mount = mounted(&scratch);
        if reaches_branches {
            umount(&mount);
            run(["mount", &stack(&scratch), &mount, "-o", "locks=base"]).succeeded();
        }
        let (inside, outside) = (open("mount/g"), open("upper/g"));
        fcntl_lock(&inside, FlockOperation::NonBlockingLockExclusive).unwrap();
        let seen = fcntl_lock(&outside, FlockOperation::NonBlockingLockExclusive).is_err();
        assert_eq!(seen, reaches_branches);
        drop(inside);
        let status = run(["status", &mount]).succeeded();
        assert_eq!(status.contains(" flush\n"), reaches_branches, "{status}");
        let reader = File::open(scratch.path("mount/f")).unwrap();
        flock(&reader, FlockOperation::LockExclusive).unwrap();
        // Opening it so copies it.
        let writer = open("mount/f");
        assert!(flock(&writer, FlockOperation::NonBlockingLockExclusive).is_err(), "the lock did not follow the copy");
        drop((reader, writer));
        umount(&mount);
    }
}

#[test]
fn a_branch_with_files_that_the_kernel_writes_stays_writable() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch);
    let mut open = File::create(scratch.path("mount/open")).unwrap();
    open.write_all(b"1").unwrap();
    let upper = scratch.name("upper");
    let refused = run(["union", "mode", &mount, &upper, "ro"]);
    if rustix::process::geteuid().is_root() {
        assert!(
            refused.code != 0 && refused.errors.contains("1 files of") && refused.errors.contains(": open"),
            "{refused:?}"
        );
    }
    drop(open);
    support::wait_until("the file is closed", || run(["union", "mode", &mount, &upper, "ro"]).code == 0);
    assert_eq!(fs::write(scratch.path("mount/open"), "2").unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    umount(&mount);
}

/// By root, or, where a pattern names branches, by whoever owns a directory.
#[test]
fn a_union_does_not_wait_for_its_own_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = scratch.name("mount");
    ["disks/d1", "disks/d2"].iter().for_each(|name| fs::create_dir_all(scratch.path(name)).unwrap());
    fs::remove_dir(scratch.path("disks/d2")).unwrap();
    run(["mount", &format!("{}/d*=rw | union", scratch.name("disks")), &mount]).succeeded();
    fs::create_dir(scratch.path("mount/below")).unwrap();
    for branch in [mount.clone(), format!("{mount}/below")] {
        let added = run(["union", "add", &mount, &format!("{branch}=ro")]);
        assert!(added.code != 0 && added.errors.contains("is in a mount of the same server"), "{branch}: {added:?}");
    }
    std::os::unix::fs::symlink(&mount, scratch.path("disks/d2")).unwrap();
    assert_ne!(run(["union", "rescan", &mount]).code, 0);
    assert!(scratch.path("mount/below").exists());
    umount(&mount);
}

#[test]
fn the_branches_of_a_union_are_checked_and_repaired() {
    let scratch = Scratch::new();
    for path in ["upper/d/f", "upper/d/.wh.f", "upper/.wh.gone", "lower/x"] {
        fs::create_dir_all(scratch.path(path).parent().unwrap()).unwrap();
        fs::write(scratch.path(path), "").unwrap();
    }
    let (upper, lower) = (scratch.name("upper"), scratch.name("lower"));
    let stack = format!("{upper}=rw, {lower} | union | audit");
    let line = |outcome: &str| format!("{upper}: d/f stands beside its own whiteout; {outcome}\n");
    for words in [["union", "check", &stack, "--"], ["union", "check", &upper, &lower]] {
        let found = run(words);
        assert_eq!((found.code, found.output), (1, line("--repair would remove the whiteout")));
        assert_eq!(found.errors, "plyfs: 1 finding; to repair it, add --repair\n");
    }
    assert_eq!(run(["union", "check", "--repair", &stack]).succeeded(), line("repaired"));
    assert_eq!(run(["union", "check", &stack]).succeeded(), "");
    let idle = run(["union", "check", "--idle", &stack]);
    assert_eq!(idle.code, 1);
    assert!(idle.output.starts_with(&format!("{upper}: .wh.gone is a whiteout that hides nothing")), "{idle:?}");
    let single = run(["union", "check", &format!("{lower} | readonly")]);
    assert_eq!(single.code, 3, "{single:?}");
    assert_eq!(run(["union", "check", &scratch.name("missing")]).code, 5);
}

#[test]
fn programs_do_not_notice_that_a_file_was_copied_without_its_data() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for name in ["upper", "lower"] {
        fs::create_dir(scratch.path(name)).unwrap();
    }
    let data: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
    fs::write(scratch.path("lower/f"), &data).unwrap();
    let mount = scratch.name("mount");
    let stack = format!("{}=rw, {}=ro | union(metacopy=on)", scratch.name("upper"), scratch.name("lower"));
    run(["mount", &stack, &mount]).succeeded();
    let path = scratch.path("mount/f");
    let early = File::open(&path).unwrap();
    let blocks = early.metadata().unwrap().blocks();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let upper = || File::open(scratch.path("upper/f")).unwrap();
    let has_data = || rustix::fs::seek(upper(), rustix::fs::SeekFrom::Data(0)).is_ok();
    assert!(!has_data());
    assert_eq!((fs::metadata(&path).unwrap().blocks(), fs::read(&path).unwrap()), (blocks, data.clone()));
    // SAFETY: nobody maps it elsewhere, and it is not made shorter.
    let map = |file: &File| unsafe {
        let (read, shared) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        let at = rustix::mm::mmap(std::ptr::null_mut(), data.len(), read, shared, file, 0).unwrap();
        std::slice::from_raw_parts(at.cast::<u8>(), data.len())
    };
    let late = File::open(&path).unwrap();
    let maps = [map(&early), map(&late)];
    assert!(maps.iter().all(|map| **map == data[..]));
    let archive = std::process::Command::new("tar").args(["-S", "-c", "-C", &mount, "f"]).output().unwrap().stdout;
    assert!(archive.windows(1000).any(|window| *window == data[5000..6000]), "tar takes it for no hole");
    let copy = scratch.path("copy");
    let words = ["--sparse=always", path.to_str().unwrap(), copy.to_str().unwrap()];
    assert!(std::process::Command::new("cp").args(words).status().unwrap().success());
    assert_eq!(fs::read(copy).unwrap(), data);
    assert!(!has_data(), "nothing of that needs a copy");

    let mut writer = File::options().read(true).write(true).open(&path).unwrap();
    assert_eq!(fs::read(scratch.path("upper/f")).unwrap(), data);
    writer.seek(SeekFrom::Start(100_000)).unwrap();
    writer.write_all(b"new").unwrap();
    let seen = |mut file: &File| {
        let mut text = [0; 3];
        file.seek(SeekFrom::Start(100_000)).unwrap();
        file.read_exact(&mut text).unwrap();
        text
    };
    assert_eq!([seen(&early), seen(&late), seen(&writer)], [*b"new"; 3]);
    assert!(maps.iter().all(|map| &map[100_000..100_003] == b"new"), "maps follow");
    assert_eq!(fs::read(scratch.path("lower/f")).unwrap(), data);
    drop((early, late, writer));
    for map in maps {
        // SAFETY: it is what was mapped, and nobody looks at it any more.
        unsafe { rustix::mm::munmap(map.as_ptr().cast_mut().cast(), map.len()).unwrap() };
    }
    umount(&mount);
}

#[test]
fn a_missing_branch_is_told_of_and_listed_until_it_comes() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("upper")).unwrap();
    let (upper, gone, mount) = (scratch.name("upper"), scratch.name("gone"), scratch.name("mount"));
    let failed = run(["mount", &format!("{upper}=rw, {gone}=ro | union"), &mount]);
    assert!(failed.code == 5 && failed.errors.contains(&gone), "by default that is an error: {failed:?}");

    let stack = format!("{upper}=rw, {gone}=ro | union(missing=skip)");
    let mounted = run(["mount", &stack, &mount]);
    assert_eq!((mounted.code, mounted.errors.lines().count()), (0, 1), "{mounted:?}");
    assert!(mounted.errors.starts_with("plyfs: warning: a branch is left out: "), "{mounted:?}");
    assert!(mounted.errors.contains(&gone), "{mounted:?}");
    let listed = |list: String| list.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let missing = [format!("{upper}=rw"), format!("{gone}=missing")];
    assert_eq!(listed(run(["union", "list", &mount]).succeeded()), missing);
    let status = || run(["status", &mount]).succeeded();
    assert!(status().contains(&format!("branches     {upper}=rw\n             {gone}=missing\n")), "{}", status());
    let json = run(["status", "--json", &mount]).succeeded();
    assert!(json.contains(&format!("{gone}=missing")), "{json}");

    // It comes, and another; status tells of branches as they are now.
    for name in ["gone", "new"] {
        fs::create_dir(scratch.path(name)).unwrap();
        run(["union", "add", &mount, &scratch.name(name)]).succeeded();
    }
    let new = scratch.name("new");
    let now = [format!("{upper}=rw"), format!("{gone}=ro"), format!("{new}=ro")];
    assert_eq!(listed(run(["union", "list", &mount]).succeeded()), now);
    assert!(status().contains(&format!("{gone}=ro\n             {new}=ro\n")), "{}", status());
    umount(&mount);

    // One that is not to come is forgotten.
    for name in ["gone", "new"] {
        fs::remove_dir(scratch.path(name)).unwrap();
    }
    run(["mount", &stack, &mount]);
    assert_eq!(listed(run(["union", "remove", &mount, &gone]).succeeded()), [format!("{upper}=rw")]);
    umount(&mount);
}

#[test]
fn a_branch_in_use_is_not_checked() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch);
    fs::write(scratch.path("mount/f"), "").unwrap();
    let (upper, lower) = (scratch.name("upper"), scratch.name("lower"));
    for words in [["union", "check", &upper, &lower], ["union", "check", "--repair", &upper]] {
        let refused = run(words);
        assert_eq!(refused.code, 12, "{refused:?}");
        assert!(refused.errors.contains(&format!("{mount} is using the branch {upper}; unmount it")), "{refused:?}");
    }
    umount(&mount);
    run(["union", "check", &upper, &lower]).succeeded();
}

#[test]
fn a_branch_that_a_mount_may_change_is_refused_to_another_until_its_server_has_ended() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, stack) = (mounted(&scratch), stack(&scratch));
    let (other, upper) = (scratch.name("merged"), scratch.name("upper"));
    fs::create_dir(&other).unwrap();
    let refused = run(["mount", &stack, &other]);
    assert_eq!(refused.code, 12, "{refused:?}");
    assert!(refused.errors.contains(&upper) && refused.errors.contains(&format!("{upper}=ro")), "{refused:?}");
    assert!(fs::read_dir(scratch.path("upper")).unwrap().next().is_none(), "nothing is written for that");
    run(["explain", &stack]).succeeded();
    run(["mount", &format!("mem:=rw, {upper}=ro | union"), &other]).succeeded();
    fs::write(scratch.path("mount/f"), "seen").unwrap();
    assert_eq!(fs::read_to_string(scratch.path("merged/f")).unwrap(), "seen");
    let refused = run(["union", "mode", &other, &upper, "rw"]);
    assert!(refused.code != 0 && refused.errors.contains("another union"), "{refused:?}");
    umount(&mount);
    run(["union", "mode", &other, &upper, "rw"]).succeeded();
    assert_eq!(run(["mount", &stack, &mount]).code, 12);
    // However a server ends.
    let status: serde_json::Value = serde_json::from_str(&run(["status", "--json", &other]).succeeded()).unwrap();
    let pid = status["pid"].as_i64().or_else(|| status[0]["pid"].as_i64()).expect("a pid");
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    run(["mount", &stack, &mount]).succeeded();
    umount(&mount);
}

/// A file system in memory on a directory of the mount, with a file.
fn mount_inside(directory: &std::path::Path) -> impl Drop + use<> {
    struct Inside(std::path::PathBuf);
    impl Drop for Inside {
        fn drop(&mut self) {
            let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        }
    }
    rustix::mount::mount("none", directory, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    fs::write(directory.join("kept"), "data").unwrap();
    Inside(directory.to_owned())
}

#[test]
fn what_is_mounted_inside_stays_when_a_snapshot_is_restored_and_branches_change() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for name in ["lower/below", "upper/above", "more/d"] {
        fs::create_dir_all(scratch.path(name)).unwrap();
    }
    fs::write(scratch.path("lower/f"), "lower").unwrap();
    let mount = mounted(&scratch);
    let path = |name: &str| scratch.path(&format!("mount/{name}"));
    let inside = [mount_inside(&path("below")), mount_inside(&path("above"))];
    let check = |what: &str| {
        for name in ["below/kept", "above/kept"] {
            assert_eq!(fs::read_to_string(path(name)).ok().as_deref(), Some("data"), "{name} after {what}");
        }
    };
    run(["snapshot", "take", &mount, "first"]).succeeded();
    check("taking a snapshot");
    for round in 0..3 {
        fs::write(path("f"), format!("changed {round}")).unwrap();
        fs::write(path("new"), "").unwrap();
        fs::create_dir(path("d")).unwrap();
        support::wait_until("files are closed", || run(["snapshot", "restore", &mount, "first"]).code == 0);
        // At once, not when a cached name has had its time.
        assert_eq!(fs::read_to_string(path("f")).unwrap(), "lower");
        assert!(fs::metadata(path("new")).is_err() && fs::metadata(path("d")).is_err(), "round {round}");
        check("restoring a snapshot");
    }
    run(["union", "add", &mount, &scratch.name("more")]).succeeded();
    assert!(path("d").exists());
    check("adding a branch");
    run(["union", "remove", &mount, &scratch.name("more")]).succeeded();
    assert!(!path("d").exists());
    check("removing a branch");
    drop(inside);
    umount(&mount);
}

#[test]
fn a_snapshot_is_taken_under_a_program_that_writes_and_brings_its_state_back() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("lower")).unwrap();
    fs::write(scratch.path("lower/f"), "lower").unwrap();
    let mount = mounted(&scratch);
    let path = |name: &str| scratch.path(&format!("mount/{name}"));
    let mut log = File::create(path("log")).unwrap();
    log.write_all(b"before").unwrap();
    assert_eq!(run(["snapshot", "take", &mount, "first"]).succeeded(), "first\n");
    log.write_all(b" and after").unwrap();
    fs::remove_file(path("f")).unwrap();
    fs::create_dir(path("new")).unwrap();
    assert_eq!(fs::read_to_string(path("log")).unwrap(), "before and after");
    assert_eq!(fs::read_to_string(scratch.path("upper/log")).unwrap(), "before", "the frozen layer is not written");
    assert_eq!(run(["snapshot", "diff", &mount, "first"]).succeeded(), "- f\n~ log\n+ new/\n");
    let json = run(["snapshot", "diff", "--json", &mount, "first"]).succeeded();
    assert!(json.contains(r#"{"change":"deleted","kind":"regular","path":"f"}"#), "{json}");
    assert!(run(["snapshot", "list", &mount]).succeeded().ends_with("  first\n"));
    drop(log);
    support::wait_until("the log is closed", || run(["snapshot", "restore", &mount, "first"]).code == 0);
    assert_eq!(fs::read_to_string(path("log")).unwrap(), "before");
    assert!(path("f").exists() && !path("new").exists());
    fs::write(path("f"), "changed").unwrap();
    umount(&mount);
    let mount = mounted(&scratch);
    assert_eq!(fs::read_to_string(path("f")).unwrap(), "changed");
    run(["snapshot", "merge", &mount]).succeeded();
    assert_eq!(run(["snapshot", "list", &mount]).succeeded(), "");
    assert_eq!(fs::read_to_string(scratch.path("upper/f")).unwrap(), "changed");
    let unknown = run(["snapshot", "restore", &mount, "first"]);
    assert!(unknown.code != 0 && unknown.errors.contains("there is no snapshot first"), "{unknown:?}");
    umount(&mount);
}

#[test]
fn a_snapshot_has_what_was_written_through_a_mapping_before_and_nothing_of_later() {
    if !can_mount() {
        return;
    }
    for (options, closes) in [(&[][..], false), (&[], true), (&["-o", "nopassthrough"], false)] {
        let scratch = Scratch::new();
        for name in ["upper", "lower"] {
            fs::create_dir_all(scratch.path(name)).unwrap();
        }
        let (stack, mount) = (stack(&scratch), scratch.name("mount"));
        support::finish(support::plyfs().arg("mount").args(options).args([&stack, &mount]).output()).succeeded();
        let (path, upper) = (scratch.path("mount/f"), scratch.path("upper/f"));
        fs::write(&path, [b'.'; 10_000]).unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        // The kernel uses the file of the first open for the second, too.
        let (first, file) = (open(), open());
        drop(first);
        wait_until("the first is closed", || requests(&mount, "release") == 2);
        // SAFETY: nobody maps it elsewhere, it is not made shorter, and it is unmapped below.
        let map = unsafe {
            let (both, shared) =
                (rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE, rustix::mm::MapFlags::SHARED);
            let at = rustix::mm::mmap(std::ptr::null_mut(), 10_000, both, shared, &file, 0).unwrap();
            std::slice::from_raw_parts_mut(at.cast::<u8>(), 10_000)
        };
        map[5000..5006].copy_from_slice(b"before");
        let file = (!closes).then_some(file);
        if closes {
            // A mapping of the lower file itself does not keep the file of the mount open.
            wait_until("it is closed", || requests(&mount, "release") == 3);
        }
        run(["snapshot", "take", &mount, "first"]).succeeded();
        let frozen = fs::read(&upper).unwrap();
        assert_eq!(&frozen[5000..5006], b"before", "{options:?}");
        map[5000..5005].copy_from_slice(b"after");
        // SAFETY: it is what was mapped above.
        unsafe { rustix::mm::msync(map.as_mut_ptr().cast(), 10_000, rustix::mm::MsyncFlags::SYNC).unwrap() };
        assert!(fs::read(&upper).unwrap() == frozen, "{options:?}, {closes}: the frozen layer is written");
        assert_eq!(&fs::read(&path).unwrap()[5000..5006], b"aftere", "{options:?}, {closes}");
        // SAFETY: it is what was mapped above, and not used any more.
        unsafe { rustix::mm::munmap(map.as_mut_ptr().cast(), 10_000).unwrap() };
        drop(file);
        umount(&mount);
    }
}

#[test]
fn a_branch_that_fails_is_shown_as_failed_and_comes_back() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for (path, text) in [("upper/own", "own"), ("lower/f", "lower"), ("lower/d/g", "g")] {
        fs::create_dir_all(scratch.path(path).parent().unwrap()).unwrap();
        fs::write(scratch.path(path), text).unwrap();
    }
    let mount = scratch.name("mount");
    let stack = format!("{}=rw, ({} | faulty)=ro | union", scratch.name("upper"), scratch.name("lower"));
    run(["mount", &stack, &mount]).succeeded();
    let path = |name: &str| scratch.path(&format!("mount/{name}"));
    let is_failed = || run(["union", "list", &mount]).succeeded().lines().any(|line| line.ends_with("=ro (failed)"));
    assert!(!is_failed());
    run(["control", &mount, "faulty", "set", "error=EIO"]).succeeded();
    support::wait_until("the branch has failed", is_failed);
    assert!(run(["status", &mount]).succeeded().contains("(failed)"));
    let errno = |error: std::io::Error| error.raw_os_error();
    assert_eq!(fs::read(path("f")).map_err(errno), Err(Some(libc::EIO)));
    let listed: std::io::Result<Vec<_>> = fs::read_dir(path("")).and_then(|entries| entries.collect());
    assert_eq!(listed.map(drop).map_err(errno), Err(Some(libc::EIO)), "a listing leaves nothing out");
    assert_eq!(fs::write(path("new"), "").map_err(errno), Err(Some(libc::EIO)), "it may have that name");
    assert_eq!(fs::read_to_string(path("own")).unwrap(), "own", "what does not need it goes on");
    run(["control", &mount, "faulty", "off"]).succeeded();
    support::wait_until("the branch is there again", || !is_failed());
    assert_eq!(fs::read_to_string(path("d/g")).unwrap(), "g");
    assert_eq!(fs::read_dir(path("")).unwrap().count(), 3);
    umount(&mount);
}

#[test]
fn a_branch_on_a_device_that_fails_answers_errors_and_no_other_data() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for name in ["upper", "lower", "memory"] {
        fs::create_dir(scratch.path(name)).unwrap();
    }
    let call = |program: &str, words: &[&str]| {
        support::finish(std::process::Command::new(program).args(words).output()).succeeded();
    };
    let (image, lower, mount) = (scratch.name("image"), scratch.name("lower"), scratch.name("mount"));
    call("mkfs.ext4", &["-q", "-F", "-b", "4096", &image, "16M"]);
    call("mount", &["-o", "loop,errors=continue", &image, &lower]);
    let data = vec![7; 1 << 20];
    for path in ["f", "d/g"] {
        fs::create_dir_all(scratch.path(&format!("lower/{path}")).parent().unwrap()).unwrap();
        fs::write(scratch.path(&format!("lower/{path}")), &data).unwrap();
    }
    call("umount", &[&lower]);
    call("mount", &["-o", "loop,errors=continue,ro", &image, &lower]);
    run(["mount", &stack(&scratch), &mount]).succeeded();
    let path = |name: &str| scratch.path(&format!("mount/{name}"));
    assert_eq!(fs::metadata(path("f")).unwrap().len(), data.len() as u64);
    // The device has no block any more beyond the first ones.
    File::options().write(true).open(&image).unwrap().set_len(4096).unwrap();
    let is_error =
        |result: std::io::Result<Vec<u8>>| result.is_err_and(|error| error.raw_os_error() == Some(libc::EIO));
    assert!(is_error(fs::read(path("f"))));
    assert!(is_error(fs::read(path("d/g"))));
    let changed = fs::set_permissions(path("f"), std::os::unix::fs::PermissionsExt::from_mode(0o600));
    assert!(
        changed.is_err_and(|error| error.raw_os_error() == Some(libc::EIO)),
        "no copy is made of what cannot be read"
    );
    assert!(!scratch.path("upper/f").exists());
    fs::write(path("new"), "new").unwrap_or_else(|error| assert_eq!(error.raw_os_error(), Some(libc::EIO)));
    umount(&mount);
    call("umount", &[&lower]);
}

#[test]
fn a_kernel_overlay_writes_to_a_union() {
    let has_overlays = fs::read_to_string("/proc/filesystems").is_ok_and(|kinds| kinds.contains("\toverlay\n"));
    if !can_mount() || !has_overlays {
        return;
    }
    let scratch = Scratch::new();
    for path in ["merged", "low/d", "low/e"] {
        fs::create_dir_all(scratch.path(path)).unwrap();
    }
    for path in ["low/f", "low/d/g", "low/e/h"] {
        fs::write(scratch.path(path), path).unwrap();
    }
    let union = mounted(&scratch);
    for path in ["mount/up", "mount/work"] {
        fs::create_dir(scratch.path(path)).unwrap();
    }
    let merged = scratch.name("merged");
    let options = format!("lowerdir={},upperdir={union}/up,workdir={union}/work,redirect_dir=on", scratch.name("low"));
    let overlaid = |change: &dyn Fn()| {
        let mut mount = std::process::Command::new("mount");
        support::finish(mount.args(["-t", "overlay", "overlay", "-o", &options, &merged]).output()).succeeded();
        change();
        support::finish(std::process::Command::new("umount").arg(&merged).output()).succeeded();
    };
    overlaid(&|| {
        fs::rename(scratch.path("merged/f"), scratch.path("merged/moved")).unwrap();
        fs::remove_file(scratch.path("merged/d/g")).unwrap();
        fs::rename(scratch.path("merged/e"), scratch.path("merged/d/e")).unwrap();
        fs::write(scratch.path("merged/d/new"), "new").unwrap();
    });
    assert_eq!(
        fs::metadata(scratch.path("mount/up/f")).map(|status| (status.mode() & libc::S_IFMT, status.rdev())).ok(),
        Some((libc::S_IFCHR, 0))
    );
    overlaid(&|| {
        let read = |path: &str| fs::read_to_string(scratch.path(&format!("merged/{path}"))).ok();
        assert_eq!(
            [read("moved"), read("d/e/h"), read("d/new")].map(|text| text.unwrap_or_default()),
            ["low/f", "low/e/h", "new"]
        );
        assert_eq!([read("f"), read("d/g"), read("e/h")], [None, None, None]);
    });
    umount(&union);
}
