//! Access control of every stack of the matrix, tested on its vnodes: the permissions granted are those declared.

use std::collections::HashSet;

use suite::TestDirectory;
use suite::access::StackAccess;
use suite::matrix::{self, Facilities};
use suite::plan::{Bottom, RunKind, RunPlan};
use vnode::AccessControl;

/// Returns each writable stack of the matrix once: on its vnodes, a stack is the same whatever the access.
fn stacks() -> Vec<RunPlan> {
    let facilities = Facilities { is_root: true, can_mount: false, has_uring: false };
    let mut plans = [matrix::single(facilities), matrix::double(facilities)].concat();
    let mut titles = HashSet::new();
    plans.retain(|plan| {
        plan.access == StackAccess::Tree && plan.run_kind == RunKind::Ordinary && titles.insert(plan.title())
    });
    plans
}

#[test]
fn every_stack_admits_whom_it_declares_to_admit() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: to act as several users needs root");
        return;
    }
    let mut failures = Vec::new();
    let mut declared = HashSet::new();
    for plan in stacks() {
        // The directory for temporary files may not support access control lists.
        let test_directory = match plan.bottom {
            Bottom::Directory => TestDirectory::image(64),
            Bottom::Memory | Bottom::Image | Bottom::Fat(_) => TestDirectory::plain(),
        };
        let test_directory = test_directory.unwrap();
        let file_system = plan.build(&test_directory).unwrap_or_else(|error| panic!("{}: {error}", plan.title()));
        declared.insert(file_system.properties().promises.access_control);
        if let Err(failure) = conformance::check_access_control(&*file_system) {
            failures.push(format!("{}: {failure}", plan.title()));
        }
    }
    assert!(failures.is_empty(), "{} stacks: {}", failures.len(), failures.join("\n"));
    assert!(declared.contains(&AccessControl::AsShown) && declared.contains(&AccessControl::OpenAsShown));
}
