//! Whatever is wrong with an image or a command line: one line with cause and remedy, the code of the table, nothing changed.

use std::fs::{self, File};
use std::process::Stdio;

use rustix::fs::FlockOperation;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::images::{Image, fat, json};
use crate::support::{Run, Scratch, finish, plyfs};

/// The tools, with what they need besides the image.
const TOOLS: [&[&str]; 9] = [
    &["mkfs", "--force"],
    &["fsck"],
    &["fsck", "-n"],
    &["badsect"],
    &["dump"],
    &["tune"],
    &["tune", "--estimate"],
    &["label"],
    &["label", "--remove"],
];

/// Checks that a run failed with a code and one line.
fn assert_refused(ran: &Run, code: i32, context: &str) {
    assert_eq!(ran.code, code, "{context}: {ran:?}");
    assert!(ran.errors.starts_with("plyfs: ") && ran.errors.lines().count() == 1, "{context}: {ran:?}");
    let has_remedy = ran.errors.contains(';') || ran.errors.matches(": ").count() > 1;
    assert!(has_remedy, "{context}: no remedy: {ran:?}");
}

#[test]
fn what_is_no_image_is_refused() {
    let scratch = Scratch::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, scratch.path("fifo"), 0o600.into()).unwrap();
    std::os::unix::fs::symlink("dangling", scratch.path("symlink")).unwrap();
    for object in ["mount", "none", "none/image", "fifo", "symlink"] {
        for tool in TOOLS {
            let ran = fat(&[tool, &[&scratch.name(object)]].concat());
            assert_refused(&ran, 5, &format!("{tool:?} {object}"));
        }
    }
    let ran = fat(&["mkfs", "--size", "4m", &scratch.name("none/image")]);
    assert_refused(&ran, 5, "a missing directory");
    let ran = fat(&["mkfs", "--size", "4m", &scratch.name("symlink")]);
    assert_refused(&ran, 5, "a dangling symlink");
}

#[test]
fn contents_that_are_no_file_system_are_refused() {
    let scratch = Scratch::new();
    let mut random = fastrand::Rng::with_seed(1);
    let noise: Vec<u8> = (0..100_000).map(|_| random.u8(..)).collect();
    for (name, contents) in [("empty", &[][..]), ("byte", &[1]), ("zeros", &[0; 100_000]), ("noise", &noise)] {
        let path = scratch.path(name);
        fs::write(&path, contents).unwrap();
        for tool in TOOLS.iter().filter(|tool| tool[0] != "mkfs") {
            let ran = fat(&[*tool, &[&scratch.name(name)]].concat());
            // A check has found something.
            let code = if tool[0] == "fsck" { 1 } else { 5 };
            assert_refused(&ran, code, &format!("{tool:?} {name}"));
            assert!(fs::read(&path).unwrap() == contents, "{tool:?} {name}");
        }
    }
    for name in ["empty", "byte"] {
        assert_refused(&fat(&["mkfs", "--force", &scratch.name(name)]), 1, name);
    }
    for (option, value) in
        [("-s", "3"), ("-S", "100"), ("-F", "32"), ("-f", "0"), ("--size", "1t"), ("-R", "0"), ("-M", "1")]
    {
        let ran = fat(&["mkfs", "--force", option, value, &scratch.name("zeros")]);
        assert_refused(&ran, 1, option);
        assert!(fs::read(scratch.path("zeros")).unwrap().iter().all(|byte| *byte == 0), "{option}");
    }
    assert_refused(&fat(&["mkfs", &scratch.name("noise")]), 1, "noise");
}

#[test]
fn images_in_use_are_refused() {
    let image = Image::with_files();
    let before = image.contents();
    let file = File::open(&image.name).unwrap();
    for (lock, excluded) in [(FlockOperation::LockExclusive, true), (FlockOperation::LockShared, false)] {
        rustix::fs::flock(&file, lock).unwrap();
        for tool in TOOLS {
            let ran = fat(&[tool, &[&image.name]].concat());
            let is_examination = [&["dump"][..], &["tune", "--estimate"], &["label"]].contains(&tool);
            let is_reader = tool == ["fsck", "-n"];
            if is_examination || is_reader && !excluded {
                assert_eq!(ran.code, 0, "{tool:?}: {ran:?}");
            } else {
                assert_refused(&ran, 12, &format!("{tool:?}"));
            }
        }
    }
    assert!(image.contents() == before);
}

