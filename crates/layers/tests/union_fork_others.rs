//! What others do in a file system while the changes of a fork are committed to it, and between a commit that was stopped and the
//! next: nothing of it is lost, and no more is given to anybody than the fork or they gave.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::memory;
use common::plain::{Lacks, NOTHING, without};
use common::unions::{at, fill, list, name, read, server, write};
use plyfs_layers::fork::{CommitError, CommitOptions, Committed, ForeignChange, Fork};
use plyfs_layers::union::{Loss, Losses};
use vnode::layer::{self, Layer, LayerVnode, Operation};
use vnode::{Caller, Errno, FileSystemRef, Promises, RenameMode, Result, SetAttributes, Timestamp, XattrMode};

type HookAction = Box<dyn FnOnce() -> Result<()> + Send>;

/// Does something right before the first operation of a kind.
struct BeforeOperation {
    is_trigger: fn(&Operation<'_>) -> bool,
    action: Arc<Mutex<Option<HookAction>>>,
}

impl Layer for BeforeOperation {
    type State = ();

    fn kind(&self) -> &'static str {
        "before"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        let action = if (self.is_trigger)(operation) { self.action.lock().unwrap().take() } else { None };
        action.map_or(Ok(()), |action| action())
    }
}

/// A fork of a file system.
struct Scene {
    stack: FileSystemRef,
    changes: FileSystemRef,
    since: Timestamp,
    /// Where the file system is, if not in memory.
    _directory: Option<tempfile::TempDir>,
}

impl Scene {
    fn with(paths: &[&str]) -> Self {
        let stack = memory();
        paths.iter().for_each(|path| fill(&stack, 0, path));
        Self::of(stack)
    }

    fn of(stack: FileSystemRef) -> Self {
        let changes = memory();
        Fork::new(changes.clone(), stack.clone()).unwrap().hold(true).unwrap();
        let since = Timestamp::now();
        // Files of a disk have the time of the last tick.
        std::thread::sleep(Duration::from_millis(12));
        Self { stack, changes, since, _directory: None }
    }

    /// The same of a file system on disk, if this process may use one.
    fn on_disk(paths: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let options = bases::dir::Options::default();
        let stack = Arc::new(bases::dir::DirectoryFileSystem::open(directory.path(), options).unwrap());
        let stack = stack as FileSystemRef;
        paths.iter().for_each(|path| fill(&stack, 0, path));
        Some(Self { _directory: Some(directory), ..Self::of(stack) })
    }

    fn fork(&self) -> Fork {
        Fork::new(self.changes.clone(), self.stack.clone()).unwrap()
    }

    fn seen(&self) -> FileSystemRef {
        self.fork().file_system()
    }

    fn commit_with(&self, stack: FileSystemRef, force: bool) -> std::result::Result<Committed, CommitError> {
        let fork = Fork::new(self.changes.clone(), stack).unwrap();
        fork.commit(&CommitOptions { since: self.since, force })
    }

    fn commit(&self) -> std::result::Result<Committed, CommitError> {
        self.commit_with(self.stack.clone(), false)
    }

    /// Commits while somebody does something, right before an operation of the commit.
    fn commit_while(
        &self,
        is_trigger: fn(&Operation<'_>) -> bool,
        action: impl FnOnce(&FileSystemRef) -> Result<()> + Send + 'static,
    ) -> std::result::Result<Committed, CommitError> {
        let stack = self.stack.clone();
        let action: HookAction = Box::new(move || action(&stack));
        let action = Arc::new(Mutex::new(Some(action)));
        let before = BeforeOperation { is_trigger, action: Arc::clone(&action) };
        let committed = self.commit_with(layer::stack(before, self.stack.clone()), false);
        assert!(action.lock().unwrap().is_none(), "it was done");
        committed
    }

    /// Commits until before that operation.
    fn commit_until(&self, is_trigger: fn(&Operation<'_>) -> bool) {
        let committed = self.commit_while(is_trigger, |_| Err(Errno::EIO));
        assert!(matches!(committed, Err(CommitError::Stopped { errno: Errno::EIO, .. })), "{committed:?}");
    }
}

fn is_own(name: vnode::Name<'_>) -> bool {
    name.as_bytes().starts_with(b".plyfs-")
}

/// A copy of a file is about to be made.
fn is_copy(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Create { name, .. } if is_own(*name))
}

/// Something is about to take its place.
fn is_placement(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Rename { name, to_name, .. } if is_own(*name) && !is_own(*to_name))
}

/// A directory is about to leave its place.
fn is_removal(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Rename { name, .. } if name.as_bytes() == b"m")
}

/// A directory is about to come to its new place.
fn is_arrival(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Rename { to_name, .. } if to_name.as_bytes() == b"t")
}

