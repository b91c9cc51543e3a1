//! Trees of 100,000 nested directories in the branch of a mounted union, as any user can plant one: commands walk through them to
//! their end, say on a terminal how far they are, and are waited for however long that takes.
//!
//! `DEEP_LEVELS` is the number of levels if not 100,000.

mod support;

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use support::{Run, Scratch, can_mount, finish, run, umount};

fn levels() -> usize {
    std::env::var("DEEP_LEVELS").map_or(100_000, |levels| levels.parse().expect("DEEP_LEVELS is a number"))
}

fn open(directory: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    openat(directory, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Makes that many directories `d`, each in the one before.
fn grow(path: &Path, levels: usize) {
    let mut directory = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&directory, "d", Mode::from_raw_mode(0o755)).unwrap();
        directory = open(&directory, "d").unwrap();
    }
}

/// The last of these directories, and how many there are.
fn deepest(path: &Path) -> (OwnedFd, usize) {
    let mut directory = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let mut depth = 0;
    while let Ok(inner) = open(&directory, "d") {
        (directory, depth) = (inner, depth + 1);
    }
    (directory, depth)
}

/// Removes these directories, which are deeper than a recursion gets.
fn remove(path: &Path) {
    let top = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    loop {
        let _ = unlinkat(&top, "d/f", AtFlags::empty());
        let has_more = renameat(&top, "d/d", &top, "next").is_ok();
        match unlinkat(&top, "d", AtFlags::REMOVEDIR) {
            Err(Errno::NOENT) => return,
            removed => removed.unwrap(),
        }
        if has_more {
            renameat(&top, "next", &top, "d").unwrap();
        }
    }
}

/// Trees that are removed at the end of a test, which a recursion could not do.
struct Grown<'a>(&'a Path);

impl Drop for Grown<'_> {
    fn drop(&mut self) {
        remove(self.0);
    }
}

/// Runs the command on a terminal of its own: all that it writes there is its output.
fn run_on_terminal(words: &[&str]) -> Run {
    let script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut command = Command::new("python3");
    command.args(["-c", script, env!("CARGO_BIN_EXE_plyfs")]).args(words).stdin(Stdio::null());
    finish(command.output())
}

#[test]
fn a_deep_tree_is_changed_compared_merged_and_checked() {
    if !can_mount() {
        return;
    }
    let (scratch, levels) = (Scratch::new(), levels());
    let (upper, mount) = (scratch.path("upper"), scratch.name("mount"));
    fs::create_dir(&upper).unwrap();
    let stack = format!("{}=rw | union", scratch.name("upper"));
    let _grown = Grown(&upper);
    grow(&upper, levels);
    run(["mount", &stack, &mount]).succeeded();
    run(["snapshot", "take", &mount, "before"]).succeeded();
    // All directories above the new file come to the layer of what is changed.
    let (last, depth) = deepest(&scratch.mount());
    assert_eq!(depth, levels);
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(openat(&last, "f", flags, Mode::from_raw_mode(0o644)).unwrap());
    drop(last);
    let differences = run(["snapshot", "diff", &mount, "before"]).succeeded();
    assert_eq!(differences.lines().count(), 1);
    let merged = run_on_terminal(&["snapshot", "merge", "--yes", &mount]);
    assert!(merged.code == 0, "{merged:?}");
    let is_shown = merged.output.contains("snapshot merge: ") && merged.output.contains(" objects, ");
    assert!(is_shown || levels < 100_000, "{merged:?}");
    umount(&mount);

    // What was left half-way, as by a server that was killed.
    let work = upper.join(".wh..wh.plyfs/work");
    fs::create_dir(work.join("1")).unwrap();
    grow(&work.join("1"), levels);
    run(["mount", &stack, &mount]).succeeded();
    File::create(scratch.path("mount/new")).unwrap();
    assert!(!work.join("1").exists());
    let (last, depth) = deepest(&scratch.mount());
    assert_eq!(depth, levels);
    openat(&last, "f", OFlags::RDONLY, Mode::empty()).unwrap();
    drop(last);
    umount(&mount);

    let checked = run(["union", "check", "--idle", &stack.replace(" | union", "")]);
    assert_eq!(checked.succeeded(), "", "nothing is wrong, and nothing is shown where there is no terminal");
    fs::remove_file(upper.join("new")).unwrap();
}

#[test]
fn long_commands_say_on_a_terminal_how_far_they_are() {
    let scratch = Scratch::new();
    let upper = scratch.path("upper");
    fs::create_dir(&upper).unwrap();
    (0..200).for_each(|file| drop(File::create(upper.join(file.to_string())).unwrap()));
    fs::write(upper.join(".wh.7"), "").unwrap();
    let branch = format!("({} | faulty(operations=lookup, delay=10))=rw", scratch.name("upper"));
    let checked = run_on_terminal(&["union", "check", &branch]);
    assert!(checked.output.contains("union check: ") && checked.output.contains(" objects, "), "{checked:?}");
    let finding = checked.output.lines().find(|line| line.contains("--repair would")).expect("the finding is printed");
    // The line of progress is taken away before something else is printed.
    assert!(!finding.rsplit('\r').next().unwrap().contains("objects"), "{finding:?}");
    assert!(checked.output.trim_end_matches("\r\n").ends_with("--repair"), "{checked:?}");
    let quiet = run(["union", "check", &branch]);
    assert!(!quiet.output.contains("objects") && !quiet.errors.contains("objects"), "{quiet:?}");
}

#[test]
fn a_command_that_takes_longer_than_a_server_may_be_silent_is_waited_for() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("upper")).unwrap();
    let mount = scratch.name("mount");
    let slow = format!("({} | faulty(operations=rename, delay=1200))=rw | union", scratch.name("upper"));
    run(["mount", &slow, &mount]).succeeded();
    run(["control", &mount, "faulty", "off"]).succeeded();
    run(["snapshot", "take", &mount, "before"]).succeeded();
    (0..5).for_each(|file| drop(File::create(Path::new(&mount).join(file.to_string())).unwrap()));
    run(["control", &mount, "faulty", "on"]).succeeded();
    let begin = Instant::now();
    let merged = run_on_terminal(&["snapshot", "merge", "--yes", &mount]);
    assert!(begin.elapsed() > Duration::from_secs(6));
    assert!(merged.code == 0 && merged.output.contains("snapshot merge: "), "{merged:?}");
    assert_eq!(run(["snapshot", "list", &mount]).succeeded(), "");
    umount(&mount);
}
