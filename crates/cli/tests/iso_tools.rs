//! `plyfs iso`: information, lists and extraction, by the real command.

mod support;

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};
use support::{Run, Scratch, can_mount, copy_program, finish, run, umount};

/// Creates a source tree of objects of all kinds.
fn source(scratch: &Scratch) {
    let source = scratch.path("source");
    fs::create_dir_all(source.join("sub/inner")).unwrap();
    fs::write(source.join("file"), "contents\n").unwrap();
    fs::write(source.join("sub/inner/other file"), vec![5; 300_000]).unwrap();
    let holes = [vec![1; 70_000], vec![0; 3_000_000], vec![2; 10]].concat();
    fs::write(source.join("sub/with holes"), holes).unwrap();
    symlink("../../outside/../file", source.join("sub/link")).unwrap();
    symlink("/etc/passwd", source.join("absolute")).unwrap();
    rustix::fs::mknodat(CWD, source.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o622), 0).unwrap();
    if rustix::process::geteuid().is_root() {
        let device = rustix::fs::makedev(1, 3);
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(CWD, source.join("null"), FileType::CharacterDevice, mode, device).unwrap();
        chown(source.join("file"), Some(1234), Some(5678)).unwrap();
    }
    for (name, mode) in [("file", 0o4755), ("sub", 0o550), ("sub/inner/other file", 0o600), ("pipe", 0o622)] {
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (index, name) in ["file", "sub/link", "sub/inner", "sub", "pipe", ""].into_iter().enumerate() {
        let time = Timespec { tv_sec: 1_500_000_000 + index as i64 * 1_000, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, source.join(name), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// Makes an image `image.iso` of the source tree.
fn image(scratch: &Scratch, arguments: &[&str]) -> String {
    let image = scratch.path("image.iso");
    let mut command = Command::new("genisoimage");
    command.arg("-quiet").args(arguments).arg("-o").args([&image, &scratch.path("source")]).stderr(Stdio::null());
    assert!(command.status().expect("genisoimage is installed").success());
    scratch.name("image.iso")
}

/// Replaces bytes of an image, as often as they occur.
fn replace(image: &str, from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(image).unwrap();
    let found: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!found.is_empty(), "{from:?} is not in the image");
    found.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
    fs::write(image, bytes).unwrap();
}

/// Returns the paths of everything below a directory, in order.
fn paths(root: &Path) -> Vec<String> {
    let (mut found, mut pending) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.symlink_metadata().unwrap().is_dir() {
                pending.push(path);
            }
        }
    }
    found.sort();
    found
}

fn assert_failed(result: &Run, code: i32, message: &str) {
    assert!(result.code == code && result.errors.contains(message), "{result:?}");
}

#[test]
fn information_is_for_people_and_programs() {
    let scratch = Scratch::new();
    source(&scratch);
    let image = image(&scratch, &["-R", "-J", "-V", "A_VOLUME", "-publisher", "Me\u{1b}[2J"]);
    let text = run(["iso", "info", &image]).succeeded();
    for line in ["tree        Rock Ridge\n", "name        A_VOLUME\n", "joliet      level 3\n", "publisher   Me?[2J\n"]
    {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&run(["iso", "info", "--json", &image]).succeeded()).unwrap();
    assert_eq!(
        (&json["image"], &json["name"], &json["tree"]),
        (&image.as_str().into(), &"A_VOLUME".into(), &"Rock Ridge".into())
    );
    assert_eq!((&json["joliet_level"], &json["sector_size"]), (&3.into(), &serde_json::Value::Null));
    assert_eq!(json["size"].as_u64().unwrap(), fs::metadata(&image).unwrap().len());
    assert_eq!(json["sessions"][0]["start"], 0);
    assert!(json["times"]["created"].as_i64().unwrap() > 1_500_000_000);
    let joliet = run(["iso", "info", &image, "-o", "rock=no"]).succeeded();
    assert!(joliet.contains("tree        Joliet\n"), "{joliet}");
}

