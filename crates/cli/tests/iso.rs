//! Mounted images, by the real command: what they show, unions over them, several mounts of one, and mounts by users.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use support::{Scratch, can_mount, copy_program, finish, is_mounted, run, umount};

/// Creates a source tree, and an image `image.iso` of it.
fn image(scratch: &Scratch, arguments: &[&str]) {
    let source = scratch.path("source");
    fs::create_dir_all(source.join("a/b/c/d/e/f/g/h/i/deep")).unwrap();
    fs::write(source.join("a/b/c/d/e/f/g/h/i/deep/file"), "deep\n").unwrap();
    fs::write(source.join("a/Text with UPPER and ümlaut"), "text\n").unwrap();
    fs::write(source.join("large"), contents()).unwrap();
    fs::write(source.join("empty"), "").unwrap();
    fs::write(source.join("n".repeat(240)), "long\n").unwrap();
    symlink("../large", source.join("a/link")).unwrap();
    fs::set_permissions(source.join("large"), fs::Permissions::from_mode(0o640)).unwrap();
    chown(source.join("empty"), Some(1234), Some(5678)).unwrap();
    let image = scratch.path("image.iso");
    let mut command = Command::new("genisoimage");
    let status = command.arg("-quiet").args(arguments).arg("-o").args([&image, &source]).stderr(Stdio::null()).status();
    assert!(status.expect("genisoimage is installed").success());
}

/// Returns 5 MB that differ everywhere.
fn contents() -> Vec<u8> {
    (0..5_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Asserts that diff(1) finds two trees equal.
fn assert_same(one: &Path, other: &Path) {
    let output = Command::new("diff").args(["-r", "--no-dereference"]).args([one, other]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_mounted_image_shows_what_it_was_made_from() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    image(&scratch, &["-R"]);
    let (image, mount) = (scratch.name("image.iso"), scratch.name("mount"));
    run(["mount", &image, &mount]).succeeded();
    assert_same(&scratch.path("source"), &scratch.mount());
    for name in ["large", "empty", "a", "a/link"] {
        let [one, other] = ["source", "mount"].map(|root| scratch.path(root).join(name).symlink_metadata().unwrap());
        let attributes = |it: &fs::Metadata| (it.mode(), it.uid(), it.gid(), it.mtime());
        assert_eq!(attributes(&one), attributes(&other), "{name}");
    }
    for refused in [
        fs::write(scratch.path("mount/new"), "").unwrap_err(),
        fs::remove_file(scratch.path("mount/empty")).unwrap_err(),
        File::options().write(true).open(scratch.path("mount/large")).unwrap_err(),
    ] {
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    }
    let explained = run(["explain", &format!("iso:{image}")]).succeeded();
    assert!(explained.contains("read-only"), "{explained}");
    assert!(run(["status", &mount]).succeeded().contains(&image));
    umount(&mount);
}

#[test]
fn options_are_given_in_parentheses() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    image(&scratch, &["-D", "-iso-level", "4"]);
    let (image, mount) = (scratch.name("image.iso"), scratch.name("mount"));
    run(["mount", &format!("iso:{image}(uid=77, dmode=500, names=as-is)"), &mount]).succeeded();
    let metadata = fs::metadata(scratch.path("mount/a")).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (77, 0o500));
    assert_eq!(fs::read(scratch.path("mount/large")).unwrap(), contents());
    umount(&mount);
    let listed = run(["bases", "iso"]).succeeded();
    for part in ["iso:PATH(OPTION=VALUE, ...)", "names=lower|as-is|raw", "plain path"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(run(["bases"]).succeeded().contains("iso"));
    for (stack, code, message) in [
        (format!("iso:{image}(mode=x)"), 4, "option `mode` of `iso` cannot be `x`"),
        (format!("iso:{}", scratch.name("source/large")), 5, "is no ISO 9660 image: it has no volume descriptor"),
        (format!("iso:{}", scratch.name("none")), 5, "none"),
    ] {
        let refused = run(["mount", &stack, &mount]);
        assert!(refused.code == code && refused.errors.contains(message), "{refused:?}");
        assert_eq!(refused.errors.lines().filter(|line| line.starts_with("plyfs")).count(), 1, "{refused:?}");
    }
}

#[test]
fn a_union_over_an_image_is_writable() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    image(&scratch, &["-R", "-J"]);
    fs::create_dir(scratch.path("cow")).unwrap();
    let mount = scratch.name("mount");
    let stack = format!("{}=rw, iso:{}=ro | union", scratch.name("cow"), scratch.name("image.iso"));
    run(["mount", &stack, &mount]).succeeded();
    assert_same(&scratch.path("source"), &scratch.mount());
    let file = File::options().write(true).open(scratch.path("mount/large")).unwrap();
    file.write_all_at(b"changed", 4_000_000).unwrap();
    drop(file);
    let mut expected = contents();
    expected[4_000_000..4_000_007].copy_from_slice(b"changed");
    assert!(fs::read(scratch.path("mount/large")).unwrap() == expected);
    fs::remove_dir_all(scratch.path("mount/a/b")).unwrap();
    fs::rename(scratch.path("mount/empty"), scratch.path("mount/a/moved")).unwrap();
    fs::write(scratch.path("mount/a/new"), "new").unwrap();
    umount(&mount);
    // The same afterwards, and the image is as it was.
    run(["mount", &stack, &mount]).succeeded();
    assert!(fs::read(scratch.path("mount/large")).unwrap() == expected);
    assert!(!scratch.path("mount/a/b").exists() && !scratch.path("mount/empty").exists());
    assert_eq!(fs::metadata(scratch.path("mount/a/moved")).unwrap().uid(), 1234);
    assert_eq!(fs::read(scratch.path("mount/a/new")).unwrap(), b"new");
    umount(&mount);
    run(["mount", &scratch.name("image.iso"), &mount]).succeeded();
    assert_same(&scratch.path("source"), &scratch.mount());
    umount(&mount);
}

#[test]
fn one_image_is_mounted_several_times() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    image(&scratch, &["-R"]);
    fs::create_dir(scratch.path("merged")).unwrap();
    let (image, mounts) = (scratch.name("image.iso"), [scratch.name("mount"), scratch.name("merged")]);
    mounts.iter().for_each(|mount| drop(run(["mount", &image, mount]).succeeded()));
    assert_same(&scratch.mount(), &scratch.path("merged"));
    let [one, other] = ["mount", "merged"].map(|name| fs::metadata(scratch.path(name).join("large")).unwrap().ino());
    assert_eq!(one, other);
    // Whoever writes the image, and locks it, has to wait.
    let writer = File::options().write(true).open(&image).unwrap();
    assert!(writer.try_lock().is_err());
    umount(&mounts[0]);
    assert_eq!(fs::read(scratch.path("merged/a/b/c/d/e/f/g/h/i/deep/file")).unwrap(), b"deep\n");
    umount(&mounts[1]);
    writer.try_lock().unwrap();
    assert_eq!(run(["mount", &image, &mounts[0]]).code, 12);
}

