//! Damaged metadata of a union: marks, records, the register, the history and the names in the state directory, changed at random,
//! as a failing disk or somebody with an editor leaves them. Whatever they say, a union is made or refused, walks end, and no object
//! is served for another.
//!
//! `PLYFS_TEST_SEED` replays a failure, `UNION_DAMAGE` says how many times a union is made of damaged branches and walked.

mod common;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::{layer, memory};
use conformance::faults::Below;
use fastrand::Rng;
use plyfs_layers::union::{CheckOptions, check};
use plyfs_layers::{Branch, BranchMode};
use vnode::{
    Caller, Control, Cookie, Creation, Device, Entry, Errno, FileKind, FileSystemRef, Handle, NameBuf, OpenFlags,
    RenameMode, Result, SetAttributes, VnodeRef, XattrMode, read_fully, write_fully,
};

use BranchMode::{NoCreate, ReadOnly, ReadWrite};

/// How many times by default.
const DEFAULT_WALKS: u64 = 1_000;
/// So many walks are made in branches that are damaged more and more, before new ones are taken.
const WALKS_PER_SCENE: u64 = 40;
/// No walk takes longer.
const MAX_WALK_TIME: Duration = Duration::from_secs(60);
/// A walk ends with so many: where directories say that they were moved, all branches may be seen several times.
const MAX_OBJECTS: usize = 5_000;
/// A walk that goes deeper goes in a circle.
const MAX_DEPTH: usize = 300;

const STATE_DIRECTORY: &str = ".wh..wh.plyfs";
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Attributes that a union keeps marks in, and some that it does not.
const XATTR_NAMES: [&str; 10] = [
    "trusted.overlay.opaque",
    "trusted.overlay.redirect",
    "trusted.overlay.metacopy",
    "trusted.plyfs.origin",
    "trusted.plyfs.metacopy",
    "trusted.plyfs.device",
    "trusted.plyfs.marked",
    "user.overlay.redirect",
    "user.plyfs.origin",
    "user.overlay.opaque",
];

fn server() -> Caller {
    Caller::server()
}

/// Branches from the left.
struct Scene {
    branches: Vec<(BranchMode, FileSystemRef)>,
    options: Vec<(String, String)>,
}

impl Scene {
    /// Branches that a union has written, which may have been stopped at any call.
    fn new(random: &mut Rng) -> Self {
        let middle = *random.choice(&[ReadWrite, NoCreate, ReadOnly]).expect("there are modes");
        let branches = vec![(ReadWrite, memory()), (middle, memory()), (ReadOnly, memory())];
        for (number, (_, branch)) in branches.iter().enumerate() {
            let mut fill = Rng::with_seed(random.u64(..));
            for index in 0..20 {
                let _ = make(&branch.root(), &format!("{number}:{index}"), &mut fill);
            }
        }
        let mut options = Vec::new();
        let mut add = |key: &str, value: &str| options.push((key.to_owned(), value.to_owned()));
        if random.bool() {
            add("metacopy", "on");
        }
        if random.bool() {
            add("whiteouts", "overlay");
        }
        if random.bool() {
            add("delete", "all");
        }
        let scene = Self { branches, options };
        let below = layer("faulty", &[], scene.branches[0].1.clone());
        let told = Below::of(vec![below.clone()]);
        told.off();
        let written = Self { branches: scene.branches.clone(), options: scene.options.clone() }.with_first(below);
        let union = written.join().unwrap_or_else(|error| panic!("{error}"));
        if random.bool() {
            let from = random.u32(1..2_000).to_string();
            told.set(0, &[("from", &from), ("error", "EIO")]);
        }
        for step in 0..random.usize(5..40) {
            let _ = change(&union, &format!("new:{step}"), random);
        }
        scene
    }

    fn with_first(mut self, first: FileSystemRef) -> Self {
        self.branches[0].1 = first;
        self
    }

    fn named(&self) -> Vec<Branch> {
        let named = |(index, (mode, file_system)): (usize, &(BranchMode, FileSystemRef))| Branch {
            file_system: file_system.clone(),
            mode: Some(*mode),
            label: format!("branch {index}"),
            minimum_free: None,
        };
        self.branches.iter().enumerate().map(named).collect()
    }

    fn join(&self) -> std::result::Result<FileSystemRef, String> {
        let union = plyfs_layers::kind("union").unwrap().join(&self.options, self.named(), None);
        union.map_err(|error| error.to_string())
    }
}

