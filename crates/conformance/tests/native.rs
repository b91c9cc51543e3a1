//! The tests themselves are right: the kernel's own file system in memory passes all of them.

use std::collections::HashSet;
use std::path::Path;

use plyfs_conformance::Mounted;

#[test]
fn a_plain_directory_passes() {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::Builder::new().prefix("conformance").tempdir_in(place).expect("a scratch directory");
    let subject = Mounted::new(directory.path()).expect("an open directory").titled("native");
    let report = plyfs_conformance::run(&subject, |_| true);
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
}

#[test]
fn names_are_unique_and_there_are_enough() {
    let names: HashSet<String> = plyfs_conformance::all().iter().map(|test| test.full_name()).collect();
    assert_eq!(names.len(), plyfs_conformance::all().len());
    assert!(names.len() >= 150, "only {} tests", names.len());
}
