//! What survives a power cut, on disks that lose what was not flushed. Needs root and /dev/fuse, and says so where they are
//! absent.
//!
//! `POWER_CUT_SEED` replays a run, `POWER_CUT_CUTS` is the number of cuts of each scenario, `POWER_CUT_SHARE=8` tries one of
//! eight scenarios, chosen by the seed, `POWER_CUT_SCENARIO` those whose names contain it.

#[path = "../crash/scenarios.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod scenarios;
#[path = "../crash/scene.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod scene;
#[path = "../crash/view.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod view;

mod commits;
mod device;
mod disks;
mod forks;
mod operations;
mod programs;
mod promises;
mod state;
mod steps;

use std::fs::File;
use std::path::Path;

use disks::Disks;
use fastrand::Rng;
use forks::cut_commit;
use operations::{Layout, cut_operation};
use programs::{DATA_LAYERS, DATA_PROGRAMS, PROGRAMS, cut_data_program, cut_program};
use scene::Scenario;

/// Cuts of each scenario if nothing else is said.
const DEFAULT_CUTS: usize = 6;

/// Which scenarios are tried, and how often the power is cut in each.
struct RunSelection {
    seed: u64,
    share: u64,
    cuts: usize,
    scenario: String,
}

impl RunSelection {
    /// `None`, with a word about it, where there can be no disks.
    fn from_environment() -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: disks need root and /dev/fuse");
            return None;
        }
        let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("the variable is a number"));
        let selection = Self {
            seed: number("POWER_CUT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32)),
            share: number("POWER_CUT_SHARE").unwrap_or(1),
            cuts: number("POWER_CUT_CUTS").map_or(DEFAULT_CUTS, |cuts| cuts as usize),
            scenario: std::env::var("POWER_CUT_SCENARIO").unwrap_or_default(),
        };
        println!(
            "POWER_CUT_SEED={} POWER_CUT_SHARE={} POWER_CUT_CUTS={}",
            selection.seed, selection.share, selection.cuts
        );
        Some(selection)
    }

    /// The random numbers of a scenario; `None` if it is not to be tried.
    fn random(&self, name: &str) -> Option<Rng> {
        let salt = name.bytes().fold(0_u64, |salt, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = Rng::with_seed(self.seed ^ salt);
        (name.contains(&self.scenario) && random.u64(..self.share) == 0).then_some(random)
    }
}

const BOTH_LAYOUTS: &[Layout] = &[Layout::Together, Layout::Apart];

fn check_operations(scenarios: &[&[Scenario]], options: &'static str, layouts: &[Layout]) {
    let mut all = Vec::new();
    for scenario in scenarios.iter().copied().flatten() {
        for &layout in layouts {
            let name = format!("{} {options} {layout:?}", scenario.name);
            all.push((name, move |cuts, random: &mut Rng| cut_operation(scenario, options, layout, cuts, random)));
        }
    }
    check(all);
}

fn check_programs(is_mounted: bool) {
    let mut all = Vec::new();
    for program in PROGRAMS {
        for layout in [Layout::Together, Layout::Apart] {
            let name = format!("{} {layout:?}{}", program.name, if is_mounted { " mounted" } else { "" });
            all.push((name, move |cuts, random: &mut Rng| cut_program(program, layout, is_mounted, cuts, random)));
        }
    }
    check(all);
}

/// Tries those that are chosen, each with its number of cuts and random numbers.
fn check(all: Vec<(String, impl Fn(usize, &mut Rng) -> Result<(), String>)>) {
    let Some(selection) = RunSelection::from_environment() else { return };
    let mut failures = Vec::new();
    for (name, run) in all {
        let Some(mut random) = selection.random(&name) else { continue };
        if let Err(failure) = run(selection.cuts, &mut random) {
            println!("{name}: {failure}");
            failures.push(format!("POWER_CUT_SEED={} {name}: {failure}", selection.seed));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn simulated_disk_loses_unflushed_writes() {
    let Some(selection) = RunSelection::from_environment() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    let mut disks = Disks::new(std::slice::from_ref(&path));
    disks.begin();
    std::fs::write(path.join("kept"), "data").unwrap();
    let written = disks.requests();
    File::open(path.join("kept")).unwrap().sync_all().unwrap();
    let flushed = disks.requests();
    std::fs::write(path.join("lost"), "data").unwrap();
    disks.end();
    let mut random = Rng::with_seed(selection.seed);
    let mut found = |point, name: &str| {
        let _after_cut = disks.cut(point, &mut random).unwrap();
        std::fs::read_to_string(path.join(name)).ok()
    };
    let data = Some("data".to_owned());
    assert!((written..flushed).any(|point| found(point, "kept") != data), "all is there before it was flushed");
    for _ in 0..8 {
        assert_eq!(found(flushed, "kept"), data);
        assert_eq!(found(flushed, "lost"), None);
    }
}

#[test]
fn operations_are_atomic() {
    use scenarios::{COPY_UP, CREATE, REMOVE, RENAME_DIRECTORY, RENAME_FILE};
    check_operations(&[COPY_UP, RENAME_FILE, RENAME_DIRECTORY, REMOVE, CREATE], "", BOTH_LAYOUTS);
}

#[test]
fn operations_with_overlayfs_whiteouts_are_atomic() {
    use scenarios::{CREATE, REMOVE, RENAME_DIRECTORY, RENAME_FILE};
    check_operations(&[RENAME_FILE, RENAME_DIRECTORY, REMOVE, CREATE], "whiteouts=overlay", BOTH_LAYOUTS);
}

#[test]
fn deletion_from_all_branches_is_atomic() {
    use scenarios::{REMOVE, RENAME_DIRECTORY, RENAME_FILE};
    check_operations(&[RENAME_FILE, RENAME_DIRECTORY, REMOVE], "delete=all", BOTH_LAYOUTS);
}

#[test]
fn copy_up_of_attributes_is_atomic() {
    use scenarios::{COPY_UP, METACOPY};
    check_operations(&[METACOPY, COPY_UP], "metacopy=on", BOTH_LAYOUTS);
}

#[test]
fn leaving_a_full_branch_is_atomic() {
    check_operations(&[scenarios::FULL_BRANCH], "when-full=move", &[Layout::Apart]);
}

#[test]
fn snapshot_commands_are_atomic() {
    check_operations(&[scenarios::SNAPSHOT], "", BOTH_LAYOUTS);
}

#[test]
fn fork_commit_is_atomic_or_repeatable() {
    let commit = |&layout: &Layout| {
        let run = move |cuts: usize, random: &mut Rng| (0..4).try_for_each(|_| cut_commit(layout, cuts, random));
        (format!("the commit of a fork {layout:?}"), run)
    };
    check(BOTH_LAYOUTS.iter().map(commit).collect());
}

#[test]
fn synchronized_data_survive() {
    check_programs(false);
}

#[test]
fn synchronized_data_survive_in_a_mount() {
    check_programs(true);
}

#[test]
fn synchronized_data_of_data_layers_survive() {
    let mut all = Vec::new();
    for layer in DATA_LAYERS {
        for program in DATA_PROGRAMS {
            for is_mounted in [false, true] {
                let name = format!("{} on {layer}{}", program.name, if is_mounted { " mounted" } else { "" });
                let run = move |cuts, random: &mut Rng| cut_data_program(program, layer, is_mounted, cuts, random);
                all.push((name, run));
            }
        }
    }
    check(all);
}
