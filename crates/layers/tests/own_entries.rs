//! Entries of a layer's own: never shown, made with what they belong to, gone with it, whenever the server stops.

mod common;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::interrupted::Interrupted;
use common::{memory, name, root, user};
use vnode::layer::{EntryOrigin, Layer, LayerFile, LayerVnode, OwnEntries, stack};
use vnode::{
    Caller, Cookie, Creation, Entry, Errno, FileKind, FileSystemRef, Name, NameBuf, OpenFlags, Promises, RenameMode,
    Result, SetAttributes, VnodeRef,
};

fn veil(lower: FileSystemRef) -> FileSystemRef {
    samples::veil::KIND.stack(&[], lower).unwrap()
}

fn names(directory: &VnodeRef) -> Vec<NameBuf> {
    let mut names = Vec::new();
    let mut collect = |entry: vnode::DirectoryEntry<'_>| {
        names.push(entry.name.to_owned());
        ControlFlow::Continue(())
    };
    directory.open_directory(&root()).unwrap().read(&root(), Cookie::START, &mut collect).unwrap();
    names
}

fn shown(directory: &VnodeRef) -> BTreeSet<String> {
    names(directory).iter().map(|name| String::from_utf8(name.as_bytes().to_vec()).unwrap()).collect()
}

fn create(directory: &VnodeRef, text: &str) -> Result<()> {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    directory.create(&root(), name(text), &how)?.file.write_at(&root(), 0, b"data").map(drop)
}

/// Removes what is shown below a directory.
fn remove_all(directory: &VnodeRef) {
    for entry in names(directory) {
        let object = directory.lookup(&root(), entry.as_name()).unwrap().vnode;
        if object.kind() == FileKind::Directory {
            remove_all(&object);
            directory.rmdir(&root(), entry.as_name()).unwrap();
        } else {
            directory.unlink(&root(), entry.as_name()).unwrap();
        }
    }
}

type Change = (&'static str, fn(&VnodeRef) -> Result<()>);

/// A name whose stored form is too long.
fn long(letter: &str) -> String {
    letter.repeat(200)
}

const CHANGES: &[Change] = &[
    ("mkdir", |top| top.mkdir(&root(), name("new"), 0o755).map(drop)),
    ("mkdir of a long name", |top| top.mkdir(&root(), name(&long("n")), 0o755).map(drop)),
    ("create of a long name", |top| create(top, &long("n"))),
    ("symlink of a long name", |top| top.symlink(&root(), name(&long("n")), b"target").map(drop)),
    ("link of a long name", |top| {
        let target = top.lookup(&root(), name("file"))?.vnode;
        top.link(&root(), &target, name(&long("n"))).map(drop)
    }),
    ("rmdir", |top| top.rmdir(&root(), name("empty"))),
    ("rmdir of a long name", |top| top.rmdir(&root(), name(&long("d")))),
    ("unlink of a long name", |top| top.unlink(&root(), name(&long("f")))),
    ("rename", |top| top.rename(&root(), name("full"), top, name("new"), RenameMode::Replace)),
    ("rename over a directory", |top| top.rename(&root(), name("full"), top, name("empty"), RenameMode::Replace)),
    ("rename between long names", |top| {
        top.rename(&root(), name(&long("f")), top, name(&long("g")), RenameMode::Replace)
    }),
    ("rename over a directory of a long name", |top| {
        top.rename(&root(), name("full"), top, name(&long("d")), RenameMode::Replace)
    }),
    ("rename into a directory", |top| {
        let full = top.lookup(&root(), name("full"))?.vnode;
        top.rename(&root(), name(&long("f")), &full, name(&long("h")), RenameMode::Replace)
    }),
];

/// A directory with entries of every kind in a file system, whose lower calls can be interrupted.
fn prepare(lower: &FileSystemRef, interrupted: &Interrupted) -> (FileSystemRef, VnodeRef) {
    let file_system = veil(stack(interrupted.clone(), lower.clone()));
    let top = file_system.root().mkdir(&root(), name("top"), 0o755).unwrap().vnode;
    for directory in ["empty", "full", &long("d")] {
        top.mkdir(&root(), name(directory), 0o755).unwrap();
    }
    create(&top.lookup(&root(), name("full")).unwrap().vnode, "inner").unwrap();
    for file in ["file", &long("f"), &long("g")] {
        create(&top, file).unwrap();
    }
    (file_system, top)
}

/// All that is shown below a directory, by paths.
fn tree(directory: &VnodeRef) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for entry in shown(directory) {
        let object = directory.lookup(&root(), name(&entry)).unwrap().vnode;
        if object.kind() == FileKind::Directory {
            all.extend(tree(&object).into_iter().map(|inner| format!("{entry}/{inner}")));
        }
        all.insert(entry);
    }
    all
}

