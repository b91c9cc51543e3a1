//! Which jobs a tier has, and how far each goes: the one table of what the quick tier leaves to the other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;

use crate::job::{Job, Source};
use crate::programs::Program;
use crate::switch::{self, State};

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// Every test, with a covering part of the combinations and of the random runs.
    Quick,
    /// The full matrix, every stop point, all seeds, the outside suites on every stack, soak, fuzzing, another kernel.
    All,
    /// What the quick tier runs through mounts: for another kernel.
    Mounted,
}

impl Tier {
    /// The title of what [`left`] lists.
    pub fn left_title(self) -> &'static str {
        match self {
            Self::Quick => "left to `make test-all`",
            Self::All => "left to `make fuzz`, `make soak` and `make bench`",
            Self::Mounted => "left to the kernel of this machine",
        }
    }
}

/// A variable that says how far a program goes. Without it, the program does all that it can.
struct Extent {
    /// The programs, by title.
    program: &'static str,
    variable: &'static str,
    /// Its value in the quick tier; `None`: not set.
    quick: Option<&'static str>,
    /// Its value in the full tier.
    all: Option<&'static str>,
    /// What the quick tier leaves out.
    left: &'static str,
}

const EXTENTS: &[Extent] = &[
    Extent {
        program: "suite conformance",
        variable: "MATRIX",
        quick: Some("cover"),
        all: None,
        left: "the other combinations of conformance test and stack",
    },
    Extent {
        program: "suite outside",
        variable: "OUTSIDE",
        quick: Some("some"),
        all: None,
        left: "pjdfstest and fsx on the other stacks, fsx with eight of ten seeds",
    },
    Extent {
        program: "layers union_crash",
        variable: "CRASH_SHARE",
        quick: Some("8"),
        all: None,
        left: "seven of eight stop points of crash tests",
    },
    Extent {
        program: "layers union_model",
        variable: "MODEL_STEPS",
        quick: Some("30000"),
        all: Some("100000"),
        left: "three times the steps of random operations on unions",
    },
    Extent {
        program: "bases mem_and_dir",
        variable: "MODEL_STEPS",
        quick: Some("40000"),
        all: Some("150000"),
        left: "four times the steps of random operations on bases",
    },
    Extent {
        program: "fist mutants",
        variable: "PLYFS_FUZZ_SECONDS",
        quick: None,
        all: Some("300"),
        left: "five minutes of damaged FiST programs (four seconds here)",
    },
    Extent {
        program: "fist tiers",
        variable: "FIST_TIERS_STATEMENTS",
        quick: None,
        all: Some("300000"),
        left: "300,000 random FiST statements on both tiers",
    },
    Extent {
        program: "frontends lib",
        variable: "FUZZ_ROUNDS",
        quick: None,
        all: Some("20000000"),
        left: "20 million random messages for the decoder of requests",
    },
];

/// What only the full tier has.
const ONLY_ALL: &[&str] =
    &["ten minutes of soak on mounts of both transports", "the mounted tests on Linux 6.1, in a User-Mode Linux guest"];

/// What no tier has.
const BEYOND: &[&str] = &["an hour of soak", "100 million messages and a million statements of fuzzing", "benchmarks"];

