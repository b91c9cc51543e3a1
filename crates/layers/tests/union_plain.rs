//! Unions over a branch that has less than others, as FAT and NFS: what is done there is the same as in any other, but for what
//! such a branch cannot have, which answers an error or is noted.

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use common::memory;
use common::plain::{EVERYTHING, FAT, Lacks, NFS, NOTHING, cases, without};
use common::unions::{at, fill, list, name, read, server, write};
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use plyfs_layers::union::{CheckOptions, Loss, Losses, Problem, check};
use plyfs_layers::{Branch, BranchMode};
use vnode::{
    Attributes, Cookie, Creation, Errno, FileKind, FileSystemRef, OpenFlags, RenameMode, Result, SetAttributes,
    SetTime, Timestamp, XattrMode,
};

/// A union of a branch that lacks something and of one that is only read.
struct Scene {
    lacks: Lacks,
    upper: FileSystemRef,
    lower: FileSystemRef,
    union: FileSystemRef,
}

impl Scene {
    fn new(lacks: Lacks, lower: FileSystemRef) -> Self {
        let upper = without(lacks, memory());
        // All is root's where nobody else can own anything.
        let rights = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
        upper.root().setattr(&server(), &rights).unwrap();
        let union = join(&upper, &lower);
        Self { lacks, upper, lower, union }
    }

    fn again(self) -> Self {
        let Self { lacks, upper, lower, union } = self;
        drop(union);
        let union = join(&upper, &lower);
        Self { lacks, upper, lower, union }
    }

    fn problems(&self, options: CheckOptions) -> Vec<(String, Problem)> {
        let mut found = Vec::new();
        check(branches(&self.upper, &self.lower), &options, &mut |finding| {
            found.push((String::from_utf8(finding.path).unwrap(), finding.problem));
        })
        .unwrap();
        found
    }
}

fn branches(upper: &FileSystemRef, lower: &FileSystemRef) -> Vec<Branch> {
    let branch = |(file_system, mode, label): (&FileSystemRef, BranchMode, &str)| Branch {
        file_system: file_system.clone(),
        mode: Some(mode),
        label: label.to_owned(),
        minimum_free: None,
    };
    [(upper, ReadWrite, "upper"), (lower, ReadOnly, "lower")].map(branch).into()
}

fn join(upper: &FileSystemRef, lower: &FileSystemRef) -> FileSystemRef {
    plyfs_layers::kind("union").unwrap().join(&[], branches(upper, lower), None).unwrap()
}

/// A branch to be read, with some of everything.
fn lower() -> FileSystemRef {
    let lower = memory();
    for path in [
        "dir/file",
        "dir/other",
        "dir/moved",
        "a",
        "b",
        "gone",
        "full/x",
        "empty/",
        "new place/",
        "victim/x",
        "linked",
        "merged/x",
        "long/x",
    ] {
        fill(&lower, 1, path);
    }
    let root = lower.root();
    root.link(&server(), &at(&lower, "linked").unwrap(), name("linked too")).unwrap();
    root.symlink(&server(), name("symlink"), b"a").unwrap();
    root.mknod(&server(), name("fifo"), FileKind::Fifo, 0o644, vnode::Device::default()).unwrap();
    fill(&lower, 1, &format!("long/{}", "l".repeat(251)));
    lower
}

/// What users see: each path with its kind, and the data of files.
fn seen(union: &FileSystemRef) -> BTreeMap<String, String> {
    let (mut seen, mut way) = (BTreeMap::new(), vec![String::new()]);
    while let Some(path) = way.pop() {
        for entry in list(union, &path) {
            let path = format!("{path}/{entry}");
            let node = at(union, &path).unwrap_or_else(|error| panic!("{path} is listed: {error}"));
            let what = match node.kind() {
                FileKind::Directory => {
                    way.push(path.clone());
                    String::new()
                }
                FileKind::Regular => read(union, &path).unwrap(),
                FileKind::Symlink => String::from_utf8(node.readlink(&server()).unwrap()).unwrap(),
                kind => format!("{kind:?}"),
            };
            seen.insert(path, what);
        }
    }
    seen
}

