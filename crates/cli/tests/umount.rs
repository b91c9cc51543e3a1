//! `plyfs umount`: of several mounts, of all, and of those whose servers do not answer.

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{
    Run, Scratch, can_mount, copy_program, finish, is_alive, is_mounted, run, send, stop, umount, wait_until,
};

fn pid_of(mount: &str) -> u32 {
    let status = run(["status", "--json", mount]).succeeded();
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
    u32::try_from(status[0]["pid"].as_u64().expect("a pid")).expect("a pid")
}

#[test]
fn each_of_several_mounts_ends_even_if_another_cannot() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (first, second, none) = (&scratch.name("merged"), &scratch.name("mount"), &scratch.name("none"));
    fs::create_dir(first).unwrap();
    [first, second].into_iter().for_each(|mount| drop(run(["mount", "mem:", mount]).succeeded()));
    let ended = run(["umount", first, none, second]);
    assert_eq!((ended.code, ended.errors.lines().count()), (11, 1), "{ended:?}");
    assert!(ended.errors.contains(&format!("there is no mount of Plyfs on {none}; ")), "{ended:?}");
    assert!(!is_mounted(Path::new(first)) && !is_mounted(Path::new(second)));

    [first, second].into_iter().for_each(|mount| drop(run(["mount", "mem:", mount]).succeeded()));
    let file = File::create(scratch.path("merged/open")).unwrap();
    let ended = run(["umount", first, none, second]);
    assert_eq!((ended.code, ended.errors.lines().count()), (12, 2), "the first failure counts: {ended:?}");
    assert!(is_mounted(Path::new(first)) && !is_mounted(Path::new(second)));
    drop(file);
    umount(first);
    for words in [&["umount"][..], &["umount", "--all", first]] {
        assert_eq!(finish(support::plyfs().args(words).output()).code, 2, "{words:?}");
    }
}

/// Runs a script where nothing of Plyfs is mounted, users may open /dev/fuse, and the kernel shows its connections.
fn alone(scratch: &Scratch, script: &str) -> Run {
    fs::create_dir(scratch.path("device")).unwrap();
    copy_program(env!("CARGO_BIN_EXE_plyfs"), scratch.path("plyfs"));
    let script = format!(
        "set -e; cd {}
        awk '/ fuse.plyfs / {{ print $5 }}' /proc/self/mountinfo | tac |
            while read -r point; do umount -l \"$(printf %b \"$point\")\"; done
        mount -t tmpfs -o mode=755 none device; mknod -m 666 device/fuse c 10 229; mount --bind device/fuse /dev/fuse
        mountpoint -q /sys/fs/fuse/connections || mount -t fusectl none /sys/fs/fuse/connections
        mounts() {{ awk '/ fuse.plyfs / {{ print $5 }}' /proc/self/mountinfo; }}
        user() {{ setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; }}
        mkdir own; chown 65534:65534 own
        {script}",
        scratch.name("")
    );
    let mut command = Command::new("unshare");
    finish(command.args(["--mount", "sh", "-c", &script]).env_remove("XDG_RUNTIME_DIR").output())
}

fn has_helper() -> bool {
    let has = can_mount() && Path::new("/usr/bin/fusermount3").exists();
    if !has {
        eprintln!("skipped: needs root, /dev/fuse and fusermount3");
    }
    has
}

#[test]
fn all_mounts_of_the_caller_end_and_no_others() {
    if !has_helper() {
        return;
    }
    let scratch = Scratch::new();
    // The last is based on the first, and the second is in it.
    let script = "
        mkdir a b
        ./plyfs mount mem: a; mkdir a/in; ./plyfs mount mem: a/in
        ./plyfs mount 'a | audit(to=/dev/null)' b
        user ./plyfs mount mem: own
        mounts | wc -l
        ./plyfs umount --all
        mounts
        user ./plyfs umount --all
        mounts | wc -l
        ./plyfs umount --all";
    let done = alone(&scratch, script);
    assert_eq!((done.code, done.errors.as_str()), (0, ""), "{done:?}");
    assert_eq!(done.output.lines().collect::<Vec<_>>(), ["4", scratch.name("own").as_str(), "0"], "{done:?}");
}

