//! Many concurrent programs: the throughput of one, the throughput of all together, and the waiting time of each.
use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, mkdirat, openat, statx, unlinkat};

use super::sizes::Sizes;
use crate::session::Session;
use crate::tree::open_directory;

const PROGRAM_COUNT: u64 = 16;
const FILE_BYTES: usize = 4096;

/// The results of one program.
struct ProgramTimes {
    /// Duration of each of its turns.
    turns: Vec<Duration>,
    /// Time at which it finished, since all began.
    end: Duration,
}

/// Steps: this many turns by one program and by 16 together; for both, the 99th percentile of the turns; and the time at which
/// the first of the 16 finished its share. If that is much earlier than the last, others had to wait for it.
pub(crate) fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    let turns = sizes.latency_operations;
    session.mount()?;
    let single = session.time_operations("turn of 1 program", turns, |top| run_programs(&top.join("one"), 1, turns))?;
    session.record("turn of 1 program, 99 of 100", 1, percentile_99(&single));
    let all = session
        .time_operations("turn of 16 programs", turns, |top| run_programs(&top.join("all"), PROGRAM_COUNT, turns))?;
    session.record("turn of 16 programs, 99 of 100", 1, percentile_99(&all));
    let first = all.iter().map(|done| done.end).min().unwrap_or_default();
    session.record("turn of 16 programs, first to end", turns, first);
    for directory in ["one", "all"] {
        std::fs::remove_dir_all(session.directory().join(directory))?;
    }
    session.unmount()
}

/// Runs this many programs with this many turns in total, each in its own directory.
fn run_programs(directory: &Path, programs: u64, turns: u64) -> Result<Vec<ProgramTimes>> {
    std::fs::create_dir(directory)?;
    let top = open_directory(directory)?;
    let begin = Barrier::new(programs as usize);
    std::thread::scope(|scope| {
        let start = |number: u64| {
            let (top, begin) = (&top, &begin);
            scope.spawn(move || -> Result<ProgramTimes> {
                let own = CString::new(number.to_string())?;
                // All threads reach the barrier, including those that cannot continue.
                let created = mkdirat(top, &own, Mode::RWXU);
                begin.wait();
                created?;
                let own = openat(top, &own, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
                let started = Instant::now();
                let turns = (0..turns / programs).map(|_| run_turn(&own)).collect::<Result<_>>()?;
                Ok(ProgramTimes { turns, end: started.elapsed() })
            })
        };
        let programs: Vec<_> = (0..programs).map(start).collect();
        programs.into_iter().map(|program| program.join().map_err(|_| anyhow!("it panicked"))?).collect()
    })
}

/// Creates and writes a file, queries its attributes, opens it again, reads it, and removes it.
fn run_turn(directory: &OwnedFd) -> Result<Duration> {
    let started = Instant::now();
    let name = c"file";
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    File::from(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?).write_all_at(&[1; FILE_BYTES], 0)?;
    let found = statx(directory, name, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS)?;
    anyhow::ensure!(found.stx_size == FILE_BYTES as u64, "a new file has {} bytes", found.stx_size);
    File::from(openat(directory, name, OFlags::RDONLY, Mode::empty())?)
        .read_exact_at(&mut [0; FILE_BYTES], 0)
        .context("what was written is not there")?;
    unlinkat(directory, name, AtFlags::empty())?;
    Ok(started.elapsed())
}

fn percentile_99(all: &[ProgramTimes]) -> Duration {
    let mut turns: Vec<_> = all.iter().flat_map(|done| &done.turns).copied().collect();
    turns.sort_unstable();
    turns.get(turns.len() * 99 / 100).copied().unwrap_or_default()
}