fn move_to(file_system: &FileSystemRef, old: &str, directory: &str, new: &str) -> Result<()> {
    let (root, target) = (file_system.root(), at(file_system, directory)?);
    root.rename(&server(), name(old), &target, name(new), RenameMode::NoReplace)
}

fn set_mode(file_system: &FileSystemRef, path: &str, mode: u32) -> Result<()> {
    let changes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    at(file_system, path)?.setattr(&server(), &changes).map(drop)
}

fn mode(file_system: &FileSystemRef, path: &str) -> u32 {
    at(file_system, path).unwrap().getattr(&server()).unwrap().mode
}

/// As `rm -r` of a directory with these files.
fn remove(file_system: &FileSystemRef, directory: &str, files: &[&str]) {
    let inner = at(file_system, directory).unwrap();
    files.iter().for_each(|file| inner.unlink(&server(), name(file)).unwrap());
    file_system.root().rmdir(&server(), name(directory)).unwrap();
}

fn changed(committed: std::result::Result<Committed, CommitError>) -> Vec<String> {
    match committed {
        Err(CommitError::Conflicts { conflicts, .. }) => conflicts
            .into_iter()
            .map(|conflict| {
                assert_eq!(conflict.change, ForeignChange::Changed);
                String::from_utf8(conflict.path).unwrap()
            })
            .collect(),
        committed => panic!("no conflict: {committed:?}"),
    }
}

#[test]
fn foreign_directory_moved_into_deleted_one_survives() {
    let paths = ["d/x", "keep/old", "keep/deep/older"];
    let scenes =
        [(Some(Scene::with(&paths)), false), (Some(Scene::with(&paths)), true), (Scene::on_disk(&paths), false)];
    for (scene, is_replaced) in scenes {
        let Some(scene) = scene else { continue };
        remove(&scene.seen(), "d", &["x"]);
        if is_replaced {
            write(&scene.seen().root(), "d", b"file");
        }
        move_to(&scene.stack, "keep", "d", "keep").unwrap();
        assert_eq!(changed(scene.commit()), ["d/keep"]);
        assert_eq!(read(&scene.stack, "d/keep/deep/older").unwrap(), "0:keep/deep/older");
        scene.commit_with(scene.stack.clone(), true).unwrap();
        assert_eq!(list(&scene.stack, ""), if is_replaced { vec!["d"] } else { vec![] });
    }
}

#[test]
fn foreign_directory_moved_in_after_interrupted_commit_survives() {
    let scene = Scene::with(&["a", "d/x", "keep/old", "file"]);
    let seen = scene.seen();
    write(&seen.root(), "a", b"fork");
    remove(&seen, "d", &["x"]);
    drop(seen);
    scene.commit_until(is_placement);
    move_to(&scene.stack, "keep", "d", "keep").unwrap();
    assert_eq!(changed(scene.commit()), ["d/keep"]);
    move_to(&scene.stack, "file", "d", "file").unwrap();
    assert_eq!(changed(scene.commit()), ["d/file", "d/keep"]);
    assert_eq!(read(&scene.stack, "d/keep/old").unwrap(), "0:keep/old");
}

#[test]
fn foreign_writes_during_a_copy_survive() {
    let scene = Scene::with(&["a"]);
    write(&scene.seen().root(), "a", b"fork");
    let committed = scene.commit_while(is_copy, |stack| {
        write(&stack.root(), "a", b"others");
        Ok(())
    });
    assert_eq!(changed(committed), ["a"]);
    assert_eq!((read(&scene.stack, "a").unwrap().as_str(), list(&scene.stack, "")), ("others", vec!["a".to_owned()]));
}

#[test]
fn foreign_objects_created_during_commit_survive() {
    for is_replaced in [false, true] {
        let scene = Scene::with(&["a", "d/x", "keep/old"]);
        let seen = scene.seen();
        if is_replaced {
            remove(&seen, "d", &["x"]);
            write(&seen.root(), "d", b"fork");
        } else {
            write(&seen.root(), "a", b"fork");
            remove(&seen, "d", &["x"]);
        }
        drop(seen);
        let committed = scene.commit_while(is_copy, |stack| move_to(stack, "keep", "d", "keep"));
        assert_eq!(changed(committed), ["d/keep"]);
        assert_eq!(list(&scene.stack, ""), ["a", "d"]);
        assert_eq!(read(&scene.stack, "d/keep/old").unwrap(), "0:keep/old");
    }
}

/// A fork in which a directory has moved to the place of another.
fn with_move() -> Scene {
    let scene = Scene::with(&["m/old", "t/x"]);
    let seen = scene.seen();
    remove(&seen, "t", &["x"]);
    move_to(&seen, "m", "", "t").unwrap();
    drop(seen);
    scene
}

