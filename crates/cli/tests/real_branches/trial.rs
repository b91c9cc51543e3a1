//! What is tried in a union over each kind of file system.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, StatxFlags, XattrFlags, getxattr, renameat_with, setxattr};
use rustix::io::Errno;

use crate::file_system::Kind;
use crate::scene::Scene;

/// Tries everything in a new union over a file system of this kind, and that it is the same after another mount.
pub(crate) fn run(kind: Kind) {
    let scene = Scene::new(kind);
    for part in [
        copies,
        attributes,
        renames,
        deletions,
        deleted_while_open,
        directories,
        links,
        names,
        extended_attributes,
        rights,
        held_open,
    ] {
        part(&scene);
    }
    let seen = scene.seen();
    scene.unmount();
    let check = scene.check("--");
    assert_eq!((check.code, check.output.as_str()), (0, ""), "{kind:?}: {check:?}");
    let losses = scene.check("--losses");
    let is_told = |text: &str| losses.output.lines().any(|line| line.contains(text));
    let without = "without what the branch does not keep:";
    assert_eq!(
        is_told(&format!("of a user is a copy {without} owner, mode")),
        !kind.is_posix(),
        "{kind:?}: {losses:?}"
    );
    assert_eq!(is_told(&format!("labelled is a copy {without}")), !kind.is_posix(), "{kind:?}: {losses:?}");
    scene.mount();
    assert_eq!(scene.seen(), seen, "{kind:?}: after another mount");
    scene.unmount();
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    File::options().append(true).open(path)?.write_all(text.as_bytes())
}

#[track_caller]
fn same<T>(answer: Result<T, std::io::Error>, expected: Option<Errno>) {
    assert_eq!(answer.err().and_then(|error| error.raw_os_error()), expected.map(Errno::raw_os_error));
}

/// A file that is written is copied, and stays the same file to whoever has it open.
fn copies(scene: &Scene) {
    let path = scene.path("dir/file");
    let mut reader = File::open(&path).unwrap();
    let number = reader.metadata().unwrap().ino();
    append(&path, " and more").unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), scene.text("dir/file").as_str()), ("file and more", "file and more"));
    assert_eq!(fs::metadata(&path).unwrap().ino(), number);
    assert_eq!(reader.metadata().unwrap().ino(), number);
    assert_eq!(fs::read_to_string(scene.upper("dir/file")).unwrap(), "file and more");
    fs::write(scene.path("dir/deep/file"), "short").unwrap();
    assert_eq!(scene.text("dir/deep/file"), "short");
    fs::write(scene.path("dir/new"), "new").unwrap();
    assert_eq!(scene.text("dir/new"), "new");
}

fn attributes(scene: &Scene) {
    let (path, is_posix) = (scene.path("dir/other"), scene.kind.is_posix());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, if is_posix { 0o600 } else { 0o755 });
    same(chown(&path, Some(7), Some(7)), (!is_posix).then_some(Errno::PERM));
    assert_eq!(fs::metadata(&path).unwrap().uid(), if is_posix { 7 } else { 0 });
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_001);
    File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    let kept: SystemTime = fs::metadata(&path).unwrap().modified().unwrap();
    let difference = time.duration_since(kept).unwrap_or_else(|later| later.duration());
    assert!(difference < Duration::from_secs(2), "{difference:?}");
    File::options().write(true).open(&path).unwrap().set_len(2).unwrap();
    assert_eq!(scene.text("dir/other"), "ot");
}

