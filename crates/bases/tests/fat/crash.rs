//! Power failures: whatever part of the writes since the last flush reached the disk, what was synchronized before is there, a rename
//! has happened or not, all names of an object are counted, and the volume can be used.
//!
//! `CRASH_SEED` replays a failure; `CRASH_WORKLOADS` says how many recordings are made of each kind of volume.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use plyfs_bases::device::{DeviceRef, Fate, MemoryDevice, RecordingDevice};
use plyfs_bases::fat::tools::fsck::FsckMode;
use plyfs_bases::fat::{FatFileSystem, MetadataMode, Options, complete_journal};
use vnode::{FileKind, FileSystem, RenameMode, SetAttributes, VnodeRef};

use crate::image::{self, KINDS, Kind, find, get, name, names, put, superuser, with_sidecars, without_sidecars};

/// How many operations are made.
const STEPS: usize = 120;
/// How many operations are made where each moment is tried.
const STEPS_OF_PREFIXES: usize = 30;
/// How many power failures are tried of each recording.
const FAILURES: usize = 60;

/// How often a volume is repaired by fsck.fat, in failures.
const REPAIRED: usize = 12;

/// The directories of all files.
const DIRECTORIES: [&str; 3] = ["", "directory one", "directory one/inner"];

/// What a file has: its contents, and with sidecars its mode.
type File = (Vec<u8>, Option<u32>);

/// The files that were synchronized, and those that were changed since.
#[derive(Clone, Default)]
struct Expected {
    files: BTreeMap<String, File>,
    touched: BTreeSet<String>,
    /// Old and new names of files that were only renamed since.
    renamed: BTreeMap<String, String>,
    /// Which file each name is of. Those that are not here are the only names of theirs.
    linked: BTreeMap<String, usize>,
}

impl Expected {
    fn is_touched(&self, path: &str) -> bool {
        self.touched.contains(path) || self.renamed.contains_key(path)
    }

    /// Returns all names of the file that has this one.
    fn names_of(&self, path: &str) -> Vec<String> {
        let Some(file) = self.linked.get(path) else { return vec![path.to_owned()] };
        self.linked.iter().filter(|(_, other)| *other == file).map(|(name, _)| name.clone()).collect()
    }

    /// Changes a file, under all its names.
    fn change(&mut self, path: &str, change: impl Fn(&mut File)) {
        for name in self.names_of(path) {
            change(self.files.get_mut(&name).unwrap());
            touch(self, &name);
        }
    }
}

/// A recording, and what was expected of the disk after so many events.
struct Recording {
    device: Arc<RecordingDevice>,
    expected: Vec<(usize, Expected)>,
    options: Options,
}

#[test]
fn fat12_keeps_what_was_synchronized() {
    run(Kind { size: 4 << 20, sectors_per_cluster: 4, ..KINDS[0] }, with_sidecars());
}

#[test]
fn fat16_keeps_what_was_synchronized() {
    run(Kind { size: 16 << 20, ..KINDS[1] }, with_sidecars());
}

#[test]
fn fat32_keeps_what_was_synchronized() {
    run(Kind { size: 34 << 20, ..KINDS[2] }, with_sidecars());
}

#[test]
fn without_metadata_it_is_the_same() {
    run(Kind { size: 34 << 20, ..KINDS[2] }, without_sidecars());
}

#[test]
fn metadata_in_entries_is_as_it_was_synchronized() {
    run(Kind { size: 16 << 20, ..KINDS[1] }, image::in_entries(MetadataMode::Inline));
}

#[test]
fn at_every_moment_what_was_synchronized_is_there() {
    let kinds = [
        Kind { size: 1 << 20, sectors_per_cluster: 1, ..KINDS[0] },
        Kind { size: 3 << 20, sectors_per_cluster: 1, ..KINDS[1] },
    ];
    for (kind, options) in kinds.into_iter().zip([with_sidecars(), without_sidecars()]) {
        each_workload(kind, |initial, seed| {
            let mut random = Rng::with_seed(seed);
            let recording = record(initial, options.clone(), STEPS_OF_PREFIXES, &mut random);
            for count in 0..=recording.device.event_count() {
                let image = recording.device.image(count, |_, _| Fate::Kept);
                check(&recording, count, Arc::new(image), &format!("CRASH_SEED={seed}, event {count}"), false);
            }
        });
    }
}