#[test]
fn the_connection_of_a_server_that_does_not_answer_is_aborted_by_force() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let pid = pid_of(mount);
    let mut file = File::create(scratch.path("mount/open")).unwrap();
    // One that answers is not aborted.
    let busy = run(["umount", "--force", mount]);
    assert_eq!(busy.code, 12, "{busy:?}");
    file.write_all(b"stored").unwrap();
    assert_eq!(fs::read(scratch.path("mount/open")).unwrap(), b"stored");

    let _stopped = stop(pid);
    let forced = run(["umount", "--force", mount]);
    assert!(forced.code == 0 && forced.errors.contains("its connection is aborted, and "), "{forced:?}");
    assert!(!is_mounted(&scratch.mount()));
    assert!(file.write_all(b"for nobody").is_err());
    send(pid, Signal::CONT);
    wait_until("the server to end", || !is_alive(pid));
}

#[test]
fn a_mount_of_a_dead_server_that_is_in_use_is_cleared_by_force() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let (pid, file) = (pid_of(mount), File::create(scratch.path("mount/open")).unwrap());
    send(pid, Signal::KILL);
    wait_until("the server to end", || !is_alive(pid));
    let busy = run(["umount", mount]);
    assert_eq!(busy.code, 12, "{busy:?}");
    let forced = run(["umount", "--force", mount]);
    assert_eq!((forced.code, forced.errors.as_str()), (0, ""));
    assert!(!is_mounted(&scratch.mount()));
    drop(file);
}

#[test]
fn a_stack_on_a_mount_whose_server_has_ended_is_unmounted_by_force() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (below, mount) = (&scratch.name("below"), &scratch.name("mount"));
    fs::create_dir(below).unwrap();
    run(["mount", "mem:", below]).succeeded();
    run(["mount", &format!("{below} | audit(to=/dev/null)"), mount]).succeeded();
    let pid = pid_of(below);
    send(pid, Signal::KILL);
    wait_until("the server to end", || !is_alive(pid));
    let kept = run(["umount", mount]);
    assert!(kept.code != 0 && kept.errors.contains("it stays mounted; ") && is_mounted(&scratch.mount()), "{kept:?}");
    let forced = run(["umount", "--force", mount]);
    assert!(forced.code == 0 && forced.errors.contains("is unmounted nevertheless"), "{forced:?}");
    assert!(!is_mounted(&scratch.mount()));
    assert_eq!(run(["umount", "--force", below]).code, 0);
}

#[test]
fn a_mount_that_hangs_although_its_server_answers_commands_is_cleared_by_force() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem: | faulty(operations=statfs, delay=600000)", mount]).succeeded();
    let forced = run(["umount", "--force", mount]);
    assert!(forced.code == 0 && forced.errors.contains("its connection is aborted, and "), "{forced:?}");
    assert!(!is_mounted(&scratch.mount()));
}

#[test]
fn what_lies_in_a_mount_that_does_not_answer_is_not_waited_for_by_force() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (above, mount) = (&scratch.name("mount"), &scratch.name("mount/a/b"));
    run(["mount", "mem:", above]).succeeded();
    fs::create_dir_all(mount).unwrap();
    run(["mount", "mem:", mount]).succeeded();
    let pid = pid_of(above);
    let _stopped = stop(pid);
    let begin = Instant::now();
    let forced = run(["umount", "--force", mount]);
    let took = begin.elapsed();
    send(pid, Signal::CONT);
    assert_eq!(forced.code, 13, "{forced:?}");
    assert!(forced.errors.contains(&format!("umount --lazy {above}")), "{forced:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    umount(mount);
    umount(above);
}

#[test]
fn users_abort_the_connections_of_their_own_servers() {
    if !has_helper() {
        return;
    }
    let scratch = Scratch::new();
    let script = "
        user ./plyfs mount mem: own
        pid=$(user ./plyfs status --json own | sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p')
        kill -STOP $pid
        user timeout 60 ./plyfs umount --force own 2>&1
        mounts | wc -l
        kill -CONT $pid";
    let done = alone(&scratch, script);
    assert_eq!((done.code, done.errors.as_str()), (0, ""), "{done:?}");
    assert!(done.output.contains("its connection is aborted, and ") && done.output.ends_with("\n0\n"), "{done:?}");
}