fn change(union: &FileSystemRef, path: &str, text: &str) -> Result<()> {
    let file = at(union, path)?.open(&server(), OpenFlags::WRITE)?;
    file.write_at(&server(), 0, text.as_bytes()).map(drop)
}

fn rename(union: &FileSystemRef, from: (&str, &str), to: (&str, &str), mode: RenameMode) -> Result<()> {
    at(union, from.0)?.rename(&server(), name(from.1), &at(union, to.0)?, name(to.1), mode)
}

type FeatureStep = (&'static str, fn(&FileSystemRef) -> Result<()>, fn(&Lacks) -> Option<Errno>);

fn never(_: &Lacks) -> Option<Errno> {
    None
}

/// What is done, and what it answers in a branch that lacks something.
const FEATURE_STEPS: &[FeatureStep] = &[
    ("a file is written", |union| change(union, "dir/file", "new"), never),
    ("a mode is changed", |union| set(union, "dir/other", SetAttributes { mode: Some(0o600), ..NO_CHANGES }), never),
    (
        "an owner is changed",
        |union| set(union, "dir/other", SetAttributes { uid: Some(7), ..NO_CHANGES }),
        |lacks| lacks.owners.then_some(Errno::EPERM),
    ),
    (
        "times are changed",
        |union| set(union, "b", SetAttributes { mtime: Some(SetTime::To(TIME)), ..NO_CHANGES }),
        never,
    ),
    ("a file is renamed", |union| rename(union, ("dir", "moved"), ("", "there"), RenameMode::Replace), never),
    ("a file replaces another", |union| rename(union, ("", "a"), ("", "b"), RenameMode::Replace), never),
    (
        "nothing is replaced",
        |union| rename(union, ("", "b"), ("dir", "file"), RenameMode::NoReplace),
        |_| Some(Errno::EEXIST),
    ),
    ("a free name is taken", |union| rename(union, ("", "b"), ("dir", "b"), RenameMode::NoReplace), never),
    (
        "two change places",
        |union| rename(union, ("dir", "b"), ("dir", "file"), RenameMode::Exchange),
        |lacks| lacks.exchange.then_some(Errno::EINVAL),
    ),
    ("a file is deleted", |union| union.root().unlink(&server(), name("gone")), never),
    ("what was deleted is made", |union| create(union, "", "gone"), never),
    ("and deleted again", |union| union.root().unlink(&server(), name("gone")), never),
    ("a directory is emptied", |union| at(union, "full")?.unlink(&server(), name("x")), never),
    ("and removed", |union| union.root().rmdir(&server(), name("full")), never),
    ("and made", |union| union.root().mkdir(&server(), name("full"), 0o755).map(drop), never),
    ("a file is made in it", |union| create(union, "full", "y"), never),
    (
        "a new directory is moved",
        |union| rename(union, ("", "full"), ("new place", "full"), RenameMode::Replace),
        never,
    ),
    ("a directory is emptied for another", |union| at(union, "victim")?.unlink(&server(), name("x")), never),
    (
        "a directory replaces one with marks",
        |union| rename(union, ("new place", "full"), ("", "victim"), RenameMode::Replace),
        never,
    ),
    (
        "a merged directory is moved",
        |union| rename(union, ("", "merged"), ("", "elsewhere"), RenameMode::Replace),
        |lacks| lacks.attributes.then_some(Errno::EXDEV),
    ),
    (
        "a file of two names is written",
        |union| change(union, "linked", "both"),
        |lacks| lacks.links.then_some(Errno::EMLINK),
    ),
    (
        "a file of two names is moved",
        |union| rename(union, ("", "linked too"), ("", "linked three"), RenameMode::Replace),
        |lacks| lacks.links.then_some(Errno::EXDEV),
    ),
    ("one of two names goes", |union| union.root().unlink(&server(), name("linked")), never),
    (
        "a symlink is copied",
        |union| set(union, "symlink", SetAttributes { mtime: Some(SetTime::To(TIME)), ..NO_CHANGES }),
        |lacks| lacks.symlinks.then_some(Errno::EPERM),
    ),
    ("a symlink is deleted", |union| union.root().unlink(&server(), name("symlink")), never),
    (
        "a fifo is copied",
        |union| set(union, "fifo", SetAttributes { mtime: Some(SetTime::To(TIME)), ..NO_CHANGES }),
        |lacks| lacks.devices.then_some(Errno::EPERM),
    ),
    ("a long name is deleted", |union| at(union, "long")?.unlink(&server(), name(&"l".repeat(251))), never),
    ("a long name is made", |union| create(union, "long", &"m".repeat(255)), never),
];

const NO_CHANGES: SetAttributes =
    SetAttributes { size: None, uid: None, gid: None, mode: None, atime: None, mtime: None, kill_privileges: false };
const TIME: Timestamp = Timestamp { seconds: 1_000_000_001, nanoseconds: 5 };

fn set(union: &FileSystemRef, path: &str, changes: SetAttributes) -> Result<()> {
    at(union, path)?.setattr(&server(), &changes).map(drop)
}

fn create(union: &FileSystemRef, directory: &str, file: &str) -> Result<()> {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
    let made = at(union, directory)?.create(&server(), name(file), &how)?;
    made.file.write_at(&server(), 0, b"made").map(drop)
}

#[test]
fn operations_do_not_depend_on_branch_features() {
    for lacks in cases() {
        let mut scene = Scene::new(lacks, lower());
        let mut full = Scene::new(NOTHING, lower());
        for (what, step, expected) in FEATURE_STEPS {
            let answer = step(&scene.union);
            assert_eq!(answer, expected(&lacks).map_or(Ok(()), Err), "{what}: {lacks:?}");
            if answer.is_ok() {
                step(&full.union).unwrap();
            }
            assert_eq!(seen(&scene.union), seen(&full.union), "{what}: {lacks:?}");
        }
        let state = seen(&scene.union);
        (scene, full) = (scene.again(), full.again());
        assert_eq!(seen(&scene.union), state, "after a restart: {lacks:?}");
        assert_eq!(list(&scene.upper, ".wh..wh.plyfs/work"), [""; 0], "{lacks:?}");
        assert_eq!(seen(&full.union), state);
        assert_eq!(seen(&scene.lower), seen(&lower()), "the lower branch is never written");
        drop(std::mem::replace(&mut scene.union, memory()));
        assert_eq!(scene.problems(CheckOptions::default()), [], "{lacks:?}");
    }
}

#[test]
fn open_object_keeps_its_identity_when_copied() {
    for lacks in cases() {
        let scene = Scene::new(lacks, lower());
        let [file, directory] = ["dir/file", "dir"].map(|path| at(&scene.union, path).unwrap());
        let numbers = || [&file, &directory].map(|node| node.getattr(&server()).unwrap().ino);
        let before = numbers();
        change(&scene.union, "dir/file", "new").unwrap();
        let now = ["dir/file", "dir"].map(|path| at(&scene.union, path).unwrap());
        assert_eq!([now[0].handle(), now[1].handle()], [file.handle(), directory.handle()], "{lacks:?}");
        assert_eq!(numbers(), before, "{lacks:?}");
        let root = scene.union.root();
        let entry = root.lookup(&server(), name("dir")).unwrap().vnode.lookup(&server(), name("file")).unwrap();
        assert_eq!(entry.attributes.ino, before[0], "{lacks:?}");
        let mut listed = 0;
        now[1]
            .open_directory(&server())
            .unwrap()
            .read(&server(), Cookie::START, &mut |entry| {
                listed += u64::from(entry.name == name("file") && entry.ino == before[0]);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(listed, 1, "{lacks:?}");
    }
}

#[test]
fn directory_is_created_in_older_branch_without_xattrs() {
    // The branch was there first, by which directories are known that it has.
    let upper = without(NFS, memory());
    let register = upper.root().mkdir(&server(), name(".wh..wh.plyfs"), 0o700).unwrap().vnode;
    write(&register, "branches", b"0 0 upper\n");
    let union = join(&upper, &lower());
    let directory = at(&union, "dir").unwrap();
    change(&union, "dir/file", "new").unwrap();
    assert_eq!(at(&union, "dir").unwrap().handle(), directory.handle());
    assert_eq!(read(&union, "dir/file").unwrap(), "newir/file");
}

#[test]
fn failed_link_copies_nothing() {
    for lacks in cases() {
        let scene = Scene::new(lacks, lower());
        let (root, dir) = (scene.union.root(), at(&scene.union, "dir").unwrap());
        for (path, place) in [("dir/file", &dir), ("dir/other", &root), ("a", &dir), ("linked", &root)] {
            let linked = place.link(&server(), &at(&scene.union, path).unwrap(), name("second")).map(drop);
            let expected = if lacks.links { Err(Errno::EPERM) } else { Ok(()) };
            assert_eq!((linked, at(&scene.upper, path).is_ok()), (expected, !lacks.links), "{path}: {lacks:?}");
            let _ = place.unlink(&server(), name("second"));
        }
        if lacks.links {
            assert_eq!(list(&scene.upper, ""), [".wh..wh.plyfs"], "{lacks:?}");
            write(&root, "own", b"");
            let own = at(&scene.union, "own").unwrap();
            assert_eq!(root.link(&server(), &own, name("second")).err(), Some(Errno::EPERM), "{lacks:?}");
        }
    }
}

#[test]
fn case_folded_names_stay_distinct() {
    for lacks in [Lacks { exact_names: true, ..NOTHING }, FAT, EVERYTHING] {
        let lower = memory();
        for path in ["a", "A", "x", "x.", "D/f", "d/f", "c"] {
            fill(&lower, 1, path);
        }
        let scene = Scene::new(lacks, lower);
        let (union, root) = (&scene.union, scene.union.root());
        change(union, "a", "2").unwrap();
        assert_eq!(["a", "A"].map(|path| read(union, path).unwrap()), ["2:a", "1:A"], "{lacks:?}");
        assert_eq!(change(union, "A", "3"), Err(Errno::EEXIST), "the branch has no room for it");
        assert_eq!(read(union, "A").unwrap(), "1:A");
        change(union, "D/f", "4").unwrap();
        assert_eq!(["D/f", "d/f"].map(|path| read(union, path).unwrap()), ["4:D/f", "1:d/f"]);
        assert_eq!(change(union, "x.", "5"), Err(Errno::EINVAL), "it would be the other one");
        assert_eq!(root.unlink(&server(), name("x.")), Err(Errno::EINVAL));
        assert_eq!(["x", "x."].map(|path| read(union, path).unwrap()), ["1:x", "1:x."]);
        root.unlink(&server(), name("A")).unwrap();
        assert_eq!((read(union, "a").unwrap().as_str(), read(union, "A").err()), ("2:a", Some(Errno::ENOENT)));
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let made = |text| root.create(&server(), name(text), &how).map(drop);
        assert_eq!((made("new"), made("New"), made("new.")), (Ok(()), Err(Errno::EEXIST), Err(Errno::EINVAL)));
        assert_eq!(at(union, "NEW").err(), Some(Errno::ENOENT));
        assert_eq!(root.mkdir(&server(), name("NEW"), 0o755).err(), Some(Errno::EEXIST));
        assert_eq!(root.unlink(&server(), name("NEW")), Err(Errno::ENOENT));
        for target in ["NEW", "New"] {
            let answer = rename(union, ("", "c"), ("", target), RenameMode::Replace);
            assert_eq!(answer, Err(Errno::EEXIST), "what has another name is not replaced");
        }
        assert_eq!((read(union, "new").unwrap().as_str(), read(union, "c").unwrap().as_str()), ("", "1:c"));
        assert_eq!(list(union, ""), ["D", "a", "c", "d", "new", "x", "x."]);
    }
}

fn owned(lower: &FileSystemRef, file: &str, (uid, mode): (u32, u32)) {
    write(&lower.root(), file, b"data");
    let rights = SetAttributes { uid: Some(uid), gid: Some(uid), ..NO_CHANGES };
    set(lower, file, rights).unwrap();
    set(lower, file, SetAttributes { mode: Some(mode), ..NO_CHANGES }).unwrap();
}

fn rights(union: &FileSystemRef, file: &str) -> (u32, u32) {
    let Attributes { uid, mode, .. } = at(union, file).unwrap().getattr(&server()).unwrap();
    (uid, mode)
}

#[test]
fn unsupported_permissions_grant_no_access() {
    let lacks = Lacks { owners: true, modes: true, ..NOTHING };
    let lower = memory();
    for (file, owner) in [
        ("open", (5, 0o644)),
        ("writable", (0, 0o666)),
        ("secret", (5, 0o600)),
        ("of a group", (0, 0o640)),
        ("program", (0, 0o4755)),
    ] {
        owned(&lower, file, owner);
    }
    let scene = Scene::new(lacks, lower);
    for file in ["open", "writable", "program"] {
        set(&scene.union, file, SetAttributes { mtime: Some(SetTime::Now), ..NO_CHANGES }).unwrap();
        assert_eq!(rights(&scene.union, file), (0, 0o755), "{file}");
    }
    for (file, owner) in [("secret", (5, 0o600)), ("of a group", (0, 0o640))] {
        let answer = set(&scene.union, file, SetAttributes { mtime: Some(SetTime::Now), ..NO_CHANGES });
        assert_eq!((answer, rights(&scene.union, file)), (Err(Errno::EPERM), owner), "{file}");
        assert_eq!(at(&scene.upper, file).err(), Some(Errno::ENOENT));
    }
    assert_eq!(list(&scene.upper, ".wh..wh.plyfs/work"), [""; 0]);
    let lost =
        |losses: &[Loss]| Problem::NotKept(losses.iter().fold(Losses::NONE, |all, &loss| all.with_if(true, loss)));
    let Scene { union, upper, lower, .. } = scene;
    drop(union);
    let scene = Scene { lacks, union: memory(), upper, lower };
    assert_eq!(scene.problems(CheckOptions::default()), []);
    assert_eq!(
        scene.problems(CheckOptions { losses: true, ..CheckOptions::default() }),
        [
            ("open".to_owned(), lost(&[Loss::Owner, Loss::Mode])),
            ("program".to_owned(), lost(&[Loss::Mode])),
            ("writable".to_owned(), lost(&[Loss::Mode])),
        ]
    );
}

#[test]
fn set_id_bits_never_apply_to_another_owner() {
    let lower = memory();
    owned(&lower, "program", (5, 0o6755));
    let scene = Scene::new(Lacks { owners: true, ..NOTHING }, lower);
    set(&scene.union, "program", SetAttributes { mtime: Some(SetTime::Now), ..NO_CHANGES }).unwrap();
    assert_eq!(rights(&scene.union, "program"), (0, 0o755));
}

/// A list that lets one user write more than the mode says: its version and its entries.
const WRITE_ACL: &[u8] = &[
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 9, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 6, 0,
    255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];

#[test]
fn only_access_relevant_attributes_must_be_preserved() {
    const CAPABILITY: &[u8] = &[1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let lower = memory();
    for (file, attribute, value) in [
        ("user", &b"user.x"[..], &b"1"[..]),
        ("label", b"security.selinux", b"system_u:object_r:etc_t:s0"),
        ("smack", b"security.SMACK64", b"_"),
        ("list", b"system.posix_acl_access", WRITE_ACL),
        ("capability", b"security.capability", CAPABILITY),
    ] {
        write(&lower.root(), file, b"data");
        at(&lower, file).unwrap().setxattr(&server(), attribute, value, XattrMode::Set).unwrap();
    }
    let scene = Scene::new(Lacks { attributes: true, ..NOTHING }, lower);
    for file in ["user", "label", "smack"] {
        change(&scene.union, file, "1").unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(read(&scene.union, file).unwrap(), "1ata");
    }
    for file in ["list", "capability"] {
        let answer = set(&scene.union, file, SetAttributes { mtime: Some(SetTime::Now), ..NO_CHANGES });
        assert_eq!((answer, at(&scene.upper, file).err()), (Err(Errno::EOPNOTSUPP), Some(Errno::ENOENT)), "{file}");
    }
    let Scene { lacks, union, upper, lower } = scene;
    drop(union);
    let scene = Scene { lacks, union: memory(), upper, lower };
    let lost = |loss| Problem::NotKept(Losses::NONE.with_if(true, loss));
    assert_eq!(
        scene.problems(CheckOptions { losses: true, ..CheckOptions::default() }),
        [
            ("label".to_owned(), lost(Loss::Labels)),
            ("smack".to_owned(), lost(Loss::Labels)),
            ("user".to_owned(), lost(Loss::Attributes)),
        ]
    );
}
