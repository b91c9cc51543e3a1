//! The conformance tests over each layer on a file system in memory: no layer breaks what it does not change.

mod common;

use common::codecs::CODECS;
use common::{layer, memory, small_memory};
use conformance::{Ability, Subject, Test, Tree, prepare, run};
use vnode::FileSystemRef;

/// What `mem` itself cannot do, less what the layer cannot do.
fn check(title: &str, file_system: FileSystemRef, lacking: &[Ability]) {
    check_subject(&without(Tree::new(file_system).titled(title), lacking));
}

fn without(tree: Tree, lacking: &[Ability]) -> Tree {
    let abilities = lacking.iter().fold(tree.abilities(), |abilities, ability| abilities.without(*ability));
    tree.limited_to(abilities)
}

fn check_subject(subject: &dyn Subject) {
    check_some(subject, |_| true);
}

fn check_some(subject: &dyn Subject, filter: impl Fn(&Test) -> bool) {
    let report = run(subject, filter);
    println!("{report}");
    assert!(report.failures.is_empty() && report.passed > 0, "see above");
}

/// Data layers copy nothing below and write zeros where they cannot keep holes.
const ENCODED: [Ability; 1] = [Ability::CopyRange];
const FILLED: [Ability; 4] = [Ability::CopyRange, Ability::Holes, Ability::Punch, Ability::LargeFiles];

#[test]
fn rot13_conforms() {
    check("rot13", layer("rot13", &[], memory()), &ENCODED);
}

#[test]
fn checksums_conform() {
    check("checksum", CODECS[3].1(4096, memory()), &ENCODED);
    // Holes of such a file begin and end where its blocks do, and not where those below do.
    let odd = [Ability::CopyRange, Ability::Holes, Ability::LargeFiles];
    check("checksum of odd blocks", CODECS[3].1(1000, memory()), &odd);
}

#[test]
fn xor_conforms() {
    check("xor", CODECS[2].1(4096, memory()), &FILLED);
}

#[test]
fn longnames_conforms() {
    check("longnames", layer("longnames", &[], memory()), &[Ability::FullNames]);
}

#[test]
fn audit_conforms() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let options = [("to", log.to_str().unwrap()), ("operations", "all"), ("path", "**")];
    check("audit", layer("audit", &options, memory()), &[]);
    check("audit of nothing", layer("audit", &[("to", log.to_str().unwrap())], memory()), &[]);
}

#[test]
fn map_that_changes_nothing_conforms() {
    check("map", layer("map", &[("hide", "*.hidden")], memory()), &[]);
}

#[test]
fn the_view_of_map_conforms() {
    let options = [("user-map", "70000/70001"), ("group-map", "70000/70001")];
    check("map with a view", layer("map", &options, memory()), &[Ability::AccessControlLists]);
}

#[test]
fn throttle_conforms() {
    check("throttle", layer("throttle", &[("read", "1g"), ("write", "1g")], memory()), &[]);
}

#[test]
fn readonly_conforms() {
    let lower = memory();
    prepare(&Tree::new(lower.clone())).unwrap();
    let subject = without(Tree::new(layer("readonly", &[], lower)).titled("readonly"), &[Ability::Write]);
    let abilities = subject.abilities().with(Ability::ReadOnly);
    check_subject(&subject.limited_to(abilities));
}

#[test]
fn a_full_disk_is_told_through_layers() {
    for (codec, stack) in CODECS {
        let subject = Tree::new(stack(4096, small_memory(32 << 20))).titled(format!("{codec}, small"));
        let subject = without(subject, &FILLED);
        let abilities = subject.abilities().with(Ability::SmallSpace);
        // What a log overwrites needs space of its own.
        let applies = |test: &Test| codec != "mapped" || test.name != "overwriting_needs_no_space";
        check_some(&subject.limited_to(abilities), |test| test.needs.contains(&Ability::SmallSpace) && applies(test));
    }
}

#[test]
fn views_of_unions_conform() {
    use common::unions::joined;
    use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
    let scene = joined(vec![(ReadWrite, memory()), (ReadOnly, memory())]);
    let own = std::process::id();
    scene.offer("private", &memory());
    scene.tell("view-add", &[("branch", "private"), ("pid", &own.to_string())]).unwrap();
    let view = vnode::layer::stack(common::As(own), scene.union.clone());
    // The front end keeps them.
    check("view of a union", view, &[Ability::RangeLocks, Ability::FileLocks]);
    assert_eq!(common::unions::list(&scene.union, ""), [""; 0], "nothing of that is seen by others");
}

#[test]
fn unions_conform() {
    use plyfs_layers::{Branch, BranchMode};
    for count in [1, 2, 4] {
        let branch = |index: usize| Branch {
            file_system: memory(),
            mode: Some(if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly }),
            label: format!("branch {index}"),
            minimum_free: None,
        };
        let union = plyfs_layers::kind("union").unwrap().join(&[], (0..count).map(branch).collect(), None).unwrap();
        check(&format!("union of {count}"), union, &[]);
    }
}
