//! Positions: where the clusters of a file are, as far as its chain was followed.

use vnode::Result;

use super::run::Run;
use super::storage::Storage;
use super::table::Table;

/// Maximum number of runs that are remembered for a file; from there on every other one is forgotten.
const RUNS_MAX: usize = 2048;

/// A run of a file, as far as it is known.
#[derive(Clone, Copy, Debug)]
struct KnownRun {
    /// Index of the first cluster in the file.
    index: u32,
    run: Run,
}

impl KnownRun {
    fn end(&self) -> u32 {
        self.index + self.run.count
    }
}

/// The known runs of a chain, in order. Between two of them there may be unknown clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    runs: Vec<KnownRun>,
}

impl Positions {
    /// Returns the positions of a chain of which only the first cluster is known; 0 is that of an empty chain.
    pub(crate) fn new(first: u32) -> Self {
        let run = KnownRun { index: 0, run: Run { cluster: first, count: 1 } };
        Self { runs: if first == 0 { Vec::new() } else { vec![run] } }
    }

    /// Returns the first cluster; `None` of an empty chain.
    pub(crate) fn first(&self) -> Option<u32> {
        self.runs.first().map(|known| known.run.cluster)
    }

    /// Returns the clusters from `index` on, up to `count` and as far as they follow each other on the disk; `None` if the chain
    /// ends before.
    ///
    /// # Errors
    /// `EIO` if the chain is damaged up to there, or the table cannot be read.
    pub(crate) fn find(&mut self, table: &mut Table, storage: &Storage, index: u32, count: u32) -> Result<Option<Run>> {
        let after = self.runs.partition_point(|known| known.index <= index);
        let Some(mut at) = after.checked_sub(1) else { return Ok(None) };
        while self.runs[at].end() <= index {
            match self.step(table, storage, at)? {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        // Looks ahead, so that what is read or written at once is as large as possible.
        while self.runs[at].end() - index < count && self.step(table, storage, at)? == Some(at) {}
        let known = self.runs[at];
        let skipped = index - known.index;
        let run = Run { cluster: known.run.cluster + skipped, count: (known.run.count - skipped).min(count) };
        self.thin_out();
        Ok(Some(run))
    }

    /// Follows the chain by one cluster from the end of a known run. Returns the run that has the cluster, `None` at the end of the
    /// chain.
    fn step(&mut self, table: &mut Table, storage: &Storage, at: usize) -> Result<Option<usize>> {
        let known = self.runs[at];
        if self.runs.get(at + 1).is_some_and(|next| next.index == known.end()) {
            return Ok(Some(at + 1));
        }
        if known.end() > storage.geometry().clusters() {
            let first = self.first().unwrap_or(0);
            return Err(storage.damage("chain-loop", format_args!("the chain of cluster {first} has no end")));
        }
        match table.next(storage, known.run.last())? {
            None => Ok(None),
            Some(next) if next == known.run.last() + 1 => {
                self.runs[at].run.count += 1;
                Ok(Some(at))
            }
            Some(next) => {
                self.runs.insert(at + 1, KnownRun { index: known.end(), run: Run { cluster: next, count: 1 } });
                Ok(Some(at + 1))
            }
        }
    }

    /// Adds runs at the end of a chain of `length` clusters.
    pub(crate) fn append(&mut self, length: u32, runs: &[Run]) {
        let mut index = length;
        for &run in runs {
            match self.runs.last_mut() {
                Some(last) if last.end() == index && last.run.last() + 1 == run.cluster => last.run.count += run.count,
                _ => self.runs.push(KnownRun { index, run }),
            }
            index += run.count;
        }
        self.thin_out();
    }

    /// Forgets the clusters of a chain that is cut to `length` clusters.
    pub(crate) fn truncate(&mut self, length: u32) {
        self.runs.truncate(self.runs.partition_point(|known| known.index < length));
        if let Some(last) = self.runs.last_mut() {
            last.run.count = last.run.count.min(length - last.index);
        }
    }

    fn thin_out(&mut self) {
        if self.runs.len() > RUNS_MAX {
            let last = self.runs.len() - 1;
            let mut index = 0;
            self.runs.retain(|_| {
                let is_kept = index % 2 == 0 || index == last;
                index += 1;
                is_kept
            });
        }
    }
}
