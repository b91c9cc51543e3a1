//! The matrix: each base, without layers, with each layer and with two, by its vnodes and through mounts with either transport.

use std::process::{Command, Stdio};

use frontends::fuse::Features;
use layers::BranchMode::{self, NoCreate, ReadOnly, ReadWrite};

use crate::pairs::covering;
use crate::plan::{Layout, Plan, Sort, Union, VIEW};
use crate::reach::Reach;

/// FiST programs that change nothing, programs that change names, and programs that change data.
const PROGRAMS: [&str; 4] = ["names.fist", "pages.fist", "rules.fist", "sizes.fist"];

const DISTRIBUTED: (&str, &str) = ("create", "round-robin");
const MOST_FREE: (&str, &str) = ("create", "most-free");
const ALL: (&str, &str) = ("delete", "all");
const OVERLAY: (&str, &str) = ("whiteouts", "overlay");

/// The test facilities of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Several users and mount(2) are available.
    pub is_root: bool,
    /// Mounts through /dev/fuse are possible.
    pub can_mount: bool,
    /// Mounts through io_uring are possible.
    pub has_uring: bool,
}

impl Means {
    /// Returns the facilities of this process. Whether the kernel's switch for io_uring is on makes no difference: only its
    /// existence matters.
    pub fn here() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let opens = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
        let can_mount = opens && (is_root || has_fusermount());
        Self { is_root, can_mount, has_uring: can_mount && std::fs::exists(URING_SWITCH).unwrap_or(false) }
    }

    fn reaches(self) -> Vec<Reach> {
        let all = [(Reach::Tree, true), (Reach::Device, self.can_mount), (Reach::Uring, self.has_uring)];
        all.into_iter().filter_map(|(reach, is_possible)| is_possible.then_some(reach)).collect()
    }
}

const URING_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Returns the transport of requests for mounts that this process makes, according to the kernel's switch.
pub fn transport() -> Reach {
    match std::fs::read_to_string(URING_SWITCH) {
        Ok(text) if text.trim() == "Y" => Reach::Uring,
        _ => Reach::Device,
    }
}