#[test]
fn without_a_journal_no_file_is_damaged() {
    let kind = Kind { size: 4 << 20, sectors_per_cluster: 1, ..KINDS[1] };
    let options = Options { journal: false, ..without_sidecars() };
    each_repair(kind, &options, |repaired, expected, context| {
        // A short name that one entry gave up, and another got, may be there twice.
        image::check(&repaired);
        let Some(expected) = expected else { return };
        let file_system = image::mount(&Arc::new(repaired), options.clone());
        let root = file_system.root();
        for (path, file) in expected.files.iter().filter(|(path, _)| !expected.is_touched(path)) {
            assert!(find_file(&root, path, false).as_ref() == Some(file), "{context}: {path}");
        }
    });
}

#[test]
fn without_a_journal_no_file_with_several_names_is_lost() {
    let kind = Kind { size: 4 << 20, sectors_per_cluster: 1, ..KINDS[1] };
    let options = Options { journal: false, ..with_sidecars() };
    each_repair(kind, &options, |repaired, expected, context| {
        let Some(expected) = expected else { return };
        let file_system = image::mount(&Arc::new(repaired), options.clone());
        let root = file_system.root();
        let untouched = || expected.files.iter().filter(|(path, _)| !expected.is_touched(path));
        let are_there = |when: &str| {
            for (path, (contents, _)) in untouched() {
                assert!(get(&root, path).as_ref() == Ok(contents), "{context}, {when}: {path}");
            }
        };
        are_there("at first");
        // All names that were made, moved or removed at that moment go: those that were synchronized stay.
        for directory in DIRECTORIES {
            let parent = find_directory(&root, directory);
            for text in names(&parent) {
                let path = if directory.is_empty() { text.clone() } else { format!("{directory}/{text}") };
                if untouched().all(|(other, _)| *other != path) {
                    let _ = parent.unlink(&superuser(), name(&text));
                }
            }
        }
        are_there("after removals");
    });
}

