//! FAT file systems beside ext4, the raw device and other implementations: the tables of the DosFs paper made again.
mod dataset;
pub(crate) mod device_limit;
pub(crate) mod formulas;
mod loop_image;
mod mtools;
mod operations;
pub(crate) mod results;
mod subject;
mod transfers;
pub(crate) mod utilisation;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::image::{enter_private_namespace, mount_root, require_memory};
use crate::measure::{Sample, WorkloadResult};
use crate::report::{self, Machine};
use crate::run::order;
use crate::teardown;
use device_limit::LIMIT;
use loop_image::LoopImage;
use operations::Repetitions;
use results::{FatResults, Transfers};
use subject::{EXT4, FAMILIES, FatSubject, RAW};

/// The parts, as `--only` names them.
pub(crate) const PARTS: [&str; 4] = ["utilisation", "transfers", "limited", "operations"];

/// Bytes that are written and read to see that the limit is in force, and at least with the limit: what the kernel transfers at once before
/// it limits, up to a tenth of a second's worth, is then a small part.
const LIMITED_BYTES: u64 = 96 << 20;

/// Maximum time that a subject may take for a part in one round; beyond it, the subject is considered hung.
const MAX_TURN: Duration = Duration::from_secs(5 * 60);

/// What to run.
pub(crate) struct FatOptions<'a> {
    /// The plyfs program.
    pub plyfs: &'a Path,
    /// Families of subjects; empty: all.
    pub families: &'a [String],
    /// Parts; empty: all.
    pub parts: &'a [String],
    /// Number of rounds.
    pub rounds: u32,
    /// Small sizes.
    pub quick: bool,
    /// Where the files of results go.
    pub output: Option<&'a Path>,
}

/// Runs the parts, prints and writes the results; returns whether every subject completed everything.
pub(crate) fn run(options: &FatOptions<'_>) -> Result<bool> {
    check_names(options.families, &FAMILIES, "subject")?;
    check_names(options.parts, &PARTS, "part")?;
    let (subjects, left_out) = available(options);
    let bytes: u64 = if options.quick { 16 << 20 } else { 256 << 20 };
    let image_bytes = if options.quick { 128 << 20 } else { 600 << 20 };
    let bytes_max = bytes.max(LIMITED_BYTES);
    // The tmpfs also has both files of mtools; the page cache has the file as such and as a part of the device.
    require_memory(image_bytes + 2 * bytes_max, image_bytes + 2 * bytes_max)?;
    enter_private_namespace()?;
    teardown::watch_signals()?;
    let root = mount_root(image_bytes + 2 * bytes_max + (64 << 20))?;
    let outcome = measure(options, &root, &subjects, left_out, bytes, image_bytes);
    teardown::end();
    outcome
}

fn measure(
    options: &FatOptions<'_>,
    root: &Path,
    subjects: &[FatSubject],
    left_out: BTreeMap<String, String>,
    bytes: u64,
    image_bytes: u64,
) -> Result<bool> {
    let runs = |part: &str| options.parts.is_empty() || options.parts.iter().any(|name| name == part);
    let descriptions = subjects.iter().map(FatSubject::description).collect();
    let machine = Machine { file_system: "a loop device, its image on a tmpfs".to_owned(), ..Machine::current() };
    let mut results = FatResults::new(machine, descriptions, left_out);
    if runs("utilisation") {
        let floppy = LoopImage::create(root, "floppy", utilisation::FLOPPY_BYTES)?;
        results.utilisation = Some(utilisation::run(&floppy, options.plyfs));
    }
    let image = LoopImage::create(root, "image", image_bytes)?;
    let transfer = |part, bytes| {
        let result = rounds(options, subjects, part, RAW, |subject| transfers::run(&image, subject, bytes));
        Some(Transfers { bytes, result })
    };
    if runs("transfers") {
        results.transfers = transfer("transfers", bytes);
    }
    if runs("limited") {
        match limit(&image) {
            Ok(()) => results.limited = transfer("limited", bytes.max(LIMITED_BYTES)),
            Err(error) => drop(results.left_out.insert("limited".to_owned(), format!("{error:#}"))),
        }
        teardown::end_device_limit();
    }
    if runs("operations") {
        let repetitions = if options.quick { Repetitions::QUICK } else { Repetitions::FULL };
        let run = |subject: &FatSubject| operations::run(&image, subject, repetitions);
        results.operations = Some(rounds(options, subjects, "operations", EXT4, run));
    }
    drop(image);
    print!("{}", report::fat::text(&results));
    let is_complete = results.is_complete();
    if let Some(directory) = options.output {
        report::write_fat(directory, &mut results)?;
    }
    Ok(is_complete)
}

