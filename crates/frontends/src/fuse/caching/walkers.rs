//! Processes that list one directory after the other, and whether they look up what is in them.
//!
//! Of a directory that is listed for the first time nothing is known, but something is of the process: a walk of `ls -lR`, `chown -R`
//! or an archiver looks up every file of every directory, one of find(1) by name looks up none. The first kind gets attributes with
//! the entries, which saves it a request for each file. Some listings go without them, to see whether it still uses them.

use std::sync::{Mutex, PoisonError};

const SLOTS: usize = 64;
/// One in so many listings of a process that looks up what it lists goes without attributes.
const SAMPLING_INTERVAL: u32 = 16;

/// One slot per process or thread, found by its ID. Processes may share a slot; the latest has it.
pub(crate) struct Walkers {
    slots: Box<[Mutex<Walker>]>,
}

#[derive(Default)]
struct Walker {
    pid: u32,
    /// Number of listings begun.
    listings: u32,
    looks_up: bool,
    /// The directory that it has listed last, if without attributes.
    sample: Option<Sample>,
}

struct Sample {
    directory: u64,
    /// Number of objects listed, other than directories: a walk has to look these up.
    files: u32,
    looked_up: u32,
    /// Whether a directory was looked up: the walk may return to the files later.
    has_descended: bool,
}

impl Walkers {
    pub(crate) fn new() -> Walkers {
        Walkers { slots: (0..SLOTS).map(|_| Mutex::default()).collect() }
    }

    /// Records that a process begins to list a directory; returns whether it will look up what is in it.
    pub(crate) fn begin_listing(&self, pid: u32, directory: u64) -> bool {
        self.with(pid, |walker| {
            if let Some(Sample { files: 1.., looked_up: 0, has_descended: false, .. }) = walker.sample {
                walker.looks_up = false;
            }
            walker.listings = walker.listings.wrapping_add(1);
            let predicted = walker.looks_up && !walker.listings.is_multiple_of(SAMPLING_INTERVAL);
            let sample = Sample { directory, files: 0, looked_up: 0, has_descended: false };
            walker.sample = (!predicted).then_some(sample);
            predicted
        })
    }

    /// Records that a process was given entries of a directory without attributes, of which so many are no directories.
    pub(crate) fn record_files(&self, pid: u32, directory: u64, files: u32) {
        self.with_sample(pid, directory, |sample, _| sample.files = sample.files.saturating_add(files));
    }

    /// Records that a process has looked up an object of a directory and found it.
    pub(crate) fn record_lookup(&self, pid: u32, directory: u64, is_directory: bool) {
        self.with_sample(pid, directory, |sample, looks_up| {
            sample.has_descended |= is_directory;
            sample.looked_up += u32::from(!is_directory);
            *looks_up |= sample.looked_up > 0 && sample.looked_up >= sample.files / 2;
        });
    }

    /// Runs a function on the process's sample, and on whether it looks up what it lists, if the sample is that directory.
    fn with_sample(&self, pid: u32, directory: u64, run: impl FnOnce(&mut Sample, &mut bool)) {
        self.with(pid, |Walker { sample, looks_up, .. }| {
            if let Some(sample) = sample.as_mut().filter(|sample| sample.directory == directory) {
                run(sample, looks_up);
            }
        });
    }

    fn with<T>(&self, pid: u32, run: impl FnOnce(&mut Walker) -> T) -> T {
        let mut walker = self.slots[pid as usize % SLOTS].lock().unwrap_or_else(PoisonError::into_inner);
        if walker.pid != pid {
            *walker = Walker { pid, ..Walker::default() };
        }
        run(&mut walker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists directories of so many files, and looks up so many of each; returns how many came with attributes.
    fn walk(walkers: &Walkers, pid: u32, directories: u64, files: u32, looked_up: u32) -> u32 {
        (0..directories)
            .map(|directory| {
                let predicted = walkers.begin_listing(pid, directory);
                if !predicted {
                    walkers.record_files(pid, directory, files);
                    (0..looked_up).for_each(|_| walkers.record_lookup(pid, directory, false));
                }
                u32::from(predicted)
            })
            .sum()
    }

    #[test]
    fn a_walk_that_looks_everything_up_gets_attributes_but_for_samples() {
        let walkers = Walkers::new();
        let predicted = walk(&walkers, 7, 160, 10, 10);
        assert!((149..160).contains(&predicted), "{predicted}");
    }

    #[test]
    fn a_walk_by_name_gets_none() {
        let walkers = Walkers::new();
        assert_eq!(walk(&walkers, 7, 160, 10, 0), 0);
        assert_eq!(walk(&walkers, 8, 160, 10, 1), 0, "one of ten is no walk");
    }

    #[test]
    fn a_process_that_changes_its_ways_is_noticed() {
        let walkers = Walkers::new();
        walk(&walkers, 7, 20, 10, 10);
        let predicted = walk(&walkers, 7, 160, 10, 0);
        assert!(predicted < 2 * SAMPLING_INTERVAL, "{predicted}");
    }

    #[test]
    fn files_that_are_looked_up_after_the_directories_below_are_no_reason_to_stop() {
        let walkers = Walkers::new();
        walk(&walkers, 7, 20, 10, 10);
        let listing =
            (0..SAMPLING_INTERVAL as u64).find(|directory| !walkers.begin_listing(7, 100 + directory)).unwrap();
        walkers.record_files(7, 100 + listing, 10);
        walkers.record_lookup(7, 100 + listing, true);
        assert!(walkers.begin_listing(7, 200));
    }

    #[test]
    fn the_slot_of_another_process_starts_anew() {
        let walkers = Walkers::new();
        walk(&walkers, 7, 20, 10, 10);
        assert!(!walkers.begin_listing(7 + SLOTS as u32, 1));
    }
}
