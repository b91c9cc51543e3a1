//! `scripts/install`: what it installs below a prefix, and that it removes exactly that.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Run, Scratch, finish};

/// Runs the script with these variables.
fn install(variables: &[(&str, &str)], words: &[&str]) -> Run {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts/install"));
    command.args(words).env_remove("PREFIX").env_remove("DESTDIR").envs(variables.iter().copied());
    // It needs no cargo.
    command.env("CARGO", "/none");
    finish(command.output())
}

/// Directory with the programs that are tested.
fn build() -> String {
    Path::new(env!("CARGO_BIN_EXE_plyfs")).parent().unwrap().display().to_string()
}

/// Returns the paths of everything but directories, relative to a directory.
fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let listed = Command::new("find").arg(directory).args(["!", "-type", "d", "-printf", "%P\\n"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(PathBuf::from).collect()
}

#[test]
fn everything_is_installed_below_the_prefix_and_removed_again() {
    let scratch = Scratch::new();
    let (build, destination) = (build(), scratch.name("root"));
    let variables = [("BUILD", build.as_str()), ("DESTDIR", destination.as_str()), ("PREFIX", "/usr")];
    install(&variables, &[]).succeeded();
    let root = scratch.path("root");
    let installed = files(&root);
    for file in [
        "usr/bin/plyfs",
        "usr/bin/plyfs-tools",
        "usr/sbin/mount.plyfs",
        "usr/sbin/mount.fuse.plyfs",
        "usr/share/man/man1/plyfs.1.gz",
        "usr/share/man/man5/plyfs-stack.5.gz",
        "usr/share/man/man7/plyfs-layers.7.gz",
        "usr/share/man/man8/mount.plyfs.8.gz",
        "usr/share/man/man8/mount.fuse.plyfs.8.gz",
        "usr/share/bash-completion/completions/plyfs",
        "usr/share/zsh/site-functions/_plyfs",
        "usr/share/fish/vendor_completions.d/plyfs.fish",
        "usr/share/plyfs/samples/trashfs.fist",
        "usr/share/doc/plyfs/LICENSE-MIT",
        "usr/share/doc/plyfs/docs/command.md",
    ] {
        assert!(installed.contains(Path::new(file)), "{file}: {installed:?}");
    }
    assert_eq!(fs::metadata(root.join("usr/bin/plyfs")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(
        fs::canonicalize(root.join("usr/sbin/mount.plyfs")).unwrap(),
        fs::canonicalize(root.join("usr/bin/plyfs")).unwrap()
    );
    let version = finish(Command::new(root.join("usr/bin/plyfs")).arg("--version").output()).succeeded();
    assert_eq!(version, format!("plyfs {}\n", env!("CARGO_PKG_VERSION")));

    // Again, over a version that had another file.
    let list = root.join("usr/share/plyfs/installed");
    fs::write(root.join("usr/share/man/man1/plyfs-old.1.gz"), "").unwrap();
    fs::write(&list, fs::read_to_string(&list).unwrap() + "/usr/share/man/man1/plyfs-old.1.gz\n").unwrap();
    install(&variables, &[]).succeeded();
    assert_eq!(files(&root), installed);

    let own = root.join("usr/share/plyfs/samples/own.fist");
    fs::write(&own, "").unwrap();
    install(&variables, &["--uninstall"]).succeeded();
    assert_eq!(
        files(&root),
        BTreeSet::from(["usr/share/plyfs/samples/own.fist".into()]),
        "what others put there remains"
    );
    assert!(!root.join("usr/share/doc/plyfs").exists());
}

#[test]
fn what_cannot_be_installed_is_reported_with_the_remedy() {
    let scratch = Scratch::new();
    let (empty, destination) = (scratch.name("empty"), scratch.name("root"));
    let error = |variables: &[(&str, &str)], words: &[&str]| {
        let ended = install(variables, words);
        assert_eq!(ended.code, 1, "{ended:?}");
        ended.errors
    };
    let unbuilt = error(&[("BUILD", empty.as_str()), ("DESTDIR", destination.as_str())], &[]);
    assert!(unbuilt.contains("/plyfs does not exist; ") && unbuilt.ends_with("make build\n"), "{unbuilt}");
    let absent = error(&[("DESTDIR", destination.as_str())], &["--uninstall"]);
    assert!(absent.contains("share/plyfs/installed does not exist; give PREFIX and DESTDIR"), "{absent}");
    assert!(error(&[("DESTDIR", "relative")], &[]).contains("are absolute paths"));
    assert!(!scratch.path("root").exists(), "nothing was created");
}

#[test]
fn mount_helpers_are_in_sbin_where_it_is_a_directory_of_its_own() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("root/sbin")).unwrap();
    let (build, destination) = (build(), scratch.name("root"));
    install(&[("BUILD", build.as_str()), ("DESTDIR", destination.as_str())], &[]).succeeded();
    assert_eq!(fs::read_link(scratch.path("root/sbin/mount.plyfs")).unwrap(), Path::new("../usr/local/bin/plyfs"));
    assert!(scratch.path("root/sbin/mount.plyfs").exists());
}
