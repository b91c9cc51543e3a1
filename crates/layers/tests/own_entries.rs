//! Entries of a layer's own: never shown, made with what they belong to, gone with it, whenever the server stops.

mod common;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use common::interrupted::Interrupted;
use common::{memory, name, root};
use vnode::layer::{EntryOrigin, Layer, LayerVnode, OwnEntries, stack};
use vnode::{
    Caller, Creation, Errno, FileKind, FileSystemRef, Name, NameBuf, OpenFlags, Promises, RenameMode, Result, VnodeRef,
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
    directory.open_directory(&root()).unwrap().read(&root(), 0, &mut collect).unwrap();
    names
}

fn shown(directory: &VnodeRef) -> BTreeSet<String> {
    names(directory).iter().map(|name| String::from_utf8(name.as_bytes().to_vec()).unwrap()).collect()
}

fn create(directory: &VnodeRef, text: &str) -> Result<()> {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    directory.create(&root(), name(text), &how)?.file.write_at(&root(), 0, b"data", false).map(drop)
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
