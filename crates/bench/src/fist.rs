//! FiST programs, compared with the stack without them and with the same filter in Rust, and the time of mounting them.
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use serde::Serialize;

use crate::image::Image;
use crate::measure::{WorkloadResult, median};
use crate::report::{self, Machine, table};
use crate::run::interleave;
use crate::subjects::{self, Subject};
use crate::workloads::{Sizes, Workload};

/// The workloads of a plain run.
pub(crate) const WORKLOADS: [&str; 4] = ["build", "postmark", "tree", "sequential"];

/// Control: the stack that the others are compared with, and FiST programs that leave data unchanged.
const CONTROL_STACKS: [&str; 3] = ["{}", "{} | ./crates/bench/empty.fist", "{} | ./examples/fist/snoopfs.fist"];
/// A filter of data in Rust, and as a FiST program.
const FILTER_STACKS: [&str; 2] = ["{} | rot13", "{} | ./examples/fist/rot13fs.fist"];
/// The workload that transfers data.
const DATA_WORKLOAD: &str = "sequential";
/// Number of mounts of each stack.
const MOUNT_COUNT: usize = 15;

/// The program under test.
pub(crate) struct PlyfsProgram<'a> {
    /// Path of the program.
    pub program: &'a Path,
    /// Additional arguments for `plyfs mount`.
    pub arguments: &'a str,
}

#[derive(Serialize)]
struct FistResults {
    machine: Machine,
    control: BTreeMap<String, WorkloadResult>,
    filters: Option<WorkloadResult>,
    /// Milliseconds from the start of `plyfs mount` until a file is visible.
    mounting: BTreeMap<String, Vec<f64>>,
}

/// Runs the workloads, mounts the stacks, prints and writes the figures; returns whether every stack completed everything.
pub(crate) fn run(
    image: &Image,
    plyfs: &PlyfsProgram<'_>,
    workloads: &[&Workload],
    sizes: &Sizes,
    rounds: u32,
    output: Option<&Path>,
) -> Result<bool> {
    let control = subjects::stacks(plyfs.program, &CONTROL_STACKS, plyfs.arguments);
    let filters = subjects::stacks(plyfs.program, &FILTER_STACKS, plyfs.arguments);
    let mut results =
        FistResults { machine: Machine::current(), control: BTreeMap::new(), filters: None, mounting: BTreeMap::new() };
    let mut text = String::new();
    let mut show = |name: &str, result: &WorkloadResult, subjects: &[Subject]| {
        let names: Vec<_> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        let shown = table::one(name, result, &names);
        print!("{shown}");
        text += &shown;
    };
    for workload in workloads {
        let result = interleave(image, &control, workload, sizes, rounds);
        show(workload.name, &result, &control);
        results.control.insert(workload.name.to_owned(), result);
        if workload.name == DATA_WORKLOAD {
            let result = interleave(image, &filters, workload, sizes, rounds);
            show(workload.name, &result, &filters);
            results.filters = Some(result);
        }
    }
    results.mounting = mounting(image, plyfs)?;
    let shown = mounting_table(&results.mounting);
    print!("{shown}");
    text += &shown;
    if let Some(directory) = output {
        report::write_json(directory, "fist.json", &results)?;
        report::write_text(directory, "fist.md", &markdown(&results.machine, &text))?;
    }
    Ok(results.control.values().chain(&results.filters).all(|result| result.failures.is_empty()))
}

/// Measures the time of mounting, with the stacks in turn.
fn mounting(image: &Image, plyfs: &PlyfsProgram<'_>) -> Result<BTreeMap<String, Vec<f64>>> {
    let (data, mount_point) = (image.directory().join("mounted"), image.mount_point(0)?);
    std::fs::create_dir(&data)?;
    std::fs::write(data.join("file"), "seen")?;
    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..MOUNT_COUNT {
        for stack in CONTROL_STACKS.into_iter().chain(FILTER_STACKS) {
            let expression = stack.replace("{}", &data.to_string_lossy());
            let begin = Instant::now();
            let mut command = Command::new(plyfs.program);
            command.arg("mount").args(plyfs.arguments.split_whitespace()).arg(expression).arg(&mount_point);
            let output = command.output().context("cannot start plyfs")?;
            if !output.status.success() {
                bail!("cannot mount {stack}: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            std::fs::metadata(mount_point.join("file")).context("the mount is not usable")?;
            times.entry(stack.replace("{}", "dir")).or_default().push(begin.elapsed().as_secs_f64() * 1e3);
            unmount(&mount_point, UnmountFlags::empty()).context("cannot unmount")?;
        }
    }
    std::fs::remove_dir_all(&data)?;
    Ok(times)
}

fn mounting_table(times: &BTreeMap<String, Vec<f64>>) -> String {
    let mut text =
        format!("\nmilliseconds from the start of plyfs mount until a file is seen (median of {MOUNT_COUNT})\n");
    for (stack, times) in times {
        let most = times.iter().copied().fold(0.0, f64::max);
        writeln!(text, "{stack:<42}{:>8.1}, at most {most:.1}", median(times.clone()))
            .expect("a String takes everything");
    }
    text
}

fn markdown(machine: &Machine, text: &str) -> String {
    format!(
        "# FiST programs\n\nBy `bench fist`: Linux {}, {} CPUs, {} GiB, {}. `empty.fist` has no rules;\n`snoopfs.fist` observes \
         lookups; `rot13fs.fist` filters data in compiled code, as the layer `rot13` does in Rust.\n\
         \n```text{text}```\n",
        machine.kernel, machine.cores, machine.memory_gib, machine.file_system
    )
}
