//! Handles resolved for a caller: what a layer hides by name has no handle either, for whom it is hidden.

mod common;

use common::unions::joined;
use common::{create, layer, memory, name, root, user, walk};
use plyfs_layers::BranchMode::ReadWrite;
use vnode::fan_out::{Changes, Routing, join};
use vnode::{Caller, Errno, FileSystem, FileSystemRef, Handle, RenameMode};

/// A file system with a file that is shown, and one and a directory with a file that `hide=*.tmp` hides.
fn below() -> FileSystemRef {
    let memory = memory();
    let top = memory.root();
    create(&top, &root(), "shown", 0o644);
    create(&top, &root(), "x.tmp", 0o644);
    let directory = top.mkdir(&root(), name("d.tmp"), 0o755).unwrap().vnode;
    create(&directory, &root(), "inside", 0o644);
    memory
}

fn hiding(lower: FileSystemRef) -> FileSystemRef {
    layer("map", &[("hide", "*.tmp")], lower)
}

/// The handle of an object, as everybody has it above layers that leave handles as they are.
fn handle(file_system: &FileSystemRef, path: &str) -> Handle {
    walk(file_system, &root(), path).unwrap().vnode.handle()
}

fn resolve(file_system: &dyn FileSystem, caller: &Caller, handle: &Handle) -> Result<(), Errno> {
    file_system.resolve(caller, handle).map(|found| assert_eq!(found.handle(), *handle))
}

#[test]
fn hidden_names_have_no_handles() {
    let below = below();
    // A view makes the server the caller below, from which names are hidden as well.
    for upper in [hiding(below.clone()), layer("map", &[("user-map", "1000/2000")], hiding(below.clone()))] {
        for caller in [root(), user(5), Caller::server_for(&user(5)), Caller::server()] {
            assert_eq!(resolve(&*upper, &caller, &handle(&below, "shown")), Ok(()));
            assert_eq!(resolve(&*upper, &caller, &upper.root().handle()), Ok(()));
        }
        for hidden in ["x.tmp", "d.tmp", "d.tmp/inside"] {
            for caller in [root(), user(5), Caller::server_for(&user(5))] {
                assert_eq!(resolve(&*upper, &caller, &handle(&below, hidden)), Err(Errno::ESTALE), "{hidden}");
            }
        }
    }
    // As soon as it has a name that is shown.
    let (upper, x) = (hiding(below.clone()), handle(&below, "x.tmp"));
    below.root().rename(&root(), name("x.tmp"), &below.root(), name("x"), RenameMode::Replace).unwrap();
    assert_eq!(resolve(&*upper, &user(5), &x), Ok(()));
}

#[test]
fn without_permission_to_look_up_there_are_no_handles() {
    let below = below();
    let upper = layer("map", &[("deny", "lookup")], below.clone());
    let file = handle(&below, "shown");
    assert_eq!(resolve(&*upper, &user(5), &file), Err(Errno::EPERM));
    assert_eq!(resolve(&*upper, &Caller::server(), &file), Ok(()));
    assert_eq!(resolve(&*upper, &user(5), &upper.root().handle()), Ok(()));
}

#[test]
fn permissions_on_the_way_are_no_concern_of_a_handle() {
    let memory = memory();
    let private = memory.root().mkdir(&root(), name("private"), 0o700).unwrap().vnode;
    create(&private, &root(), "file", 0o644);
    let upper = hiding(memory.clone());
    assert_eq!(resolve(&*upper, &user(5), &handle(&memory, "private/file")), Ok(()));
}

#[test]
fn layers_that_only_restrict_operations_resolve_all_handles() {
    let below = below();
    let file = handle(&below, "shown");
    for (kind, options) in [("readonly", vec![]), ("audit", vec![("protect", "/shown"), ("to", "/dev/null")])] {
        let upper = layer(kind, &options, below.clone());
        let found = upper.resolve(&user(5), &file).unwrap();
        assert!(found.getattr(&user(5)).is_ok());
        let refused = if kind == "readonly" { Errno::EROFS } else { Errno::EPERM };
        assert_eq!(found.open(&root(), vnode::OpenFlags::WRITE).err(), Some(refused), "{kind}");
    }
}

#[test]
fn own_entries_have_no_handles() {
    let below = memory();
    let upper = samples::veil::KIND.stack(&[], below.clone()).unwrap();
    let long = "n".repeat(200);
    create(&upper.root(), &root(), &long, 0o644);
    let shown = upper.root().lookup(&root(), name(&long)).unwrap().vnode.handle();
    assert_eq!(resolve(&*upper, &user(5), &shown), Ok(()));
    let own = common::list(&below.root(), &root()).into_iter().filter(|entry| handle(&below, entry) != shown);
    let own: Vec<Handle> = own.map(|entry| handle(&below, &entry)).collect();
    assert!(!own.is_empty());
    for handle in own {
        for caller in [user(5), root(), Caller::server()] {
            assert_eq!(resolve(&*upper, &caller, &handle), Err(Errno::ESTALE));
        }
    }
}

#[test]
fn what_a_branch_hides_has_no_handle_in_a_union() {
    // Hidden by a rule that the branch has for the caller, not for the server.
    let branch = layer("map", &[("deny", "lookup")], below());
    let scene = joined(vec![(ReadWrite, branch)]);
    let union = scene.union;
    let file = walk(&union, &Caller::server(), "shown").unwrap().vnode;
    // Also while the vnode is live.
    assert_eq!(resolve(&*union, &user(5), &file.handle()), Err(Errno::EPERM));
    assert_eq!(resolve(&*union, &Caller::server(), &file.handle()), Ok(()));
}

/// Keeps every branch the same.
struct Mirror;

impl Routing for Mirror {
    fn changes(&self) -> Changes {
        Changes::InAll
    }
}

#[test]
fn what_a_branch_hides_has_no_handle_in_a_fan_out() {
    let (first, second) = (below(), below());
    let whole = join(vec![first.clone(), second.clone()], Mirror);
    let hidden = whole.root().lookup(&root(), name("x.tmp")).unwrap().vnode.handle();
    let shown = whole.root().lookup(&root(), name("shown")).unwrap().vnode.handle();
    let both = join(vec![hiding(first), hiding(second)], Mirror);
    assert_eq!(resolve(&*both, &user(5), &shown), Ok(()));
    assert_eq!(resolve(&*both, &user(5), &hidden), Err(Errno::ESTALE));
}
