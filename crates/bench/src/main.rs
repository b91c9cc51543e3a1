//! Benchmarks: workloads timed on a mount, on the lower file system beside it, and on peers.
mod clock;
mod fat;
mod fist;
mod image;
mod measure;
mod memory;
mod programs;
mod report;
mod run;
mod session;
mod slices;
mod subjects;
mod system_tools;
mod teardown;
mod tree;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};

use image::Image;
use subjects::Subject;
use workloads::{Sizes, Workload};

const ROUNDS: u32 = 5;
/// Number of rounds of the tree workloads. Workloads of about a minute are run once: there are more than thirty subjects, one
/// for each union and each number of branches.
const UNION_ROUNDS: u32 = 3;
/// The two modes of deletion of the Unionfs paper, and a union limited to what overlayfs supports.
const UNIONS: [&str; 3] = ["{rw} | union", "{rw} | union(delete=all)", "{ro} | union"];
const UNION_COPIES: u32 = 10;
/// Upper bound on the files and directories in the source of openssh, in every release so far.
const MAX_OBJECTS_PER_COPY: u64 = 1_500;

/// Times the same work on Plyfs, on the file system below it, and on its peers, side by side on an ext4 in RAM.
#[derive(Parser)]
#[command(name = "bench", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
    /// Workloads to run, separated by commas: build, postmark, tree, sequential, random, fchown
    #[arg(long, value_delimiter = ',', value_name = "WORKLOAD")]
    only: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Resident memory of each server after a walk over very many files, and after the kernel forgot them
    Memory {
        /// Files in the tree that is walked, a thousand to a directory
        #[arg(long, default_value_t = 1_000_000)]
        files: u64,
    },
    /// Microseconds per single operation, for tuning; and of many programs at the same time
    Latency,
    /// Descriptions in FiST beside the stack without them and beside a filter in Rust, and how long mounting takes
    Fist {
        /// Workloads to run, separated by commas: build, postmark, tree, sequential
        #[arg(long, value_delimiter = ',', value_name = "WORKLOAD", default_values_t = fist::WORKLOADS.map(str::to_owned))]
        only: Vec<String>,
    },
    /// Unions of several branches beside the peers that make unions: build, postmark, and the tree in two layouts
    Union(Unions),
    /// FAT beside ext4, the raw device, fusefat and mtools: the tables of the DosFs paper. Subjects: raw, ext4, vfat, plyfs, fusefat, mtools
    Fat {
        /// Parts to run, separated by commas: utilisation, transfers, limited, operations
        #[arg(long, value_delimiter = ',', value_name = "PART")]
        only: Vec<String>,
    },
}

#[derive(Args)]
struct Unions {
    /// Workloads to run, separated by commas: build, postmark, tree
    #[arg(long, value_delimiter = ',', value_name = "WORKLOAD")]
    only: Vec<String>,
    /// Numbers of branches, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NUMBER", default_values_t = [1, 2, 4, 8, 16],
          value_parser = branch_number)]
    branches: Vec<usize>,
    /// A union to measure, with {rw} for the branches, all to be written, or {ro}, only the first to be written; can be given several times
    #[arg(long = "union", value_name = "EXPRESSION", default_values_t = UNIONS.map(str::to_owned))]
    unions: Vec<String>,
    /// Copies of the source tree (default: 10; 1 with --quick); of the layout DUP each branch has as many
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=99))]
    copies: Option<u32>,
}

/// Parses a number of branches. More would exceed what overlayfs accepts as one option.
fn branch_number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=64) => Ok(number),
        _ => Err("not a number from 1 to 64".to_owned()),
    }
}

#[derive(Args)]
struct Options {
    /// Subjects to run, separated by commas: native, plyfs, overlayfs, bindfs, mergerfs, fuse-overlayfs, unionfs-fuse
    #[arg(long, global = true, value_delimiter = ',', value_name = "SUBJECT")]
    subjects: Vec<String>,
    /// How often each subject does each workload (default: 5; of unions 3, build and postmark 1; with --quick 1); the figures are medians
    #[arg(long, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Small sizes: shows in about a minute that all works, the figures mean little
    #[arg(long, global = true)]
    quick: bool,
    /// The plyfs program
    #[arg(long, global = true, value_name = "PATH", default_value = "target/release/plyfs")]
    plyfs: PathBuf,
    /// A stack to measure, with {} for the directory, or over: and layers, mounted over it; nopassthrough: before it for what kernels before Linux 6.9 can do; can be given several times
    #[arg(long = "stack", global = true, value_name = "EXPRESSION", default_values_t = ["{} | audit", "over: audit", "{}", "{}=rw | union", "nopassthrough: {}", "nopassthrough: {}=rw | union"].map(str::to_owned))]
    stacks: Vec<String>,
    /// More arguments for `plyfs mount`, separated by spaces
    #[arg(long, global = true, value_name = "ARGUMENTS", default_value = "", allow_hyphen_values = true)]
    plyfs_arguments: String,
    /// The source archive of openssh; scripts/bench-setup fetches it
    #[arg(long, global = true, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// Where the files of results go (default: docs/bench; nowhere with --quick)
    #[arg(long, global = true, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// Size of the file system in RAM, in GiB
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=64))]
    image_gib: u64,
}

impl Options {
    fn output(&self) -> Option<PathBuf> {
        match (&self.output, self.quick) {
            (Some(path), _) => Some(path.clone()),
            (None, true) => None,
            (None, false) => Some(PathBuf::from("docs/bench")),
        }
    }

    fn rounds(&self, otherwise: u32) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { otherwise })
    }
}

