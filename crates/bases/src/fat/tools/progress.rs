//! Progress of a tool, reported to its caller while it runs.

use std::fmt;

/// What a tool is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Comparing the file allocation tables.
    Tables,
    /// Checking directories and the files in them.
    Tree,
    /// Finding out which files share clusters.
    SharedClusters,
    /// Looking for clusters that belong to nothing.
    LostClusters,
    /// Reading the whole device.
    Surface,
    /// Moving files.
    Moving,
    /// Writing an empty file system.
    Formatting,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tables => "comparing tables",
            Self::Tree => "checking files",
            Self::SharedClusters => "looking for owners of shared clusters",
            Self::LostClusters => "looking for lost clusters",
            Self::Surface => "reading clusters",
            Self::Moving => "moving clusters",
            Self::Formatting => "writing",
        })
    }
}

/// How far a tool has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Number of clusters that are done, or of bytes of a table.
    pub done: u64,
    /// The number at the end of the phase; an upper bound where it is not known.
    pub total: u64,
}

/// Called now and then by a tool, more often at the beginning of each phase than later.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(Progress);

/// Reports progress in one phase, each time that a further 256th of it is done.
pub(crate) struct Meter {
    phase: Phase,
    total: u64,
    done: u64,
    reported: u64,
}

impl Meter {
    /// Begins a phase.
    pub(crate) fn start(phase: Phase, total: u64, report: ProgressCallback<'_>) -> Self {
        report(Progress { phase, done: 0, total });
        Self { phase, total, done: 0, reported: 0 }
    }

    /// Counts work that is done.
    pub(crate) fn add(&mut self, done: u64, report: ProgressCallback<'_>) {
        self.done = self.done.saturating_add(done).min(self.total);
        if self.done - self.reported >= (self.total / 256).max(1) {
            self.reported = self.done;
            report(Progress { phase: self.phase, done: self.done, total: self.total });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_grows_to_the_total_and_is_reported_seldom() {
        let mut reports = Vec::new();
        let mut report = |progress: Progress| reports.push(progress.done);
        let mut meter = Meter::start(Phase::Tree, 100_000, &mut report);
        (0..200_000).for_each(|_| meter.add(1, &mut report));
        assert!(reports.is_sorted() && reports.len() < 300);
        assert!(*reports.last().unwrap() > 99_000);
    }
}
