//! Calls below a union that fail while it is made, while snapshots are taken or forgotten, and before an operation that is
//! tried again.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plyfs_layers::{Branch, BranchMode};
use vnode::{
    Caller, Control, ControlError, Cookie, Creation, Device, Errno, FileKind, FileSystemRef, OpenFileRef, OpenFlags,
    RenameMode, SetAttributes, SetTime, Timestamp, VnodeRef, XattrMode, write_fully,
};

use common::interrupted::Interrupted;
use common::{layer, memory, name};
use conformance::faults::{
    Below, MOMENTS, OPERATIONS, Stack, State, difference, pattern, state_of, what_failed_can_be_done,
};

/// A union of these branches, the first of which is written.
fn union(options: &[(&str, &str)], branches: &[(&str, FileSystemRef)]) -> Result<FileSystemRef, String> {
    let options: Vec<_> = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let branch = |(index, (label, file_system)): (usize, &(&str, FileSystemRef))| Branch {
        file_system: file_system.clone(),
        mode: Some(if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly }),
        label: (*label).to_owned(),
        minimum_free: None,
    };
    let branches = branches.iter().enumerate().map(branch).collect();
    plyfs_layers::kind("union").unwrap().join(&options, branches, None).map_err(|error| error.to_string())
}

fn send_command(union: &FileSystemRef, command: &str, name: Option<&str>) -> Result<String, ControlError> {
    let arguments = name.map(|name| ("name".to_owned(), name.to_owned())).into_iter().collect();
    union.control(&Control { target: "union".to_owned(), command: command.to_owned(), arguments })
}

fn faulty() -> (Below, FileSystemRef) {
    let below = layer("faulty", &[], memory());
    let told = Below::of(vec![below.clone()]);
    told.off();
    (told, below)
}

fn write(directory: &VnodeRef, text: &str, bytes: usize, salt: u8) -> VnodeRef {
    let server = Caller::server();
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
    let created = directory.create(&server, name(text), &how).unwrap_or_else(|error| panic!("{text}: {error}"));
    write_fully(&*created.file, &server, 0, &pattern(bytes, salt)).unwrap();
    created.entry.vnode
}

/// A branch with a snapshot, files with several names that were changed since, and directories that were moved or removed.
fn with_snapshot() -> (Below, FileSystemRef, FileSystemRef) {
    let (told, below) = faulty();
    let (server, union) = (Caller::server(), union(&[], &[("branch", below.clone())]).unwrap());
    let root = union.root();
    let directory = root.mkdir(&server, name("directory"), 0o755).unwrap().vnode;
    let removed = root.mkdir(&server, name("removed"), 0o755).unwrap().vnode;
    for (place, text) in
        [(&root, "file"), (&root, "gone"), (&directory, "inner"), (&directory, "kept"), (&removed, "x")]
    {
        write(place, text, 700, text.len() as u8);
    }
    let outer = root.mkdir(&server, name("outer"), 0o755).unwrap().vnode;
    let moved = outer.mkdir(&server, name("moved"), 0o755).unwrap().vnode;
    write(&moved, "precious", 40, 9);
    root.link(&server, &root.lookup(&server, name("file")).unwrap().vnode, name("second name")).unwrap();
    directory.link(&server, &root.lookup(&server, name("file")).unwrap().vnode, name("third name")).unwrap();
    send_command(&union, "snapshot-take", Some("first")).unwrap();
    write(&root, "second name", 300, 77);
    write(&directory, "inner", 100, 78);
    root.unlink(&server, name("gone")).unwrap();
    removed.unlink(&server, name("x")).unwrap();
    root.rmdir(&server, name("removed")).unwrap();
    // The rest of one of these is in the frozen layer, below that of the other.
    outer.rename(&server, name("moved"), &root, name("moved away"), RenameMode::Replace).unwrap();
    root.rename(&server, name("outer"), &directory, name("outer"), RenameMode::Replace).unwrap();
    (told, below, union)
}

