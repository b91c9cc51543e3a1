//! Recovery when a volume is mounted: completes what the journal holds, and repairs what is safe to repair after a power failure.

use std::fmt;

use vnode::Timestamp;

use crate::device::DeviceRef;

use super::format::CodePage;
use super::options::{MetadataMode, Options};
use super::tools::ToolError;
use super::tools::fsck::{FsckMode, FsckOptions, FsckReport, LostChains, RepairChoice, fsck};

/// Memory of a check for each cluster, in bits.
const BITS_PER_CLUSTER: u64 = 4;

/// Memory that a check may always take, in bytes.
const MEMORY_MIN: u64 = 32 << 20;

/// Result of [`preen`].
#[derive(Debug)]
pub(crate) enum Preened {
    /// Nothing is left to repair; so many problems were found.
    Sound(u64),
    /// These problems are left, which only a full check repairs.
    Left(LeftProblems),
    /// The volume has too many clusters to check them within the memory of the options.
    TooLarge,
    /// The check could not be completed.
    Failed(ToolError),
}

/// Problems that preening leaves, as messages name them.
#[derive(Debug)]
pub(crate) struct LeftProblems(String);

/// Makes the repairs by which nothing is lost. Lost clusters become files in the root directory.
pub(crate) fn preen(device: DeviceRef, clusters: u32, options: &Options) -> Preened {
    if u64::from(clusters) * BITS_PER_CLUSTER / 8 > options.memory.max(MEMORY_MIN) {
        return Preened::TooLarge;
    }
    let check = FsckOptions {
        mode: FsckMode::Preen,
        lost: LostChains::Save,
        page: CodePage::by_number(options.code_page).unwrap_or_default(),
        dosfs: options.metadata == MetadataMode::Paper,
        time: Timestamp::now(),
        offset_minutes: options.time_offset_minutes,
        ..FsckOptions::default()
    };
    match fsck(device, &check, &mut |_| RepairChoice::Leave, &mut |_| {}) {
        Ok(report) if report.unrepaired() == 0 => Preened::Sound(report.found()),
        Ok(report) => Preened::Left(LeftProblems::of(&report)),
        Err(error) => Preened::Failed(error),
    }
}

impl LeftProblems {
    fn of(report: &FsckReport) -> Self {
        let left = report.counts.iter().filter(|(_, count)| count.found > count.repaired);
        let left: Vec<String> = left.map(|(code, count)| format!("{} {code}", count.found - count.repaired)).collect();
        Self(left.join(", "))
    }
}

impl fmt::Display for LeftProblems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
