//! The jobs of each tier and the extent of each: the only table of what the quick tier leaves to the full one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;

use crate::job::{CaseSource, Job};
use crate::kernel_parameters::{self, TransportState};
use crate::programs::Program;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// Every test, with a covering part of the combinations and of the random runs.
    Quick,
    /// The full matrix, every stop point, all seeds, the outside suites on every stack, soak, fuzzing, another kernel.
    All,
    /// What the quick tier runs through mounts: for another kernel.
    Mounted,
}

impl Tier {
    /// Returns the title for the list of [`omitted`].
    pub(crate) fn omitted_title(self) -> &'static str {
        match self {
            Self::Quick => "left to `make test-all`",
            Self::All => "left to `make fuzz`, `make fuzz-images`, `make soak` and `make bench`",
            Self::Mounted => "left to the kernel of this machine",
        }
    }
}

/// An environment variable that sets how far a program goes. Without it, the program does everything it can.
struct ProgramExtent {
    /// The programs, by title.
    program: &'static str,
    variable: &'static str,
    /// Its value in the quick tier; `None`: not set.
    quick: Option<&'static str>,
    /// Its value in the full tier; `None`: not set.
    all: Option<&'static str>,
    /// The part that the quick tier leaves out.
    omitted: &'static str,
}

const PROGRAM_EXTENTS: &[ProgramExtent] = &[
    ProgramExtent {
        program: "suite conformance",
        variable: "MATRIX",
        quick: Some("cover"),
        all: None,
        omitted: "the other combinations of conformance test and stack",
    },
    ProgramExtent {
        program: "suite outside",
        variable: "OUTSIDE",
        quick: Some("some"),
        all: None,
        omitted: "pjdfstest and fsx on the other stacks, fsx with eight of ten seeds",
    },
    ProgramExtent {
        program: "suite faults",
        variable: "FAULTS_SHARE",
        quick: Some("31"),
        all: None,
        omitted: "thirty of thirty-one operations on unions, descriptions and stacks of two layers whose calls below fail in turn",
    },
    ProgramExtent {
        program: "suite hostile",
        variable: "HOSTILE_SHARE",
        quick: Some("80"),
        all: Some("2"),
        omitted: "most calls of the hostile user (one of 80 here)",
    },
    ProgramExtent {
        program: "layers union_crash",
        variable: "CRASH_SHARE",
        quick: Some("8"),
        all: None,
        omitted: "seven of eight stop points of crash tests",
    },
    ProgramExtent {
        program: "layers power_cut",
        variable: "POWER_CUT_SHARE",
        quick: Some("8"),
        all: None,
        omitted: "seven of eight scenarios of power cuts",
    },
    ProgramExtent {
        program: "layers power_cut",
        variable: "POWER_CUT_CUTS",
        quick: None,
        all: Some("20"),
        omitted: "more than six cuts of each scenario",
    },
    ProgramExtent {
        program: "layers union_model",
        variable: "MODEL_STEPS",
        quick: Some("30000"),
        all: Some("100000"),
        omitted: "three times the steps of random operations on unions",
    },
    ProgramExtent {
        program: "layers union_snapshots",
        variable: "MODEL_STEPS",
        quick: None,
        all: Some("100000"),
        omitted: "five times the steps of random operations with snapshots",
    },
    ProgramExtent {
        program: "layers union_damage",
        variable: "UNION_DAMAGE",
        quick: None,
        all: Some("20000"),
        omitted: "twenty times the walks through unions of damaged branches",
    },
    ProgramExtent {
        program: "layers union_deep",
        variable: "DEEP_LEVELS",
        quick: Some("20000"),
        all: None,
        omitted: "trees of 100,000 nested directories in unions (20,000 here)",
    },
    ProgramExtent {
        program: "cli deep_trees",
        variable: "DEEP_LEVELS",
        quick: Some("10000"),
        all: Some("30000"),
        omitted: "trees of 30,000 nested directories in mounted unions (10,000 here)",
    },
    ProgramExtent {
        program: "bases mem_and_dir",
        variable: "MODEL_STEPS",
        quick: Some("40000"),
        all: Some("150000"),
        omitted: "four times the steps of random operations on bases",
    },
    ProgramExtent {
        program: "fist mutants",
        variable: "PLYFS_FUZZ_SECONDS",
        quick: None,
        all: Some("300"),
        omitted: "five minutes of damaged FiST programs (four seconds here)",
    },
    ProgramExtent {
        program: "fist tiers",
        variable: "FIST_TIERS_STATEMENTS",
        quick: None,
        all: Some("60000"),
        omitted: "60,000 random FiST statements on both tiers",
    },
    ProgramExtent {
        program: "frontends lib",
        variable: "FUZZ_ROUNDS",
        quick: None,
        all: Some("20000000"),
        omitted: "20 million random messages for the decoder of requests",
    },
];

