//! Random operations of several users over a union and over `mem` side by side: each step answers the same on both.
//!
//! Now and then the union is ended and begun again with an empty branch on top, and what was written so far read-only below
//! it: nothing that users see may change by that. `MODEL_SEED` replays a failure, `MODEL_STEPS` says how many steps are made.

mod common;
#[path = "../../bases/tests/model/operation.rs"]
mod operation;
#[path = "../../bases/tests/model/side.rs"]
mod side;

use common::{Shared, memory, small_memory};
use fastrand::Rng;
use plyfs_layers::union::CheckOptions;
use plyfs_layers::{Branch, BranchMode};
use vnode::{Attributes, Caller, FileSystemRef, SetAttributes, XattrMode};

use BranchMode::{NoCreate, ReadOnly, ReadWrite};
use operation::{Action, Operation};
use side::Side;

/// Options that are chosen from at random.
const OPTIONS: &[(&str, &[&str])] = &[
    ("delete", &["whiteout", "all"]),
    ("whiteouts", &["names", "overlay"]),
    (
        "create",
        &[
            "first",
            "leftmost",
            "most-free",
            "least-used",
            "random",
            "round-robin",
            "newest",
            "existing-path",
            "existing-path-random",
            "shared-path-weighted-random",
        ],
    ),
    ("when-full", &["fail", "move"]),
    ("metacopy", &["on", "on", "off"]),
];

const STEPS: usize = 6000;
/// How many steps are made between two new branches, and how many branches there are at most.
const STEPS_PER_BRANCH: usize = 200;
const MAX_BRANCHES: usize = 6;
/// How many operations before a difference are shown.
const SHOWN_OPERATIONS: usize = 4000;

#[test]
fn union_behaves_as_one_file_system() {
    run(|_| UnionPlan { modes: vec![ReadWrite], options: Vec::new(), mixes: false, room: None });
}

#[test]
fn union_with_metacopy_behaves_as_one_file_system() {
    run(|random| {
        let formats = ["names", "overlay"];
        let options = [("metacopy", "on"), ("whiteouts", formats[random.usize(..2)])];
        let options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        UnionPlan { modes: vec![ReadWrite], options, mixes: false, room: None }
    });
}

#[test]
fn union_with_foreign_copies_behaves_as_one_file_system() {
    run(|random| {
        let mut options = random_options(random);
        let copies: &[(&str, &str)] = match random.bool() {
            true => &[("copyup", "current")],
            false => &[("copyup", "const"), ("copyup-owner", "1002:1003"), ("copyup-mode", "0640")],
        };
        options.extend(copies.iter().map(|(key, value)| (key.to_string(), value.to_string())));
        UnionPlan { modes: vec![ReadWrite], options, mixes: random.bool(), room: None }
    });
}

#[test]
fn union_that_leaves_full_branches_behaves_as_one_file_system() {
    run(|random| {
        let mut options = random_options(random);
        options.retain(|(key, _)| key != "when-full" && key != "create");
        options.push(("when-full".to_owned(), "move".to_owned()));
        options.push(("create".to_owned(), "round-robin".to_owned()));
        UnionPlan { modes: vec![ReadWrite, ReadWrite], options, mixes: true, room: Some(random.u64(1..6) << 12) }
    });
}

#[test]
fn union_with_random_options_behaves_as_one_file_system() {
    run(|random| {
        let mut modes = vec![ReadWrite];
        modes.extend((0..random.usize(..4)).map(|_| [ReadWrite, ReadOnly, NoCreate][random.usize(..3)]));
        UnionPlan { modes, options: random_options(random), mixes: true, room: None }
    });
}

/// The branches that a run begins with, and how they are joined.
#[derive(Debug)]
struct UnionPlan {
    modes: Vec<BranchMode>,
    options: Vec<(String, String)>,
    /// Whether a branch below a new one may stay writable.
    mixes: bool,
    /// The last branch has room for so many bytes only.
    room: Option<u64>,
}

impl UnionPlan {
    /// Whether copies may have other owners and permissions than the originals: then these are not compared, and all is
    /// done by the superuser, to whom they make no difference.
    fn is_for_others(&self) -> bool {
        self.options.iter().any(|(key, value)| key == "copyup" && value != "owner")
    }
}