#[test]
fn a_server_that_stops_at_any_call_leaves_each_change_made_or_not_made() {
    for (what, change) in CHANGES {
        let lower = memory();
        let (_file_system, top) = prepare(&lower, &Interrupted::default());
        let before = tree(&top);
        change(&top).unwrap();
        let after = tree(&top);
        assert_ne!(before, after, "{what}");
        for is_late in [false, true] {
            for call in 1.. {
                let (lower, interrupted) = (memory(), Interrupted::default());
                let (file_system, top) = prepare(&lower, &interrupted);
                interrupted.stop(call, is_late);
                let result = change(&top);
                let is_over = interrupted.calls() < call;
                interrupted.fail(0, false);
                drop((top, file_system));
                check_stopped(&format!("{what}, call {call}, late {is_late}: {result:?}"), &lower, &before, &after);
                if is_over {
                    break;
                }
            }
        }
    }
}

/// Checks what a server that was stopped has left.
fn check_stopped(context: &str, lower: &FileSystemRef, before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let file_system = veil(lower.clone());
    let top = file_system.root().lookup(&root(), name("top")).unwrap().vnode;
    let now = tree(&top);
    // Of two names that change, one can be found changed alone, as on a file system without a journal; but none of both.
    let changed: BTreeSet<_> = before.symmetric_difference(after).collect();
    let differs = |other: &BTreeSet<String>| now.symmetric_difference(other).any(|path| !changed.contains(path));
    assert!(!differs(before), "{context}: {now:?}");
    assert!(before.intersection(after).all(|path| now.contains(path)), "{context}: {now:?}");
    remove_all(&top);
    file_system.root().rmdir(&root(), name("top")).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(shown(&lower.root()), BTreeSet::from([".veil".to_owned()]), "{context}");
}