#[test]
fn partitions_are_chosen() {
    let scratch = Scratch::new();
    let name = &scratch.name("disk");
    let mut disk = vec![0; 12 << 20];
    for (number, start) in [(0, 2048_u32), (1, 10_240)] {
        let entry = &mut disk[446 + number * 16..][..16];
        entry[4] = 0x0C;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&8192_u32.to_le_bytes());
    }
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    fs::write(name, &disk).unwrap();
    let refused = fat(&["mkfs", name]);
    assert_refused(&refused, 1, "a partition table");
    assert!(refused.errors.contains("contains a partition table"), "{refused:?}");
    assert_refused(&fat(&["label", name]), 5, "nothing yet");
    fat(&["mkfs", "--partition", "2", "--label", "second", name]).succeeded();
    let dump = fat(&["dump", name]).succeeded();
    assert!(dump.lines().any(|line| line.split_whitespace().eq(["hidden", "sectors", "10240"])), "{dump}");
    assert_eq!(json(&["label", name])["label"], "SECOND");
    fat(&["mkfs", &format!("fat:{name}(partition=1)"), "--label", "first"]).succeeded();
    assert_refused(&fat(&["label", name]), 5, "several");
    let labels = [&format!("{name}(partition=1)"), &format!("fat:{name}(partition=2)")]
        .map(|name| json(&["label", name])["label"].clone());
    assert_eq!(labels, ["FIRST", "SECOND"]);
    assert_eq!(json(&["fsck", "-n", "--partition", "1", name])["found"], 0);
    for number in ["0", "3"] {
        for tool in TOOLS {
            assert_refused(&fat(&[tool, &["--partition", number, name]].concat()), 5, number);
        }
    }
    assert_refused(&fat(&["label", "--partition", "1", &format!("fat:{name}(partition=2)")]), 2, "two numbers");
    assert_refused(&fat(&["label", &format!("fat:{name}(uid=2)")]), 4, "an option of mounts");
    let outside = [&fs::read(name).unwrap()[..446], &fs::read(name).unwrap()[512..2048 * 512]].concat();
    assert!(outside.iter().all(|byte| *byte == 0), "something was written outside of the partitions");
}

#[test]
fn a_full_disk_leaves_no_image() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let scratch = Scratch::new();
    let mount = |options: &std::ffi::CStr, flags| {
        rustix::mount::mount("tmpfs", scratch.mount(), "tmpfs", flags, Some(options)).unwrap();
    };
    mount(c"size=64k", MountFlags::empty());
    let name = &scratch.name("mount/image");
    let ran = fat(&["mkfs", "--size", "64m", name]);
    assert_refused(&ran, 1, "full");
    assert!(ran.errors.contains("make room"), "{ran:?}");
    assert!(!fs::exists(name).unwrap());
    fat(&["mkfs", "--size", "160k", name]).succeeded();
    let before = fs::read(name).unwrap();

    rustix::mount::mount_remount(scratch.mount(), MountFlags::RDONLY, c"").unwrap();
    for tool in TOOLS {
        let ran = fat(&[tool, &[name]].concat());
        let writes =
            [&["mkfs", "--force"][..], &["fsck"], &["badsect"], &["tune"], &["label", "--remove"]].contains(&tool);
        match writes {
            true => assert_refused(&ran, 5, &format!("{tool:?}")),
            false => assert_eq!(ran.code, 0, "{tool:?}: {ran:?}"),
        }
    }
    assert!(fs::read(name).unwrap() == before);
    rustix::mount::unmount(scratch.mount(), UnmountFlags::empty()).unwrap();
}

#[test]
fn wrong_words_are_refused() {
    let image = Image::new();
    let name = image.name.as_str();
    let cases: [&[&str]; 12] = [
        &["mkfs", "-F", "13", name],
        &["mkfs", "--size", "many", name],
        &["mkfs", "--geometry", "16", name],
        &["mkfs", "--media", "0x1ff", name],
        &["mkfs", "--serial", "xyz", name],
        &["mkfs", "--codepage", "1", name],
        &["mkfs", "--tz", "Mars", name],
        &["fsck", "-n", "-y", name],
        &["fsck", "--lost", "maybe", name],
        &["dump", "--table=9-1", name],
        &["label", name, "text", "--remove"],
        &["fsck"],
    ];
    for words in cases {
        assert_refused(&fat(words), 2, &format!("{words:?}"));
    }
    let ran = finish(
        plyfs().args(["fat", "dump", name]).stdout(File::create("/dev/full").unwrap()).stdin(Stdio::null()).output(),
    );
    assert_refused(&ran, 1, "/dev/full");
}
