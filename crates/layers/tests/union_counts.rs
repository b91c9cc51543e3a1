//! Link counts of a union's files after calls below it that fail while a name is taken away: they are those of the names that are
//! there.

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plyfs_layers::BranchMode;
use vnode::{Attributes, Errno, FileKind, FileSystemRef, InodeNumber, RenameMode, VnodeRef};

type Result<T, E = Errno> = std::result::Result<T, E>;

use common::unions::{at, joined_with, read, server, write};
use common::{layer, memory, name};
use conformance::faults::{Below, MOMENTS, State, difference, state_of};

/// Options of a union and the modes of its branches.
struct UnionForm {
    options: &'static [(&'static str, &'static str)],
    modes: [BranchMode; 3],
}

const UNION_FORMS: [UnionForm; 6] = {
    use BranchMode::{ReadOnly as Ro, ReadWrite as Rw};
    [
        UnionForm { options: &[], modes: [Rw, Ro, Ro] },
        UnionForm { options: &[], modes: [Rw, Rw, Ro] },
        UnionForm { options: &[("delete", "all")], modes: [Rw, Rw, Ro] },
        UnionForm { options: &[("whiteouts", "overlay")], modes: [Rw, Ro, Ro] },
        UnionForm { options: &[("whiteouts", "overlay")], modes: [Rw, Rw, Ro] },
        UnionForm { options: &[("when-full", "move")], modes: [Rw, Rw, Ro] },
    ]
};

/// A way to take a name of a file away, and what goes before it.
struct NameRemoval {
    title: &'static str,
    before: fn(&FileSystemRef),
    remove: fn(&FileSystemRef) -> Result<()>,
}

fn unlink(union: &FileSystemRef, text: &str) -> Result<()> {
    union.root().unlink(&server(), name(text))
}

fn rename(union: &FileSystemRef, from: &str, to: &str) -> Result<()> {
    union.root().rename(&server(), name(from), &union.root(), name(to), RenameMode::Replace)
}

/// Copies the file with several names, where it has to be copied.
fn change(union: &FileSystemRef) {
    write(&union.root(), "first", b"changed");
}

const NAME_REMOVALS: [NameRemoval; 8] = [
    NameRemoval { title: "unlink", before: |_| {}, remove: |union| unlink(union, "first") },
    NameRemoval { title: "unlink of the copy's name", before: change, remove: |union| unlink(union, "first") },
    NameRemoval { title: "unlink of another name", before: change, remove: |union| unlink(union, "second") },
    NameRemoval { title: "rename over it", before: |_| {}, remove: |union| rename(union, "left", "first") },
    NameRemoval { title: "rename of two over it", before: |_| {}, remove: |union| rename(union, "both", "first") },
    NameRemoval { title: "rename over the copy", before: change, remove: |union| rename(union, "left", "first") },
    NameRemoval { title: "rename over another name", before: change, remove: |union| rename(union, "both", "second") },
    NameRemoval {
        title: "rename over one on the left",
        before: |_| {},
        remove: |union| rename(union, "first", "both"),
    },
];

/// A scene and the branches that fail.
struct FailingUnion {
    told: Below,
    branches: Vec<(BranchMode, FileSystemRef)>,
    options: &'static [(&'static str, &'static str)],
    union: FileSystemRef,
}

impl FailingUnion {
    fn new(form: &UnionForm, removal: &NameRemoval) -> Self {
        let branches: Vec<_> = form.modes.iter().map(|mode| (*mode, layer("faulty", &[], memory()))).collect();
        let told = Below::of(branches.iter().map(|(_, branch)| branch.clone()).collect());
        told.off();
        let [left, right, last] = [0, 1, 2].map(|index: usize| branches[index].1.root());
        for (directory, text) in [(&left, "left"), (&left, "both"), (&right, "both"), (&right, "first"), (&last, "x")] {
            write(directory, text, text.as_bytes());
        }
        let file = right.lookup(&server(), name("first")).unwrap().vnode;
        let inner = right.mkdir(&server(), name("directory"), 0o755).unwrap().vnode;
        right.link(&server(), &file, name("second")).unwrap();
        inner.link(&server(), &file, name("third")).unwrap();
        let union = joined_with(form.options, branches.clone()).union;
        (removal.before)(&union);
        Self { told, branches, options: form.options, union }
    }

    fn remounted(self) -> Self {
        let Self { told, branches, options, union } = self;
        drop(union);
        let union = joined_with(options, branches.clone()).union;
        Self { told, branches, options, union }
    }
}

/// The files whose link count is not that of the names that are there.
fn wrong_counts(root: &VnodeRef) -> String {
    let mut seen = BTreeMap::new();
    count(root, "", &mut seen);
    let wrong = seen.values().filter(|(attributes, paths)| attributes.nlink as usize != paths.len());
    wrong.map(|(attributes, paths)| format!("{} for {paths:?} ", attributes.nlink)).collect()
}

fn count(directory: &VnodeRef, path: &str, seen: &mut BTreeMap<InodeNumber, (Attributes, Vec<String>)>) {
    for text in common::list(directory, &server()) {
        let found =
            directory.lookup(&server(), name(&text)).unwrap_or_else(|error| panic!("{text} is listed: {error}"));
        let path = format!("{path}/{text}");
        if found.attributes.kind == FileKind::Directory {
            count(&found.vnode, &path, seen);
        } else {
            seen.entry(found.attributes.ino).or_insert_with(|| (found.attributes, Vec::new())).1.push(path);
        }
    }
}

