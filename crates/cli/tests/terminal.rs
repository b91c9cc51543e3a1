//! What commands do on a terminal and nowhere else: colours, and questions before what cannot be undone.

mod support;

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use support::{Run, Scratch, can_mount, finish, is_mounted, plyfs, run, umount, wait_until};

const ESCAPE: char = '\u{1b}';

/// Starts the command on a pseudo-terminal, whose output is its standard output.
fn on_terminal(words: &[&str], variables: &[(&str, &str)]) -> Child {
    let script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut command = Command::new("python3");
    command.args(["-c", script, env!("CARGO_BIN_EXE_plyfs")]).args(words);
    command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("python3 starts")
}

/// Returns the result of the command on a terminal, where a person types this.
fn typed(words: &[&str], text: &str) -> Run {
    let mut child = on_terminal(words, &[]);
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(text.as_bytes()).unwrap();
    drop(keys);
    finish(child.wait_with_output())
}

#[test]
fn what_cannot_be_undone_is_asked_on_a_terminal() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("base")).unwrap();
    let (mount, stack) = (scratch.name("mount"), format!("{}=rw | union", scratch.name("base")));
    run(["mount", &stack, &mount]).succeeded();
    for (words, question) in [
        (&["restore", &mount, "first"][..], "restore the snapshot first of"),
        (&["drop", &mount, "first"], "drop the snapshot first of"),
        (&["merge", &mount, "second"], "drop all snapshots before second of"),
        (&["merge", &mount], "drop all snapshots of"),
    ] {
        let words = [&["snapshot"][..], words].concat();
        let list = || run(["snapshot", "list", &mount]).succeeded();
        let _ = run(["snapshot", "merge", &mount]);
        ["first", "second"].iter().for_each(|name| drop(run(["snapshot", "take", &mount, name]).succeeded()));
        let taken = list();
        for answer in ["n\n", "\n", "maybe\n"] {
            let declined = typed(&words, answer);
            assert_eq!(declined.code, 1, "{declined:?}");
            assert!(declined.output.contains(&format!("{question} {mount}")), "{declined:?}");
            assert!(declined.output.contains("? [y/N] ") && declined.output.contains("add --yes"), "{declined:?}");
            assert_eq!(list(), taken, "{words:?}");
        }
        let done = typed(&words, "y\n");
        assert_eq!(done.code, 0, "{done:?}");
        assert_ne!(list(), taken, "{words:?}");

        let _ = run(["snapshot", "merge", &mount]);
        ["first", "second"].iter().for_each(|name| drop(run(["snapshot", "take", &mount, name]).succeeded()));
        let unasked = typed(&[&words[..], &["--yes"]].concat(), "");
        assert!(unasked.code == 0 && !unasked.output.contains("[y/N]"), "{unasked:?}");
    }
    umount(&mount);
}

#[test]
fn a_repair_of_a_union_is_asked_on_a_terminal() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("base")).unwrap();
    for name in ["base/file", "base/.wh.file"] {
        fs::write(scratch.path(name), "").unwrap();
    }
    let branch = format!("{}=rw", scratch.name("base"));
    let declined = typed(&["union", "check", "--repair", &branch], "n\n");
    assert!(declined.code == 1 && declined.output.contains("nothing was changed"), "{declined:?}");
    assert!(scratch.path("base/.wh.file").exists());
    let repaired = typed(&["union", "check", "--repair", "--yes", &branch], "");
    assert!(repaired.code == 0 && !scratch.path("base/.wh.file").exists(), "{repaired:?}");
    assert_eq!(run(["union", "check", "--yes", &branch]).code, 2, "there is nothing to ask");
}

#[test]
fn names_of_snapshots_have_no_spaces() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("base")).unwrap();
    let (mount, stack) = (scratch.name("mount"), format!("{}=rw | union", scratch.name("base")));
    run(["mount", &stack, &mount]).succeeded();
    let refused = run(["snapshot", "take", &mount, "before the upgrade"]);
    assert!(refused.code == 1 && refused.errors.ends_with("; write before-the-upgrade\n"), "{refused:?}");
    let name = run(["snapshot", "take", &mount]).succeeded();
    assert!(!name.trim_end().contains(char::is_whitespace), "{name:?}");
    run(["snapshot", "restore", &mount, name.trim_end()]).succeeded();
    umount(&mount);
    // As an earlier version has written it.
    let history = scratch.path("base/.wh..wh.plyfs/history");
    let text = fs::read_to_string(&history).unwrap();
    fs::write(&history, text.replace(name.trim_end(), "an earlier one")).unwrap();
    run(["mount", &stack, &mount]).succeeded();
    assert!(run(["snapshot", "list", &mount]).succeeded().ends_with("  an earlier one\n"));
    run(["snapshot", "drop", &mount, "an earlier one"]).succeeded();
    assert_eq!(run(["snapshot", "list", &mount]).succeeded(), "");
    umount(&mount);
}

/// The log of a server in the foreground, from the beginning to the end of its mount.
fn log_of_mount(scratch: &Scratch, mut server: Child) -> String {
    wait_until("the mount", || is_mounted(&scratch.mount()));
    let mount = scratch.name("mount");
    wait_until("the control socket", || run(["log-level", &mount]).code == 0);
    drop(server.stdin.take());
    umount(&mount);
    let ended = finish(server.wait_with_output());
    assert_eq!(ended.code, 0, "{ended:?}");
    let log = ended.output + &ended.errors;
    assert!(log.contains("unmounted"), "{log}");
    log
}

#[test]
fn the_log_has_colours_only_on_a_terminal_and_unless_disabled() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = scratch.name("mount");
    let words = ["mount", "-f", "mem:", &mount];
    let mut command = plyfs();
    command.args(words).env_remove("NO_COLOR").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    assert!(!log_of_mount(&scratch, command.spawn().unwrap()).contains(ESCAPE));
    assert!(log_of_mount(&scratch, on_terminal(&words, &[])).contains(ESCAPE));
    assert!(!log_of_mount(&scratch, on_terminal(&words, &[("NO_COLOR", "1")])).contains(ESCAPE));
    assert!(log_of_mount(&scratch, on_terminal(&words, &[("NO_COLOR", "")])).contains(ESCAPE));
}

#[test]
fn no_command_writes_escape_sequences_off_a_terminal() {
    let scratch = Scratch::new();
    fs::write(scratch.path("wrong.fist"), "%%\n%op-create-all bad {{ $x = ; %}\n").unwrap();
    let wrong = scratch.name("wrong.fist");
    for words in [
        &["--help"][..],
        &["help", "mount"],
        &["mount", "--help"],
        &["union", "check", "--help"],
        &["mount"],
        &["mont"],
        &["mount", "mem: | nonsense", "/none"],
        &["status"],
        &["stats"],
        &["top", "-n", "1", "-i", "0.1"],
        &["layers"],
        &["layers", "union"],
        &["bases", "fat"],
        &["explain", "mem: | readonly"],
        &["fist", "check", &wrong],
        &["shell", "mem:", "-c", "mkdir d; ls -l; tree; no-such"],
        &["completions", "bash"],
    ] {
        let ended = finish(plyfs().args(words).env_remove("NO_COLOR").stdin(Stdio::null()).output());
        assert!(!(ended.output + &ended.errors).contains(ESCAPE), "{words:?}");
    }
    for words in [&["--help"][..], &["mount", "--help"], &["mont"], &["fist", "check", &wrong]] {
        let ended = finish(on_terminal(words, &[("NO_COLOR", "1")]).wait_with_output());
        assert!(!ended.output.contains(ESCAPE), "{words:?}: {ended:?}");
    }
}