#[test]
fn what_is_no_image_is_refused() {
    let scratch = Scratch::new();
    source(&scratch);
    let file = scratch.name("source/sub/with holes");
    assert_failed(&run(["iso", "info", &file]), 5, "is no ISO 9660 image");
    assert_failed(&run(["iso", "ls", &scratch.name("none")]), 5, "none");
    assert_failed(&run(["iso", "info", &scratch.name("source")]), 5, "source");
    let image = image(&scratch, &["-R"]);
    assert_failed(&run(["iso", "info", &image, "-o", "rok=no"]), 4, "`iso` has no option `rok`");
    assert_failed(&run(["iso", "info", &image, "-o", "session=7"]), 5, "has no session 7");
    assert_failed(&run(["iso", "info"]), 2, "IMAGE");
    let writer = File::options().write(true).open(&image).unwrap();
    writer.try_lock().unwrap();
    assert_failed(&run(["iso", "ls", &image]), 12, "");
}

#[test]
fn lists_are_those_of_directories() {
    let scratch = Scratch::new();
    source(&scratch);
    let image = image(&scratch, &["-R"]);
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let sorted = |text: String| {
        let mut lines = lines(text);
        lines.sort();
        lines
    };
    let root = sorted(run(["iso", "ls", &image]).succeeded());
    assert!(
        root.contains(&"file".to_owned()) && root.contains(&"sub".to_owned()) && !root.contains(&"sub/link".to_owned())
    );
    assert_eq!(sorted(run(["iso", "ls", &image, "/sub/"]).succeeded()), ["sub/inner", "sub/link", "sub/with holes"]);
    assert_eq!(lines(run(["iso", "ls", "-d", &image, "sub", "file"]).succeeded()), ["sub", "file"]);
    let all = sorted(run(["iso", "ls", "-R", &image]).succeeded());
    let mut expected = paths(&scratch.path("source"));
    expected.push("/".to_owned());
    expected.sort();
    assert_eq!(all, expected);
    let long = run(["iso", "ls", "-l", &image, "sub", "file"]).succeeded();
    assert!(
        long.lines().any(|line| line.starts_with("lrwxrwxrwx") && line.ends_with("sub/link -> ../../outside/../file")),
        "{long}"
    );
    assert!(long.lines().any(|line| line.starts_with("-rwsr-xr-x   1  1234  5678            9 2017-07-14")), "{long}");
    let missing = run(["iso", "ls", &image, "file", "none", "sub/none"]);
    assert_failed(&missing, 1, "cannot read sub/none: ");
    assert_eq!(missing.output, "file\n");
}

#[test]
fn names_do_not_control_the_terminal() {
    let scratch = Scratch::new();
    source(&scratch);
    fs::write(scratch.path("source/red text"), "").unwrap();
    let image = image(&scratch, &["-R"]);
    replace(&image, b"red text", b"\x1b[31m\ntx");
    assert!(run(["iso", "ls", &image]).succeeded().lines().any(|line| line == "\\u{1b}[31m\\ntx"));
    run(["iso", "extract", &image, &scratch.name("out")]).succeeded();
    assert!(scratch.path("out").join(std::ffi::OsStr::from_bytes(b"\x1b[31m\ntx")).exists());
}

#[test]
fn what_is_extracted_is_what_the_image_was_made_from() {
    let scratch = Scratch::new();
    source(&scratch);
    let image = image(&scratch, &["-R"]);
    let (source, out) = (scratch.path("source"), scratch.path("out"));
    assert_eq!(run(["iso", "extract", &image, &scratch.name("out")]).succeeded(), "");
    assert_eq!(paths(&source), paths(&out));
    let is_root = rustix::process::geteuid().is_root();
    for path in paths(&source).iter().map(String::as_str).chain([""]) {
        let [one, other] = [&source, &out].map(|root| root.join(path).symlink_metadata().unwrap());
        assert_eq!(
            (one.file_type(), one.mtime(), one.rdev()),
            (other.file_type(), other.mtime(), other.rdev()),
            "{path}"
        );
        if is_root {
            assert_eq!((one.mode(), one.uid(), one.gid()), (other.mode(), other.uid(), other.gid()), "{path}");
        }
        if one.is_file() {
            assert!(fs::read(source.join(path)).unwrap() == fs::read(out.join(path)).unwrap(), "{path}");
        }
        if one.is_symlink() {
            assert_eq!(fs::read_link(source.join(path)).unwrap(), fs::read_link(out.join(path)).unwrap());
        }
    }
    let sparse = fs::metadata(out.join("sub/with holes")).unwrap();
    assert!(sparse.blocks() * 512 < 1 << 20, "zeros are holes");
    // Nothing that exists is replaced, and everything else is extracted again.
    fs::remove_file(out.join("sub/link")).unwrap();
    fs::write(out.join("file"), "mine").unwrap();
    let again = run(["iso", "extract", &image, &scratch.name("out")]);
    assert_failed(&again, 1, "cannot write file: an object of that name exists");
    assert_eq!(fs::read(out.join("file")).unwrap(), b"mine");
    assert!(out.join("sub/link").is_symlink());
}