/// The programs that mount without saying how requests come, and the argument that chooses the tests concerned.
const ON_BOTH_TRANSPORTS: &[(&str, Option<&str>)] = &[
    ("frontends mounted", None),
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

/// The programs of the tier for another kernel.
const MOUNTED: &[(&str, Option<&str>)] =
    &[("frontends mounted", None), ("suite conformance", Some("mount")), ("cli mounts", None)];

/// The programs that take longest, in minutes of a CPU: they begin first.
const HEAVY: &[(&str, u32)] = &[("layers union_crash", 60), ("suite conformance", 50), ("suite outside", 40)];

const QUICK_LIMIT: Duration = Duration::from_secs(15 * 60);
const ALL_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The jobs of a tier.
pub fn jobs(tier: Tier, programs: &[Program], results: &Path) -> Vec<Job> {
    let job = |program: &Program, state, argument: Option<&str>| job(tier, program, state, argument);
    if tier == Tier::Mounted {
        let of = |(title, argument): &(&str, Option<&str>)| {
            programs
                .iter()
                .find(|program| program.title == *title)
                .map(|program| job(program, State::Device, *argument))
        };
        return MOUNTED.iter().filter_map(of).collect();
    }
    let mut jobs: Vec<Job> = programs.iter().map(|program| job(program, State::Device, None)).collect();
    jobs.push(documentation_tests());
    if switch::is_here() {
        for (title, argument) in ON_BOTH_TRANSPORTS {
            let of_title = programs.iter().filter(|program| program.title == *title);
            jobs.extend(of_title.map(|program| job(program, State::Uring, *argument)));
        }
    }
    if tier == Tier::All && can_mount() {
        jobs.push(soak());
        jobs.push(guest(results));
    }
    jobs
}

fn job(tier: Tier, program: &Program, state: State, argument: Option<&str>) -> Job {
    let title = match state {
        State::Uring => format!("{} over io_uring", program.title),
        _ => program.title.clone(),
    };
    let mut arguments: Vec<String> =
        ["-Zunstable-options", "--format=json", "--report-time", "--show-output"].map(str::to_owned).into();
    if HARNESSES_OF_THEIR_OWN.contains(&program.title.as_str()) {
        arguments = vec!["--format=json".to_owned()];
    }
    arguments.extend(argument.map(str::to_owned));
    let value = |extent: &Extent| if tier == Tier::All { extent.all } else { extent.quick };
    let environment = EXTENTS
        .iter()
        .filter(|extent| extent.program == program.title)
        .filter_map(|extent| Some((extent.variable.to_owned(), value(extent)?.to_owned())))
        .collect();
    Job {
        title,
        executable: program.executable.clone(),
        directory: program.directory.clone(),
        arguments,
        environment,
        source: Source::Events,
        state,
        weight: HEAVY.iter().find(|(title, _)| *title == program.title).map_or(1, |(_, weight)| *weight),
        limit: if tier == Tier::Quick { QUICK_LIMIT } else { ALL_LIMIT },
    }
}

/// The programs that use libtest-mimic, which prints events unasked and captures no output.
const HARNESSES_OF_THEIR_OWN: [&str; 3] = ["suite conformance", "suite outside", "cli unions_compared"];

fn documentation_tests() -> Job {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Job {
        weight: 30,
        source: Source::Lines,
        ..command("documentation tests", cargo.into(), &["test", "--doc", "--workspace", "--no-fail-fast"])
    }
}

fn soak() -> Job {
    Job { state: State::Own, weight: 100, ..command("soak", "scripts/soak".into(), &["10"]) }
}

/// The mounted tests in a guest, whose runner leaves its results where the host finds them.
fn guest(results: &Path) -> Job {
    let results = std::path::absolute(results).unwrap_or_else(|_| results.to_owned()).join("guest");
    let results_text = results.display().to_string();
    let runner = std::env::current_exe().unwrap_or_default().display().to_string();
    let arguments = [&runner, "mounted", "--results", &results_text, "--jobs", "2"];
    Job {
        state: State::Own,
        weight: 90,
        source: Source::Nested(results),
        environment: vec![
            ("GUEST_RESULTS".to_owned(), results_text.clone()),
            ("GUEST_SECONDS".to_owned(), ALL_LIMIT.as_secs().to_string()),
        ],
        ..command("Linux 6.1", "scripts/guest".into(), &arguments)
    }
}

/// A command in the directory of the workspace that is one case.
fn command(title: &str, executable: PathBuf, arguments: &[&str]) -> Job {
    let directory = std::env::current_dir().unwrap_or_default();
    let executable = if executable.components().count() > 1 { directory.join(executable) } else { executable };
    Job {
        title: title.to_owned(),
        executable,
        directory,
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        environment: Vec::new(),
        source: Source::ExitCode,
        state: State::Device,
        weight: 1,
        limit: ALL_LIMIT,
    }
}

/// What a tier leaves to others, beside what its programs say.
pub fn left(tier: Tier) -> Vec<String> {
    let extents = EXTENTS.iter().map(|extent| format!("{}: {}", extent.program, extent.left));
    match tier {
        Tier::Quick => extents.chain(ONLY_ALL.iter().map(|text| (*text).to_owned())).collect(),
        Tier::All => BEYOND.iter().map(|text| (*text).to_owned()).collect(),
        Tier::Mounted => Vec::new(),
    }
}

/// Whether everything can run here: a skipped test is a failure then.
pub fn can_mount() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Vec<Program> {
        let titles = EXTENTS.iter().map(|extent| extent.program).chain(MOUNTED.iter().map(|(title, _)| *title));
        let program = |title: &str| Program { title: title.to_owned(), executable: "/x".into(), directory: "/".into() };
        titles.map(program).collect()
    }

    #[test]
    fn the_quick_tier_goes_less_far_with_every_program() {
        let (quick, all) = (jobs(Tier::Quick, &programs(), "/r".as_ref()), jobs(Tier::All, &programs(), "/r".as_ref()));
        for extent in EXTENTS {
            assert_ne!(extent.quick, extent.all, "{}", extent.program);
            let value = |jobs: &[Job]| {
                let job = jobs.iter().find(|job| job.title == extent.program).unwrap();
                job.environment.iter().find(|(name, _)| name == extent.variable).map(|(_, value)| value.clone())
            };
            assert_eq!(value(&quick).as_deref(), extent.quick);
            assert_eq!(value(&all).as_deref(), extent.all);
        }
        assert!(quick.iter().all(|job| all.iter().any(|other| other.title == job.title)));
        assert_eq!(left(Tier::Quick).len(), EXTENTS.len() + ONLY_ALL.len());
    }
}
