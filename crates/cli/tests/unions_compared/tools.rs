//! What comes with a union: snapshots, views, forks, a check.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::scene::{Scene, ro, rw};
use crate::{Outcome, eventually, expect, expect_equal};

/// As the paper does it: a new branch on top, and the others may only be read from then on.
pub(crate) fn branches_on_top_make_snapshots(scene: &Scene) -> Outcome {
    scene.files(&["base/d/kept", "base/d/f", "first/d/g"]);
    let union = scene.mount(&[rw("first"), ro("base")]);
    union.write("d/f", "first")?;
    union.insert(0, &rw("second"))?;
    union.set_mode(&ro("first"))?;
    union.write("d/f", "second")?;
    fs::remove_file(union.path("d/g"))?;
    eventually(|| expect_equal(union.list("d")?, vec!["f".into(), "kept".into()], "the names"))?;
    expect_equal(union.read("d/f")?, "second".into(), "the changed file")?;
    let kept = (scene.read("first/d/f")?, scene.read("first/d/g")?);
    expect_equal(kept, ("first".into(), "first/d/g".into()), "what the snapshot keeps")
}

pub(crate) fn snapshots_are_taken_compared_and_restored(scene: &Scene) -> Outcome {
    scene.files(&["upper/f", "lower/g"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    let mount = union.mount_point();
    let snapshot = |words: &[&str]| scene.subject.plyfs("snapshots", &[&["snapshot"], words].concat());
    snapshot(&["take", &mount, "before"])?;
    union.write("f", "changed")?;
    fs::remove_file(union.path("g"))?;
    union.write("new", "new")?;
    snapshot(&["diff", &mount, "before"])?;
    snapshot(&["restore", &mount, "before"])?;
    expect_equal(union.list("")?, vec!["f".into(), "g".into()], "the names that are restored")?;
    let restored = (union.read("f")?, union.read("g")?);
    expect_equal(restored, ("upper/f".into(), "lower/g".into()), "the files that are restored")?;
    snapshot(&["drop", &mount, "before"])?;
    expect_equal(union.read("f")?, "upper/f".into(), "without the snapshot")
}

/// What a command of the shell writes on standard output, as this user.
fn shell_as(user: u32, command: &str) -> Result<String, Box<dyn std::error::Error>> {
    let output = Command::new("/bin/sh").args(["-c", command]).uid(user).gid(user).output()?;
    expect(output.status.success(), String::from_utf8_lossy(&output.stderr))?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Two users in one mount, one with a branch of its own.
pub(crate) fn processes_have_views_of_their_own(scene: &Scene) -> Outcome {
    scene.files(&["upper/d/f"]);
    for (name, mode) in [("upper/d", 0o777), ("upper/d/f", 0o666)] {
        fs::set_permissions(scene.path(name), fs::Permissions::from_mode(mode)).expect("its mode is set");
    }
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    let (mount, private) = (union.mount_point(), scene.directory("private").display().to_string());
    scene.subject.plyfs("views", &["union", "view", "add", &mount, "--uid", "1001", &private])?;
    shell_as(1001, &format!("cd {mount}/d; echo private > f; echo private > new"))?;
    let see = format!("cd {mount}/d; cat *");
    expect_equal(shell_as(1001, &see)?, "private\nprivate\n".into(), "what the user with a branch sees")?;
    expect_equal(shell_as(1002, &see)?, "upper/d/f".into(), "what another user sees")?;
    expect_equal(scene.read("upper/d/f")?, "upper/d/f".into(), "the file in the common branch")
}

pub(crate) fn commands_run_in_forks(scene: &Scene) -> Outcome {
    scene.files(&["upper/f", "lower/g"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    let mount = union.mount_point();
    let command = "echo changed > f && rm g && echo new > new";
    let run = |outcome: &str| {
        let scratch = scene.directory(&format!("fork{outcome}")).display().to_string();
        let words = ["run", outcome, "--scratch", &scratch, "--stack", &mount, "--", "/bin/sh", "-c", command];
        scene.subject.plyfs_in(Path::new(&mount), "forks", &words)
    };
    run("--discard")?;
    expect_equal(union.list("")?, vec!["f".into(), "g".into()], "the names after it was discarded")?;
    expect_equal(union.read("f")?, "upper/f".into(), "the file after it was discarded")?;
    run("--commit")?;
    eventually(|| expect_equal(union.list("")?, vec!["f".into(), "new".into()], "the names after the commit"))?;
    eventually(|| expect_equal(union.read("f")?, "changed\n".into(), "the file after the commit"))
}

pub(crate) fn branches_are_checked_and_repaired(scene: &Scene) -> Outcome {
    scene.files(&["upper/d/f", "lower/g"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    union.unmount()?;
    // Hidden by its own whiteout: what a crash of some unions leaves.
    scene.files(&["upper/d/.wh.f"]);
    let stack = format!("{}=rw, {} | union", scene.name("upper"), scene.name("lower"));
    let check = |words: &[&str]| scene.subject.plyfs("checks", &[&["union", "check"], words, &[&stack]].concat());
    let found = check(&[]).err().ok_or("the defect was not found")?;
    check(&["--repair"])?;
    expect(!scene.has("upper/d/.wh.f") && scene.has("upper/d/f"), format!("the defect stays; {found}"))?;
    check(&[])
}