#[test]
fn parts_of_an_image_are_extracted_with_the_directories_on_the_way() {
    let scratch = Scratch::new();
    source(&scratch);
    let image = image(&scratch, &["-R"]);
    run(["iso", "extract", &image, &scratch.name("out"), "sub/link", "/sub/inner", "file", "sub/inner/other file"])
        .succeeded();
    assert_eq!(paths(&scratch.path("out")), ["file", "sub", "sub/inner", "sub/inner/other file", "sub/link"]);
    let mode = |name: &str| fs::metadata(scratch.path(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("out/sub"), 0o550);
    assert_eq!(fs::metadata(scratch.path("out/sub")).unwrap().mtime(), 1_500_003_000);
    let missing = run(["iso", "extract", &image, &scratch.name("other"), "none/x", "file"]);
    assert_failed(&missing, 1, "cannot read none: ");
    assert_eq!(paths(&scratch.path("other")), ["file"]);
}

#[test]
fn an_image_of_others_gives_nobody_rights() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    source(&scratch);
    let image = image(&scratch, &["-R"]);
    run(["iso", "extract", "--untrusted", &image, &scratch.name("out")]).succeeded();
    let file = fs::metadata(scratch.path("out/file")).unwrap();
    assert_eq!((file.mode() & 0o7777, file.uid(), file.gid()), (0o755, 0, 0));
    assert!(!scratch.path("out/null").exists());
    assert!(fs::symlink_metadata(scratch.path("out/pipe")).unwrap().file_type().is_fifo());
    // A user gets no devices, and the rest as with that option.
    fs::set_permissions(&image, fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(scratch.path("user")).unwrap();
    chown(scratch.path("user"), Some(65_534), Some(65_534)).unwrap();
    copy_program(env!("CARGO_BIN_EXE_plyfs"), scratch.path("plyfs"));
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(scratch.path("plyfs"));
    let extracted =
        finish(command.args(["iso", "extract", &image, &scratch.name("user/out")]).current_dir("/").output());
    assert_failed(&extracted, 1, "cannot write null: ");
    let file = fs::metadata(scratch.path("user/out/file")).unwrap();
    assert_eq!((file.mode() & 0o7777, file.uid()), (0o755, 65_534));
    assert_eq!(fs::read(scratch.path("user/out/sub/inner/other file")).unwrap(), vec![5; 300_000]);
}

#[test]
fn nothing_is_written_outside_of_the_directory() {
    let scratch = Scratch::new();
    let (source, outside) = (scratch.path("source"), scratch.path("outside"));
    fs::create_dir_all(&outside).unwrap();
    for directory in ["aaaa", "cccc", "dddd"] {
        fs::create_dir_all(source.join(directory)).unwrap();
        fs::write(source.join(directory).join("evil"), "evil").unwrap();
    }
    symlink(&outside, source.join("bbbb")).unwrap();
    fs::write(source.join("eeee"), "evil").unwrap();
    let image = image(&scratch, &["-R"]);
    // A directory with the name of a symlink that leads out, names that lead out, and a name with slashes.
    for (from, to) in [("cccc", "bbbb"), ("dddd", "/../"), ("eeee", "../x")] {
        replace(&image, &[b"NM\x09\x01\x00", from.as_bytes()].concat(), &[b"NM\x09\x01\x00", to.as_bytes()].concat());
    }
    replace(&image, b"NM\x09\x01\x00aaaa", b"NM\x07\x01\x00..ST");
    let out = scratch.path("out");
    // In the directory itself, others have put a symlink.
    fs::create_dir(&out).unwrap();
    symlink(&outside, out.join("_.._")).unwrap();
    let extracted = run(["iso", "extract", &image, &scratch.name("out")]);
    assert_failed(&extracted, 1, "cannot write _.._: an object of that name exists");
    assert!(paths(&outside).is_empty(), "{:?}", paths(&outside));
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 5, "the mount point, the trees and the image");
    assert_eq!(paths(&out), [".._x", "_.._", "__", "__/evil", "bbbb", "bbbb~2", "bbbb~2/evil"]);
}

