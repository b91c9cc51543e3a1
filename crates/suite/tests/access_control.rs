//! Every stack of the matrix, by its vnodes: it admits whom it declares to admit.

use std::collections::HashSet;

use suite::Place;
use suite::matrix::{self, Means};
use suite::plan::{Plan, Sort};
use suite::reach::Reach;
use vnode::AccessControl;

/// The stacks of the matrix that can be changed, each once. By its vnodes a stack is the same however it is reached.
fn stacks() -> Vec<Plan> {
    let means = Means { is_root: true, can_mount: false, has_uring: false };
    let mut plans = [matrix::single(means), matrix::double(means)].concat();
    let mut known = HashSet::new();
    plans.retain(|plan| plan.reach == Reach::Tree && plan.sort == Sort::Ordinary && known.insert(plan.title()));
    plans
}

#[test]
fn every_stack_admits_whom_it_declares_to_admit() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: to act as several users needs root");
        return;
    }
    let mut wrong = Vec::new();
    let mut declared = HashSet::new();
    for plan in stacks() {
        // Where the other temporary files are, there may be no access control lists.
        let place = if plan.in_memory { Place::plain() } else { Place::image(64) }.unwrap();
        let file_system = plan.build(&place).unwrap_or_else(|error| panic!("{}: {error}", plan.title()));
        declared.insert(file_system.properties().access_control);
        if let Err(failure) = conformance::check_access_control(&*file_system) {
            wrong.push(format!("{}: {failure}", plan.title()));
        }
    }
    assert!(wrong.is_empty(), "{} stacks: {}", wrong.len(), wrong.join("\n"));
    assert!(declared.contains(&AccessControl::AsShown) && declared.contains(&AccessControl::OpenAsShown));
}
