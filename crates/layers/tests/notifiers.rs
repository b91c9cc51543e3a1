//! Notifications of one stack to several front ends: each is told of every change, until it ends.

mod common;

use std::sync::Arc;

use common::reporting::{Notes, Reporting};
use common::unions::scene;
use common::{layer, memory};
use plyfs_layers::{Branch, BranchMode};
use vnode::FileSystemRef;

/// Puts layers on a file system.
type Put = fn(FileSystemRef) -> FileSystemRef;

/// A mirror of two file systems.
fn mirror(first: FileSystemRef) -> FileSystemRef {
    let branch =
        |file_system, label: &str| Branch { file_system, mode: None, label: label.to_owned(), minimum_free: None };
    let branches = vec![branch(first, "first"), branch(memory(), "second")];
    samples::mirror::KIND.join(&[], branches, None).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_front_end_is_told_until_it_ends() {
    let stacks: [(&str, Put); 5] = [
        ("nothing", |lower| lower),
        ("a layer that translates nothing", |lower| layer("readonly", &[], lower)),
        ("a layer that translates names", |lower| layer("longnames", &[], lower)),
        ("a union", |lower| layer("readonly", &[], layer("union", &[], lower))),
        ("a fan-out", mirror),
    ];
    for (what, put_on) in stacks {
        let lower = Reporting::new();
        let upper = put_on(lower.clone());
        let (first, second) = (Notes::of(&upper), Notes::of(&upper));
        let report = || vnode::Notifier::everything_changed(&lower.notifiers);
        report();
        assert_eq!(
            (first.take(), second.take()),
            (vec!["everything".to_owned()], vec!["everything".to_owned()]),
            "{what}"
        );
        let ended = Arc::downgrade(&first);
        drop(first);
        assert!(ended.upgrade().is_none(), "{what}: nothing keeps what has ended");
        report();
        assert_eq!(second.take(), ["everything"], "{what}");
    }
}

#[test]
fn commands_and_branches_of_a_running_union_are_reported_to_each_front_end() {
    let scene = scene(&[(BranchMode::ReadWrite, &[])]);
    let notes = [Notes::of(&scene.union), Notes::of(&scene.union)];
    let added = Reporting::new();
    scene.offer("new", &(added.clone() as FileSystemRef));
    scene.tell("add", &[("branch", "new=ro")]).unwrap();
    let told: Vec<_> = notes.iter().map(|notes| notes.take()).collect();
    assert!(!told[0].is_empty() && told[0] == told[1], "{told:?}");
    vnode::Notifier::everything_changed(&added.notifiers);
    assert!(notes.iter().all(|notes| notes.take() == ["everything"]));
}
