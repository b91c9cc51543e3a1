//! Requests that programs cause which walk a tree, or open many files.

mod support;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use support::{Scratch, can_mount, requests, run, umount};

const DIRECTORIES: u64 = 40;
const FILES: u64 = 10;

/// Mounts the tree, and walks it by a command; returns the mount point.
fn walk(scratch: &Scratch, command: &[&str]) -> String {
    let mount = scratch.name("mount");
    run(["mount", &scratch.name("lower"), &mount]).succeeded();
    let done = Command::new(command[0]).args(&command[1..]).arg(&mount).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    mount
}

/// Number of objects that the kernel knows.
fn objects(mount: &str) -> u64 {
    let status = run(["status", "--json", mount]).succeeded();
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
    status[0]["objects"].as_u64().expect("a number")
}

fn make_tree(lower: &Path) {
    for directory in 0..DIRECTORIES {
        let directory = lower.join(format!("directory{directory}"));
        fs::create_dir_all(&directory).unwrap();
        (0..FILES).for_each(|file| drop(File::create(directory.join(format!("file{file}"))).unwrap()));
    }
}

#[test]
fn a_walk_that_needs_attributes_gets_them_with_the_entries() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    make_tree(&scratch.path("lower"));
    // Some go without, to see whether they are needed.
    let most = DIRECTORIES + DIRECTORIES * FILES / 4;
    for command in [&["ls", "-lR"][..], &["chmod", "-R", "g+w"]] {
        let mount = walk(&scratch, command);
        let lookups = requests(&mount, "lookup");
        umount(&mount);
        assert!(lookups <= most, "{command:?}: {lookups}");
    }
}

#[test]
fn a_walk_by_names_looks_no_file_up() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    make_tree(&scratch.path("lower"));
    let mount = walk(&scratch, &["find"]);
    let (lookups, objects) = (requests(&mount, "lookup"), objects(&mount));
    umount(&mount);
    assert!(lookups <= DIRECTORIES + 1 && objects <= DIRECTORIES + 2, "{lookups} lookups, {objects} objects");
}

#[test]
fn files_are_polled_only_where_a_layer_needs_it() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, log) = (scratch.name("mount"), scratch.name("log"));
    for (stack, polls) in [("mem:".to_owned(), 1), (format!("mem: | audit(operations=poll, to={log})"), 8)] {
        run(["mount", &stack, &mount]).succeeded();
        for file in 0..8 {
            let file = File::create(scratch.path("mount").join(format!("file{file}"))).unwrap();
            let mut polled = [PollFd::new(&file, PollFlags::OUT)];
            assert_eq!(poll(&mut polled, Some(&Timespec::default())), Ok(1), "regular files are ready");
            assert_eq!(polled[0].revents(), PollFlags::OUT);
        }
        assert_eq!(requests(&mount, "poll"), polls, "{stack}");
        umount(&mount);
    }
    assert_eq!(fs::read_to_string(log).unwrap().lines().count(), 8);
}
