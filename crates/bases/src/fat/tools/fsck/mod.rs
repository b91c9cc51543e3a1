//! Checks a file system and repairs it.
//!
//! All problems but two are repaired without a question: a chain with a loop, and two chains that meet. Repairs that only
//! change an entry or end a chain come first, in any order, since each leaves a file system from which nothing is lost;
//! clusters become free only after everything before is stable. So an interrupted repair is finished by the next one.

mod after_end;
mod boot;
mod checker;
mod claim;
mod context;
mod directory;
mod dots;
mod hard_links;
mod long_slots;
mod lost;
mod names;
mod options;
mod own_files;
mod owner;
mod problem;
mod problem_text;
mod question;
mod report;
mod save;
mod saved;
mod sharing;
mod stored_links;
mod tables;
mod unreadable;
mod walk;

pub use options::{FsckMode, FsckOptions, LostChains};
pub use problem::{Problem, RepairKind};
pub use question::{Question, RepairChoice, RepairChoiceCallback};
pub use report::{Finding, FindingCount, FsckReport, Repair};

use super::error::ToolError;
use super::progress::ProgressCallback;
use crate::device::DeviceRef;
use checker::Checker;

/// Number of times that a check starts again because repairs have failed.
const FAILURES_MAX: u32 = 2;

/// Checks the file system of a device, which nothing else may use meanwhile.
///
/// `answer` is only called in the mode [`FsckMode::Repair`]. A file system whose boot sector cannot be repaired is reported
/// with that finding only.
///
/// # Errors
/// If tables cannot be read in any copy, or the device does not take any writes.
pub fn fsck(
    device: DeviceRef,
    options: &FsckOptions,
    answer: RepairChoiceCallback<'_>,
    progress: ProgressCallback<'_>,
) -> Result<FsckReport, ToolError> {
    let mut report = FsckReport::default();
    let Some(volume) = boot::open_volume(device, options.mode, &mut report)? else { return Ok(report) };
    let mut checker = Checker::new(volume, report, options, answer, progress);
    // Nothing is written before it is known which table to believe.
    checker.check_tables()?;
    checker.check_boot()?;
    checker.flush_repairs()?;
    let mut failures = 0;
    let is_whole = loop {
        let before = checker.report.unrepaired();
        let starts_again = checker.check_files()?;
        // What had no room may have some after the other repairs.
        failures += u32::from(checker.has_failed);
        let tries_again = checker.has_failed && failures <= FAILURES_MAX;
        if !starts_again && !tries_again || checker.restarts == 0 {
            break !starts_again && checker.report.unrepaired() == before;
        }
        checker.restart();
    };
    checker.check_hard_links(is_whole)?;
    checker.flush_repairs()?;
    checker.check_label()?;
    checker.check_info()?;
    checker.finish_state()?;
    checker.note_oddities();
    Ok(checker.report)
}

impl Checker<'_> {
    /// Checks everything that the tables and directories hold. Returns whether the check is to start again.
    fn check_files(&mut self) -> Result<bool, ToolError> {
        self.check_tree()?;
        self.flush_repairs()?;
        if self.check_shared()? {
            return Ok(true);
        }
        self.flush_repairs()?;
        let starts_again = self.check_lost()?;
        self.flush_repairs()?;
        Ok(starts_again)
    }

    /// Makes the repairs of a phase stable before those of the next one.
    fn flush_repairs(&mut self) -> Result<(), ToolError> {
        if self.has_written() { self.volume.flush() } else { Ok(()) }
    }
}
