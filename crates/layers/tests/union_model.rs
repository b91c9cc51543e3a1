//! Random operations of several users over a union and over `mem` side by side: each step answers the same on both.
//!
//! Now and then the union is ended and begun again with an empty branch on top, and what was written so far read-only below
//! it: nothing that users see may change by that. `MODEL_SEED` replays a failure, `MODEL_STEPS` says how many steps are made.

mod common;
#[path = "../../bases/tests/model/operation.rs"]
mod operation;
#[path = "../../bases/tests/model/side.rs"]
mod side;

use common::memory;
use fastrand::Rng;
use layers::{Branch, BranchMode, union::UnionFileSystem};
use vnode::{Attributes, Caller, FileSystemRef, RenameMode, SetAttributes, XattrMode};

use operation::{Action, Operation};
use side::Side;

const STEPS: usize = 6000;
/// How many steps are made between two new branches, and how many branches there are at most.
const STEPS_OF_A_BRANCH: usize = 200;
const BRANCHES_MAX: usize = 6;
/// How many operations before a difference are shown.
const SHOWN: usize = 4000;

#[test]
fn a_union_does_as_one_file_system() {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let seed = number("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let steps = number("MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    println!("MODEL_SEED={seed} MODEL_STEPS={steps}");
    let mut random = Rng::with_seed(seed);
    let plain = memory();
    let mut model = Side::new(Box::new(Shared(plain.clone())), false);
    let mut branches = vec![memory()];
    let mut union = Side::new(Box::new(join(&branches)), false);
    let mut done: Vec<Operation> = Vec::new();
    for step in 0..steps {
        if step % STEPS_OF_A_BRANCH == STEPS_OF_A_BRANCH - 1 && branches.len() < BRANCHES_MAX {
            drop(union);
            model = Side::new(Box::new(Shared(plain.clone())), false);
            branches.insert(0, above(&branches[0]));
            union = Side::new(Box::new(join(&branches)), false);
            compare(&model.tree(), &union.tree(), &format!("MODEL_SEED={seed}, step {step}, after a new branch"));
        }
        let operation = Operation::random(&mut random);
        if !is_comparable(&operation) {
            continue;
        }
        let expected = comparable(&model.apply(&operation));
        let found = comparable(&union.apply(&operation));
        done.push(operation);
        if expected != found {
            let first = done.len().saturating_sub(SHOWN);
            let shown: Vec<String> = done[first..].iter().map(|operation| format!("  {operation:?}")).collect();
            panic!("MODEL_SEED={seed}, step {step}:\n{}\nmem: {expected}\nunion: {found}", shown.join("\n"));
        }
    }
    compare(&model.tree(), &union.tree(), &format!("MODEL_SEED={seed}, at the end"));
}

fn compare(model: &[String], union: &[String], when: &str) {
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
        to.setxattr(&server, name, &from.getxattr(&server, name).unwrap(), XattrMode::Set).unwrap();
    }
    to.setattr(&server, &changes).unwrap();
    new
}

/// The branches, the first to be written.
fn join(branches: &[FileSystemRef]) -> UnionFileSystem {
    let branch = |(index, file_system): (usize, &FileSystemRef)| Branch {
        file_system: file_system.clone(),
        mode: Some(if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly }),
        label: format!("branch {}", branches.len() - index),
    };
    UnionFileSystem::new(branches.iter().enumerate().map(branch).collect())
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
            | Action::Rename { mode: RenameMode::Whiteout | RenameMode::WhiteoutNoReplace, .. }
    )
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

/// A shared file system, to be owned.
struct Shared(FileSystemRef);

impl vnode::FileSystem for Shared {
    fn root(&self) -> vnode::VnodeRef {
        self.0.root()
    }

    fn resolve(&self, handle: &vnode::Handle) -> vnode::Result<vnode::VnodeRef> {
        self.0.resolve(handle)
    }

    fn properties(&self) -> vnode::Properties {
        self.0.properties()
    }

    fn describe(&self) -> Vec<vnode::Description> {
        self.0.describe()
    }
}