#[test]
fn an_error_of_any_call_below_leaves_each_change_made_or_not_made() {
    for (what, change) in CHANGES {
        let lower = memory();
        let (_file_system, top) = prepare(&lower, &Interrupted::default());
        let before = tree(&top);
        change(&top).unwrap();
        let after = tree(&top);
        for call in 1.. {
            let (lower, interrupted) = (memory(), Interrupted::default());
            let (_file_system, top) = prepare(&lower, &interrupted);
            interrupted.fail(call, false);
            let result = change(&top);
            let is_over = interrupted.calls() < call;
            interrupted.fail(0, false);
            let expected = if result.is_ok() { &after } else { &before };
            let written = !what.contains("create");
            assert!(&tree(&top) == expected || !written, "{what}, call {call}: {result:?}");
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn what_others_made_in_a_directory_keeps_it() {
    let lower = memory();
    let file_system = veil(lower.clone());
    let top = file_system.root().mkdir(&root(), name("top"), 0o755).unwrap().vnode;
    let other = file_system.root().mkdir(&root(), name("other"), 0o755).unwrap().vnode;
    create(&other, "file").unwrap();
    let below =
        names(&lower.root()).into_iter().map(|name| lower.root().lookup(&root(), name.as_name()).unwrap().vnode);
    let below: Vec<_> = below.filter(|object| object.kind() == FileKind::Directory).collect();
    assert_eq!(below.len(), 2);
    for directory in &below {
        create(directory, "not veiled").unwrap();
    }
    assert_eq!(shown(&top), BTreeSet::new());
    assert_eq!(file_system.root().rmdir(&root(), name("top")), Err(Errno::ENOTEMPTY));
    let renamed =
        file_system.root().rename(&root(), name("other"), &file_system.root(), name("top"), RenameMode::Replace);
    assert_eq!(renamed, Err(Errno::ENOTEMPTY));
    create(&top, "still usable").unwrap();
    assert_eq!(shown(&top), BTreeSet::from(["still usable".to_owned()]));
    assert!(below.iter().all(|directory| shown(directory).contains("not veiled")));
}

#[test]
fn a_directory_is_not_removed_under_those_who_make_files_in_it() {
    let file_system = veil(memory());
    let top = file_system.root();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let top = top.clone();
            scope.spawn(move || {
                let file = format!("file {thread}");
                for _ in 0..2_000 {
                    let Ok(directory) = top.lookup(&root(), name("shared")) else { continue };
                    match create(&directory.vnode, &file) {
                        Ok(()) => directory.vnode.unlink(&root(), name(&file)).expect("the file was made"),
                        Err(error) => assert!(matches!(error, Errno::ENOENT | Errno::ESTALE), "{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..2_000 {
                match top.mkdir(&root(), name("shared"), 0o777) {
                    Ok(_) | Err(Errno::EEXIST) => {}
                    Err(error) => panic!("{error}"),
                }
                match top.rmdir(&root(), name("shared")) {
                    Ok(()) | Err(Errno::ENOTEMPTY) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
}

/// Has an entry of its own beside each entry.
struct Sidecar;

const PREFIX: &str = ".side-";

fn side(of: Name<'_>) -> String {
    format!("{PREFIX}{}", String::from_utf8_lossy(of.as_bytes()))
}

impl Layer for Sidecar {
    type State = ();

    fn kind(&self) -> &'static str {
        "sidecar"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn own_entries(&self) -> OwnEntries {
        OwnEntries { exist: true, in_new_directories: false, beside_others: true }
    }

    fn is_own_entry(&self, name: Name<'_>) -> bool {
        name.as_bytes().starts_with(PREFIX.as_bytes())
    }

    fn prepare_entry(
        &self,
        directory: &LayerVnode<Self>,
        _: &Caller,
        entry: Name<'_>,
        origin: EntryOrigin<'_, LayerVnode<Self>>,
    ) -> Result<()> {
        if let EntryOrigin::Renamed(from, from_name) = origin {
            from.lower().lookup(&Caller::server(), name(&side(from_name))).expect("a name has its side file");
        }
        let how = Creation { mode: 0o600, flags: OpenFlags::WRITE };
        directory.lower().create(&Caller::server(), name(&side(entry)), &how).map(drop)
    }

    fn forget_entry(&self, directory: &LayerVnode<Self>, entry: Name<'_>) -> Result<()> {
        directory.lower().unlink(&Caller::server(), name(&side(entry)))
    }
}

#[test]
fn own_entries_are_neither_found_nor_made_from_above() {
    let lower = memory();
    let top = stack(Sidecar, lower.clone()).root();
    create(&top, "file").unwrap();
    assert_eq!(shown(&top), BTreeSet::from(["file".to_owned()]));
    let own = name(".side-file");
    let root = root();
    assert_eq!(top.lookup(&root, own).map(drop), Err(Errno::ENOENT));
    assert_eq!(top.unlink(&root, own), Err(Errno::ENOENT));
    assert_eq!(top.rename(&root, own, &top, name("other"), RenameMode::Replace), Err(Errno::ENOENT));
    assert_eq!(top.rename(&root, name("file"), &top, own, RenameMode::Replace), Err(Errno::EPERM));
    assert_eq!(create(&top, ".side-file"), Err(Errno::EPERM));
    assert_eq!(top.mkdir(&root, own, 0o755).map(drop), Err(Errno::EPERM));
    assert_eq!(top.symlink(&root, name(".plyfs-sidecar-0123456789abcdef"), b"target").map(drop), Err(Errno::EPERM));
    assert_eq!(shown(&lower.root()), BTreeSet::from(["file".to_owned(), ".side-file".to_owned()]));
}

#[test]
fn each_name_has_its_own_entry_beside_it_whatever_happens() {
    let seed = std::env::var("MODEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("MODEL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let lower = memory();
    let file_system = stack(Sidecar, lower.clone());
    let mut directories = vec![file_system.root()];
    for inner in ["one", "two"] {
        directories.push(file_system.root().mkdir(&root(), name(inner), 0o755).unwrap().vnode);
    }
    for step in 0..5_000 {
        let mut any = || (random.choice(&directories).unwrap().clone(), format!("name {}", random.u8(..6)));
        let ((from, from_name), (to, to_name)) = (any(), any());
        let (from_name, to_name) = (name(&from_name), name(&to_name));
        let _ = match random.u8(..8) {
            0 => create(&from, &String::from_utf8_lossy(from_name.as_bytes())),
            1 => from.mkdir(&root(), from_name, 0o755).map(drop),
            2 => from.unlink(&root(), from_name),
            3 => from.rmdir(&root(), from_name),
            4 => from.rename(&root(), from_name, &to, to_name, RenameMode::Replace),
            5 => from.rename(&root(), from_name, &to, to_name, RenameMode::NoReplace),
            6 => from.rename(&root(), from_name, &to, to_name, RenameMode::Exchange),
            _ => from.lookup(&root(), from_name).and_then(|it| to.link(&root(), &it.vnode, to_name).map(drop)),
        };
        for directory in &directories {
            let names = shown(directory);
            let expected = names.iter().flat_map(|entry| [entry.clone(), side(name(entry))]).collect();
            let path = directory.path().unwrap();
            let stored = String::from_utf8(path)
                .unwrap()
                .split('/')
                .filter(|part| !part.is_empty())
                .fold(lower.root(), |directory, part| directory.lookup(&root(), name(part)).unwrap().vnode);
            let stored: BTreeSet<String> = shown(&stored);
            assert_eq!(stored, expected, "step {step}");
        }
    }
}

type Attack = Box<dyn Fn(&VnodeRef, Name<'_>) + Send + Sync>;

/// What somebody does below after a directory was made, or could not be removed.
#[derive(Clone)]
struct Hostile {
    after_mkdir: Arc<Mutex<Option<Attack>>>,
    after_rmdir: Arc<Mutex<Option<Attack>>>,
}

impl Hostile {
    fn none() -> Self {
        Self { after_mkdir: Arc::default(), after_rmdir: Arc::default() }
    }
}

impl Layer for Hostile {
    type State = ();

    fn kind(&self) -> &'static str {
        "hostile"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn mkdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let made = node.forward_mkdir(caller, name, mode)?;
        let attack = self.after_mkdir.lock().unwrap().take();
        attack.inspect(|attack| attack(node.lower(), name));
        Ok(made)
    }

    fn rmdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let result = node.forward_rmdir(caller, name);
        let attack = self.after_rmdir.lock().unwrap().take();
        attack.inspect(|attack| attack(node.lower(), name));
        result
    }
}

#[test]
fn nobody_has_the_server_write_to_another_file() {
    let (lower, hostile) = (memory(), Hostile::none());
    let file_system = veil(stack(hostile.clone(), lower.clone()));
    // A file of user 1 with a name where only user 1 may change names, and another in a directory that all may change.
    let home = lower.root().mkdir(&user(1), name("home"), 0o700).unwrap().vnode;
    let (precious, file) = common::create(&home, &user(1), "precious", 0o600);
    file.write_at(&user(1), 0, b"precious").unwrap();
    let caller = Caller::with_groups(1, 1, &[], 0);
    let shared = lower.root().mkdir(&caller, name("shared"), 0o777).unwrap().vnode;
    shared.link(&user(1), &precious, name("name")).unwrap();
    *hostile.after_mkdir.lock().unwrap() = Some(Box::new(move |directory: &VnodeRef, made: Name<'_>| {
        let made = directory.lookup(&user(2), made).unwrap().vnode;
        shared.rename(&user(2), name("name"), &made, name(".veil"), RenameMode::Replace).unwrap();
    }));
    let _ = file_system.root().mkdir(&user(2), name("directory"), 0o755);
    assert_eq!(common::contents(&precious, &root()), b"precious");
}

#[test]
fn nobody_has_the_server_move_what_is_anothers_in_a_sticky_directory() {
    let (lower, hostile) = (memory(), Hostile::none());
    let file_system = veil(stack(hostile.clone(), lower.clone()));
    let sticky = SetAttributes { mode: Some(0o1777), ..SetAttributes::default() };
    lower.root().setattr(&root(), &sticky).unwrap();
    file_system.root().mkdir(&user(2), name("directory"), 0o755).unwrap();
    *hostile.after_rmdir.lock().unwrap() = Some(Box::new(|directory: &VnodeRef, own: Name<'_>| {
        directory.rename(&user(2), own, directory, name("elsewhere"), RenameMode::Replace).unwrap();
        // User 1 makes something by the name that is free now.
        let made = directory.mkdir(&user(1), own, 0o755).unwrap().vnode;
        common::create(&made, &user(1), "data", 0o644);
        assert!(directory.rename(&user(2), own, directory, name("other"), RenameMode::Replace).is_err());
    }));
    let result = file_system.root().rmdir(&user(2), name("directory"));
    let names = common::list(&lower.root(), &root());
    let hidden = names.iter().find(|text| text.starts_with(".plyfs-veil-"));
    assert_eq!(hidden, None, "what user 1 has made is hidden; rmdir {result:?}, {names:?}");
}

#[test]
fn removing_a_directory_takes_time_by_its_entries_not_by_their_square() {
    let (lower, counted) = (memory(), Interrupted::default());
    let file_system = veil(stack(counted.clone(), lower.clone()));
    file_system.root().mkdir(&root(), name("directory"), 0o755).unwrap();
    let stored = common::list(&lower.root(), &root()).into_iter().find(|text| text != ".veil").unwrap();
    let stored = lower.root().lookup(&root(), name(&stored)).unwrap().vnode;
    assert_eq!(stored.kind(), FileKind::Directory);
    const COUNT: u64 = 500;
    for number in 0..COUNT {
        stored.mkdir(&root(), name(&format!(".plyfs-veil-{number:016x}")), 0o755).unwrap();
    }
    counted.fail(0, false);
    file_system.root().rmdir(&root(), name("directory")).unwrap();
    assert!(counted.calls() < 20 * COUNT, "{} calls for {COUNT} entries", counted.calls());
}

#[test]
fn a_listing_over_a_union_ends_while_names_change() {
    let scene = common::unions::joined(vec![(plyfs_layers::BranchMode::ReadWrite, memory())]);
    let file_system = veil(scene.union.clone());
    let top = file_system.root().mkdir(&root(), name("top"), 0o755).unwrap().vnode;
    for letter in ["a", "b", "c", "d"] {
        common::create(&top, &root(), &letter.repeat(200), 0o644);
    }
    let (done, is_done) = channel();
    for thread in 0..3 {
        let (top, done) = (top.clone(), done.clone());
        std::thread::spawn(move || {
            for _ in 0..300 {
                if thread == 0 {
                    common::list(&top, &root());
                } else {
                    let file = format!("file {thread}");
                    common::create(&top, &root(), &file, 0o644);
                    top.unlink(&root(), name(&file)).unwrap();
                }
                done.send(()).unwrap();
            }
        });
    }
    for step in 0..3 * 300 {
        is_done
            .recv_timeout(Duration::from_secs(20))
            .unwrap_or_else(|_| panic!("all wait for each other after {step} steps"));
    }
}

#[test]
fn a_directory_whose_making_failed_late_is_there_and_of_use_or_not_there() {
    for call in 1.. {
        let (lower, interrupted) = (memory(), Interrupted::default());
        let file_system = veil(stack(interrupted.clone(), lower.clone()));
        interrupted.fail(call, true);
        let result = file_system.root().mkdir(&root(), name("directory"), 0o755).map(drop);
        let is_over = interrupted.calls() < call;
        interrupted.fail(0, false);
        drop(file_system);
        let found = veil(lower).root().lookup(&root(), name("directory"));
        if let Ok(found) = found {
            let how = vnode::Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
            let made = found.vnode.create(&root(), name("file"), &how).map(drop);
            assert_eq!(made, Ok(()), "call {call}: {result:?}");
        }
        if is_over {
            break;
        }
    }
}

/// Counts how often files below are synchronized.
#[derive(Clone, Default)]
struct Syncs(Arc<AtomicUsize>);

impl Layer for Syncs {
    type State = ();

    fn kind(&self) -> &'static str {
        "syncs"
    }

    fn fsync(&self, file: &LayerFile<Self>, caller: &Caller, data_only: bool) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        file.forward_fsync(caller, data_only)
    }
}

/// Without its value no name in a directory can be read. What is written and not synchronized has no bytes after a power cut,
/// whatever was synchronized of other files.
#[test]
fn the_value_of_a_directory_is_stored_before_anything_in_it_can_be() {
    let syncs = Syncs::default();
    let file_system = veil(stack(syncs.clone(), memory()));
    let top = file_system.root().mkdir(&root(), name("top"), 0o755).unwrap().vnode;
    let (_, file) = common::create(&top, &root(), &"long".repeat(50), 0o644);
    file.write_at(&root(), 0, b"data").unwrap();
    let before = syncs.0.load(Ordering::Relaxed);
    file.fsync(&root(), false).unwrap();
    top.open_directory(&root()).unwrap().fsync(&root(), false).unwrap();
    let after = syncs.0.load(Ordering::Relaxed);
    assert!(before >= 3 || after - before >= 4, "{before} own files were synchronized, then {} files", after - before);
}

#[test]
fn a_layer_without_own_entries_leaves_the_errors_of_renames_to_the_lower_file_system() {
    let top = stack(Syncs::default(), memory()).root();
    let file = common::create(&top, &root(), "file", 0o777).0;
    let closed = top.mkdir(&root(), name("closed"), 0o700).unwrap().vnode;
    for mode in [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange] {
        let renamed = file.rename(&user(5), name("one"), &closed, name("other"), mode);
        assert_eq!(renamed, Err(Errno::ENOTDIR), "{mode:?}");
    }
}