/// Limits the transfer rate of the device, and checks that the kernel does it.
fn limit(image: &LoopImage) -> Result<()> {
    teardown::limit_device(image.device(), LIMIT)?;
    for sample in transfers::device(image, LIMITED_BYTES)? {
        let rate = LIMITED_BYTES as f64 / sample.seconds;
        if rate > 1.5 * LIMIT as f64 {
            bail!("the kernel does not limit the device: {} {:.0} MB/s", sample.step, rate / 1e6);
        }
    }
    Ok(())
}

/// Runs a part of all subjects in turns. Without the reference, ratios refer to the first subject.
fn rounds(
    options: &FatOptions<'_>,
    subjects: &[FatSubject],
    part: &str,
    reference: &str,
    run: impl Fn(&FatSubject) -> Result<Vec<Sample>>,
) -> WorkloadResult {
    let has_reference = subjects.iter().any(|subject| subject.name == reference);
    let first = subjects.first().map_or(reference, |subject| &subject.name);
    let reference = if has_reference { reference } else { first }.to_owned();
    let (rounds, quick, load_average) = (options.rounds, options.quick, procfs::load_average());
    let mut result = WorkloadResult { reference, rounds, quick, load_average, ..WorkloadResult::default() };
    for round in 0..rounds {
        for subject in order(subjects, |subject| subject.name == result.reference, round as usize) {
            if result.failures.contains_key(&subject.name) {
                continue;
            }
            match with_deadline(|| run(subject)) {
                Ok(samples) => {
                    eprintln!("bench: {part}, round {} of {rounds}, {}", round + 1, subject.name);
                    result.add(&subject.name, &samples);
                }
                Err(error) => {
                    eprintln!("bench: {part}, {} FAILED: {error:#}", subject.name);
                    result.fail(&subject.name, format!("{error:#}"));
                }
            }
        }
    }
    result.compute_medians();
    result
}

/// Runs the work; if it hangs, all running programs are killed, so that every blocked call returns.
fn with_deadline<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        let watchdog = scope.spawn(move || {
            let is_late = waiting.recv_timeout(MAX_TURN) == Err(RecvTimeoutError::Timeout);
            if is_late {
                teardown::kill_all();
            }
            is_late
        });
        let outcome = work();
        drop(done);
        match watchdog.join() {
            Ok(true) => outcome.and_then(|_| bail!("not done after {} seconds", MAX_TURN.as_secs())),
            _ => outcome,
        }
    })
}

/// Returns the subjects that were asked for and can be measured, and the reasons of the others.
fn available(options: &FatOptions<'_>) -> (Vec<FatSubject>, BTreeMap<String, String>) {
    let (mut chosen, mut left_out) = (Vec::new(), BTreeMap::new());
    for subject in subject::all(options.plyfs) {
        if !options.families.is_empty() && !options.families.iter().any(|name| name == subject.family) {
            continue;
        }
        match subject.unavailable_reason() {
            Some(reason) => {
                eprintln!("bench: {} is left out: {reason}", subject.name);
                left_out.insert(subject.name, reason);
            }
            None => chosen.push(subject),
        }
    }
    (chosen, left_out)
}

fn check_names(given: &[String], known: &[&str], what: &str) -> Result<()> {
    match given.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => bail!("no {what} is called {name:?}; there are {}", known.join(", ")),
        None => Ok(()),
    }
}