#[test]
fn handles_of_a_mount_are_valid_in_the_next() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    image(&scratch, &["-R"]);
    let (image, mount) = (scratch.name("image.iso"), scratch.name("mount"));
    let numbers = || {
        run(["mount", &image, &mount]).succeeded();
        let names = ["", "large", "a", "a/b/c/d/e/f/g/h/i/deep", "a/link"];
        let numbers = names.map(|name| scratch.mount().join(name).symlink_metadata().unwrap().ino());
        umount(&mount);
        numbers
    };
    assert_eq!(numbers(), numbers());
}

/// Returns whether this is a process in which all users may open /dev/fuse; otherwise runs the test in one.
fn is_apart(test: &str) -> bool {
    const MARK: &str = "PLYFS_TEST_IS_APART";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("device")).unwrap();
    let script = format!(
        "set -e; mount -t tmpfs none {place}; mknod -m 666 {place}/fuse c 10 229; mount --bind {place}/fuse /dev/fuse
        exec \"$0\" --exact {test} --show-output",
        place = scratch.name("device"),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(std::env::current_exe().unwrap()).env(MARK, "yes");
    let result = finish(command.output());
    assert!(result.code == 0 && result.output.contains("test result: ok. 1 passed"), "{result:?}");
    false
}

#[test]
fn a_user_mounts_an_image_of_his_own() {
    if !can_mount() {
        return;
    }
    if !Path::new("/usr/bin/fusermount3").exists() {
        eprintln!("skipped: needs fusermount3");
        return;
    }
    if !is_apart("a_user_mounts_an_image_of_his_own") {
        return;
    }
    const NOBODY: u32 = 65_534;
    let scratch = Scratch::new();
    image(&scratch, &["-R"]);
    let program = scratch.path("plyfs");
    copy_program(env!("CARGO_BIN_EXE_plyfs"), &program);
    for name in ["mount", "image.iso"] {
        chown(scratch.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::set_permissions(scratch.path("image.iso"), fs::Permissions::from_mode(0o400)).unwrap();
    let as_user = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]);
        command.args(words).env_remove("XDG_RUNTIME_DIR").current_dir("/").stdin(Stdio::null());
        finish(command.output())
    };
    let (program, mount) = (program.to_str().unwrap(), scratch.name("mount"));
    as_user(&[program, "mount", &scratch.name("image.iso"), &mount]).succeeded();
    assert!(is_mounted(&scratch.mount()));
    let deep = scratch.name("mount/a/b/c/d/e/f/g/h/i/deep/file");
    assert_eq!(as_user(&["cat", &deep]).succeeded(), "deep\n");
    // The modes of the image count for its owner, too.
    assert_ne!(as_user(&["cat", &scratch.name("mount/large")]).code, 0);
    as_user(&[program, "umount", &mount]).succeeded();
    assert!(!is_mounted(&scratch.mount()));
}