fn random_options(random: &mut Rng) -> Vec<(String, String)> {
    let mut options = Vec::new();
    for (key, values) in OPTIONS {
        if let Some(value) = values.get(random.usize(..=values.len())) {
            options.push((key.to_string(), value.to_string()));
        }
    }
    options
}

fn run(plan: impl FnOnce(&mut Rng) -> UnionPlan) {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let seed = number("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let steps = number("MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    let mut random = Rng::with_seed(seed);
    let plan = plan(&mut random);
    let for_others = plan.is_for_others();
    let comparable = |text: &str| if for_others { without_rights(&comparable(text)) } else { comparable(text) };
    let UnionPlan { modes, options, mixes, room } = plan;
    println!("MODEL_SEED={seed} MODEL_STEPS={steps} {modes:?} {options:?}");
    let plain = memory();
    let mut model = Side::new(Box::new(Shared(plain.clone())), false);
    let mut branches: Vec<(FileSystemRef, BranchMode)> = modes.into_iter().map(|mode| (memory(), mode)).collect();
    if let Some(room) = room {
        branches.last_mut().expect("there is a branch").0 = small_memory(room);
    }
    let most = branches.len() + MAX_BRANCHES - 1;
    let mut union = Side::new(Box::new(Shared(join(&branches, &options))), false);
    let mut done: Vec<Operation> = Vec::new();

    for step in 0..steps {
        if step % STEPS_PER_BRANCH == STEPS_PER_BRANCH - 1 && branches.len() < most {
            drop(union);
            check(&branches, &format!("MODEL_SEED={seed}, step {step}"));
            model = Side::new(Box::new(Shared(plain.clone())), false);
            let below = if mixes && random.bool() { branches[0].1 } else { ReadOnly };
            branches[0].1 = below;
            branches.insert(0, (above(&branches[0].0), ReadWrite));
            union = Side::new(Box::new(Shared(join(&branches, &options))), false);
            compare(
                &comparable,
                &model.tree(),
                &union.tree(),
                &format!("MODEL_SEED={seed}, step {step}, after a new branch"),
            );
        }
        let mut operation = Operation::random(&mut random);
        if for_others {
            operation.user = 0;
        }
        if !is_comparable(&operation) || (for_others && is_about_rights(&operation)) {
            continue;
        }
        let found = comparable(&union.apply(&operation));
        if mixes && found.starts_with("EXDEV") {
            // It is told to copy, as documented; nothing has changed.
            continue;
        }
        if room.is_some() && found.starts_with("ENOSPC") {
            // A file with several names stays in a full branch; nothing has changed but what `apply` does itself.
            if let Action::Allocate { slot, .. } = operation.action {
                model.count_as_changed(slot);
            }
            continue;
        }
        if let (Some(_), Action::Write { length, .. }) = (room, &mut operation.action) {
            // There was room for so much.
            *length = written(&found).unwrap_or(*length).min(*length);
        }
        let expected = comparable(&model.apply(&operation));
        done.push(operation);
        if number("MODEL_TREES").is_some_and(|from| step as u64 >= from) {
            println!("step {step}: {:?}", done.last().unwrap());
            if std::env::var("MODEL_DUMP").is_ok() && number("MODEL_DUMP") == Some(step as u64) {
                for (index, (branch, mode)) in branches.iter().enumerate() {
                    for line in Side::new(Box::new(Shared(branch.clone())), false).tree() {
                        println!("BEFORE {index} {mode}{line}");
                    }
                }
            }
            compare(&comparable, &model.tree(), &union.tree(), &format!("step {step}"));
        }
        if expected != found {
            if std::env::var("MODEL_DUMP").is_ok() {
                for (index, (branch, mode)) in branches.iter().enumerate() {
                    for line in Side::new(Box::new(Shared(branch.clone())), false).tree() {
                        println!("branch {index} {mode}{line}");
                    }
                }
            }
            let first = done.len().saturating_sub(SHOWN_OPERATIONS);
            let shown: Vec<String> = done[first..].iter().map(|operation| format!("  {operation:?}")).collect();
            let modes: Vec<_> = branches.iter().map(|(_, mode)| mode).collect();
            panic!(
                "MODEL_SEED={seed}, step {step}, {modes:?} {options:?}:\n{}\nmem: {expected}\nunion: {found}",
                shown.join("\n")
            );
        }
    }
    compare(&comparable, &model.tree(), &union.tree(), &format!("MODEL_SEED={seed}, at the end"));
    drop(union);
    check(&branches, &format!("MODEL_SEED={seed}, at the end"));
}

/// Nothing is wrong in the branches of a union that has ended.
fn check(branches: &[(FileSystemRef, BranchMode)], when: &str) {
    let mut findings = Vec::new();
    let report = &mut |finding| findings.push(finding);
    plyfs_layers::union::check(named(branches), &CheckOptions::default(), report).unwrap();
    assert_eq!(findings, [], "{when}");
}

fn compare(comparable: &dyn Fn(&str) -> String, model: &[String], union: &[String], when: &str) {
    let (model, union): (Vec<_>, Vec<_>) =
        (model.iter().map(|line| comparable(line)).collect(), union.iter().map(|line| comparable(line)).collect());
    if let Some((expected, found)) = model.iter().zip(&union).find(|(expected, found)| expected != found) {
        panic!("{when}:\nmem: {expected}\nunion: {found}");
    }
    assert_eq!(model.len(), union.len(), "{when}");
}

/// An empty branch whose root is as that of another.
fn above(branch: &FileSystemRef) -> FileSystemRef {
    let (server, new) = (Caller::server(), memory());
    let (from, to) = (branch.root(), new.root());
    let Attributes { mode, uid, gid, .. } = from.getattr(&server).unwrap();
    let changes = SetAttributes { mode: Some(mode), uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
    for name in from.listxattr(&server).unwrap().split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        // A capability of no bytes can be set but not read.
        let value = from.getxattr(&server, name).unwrap_or_default();
        to.setxattr(&server, name, &value, XattrMode::Set).unwrap();
    }
    to.setattr(&server, &changes).unwrap();
    new
}

/// The branches as a union takes them.
fn named(branches: &[(FileSystemRef, BranchMode)]) -> Vec<Branch> {
    let branch = |(index, (file_system, mode)): (usize, &(FileSystemRef, BranchMode))| Branch {
        file_system: file_system.clone(),
        mode: Some(*mode),
        label: format!("branch {}", branches.len() - index),
        minimum_free: None,
    };
    branches.iter().enumerate().map(branch).collect()
}

/// The union of the branches.
fn join(branches: &[(FileSystemRef, BranchMode)], options: &[(String, String)]) -> FileSystemRef {
    plyfs_layers::kind("union").unwrap().join(options, named(branches), None).unwrap()
}

/// Whether a union can do the same. What is held by its vnode would have to be let go for a new branch.
fn is_comparable(operation: &Operation) -> bool {
    !matches!(
        operation.action,
        Action::Hold { .. }
            // Between branches it is done by whoever asks for it.
            | Action::Copy { .. }
            | Action::LinkHeld { .. }
            | Action::InHeld { .. }
    )
}

/// How many bytes a write has written by its own words.
fn written(found: &str) -> Option<usize> {
    found.lines().next()?.strip_suffix(" bytes")?.parse().ok()
}

/// Whether it depends on permissions, or changes those that copies for others do not have.
fn is_about_rights(operation: &Operation) -> bool {
    let decides = |name: &str| name.starts_with("system.") || name.starts_with("security.");
    match &operation.action {
        Action::Access { .. } => true,
        Action::SetXattr { name, .. } | Action::GetXattr { name } | Action::RemoveXattr { name } => decides(name),
        _ => false,
    }
}

/// Without owners and permissions: KIND MODE nlink COUNT ids OWNER GROUP …
fn without_rights(text: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        if let Some(at) = words.iter().position(|word| *word == "ids") {
            words.drain(at..words.len().min(at + 3));
            // Without the count of a directory, the ids follow its mode.
            let mode = if words[at - 2] == "nlink" { at - 3 } else { at - 1 };
            words.remove(mode);
        }
        words.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Without the link counts of directories, which nobody counts for a directory of several branches.
fn comparable(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(" nlink ") {
        Some((before, after)) if before.contains("Directory") => {
            let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
            format!("{before} {rest}")
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