/// A directory of a tree, by names chosen at random, its root most of the time.
fn directory(root: &VnodeRef, random: &mut Rng) -> VnodeRef {
    let mut at = root.clone();
    while random.u8(..3) > 0 {
        match at.lookup(&server(), common::name(random.choice(&NAMES).expect("there are names"))) {
            Ok(entry) if entry.attributes.is_directory() => at = entry.vnode,
            _ => break,
        }
    }
    at
}

/// Makes something, which has this text if it can.
fn make(root: &VnodeRef, text: &str, random: &mut Rng) -> Result<()> {
    let (server, place) = (server(), directory(root, random));
    let name = common::name(random.choice(&NAMES).expect("there are names"));
    match random.u8(..6) {
        0 | 1 => place.mkdir(&server, name, 0o755).map(drop),
        2 | 3 => {
            let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
            let made = place.create(&server, name, &how)?;
            write_fully(&*made.file, &server, 0, text.as_bytes())
        }
        4 => place.symlink(&server, name, text.as_bytes()).map(drop),
        _ => {
            let target = place.lookup(&server, common::name(random.choice(&NAMES).expect("there are names")))?.vnode;
            directory(root, random).link(&server, &target, name).map(drop)
        }
    }
}

/// Changes something in a union.
fn change(union: &FileSystemRef, text: &str, random: &mut Rng) -> Result<()> {
    let (server, root) = (server(), union.root());
    let (place, other) = (directory(&root, random), directory(&root, random));
    let name = common::name(random.choice(&NAMES).expect("there are names"));
    let to = common::name(random.choice(&NAMES).expect("there are names"));
    match random.u8(..12) {
        0 => place.unlink(&server, name),
        1 => place.rmdir(&server, name),
        2..=4 => {
            let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange, RenameMode::Whiteout];
            place.rename(&server, name, &other, to, *random.choice(&modes).expect("there are modes"))
        }
        5 | 6 => {
            let change = SetAttributes { mode: Some(random.u32(..0o1000)), ..SetAttributes::default() };
            place.lookup(&server, name)?.vnode.setattr(&server, &change).map(drop)
        }
        7 => {
            let file = place.lookup(&server, name)?.vnode.open(&server, OpenFlags::READ_WRITE)?;
            write_fully(&*file, &server, 0, text.as_bytes())
        }
        8 => place.mknod(&server, name, FileKind::CharacterDevice, 0o600, Device::default()).map(drop),
        9 => {
            let commands = ["snapshot-take", "snapshot-drop", "snapshot-merge", "snapshot-restore"];
            let command = (*random.choice(&commands).expect("there are commands")).to_owned();
            let arguments = vec![("name".to_owned(), random.u8(..3).to_string())];
            let _ = union.control(&Control { target: "union".to_owned(), command, arguments });
            Ok(())
        }
        _ => make(&root, text, random),
    }
}

/// An object of a branch, with its directory and its name there.
struct BranchObject {
    directory: VnodeRef,
    name: NameBuf,
    entry: Entry,
    is_state: bool,
}

/// All objects of a branch but its root.
fn objects(branch: &FileSystemRef) -> Vec<BranchObject> {
    let (mut found, mut left) = (Vec::new(), vec![(branch.root(), false)]);
    while let Some((directory, is_state)) = left.pop() {
        for name in names(&directory).unwrap() {
            let entry = directory.lookup(&server(), name.as_name()).unwrap();
            let is_state = is_state || name.as_bytes() == STATE_DIRECTORY.as_bytes();
            if entry.attributes.is_directory() {
                left.push((entry.vnode.clone(), is_state));
            }
            found.push(BranchObject { directory: directory.clone(), name, entry, is_state });
        }
    }
    found
}

