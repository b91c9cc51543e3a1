//! Benchmarks: workloads timed on a mount and beside it on the lower file system and on peers.
mod image;
mod measure;
mod memory;
mod report;
mod run;
mod session;
mod subjects;
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
    /// Microseconds per single operation, for tuning
    Latency,
}

#[derive(Args)]
struct Options {
    /// Subjects to run, separated by commas: native, plyfs, overlayfs, bindfs, mergerfs, fuse-overlayfs, unionfs-fuse
    #[arg(long, global = true, value_delimiter = ',', value_name = "SUBJECT")]
    subjects: Vec<String>,
    /// How often each subject does each workload (default: 5; 1 with --quick); the figures are medians
    #[arg(long, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Small sizes: shows in about a minute that all works, the figures mean little
    #[arg(long, global = true)]
    quick: bool,
    /// The plyfs program
    #[arg(long, global = true, value_name = "PATH", default_value = "target/release/plyfs")]
    plyfs: PathBuf,
    /// A stack to measure, with {} for the directory, or over: and layers, mounted over it; can be given several times
    #[arg(long = "stack", global = true, value_name = "EXPRESSION", default_values_t = ["{} | audit".to_owned(), "over: audit".to_owned(), "{}".to_owned()])]
    stacks: Vec<String>,
    /// More arguments for `plyfs mount`, separated by spaces
    #[arg(long, global = true, value_name = "ARGUMENTS", default_value = "", allow_hyphen_values = true)]
    plyfs_arguments: String,
    /// The source archive of openssh; scripts/bench-setup fetches it
    #[arg(long, global = true, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// Where results.json, results.md and chart.svg go (default: docs/bench; nowhere with --quick)
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

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 })
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

/// Whether every subject did every workload.
fn start(line: &CommandLine) -> Result<bool> {
    let options = &line.options;
    if !rustix::process::geteuid().is_root() {
        bail!("root is needed for the file system in RAM: run it with sudo");
    }
    let subjects = select_subjects(options)?;
    match line.command {
        None => {
            let chosen = select_workloads(&line.only)?;
            let image = new_image(options, None)?;
            run::run(&image, &subjects, &chosen, &sizes(options), options.rounds(), options.output().as_deref())
        }
        Some(Command::Latency) => {
            let image = new_image(options, None)?;
            run::latency(&image, &subjects, &sizes(options), options.rounds(), options.output().as_deref())
        }
        Some(Command::Memory { files }) => {
            let files = if options.quick { files.min(20_000) } else { files };
            let image = new_image(options, Some(files + files / 500 + 10_000))?;
            memory::run(&image, &subjects, files, options.output().as_deref())
        }
    }
}

/// The image, with whatever a signal must tear down registered first.
fn new_image(options: &Options, inodes: Option<u64>) -> Result<Image> {
    image::enter_private_namespace()?;
    teardown::watch_signals()?;
    Image::create(options.image_gib << 30, inodes)
}

fn sizes(options: &Options) -> Sizes {
    let archive = options.archive.clone();
    if options.quick { Sizes::quick(archive) } else { Sizes::full(archive) }
}

fn select_subjects(options: &Options) -> Result<Vec<Subject>> {
    let mut chosen = Vec::new();
    for subject in subjects::all(&options.plyfs, &options.stacks, &options.plyfs_arguments) {
        let wanted = options.subjects.is_empty() || options.subjects.iter().any(|name| *name == subject.family);
        if !wanted {
            continue;
        }
        match subject.missing() {
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
        bail!("none of the subjects asked for is installed");
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