/// Returns whether users without privileges can mount.
fn has_fusermount() -> bool {
    Command::new("fusermount3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns the runs of a base with at most one layer.
pub fn single(means: Means) -> Vec<Plan> {
    let mut plans = Vec::new();
    for reach in means.reaches() {
        for in_memory in [true, false] {
            // By its vnodes, memory of a process without privileges equals that of any other.
            if !(in_memory && !means.is_root && reach == Reach::Tree) {
                plans.extend(over_base(means, reach, in_memory));
            }
        }
    }
    plans
}

fn over_base(means: Means, reach: Reach, in_memory: bool) -> Vec<Plan> {
    let is_root = means.is_root;
    let plan = |sort, layers: &[&'static str]| Plan {
        reach,
        sort,
        in_memory,
        union: None,
        layers: layers.to_vec(),
        is_root,
        withheld: None,
    };
    let mut plans = vec![plan(Sort::Ordinary, &[])];
    if !in_memory {
        for union in unions(reach, is_root) {
            plans.push(Plan { union: Some(union), ..plan(Sort::Ordinary, &["union"]) });
        }
    }
    for layer in kinds() {
        // The mounting user makes little difference to layers.
        if is_root || !reach.is_mount() || layer == "audit" {
            plans.push(plan(sort(&[layer]), &[layer]));
        }
    }
    if is_root {
        plans.extend(PROGRAMS.map(|program| plan(Sort::Ordinary, &[program])));
        plans.extend([plan(Sort::Small, &[]), plan(Sort::Small, &["rot13"])]);
    }
    plans
}

/// Returns the names of the layers on one file system.
fn kinds() -> impl Iterator<Item = &'static str> {
    layers::kinds().iter().filter(|kind| !kind.joins_branches()).map(|kind| kind.name)
}

fn sort(layers: &[&str]) -> Sort {
    if layers.contains(&"readonly") { Sort::ReadOnly } else { Sort::Ordinary }
}

/// Returns unions of 1 to 16 branches, with new objects in one branch or distributed over several (DIST), or with directories
/// in all branches (DUP), with either mode of deletion and either form of whiteouts. All of them by their vnodes, some mounted.
fn unions(reach: Reach, is_root: bool) -> Vec<Union> {
    use Layout::{AsMade, Duplicated};
    let mut unions = vec![Union::plain(&[ReadWrite]), Union::plain(&[ReadWrite, ReadOnly, ReadOnly, ReadOnly])];
    // For a user without privileges, writes differ, but not the effects of many branches.
    let modes = [ReadWrite, ReadWrite, ReadOnly, NoCreate];
    unions.push(Union::of(4, &modes, AsMade, &[DISTRIBUTED, ALL, OVERLAY]));
    if !is_root {
        return unions;
    }
    unions.push(Union::of(2, &[ReadWrite, ReadOnly], Duplicated, &[OVERLAY]));
    unions.push(Union::of(16, &[ReadWrite], AsMade, &[DISTRIBUTED]));
    if reach.is_mount() {
        unions.push(Union::of(2, &[ReadWrite, ReadOnly], AsMade, &[VIEW]));
        return unions;
    }
    unions.push(Union::of(8, &[ReadWrite, ReadOnly, ReadWrite, NoCreate], Duplicated, &[ALL, OVERLAY]));
    unions.push(Union::of(1, &[ReadWrite], AsMade, &[ALL, OVERLAY]));
    unions.push(Union::of(2, &[ReadWrite], AsMade, &[DISTRIBUTED]));
    unions.push(Union::of(4, &[ReadWrite], Duplicated, &[DISTRIBUTED, ALL]));
    unions.push(Union::of(8, &[ReadWrite, ReadWrite, ReadOnly], AsMade, &[MOST_FREE, OVERLAY]));
    unions.push(Union::of(16, &[ReadWrite, ReadOnly], Duplicated, &[ALL]));
    unions
}

/// Returns runs of stacks of up to two layers in which every two values of different factors occur together at least once: the
/// upper layer, the lower layer, the base with its number of branches, the way to access it, and the options of a union.
pub fn double(means: Means) -> Vec<Plan> {
    if !means.is_root {
        return Vec::new();
    }
    let layers: Vec<Option<&'static str>> = std::iter::once(None).chain(kinds().chain(PROGRAMS).map(Some)).collect();
    let reaches = means.reaches();
    let factors = [
        layers.len(),
        layers.len(),
        BASES.len(),
        reaches.len(),
        MODES.len(),
        CREATE.len(),
        DELETE.len(),
        WHITEOUTS.len(),
        LAYOUTS.len(),
    ];
    let plan = |row: Vec<usize>| {
        let [lower, upper, base, reach, modes, create, delete, whiteouts, layout] = row[..] else {
            unreachable!("a row has a value for each factor")
        };
        let options = [CREATE[create], DELETE[delete], WHITEOUTS[whiteouts]];
        let options: Vec<_> = options.into_iter().flatten().collect();

        let branches = BASES[base].branches();
        let members = [branches.is_some().then_some("union"), layers[lower], layers[upper]];
        let members: Vec<_> = members.into_iter().flatten().collect();
        // Directories created directly in the branches have unconverted names there.
        let layout = match members.iter().any(|layer| CHANGES_NAMES.contains(layer)) {
            true => Layout::AsMade,
            false => LAYOUTS[layout],
        };
        let union = branches.map(|count| Union::of(count, MODES[modes], layout, &options));
        let sort = sort(&members);
        Plan {
            reach: reaches[reach],
            sort,
            in_memory: BASES[base] == Bottom::Memory,
            union,
            layers: members,
            is_root: true,
            withheld: None,
        }
    };
    covering(&factors).into_iter().map(plan).collect()
}

const CHANGES_NAMES: [&str; 2] = ["longnames", "names.fist"];

/// Returns runs as if the kernel had no passthrough: of these, every mount by root through /dev/fuse with at most one layer.
pub fn without_passthrough(single: &[Plan]) -> Vec<Plan> {
    let plans = single.iter().filter(|plan| is_roots_device_mount(plan));
    plans.map(|plan| Plan { withheld: Some("passthrough"), ..plan.clone() }).collect()
}

fn is_roots_device_mount(plan: &Plan) -> bool {
    plan.is_root && plan.reach == Reach::Device
}

/// Returns runs that each lack one of the other features of the kernel's protocol, alternating over these stacks.
pub fn without_features(single: &[Plan]) -> Vec<Plan> {
    /// Returns whether the kernel holds the data, the stack does, or there are several branches.
    fn is_concerned(plan: &Plan) -> bool {
        let is_over_branches =
            plan.union.as_ref().is_some_and(|union| union.modes.len() == 4 && union.options.is_empty());
        plan.sort == Sort::Ordinary
            && match plan.layers[..] {
                [] | ["rot13"] => true,
                ["union"] => is_over_branches,
                _ => false,
            }
    }
    let stacks = single.iter().filter(|plan| is_roots_device_mount(plan) && is_concerned(plan));
    let features = Features::all().map(|(name, _)| name).filter(|name| *name != "passthrough");
    let with_stack = features.zip(stacks.cycle());
    with_stack.map(|(name, plan)| Plan { withheld: Some(name), ..plan.clone() }).collect()
}

/// The base of a stack of two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bottom {
    Memory,
    Directory,
    Union(usize),
}