fn names(directory: &VnodeRef) -> Result<Vec<NameBuf>> {
    let mut names = Vec::new();
    directory.open_directory(&server())?.read(&server(), Cookie::START, &mut |entry| {
        names.push(entry.name.to_owned());
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

fn data(file: &VnodeRef) -> Result<Vec<u8>> {
    let (server, mut data) = (server(), vec![0; 1 << 16]);
    let length = read_fully(&*file.open(&server, OpenFlags::READ)?, &server, 0, &mut data)?;
    data.truncate(length);
    Ok(data)
}

fn replace_data(file: &VnodeRef, data: &[u8]) -> Result<()> {
    let file = file.open(&server(), OpenFlags::WRITE.with(OpenFlags::TRUNCATE))?;
    write_fully(&*file, &server(), 0, data)
}

/// The marks of an object.
fn marks(object: &VnodeRef) -> Vec<(Vec<u8>, Vec<u8>)> {
    let names = object.listxattr(&server()).unwrap_or_default();
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.filter_map(|name| Some((name.to_vec(), object.getxattr(&server(), name).ok()?))).collect()
}

/// Other bytes than these, made of them.
fn flip_bytes(mut bytes: Vec<u8>, random: &mut Rng) -> Vec<u8> {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..=bytes.len());
        match random.u8(..7) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.u8(..)),
            2 => bytes.extend_from_slice(&[random.u8(..); 9][..random.usize(..9)]),
            3 if at < bytes.len() => bytes[at] = random.u8(..),
            4 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            5 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                let pieces: [&[u8]; 12] = [
                    b"/",
                    b"/a",
                    b"/a/b",
                    b"/..",
                    b"..",
                    b"\n",
                    b" ",
                    b"0",
                    b"18446744073709551615",
                    b"-1",
                    b"end\n",
                    b"\xff",
                ];
                let piece = *random.choice(&pieces).expect("there are pieces");
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
    bytes
}

/// Damages the metadata of a branch once. What cannot be done is left.
fn damage(branch: &FileSystemRef, random: &mut Rng) -> Result<()> {
    let (server, objects) = (server(), objects(branch));
    let Some(object) = random.choice(&objects) else { return Ok(()) };
    let Some(other) = random.choice(&objects) else { return Ok(()) };
    let vnode = &object.entry.vnode;
    let is_file = object.entry.attributes.kind == FileKind::Regular;
    match random.u8(..10) {
        // A mark is another, is another object's, is gone.
        0 | 1 => {
            let all: Vec<_> = objects
                .iter()
                .flat_map(|object| marks(&object.entry.vnode).into_iter().map(move |mark| (object, mark)))
                .collect();
            let Some((marked, (name, value))) = random.choice(&all) else { return Ok(()) };
            marked.entry.vnode.setxattr(&server, name, &flip_bytes(value.clone(), random), XattrMode::Set)
        }
        2 => marks(&other.entry.vnode)
            .iter()
            .try_for_each(|(name, value)| vnode.setxattr(&server, name, value, XattrMode::Set)),
        3 => marks(vnode).iter().take(1).try_for_each(|(name, _)| vnode.removexattr(&server, name)),
        4 => {
            let mark = *random.choice(&XATTR_NAMES).expect("there are marks");
            let values: [&[u8]; 6] = [b"", b"y", b"/a", b"b", b"/a/b/c", b"1.5 9 /a"];
            let value = random.choice(&values).expect("there are values").to_vec();
            let value = if random.bool() { value } else { flip_bytes(value, random) };
            vnode.setxattr(&server, mark.as_bytes(), &value, XattrMode::Set)
        }
        // A file of the state directory says something else.
        5 | 6 => {
            let files: Vec<_> = objects
                .iter()
                .filter(|object| object.is_state && object.entry.attributes.kind == FileKind::Regular)
                .collect();
            let Some(file) = random.choice(&files) else { return Ok(()) };
            let text = data(&file.entry.vnode)?;
            replace_data(&file.entry.vnode, &flip_bytes(text, random))
        }
        // Names there, and of whiteouts, are others.
        7 => {
            let name = flip_bytes(object.name.as_bytes().to_vec(), random);
            let prefix: &[u8] = random
                .choice(&[&b""[..], b".wh.", b".wh..wh.", b"copy.", b"name.1.", b"record."])
                .expect("there are prefixes");
            let name = NameBuf::new([prefix, &name].concat())?;
            object.directory.rename(
                &server,
                object.name.as_name(),
                &other.directory,
                name.as_name(),
                RenameMode::Replace,
            )
        }
        8 if !object.entry.attributes.is_directory() => {
            let prefix: &[u8] =
                random.choice(&[&b""[..], b".wh.", b"copy.", b"times.1.2."]).expect("there are prefixes");
            let name = NameBuf::new([prefix, object.name.as_bytes()].concat())?;
            other.directory.link(&server, vnode, name.as_name()).map(drop)
        }
        // Something is of another kind.
        _ if is_file => {
            object.directory.unlink(&server, object.name.as_name())?;
            match random.u8(..3) {
                0 => object.directory.mkdir(&server, object.name.as_name(), 0o700).map(drop),
                1 => object.directory.symlink(&server, object.name.as_name(), b"/").map(drop),
                _ => object
                    .directory
                    .mknod(&server, object.name.as_name(), FileKind::Fifo, 0o600, Device::default())
                    .map(drop),
            }
        }
        _ => Ok(()),
    }
}

/// Looks at all that a union shows, and holds it: each object is one, has one text, and is found by its handle.
fn walk(union: &FileSystemRef) {
    let (server, mut left) = (server(), vec![(union.root(), String::new())]);
    let mut known: HashMap<Handle, (String, Vec<u8>)> = HashMap::new();
    let mut held = Vec::new();
    while let Some((directory, above)) = left.pop() {
        for name in names(&directory).unwrap_or_default() {
            let Ok(entry) = directory.lookup(&server, name.as_name()) else { continue };
            let path = format!("{above}/{}", String::from_utf8_lossy(name.as_bytes()));
            let handle = entry.vnode.handle();
            let text = match entry.attributes.kind {
                FileKind::Regular => data(&entry.vnode),
                FileKind::Symlink => entry.vnode.readlink(&server),
                _ => Err(Errno::ENODATA),
            };
            if let Ok(text) = text {
                let (first, known) = known.entry(handle).or_insert_with(|| (path.clone(), text.clone()));
                assert!(*known == text, "{path} is known as {first}, and has another text: {known:?}, {text:?}");
            }
            if let Ok(resolved) = union.resolve(&server, &handle) {
                assert_eq!(resolved.handle(), handle, "{path} is found by its handle as another");
            }
            if entry.attributes.is_directory() {
                left.push((entry.vnode.clone(), path));
            }
            held.push(entry.vnode);
            assert!(
                above.matches('/').count() < MAX_DEPTH,
                "the walk goes in a circle: {above}, {:?} in {:?}",
                handle,
                directory.handle()
            );
            if held.len() == MAX_OBJECTS {
                return;
            }
        }
    }
}

/// Damages branches more and more, and makes unions of them: how many were walked.
fn damage_and_walk(seed: u64, started: &AtomicU64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let scene = Scene::new(&mut random);
    let mut walked = 0;
    for step in 0..WALKS_PER_SCENE {
        started.fetch_add(1, Ordering::Relaxed);
        for _ in 0..random.usize(1..4) {
            // The one that is written has the most.
            let branch = &scene.branches[random.usize(..4) % 3].1;
            let _ = damage(branch, &mut random);
        }
        if random.u8(..8) == 0 {
            let options = CheckOptions { repair: random.bool(), idle: random.bool(), ..CheckOptions::default() };
            let _ = check(scene.named(), &options, &mut |_| {});
        }
        let Ok(union) = scene.join() else {
            // What makes the branch unusable would do so for ever.
            let state = scene.branches[0].1.root();
            let _ = state.rename(
                &server(),
                common::name(STATE_DIRECTORY),
                &state,
                common::name("old"),
                RenameMode::Replace,
            );
            continue;
        };
        walked += 1;
        walk(&union);
        for index in 0..random.usize(..6) {
            let _ = change(&union, &format!("{step}:{index}"), &mut random);
        }
        walk(&union);
    }
    walked
}

#[test]
fn damaged_metadata_never_serve_another_object() {
    let wanted = std::env::var("UNION_DAMAGE").ok().and_then(|count| count.parse().ok()).unwrap_or(DEFAULT_WALKS);
    let mut seeds = common::random();
    let (started, seed, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(100));
                let now = started.load(Ordering::Relaxed);
                last = if now == last.0 { (now, last.1 + 1) } else { (now, 0) };
                if last.1 * 100 > MAX_WALK_TIME.as_millis() as u64 {
                    eprintln!("a walk does not end: PLYFS_TEST_SEED={}", seed.load(Ordering::Relaxed));
                    std::process::exit(1);
                }
            }
        });
        let (mut walked, mut next) = (0, seeds.get_seed());
        while walked < wanted {
            seed.store(next, Ordering::Relaxed);
            let done = catch_unwind(AssertUnwindSafe(|| damage_and_walk(next, &started)));
            if done.is_err() {
                is_over.store(true, Ordering::Relaxed);
            }
            walked += done.unwrap_or_else(|_| panic!("PLYFS_TEST_SEED={next}"));
            next = seeds.u64(..);
        }
        is_over.store(true, Ordering::Relaxed);
        println!("{walked} unions of damaged branches were walked");
    });
}
