//! FiST programs that stacks name without a path, through the command: found, listed, mounted, and refused.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::{Run, Scratch, can_mount, finish, plyfs, umount};

const TRASH: &str = include_str!("../../../examples/fist/trashfs.fist");

/// Writes a program that nobody else can write.
fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

/// Runs the command in the scratch directory, with these directories of the search path.
fn run(scratch: &Scratch, path: &str, words: &[&str]) -> Run {
    let mut command = plyfs();
    command
        .args(words)
        .current_dir(scratch.path("."))
        .env("PLYFS_PATH", path)
        .env("XDG_DATA_HOME", scratch.path("data"));
    finish(command.output())
}

#[test]
fn a_program_is_mounted_by_its_name_and_keeps_its_path() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for directory in ["base", "data", "data/plyfs"] {
        fs::create_dir(scratch.path(directory)).unwrap();
        fs::set_permissions(scratch.path(directory), fs::Permissions::from_mode(0o755)).unwrap();
    }
    write_program(&scratch.path("data/plyfs/trashfs.fist"), TRASH);
    fs::write(scratch.path("base/file"), "text").unwrap();
    let (base, mount) = (scratch.name("base"), scratch.name("mount"));
    run(&scratch, "", &["mount", &format!("{base} | trash"), &mount]).succeeded();
    fs::remove_file(scratch.path("mount/file")).unwrap();
    assert_eq!(fs::read(scratch.path("base/file.deleted")).unwrap(), b"text");
    let program = fs::canonicalize(scratch.path("data/plyfs/trashfs.fist")).unwrap();
    let status = run(&scratch, "", &["status", &mount]).succeeded();
    assert!(status.contains(&format!("{base} | {}", program.display())), "{status}");
    run(&scratch, "", &["fist", "reload", &mount]).succeeded();
    umount(&mount);
}

#[test]
fn programs_are_listed_and_described() {
    let scratch = Scratch::new();
    write_program(&scratch.path("trashfs.fist"), TRASH);
    let directory = scratch.name(".");
    let list = run(&scratch, &directory, &["layers"]).succeeded();
    let (kinds, programs) = list.split_once("\n\n").unwrap();
    assert!(kinds.contains("readonly") && !kinds.contains("trashfs"), "{list}");
    assert!(
        programs.lines().any(|line| line.trim().starts_with("trashfs ") && line.contains("renames what is deleted"))
    );
    let description = run(&scratch, &directory, &["layers", "trashfs"]).succeeded();
    assert!(description.starts_with("trashfs: Trashfs renames what is deleted "), "{description}");
    assert!(description.contains("  BASE | trashfs\n") && description.contains("fist explain "), "{description}");
}

#[test]
fn a_name_that_is_not_found_is_reported_with_the_directories_and_never_taken_from_the_current_one() {
    let scratch = Scratch::new();
    write_program(&scratch.path("herefs.fist"), "%%\n");
    for path in ["", ".", "/none:."] {
        let missing = run(&scratch, path, &["explain", "mem: | herefs"]);
        assert_eq!(missing.code, 4, "{missing:?}");
        assert!(missing.errors.contains("no FiST program herefs.fist or herefsfs.fist is in "), "{missing:?}");
        assert!(missing.errors.contains("/data/plyfs, /usr/local/share/plyfs/samples or /usr/share/plyfs/samples"));
        assert_eq!(missing.errors.contains("/none, "), path.starts_with("/none"), "{missing:?}");
    }
    run(&scratch, &scratch.name("."), &["explain", "mem: | herefs"]).succeeded();
    fs::set_permissions(scratch.path("herefs.fist"), fs::Permissions::from_mode(0o666)).unwrap();
    let refused = run(&scratch, &scratch.name("."), &["explain", "mem: | herefs"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.errors.contains("others can write to") && refused.errors.contains("chmod go-w /"), "{refused:?}");
}