/// Tests that only the full tier has.
const FULL_TIER_ONLY: &[&str] = &[
    "ten minutes of soak on mounts of both transports",
    "the mounted tests on Linux 6.1, in a User-Mode Linux guest",
    "the sample FiST programs beside the same written by hand in Rust",
    "the published crates, each built from its package alone",
    "the package for Debian, installed in a fresh bookworm, used and removed",
    "a million damaged images of FAT and of ISO 9660, with all checks in an optimised build",
];

/// Tests that no tier has.
const IN_NO_TIER: &[&str] = &[
    "an hour of soak",
    "100 million messages, a million statements and a million walks through damaged unions of fuzzing",
    "ten million images of FAT and of ISO 9660, guided by coverage",
    "benchmarks",
];

/// The programs that mount without choosing a transport, and the argument that selects the tests concerned.
const ON_BOTH_TRANSPORTS: &[(&str, Option<&str>)] = &[
    ("frontends mounted", None),
    ("frontends unchecked", None),
    ("layers cancelled_callers", None),
    ("layers mounted", None),
    ("suite conformance", Some("mount")),
    ("cli descriptions", None),
    ("cli fist", None),
    ("cli mounts", None),
    ("cli runs", None),
    ("cli unions", None),
    ("cli unions_compared", None),
    ("cli views", None),
];

/// The program that chooses the transport by itself.
const SETS_TRANSPORT: &str = "frontends transports";

/// The programs in the tier for another kernel.
const MOUNTED: &[(&str, Option<&str>)] =
    &[("frontends mounted", None), ("suite conformance", Some("mount")), ("cli mounts", None)];

/// The programs that take longest, heaviest first: they begin in this order.
const JOB_WEIGHTS: &[(&str, u32)] = &[
    ("layers union_crash", 60),
    ("suite conformance", 50),
    ("layers power_cut", 42),
    ("suite outside", 40),
    ("suite hostile", 38),
    ("suite faults", 16),
    ("fist tiers", 35),
    ("layers union_model", 30),
    ("cli real_branches", 28),
    // It builds the command once more.
    ("cli layer_from_outside", 26),
    ("fist mutants", 25),
    ("bases mem_and_dir", 20),
    ("frontends lib", 15),
    ("layers union_snapshots", 12),
];

const QUICK_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Ends what hangs. The heaviest programs compete for two CPUs for most of an hour.
const ALL_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);
/// The guest runs the mounted tests sequentially on an emulated CPU, in about an hour when nothing else runs.
const GUEST_LIMIT: Duration = Duration::from_secs(150 * 60);

/// Variables with which a developer replays a test or examines a part of it. They are not set in a full run.
const DEVELOPER_VARIABLES: &[&str] = &[
    "CONFORMANCE_SEED",
    "CRASH_EVERY_CALL",
    "CRASH_SCENARIO",
    "CRASH_SEED",
    "FIST_TIERS_FIRST",
    "FIST_TIERS_SEED",
    "HOSTILE_SEED",
    "IMAGE_MUTATIONS",
    "IMAGE_SEED",
    "MODEL_DIRECTORY",
    "MODEL_DUMP",
    "MODEL_SEED",
    "MODEL_TREES",
    "PLYFS_FUZZ_SEED",
    "PLYFS_TEST_SEED",
    "PLYFS_UPDATE_GRAMMAR",
    "POWER_CUT_SCENARIO",
    "POWER_CUT_SEED",
    "RUN_SEED",
    "SEED",
    "UNIONS_COMPARED",
];

/// Makes a job that was selected by its title run with the variables that the caller has set.
pub(crate) fn keep_caller_environment(job: &mut Job) {
    job.environment.retain(|(name, _)| std::env::var_os(name).is_none());
}

/// Returns the jobs of a tier.
///
/// # Errors
/// Fails if a program named in this module is missing.
pub(crate) fn jobs(tier: Tier, programs: &[Program], results: &Path) -> anyhow::Result<Vec<Job>> {
    for title in referenced_programs() {
        let was_built = programs.iter().any(|program| program.title == title);
        anyhow::ensure!(was_built, "no program {title:?} was built: build all with `make test`, or correct its title");
    }
    let job = |program: &Program, state, argument: Option<&str>| job(tier, program, state, argument);
    if tier == Tier::Mounted {
        let of = |(title, argument): &(&str, Option<&str>)| {
            programs
                .iter()
                .find(|program| program.title == *title)
                .map(|program| job(program, TransportState::Device, *argument))
        };
        return Ok(MOUNTED.iter().filter_map(of).collect());
    }
    let state = |program: &Program| {
        if SETS_TRANSPORT == program.title { TransportState::SetByJob } else { TransportState::Device }
    };
    let mut jobs: Vec<Job> = programs.iter().map(|program| job(program, state(program), None)).collect();
    jobs.push(documentation_tests());
    if kernel_parameters::can_set_transport() {
        for (title, argument) in ON_BOTH_TRANSPORTS {
            let of_title = programs.iter().filter(|program| program.title == *title);
            jobs.extend(of_title.map(|program| job(program, TransportState::Uring, *argument)));
        }
    }
    if tier == Tier::All {
        jobs.push(packages());
        jobs.push(damaged_images());
    }
    if tier == Tier::All && can_mount() {
        jobs.push(soak());
        jobs.push(debian_package(programs));
        jobs.push(guest(results));
    }
    Ok(jobs)
}