#[test]
fn a_full_disk_ends_the_extraction() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("source/a")).unwrap();
    for number in 0..8 {
        fs::write(scratch.path(&format!("source/a/{number}")), vec![b'x'; 1 << 20]).unwrap();
    }
    let image = image(&scratch, &["-R"]);
    run(["mount", "mem:\"size=4m\"", &scratch.name("mount")]).succeeded();
    let extracted = run(["iso", "extract", &image, &scratch.name("mount/out")]);
    assert_failed(&extracted, 1, "; make room, or give another directory");
    assert_eq!(extracted.errors.lines().count(), 1, "{extracted:?}");
    let files = paths(&scratch.path("mount/out"));
    assert!(files.len() < 6, "{files:?}");
    for file in files.iter().filter(|path| path.len() > 1) {
        assert_eq!(
            fs::metadata(scratch.path("mount/out").join(file)).unwrap().len(),
            1 << 20,
            "what is there is whole"
        );
    }
    umount(&scratch.name("mount"));
}

#[test]
fn what_cannot_be_read_is_reported_and_the_rest_extracted() {
    let scratch = Scratch::new();
    source(&scratch);
    fs::write(scratch.path("source/zz last"), vec![9; 5_000]).unwrap();
    let image = image(&scratch, &["-R", "-no-pad"]);
    // The end is missing: the file with the highest location.
    let length = fs::metadata(&image).unwrap().len();
    File::options().write(true).open(&image).unwrap().set_len(length - 6_000).unwrap();
    let extracted = run(["iso", "extract", &image, &scratch.name("out")]);
    assert_failed(&extracted, 1, "cannot read ");
    let is_missing = |path: &String| scratch.path("out").join(path).symlink_metadata().is_err();
    let missing: Vec<_> = paths(&scratch.path("source")).into_iter().filter(is_missing).collect();
    assert!(!missing.is_empty() && missing.len() < 4, "{missing:?}");
    assert!(missing.iter().all(|path| extracted.errors.contains(path.as_str())), "{missing:?} {extracted:?}");
    assert_eq!(fs::read(scratch.path("out/file")).unwrap(), b"contents\n");
}

#[test]
fn deep_trees_are_extracted_as_far_as_descriptors_last() {
    const DEPTH: usize = 300;
    let scratch = Scratch::new();
    let deep = scratch.path("source").join(vec!["d"; DEPTH].join("/"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), "deep").unwrap();
    fs::write(scratch.path("source/z"), "z").unwrap();
    let image = scratch.path("image.iso");
    let arguments = ["-as", "mkisofs", "-quiet", "-R", "-D", "-o"];
    let mut command = Command::new("xorriso");
    command.args(arguments).args([&image, &scratch.path("source")]).stderr(Stdio::null());
    assert!(command.status().expect("xorriso is installed").success());
    run(["iso", "extract", &scratch.name("image.iso"), &scratch.name("out")]).succeeded();
    assert_eq!(paths(&scratch.path("source")), paths(&scratch.path("out")));
    // With few descriptors, an error says so, once, and what is elsewhere is extracted.
    let mut limited = Command::new("prlimit");
    limited.args(["--nofile=100:100", env!("CARGO_BIN_EXE_plyfs"), "iso", "extract"]);
    let extracted = finish(limited.args([scratch.name("image.iso"), scratch.name("few")]).output());
    assert_failed(&extracted, 1, "Too many open files");
    assert_eq!(extracted.errors.matches("cannot write").count(), 1, "{extracted:?}");
    assert_eq!(fs::read(scratch.path("few/z")).unwrap(), b"z");
}