impl Bottom {
    fn branches(self) -> Option<usize> {
        if let Self::Union(count) = self { Some(count) } else { None }
    }
}

const BASES: [Bottom; 7] = {
    use Bottom::{Directory, Memory, Union};
    [Memory, Directory, Union(1), Union(2), Union(4), Union(8), Union(16)]
};

const MODES: [&[BranchMode]; 3] = [&[ReadWrite], &[ReadWrite, ReadOnly], &[ReadWrite, ReadWrite, ReadOnly, NoCreate]];

const CREATE: [Option<(&str, &str)>; 3] = [None, Some(DISTRIBUTED), Some(MOST_FREE)];

const DELETE: [Option<(&str, &str)>; 2] = [None, Some(ALL)];

const WHITEOUTS: [Option<(&str, &str)>; 2] = [None, Some(OVERLAY)];

const LAYOUTS: [Layout; 2] = [Layout::AsMade, Layout::Duplicated];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const EVERYTHING: Means = Means { is_root: true, can_mount: true, has_uring: true };

    #[test]
    fn titles_tell_runs_apart() {
        for means in [EVERYTHING, Means { is_root: false, ..EVERYTHING }] {
            let plans: Vec<Plan> = single(means).into_iter().chain(double(means)).collect();
            let titles: HashSet<String> = plans.iter().map(Plan::title).collect();
            // A union of one branch has a single mode, however many are given.
            assert!(titles.len() * 10 > plans.len() * 9, "{} titles of {} runs", titles.len(), plans.len());
        }
    }

    #[test]
    fn every_layer_lies_on_every_other_and_on_every_base() {
        let plans = double(EVERYTHING);
        let layers: Vec<&str> = kinds().chain(PROGRAMS).collect();
        for &lower in &layers {
            for &upper in &layers {
                assert!(plans.iter().any(|plan| plan.layers.ends_with(&[lower, upper])), "{upper} on {lower}");
            }
            for base in BASES {
                let is_there = plans.iter().any(|plan| {
                    let count = plan.union.as_ref().map(|union| union.modes.len());
                    plan.layers.contains(&lower)
                        && count == base.branches()
                        && plan.in_memory == (base == Bottom::Memory)
                });
                assert!(is_there, "{lower} on {base:?}");
            }
        }
    }
}