/// Returns the programs named in the tables of this module.
fn referenced_programs() -> impl Iterator<Item = &'static str> {
    let extents = PROGRAM_EXTENTS.iter().map(|extent| extent.program);
    let chosen = ON_BOTH_TRANSPORTS.iter().chain(MOUNTED).map(|(title, _)| *title);
    extents
        .chain(chosen)
        .chain(JOB_WEIGHTS.iter().map(|(title, _)| *title))
        .chain(CUSTOM_HARNESSES)
        .chain([SETS_TRANSPORT])
}

fn job(tier: Tier, program: &Program, state: TransportState, argument: Option<&str>) -> Job {
    let title = match state {
        TransportState::Uring => format!("{} over io_uring", program.title),
        _ => program.title.clone(),
    };
    let mut arguments: Vec<String> =
        ["-Zunstable-options", "--format=json", "--report-time", "--show-output"].map(str::to_owned).into();
    if CUSTOM_HARNESSES.contains(&program.title.as_str()) {
        arguments = vec!["--format=json".to_owned()];
    }
    arguments.extend(argument.map(str::to_owned));
    let value = |extent: &ProgramExtent| if tier == Tier::All { extent.all } else { extent.quick };
    let extent = |variable: &str| {
        PROGRAM_EXTENTS
            .iter()
            .find(|extent| extent.program == program.title && extent.variable == variable)
            .and_then(value)
    };
    let variables: BTreeSet<&str> =
        DEVELOPER_VARIABLES.iter().copied().chain(PROGRAM_EXTENTS.iter().map(|extent| extent.variable)).collect();
    let environment = variables.iter().map(|name| ((*name).to_owned(), extent(name).map(str::to_owned))).collect();
    Job {
        title,
        executable: program.executable.clone(),
        directory: program.directory.clone(),
        arguments,
        environment,
        source: CaseSource::Events,
        state,
        weight: JOB_WEIGHTS.iter().find(|(title, _)| *title == program.title).map_or(1, |(_, weight)| *weight),
        limit: if tier == Tier::Quick { QUICK_LIMIT } else { ALL_LIMIT },
        must_have_tests: referenced_programs().any(|title| title == program.title),
    }
}

/// The programs that use libtest-mimic, which prints events by default and captures no output.
const CUSTOM_HARNESSES: [&str; 6] =
    ["suite conformance", "suite faults", "suite hostile", "suite outside", "cli documentation", "cli unions_compared"];

/// The crate left out has no examples, and many dependencies of its own.
const DOCUMENTATION_TESTS: [&str; 6] = ["test", "--doc", "--workspace", "--exclude", "comparison", "--no-fail-fast"];

fn documentation_tests() -> Job {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Job { weight: 30, source: CaseSource::Lines, ..command("documentation tests", cargo.into(), &DOCUMENTATION_TESTS) }
}

fn soak() -> Job {
    Job { state: TransportState::SetBeforeEachMount, weight: 100, ..command("soak", "scripts/soak".into(), &["10"]) }
}

const DAMAGED_IMAGES: [&str; 6] = ["test", "--release", "--package", "image-fuzz", "--test", "damage"];

/// Creates the job for many damaged images. It has a target of its own, since the optimised build of everything else is without checks.
fn damaged_images() -> Job {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let set = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    Job {
        weight: 90,
        source: CaseSource::Lines,
        environment: vec![
            set("IMAGE_MUTATIONS", "1000000"),
            ("IMAGE_SEED".to_owned(), None),
            set("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true"),
            set("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true"),
            set("CARGO_TARGET_DIR", "target/damaged-images"),
        ],
        must_have_tests: true,
        ..command("damaged images", cargo.into(), &DAMAGED_IMAGES)
    }
}

/// Creates the job that builds the published crates from their packages, of the files as they are, committed or not.
fn packages() -> Job {
    Job { weight: 30, ..command("packages", "scripts/package".into(), &["--allow-dirty", "--offline"]) }
}

