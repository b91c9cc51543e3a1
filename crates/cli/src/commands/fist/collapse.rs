//! `plyfs fist collapse`: FiST programs merged into one layer, what fires in it, and the resulting gain.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fist::explain::explain_together;
use vnode::{Caller, Creation, FileSystemRef, Name, OpenFlags};

use super::loading::load_checked;
use crate::commands::print;
use crate::exit::{Exit, Failure, Outcome};

/// Number of timings of each operation in either form, alternating; the median counts.
const TIMING_COUNT: usize = 15;
/// Time for which an operation is repeated in each timing.
const TIMING_DURATION: Duration = Duration::from_millis(4);
/// Size in bytes of the file that is read.
const FILE_BYTES: usize = 64 << 10;

/// Runs the command on FiST programs, lowest first.
pub(crate) fn run(files: &[PathBuf]) -> Outcome {
    let mut programs = Vec::new();
    for file in files {
        programs.push(load_checked(file)?);
    }
    check_collapsible(files)?;
    let levels: Vec<_> = programs.iter().rev().map(|one| (&one.program, one.text.as_str())).collect();
    let names: Vec<_> = programs.iter().map(|one| one.program.topmost().name.as_str()).collect();
    print(&format!("{} are one layer\n\n{}\n", names.join(" and "), explain_together(&levels)))?;
    print(&measure_gain(&build(files, &[])?, &build(files, &[("collapse".to_owned(), "no".to_owned())])?)?)
}

/// Reports what prevents FiST programs, lowest first, from being one layer.
pub(crate) fn check_collapsible(files: &[PathBuf]) -> Outcome {
    for (index, lower) in files.iter().enumerate() {
        for upper in &files[index + 1..] {
            if let Some(barrier) = stack::merge_barrier(upper, lower).map_err(build_failure)? {
                let (upper, lower) = (upper.display(), lower.display());
                let message = format!("cannot collapse {upper} and {lower} below it: {barrier}; stacked, they work");
                return Err(Failure::new(Exit::Failure, message));
            }
        }
    }
    Ok(())
}

fn build(files: &[PathBuf], options: &[(String, String)]) -> Outcome<FileSystemRef> {
    let memory = stack::syntax::parse("mem:").map_err(|error| build_failure(error.into()))?;
    let below = vec![stack::build(&memory).map_err(build_failure)?];
    let described: Vec<(&Path, _)> = files.iter().map(|file| (file.as_path(), options)).collect();
    stack::build_descriptions(&described, below).map_err(build_failure)
}

/// Returns a table of the times of operations, as one layer and stacked.
fn measure_gain(collapsed: &FileSystemRef, stacked: &FileSystemRef) -> Outcome<String> {
    let mut lines = vec!["in memory          stacked  one layer  ratio".to_owned()];
    let caller = Caller::server();
    for kind in [OperationKind::GetAttributes, OperationKind::Lookup, OperationKind::Open, OperationKind::Read] {
        let prepare =
            |file_system| TimedOperation::new(kind, file_system, &caller).map_err(|error| timing_failure(kind, error));
        let (one, other) = (prepare(collapsed)?, prepare(stacked)?);
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        for _ in 0..TIMING_COUNT {
            ones.push(one.mean_nanoseconds().map_err(|error| timing_failure(kind, error))?);
            others.push(other.mean_nanoseconds().map_err(|error| timing_failure(kind, error))?);
        }
        let (one, other) = (median(ones), median(others));
        lines.push(format!("{:<16} {other:>7.0} ns {one:>7.0} ns {:>6.2}", kind.name(), one / other));
    }
    Ok(lines.join("\n") + "\n")
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The operations that are timed.
#[derive(Clone, Copy)]
enum OperationKind {
    GetAttributes,
    Lookup,
    Open,
    Read,
}

impl OperationKind {
    const fn name(self) -> &'static str {
        match self {
            OperationKind::GetAttributes => "getattr",
            OperationKind::Lookup => "lookup",
            OperationKind::Open => "open and close",
            OperationKind::Read => "read 64 KiB",
        }
    }
}

/// An operation on a file in the root of a file system.
struct TimedOperation<'c> {
    kind: OperationKind,
    caller: &'c Caller,
    root: vnode::VnodeRef,
    vnode: vnode::VnodeRef,
    file: vnode::OpenFileRef,
}

impl TimedOperation<'_> {
    fn new<'c>(
        kind: OperationKind,
        file_system: &FileSystemRef,
        caller: &'c Caller,
    ) -> vnode::Result<TimedOperation<'c>> {
        let root = file_system.root();
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let created = match root.create(caller, Name::new(b"file")?, &how) {
            Err(vnode::Errno::EEXIST) => None,
            created => Some(created?),
        };
        if let Some(created) = &created {
            let mut done = 0;
            while done < FILE_BYTES {
                done += created.file.write_at(caller, done as u64, &vec![b'x'; FILE_BYTES - done])?;
            }
        }
        let vnode = root.lookup(caller, Name::new(b"file")?)?.vnode;
        let file = vnode.open(caller, OpenFlags::READ)?;
        Ok(TimedOperation { kind, caller, root, vnode, file })
    }

    fn run_once(&self, buffer: &mut [u8]) -> vnode::Result<()> {
        match self.kind {
            OperationKind::GetAttributes => self.vnode.getattr(self.caller).map(drop),
            OperationKind::Lookup => self.root.lookup(self.caller, Name::new(b"file")?).map(drop),
            OperationKind::Open => self.vnode.open(self.caller, OpenFlags::READ).map(drop),
            OperationKind::Read => self.file.read_at(self.caller, 0, buffer).map(drop),
        }
    }

    /// Returns the mean time of one operation, in nanoseconds.
    fn mean_nanoseconds(&self) -> vnode::Result<f64> {
        let mut buffer = vec![0; FILE_BYTES];
        let (begin, mut count) = (Instant::now(), 0_u32);
        while begin.elapsed() < TIMING_DURATION {
            for _ in 0..8 {
                self.run_once(&mut buffer)?;
                count += 1;
            }
        }
        Ok(begin.elapsed().as_nanos() as f64 / f64::from(count))
    }
}

fn build_failure(error: stack::BuildError) -> Failure {
    Failure::from_lines(Exit::Failure, &error.problem.to_string())
}

fn timing_failure(kind: OperationKind, error: vnode::Errno) -> Failure {
    let message = format!("{} is not timed: {error}; the programs refuse it before they are configured", kind.name());
    Failure::new(Exit::Failure, message)
}