#[test]
fn foreign_objects_at_a_move_target_survive() {
    let scene = with_move();
    let committed = scene.commit_while(is_removal, |stack| {
        fill(stack, 1, "t/new");
        Ok(())
    });
    assert_eq!(changed(committed), ["t/new"]);
    assert_eq!(read(&scene.stack, "t/new").unwrap(), "1:t/new");
    assert_eq!(scene.fork().moves_under_way(), Ok(vec![b"t".to_vec()]));
    scene.commit_with(scene.stack.clone(), true).unwrap();
    assert_eq!((list(&scene.stack, ""), list(&scene.stack, "t")), (vec!["t".to_owned()], vec!["old".to_owned()]));
    assert_eq!(scene.fork().moves_under_way(), Ok(vec![]));
}

#[test]
fn directory_in_transit_is_kept() {
    let scene = with_move();
    assert_eq!(scene.fork().moves_under_way(), Ok(vec![]));
    scene.commit_until(is_removal);
    assert_eq!(scene.fork().moves_under_way(), Ok(vec![]), "it is where it was");
    scene.commit_until(is_arrival);
    assert_eq!(scene.fork().moves_under_way(), Ok(vec![b"t".to_vec()]));
    // Who goes on in the fork sees a directory without what is in it.
    scene.seen().root().rmdir(&server(), name("t")).unwrap();
    let staging = list(&scene.stack, "").into_iter().find(|name| name.ends_with(".moving")).unwrap();
    for _ in 0..2 {
        let Err(CommitError::Stopped { path, errno: Errno::ENOTEMPTY, .. }) = scene.commit() else { panic!("stopped") };
        let path = String::from_utf8(path).unwrap();
        assert!(path.starts_with(&staging), "{path}");
        assert_eq!(list(&scene.stack, &path), ["old"]);
        assert_eq!(scene.fork().moves_under_way(), Ok(vec![path.into_bytes()]));
    }
    // Its owner says where it is to be.
    let [moved] = &list(&scene.stack, &staging)[..] else { panic!("one") };
    let (from, root) = (at(&scene.stack, &staging).unwrap(), scene.stack.root());
    from.rename(&server(), name(moved), &root, name("rescued"), RenameMode::NoReplace).unwrap();
    assert_eq!(scene.fork().moves_under_way(), Ok(vec![]));
    scene.commit().unwrap();
    assert_eq!(list(&scene.stack, ""), ["rescued"]);
    assert_eq!(read(&scene.stack, "rescued/old").unwrap(), "0:m/old");
}

#[test]
fn foreign_permission_restrictions_stay() {
    let fork = || {
        let scene = Scene::with(&["d/f", "d/e/g", "z"]);
        let seen = scene.seen();
        write(&at(&seen, "d").unwrap(), "f", b"fork");
        write(&at(&seen, "d/e").unwrap(), "g", b"fork");
        drop(seen);
        scene
    };
    let scene = fork();
    let committed = scene.commit_while(is_copy, |stack| set_mode(stack, "d", 0o700));
    assert_eq!(changed(committed), ["d"]);
    assert_eq!(mode(&scene.stack, "d"), 0o700);
    assert_eq!(changed(scene.commit()), ["d"], "the next finds it at once");
    scene.commit_with(scene.stack.clone(), true).unwrap();
    assert_eq!((mode(&scene.stack, "d"), read(&scene.stack, "d/e/g").unwrap().as_str()), (0o755, "forke/g"));

    let scene = fork();
    scene.commit_until(is_placement);
    set_mode(&scene.stack, "d/e", 0o700).unwrap();
    assert_eq!(changed(scene.commit()), ["d/e"]);
    // What the fork changes afterwards is no conflict by itself.
    set_mode(&scene.stack, "d/e", 0o755).unwrap();
    set_mode(&scene.seen(), "d/e", 0o711).unwrap();
    scene.commit().unwrap();
    assert_eq!((mode(&scene.stack, "d"), mode(&scene.stack, "d/e")), (0o755, 0o711));
}