/// Creates the job that installs and uses the package for Debian, of the programs that are tested.
fn debian_package(programs: &[Program]) -> Job {
    // Test programs are in a directory of the one with the programs that they test.
    let tested =
        programs.first().and_then(|program| program.executable.parent()?.parent()).unwrap_or(Path::new("target/debug"));
    let environment = vec![("BUILD".to_owned(), Some(tested.display().to_string()))];
    Job { weight: 20, environment, ..command("package for Debian", "scripts/deb-test".into(), &[]) }
}

/// Creates the job for the mounted tests in a guest, whose runner stores its results where the host finds them.
fn guest(results: &Path) -> Job {
    let results = std::path::absolute(results).unwrap_or_else(|_| results.to_owned()).join("guest");
    let results_text = results.display().to_string();
    let runner = std::env::current_exe().unwrap_or_default().display().to_string();
    let arguments = [&runner, "mounted", "--results", &results_text, "--jobs", "2"];
    Job {
        weight: 55,
        limit: GUEST_LIMIT,
        source: CaseSource::Nested(results),
        environment: vec![
            ("GUEST_RESULTS".to_owned(), Some(results_text.clone())),
            // The guest ends by itself before the host kills it.
            ("GUEST_SECONDS".to_owned(), Some((GUEST_LIMIT.as_secs() - 120).to_string())),
            // Its only CPU is emulated, and others on this machine compete for theirs.
            ("PLYFS_SUITE_PATIENCE".to_owned(), Some("1800".to_owned())),
        ],
        ..command("Linux 6.1", "scripts/guest".into(), &arguments)
    }
}

/// Creates a job of one case for a command in the workspace directory.
fn command(title: &str, executable: PathBuf, arguments: &[&str]) -> Job {
    let directory = std::env::current_dir().unwrap_or_default();
    let executable = if executable.components().count() > 1 { directory.join(executable) } else { executable };
    Job {
        title: title.to_owned(),
        executable,
        directory,
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        environment: Vec::new(),
        source: CaseSource::ExitCode,
        state: TransportState::Device,
        weight: 1,
        limit: ALL_LIMIT,
        must_have_tests: false,
    }
}

/// Returns what a tier leaves to others, in addition to what its programs report.
pub(crate) fn omitted(tier: Tier) -> Vec<String> {
    let extents = PROGRAM_EXTENTS.iter().map(|extent| format!("{}: {}", extent.program, extent.omitted));
    match tier {
        Tier::Quick => extents.chain(FULL_TIER_ONLY.iter().map(|text| (*text).to_owned())).collect(),
        Tier::All => IN_NO_TIER.iter().map(|text| (*text).to_owned()).collect(),
        Tier::Mounted => Vec::new(),
    }
}

/// Returns whether everything can run here, in which case a skipped test is a failure.
pub(crate) fn can_mount() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Vec<Program> {
        let program = |title: &str| Program { title: title.to_owned(), executable: "/x".into(), directory: "/".into() };
        referenced_programs().map(program).collect()
    }

    fn jobs_of(tier: Tier) -> Vec<Job> {
        jobs(tier, &programs(), "/r".as_ref()).unwrap()
    }

    #[test]
    fn quick_tier_reduces_every_extent() {
        let (quick, all) = (jobs_of(Tier::Quick), jobs_of(Tier::All));
        for extent in PROGRAM_EXTENTS {
            assert_ne!(extent.quick, extent.all, "{}", extent.program);
            let value = |jobs: &[Job]| {
                let job = jobs.iter().find(|job| job.title == extent.program).unwrap();
                job.environment.iter().find(|(name, _)| name == extent.variable).and_then(|(_, value)| value.clone())
            };
            assert_eq!(value(&quick).as_deref(), extent.quick);
            assert_eq!(value(&all).as_deref(), extent.all);
        }
        assert!(quick.iter().all(|job| all.iter().any(|other| other.title == job.title)));
        assert_eq!(omitted(Tier::Quick).len(), PROGRAM_EXTENTS.len() + FULL_TIER_ONLY.len());
    }

    #[test]
    fn full_run_ignores_variables_of_the_caller() {
        for job in jobs_of(Tier::All).iter().filter(|job| job.source == CaseSource::Events) {
            let of_extents = PROGRAM_EXTENTS.iter().map(|extent| extent.variable);
            for name in of_extents.chain(DEVELOPER_VARIABLES.iter().copied()) {
                assert!(job.environment.iter().any(|(variable, _)| variable == name), "{}: {name}", job.title);
            }
        }
    }

    #[test]
    fn missing_program_is_an_error() {
        let programs: Vec<Program> = programs().into_iter().filter(|program| program.title != "cli views").collect();
        assert!(jobs(Tier::Quick, &programs, "/r".as_ref()).unwrap_err().to_string().contains("cli views"));
    }
}
