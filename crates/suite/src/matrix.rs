//! The matrix: each base, without layers, with each layer and with two, by its vnodes and through mounts with either transport.

use std::process::{Command, Stdio};

use bases::fat::format::FatWidth;
use frontends::fuse::Features;
use layers::BranchMode::{self, NoCreate, ReadOnly, ReadWrite};

use crate::access::StackAccess;
use crate::pairs::covering;
use crate::plan::{Bottom, DirectoryLayout, RunKind, RunPlan, UnionConfiguration, VIEW};

/// FiST programs that change nothing, programs that change names, and programs that change data.
const PROGRAMS: [&str; 4] = ["names.fist", "pages.fist", "rules.fist", "sizes.fist"];

/// Sample layers on one file system.
const SAMPLES: [&str; 3] = ["negate", "veil", "zstd"];

const ROUND_ROBIN: (&str, &str) = ("create", "round-robin");
const MOST_FREE: (&str, &str) = ("create", "most-free");
const DELETE_ALL: (&str, &str) = ("delete", "all");
const OVERLAY_WHITEOUTS: (&str, &str) = ("whiteouts", "overlay");

/// The test facilities of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facilities {
    /// Several users and mount(2) are available.
    pub is_root: bool,
    /// Mounts through /dev/fuse are possible.
    pub can_mount: bool,
    /// Mounts through io_uring are possible.
    pub has_uring: bool,
}

impl Facilities {
    /// Returns the facilities of this process. Whether the kernel's switch for io_uring is on makes no difference: only its
    /// existence matters.
    pub fn detect() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let opens = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
        let can_mount = opens && (is_root || has_fusermount());
        Self { is_root, can_mount, has_uring: can_mount && std::fs::exists(URING_PARAMETER).unwrap_or(false) }
    }

    fn available_accesses(self) -> Vec<StackAccess> {
        let all =
            [(StackAccess::Tree, true), (StackAccess::Device, self.can_mount), (StackAccess::Uring, self.has_uring)];
        all.into_iter().filter_map(|(access, is_possible)| is_possible.then_some(access)).collect()
    }
}

const URING_PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Returns the transport of requests for mounts that this process makes, according to the kernel's switch.
pub fn transport() -> StackAccess {
    match std::fs::read_to_string(URING_PARAMETER) {
        Ok(text) if text.trim() == "Y" => StackAccess::Uring,
        _ => StackAccess::Device,
    }
}