fn renames(scene: &Scene) {
    let (path, flags) = (|name: &str| scene.path(name), scene.kind.has_rename_flags());
    fs::rename(path("dir/moved"), path("there")).unwrap();
    assert_eq!((scene.text("there").as_str(), scene.has("dir/moved")), ("moved", false));
    fs::rename(path("a"), path("b")).unwrap();
    assert_eq!((scene.text("b").as_str(), scene.has("a")), ("a", false));
    let renamed = |from: &str, to: &str, flags| renameat_with(CWD, path(from), CWD, path(to), flags);
    assert_eq!(renamed("b", "there", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    renamed("b", "dir/b", RenameFlags::NOREPLACE).unwrap();
    assert_eq!((scene.text("dir/b").as_str(), scene.has("b")), ("a", false));
    assert_eq!(renamed("dir/b", "there", RenameFlags::EXCHANGE), if flags { Ok(()) } else { Err(Errno::INVAL) });
    let names = if flags { ["there", "dir/b"] } else { ["dir/b", "there"] };
    assert_eq!(names.map(|name| scene.text(name)), ["a", "moved"]);
}

fn deletions(scene: &Scene) {
    let gone = scene.path("gone");
    fs::remove_file(&gone).unwrap();
    assert!(!scene.has("gone"));
    fs::write(&gone, "again").unwrap();
    assert_eq!(scene.text("gone"), "again");
    fs::remove_file(&gone).unwrap();
    assert_eq!(fs::read(&gone).unwrap_err().kind(), ErrorKind::NotFound);
    let listed = fs::read_dir(scene.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(listed.into_iter().all(|name| name != "gone"));
}

/// What is deleted while it is open goes on.
fn deleted_while_open(scene: &Scene) {
    let path = scene.path("dir/open and gone");
    fs::write(&path, "before").unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!scene.has("dir/open and gone"));
    file.write_all_at(b"behind", 0).unwrap();
    let mut data = [0; 6];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(&data, b"behind");
    let mut listed = fs::read_dir(scene.path("dir")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(listed.all(|name| !name.as_encoded_bytes().starts_with(b".nfs")), "what NFS keeps of it is not seen");
    drop(file);
}

fn directories(scene: &Scene) {
    let path = |name: &str| scene.path(name);
    fs::remove_file(path("full/x")).unwrap();
    fs::remove_dir(path("full")).unwrap();
    fs::create_dir(path("full")).unwrap();
    assert_eq!(fs::read_dir(path("full")).unwrap().count(), 0, "it has nothing of the one before");
    fs::write(path("full/y"), "y").unwrap();
    fs::create_dir(path("new place")).unwrap();
    fs::rename(path("full"), path("new place/full")).unwrap();
    assert_eq!((scene.text("new place/full/y").as_str(), scene.has("full")), ("y", false));
    // What is replaced shows nothing, but has whiteouts.
    fs::remove_file(path("empty/x")).unwrap();
    fs::rename(path("new place/full"), path("empty")).unwrap();
    assert_eq!((scene.text("empty/y").as_str(), scene.has("empty/x")), ("y", false));
    // What is gone is in nobody's way.
    let mut held = Vec::new();
    for number in 0..20 {
        let made = fs::create_dir(path("brief")).and_then(|()| fs::write(path("brief/file"), "file"));
        made.unwrap_or_else(|error| panic!("{:?}: {number}: {error}", scene.kind));
        assert_eq!(scene.text("brief/file"), "file");
        fs::remove_file(path("brief/file")).unwrap();
        held.extend((number % 2 == 0).then(|| File::open(path("brief")).unwrap()));
        fs::remove_dir(path("brief")).unwrap_or_else(|error| panic!("{:?}: {number}: {error}", scene.kind));
    }
    let moved = fs::rename(path("moving"), path("moved"));
    same(moved, (!scene.kind.keeps_marks()).then_some(Errno::XDEV));
    assert_eq!(scene.text(if scene.kind.keeps_marks() { "moved/x" } else { "moving/x" }), "x");
}

fn links(scene: &Scene) {
    let (path, is_posix) = (|name: &str| scene.path(name), scene.kind.is_posix());
    same(append(&path("linked"), " and more"), (!is_posix).then_some(Errno::MLINK));
    let text = if is_posix { "linked and more" } else { "linked" };
    assert_eq!(["linked", "linked too"].map(|name| scene.text(name)), [text, text]);
    fs::remove_file(path("linked")).unwrap();
    assert_eq!((scene.text("linked too").as_str(), scene.has("linked")), (text, false));
    same(fs::hard_link(path("dir/new"), path("dir/newer")), (!is_posix).then_some(Errno::PERM));
    same(symlink("there", path("new symlink")), (!is_posix).then_some(Errno::PERM));
    fs::remove_file(path("symlink")).unwrap();
    assert!(!scene.has("symlink"));
}

fn names(scene: &Scene) {
    let (path, is_posix) = (|name: &str| scene.path(name), scene.kind.is_posix());
    append(&path("case"), " and more").unwrap();
    assert_eq!(["case", "Case"].map(|name| scene.text(name)), ["case and more", "Case"]);
    same(append(&path("Case"), " too"), (!is_posix).then_some(Errno::EXIST));
    assert_eq!(scene.text("Case"), if is_posix { "Case too" } else { "Case" });
    assert_eq!(scene.text("case"), "case and more");
    for (name, text) in [("with: colon", "with: colon"), ("ends.", "ends.")] {
        same(append(&path(name), "!"), (!is_posix).then_some(Errno::INVAL));
        assert_eq!(scene.text(name), if is_posix { format!("{text}!") } else { text.to_owned() });
        same(fs::remove_file(path(name)), (!is_posix).then_some(Errno::INVAL));
        assert_eq!(scene.has(name), !is_posix);
    }
    append(&path("ä ö/€ü"), "!").unwrap();
    fs::write(path("ä ö/日本 語"), "new").unwrap();
    assert_eq!(["ä ö/€ü", "ä ö/日本 語"].map(|name| scene.text(name)), ["€ü!", "new"]);
    let long = "l".repeat(251);
    append(&path(&long), "er").unwrap();
    assert_eq!(scene.text(&long), "longer");
    fs::remove_file(path(&long)).unwrap();
    assert!(!scene.has(&long));
    let longest = "m".repeat(255);
    fs::write(path(&longest), "longest").unwrap();
    assert_eq!(scene.text(&longest), "longest");
    fs::write(path(".wh.mine"), "mine").unwrap();
    assert_eq!((scene.text(".wh.mine").as_str(), scene.has("mine")), ("mine", false));
}

fn extended_attributes(scene: &Scene) {
    let (path, is_posix) = (scene.path("labelled"), scene.kind.is_posix());
    append(&path, "!").unwrap();
    assert_eq!(scene.text("labelled"), "labelled!");
    let mut value = [0; 8];
    let kept = getxattr(&path, "user.label", &mut value);
    assert_eq!(kept, if is_posix { Ok(1) } else { Err(Errno::OPNOTSUPP) });
    let set = setxattr(&path, "user.other", b"2", XattrFlags::empty());
    assert_eq!(set, if is_posix { Ok(()) } else { Err(Errno::OPNOTSUPP) });
}

/// What belongs to somebody and is closed to others is not copied to where it would be open.
fn rights(scene: &Scene) {
    let is_posix = scene.kind.is_posix();
    same(append(&scene.path("secret"), "!"), (!is_posix).then_some(Errno::PERM));
    assert_eq!(fs::symlink_metadata(scene.upper("secret")).is_ok(), is_posix);
    append(&scene.path("of a user"), "!").unwrap();
    let metadata = fs::metadata(scene.path("of a user")).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o777), if is_posix { (1000, 0o644) } else { (0, 0o755) });
}

/// Objects in use stay what they are when the kernel forgets what it can.
fn held_open(scene: &Scene) {
    append(&scene.path("kept open"), "!").unwrap();
    let held = ["kept open", "dir", "dir/deep"].map(|name| (name, File::open(scene.path(name)).unwrap()));
    // Nothing but its vnode knows of this one below.
    let path_only = rustix::fs::open(scene.path("dir/deep/file"), OFlags::PATH, Mode::empty()).unwrap();
    let (flags, all) = (AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
    rustix::fs::statx(&path_only, "", flags, all).unwrap();
    let numbers = || held.iter().map(|(_, file)| file.metadata().unwrap().ino()).collect::<Vec<_>>();
    let before = numbers();
    rustix::fs::sync();
    // Only to a guest of one's own.
    if std::env::var_os(crate::KINDS).is_some() {
        (0..3).for_each(|_| fs::write("/proc/sys/vm/drop_caches", "3").unwrap());
    }
    assert_eq!(numbers(), before, "{:?}", scene.kind);
    rustix::fs::statx(&path_only, "", flags, all).unwrap_or_else(|error| panic!("{:?}: {error}", scene.kind));
    for (name, file) in &held {
        let now = fs::metadata(scene.path(name)).unwrap_or_else(|error| panic!("{name}: {error}")).ino();
        assert_eq!(file.metadata().unwrap().ino(), now, "{:?}: {name}", scene.kind);
    }
    assert!(fs::read_dir(scene.path("dir/deep")).unwrap().count() > 0);
}
