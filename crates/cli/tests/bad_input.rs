//! Whatever is wrong with the input: one clear line with cause and remedy, the code of the table, nothing mounted.

mod support;

use std::fs;

use support::{Scratch, can_mount, finish, is_mounted, plyfs, run, umount};

/// Runs `plyfs mount` and checks the code, the message, and that nothing was mounted.
fn refused(scratch: &Scratch, words: &[&str], code: i32, message: &str) {
    let result = finish(plyfs().arg("mount").args(words).output());
    assert_eq!(result.code, code, "{words:?}: {result:?}");
    let lines: Vec<&str> = result.errors.lines().collect();
    let excerpt = lines.get(1).is_some_and(|line| line.starts_with("    ")) && lines.len() == 3;
    assert!(lines.len() == 1 || excerpt, "{words:?}: {result:?}");
    assert!(lines[0].starts_with(&format!("plyfs: {message}")), "{words:?}: {}", lines[0]);
    assert!(lines[0].contains(';') || lines[0].matches(": ").count() > 1, "no remedy: {}", lines[0]);
    assert!(result.output.is_empty(), "{result:?}");
    assert!(!is_mounted(&scratch.mount()), "{words:?}: something stays mounted");
}

#[test]
fn wrong_expressions() {
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    let cases = [
        ("", 3, "column 1: the stack expression is empty"),
        ("mem: |", 3, "column 7: expected a layer"),
        ("mem: | readonly(", 3, "column 16: this parenthesis is never closed"),
        (
            "mem:, mem:",
            3,
            "column 7: several branches need a layer that joins them; write | union after the last branch",
        ),
        ("mem:=ro", 3, "column 6: the mode 'ro' is for one of several branches"),
        ("men:", 4, "column 1: there is no kind of base 'men'; did you mean 'mem'?"),
        ("dir:", 4, "column 1: 'dir:' needs a path"),
        (
            "mem:size=64m,inodes=9",
            3,
            "column 10: unknown branch mode '64m'; the modes are rw, ro and nc; if the '=' is part of the location, write \
             mem:\"size=64m,inodes=9\"",
        ),
        (
            "mem: | audit(operations=unlink,rename)",
            3,
            "column 38: expected '=' after the option 'rename', found ')'; write rename=value, or, since lists have colons, \
             operations=unlink:rename",
        ),
        ("mem:\"xyz=1\"", 4, "column 5: `mem` has no option `xyz`"),
        ("mem: | readnoly", 4, "column 8: there is no layer 'readnoly'; did you mean 'readonly'?"),
        ("mem: | readonly(all=yes)", 4, "column 17: `readonly` has no option `all`"),
        ("mem: | audit(queue=many)", 4, "column 20: option `queue` of `audit` cannot be `many`"),
        ("mem: | audit(queue=1, queue=2)", 4, "column 23: option `queue` of `audit` is given twice"),
        ("mem: | audit(to=/none/x)", 4, "column 17: option `to` of `audit`: cannot use `/none/x`"),
        ("mem: | rules.fist", 4, "column 8: cannot read "),
        ("(mem: | faulty(error=EIO))=rw, mem: | union", 5, "column 39: `union` cannot use the branch "),
    ];
    for (expression, code, message) in cases {
        refused(&scratch, &[expression, mount], code, message);
        let explained = run(["explain", expression]);
        assert_eq!(explained.code, code, "{explained:?}");
    }
}

#[test]
fn a_stack_in_the_place_of_the_mount_point_is_recognised() {
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    for stack in ["mem: | readonly", "mem:", "\"/some dir\" | readonly"] {
        let message = "the stack comes before the mount point; write plyfs mount ";
        refused(&scratch, &[mount, stack], 2, message);
        let result = run(["mount", mount, stack]);
        assert!(result.errors.ends_with(&format!(" {mount}\n")), "{result:?}");
    }
    let missing = scratch.name("not there");
    let result = run(["mount", "mem:", &missing]);
    assert!(result.errors.ends_with(&format!("mkdir '{missing}'\n")), "{result:?}");
}

#[test]
fn a_description_of_a_stack_creates_no_file() {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    run(["explain", &format!("mem: | audit(to={})", log.display())]).succeeded();
    assert!(!log.exists());
}

#[test]
fn wrong_options_and_mount_points() {
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    fs::write(scratch.path("file"), "").unwrap();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["mem:", mount, "-o", "ro,alow_other"], 2, "unknown mount option 'alow_other'; did you mean 'allow_other'?"),
        (&["mem:", mount, "-o", "attr_timeout=soon"], 2, "mount option 'attr_timeout' needs a number of seconds"),
        (
            &["mem:", mount, "-o", "without=max-pages:x"],
            2,
            "mount option 'without': the FUSE protocol has no feature 'x'; ",
        ),
        (&["mem:", mount, "--log-level", "loud"], 2, "'loud' is not a log level"),
        (&["mem:", &scratch.name("none")], 6, "the mount point"),
        (&["mem:", &scratch.name("file")], 6, "the mount point"),
        (&["mem:", &scratch.name("file/below")], 6, "the mount point"),
        (&["mem:", mount, "--log-file", "/none/log"], 1, "cannot open the log file /none/log"),
    ];
    for (words, code, message) in cases {
        refused(&scratch, words, code, message);
    }
    for words in [&["mount", "mem:"][..], &["mount"], &["mout", "mem", "x"], &["mount", "mem:", mount, "--fast"]] {
        let result = finish(plyfs().args(words).output());
        assert_eq!((result.code, result.errors.lines().count()), (2, 1), "{words:?}: {result:?}");
    }
}