/// What users do after an error: they try again, go on with the file, and take another of its names away. Whether they can.
fn matches_either_state(
    union: &FileSystemRef,
    removal: &NameRemoval,
    answer: Result<()>,
    [before, after]: [&State; 2],
) -> bool {
    if at(union, "directory/third").is_err() || [before, after].iter().all(|state| state_of(&union.root()) != **state) {
        // A branch that has failed is asked again after a while, and what is half renamed is finished when it is next mounted.
        return false;
    }
    if answer.is_err() {
        // What was done all the same is not there any more.
        let _ = (removal.remove)(union);
    }
    for text in ["first", "second"] {
        if union.root().lookup(&server(), name(text)).is_ok() {
            write(&union.root(), text, b"later");
        }
    }
    at(union, "directory").unwrap().unlink(&server(), name("third")).unwrap();
    true
}

/// The data of all files in the root.
fn data(union: &FileSystemRef) -> Result<Vec<(String, String)>> {
    let names = ["both", "first", "left", "second"];
    let read = |text: &str| {
        read(union, text).or_else(|error| if error == Errno::ENOENT { Ok(String::new()) } else { Err(error) })
    };
    names.into_iter().map(|text| Ok((text.to_owned(), read(text)?))).collect()
}

/// One call of a branch that fails, and perhaps others after it.
struct CallFault {
    branch: usize,
    call: u64,
    moment: &'static str,
    times: &'static str,
}

/// Takes a name away while that happens: what is wrong then.
fn check_fault(
    form: &UnionForm,
    removal: &NameRemoval,
    fault: &CallFault,
    [before, after]: [&State; 2],
) -> Result<(), String> {
    let CallFault { branch, call, moment, times } = fault;
    let begin = || {
        let made = FailingUnion::new(form, removal);
        made.told.set(*branch, &[("from", &call.to_string()), ("times", times), (moment, "EIO")]);
        let answer = (removal.remove)(&made.union);
        made.told.off();
        (made, answer)
    };
    let (made, answer) = begin();
    let made = made.remounted();
    let (wrong, now) = (wrong_counts(&made.union.root()), state_of(&made.union.root()));
    // Where more than one call fails, what was done cannot always be told.
    let is_done = answer.is_ok() || (*times != "1" && now == *after);
    let expected = if is_done { after } else { before };
    if !wrong.is_empty() || now != *expected {
        return Err(format!("{answer:?}: {wrong}\n{}", difference(expected, &now)));
    }
    let (made, answer) = begin();
    if !matches_either_state(&made.union, removal, answer, [before, after]) {
        return Ok(());
    }
    let written = data(&made.union);
    let made = made.remounted();
    let (wrong, now) = (wrong_counts(&made.union.root()), data(&made.union));
    if !wrong.is_empty() || now != written {
        return Err(format!("{answer:?}, then used: {wrong}{now:?}, not {written:?}"));
    }
    Ok(())
}

#[test]
fn name_removed_despite_errors_is_not_counted() {
    let (mut problems, mut tried) = (Vec::new(), 0);
    for (number, form) in UNION_FORMS.iter().enumerate() {
        for removal in &NAME_REMOVALS {
            let whole = FailingUnion::new(form, removal);
            let before = state_of(&whole.union.root());
            whole.told.set_all(&[]);
            (removal.remove)(&whole.union).unwrap();
            let calls = [0, 1].map(|branch| whole.told.count(branch, "calls"));
            whole.told.off();
            let after = state_of(&whole.union.root());
            assert_eq!(wrong_counts(&whole.union.root()), "", "form {number}, {}", removal.title);
            for (branch, calls) in calls.into_iter().enumerate() {
                for (call, moment) in (1..=calls).flat_map(|call| MOMENTS.map(|moment| (call, moment))) {
                    for times in ["1", "2", "1000"] {
                        tried += 1;
                        let fault = CallFault { branch, call, moment, times };
                        if let Err(problem) = check_fault(form, removal, &fault, [&before, &after]) {
                            problems.push(format!(
                                "form {number}, {}: from call {call} of branch {branch} on, {moment} {times} times: {problem}",
                                removal.title
                            ));
                        }
                    }
                }
            }
        }
    }
    println!("{tried} removals");
    assert!(problems.is_empty(), "{} of {tried}:\n{}", problems.len(), problems.join("\n"));
}

/// What is left of a file that was replaced is removed as soon as that can be, not when the union is next mounted.
#[test]
fn failed_removal_after_rename_is_retried() {
    let made = FailingUnion::new(&UNION_FORMS[1], &NAME_REMOVALS[3]);
    made.told.set(1, &[("operations", "unlink"), ("error", "EIO")]);
    rename(&made.union, "left", "first").unwrap();
    made.told.off();
    let count = || at(&made.union, "second").unwrap().getattr(&server()).unwrap().nlink;
    assert_eq!(count(), 3, "it is still there, hidden");
    let end = Instant::now() + Duration::from_secs(20);
    while count() != 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
        let _ = made.union.root().mkdir(&server(), name("new"), 0o755);
    }
    assert_eq!(wrong_counts(&made.union.root()), "");
    assert_eq!(read(&made.union, "first").as_deref(), Ok("left"));
}