/// Runs `check` on what a repair makes of each failure, with what was synchronized by then.
fn each_repair(kind: Kind, options: &Options, mut check: impl FnMut(MemoryDevice, Option<&Expected>, &str)) {
    each_failure(kind, options, |recording, (_, count), image, context| {
        let (repaired, report) = image::own_report(&image, FsckMode::Repair);
        assert_eq!(report.unrepaired(), 0, "{context}: {report}");
        let expected = recording.expected.iter().rev().find(|(at, _)| *at <= count).map(|(_, expected)| expected);
        check(repaired, expected, context);
    });
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Calls `run` with a new volume and a seed, as often as the environment says.
fn each_workload(kind: Kind, mut run: impl FnMut(&MemoryDevice, u64)) {
    let Some(initial) = image::format(kind) else { return };
    let seed = number("CRASH_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    for workload in 0..number("CRASH_WORKLOADS").unwrap_or(1) {
        let seed = seed.wrapping_add(workload);
        println!("CRASH_SEED={seed} on {kind:?}");
        run(&initial, seed);
    }
}

fn run(kind: Kind, options: Options) {
    each_failure(kind, &options, |recording, (failure, count), image, context| {
        check(recording, count, Arc::new(image), context, failure % REPAIRED == 0);
    });
}

/// Calls `run` with each failure of each workload: its number, the number of events before it, and what it left.
fn each_failure(kind: Kind, options: &Options, mut run: impl FnMut(&Recording, (usize, usize), MemoryDevice, &str)) {
    each_workload(kind, |initial, seed| {
        let mut random = Rng::with_seed(seed);
        let recording = record(initial, options.clone(), STEPS, &mut random);
        for failure in 0..FAILURES {
            let count = random.usize(0..=recording.device.event_count());
            let image = fail(&recording.device, count, &mut random);
            let context = format!("CRASH_SEED={seed}, failure {failure} at event {count}");
            run(&recording, (failure, count), image, &context);
        }
    });
}

/// Returns what a power failure leaves that loses some of the writes since the last flush.
fn fail(device: &RecordingDevice, count: usize, random: &mut Rng) -> MemoryDevice {
    let lost = random.u8(0..=100);
    device.image(count, |_, event| match random.u8(0..100) {
        roll if roll >= lost => Fate::Kept,
        roll if roll % 4 == 0 => {
            let sectors = event.sectors(512);
            let start = random.u64(0..=sectors);
            Fate::Torn(start..random.u64(start..=sectors))
        }
        _ => Fate::Lost,
    })
}

/// Makes random changes of a volume.
fn record(initial: &MemoryDevice, options: Options, steps: usize, random: &mut Rng) -> Recording {
    let device = Arc::new(RecordingDevice::new(initial));
    let shared: DeviceRef = device.clone();
    let file_system = FatFileSystem::open(shared, "recorded", options.clone()).unwrap();
    let has_modes = options.metadata != MetadataMode::None;
    let has_links = options.metadata == MetadataMode::Sidecar;
    let root = file_system.root();
    root.mkdir(&superuser(), name("directory one"), 0o755).unwrap();
    find(&root, "directory one").unwrap().vnode.mkdir(&superuser(), name("inner"), 0o755).unwrap();
    file_system.sync().unwrap();
    let mut now = Expected::default();
    let mut expected = vec![(device.event_count(), now.clone())];
    for step in 0..steps {
        change(&root, &DIRECTORIES, &mut now, (has_modes, has_links), random, step);
        let begun = device.event_count();
        // What was changed may be on the disk from here on, even if the synchronization is not complete.
        if let Some((_, last)) = expected.last_mut() {
            last.touched.clone_from(&now.touched);
            last.renamed.clone_from(&now.renamed);
        }
        if random.u8(0..4) == 0 {
            file_system.sync().unwrap();
            now.touched.clear();
            now.renamed.clear();
            expected.push((device.event_count(), now.clone()));
        }
        assert!(device.event_count() >= begun);
    }
    Recording { device, expected, options }
}

/// Makes one change, and notes it.
fn change(
    root: &VnodeRef,
    directories: &[&str],
    now: &mut Expected,
    (has_modes, has_links): (bool, bool),
    random: &mut Rng,
    step: usize,
) {
    let directory = directories[random.usize(0..directories.len())];
    let path = |text: &str| if directory.is_empty() { text.to_owned() } else { format!("{directory}/{text}") };
    let existing: Vec<String> = now.files.keys().cloned().collect();
    let some = (!existing.is_empty()).then(|| existing[random.usize(0..existing.len())].clone());
    match (random.u8(0..if has_links { 12 } else { 9 }), some) {
        (8, Some(old)) => {
            // A file that was there is replaced by one that was not.
            let (directory, last) = split(&old);
            let directory = find_directory(root, directory);
            let contents = vec![random.u8(1..); random.usize(0..20_000)];
            put(&directory, "temporary", &contents).unwrap();
            directory.mkdir(&superuser(), name("also temporary"), 0o755).unwrap();
            directory.rename(&superuser(), name("temporary"), &directory, name(last), RenameMode::Replace).unwrap();
            directory.rmdir(&superuser(), name("also temporary")).unwrap();
            now.files.insert(old.clone(), (contents, has_modes.then_some(0o644)));
            now.linked.remove(&old);
            touch(now, &old);
        }
        (9.., Some(old)) => {
            let text = format!("another name of step {step}");
            find_directory(root, directory).link(&superuser(), &find(root, &old).unwrap().vnode, name(&text)).unwrap();
            now.files.insert(path(&text), now.files[&old].clone());
            now.touched.insert(path(&text));
            let file = *now.linked.entry(old).or_insert(step);
            now.linked.insert(path(&text), file);
        }
        (0..=2, _) | (_, None) => {
            let length = [0, 10, 3000, 40_000][random.usize(0..4)];
            let (text, contents) = (format!("a new file of step {step}.txt"), vec![random.u8(1..); length]);
            put(&parent(root, &path(&text)), &text, &contents).unwrap();
            now.files.insert(path(&text), (contents, has_modes.then_some(0o644)));
            now.touched.insert(path(&text));
        }
        (3, Some(old)) => {
            let (parent, last) = split(&old);
            let length = random.usize(0..60_000);
            let contents = vec![random.u8(1..); length];
            put(&find_directory(root, parent), last, &contents).unwrap();
            now.change(&old, |file| file.0.clone_from(&contents));
        }
        (4, Some(old)) => {
            let (parent, last) = split(&old);
            find_directory(root, parent).unlink(&superuser(), name(last)).unwrap();
            now.files.remove(&old);
            now.linked.remove(&old);
            touch(now, &old);
        }
        (5, Some(old)) if has_modes => {
            let mode = random.u32(0..0o1000);
            let changes = SetAttributes { mode: Some(mode), ..Default::default() };
            find(root, &old).unwrap().vnode.setattr(&superuser(), &changes).unwrap();
            now.change(&old, |file| file.1 = Some(mode));
        }
        (_, Some(old)) => {
            let text = format!("renamed in step {step}");
            let (from, last) = split(&old);
            let (from, to) = (find_directory(root, from), find_directory(root, directory));
            from.rename(&superuser(), name(last), &to, name(&text), RenameMode::Replace).unwrap();
            let file = now.files.remove(&old).unwrap();
            now.files.insert(path(&text), file);
            if let Some(file) = now.linked.remove(&old) {
                now.linked.insert(path(&text), file);
            }
            if now.touched.contains(&old) || now.renamed.values().any(|new| *new == old) {
                touch(now, &old);
                now.touched.insert(path(&text));
            } else {
                now.renamed.insert(old, path(&text));
            }
        }
    }
}

/// Notes that a file was changed: of one that was renamed before, both names.
fn touch(now: &mut Expected, path: &str) {
    now.touched.insert(path.to_owned());
    let before = now.renamed.iter().find(|(_, new)| *new == path).map(|(old, _)| old.clone());
    if let Some(old) = before {
        now.renamed.remove(&old);
        now.touched.insert(old);
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn parent(root: &VnodeRef, path: &str) -> VnodeRef {
    find_directory(root, split(path).0)
}

fn find_directory(root: &VnodeRef, path: &str) -> VnodeRef {
    if path.is_empty() { root.clone() } else { find(root, path).unwrap().vnode }
}

/// Checks that all files are as they were synchronized, under one of their names.
fn assert_files(expected: &Expected, found: &dyn Fn(&str) -> Option<File>, context: &str) {
    for (path, file) in &expected.files {
        let is_there = |path: &str| found(path).as_ref() == Some(file);
        let shown = |file: Option<File>| file.map(|(contents, mode)| (contents.len(), contents.first().copied(), mode));
        let context = format!("{context}: {:?}", shown(Some(file.clone())));
        match expected.renamed.get(path) {
            _ if expected.touched.contains(path) => {}
            Some(new) => {
                let places = (is_there(path), is_there(new));
                let instead = [shown(found(path)), shown(found(new))];
                assert!(places.0 != places.1, "{context}: {path} renamed to {new}: {instead:?}");
            }
            None => assert!(is_there(path), "{context}: {path}: {:?}", shown(found(path))),
        }
    }
}

/// Checks that all files can be read, and have as many names as they say.
fn assert_link_counts(root: &VnodeRef, context: &str) {
    let mut counts: BTreeMap<u64, (u32, Vec<String>)> = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let directory = find_directory(root, &path);
        for text in names(&directory) {
            let inner = if path.is_empty() { text } else { format!("{path}/{text}") };
            let attributes =
                find(root, &inner).unwrap_or_else(|errno| panic!("{context}: {inner}: {errno}")).attributes;
            if attributes.kind == FileKind::Directory {
                open.push(inner);
                continue;
            }
            get(root, &inner).unwrap_or_else(|errno| panic!("{context}: {inner}: {errno}"));
            counts.entry(attributes.ino.get()).or_insert((attributes.nlink, Vec::new())).1.push(inner);
        }
    }
    for (count, names) in counts.values() {
        assert_eq!(*count as usize, names.len(), "{context}: {names:?}");
    }
}

/// Returns the file at a path.
fn find_file(root: &VnodeRef, path: &str, has_modes: bool) -> Option<File> {
    let mode = find(root, path).ok()?.attributes.mode;
    Some((get(root, path).ok()?, has_modes.then_some(mode)))
}

/// Checks that the tools alone repair what a power failure left.
fn check_tools(recording: &Recording, expected: &Expected, image: &MemoryDevice, context: &str) {
    let device = Arc::new(MemoryDevice::clone(image));
    complete_journal(device.clone(), "test").unwrap();
    let (repaired, report) = image::own_report(&device, FsckMode::Preen);
    assert_eq!(report.unrepaired(), 0, "{context}: {report}");
    let file_system = image::mount(&Arc::new(repaired), recording.options.clone());
    let root = file_system.root();
    let has_modes = recording.options.metadata != MetadataMode::None;
    assert_files(expected, &|path| find_file(&root, path, has_modes), &format!("{context}, preened"));
}

/// Mounts what a power failure after `count` events left, and compares it with what was synchronized before.
fn check(recording: &Recording, count: usize, image: Arc<MemoryDevice>, context: &str, is_repaired: bool) {
    let Some((_, expected)) = recording.expected.iter().rev().find(|(at, _)| *at <= count) else { return };
    if count % 8 == 1 {
        check_tools(recording, expected, &image, context);
    }
    // Either the volume is checked when it is mounted, or only afterwards.
    let options = Options { preen: !is_repaired && !count.is_multiple_of(4), ..recording.options.clone() };
    // As the power failure left it, with the journal completed. fsck.fat follows chains beyond the size of their file, so what is
    // written to a volume that is used unchecked may be in its way.
    let left = Arc::new(MemoryDevice::clone(&image));
    drop(image::mount(&left, Options { preen: false, ..recording.options.clone() }));
    let file_system = image::mount(&image, options.clone());
    let root = file_system.root();
    let has_modes = options.metadata != MetadataMode::None;
    let found = |path: &str| find_file(&root, path, has_modes);
    assert_files(expected, &found, context);
    assert_link_counts(&root, context);
    // The volume can be used, and what is written now is there afterwards.
    put(&root, "after the power failure", &[1; 20_000]).unwrap_or_else(|errno| panic!("{context}: {errno}"));
    let listed = names(&root);
    drop((root, file_system));
    if options.preen {
        image::check(&image);
    }
    let file_system = image::mount(&image, options.clone());
    assert_eq!(names(&file_system.root()), listed, "{context}");
    assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), listed.len(), "{context}: no name is there twice");
    assert_eq!(get(&file_system.root(), "after the power failure").unwrap(), [1; 20_000], "{context}");
    if !is_repaired {
        return;
    }
    // What fsck.fat takes away belongs to nobody.
    drop(file_system);
    let (own, report) = image::own_report(&image, FsckMode::Repair);
    assert_eq!(report.unrepaired(), 0, "{context}: {report}");
    for repaired in [image::repair(&left), own] {
        let (is_clean, report) = image::examine(&repaired);
        assert!(is_clean, "{context}: {report}");
        let file_system = image::mount(&Arc::new(repaired), options.clone());
        let root = file_system.root();
        assert_files(expected, &|path| find_file(&root, path, has_modes), &format!("{context}, repaired"));
    }
}
