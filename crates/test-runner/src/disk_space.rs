//! The space of the directories that tests write to: without it, they fail for no fault of the project.

use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

/// Space that a whole run needs at most at the same time, in bytes.
const RUN_BYTES: u64 = 4 << 30;

/// Space below which a failed test may have found none, in bytes: others may have been using it.
const SCARCE_BYTES: u64 = 512 << 20;

/// Returns what to report before a run whose results are in this directory, if it may find too little space.
pub(crate) fn before_run(results: &Path) -> Option<String> {
    let (directory, free) = least(results)?;
    (free < RUN_BYTES).then(|| {
        let (directory, free, needed) = (directory.display(), free >> 20, RUN_BYTES >> 20);
        format!("{directory} has {free} MiB free, and tests need up to {needed} MiB: they may fail without space")
    })
}

/// Returns what to report with failed tests, if they may have found no space.
pub(crate) fn after_failure(results: &Path) -> Option<String> {
    let (directory, free) = least(results)?;
    (free < SCARCE_BYTES).then(|| format!("{} has only {} MiB free now", directory.display(), free >> 20))
}

/// Returns the directory with the least free space of those that tests write to, and that space in bytes.
fn least(results: &Path) -> Option<(PathBuf, u64)> {
    let directories = [std::env::temp_dir(), results.to_owned()].into_iter();
    let with_space = directories.filter_map(|directory| {
        let space = statvfs(&directory).ok()?;
        Some((directory, space.f_bavail.saturating_mul(space.f_frsize)))
    });
    with_space.min_by_key(|(_, free)| *free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_with_the_least_space_is_found() {
        let (directory, free) = least(Path::new("/proc")).unwrap();
        assert_eq!((directory.as_path(), free), (Path::new("/proc"), 0), "it has no space at all");
        assert!(before_run(&directory).unwrap().starts_with("/proc has 0 MiB free"));
        assert!(after_failure(&directory).unwrap().starts_with("/proc has only 0 MiB free"));
    }
}