#[test]
fn missing_bases() {
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    fs::write(scratch.path("file"), "").unwrap();
    let none = scratch.name("none");
    refused(&scratch, &[&none, mount], 5, &format!("there is no directory `{none}`: "));
    let file = scratch.name("file");
    refused(&scratch, &[&file, mount], 5, &format!("`{file}` is neither a directory, nor "));
    refused(&scratch, &[&format!("dir:{file}"), mount], 5, &format!("`{file}` is not a directory: "));
    refused(&scratch, &["--over", &none, "readonly"], 6, "the mount point");
    let shell = run(["shell", &none, "-c", "ls"]);
    assert_eq!((shell.code, shell.errors.lines().count()), (5, 1), "{shell:?}");
}

#[test]
fn a_mount_point_in_use() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    fs::write(scratch.path("mount/hidden"), "").unwrap();
    let result = run(["mount", "mem:", mount]);
    assert_eq!(result.code, 0, "{result:?}");
    assert_eq!(result.errors, format!("plyfs: warning: {mount} is not empty; the mount hides its contents\n"));
    let again = run(["mount", "mem:", mount]);
    assert_eq!(again.code, 7, "{again:?}");
    assert!(again.errors.contains("is already a mount of Plyfs; "), "{again:?}");
    umount(mount);
    assert!(scratch.path("mount/hidden").exists());
}

#[test]
fn without_the_device_or_permission() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = scratch.name("mount");
    let program = env!("CARGO_BIN_EXE_plyfs");
    // In a mount name space of its own, /dev is empty.
    let script = format!("mount -t tmpfs none /dev && exec {program} mount mem: {mount}");
    let result = finish(std::process::Command::new("unshare").args(["--mount", "sh", "-c", &script]).output());
    assert_eq!(result.code, 8, "{result:?}");
    assert!(result.errors.starts_with("plyfs: there is no /dev/fuse: load the kernel module"), "{result:?}");
    assert_eq!(result.errors.lines().count(), 1, "{result:?}");
    // Without the capability, root may not mount.
    let mut weak = std::process::Command::new("setpriv");
    let result = finish(weak.args(["--bounding-set", "-all", program, "mount", "mem:", &mount]).output());
    assert_eq!(result.code, 9, "{result:?}");
    assert!(result.errors.starts_with("plyfs: mounting is not permitted here"), "{result:?}");
    assert!(!is_mounted(&scratch.mount()));
}

#[test]
fn commands_on_what_is_no_mount() {
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    for words in [&["umount", mount][..], &["status", mount], &["log-level", mount], &["control", mount, "audit", "x"]]
    {
        let result = finish(plyfs().args(words).output());
        assert_eq!(result.code, 11, "{words:?}: {result:?}");
        assert_eq!(
            result.errors,
            format!("plyfs: there is no mount of Plyfs on {mount}; to list the mounts: plyfs status\n")
        );
    }
    let other = run(["umount", "/proc"]);
    assert_eq!(other.code, 11, "{other:?}");
    assert!(other.errors.starts_with("plyfs: /proc is a mount of type proc, not of Plyfs"), "{other:?}");
}

#[test]
fn a_file_of_rules_without_an_end_is_refused() {
    let result = run(["explain", "mem: | audit(rules=/dev/zero)"]);
    assert!(result.code == 4 && result.errors.contains("/dev/zero"), "{result:?}");
    let result = run(["explain", "mem: | faulty(rules=/dev/urandom)"]);
    assert!(result.code == 4 && result.errors.contains("/dev/urandom"), "{result:?}");
}

/// What cannot be written to standard output is a failure with a message, of every command.
#[test]
fn a_full_standard_output_is_reported() {
    let commands: [&[&str]; 7] = [
        &["--help"],
        &["--version"],
        &["mount", "--help"],
        &["layers"],
        &["explain", "mem:"],
        &["shell", "mem:", "-c", "echo text"],
        &["completions", "bash"],
    ];
    for words in commands {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let result = finish(plyfs().args(words).stdout(full).output());
        assert!(result.code == 1 && result.errors.contains("No space left on device"), "{words:?}: {result:?}");
        // A closed pipe is nothing to report: nobody wants the rest.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let result = finish(plyfs().args(words).stdout(writer).output());
        assert_eq!(result.errors, "", "{words:?}");
    }
}
