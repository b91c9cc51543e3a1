//! Every call to the file systems below each stack of the matrix fails in turn: each operation over each stack is one counted
//! test.
//!
//! Stacks of one layer are tested with every operation; of stacks with more layers, each operation is tested on some,
//! with some of the calls if there are many. `FAULTS_SHARE=8` runs one in eight of these tests, and those of each layer in Rust
//! alone, which are quick.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bases::mem::{MemoryFileSystem, Options};
use conformance::faults::{OPERATIONS, Operation, Stack, counts_are_short, each_call_fails, no_data_come};
use libtest_mimic::{Arguments, Failed, Trial};
use suite::matrix::{self, Facilities};
use suite::plan::{RunKind, RunPlan};
use suite::{Recipe, TestDirectory, timed_trial, with_timeout};
use vnode::FileSystemRef;

/// Number of stacks of two layers on which each operation is tested.
const STACKS_PER_OPERATION: usize = 8;
/// Maximum number of lower calls that fail per operation on a stack of two layers.
const MAX_CALLS: usize = 60;
/// Number of stacks of two layers by which the selection advances from one operation to the next.
const STRIDE: usize = 31;

/// Number of calls that have failed.
static FAILED_CALLS: AtomicUsize = AtomicUsize::new(0);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    let conclusion = libtest_mimic::run(&arguments, trials(&arguments));
    println!("{} calls below failed in turn", FAILED_CALLS.load(Ordering::Relaxed));
    conclusion.exit_code()
}

/// A stack of the matrix over file systems in memory with injected faults.
struct FaultyStack {
    title: String,
    recipe: Recipe,
    width: usize,
    spreads: bool,
    _directory: TestDirectory,
}

impl FaultyStack {
    fn new(plan: &RunPlan) -> Result<Self, Box<dyn std::error::Error>> {
        let test_directory = TestDirectory::plain()?;
        let (recipe, _) = plan.recipe(&test_directory)?;
        let union = plan.union.as_ref();
        Ok(Self {
            title: title(plan),
            recipe,
            width: union.map_or(1, |union| union.modes.len()),
            spreads: union.is_some_and(|union| union.options.iter().any(|(key, _)| *key == "create")),
            _directory: test_directory,
        })
    }
}

impl Stack for FaultyStack {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn width(&self) -> usize {
        self.width
    }

    fn below(&self) -> FileSystemRef {
        let options = Options { size: 1 << 30, inodes: 100_000, mode: 0o777, uid: 0, gid: 0 };
        let memory = Arc::new(MemoryFileSystem::new(options));
        let faulty = layers::kind("faulty").expect("the layer is there").stack(&[], memory);
        faulty.expect("the layer needs no options")
    }

    fn build(&self, below: Vec<FileSystemRef>) -> FileSystemRef {
        self.recipe.build_over(below).unwrap_or_else(|error| panic!("{}: {error}", self.title))
    }

    fn build_writable(&self, below: Vec<FileSystemRef>) -> FileSystemRef {
        self.recipe.build_writable_over(below).unwrap_or_else(|error| panic!("{}: {error}", self.title))
    }

    fn spreads(&self) -> bool {
        self.spreads
    }
}

/// Returns the layers, with the branches that the first joins.
fn title(plan: &RunPlan) -> String {
    let layers = plan.layers.join("|");
    match &plan.union {
        Some(branches) => layers.replacen(plan.layers[0], &format!("{} {branches}", plan.layers[0]), 1),
        None => layers,
    }
}

/// Returns one of these runs per combination of layers: runs also differ in other properties.
fn stacks(plans: Vec<RunPlan>, titles: &mut BTreeSet<String>) -> Vec<RunPlan> {
    // A mirror's branches have to be the same, and what is prepared here is in some: its own tests make its branches fail.
    let is_tried =
        |plan: &RunPlan| plan.run_kind != RunKind::Small && !plan.layers.is_empty() && plan.layers[0] != "mirror";
    let is_new = |plan: &RunPlan| is_tried(plan) && titles.insert(title(plan));
    plans.into_iter().filter(is_new).collect()
}

/// Returns every stack with each operation selected for it.
fn selected_runs() -> Vec<(RunPlan, &'static Operation)> {
    let facilities = Facilities { is_root: true, can_mount: false, has_uring: false };
    let mut titles = BTreeSet::new();
    let single = stacks(matrix::single(facilities), &mut titles);
    let double = stacks(matrix::double(facilities), &mut titles);
    let with_each = |plan: &RunPlan| OPERATIONS.iter().map(|operation| (plan.clone(), operation)).collect::<Vec<_>>();
    let mut pairs: Vec<_> = single.iter().flat_map(with_each).collect();
    for (index, operation) in OPERATIONS.iter().enumerate() {
        let picks = (0..STACKS_PER_OPERATION).map(|pick| (index * STACKS_PER_OPERATION + pick) * STRIDE % double.len());
        pairs.extend(picks.map(|pick| (double[pick].clone(), operation)));
    }
    let share: usize = std::env::var("FAULTS_SHARE").map_or(1, |share| share.parse().expect("FAULTS_SHARE=NUMBER"));
    let is_quick =
        |plan: &RunPlan| plan.union.is_none() && plan.layers.len() == 1 && !plan.layers[0].ends_with(".fist");
    let is_selected = |(index, (plan, _)): &(usize, (RunPlan, _))| index % share == 0 || is_quick(plan);
    pairs.into_iter().enumerate().filter(is_selected).map(|(_, pair)| pair).collect()
}

fn trials(arguments: &Arguments) -> Vec<Trial> {
    let trial = |(plan, operation): (RunPlan, &'static Operation)| {
        let name = format!("{}: {}", title(&plan), operation.name);
        timed_trial(arguments, name.clone(), move || with_timeout(&name, || test(&plan, operation)))
    };
    selected_runs().into_iter().map(trial).collect()
}

fn test(plan: &RunPlan, operation: &Operation) -> Result<(), Failed> {
    let stack = FaultyStack::new(plan).map_err(|error| error.to_string())?;
    let most = if plan.layers.len() > 1 { MAX_CALLS } else { usize::MAX };
    FAILED_CALLS.fetch_add(each_call_fails(&stack, operation, most)?, Ordering::Relaxed);
    counts_are_short(&stack, operation)?;
    Ok(no_data_come(&stack, operation)?)
}