fn main() -> ExitCode {
    match start(&CommandLine::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command; returns whether every subject completed every workload.
fn start(line: &CommandLine) -> Result<bool> {
    let options = &line.options;
    if !rustix::process::geteuid().is_root() {
        bail!("root is needed for the file system in RAM: run it with sudo");
    }
    let stacks = || subjects::all(&options.plyfs, &options.stacks, &options.plyfs_arguments);
    match &line.command {
        None => {
            let subjects = select_subjects(options, stacks())?;
            let chosen = select_workloads(&line.only)?;
            let image = new_image(options, None)?;
            run::run(&image, &subjects, &chosen, &sizes(options), options.rounds(ROUNDS), options.output().as_deref())
        }
        Some(Command::Latency) => {
            let subjects = select_subjects(options, stacks())?;
            let image = new_image(options, None)?;
            run::latency(&image, &subjects, &sizes(options), options.rounds(ROUNDS), options.output().as_deref())
        }
        Some(Command::Memory { files }) => {
            let subjects = select_subjects(options, stacks())?;
            let files = if options.quick { 20_000.min(*files) } else { *files };
            let image = new_image(options, Some(files + files / 500 + 10_000))?;
            memory::run(&image, &subjects, files, options.output().as_deref())
        }
        Some(Command::Fist { only }) => {
            let workloads = select_workloads(only)?;
            let image = new_image(options, None)?;
            let rounds = options.rounds(ROUNDS);
            let plyfs = fist::PlyfsProgram { program: &options.plyfs, arguments: &options.plyfs_arguments };
            fist::run(&image, &plyfs, &workloads, &sizes(options), rounds, options.output().as_deref())
        }
        Some(Command::Union(unions)) => run_unions(options, unions),
        Some(Command::Fat { only }) => fat::run(&fat::FatOptions {
            plyfs: &options.plyfs,
            families: &options.subjects,
            parts: only,
            rounds: options.rounds(ROUNDS),
            quick: options.quick,
            output: options.output().as_deref(),
        }),
    }
}

fn run_unions(options: &Options, unions: &Unions) -> Result<bool> {
    let mut branches = unions.branches.clone();
    branches.sort_unstable();
    branches.dedup();
    let all = subjects::unions(&options.plyfs, &unions.unions, &options.plyfs_arguments, &branches);
    let subjects = select_subjects(options, all)?;
    let workloads = select_union_workloads(&unions.only)?;
    let mut sizes = sizes(options);
    sizes.copies = unions.copies.unwrap_or(if options.quick { 1 } else { UNION_COPIES });
    let most = branches.last().copied().unwrap_or(1) as u64;
    // All copies in all branches, an equal number of whiteouts, and the files of postmark.
    let inodes = 200_000 + 2 * most * u64::from(sizes.copies) * MAX_OBJECTS_PER_COPY;
    let image = new_image(options, Some(inodes))?;
    let rounds = |workload: &Workload| {
        options.rounds(if workloads::LAYOUTS.iter().any(|tree| tree.name == workload.name) { UNION_ROUNDS } else { 1 })
    };
    run::unions(&image, &subjects, &workloads, &sizes, rounds, options.output().as_deref())
}

/// Creates the image, after registering everything that a signal must tear down.
fn new_image(options: &Options, inodes: Option<u64>) -> Result<Image> {
    image::enter_private_namespace()?;
    teardown::watch_signals()?;
    Image::create(options.image_gib << 30, inodes)
}

fn sizes(options: &Options) -> Sizes {
    let archive = options.archive.clone();
    if options.quick { Sizes::quick(archive) } else { Sizes::full(archive) }
}

fn select_subjects(options: &Options, all: Vec<Subject>) -> Result<Vec<Subject>> {
    let mut chosen = Vec::new();
    for subject in all {
        let wanted = options.subjects.is_empty() || options.subjects.iter().any(|name| *name == subject.family);
        if !wanted {
            continue;
        }
        match subject.unavailable_reason() {
            Some(reason) => eprintln!("bench: {} is left out: {reason}", subject.name),
            None => chosen.push(subject),
        }
    }
    for name in &options.subjects {
        if !subjects::FAMILIES.contains(&name.as_str()) {
            bail!("no subject is called {name:?}; there are {}", subjects::FAMILIES.join(", "));
        }
    }
    if chosen.is_empty() {
        bail!("none of the subjects asked for can do this, or none is installed");
    }
    Ok(chosen)
}

fn select_workloads(only: &[String]) -> Result<Vec<&'static Workload>> {
    let all = workloads::ALL;
    for name in only {
        if !all.iter().any(|workload| workload.name == name) {
            let names: Vec<_> = all.iter().map(|workload| workload.name).collect();
            bail!("no workload is called {name:?}; there are {}", names.join(", "));
        }
    }
    Ok(all.iter().filter(|workload| only.is_empty() || only.iter().any(|name| name == workload.name)).collect())
}

/// Selects the workloads for unions. A tree is two workloads, one for each layout.
fn select_union_workloads(only: &[String]) -> Result<Vec<&'static Workload>> {
    const NAMES: &[&str] = &["build", "postmark", "tree"];
    if let Some(name) = only.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!("no workload for unions is called {name:?}; there are {}", NAMES.join(", "));
    }
    let plain = workloads::ALL.iter().filter(|workload| matches!(workload.name, "build" | "postmark"));
    // The part before the comma; the layout is named after it.
    let family = |workload: &Workload| workload.name.split(',').next();
    let wanted = |workload: &&Workload| only.is_empty() || only.iter().any(|name| family(workload) == Some(name));
    Ok(plain.chain(workloads::LAYOUTS).filter(wanted).collect())
}