/// The names of the snapshots.
fn snapshots(union: &FileSystemRef) -> Vec<String> {
    let answer: serde_json::Value = serde_json::from_str(&send_command(union, "snapshots", None).unwrap()).unwrap();
    answer.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn writes_after_failed_snapshot_command_persist() {
    let (mut problems, mut count) = (Vec::new(), 0);
    for (command, argument) in
        [("snapshot-take", "second"), ("snapshot-restore", "first"), ("snapshot-drop", "first"), ("snapshot-merge", "")]
    {
        let argument = Some(argument).filter(|argument| !argument.is_empty());
        let (told, _, whole) = with_snapshot();
        told.set_all(&[]);
        send_command(&whole, command, argument).unwrap();
        let calls = told.count(0, "calls");
        for (call, moment) in (1..=calls).flat_map(|call| MOMENTS.map(|moment| (call, moment))) {
            count += 1;
            let (told, below, running) = with_snapshot();
            let before = state_of(&running.root());
            told.set(0, &[("from", &call.to_string()), ("times", "1"), (moment, "EIO")]);
            let answer = send_command(&running, command, argument);
            told.off();
            let mut report = |what: &str, differs: String| {
                problems.push(format!("{command}: call {call}, {moment} ({answer:?}): {what}\n{differs}"));
            };
            if ["snapshot-drop", "snapshot-merge"].contains(&command) && state_of(&running.root()) != before {
                report("other data are seen", difference(&before, &state_of(&running.root())));
            }
            write(&running.root(), "later", 50, 5);
            write(&running.root(), "file", 60, 6);
            let (state, taken) = (state_of(&running.root()), snapshots(&running));
            drop(running);
            let again = union(&[], &[("branch", below)]).unwrap();
            if state_of(&again.root()) != state {
                report("lost after a restart", difference(&state, &state_of(&again.root())));
            }
            // One that was nearly forgotten is, when the branch is next used.
            if snapshots(&again) != taken && answer.is_ok() {
                report("other snapshots after a restart", format!("{:?}, not {taken:?}", snapshots(&again)));
            }
        }
    }
    println!("{count} calls failed in turn");
    assert!(problems.is_empty(), "{} of {count}:\n{}", problems.len(), problems.join("\n"));
}

/// Files that the kernel goes on writing by itself, one of them in a directory, in a branch whose calls fail.
struct DirectFiles {
    directory: tempfile::TempDir,
    told: Interrupted,
    below: FileSystemRef,
    union: FileSystemRef,
    files: Vec<(&'static str, OpenFileRef, std::os::fd::OwnedFd)>,
}

impl DirectFiles {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = bases::dir::DirectoryFileSystem::open(directory.path(), bases::dir::Options::default()).unwrap();
        let told = Interrupted::default();
        let below = vnode::layer::stack(told.clone(), Arc::new(base));
        let (server, union) = (Caller::server(), union(&[], &[("branch", below.clone())]).unwrap());
        let inner = union.root().mkdir(&server, name("d"), 0o755).unwrap().vnode;
        let open = |place: &VnodeRef, text: &'static str, path: &'static str| {
            let file = write(place, text, 700, 1).open(&server, OpenFlags::READ_WRITE).unwrap();
            let backing = file.backing().expect("the kernel can write it").try_clone_to_owned().unwrap();
            (path, file, backing)
        };
        let files = vec![open(&union.root(), "f", "f"), open(&inner, "g", "d/g")];
        Self { directory, told, below, union, files }
    }

    /// What the kernel writes.
    fn write(&self, text: &str) {
        for (_, _, backing) in &self.files {
            rustix::io::pwrite(backing, text.as_bytes(), 0).unwrap();
        }
    }

    fn first_bytes(union: &FileSystemRef, path: &str) -> String {
        let found = common::walk(union, &Caller::server(), path).unwrap_or_else(|error| panic!("{path}: {error}"));
        String::from_utf8_lossy(&common::contents(&found.vnode, &Caller::server())[..5]).into_owned()
    }
}

/// Whether all of a tree is seen, or else nothing of it that differs: what cannot be told is an error.
fn matches_state(union: &FileSystemRef, before: &State) -> Result<bool, Errno> {
    let root = union.root();
    let mut names = Vec::new();
    root.open_directory(&Caller::server())?.read(&Caller::server(), Cookie::START, &mut |entry| {
        names.push(entry.name.to_owned());
        std::ops::ControlFlow::Continue(())
    })?;
    for one in &names {
        root.lookup(&Caller::server(), one.as_name())?;
    }
    Ok(state_of(&root) == *before)
}

#[test]
fn half_merged_branch_is_unavailable_until_the_merge_is_finished() {
    let (mut problems, mut unfinished) = (Vec::new(), 0);
    let (told, _, whole) = with_snapshot();
    told.set_all(&[]);
    send_command(&whole, "snapshot-merge", None).unwrap();
    let calls = told.count(0, "calls");
    // All calls that change something fail from one on, as on a disk that has failed, and then no more.
    for call in 1..=calls {
        let (told, _below, running) = with_snapshot();
        let before = state_of(&running.root());
        let changes = "rename:setxattr:removexattr:unlink:rmdir:mkdir:create:link:setattr:fsync:mknod:write";
        told.set(0, &[("from", &call.to_string()), ("operations", changes), ("error", "EIO")]);
        let answer = send_command(&running, "snapshot-merge", None);
        let visible_state = matches_state(&running, &before);
        if !matches!(visible_state, Ok(true) | Err(Errno::EIO)) {
            problems.push(format!("from call {call} on ({answer:?}): {visible_state:?}"));
        }
        unfinished += usize::from(visible_state.is_err());
        if visible_state.is_err() && running.root().rmdir(&Caller::server(), name("moved away")) != Err(Errno::EIO) {
            problems.push(format!("from call {call} on ({answer:?}): a directory that is on its way can be removed"));
        }
        told.off();
        if call % 16 == 0 {
            // It is tried again by itself.
            let end = Instant::now() + Duration::from_secs(20);
            while matches_state(&running, &before) != Ok(true) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let again = send_command(&running, "snapshot-merge", None);
        if matches_state(&running, &before) != Ok(true) {
            let now = state_of(&running.root());
            problems.push(format!("from call {call} on ({answer:?}, {again:?}):\n{}", difference(&before, &now)));
        }
    }
    println!("{calls} calls, from {unfinished} of them on a merge was half done");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(unfinished > 0);
}

/// One that is read only is not shown half merged either, nor when it comes to be written.
#[test]
fn half_merged_branch_is_merged_before_new_writes() {
    let changes = "rename:setxattr:removexattr:rmdir";
    let mut hidden = 0;
    for call in 1..40 {
        let (told, below, running) = with_snapshot();
        let before = state_of(&running.root());
        told.set(0, &[("from", &call.to_string()), ("operations", changes), ("error", "EIO")]);
        let merged = send_command(&running, "snapshot-merge", None);
        drop(running);
        told.off();
        let again = union(&[], &[("first", memory()), ("branch", below)]).unwrap();
        let read_only = matches_state(&again, &before);
        assert!(matches!(read_only, Ok(true) | Err(Errno::EIO)), "read only, from call {call} on: {read_only:?}");
        hidden += usize::from(read_only.is_err());
        let arguments = [("branch", "branch"), ("mode", "rw")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mode = Control {
            target: "union".to_owned(),
            command: "mode".to_owned(),
            arguments: arguments.into_iter().collect(),
        };
        again.control(&mode).unwrap_or_else(|error| panic!("call {call}: {error}"));
        let now = state_of(&again.root());
        assert!(now == before, "from call {call} on ({merged:?}):\n{}", difference(&before, &now));
    }
    assert!(hidden > 0);
}

/// What is on its way is known by handles, which a copy has not: it is refused, and the original goes on.
#[test]
fn copy_of_half_merged_branch_is_refused() {
    let mut refused = 0;
    for call in 1..30 {
        let directory = tempfile::tempdir().unwrap();
        let [original, copy] = ["original", "copy"].map(|name| directory.path().join(name));
        std::fs::create_dir(&original).unwrap();
        let opened = |path: &std::path::Path| -> FileSystemRef {
            Arc::new(bases::dir::DirectoryFileSystem::open(path, bases::dir::Options::default()).unwrap())
        };
        let below = layer("faulty", &[], opened(&original));
        let told = Below::of(vec![below.clone()]);
        told.off();
        let running = union(&[], &[("branch", below)]).unwrap();
        let (server, root) = (Caller::server(), running.root());
        let outer = root.mkdir(&server, name("outer"), 0o755).unwrap().vnode;
        write(&outer.mkdir(&server, name("moved"), 0o755).unwrap().vnode, "precious", 40, 9);
        send_command(&running, "snapshot-take", Some("first")).unwrap();
        outer.rename(&server, name("moved"), &root, name("moved away"), RenameMode::Replace).unwrap();
        let before = state_of(&root);
        told.set(
            0,
            &[("from", &call.to_string()), ("operations", "rename:setxattr:removexattr:rmdir"), ("error", "EIO")],
        );
        let _ = send_command(&running, "snapshot-merge", None);
        drop((outer, root, running));
        assert!(
            std::process::Command::new("cp")
                .args(["-a".as_ref(), original.as_os_str(), copy.as_os_str()])
                .status()
                .unwrap()
                .success()
        );
        match union(&[], &[("branch", opened(&copy))]) {
            Ok(copied) => assert_eq!(state_of(&copied.root()), before, "from call {call} on"),
            Err(message) => {
                assert!(message.contains("copy it once that is finished"), "from call {call} on: {message}");
                refused += 1;
            }
        }
        assert_eq!(
            state_of(&union(&[], &[("branch", opened(&original))]).unwrap().root()),
            before,
            "from call {call} on"
        );
    }
    assert!(refused > 0);
}

#[test]
fn snapshot_of_directly_written_files_is_atomic() {
    let (mut problems, mut count) = (Vec::new(), 0);
    let whole = DirectFiles::new();
    whole.told.fail(0, false);
    send_command(&whole.union, "snapshot-take", Some("first")).unwrap();
    let calls = whole.told.calls();
    for (call, is_late) in (1..=calls).flat_map(|call| [false, true].map(|is_late| (call, is_late))) {
        count += 1;
        let direct = DirectFiles::new();
        direct.write("early");
        direct.told.fail(call, is_late);
        let answer = send_command(&direct.union, "snapshot-take", Some("first"));
        direct.told.fail(0, false);
        direct.write("later");
        let is_taken = snapshots(&direct.union) == ["first"];
        let mut report = |what: String| problems.push(format!("call {call}, late {is_late} ({answer:?}): {what}"));
        if answer.is_ok() && !is_taken {
            report("it is not there".to_owned());
        }
        for (path, _, _) in &direct.files {
            let visible_state = DirectFiles::first_bytes(&direct.union, path);
            if visible_state != "later" {
                report(format!("{path} is {visible_state}"));
            }
            let frozen = std::fs::read(direct.directory.path().join(path)).unwrap();
            if is_taken && !frozen.starts_with(b"early") {
                report(format!("{path} in the snapshot is {}", String::from_utf8_lossy(&frozen[..5])));
            }
        }
        let DirectFiles { below, union: running, files, directory: _directory, .. } = direct;
        let paths: Vec<_> = files.iter().map(|(path, _, _)| *path).collect();
        drop((running, files));
        let again = union(&[], &[("branch", below)]).unwrap();
        for path in paths {
            let visible_state = DirectFiles::first_bytes(&again, path);
            if visible_state != "later" {
                report(format!("{path} is {visible_state} after a restart"));
            }
        }
        if (snapshots(&again) == ["first"]) != is_taken {
            report("another answer about the snapshot after a restart".to_owned());
        }
        if answer.is_err() && is_taken {
            // What could be undone is not taken.
            report("it is taken".to_owned());
        }
    }
    println!("{count} calls failed in turn");
    assert!(problems.is_empty(), "{} of {count}:\n{}", problems.len(), problems.join("\n"));
}

/// Waits until nobody has the locks of a branch and its layers: helpers of a union that was dropped end soon.
fn wait_for_locks(branch: &std::path::Path) {
    let state = branch.join(".wh..wh.plyfs");
    let layers = std::fs::read_dir(state.join("layers")).into_iter().flatten();
    let states = layers.map(|layer| layer.unwrap().path().join(".wh..wh.plyfs")).chain([state]);
    for lock in states.filter_map(|state| std::fs::File::open(state.join("lock")).ok()) {
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    }
}

#[test]
fn direct_writes_during_a_snapshot_survive_a_server_crash() {
    let (mut problems, mut count) = (Vec::new(), 0);
    let whole = DirectFiles::new();
    whole.told.fail(0, false);
    send_command(&whole.union, "snapshot-take", Some("first")).unwrap();
    let calls = whole.told.calls();
    for (call, is_late) in (1..=calls).flat_map(|call| [false, true].map(|is_late| (call, is_late))) {
        count += 1;
        let direct = DirectFiles::new();
        direct.write("early");
        direct.told.stop(call, is_late);
        let _ = send_command(&direct.union, "snapshot-take", Some("first"));
        direct.write("later");
        let DirectFiles { below, union: running, files, directory, told } = direct;
        let paths: Vec<_> = files.iter().map(|(path, _, _)| *path).collect();
        drop((running, files));
        told.fail(0, false);
        for time in ["after a restart", "after another"] {
            wait_for_locks(directory.path());
            let again = union(&[], &[("branch", below.clone())]).unwrap();
            for path in &paths {
                let visible_state = DirectFiles::first_bytes(&again, path);
                if visible_state != "later" {
                    problems.push(format!("call {call}, late {is_late}: {path} is {visible_state} {time}"));
                }
            }
        }
    }
    println!("{count} calls were the last");
    assert!(problems.is_empty(), "{} of {count}:\n{}", problems.len(), problems.join("\n"));
}

/// A union of a branch whose calls fail and one with a file of 700 bytes, perhaps copied to the first without its data.
fn with_original(is_copied: bool) -> (Below, FileSystemRef, Vec<(&'static str, FileSystemRef)>) {
    let (server, lower) = (Caller::server(), memory());
    write(&lower.root(), "file", 700, 1);
    let (told, upper) = faulty();
    let branches = vec![("upper", upper), ("lower", lower)];
    let options: &[_] = if is_copied { &[("metacopy", "on")] } else { &[] };
    let union = union(options, &branches).unwrap();
    if is_copied {
        let change = SetAttributes { mode: Some(0o640), ..SetAttributes::default() };
        union.root().lookup(&server, name("file")).unwrap().vnode.setattr(&server, &change).unwrap();
    }
    (told, union, branches)
}

#[test]
fn failed_truncation_changes_nothing() {
    type TruncateOperation = fn(&VnodeRef) -> vnode::Result<()>;
    fn truncate(file: &VnodeRef, size: u64) -> vnode::Result<()> {
        let change = SetAttributes { size: Some(size), ..SetAttributes::default() };
        file.setattr(&Caller::server(), &change).map(drop)
    }
    let cuts: [(&str, TruncateOperation); 4] = [
        ("O_TRUNC", |file| file.open(&Caller::server(), OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).map(drop)),
        ("to nothing", |file| truncate(file, 0)),
        ("to a part", |file| truncate(file, 100)),
        ("to more", |file| truncate(file, 9000)),
    ];
    let text = |union: &FileSystemRef| {
        union
            .root()
            .lookup(&Caller::server(), name("file"))
            .map(|entry| common::contents(&entry.vnode, &Caller::server()))
    };
    let (mut problems, mut count) = (Vec::new(), 0);
    for (is_copied, (what, cut)) in [false, true].into_iter().flat_map(|is_copied| cuts.map(|cut| (is_copied, cut))) {
        let (told, whole, _) = with_original(is_copied);
        let file = whole.root().lookup(&Caller::server(), name("file")).unwrap().vnode;
        told.set_all(&[]);
        cut(&file).unwrap();
        let calls = told.count(0, "calls");
        for call in 1..=calls {
            count += 1;
            let (told, running, branches) = with_original(is_copied);
            let file = running.root().lookup(&Caller::server(), name("file")).unwrap().vnode;
            let before = text(&running);
            told.set(0, &[("from", &call.to_string()), ("times", "1"), ("error", "EIO")]);
            let answer = cut(&file);
            told.off();
            drop(file);
            let visible_state = text(&running);
            drop(running);
            let again = text(&union(&[], &branches).unwrap());
            for (when, visible_state) in [("at once", visible_state), ("after a restart", again)] {
                if answer.is_err() && visible_state != before {
                    let length = visible_state.map(|text| text.len());
                    problems.push(format!("{what}, copied {is_copied}: call {call}: {length:?} bytes {when}"));
                }
            }
        }
    }
    println!("{count} calls failed in turn");
    assert!(problems.is_empty(), "{} of {count}:\n{}", problems.len(), problems.join("\n"));
}

/// What is seen, and the inode numbers of all that has a name in the root.
fn visible_state(union: &FileSystemRef) -> (State, Vec<u64>) {
    let number =
        |text| union.root().lookup(&Caller::server(), name(text)).map_or(0, |entry| entry.attributes.ino.get());
    (state_of(&union.root()), ["file", "second name", "directory"].map(number).to_vec())
}

#[test]
fn query_errors_during_creation_are_reported() {
    let (mut problems, mut failed) = (Vec::new(), 0);
    let made = || {
        let (server, lower) = (Caller::server(), memory());
        let file = write(&lower.root(), "file", 700, 1);
        lower.root().link(&server, &file, name("second name")).unwrap();
        let directory = lower.root().mkdir(&server, name("directory"), 0o755).unwrap().vnode;
        write(&directory, "inner", 7000, 2);
        let (told, upper) = faulty();
        let first = union(&[("metacopy", "on")], &[("upper", upper.clone()), ("lower", lower.clone())]).unwrap();
        write(&first.root(), "second name", 300, 3);
        let inner =
            first.root().lookup(&server, name("directory")).unwrap().vnode.lookup(&server, name("inner")).unwrap();
        inner.vnode.setattr(&server, &SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).unwrap();
        (told, upper, lower)
    };
    // A branch that was not there: without the register it would be the one that was there first.
    let remake = |upper: &FileSystemRef, lower: &FileSystemRef| {
        union(&[("metacopy", "on")], &[("upper", upper.clone()), ("lower", lower.clone()), ("new", memory())])
    };
    let (told, upper, lower) = made();
    told.set_all(&[]);
    let whole = remake(&upper, &lower).unwrap();
    let calls = told.count(0, "calls");
    told.off();
    let (state, _) = visible_state(&whole);
    for call in 1..=calls {
        let (told, upper, lower) = made();
        let (_, numbers) = visible_state(&remake(&upper, &lower).unwrap());
        told.set(0, &[("from", &call.to_string()), ("times", "1"), ("error", "EIO")]);
        let again = remake(&upper, &lower);
        told.off();
        match again {
            Err(_) => failed += 1,
            Ok(again) if visible_state(&again) != (state.clone(), numbers.clone()) => {
                let (found, found_numbers) = visible_state(&again);
                let difference = difference(&state, &found);
                problems.push(format!("call {call}: {found_numbers:?}, not {numbers:?}\n{difference}"));
            }
            Ok(_) => {}
        }
    }
    assert!(problems.is_empty(), "{} of {calls}:\n{}", problems.len(), problems.join("\n"));
    assert!(failed > 3, "{failed} of {calls} failed");
}

/// A union of a branch that is written and one that is not, with or without metadata-only copies.
struct UnionSetup {
    metacopy: &'static str,
}

impl Stack for UnionSetup {
    fn title(&self) -> String {
        format!("union with metacopy={}", self.metacopy)
    }

    fn width(&self) -> usize {
        2
    }

    fn below(&self) -> FileSystemRef {
        layer("faulty", &[], memory())
    }

    fn build(&self, below: Vec<FileSystemRef>) -> FileSystemRef {
        let branches: Vec<_> = ["upper", "lower"].into_iter().zip(below).collect();
        union(&[("metacopy", self.metacopy)], &branches).unwrap()
    }
}

#[test]
fn failed_operations_can_be_repeated() {
    let (mut problems, mut count) = (Vec::new(), 0);
    for metacopy in ["off", "on"] {
        let stack = UnionSetup { metacopy };
        for operation in OPERATIONS {
            match what_failed_can_be_done(&stack, operation) {
                Ok(done) => count += done,
                Err(problem) => problems.push(format!("{}: {}: {problem}", stack.title(), operation.name)),
            }
        }
    }
    println!("{count} operations were done again");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Whoever synchronizes a file wants its data stored, which may have been written a moment before they were frozen.
#[test]
fn fsync_of_metadata_only_copy_stores_its_data() {
    let server = Caller::server();
    let (told, right) = faulty();
    write(&right.root(), "file", 700, 4);
    let union = union(&[("metacopy", "on")], &[("left", memory()), ("right", right)]).unwrap();
    let file = union.root().lookup(&server, name("file")).unwrap().vnode;
    file.setattr(&server, &SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).unwrap();
    let open = file.open(&server, OpenFlags::READ).unwrap();
    told.set(0, &[("operations", "fsync"), ("error", "EIO")]);
    assert_eq!(open.fsync(&server, false), Err(Errno::EIO));
    told.set(0, &[("operations", "fsync"), ("error", "EROFS")]);
    assert_eq!(open.fsync(&server, false), Ok(()), "what cannot be written is stored");
    told.off();
    open.fsync(&server, true).unwrap();
}

#[test]
fn failed_truncation_of_metadata_only_copy_is_undone() {
    let server = Caller::server();
    let (told, lower) = faulty();
    let original = write(&lower.root(), "file", 9000, 1);
    original.setxattr(&server, b"user.kept", b"value", XattrMode::Set).unwrap();
    let union = union(&[("metacopy", "on")], &[("upper", memory()), ("lower", lower.clone())]).unwrap();
    let file = union.root().lookup(&server, name("file")).unwrap().vnode;
    let mtime = Timestamp { seconds: 1_000_000, nanoseconds: 5 };
    let changes = SetAttributes { mode: Some(0o600), mtime: Some(SetTime::To(mtime)), ..SetAttributes::default() };
    file.setattr(&server, &changes).unwrap();
    let before = state_of(&union.root());
    let cut = SetAttributes { size: Some(5000), ..SetAttributes::default() };
    told.set(0, &[("operations", "read:copy_file_range"), ("error", "EIO")]);
    assert_eq!(file.setattr(&server, &cut).map(drop), Err(Errno::EIO));
    told.off();
    let attributes = file.getattr(&server).unwrap();
    assert_eq!((attributes.size, attributes.mtime), (9000, mtime));
    assert_eq!(difference(&before, &state_of(&union.root())), "");
    assert_eq!(file.setattr(&server, &cut).unwrap().size, 5000);
}

/// Counts the warnings of this thread.
#[derive(Clone, Default)]
struct WarningCounter(Arc<AtomicUsize>);

impl tracing::Subscriber for WarningCounter {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target() == "union"
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn object_beside_an_unremovable_whiteout_is_visible() {
    let server = Caller::server();
    for format in ["names", "overlay"] {
        let ((told, upper), lower) = (faulty(), memory());
        let hidden = ["renamed", "moved", "linked", "created", "special", "made", "pointed"];
        hidden.iter().for_each(|text| drop(write(&lower.root(), text, 10, 1)));
        let options = [("whiteouts", format)];
        let branches = [("upper", upper.clone()), ("lower", lower.clone())];
        let mounted = union(&options, &branches).unwrap();
        let root = mounted.root();
        hidden.iter().for_each(|text| root.unlink(&server, name(text)).unwrap());
        let (file, directory) = (write(&root, "file", 20, 2), root.mkdir(&server, name("directory"), 0o755).unwrap());
        write(&directory.vnode, "inner", 30, 3);
        write(&root, "other", 40, 4);
        let warnings = WarningCounter::default();
        told.set(0, &[("operations", "unlink"), ("error", "EIO")]);
        tracing::subscriber::with_default(warnings.clone(), || {
            root.rename(&server, name("file"), &root, name("renamed"), RenameMode::Replace).unwrap();
            root.rename(&server, name("directory"), &root, name("moved"), RenameMode::NoReplace).unwrap();
            root.link(&server, &file, name("linked")).unwrap();
            write(&root, "created", 50, 5);
            let (fifo, device) = (FileKind::Fifo, Device::default());
            root.mknod(&server, name("special"), fifo, 0o600, device).unwrap();
            root.mkdir(&server, name("made"), 0o755).unwrap();
            root.symlink(&server, name("pointed"), b"target").unwrap();
        });
        told.off();
        assert_eq!(warnings.0.load(Ordering::Relaxed), 1, "{format}");
        assert_eq!(root.lookup(&server, name("file")).err(), Some(Errno::ENOENT));
        let before = state_of(&root);
        drop((mounted, root, file, directory));
        let again = union(&options, &branches).unwrap();
        assert_eq!(difference(&before, &state_of(&again.root())), "", "{format}");
        let sizes = [("renamed", 20), ("linked", 20), ("created", 50), ("other", 40)];
        for (text, size) in sizes {
            let found = again.root().lookup(&server, name(text)).unwrap().attributes;
            assert_eq!(found.size, size, "{format}: {text}");
        }
        for text in ["moved", "made"] {
            let found = again.root().lookup(&server, name(text)).unwrap().vnode;
            assert_eq!(common::list(&found, &server), if text == "moved" { &["inner"][..] } else { &[] });
        }
    }
}

/// Makes something by a name that a whiteout hides, or nothing has.
type CreateOperation = fn(&VnodeRef, &str) -> vnode::Result<()>;

#[test]
fn failed_creation_leaves_no_entry() {
    let server = Caller::server();
    let makes: [(&str, CreateOperation); 4] = [
        ("create", |root, text| {
            let how = Creation { mode: 0o444, flags: OpenFlags::WRITE };
            root.create(&Caller::server(), name(text), &how).map(drop)
        }),
        ("mkdir", |root, text| root.mkdir(&Caller::server(), name(text), 0o755).map(drop)),
        ("mknod", |root, text| {
            root.mknod(&Caller::server(), name(text), FileKind::Fifo, 0o600, Device::default()).map(drop)
        }),
        ("symlink", |root, text| root.symlink(&Caller::server(), name(text), b"target").map(drop)),
    ];
    let made = |format: &str| {
        let ((told, upper), lower) = (faulty(), memory());
        let hidden = lower.root().mkdir(&server, name("hidden"), 0o755).unwrap().vnode;
        write(&hidden, "inner", 10, 1);
        let branches = [("upper", upper), ("lower", lower)];
        let mounted = union(&[("whiteouts", format)], &branches).unwrap();
        hidden.unlink(&server, name("inner")).unwrap();
        mounted.root().rmdir(&server, name("hidden")).unwrap();
        write(&hidden, "inner", 10, 1);
        (told, branches, mounted)
    };
    let (mut problems, mut count) = (Vec::new(), 0);
    for (format, text) in ["names", "overlay"].into_iter().flat_map(|format| [(format, "hidden"), (format, "new")]) {
        for (what, make) in makes {
            let (told, _, whole) = made(format);
            told.set_all(&[]);
            make(&whole.root(), text).unwrap();
            let calls = told.count(0, "calls");
            for (call, moment) in (1..=calls).flat_map(|call| MOMENTS.map(|moment| (call, moment))) {
                count += 1;
                let (told, branches, running) = made(format);
                told.set(0, &[("from", &call.to_string()), ("times", "1"), (moment, "EIO")]);
                let answer = make(&running.root(), text);
                told.off();
                let mut visible_state = running;
                for again in [false, true] {
                    if again {
                        drop(visible_state);
                        visible_state = union(&[("whiteouts", format)], &branches).unwrap();
                    }
                    let listed = common::list(&visible_state.root(), &server).iter().any(|listed| listed == text);
                    let found = visible_state.root().lookup(&server, name(text));
                    let inner = found.as_ref().ok().filter(|found| found.attributes.is_directory());
                    let matches_state = inner.is_some_and(|found| !common::list(&found.vnode, &server).is_empty());
                    if (listed, found.is_ok(), matches_state) != (answer.is_ok(), answer.is_ok(), false) {
                        problems.push(format!(
                            "{format}: {what} {text}: call {call}, {moment} ({answer:?}), again {again}: listed {listed}, \
                             found {}, shows what is hidden {matches_state}",
                            found.is_ok()
                        ));
                    }
                }
            }
        }
    }
    println!("{count} calls failed in turn");
    assert!(problems.is_empty(), "{} of {count}:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn unmarkable_directory_stays_beside_its_whiteout() {
    let server = Caller::server();
    let ((told, upper), lower) = (faulty(), memory());
    let hidden = lower.root().mkdir(&server, name("hidden"), 0o755).unwrap().vnode;
    let branches = [("upper", upper), ("lower", lower)];
    let mut mounted = union(&[], &branches).unwrap();
    mounted.root().rmdir(&server, name("hidden")).unwrap();
    write(&hidden, "inner", 10, 1);
    told.set(0, &[("operations", "mknod:rmdir"), ("error", "EIO")]);
    mounted.root().mkdir(&server, name("hidden"), 0o755).unwrap();
    told.off();
    for again in [false, true] {
        if again {
            drop(mounted);
            mounted = union(&[], &branches).unwrap();
        }
        let found = mounted.root().lookup(&server, name("hidden")).unwrap().vnode;
        assert_eq!(common::list(&found, &server), [""; 0], "again {again}");
    }
}

/// A union of four branches where a directory was moved that a file ends, in the third, and where another file has its
/// name.
fn with_ending_branch(branches: &[FileSystemRef]) -> FileSystemRef {
    let server = Caller::server();
    let [visible_state, end, hidden] = [1, 2, 3].map(|index| branches[index].root());
    write(&visible_state.mkdir(&server, name("place"), 0o755).unwrap().vnode, "seen", 10, 1);
    write(&end, "place", 10, 2);
    write(&hidden.mkdir(&server, name("place"), 0o755).unwrap().vnode, "hidden", 10, 3);
    let union = with_delete_all(branches);
    let root = union.root();
    root.rename(&server, name("place"), &root, name("moved"), RenameMode::Replace).unwrap();
    ["place", "new"].iter().for_each(|file| drop(write(&root, file, 10, 4)));
    union
}

fn with_delete_all(branches: &[FileSystemRef]) -> FileSystemRef {
    use BranchMode::{ReadOnly, ReadWrite};
    let modes = [ReadWrite, ReadOnly, ReadWrite, ReadOnly];
    let branch = |(index, mode)| {
        let file_system: &FileSystemRef = &branches[index];
        Branch {
            file_system: file_system.clone(),
            mode: Some(mode),
            label: format!("branch {index}"),
            minimum_free: None,
        }
    };
    let branches = modes.into_iter().enumerate().map(branch).collect();
    plyfs_layers::kind("union").unwrap().join(&[("delete".to_owned(), "all".to_owned())], branches, None).unwrap()
}

#[test]
fn moved_directory_still_ends_after_removal_with_failed_query() {
    type RemoveOperation = fn(&VnodeRef) -> Result<(), Errno>;
    let server = Caller::server();
    let removals: [RemoveOperation; 3] = [
        |root| root.unlink(&Caller::server(), name("place")),
        |root| root.rename(&Caller::server(), name("place"), root, name("other"), RenameMode::Replace).map(drop),
        |root| root.rename(&Caller::server(), name("new"), root, name("place"), RenameMode::Replace).map(drop),
    ];
    for (number, removal) in removals.iter().enumerate() {
        for (failing, times) in [1, 2, 3].into_iter().flat_map(|branch| [(branch, "1"), (branch, "100")]) {
            for from in 1.. {
                let (told, branches): (Vec<_>, Vec<_>) = (0..4).map(|_| faulty()).unzip();
                let union = with_ending_branch(&branches);
                told[failing].set(0, &[("error", "EIO"), ("from", &format!("{from}")), ("times", times)]);
                let answer = removal(&union.root());
                let is_past = told[failing].count(0, "faults") == 0;
                told[failing].off();
                drop(union);
                let moved = with_delete_all(&branches).root().lookup(&server, name("moved")).unwrap().vnode;
                let what = format!("removal {number}, {times} calls of branch {failing} from {from} on: {answer:?}");
                assert_eq!(common::list(&moved, &server), ["seen"], "{what}");
                if is_past {
                    break;
                }
            }
        }
    }
}

#[test]
fn data_lookup_error_during_copy_is_reported() {
    let server = Caller::server();
    for from in 1.. {
        let (told, lower) = faulty();
        let file = write(&lower.root(), "file", 5000, 1);
        let whole = SetAttributes { size: Some(100_000), ..SetAttributes::default() };
        file.setattr(&server, &whole).unwrap();
        let union = union(&[], &[("upper", memory()), ("lower", lower)]).unwrap();
        let found = union.root().lookup(&server, name("file")).unwrap().vnode;
        told.set(0, &[("operations", "lseek"), ("error", "EDQUOT"), ("from", &format!("{from}")), ("times", "1")]);
        let opened = found.open(&server, OpenFlags::WRITE);
        if told.count(0, "faults") == 0 {
            assert!(from > 4, "data, a hole, no data, a hole, and no data again are looked for: {from}");
            opened.unwrap();
            break;
        }
        assert_eq!(opened.err(), Some(Errno::EDQUOT), "look {from}");
        told.off();
        found.open(&server, OpenFlags::WRITE).unwrap();
    }
}

/// A rename that leaves a device with the number of a whiteout, in a branch that has no space for one of its calls: it is
/// done, or nothing has changed.
#[test]
fn rename_without_space_for_its_whiteout_changes_nothing() {
    let space = "create:mknod:mkdir:symlink:link:setxattr:write:tmpfile";
    let (mut count, mut failed) = (0, 0);
    for (format, is_lower, replaces) in ["names", "overlay"].into_iter().flat_map(|format| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(lower, replaces)| (format, lower, replaces))
    }) {
        for call in 1.. {
            let (told, below) = faulty();
            let (server, lower) = (Caller::server(), memory());
            if is_lower {
                write(&lower.root(), "source", 40, 1);
            }
            let branches = [("branch", below), ("lower", lower)];
            let running = union(&[("whiteouts", format)], &branches).unwrap();
            let root = running.root();
            write(&root, "source", 30, 2);
            if replaces {
                write(&root, "target", 20, 3);
            }
            let before = state_of(&root);
            told.set(0, &[("from", &call.to_string()), ("times", "1"), ("operations", space), ("error", "ENOSPC")]);
            let renamed = root.rename(&server, name("source"), &root, name("target"), RenameMode::Whiteout);
            let is_last = told.count(0, "faults") == 0;
            told.off();
            let what = format!("{format}, below it {is_lower}, replaces {replaces}, call {call}: {renamed:?}");
            match renamed {
                Ok(()) => {
                    let left = root.lookup(&server, name("source")).unwrap().attributes;
                    assert_eq!((left.kind, left.rdev), (FileKind::CharacterDevice, Device::default()), "{what}");
                    assert_eq!(root.lookup(&server, name("target")).unwrap().attributes.size, 30, "{what}");
                }
                Err(error) => {
                    failed += 1;
                    assert_eq!(error, Errno::ENOSPC, "{what}");
                    assert!(state_of(&root) == before, "{what}: {}", difference(&before, &state_of(&root)));
                }
            }
            let state = state_of(&root);
            drop((root, running));
            let again = union(&[("whiteouts", format)], &branches).unwrap();
            assert!(state_of(&again.root()) == state, "{what}: {}", difference(&state, &state_of(&again.root())));
            if is_last {
                break;
            }
            count += 1;
        }
    }
    println!("{count} calls without space, {failed} of them failed the rename");
    assert!(failed > 0 && count > failed);
}
