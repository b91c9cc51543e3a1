//! The check of a union's branches: each defect, made by hand, is found, repaired, and then not found any more, and what
//! users see stays as it was.

#[path = "crash/view.rs"]
mod view;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bases::dir::{DirectoryFileSystem, Options};
use plyfs_layers::union::{CheckError, CheckOptions, Finding, Problem, UnionFileSystem, check};
use plyfs_layers::{Branch, BranchMode};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};
use tempfile::TempDir;
use view::View;
use vnode::{Caller, Control, Errno, FileSystem, Name, OpenFlags, RenameMode, SetAttributes, VnodeRef};

use BranchMode::{ReadOnly, ReadWrite};

/// Two branches in directories: one to write, one to read.
struct Scene {
    directory: TempDir,
}

impl Scene {
    fn new(left: &[&str], right: &[&str]) -> Self {
        let scene = Self { directory: tempfile::tempdir().unwrap() };
        for (branch, paths) in [("left", left), ("right", right)] {
            fs::create_dir(scene.path(branch)).unwrap();
            for path in paths {
                let path = scene.path(&format!("{branch}/{path}"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                match path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                    true => fs::create_dir_all(path).unwrap(),
                    false => fs::write(&path, path.file_name().unwrap().as_encoded_bytes()).unwrap(),
                }
            }
        }
        scene
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn branches(&self) -> Vec<Branch> {
        let branch = |(name, mode): (&str, BranchMode)| Branch {
            file_system: Arc::new(DirectoryFileSystem::open(&self.path(name), Options::default()).unwrap()),
            mode: Some(mode),
            label: name.to_owned(),
            minimum_free: None,
        };
        [("left", ReadWrite), ("right", ReadOnly)].map(branch).into()
    }

    fn union(&self) -> UnionFileSystem {
        UnionFileSystem::new(self.branches()).unwrap()
    }

    fn check(&self, options: CheckOptions) -> Vec<Finding> {
        let mut findings = Vec::new();
        check(self.branches(), &options, &mut |finding| findings.push(finding)).unwrap();
        findings
    }

    /// Finds these, by paths, repairs them, and finds nothing then.
    fn expect_findings(&self, options: CheckOptions, expected: &[(&str, Problem)]) {
        let told = |findings: Vec<Finding>| {
            let mut told: Vec<_> = findings
                .into_iter()
                .map(|finding| (String::from_utf8(finding.path).unwrap(), finding.problem, finding.repair))
                .collect();
            told.sort_by(|one, other| one.0.cmp(&other.0));
            told
        };
        let with = |repair: Option<vnode::Result<()>>| {
            let all = expected.iter().map(|(path, problem)| ((*path).to_owned(), problem.clone(), repair));
            all.collect::<Vec<_>>()
        };
        assert_eq!(told(self.check(options)), with(None), "first");
        assert_eq!(told(self.check(options)), with(None), "nothing was changed");
        assert_eq!(told(self.check(CheckOptions { repair: true, ..options })), with(Some(Ok(()))));
        assert_eq!(told(self.check(options)), [], "after the repair");
    }

    /// As [`Scene::expect_findings`], of what is always looked for; users see the same before and after.
    fn expect_unrepaired(&self, expected: &[(&str, Problem)]) {
        let before = View::of(&self.union());
        self.expect_findings(CheckOptions::default(), expected);
        let after = View::of(&self.union());
        assert_eq!(after.since(&before), before.since(&before));
    }

    fn mark(&self, path: &str, name: &str, value: &str) {
        let name =
            if rustix::process::geteuid().is_root() { format!("trusted.{name}") } else { format!("user.{name}") };
        setxattr(self.path(path), name, value.as_bytes(), XattrFlags::empty()).unwrap();
    }
}

const IDLE: CheckOptions = CheckOptions { repair: false, idle: true, losses: false };

fn server() -> Caller {
    Caller::server()
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

fn at(union: &UnionFileSystem, path: &str) -> VnodeRef {
    view::at(union, path)
}

fn chmod(union: &UnionFileSystem, path: &str) {
    let changes = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    at(union, path).setattr(&server(), &changes).unwrap();
}

#[test]
fn check_finds_objects_beside_their_whiteouts() {
    let scene = Scene::new(&["a", ".wh.a", "d/e/x", "d/.wh.e", "o/x", ".wh.o"], &["a", "d/e/y"]);
    scene.expect_unrepaired(&[
        ("a", Problem::BesideWhiteout),
        ("d/e", Problem::DirectoryBesideWhiteout),
        ("o", Problem::DirectoryBesideWhiteout),
    ]);
    assert!(scene.path("left/d/e/.wh..wh..opq").exists());
    assert!(!scene.path("left/o/.wh..wh..opq").exists(), "it hides nothing");
}

#[test]
fn check_finds_two_whiteouts_of_one_name() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scene = Scene::new(&[".wh.a"], &["a"]);
    mknodat(CWD, scene.path("left/a"), FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).unwrap();
    scene.expect_unrepaired(&[("a", Problem::TwoWhiteouts)]);
}

#[test]
fn check_finds_idle_whiteouts_on_request() {
    let scene = Scene::new(&[".wh.a", ".wh.b", "d/.wh.c"], &["b"]);
    scene.expect_unrepaired(&[]);
    scene.expect_findings(IDLE, &[(".wh.a", Problem::IdleWhiteout), ("d/.wh.c", Problem::IdleWhiteout)]);
}

/// Names that whoever may write to a branch can give keep nobody from checking it, nor what is right beside them from being found.
#[test]
fn malformed_whiteout_names_hide_nothing() {
    let odd =
        [".wh.", ".wh..", ".wh...", ".wh..wh.", ".wh..wh..", ".wh..wh...", ".wh..wh..wh.", ".wh..wh..wh..", ".wh. "];
    let left: Vec<String> =
        odd.iter().flat_map(|name| [(*name).to_owned(), format!("d/{name}"), format!("e/{name}/x")]).collect();
    let left: Vec<&str> = left.iter().map(String::as_str).chain(["a", ".wh.a"]).collect();
    let scene = Scene::new(&left, &["b"]);
    scene.expect_findings(CheckOptions::default(), &[("a", Problem::BesideWhiteout)]);
    let union = scene.union();
    chmod(&union, "a");
    union.root().rename(&server(), name("e"), &union.root(), name("f"), RenameMode::Replace).unwrap();
    assert_eq!(union.root().lookup(&server(), name("b")).unwrap().attributes.size, 1);
}

#[test]
fn directory_with_whiteout_name_is_removed_as_a_whiteout() {
    let scene = Scene::new(&[".wh.gone/", ".wh.b/"], &["b"]);
    let options = CheckOptions { idle: true, ..CheckOptions::default() };
    scene.expect_findings(options, &[(".wh.gone", Problem::IdleWhiteout)]);
    let union = scene.union();
    assert_eq!(union.root().lookup(&server(), name("b")).map(drop), Err(Errno::ENOENT));
    union.root().mkdir(&server(), name("b"), 0o700).unwrap();
    union.root().lookup(&server(), name("b")).unwrap();
}

#[test]
fn check_finds_contradictory_and_dangling_marks() {
    let scene = Scene::new(&["both/x", "away/x", "away2/", "odd/x", "file"], &["old/y", "away2/z", "odd/w"]);
    scene.mark("left/both", "overlay.redirect", "/old");
    scene.mark("left/both", "overlay.opaque", "y");
    fs::write(scene.path("left/both/.wh..wh..opq"), "").unwrap();
    scene.mark("left/away", "overlay.redirect", "/nowhere/at/all");
    scene.mark("left/away2", "overlay.redirect", "gone");
    scene.mark("left/odd", "overlay.redirect", "");
    scene.mark("left/file", "overlay.redirect", "/old");
    scene.mark("left/file", "overlay.opaque", "y");
    let before = View::of(&scene.union());
    scene.expect_findings(
        CheckOptions::default(),
        &[
            ("away", Problem::MovedFromNowhere(b"/nowhere/at/all".to_vec())),
            ("away2", Problem::MovedFromNowhere(b"gone".to_vec())),
            ("both", Problem::OpaqueAndMoved),
            ("file", Problem::OpaqueFile),
            ("file", Problem::MovedFile),
            ("odd", Problem::UnreadableRedirect),
        ],
    );
    let after = View::of(&scene.union());
    assert_eq!(after.since(&before), before.since(&before));
    assert!(scene.path("left/away2/.wh..wh..opq").exists());
    assert!(!scene.path("left/both/.wh..wh..opq").exists());
}

#[test]
fn check_finds_unfinished_work() {
    let scene = Scene::new(&["a"], &["b"]);
    chmod(&scene.union(), "b");
    let work = scene.path("left/.wh..wh.plyfs/work");
    fs::create_dir_all(work.join("7/d/.wh.x")).unwrap();
    fs::write(work.join("copy.3"), "part").unwrap();
    fs::write(work.join("record.4"), "plyfs rename 1\nmoved 0 0").unwrap();
    fs::write(scene.path("left/.wh..wh.plyfs/part"), "0 0").unwrap();
    let of = |name: &'static str| format!(".wh..wh.plyfs/{name}");
    let expected = ["work/7", "work/copy.3", "work/record.4"].map(of);
    let mut found: Vec<(&str, Problem)> = expected.iter().map(|path| (path.as_str(), Problem::LeftOver)).collect();
    let part = of("part");
    found.insert(0, (&part, Problem::LeftOver));
    scene.expect_findings(CheckOptions::default(), &found);
}

#[test]
fn work_of_later_versions_is_left_alone() {
    let scene = Scene::new(&["a"], &["b", "c"]);
    chmod(&scene.union(), "b");
    let record = scene.path("left/.wh..wh.plyfs/work/record.4");
    fs::write(&record, "plyfs rename 77\nsomething\nend\n").unwrap();
    let found = scene.check(CheckOptions { repair: true, ..CheckOptions::default() });
    let found: Vec<_> = found.into_iter().map(|finding| (finding.problem, finding.repair)).collect();
    assert_eq!(found, [(Problem::UnfinishedRename, Some(Err(Errno::ENODEV)))]);
    chmod(&scene.union(), "a");
    assert!(record.exists(), "a union that works in the branch leaves it there");
    // Of what it has begun with open files nothing is known: whatever is there would be taken for left over.
    let (kept, file) = (record.with_file_name("kept.5"), record.with_file_name("copy.6"));
    fs::write(&kept, "plyfs kept 77\nsomething\nend\n").unwrap();
    fs::write(&file, "data").unwrap();
    let union = scene.union();
    let change = SetAttributes { mode: Some(0o640), ..SetAttributes::default() };
    let copied = at(&union, "c").setattr(&server(), &change);
    assert!(copied.is_err() && file.exists() && kept.exists(), "{copied:?}");
}

#[test]
fn unknown_work_entries_stay() {
    let scene = Scene::new(&["a"], &["b", "c"]);
    chmod(&scene.union(), "b");
    let work = scene.path("left/.wh..wh.plyfs/work");
    let names = ["clone.3", "copy.3.x", "name.many.3", "record", "times.1.3", "\u{fc}.3"];
    for name in names {
        fs::create_dir_all(work.join(name)).unwrap();
        fs::write(work.join(name).join("data"), "of a later version").unwrap();
    }
    fs::write(work.join("7"), "left over").unwrap();
    for _ in 0..2 {
        chmod(&scene.union(), "c");
        for repair in [false, true] {
            let found = scene.check(CheckOptions { repair, ..CheckOptions::default() });
            assert!(found.iter().all(|finding| finding.repair == repair.then_some(Err(Errno::ENODEV))), "{found:?}");
            let mut paths: Vec<_> = found
                .into_iter()
                .filter(|finding| finding.problem == Problem::UnknownKind)
                .map(|finding| String::from_utf8(finding.path).unwrap())
                .collect();
            paths.sort();
            let mut expected = names.map(|name| format!(".wh..wh.plyfs/work/{name}"));
            expected.sort();
            assert_eq!(paths, expected);
        }
    }
    assert!(names.iter().all(|name| work.join(name).join("data").exists()) && !work.join("7").exists());
}

#[test]
fn check_finds_links_of_missing_branches() {
    let scene = Scene::new(&[], &["a", "b"]);
    for file in ["a", "b"] {
        fs::hard_link(scene.path(&format!("right/{file}")), scene.path(&format!("right/{file}2"))).unwrap();
        chmod(&scene.union(), file);
    }
    let root = scene.union().root();
    root.rename(&server(), name("b2"), &root, name("b3"), RenameMode::Replace).unwrap();
    drop(root);
    assert_eq!(scene.check(IDLE), [], "its branch is there");
    let links = scene.path("left/.wh..wh.plyfs/links");
    assert_eq!(fs::read_dir(&links).unwrap().count(), 2);
    // With another branch, where no name leads to the copies.
    fs::create_dir(scene.path("other")).unwrap();
    let found = |options: CheckOptions| -> Vec<(Problem, Option<vnode::Result<()>>)> {
        let (mut found, mut branches) = (Vec::new(), scene.branches());
        let other = DirectoryFileSystem::open(&scene.path("other"), Options::default()).unwrap();
        branches[1] = Branch {
            file_system: Arc::new(other),
            mode: Some(ReadOnly),
            label: "other".to_owned(),
            minimum_free: None,
        };
        check(branches, &options, &mut |finding| found.push((finding.problem, finding.repair))).unwrap();
        // That of the name that was taken away.
        found.retain(|(problem, _)| *problem != Problem::IdleWhiteout);
        found
    };
    assert_eq!(found(CheckOptions::default()), [], "the copies have names of their own");
    assert_eq!(found(IDLE), [(Problem::LinkOfNoBranch, None), (Problem::LinkOfNoBranch, None)]);
    // What has lost all its names goes only if none of the original's can lead to it.
    for file in ["a", "b", "b3"] {
        fs::remove_file(scene.path(&format!("left/{file}"))).unwrap();
    }
    let mut repaired = found(CheckOptions { repair: true, ..CheckOptions::default() });
    repaired.sort_by_key(|(_, repair)| repair.unwrap().is_err());
    let expected = [(Problem::OrphanedLink, Some(Ok(()))), (Problem::LinkOfNoBranch, Some(Err(Errno::ENODEV)))];
    assert_eq!(repaired, expected);
    assert_eq!(found(CheckOptions::default()), [(Problem::LinkOfNoBranch, None)]);
    assert_eq!(scene.check(IDLE), [], "its branch is there");
}

#[test]
fn check_finds_foreign_objects_in_the_state_directory() {
    let scene = Scene::new(&["a"], &["b", "c"]);
    chmod(&scene.union(), "b");
    fs::create_dir_all(scene.path("left/.wh..wh.plyfs/stranger/x")).unwrap();
    fs::create_dir_all(scene.path("left/.wh..wh.plyfs/links")).unwrap();
    fs::write(scene.path("left/.wh..wh.plyfs/links/stranger"), "").unwrap();
    scene.expect_unrepaired(&[
        (".wh..wh.plyfs/links/stranger", Problem::Unknown),
        (".wh..wh.plyfs/stranger", Problem::Unknown),
    ]);
}

#[test]
fn check_finds_orphaned_and_wrong_links() {
    let scene = Scene::new(&[], &["a", "b"]);
    for (file, link) in [("a", "a2"), ("b", "b2")] {
        fs::hard_link(scene.path(&format!("right/{file}")), scene.path(&format!("right/{link}"))).unwrap();
        chmod(&scene.union(), file);
        chmod(&scene.union(), link);
    }
    assert_eq!(scene.check(CheckOptions::default()), [], "they are needed");
    let links = scene.path("left/.wh..wh.plyfs/links");
    let all = || {
        let mut all: Vec<_> = fs::read_dir(&links).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    };
    let [one, other] = &all()[..] else { panic!("{:?}", all()) };
    // As if the last names had gone, but not that in the links directory.
    let union = scene.union();
    let root = union.root();
    let keep = scene.path("left/keep");
    fs::hard_link(one, &keep).unwrap();
    for file in ["a", "a2", "b", "b2"] {
        root.unlink(&server(), name(file)).unwrap();
    }
    drop((root, union));
    assert_eq!(all().len(), 1, "the copy with another name stays");
    let stays = all()[0].clone();
    fs::remove_file(&keep).unwrap();
    let path = |link: &Path| format!(".wh..wh.plyfs/links/{}", link.file_name().unwrap().to_str().unwrap());
    let wrong = if stays == *one { other } else { one };
    fs::hard_link(&stays, wrong).unwrap();
    let (wrong, stays) = (path(wrong), path(&stays));
    let mut expected = [(wrong.as_str(), Problem::WrongLink), (stays.as_str(), Problem::OrphanedLink)];
    expected.sort_by_key(|(path, _)| *path);
    scene.expect_unrepaired(&expected);
}

#[test]
fn check_finds_wrong_identities() {
    let scene = Scene::new(&["mine"], &["a", "b"]);
    chmod(&scene.union(), "a");
    let (copy, twin) = (scene.path("left/a"), scene.path("left/z/twin"));
    fs::create_dir(scene.path("left/z")).unwrap();
    fs::write(&twin, "twin").unwrap();
    let mut value = vec![0; 1000];
    let attribute = ["trusted.plyfs.origin", "user.plyfs.origin"];
    let origin = attribute.iter().find_map(|name| {
        let length = rustix::fs::getxattr(&copy, *name, &mut value).ok()?;
        value.truncate(length);
        Some(name)
    });
    let origin = *origin.expect("a copy tells of its origin");
    setxattr(&twin, origin, &value, XattrFlags::empty()).unwrap();
    setxattr(scene.path("left/mine"), origin, b"nonsense", XattrFlags::empty()).unwrap();
    scene.expect_findings(
        CheckOptions::default(),
        &[("mine", Problem::UnreadableOrigin), ("z/twin", Problem::SameIdentity(b"a".to_vec()))],
    );
    let ino = |path| at(&scene.union(), path).getattr(&server()).unwrap().ino;
    assert_ne!(ino("a"), ino("z/twin"));
    // The original goes behind the union's back.
    fs::remove_file(scene.path("right/a")).unwrap();
    assert_eq!(scene.check(CheckOptions::default()), []);
    scene.expect_findings(IDLE, &[("a", Problem::OriginGone)]);
}

#[test]
fn check_refuses_branch_in_use() {
    let scene = Scene::new(&[], &["a"]);
    let union = scene.union();
    chmod(&union, "a");
    for repair in [false, true] {
        let options = CheckOptions { repair, idle: false, losses: false };
        let checked = check(scene.branches(), &options, &mut |finding| panic!("{finding:?}"));
        assert_eq!(checked, Err(CheckError::InUse("left".to_owned())));
    }
    drop(union);
    assert_eq!(scene.check(CheckOptions::default()), []);
}

/// Each defect in layers that snapshots keep. What they show stays the same by a repair.
#[test]
fn check_finds_problems_in_snapshot_layers() {
    let scene = Scene::new(&["a", "d/x"], &["a", "b", "c", "d/y", "e/z", "l"]);
    let tell = |command: &str, name: &str| {
        let arguments = vec![("name".to_owned(), name.to_owned())];
        let control = Control { target: "union".to_owned(), command: command.to_owned(), arguments };
        scene.union().control(&control).unwrap();
    };
    fs::hard_link(scene.path("right/l"), scene.path("right/l2")).unwrap();
    chmod(&scene.union(), "b");
    tell("snapshot-take", "one");
    chmod(&scene.union(), "c");
    chmod(&scene.union(), "d/y");
    chmod(&scene.union(), "l");
    tell("snapshot-take", "two");
    chmod(&scene.union(), "d/x");
    assert_eq!(scene.check(IDLE), []);
    let first = |path: &str| scene.path(&format!("left/{path}"));
    let second = |path: &str| first(&format!(".wh..wh.plyfs/layers/1/{path}"));
    // In the first layer, and in the second.
    fs::write(first(".wh.a"), "").unwrap();
    fs::write(first("d/.wh.y"), "").unwrap();
    scene.mark("left/b", "overlay.opaque", "y");
    fs::create_dir_all(first(".wh..wh.plyfs/layers/9/x")).unwrap();
    fs::write(second(".wh.c"), "").unwrap();
    scene.mark("left/.wh..wh.plyfs/layers/1/d", "overlay.redirect", "");
    fs::write(second(".wh..wh.plyfs/links/stranger"), "").unwrap();
    let layer = |path: &str| format!(".wh..wh.plyfs/layers/1/{path}");
    let in_second = [".wh..wh.plyfs/links/stranger", ".wh..wh.plyfs/work/copy.5", "c", "d"].map(layer);
    let before = View::of(&scene.union());
    // The next union of the branches would remove these by itself.
    fs::write(second(".wh..wh.plyfs/work/copy.5"), "part").unwrap();
    fs::create_dir_all(first(".wh..wh.plyfs/work/7/x")).unwrap();
    scene.expect_findings(
        CheckOptions::default(),
        &[
            (&in_second[0], Problem::Unknown),
            (&in_second[1], Problem::LeftOver),
            (&in_second[2], Problem::BesideWhiteout),
            (&in_second[3], Problem::UnreadableRedirect),
            (".wh..wh.plyfs/work/7", Problem::LeftOver),
            ("a", Problem::BesideWhiteout),
            ("b", Problem::OpaqueFile),
        ],
    );
    assert_eq!(View::of(&scene.union()).since(&before), before.since(&before));
    scene.expect_findings(IDLE, &[(".wh..wh.plyfs/layers/9", Problem::LeftOver)]);
    // A whiteout of what only a later layer has hides it on the right.
    assert!(first("d/.wh.y").exists());

    // The last name of a copied file goes, but not that in the links directory.
    let links = second(".wh..wh.plyfs/links");
    let link = fs::read_dir(&links).unwrap().next().unwrap().unwrap().path();
    let shown = layer(&format!(".wh..wh.plyfs/links/{}", link.file_name().unwrap().to_str().unwrap()));
    assert_eq!(scene.check(CheckOptions::default()), [], "another name leads to it");
    fs::remove_file(second("l")).unwrap();
    fs::remove_file(scene.path("right/l")).unwrap();
    fs::remove_file(scene.path("right/l2")).unwrap();
    scene.expect_findings(CheckOptions::default(), &[(&shown, Problem::OrphanedLink)]);

    // What something in a snapshot is known by stays.
    fs::remove_file(scene.path("right/c")).unwrap();
    let found = scene.check(CheckOptions { repair: true, idle: true, losses: false });
    let gone: Vec<_> = found.iter().filter(|finding| finding.problem == Problem::OriginGone).collect();
    assert_eq!((gone.len(), gone[0].repair), (1, Some(Err(vnode::Errno::EROFS))), "{found:?}");
}

#[test]
fn used_union_has_no_findings() {
    let scene = Scene::new(&["l/a", "l/b"], &["l/c", "r/d", "r/s/e", "t"]);
    let union = scene.union();
    let root = union.root();
    let rename = |from: &str, to: &str| {
        root.rename(&server(), name(from), &union.root(), name(to), RenameMode::Replace).unwrap()
    };
    rename("l", "m");
    rename("r", "l");
    root.unlink(&server(), name("t")).unwrap();
    root.mkdir(&server(), name("t"), 0o700).unwrap();
    at(&union, "l/s").unlink(&server(), name("e")).unwrap();
    at(&union, "l").rmdir(&server(), name("s")).unwrap();
    at(&union, "m/c").open(&server(), OpenFlags::WRITE).unwrap();
    drop((root, union));
    assert_eq!(scene.check(CheckOptions::default()), []);
}