/// Returns whether users without privileges can mount.
fn has_fusermount() -> bool {
    Command::new("fusermount3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns the runs of a base with at most one layer.
pub fn single(facilities: Facilities) -> Vec<RunPlan> {
    let mut plans = Vec::new();
    for access in facilities.available_accesses() {
        for bottom in [Bottom::Memory, Bottom::Directory] {
            // By its vnodes, memory of a process without privileges equals that of any other.
            if !(bottom == Bottom::Memory && !facilities.is_root && access == StackAccess::Tree) {
                plans.extend(over_base(facilities, access, bottom));
            }
        }
        plans.extend(over_image(facilities, access));
        if facilities.is_root {
            plans.extend(over_fat(access));
        }
    }
    plans
}

/// Returns the runs of an image, with layers that need nothing of the tree in it.
fn over_image(facilities: Facilities, access: StackAccess) -> Vec<RunPlan> {
    let is_root = facilities.is_root;
    let layers: &[&[&'static str]] = if is_root { &[&[], &["audit"], &["readonly"], &["rules.fist"]] } else { &[&[]] };
    let plan = |layers: &&[&'static str]| RunPlan {
        access,
        run_kind: RunKind::ReadOnly,
        bottom: Bottom::Image,
        union: None,
        layers: layers.to_vec(),
        is_root,
        withheld: None,
    };
    layers.iter().map(plan).collect()
}

fn over_base(facilities: Facilities, access: StackAccess, bottom: Bottom) -> Vec<RunPlan> {
    let is_root = facilities.is_root;
    let plan = |run_kind, layers: &[&'static str]| RunPlan {
        access,
        run_kind,
        bottom,
        union: None,
        layers: layers.to_vec(),
        is_root,
        withheld: None,
    };
    let mut plans = vec![plan(RunKind::Ordinary, &[])];
    if bottom == Bottom::Directory {
        for union in unions(access, is_root) {
            plans.push(RunPlan { union: Some(union), ..plan(RunKind::Ordinary, &["union"]) });
        }
    }
    if bottom == Bottom::Directory && is_root {
        let branches = UnionConfiguration::plain(&[ReadWrite, ReadWrite]);
        plans.push(RunPlan { union: Some(branches), ..plan(RunKind::Ordinary, &["mirror"]) });
    }
    for layer in kinds().chain(SAMPLES) {
        // The mounting user makes little difference to layers.
        if is_root || !access.is_mount() || layer == "audit" {
            plans.push(plan(run_kind(&[layer]), &[layer]));
        }
    }
    if is_root {
        plans.extend(PROGRAMS.map(|program| plan(RunKind::Ordinary, &[program])));
        plans.extend([plan(RunKind::Small, &[]), plan(RunKind::Small, &["rot13"])]);
    }
    plans
}

/// Returns the runs over FAT volumes of each width, and with layers that transform or watch what the base does.
fn over_fat(access: StackAccess) -> Vec<RunPlan> {
    let plan = |width, run_kind, layers: &[&'static str]| RunPlan {
        access,
        run_kind,
        bottom: Bottom::Fat(width),
        union: None,
        layers: layers.to_vec(),
        is_root: true,
        withheld: None,
    };
    let mut plans = vec![plan(FatWidth::Fat16, RunKind::Small, &[])];
    plans.extend([FatWidth::Fat12, FatWidth::Fat16, FatWidth::Fat32].map(|width| plan(width, RunKind::Ordinary, &[])));
    plans.extend(["audit", "rot13"].map(|layer| plan(FatWidth::Fat32, RunKind::Ordinary, &[layer])));
    plans.push(plan(FatWidth::Fat16, RunKind::ReadOnly, &["readonly"]));
    plans
}

/// Returns the names of the layers on one file system.
fn kinds() -> impl Iterator<Item = &'static str> {
    layers::kinds().iter().filter(|kind| !kind.joins_branches()).map(|kind| kind.name)
}

fn run_kind(layers: &[&str]) -> RunKind {
    if layers.contains(&"readonly") { RunKind::ReadOnly } else { RunKind::Ordinary }
}

/// Returns unions of 1 to 16 branches, with new objects in one branch or distributed over several (DIST), or with directories
/// in all branches (DUP), with either mode of deletion and either form of whiteouts. All of them by their vnodes, some mounted.
fn unions(access: StackAccess, is_root: bool) -> Vec<UnionConfiguration> {
    use DirectoryLayout::{AsCreated, Duplicated};
    let mut unions = vec![
        UnionConfiguration::plain(&[ReadWrite]),
        UnionConfiguration::plain(&[ReadWrite, ReadOnly, ReadOnly, ReadOnly]),
    ];
    // For a user without privileges, writes differ, but not the effects of many branches.
    let modes = [ReadWrite, ReadWrite, ReadOnly, NoCreate];
    unions.push(UnionConfiguration::of(4, &modes, AsCreated, &[ROUND_ROBIN, DELETE_ALL, OVERLAY_WHITEOUTS]));
    if !is_root {
        return unions;
    }
    unions.push(UnionConfiguration::of(2, &[ReadWrite, ReadOnly], Duplicated, &[OVERLAY_WHITEOUTS]));
    unions.push(UnionConfiguration::of(16, &[ReadWrite], AsCreated, &[ROUND_ROBIN]));
    if access.is_mount() {
        unions.push(UnionConfiguration::of(2, &[ReadWrite, ReadOnly], AsCreated, &[VIEW]));
        return unions;
    }
    unions.push(UnionConfiguration::of(
        8,
        &[ReadWrite, ReadOnly, ReadWrite, NoCreate],
        Duplicated,
        &[DELETE_ALL, OVERLAY_WHITEOUTS],
    ));
    unions.push(UnionConfiguration::of(1, &[ReadWrite], AsCreated, &[DELETE_ALL, OVERLAY_WHITEOUTS]));
    unions.push(UnionConfiguration::of(2, &[ReadWrite], AsCreated, &[ROUND_ROBIN]));
    unions.push(UnionConfiguration::of(4, &[ReadWrite], Duplicated, &[ROUND_ROBIN, DELETE_ALL]));
    unions.push(UnionConfiguration::of(
        8,
        &[ReadWrite, ReadWrite, ReadOnly],
        AsCreated,
        &[MOST_FREE, OVERLAY_WHITEOUTS],
    ));
    unions.push(UnionConfiguration::of(16, &[ReadWrite, ReadOnly], Duplicated, &[DELETE_ALL]));
    unions
}

/// Returns runs of stacks of up to two layers in which every two values of different factors occur together at least once: the
/// upper layer, the lower layer, the base with its number of branches, the way to access it, and the options of a union.
pub fn double(facilities: Facilities) -> Vec<RunPlan> {
    if !facilities.is_root {
        return Vec::new();
    }
    let layers: Vec<Option<&'static str>> = std::iter::once(None).chain(kinds().chain(PROGRAMS).map(Some)).collect();
    let available_accesses = facilities.available_accesses();
    let factors = [
        layers.len(),
        layers.len(),
        BASES.len(),
        available_accesses.len(),
        MODES.len(),
        CREATE.len(),
        DELETE.len(),
        WHITEOUTS.len(),
        LAYOUTS.len(),
    ];
    let plan = |row: Vec<usize>| {
        let [lower, upper, base, access, modes, create, delete, whiteouts, layout] = row[..] else {
            unreachable!("a row has a value for each factor")
        };
        let options = [CREATE[create], DELETE[delete], WHITEOUTS[whiteouts]];
        let options: Vec<_> = options.into_iter().flatten().collect();

        let branches = BASES[base].branches();
        let members = [branches.is_some().then_some("union"), layers[lower], layers[upper]];
        let members: Vec<_> = members.into_iter().flatten().collect();
        // Directories created directly in the branches have unconverted names there.
        let layout = match members.iter().any(|layer| CHANGES_NAMES.contains(layer)) {
            true => DirectoryLayout::AsCreated,
            false => LAYOUTS[layout],
        };
        let union = branches.map(|count| UnionConfiguration::of(count, MODES[modes], layout, &options));
        let run_kind = run_kind(&members);
        RunPlan {
            access: available_accesses[access],
            run_kind,
            bottom: BASES[base].bottom(),
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
pub fn without_passthrough(single: &[RunPlan]) -> Vec<RunPlan> {
    // Nothing of FAT has a file that the kernel could read itself.
    let has_any = |plan: &&RunPlan| !matches!(plan.bottom, Bottom::Fat(_));
    let plans = single.iter().filter(|plan| is_roots_device_mount(plan)).filter(has_any);
    plans.map(|plan| RunPlan { withheld: Some("passthrough"), ..plan.clone() }).collect()
}

fn is_roots_device_mount(plan: &RunPlan) -> bool {
    plan.is_root && plan.access == StackAccess::Device
}

/// Returns runs that each lack one of the other features of the kernel's protocol, alternating over these stacks.
pub fn without_features(single: &[RunPlan]) -> Vec<RunPlan> {
    /// Returns whether the kernel holds the data, the stack does, or there are several branches.
    fn is_affected(plan: &RunPlan) -> bool {
        let is_over_branches =
            plan.union.as_ref().is_some_and(|union| union.modes.len() == 4 && union.options.is_empty());
        plan.run_kind == RunKind::Ordinary
            && match plan.layers[..] {
                [] | ["rot13"] => true,
                ["union"] => is_over_branches,
                _ => false,
            }
    }
    let stacks = single.iter().filter(|plan| is_roots_device_mount(plan) && is_affected(plan));
    let features = Features::all().map(|(name, _)| name).filter(|name| *name != "passthrough");
    let with_stack = features.zip(stacks.cycle());
    with_stack.map(|(name, plan)| RunPlan { withheld: Some(name), ..plan.clone() }).collect()
}

/// The base of a stack of two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatrixBase {
    Memory,
    Directory,
    Union(usize),
}

impl MatrixBase {
    fn bottom(self) -> Bottom {
        if self == Self::Memory { Bottom::Memory } else { Bottom::Directory }
    }

    fn branches(self) -> Option<usize> {
        if let Self::Union(count) = self { Some(count) } else { None }
    }
}

const BASES: [MatrixBase; 7] = {
    use MatrixBase::{Directory, Memory, Union};
    [Memory, Directory, Union(1), Union(2), Union(4), Union(8), Union(16)]
};

const MODES: [&[BranchMode]; 3] = [&[ReadWrite], &[ReadWrite, ReadOnly], &[ReadWrite, ReadWrite, ReadOnly, NoCreate]];

const CREATE: [Option<(&str, &str)>; 3] = [None, Some(ROUND_ROBIN), Some(MOST_FREE)];

const DELETE: [Option<(&str, &str)>; 2] = [None, Some(DELETE_ALL)];

const WHITEOUTS: [Option<(&str, &str)>; 2] = [None, Some(OVERLAY_WHITEOUTS)];

const LAYOUTS: [DirectoryLayout; 2] = [DirectoryLayout::AsCreated, DirectoryLayout::Duplicated];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use conformance::Ability;
    use frontends::fuse::{MountOptions, decide};

    use super::*;
    use crate::TestDirectory;

    const ALL_FACILITIES: Facilities = Facilities { is_root: true, can_mount: true, has_uring: true };

    #[test]
    fn titles_distinguish_runs() {
        for facilities in [ALL_FACILITIES, Facilities { is_root: false, ..ALL_FACILITIES }] {
            let plans: Vec<RunPlan> = single(facilities).into_iter().chain(double(facilities)).collect();
            let titles: HashSet<String> = plans.iter().map(RunPlan::title).collect();
            // A union of one branch has a single mode, however many are given.
            assert!(titles.len() * 10 > plans.len() * 9, "{} titles of {} runs", titles.len(), plans.len());
        }
    }

    /// Where it caches data of the stack, it learns of sizes and data at different moments.
    #[test]
    fn growing_files_are_tested_where_the_kernel_caches_no_data_of_the_stack() {
        let is_expected = |plan: &&RunPlan| plan.access.is_mount() && plan.abilities().has(Ability::GrowingFiles);
        for plan in single(ALL_FACILITIES).iter().filter(is_expected) {
            let stack = plan.build(&TestDirectory::plain().unwrap()).unwrap();
            let decisions = decide(&stack.properties(), &MountOptions::default());
            assert!(decisions.passthrough.is_ok() || decisions.direct_io(), "{}: {decisions:?}", plan.title());
        }
    }

    #[test]
    fn every_layer_is_stacked_on_every_other_and_on_every_base() {
        let plans = double(ALL_FACILITIES);
        let layers: Vec<&str> = kinds().chain(PROGRAMS).collect();
        for &lower in &layers {
            for &upper in &layers {
                assert!(plans.iter().any(|plan| plan.layers.ends_with(&[lower, upper])), "{upper} on {lower}");
            }
            for base in BASES {
                let is_covered = plans.iter().any(|plan| {
                    let count = plan.union.as_ref().map(|union| union.modes.len());
                    plan.layers.contains(&lower) && count == base.branches() && plan.bottom == base.bottom()
                });
                assert!(is_covered, "{lower} on {base:?}");
            }
        }
    }
}