#[test]
fn foreign_directory_created_during_commit_keeps_its_owner() {
    for is_before in [true, false] {
        let scene = Scene::with(&["a"]);
        let seen = scene.seen();
        write(&seen.root(), "a", b"fork");
        fill(&seen, 1, "n/f");
        drop(seen);
        let is_trigger: fn(&Operation<'_>) -> bool = if is_before {
            is_copy
        } else {
            |operation: &Operation<'_>| matches!(operation, Operation::MakeDirectory { name, .. } if is_own(*name))
        };
        let committed = scene.commit_while(is_trigger, |stack| {
            fill(stack, 1, "n/theirs");
            let owner = SetAttributes { uid: Some(7), gid: Some(7), ..SetAttributes::default() };
            at(stack, "n")?.setattr(&server(), &owner).map(drop)
        });
        assert_eq!(changed(committed), ["n"]);
        assert_eq!(list(&scene.stack, "n"), ["theirs"]);
        assert_eq!(at(&scene.stack, "n").unwrap().getattr(&server()).unwrap().uid, 7);
    }
}

#[test]
fn foreign_directory_with_temporary_name_is_not_removed() {
    let scene = Scene::with(&["a"]);
    write(&scene.seen().root(), "a", b"fork");
    scene.commit_until(is_placement);
    let journal = read(&scene.changes, ".wh..wh.plyfs/commit").unwrap();
    let id = journal.strip_prefix("begun ").unwrap().lines().next().unwrap();
    let theirs = format!(".plyfs-{id}-99");
    fill(&scene.stack, 1, &format!("{theirs}/vault"));
    scene.commit().unwrap();
    assert_eq!(list(&scene.stack, ""), [theirs.as_str(), "a"]);
    assert_eq!(list(&scene.stack, &theirs), ["vault"]);
}

#[test]
fn directory_moved_to_a_long_path_keeps_its_contents() {
    let scene = Scene::with(&["d/old", "top/x"]);
    let seen = scene.seen();
    remove(&seen, "top", &["x"]);
    let mut directory = seen.root().mkdir(&server(), name("top"), 0o755).unwrap().vnode;
    let long = "n".repeat(250);
    for _ in 0..17 {
        directory = directory.mkdir(&server(), name(&long), 0o755).unwrap().vnode;
    }
    seen.root().rename(&server(), name("d"), &directory, name("d"), RenameMode::NoReplace).unwrap();
    drop((seen, directory));
    scene.commit().unwrap();
    let path = format!("top/{}/d", [long.as_str(); 17].join("/"));
    assert_eq!(list(&scene.stack, &path), ["old"]);
}

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
/// A list that lets user 9 read and write: its version and its entries.
const ACL_FOR_USER_9: &[u8] = &[
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 9, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 6, 0,
    255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];

/// Notes whether a file ever has a list that lets somebody in.
struct AclWatch(Arc<AtomicBool>);

impl Layer for AclWatch {
    type State = ();

    fn kind(&self) -> &'static str {
        "watch"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn admit(&self, node: &LayerVnode<Self>, _: &Caller, _: &Operation<'_>) -> Result<()> {
        let (object, server) = (node.lower(), Caller::server());
        let attributes = object.getattr(&server)?;
        if !attributes.is_directory() && attributes.mode & 0o070 != 0 && object.getxattr(&server, ACCESS_ACL).is_ok() {
            self.0.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn default_acl_never_opens_a_committed_file() {
    let stack = memory();
    ["a", "d/x"].iter().for_each(|path| fill(&stack, 0, path));
    at(&stack, "d").unwrap().setxattr(&server(), DEFAULT_ACL, ACL_FOR_USER_9, XattrMode::Set).unwrap();
    let scene = Scene::of(stack);
    move_to(&scene.seen(), "a", "d", "a").unwrap();
    let is_open = Arc::new(AtomicBool::new(false));
    scene.commit_with(layer::stack(AclWatch(Arc::clone(&is_open)), scene.stack.clone()), false).unwrap();
    assert!(at(&scene.stack, "d/a").unwrap().getxattr(&server(), ACCESS_ACL).is_err());
    assert!(!is_open.load(Ordering::Relaxed));
}

#[test]
fn commit_reports_lost_attributes() {
    let lacks = Lacks { attributes: true, ..NOTHING };
    let stack = without(lacks, memory());
    ["a", "d/f"].iter().for_each(|path| fill(&stack, 0, path));
    let scene = Scene::of(stack);
    let seen = scene.seen();
    for path in ["a", "d"] {
        at(&seen, path).unwrap().setxattr(&server(), b"user.x", b"1", XattrMode::Set).unwrap();
    }
    write(&at(&seen, "d").unwrap(), "f", b"fork");
    drop(seen);
    scene
        .commit_until(|operation| matches!(operation, Operation::Rename { to_name, .. } if to_name.as_bytes() == b"f"));
    let lost = Losses::NONE.with_if(true, Loss::Attributes);
    let expected = vec![(b"a".to_vec(), lost), (b"d".to_vec(), lost)];
    for _ in 0..2 {
        // Also of what was committed earlier.
        assert_eq!(scene.commit().unwrap().lost, expected);
    }
}
