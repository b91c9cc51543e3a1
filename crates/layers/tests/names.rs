//! Name layers: `longnames`, what is hidden below, limits, reading directories, paths.

mod common;

use std::ops::ControlFlow;

use common::reporting::{Notes, Reporting};
use common::{create, layer, list, memory, name, root, walk};
use vnode::{Cookie, Errno, FileSystem, FileSystemRef, Name, NameBuf, Notifier, RenameMode};

#[test]
fn names_are_longer_below_and_as_given_above() {
    let lower = memory();
    let upper = layer("longnames", &[("suffix", ".suffix")], lower.clone());
    let directory = upper.root().mkdir(&root(), name("directory"), 0o755).unwrap().vnode;
    let (file, _) = create(&directory, &root(), "file", 0o644);
    directory.link(&root(), &file, name("link")).unwrap();
    directory.symlink(&root(), name("symlink"), b"file").unwrap();
    assert_eq!(list(&lower.root(), &root()), ["directory.suffix"]);
    let below = walk(&lower, &root(), "directory.suffix").unwrap().vnode;
    assert_eq!(list(&below, &root()), ["file.suffix", "link.suffix", "symlink.suffix"]);
    assert_eq!(list(&directory, &root()), ["file", "link", "symlink"]);
    let symlink = walk(&upper, &root(), "directory/symlink").unwrap().vnode;
    assert_eq!(symlink.readlink(&root()).unwrap(), b"file");

    directory.rename(&root(), name("file"), &upper.root(), name("moved"), RenameMode::NoReplace).unwrap();
    directory.unlink(&root(), name("link")).unwrap();
    directory.unlink(&root(), name("symlink")).unwrap();
    assert_eq!(list(&directory, &root()), [""; 0]);
    upper.root().rmdir(&root(), name("directory")).unwrap();
    assert_eq!(list(&lower.root(), &root()), ["moved.suffix"]);
    assert_eq!(walk(&upper, &root(), "moved").unwrap().vnode.handle(), file.handle());
}

#[test]
fn what_lacks_the_suffix_below_is_hidden() {
    let lower = memory();
    for text in ["file", ".long", "..long", "...long", "shown.long"] {
        create(&lower.root(), &root(), text, 0o644);
    }
    let upper = layer("longnames", &[], lower);
    assert_eq!(list(&upper.root(), &root()), ["shown"]);
    assert_eq!(upper.root().lookup(&root(), name("file")).map(drop), Err(Errno::ENOENT));
}

#[test]
fn the_longest_name_is_shorter_by_what_the_layer_adds() {
    let upper = layer("longnames", &[("suffix", &"s".repeat(100))], memory());
    let name_max = upper.root().statfs(&root()).unwrap().name_max as usize;
    assert_eq!(name_max, 155);
    let longest = vec![0xff; name_max];
    let too_long = vec![0xff; name_max + 1];
    upper.root().mkdir(&root(), Name::new(&longest).unwrap(), 0o755).unwrap();
    let error = upper.root().mkdir(&root(), Name::new(&too_long).unwrap(), 0o755).map(drop).unwrap_err();
    assert_eq!(error, Errno::ENAMETOOLONG);
    let lookup = upper.root().lookup(&root(), Name::new(&too_long).unwrap()).map(drop).unwrap_err();
    assert_eq!(lookup, Errno::ENAMETOOLONG);
}

#[test]
fn directories_are_read_in_parts_by_cookies() {
    let upper = layer("longnames", &[], memory());
    for number in 0..500 {
        create(&upper.root(), &root(), &format!("{number}-{}", "x".repeat(number % 200)), 0o644);
    }
    let open = upper.root().open_directory(&root()).unwrap();
    let (mut names, mut cookie) = (Vec::new(), Cookie::START);
    loop {
        let mut part: Vec<(NameBuf, Cookie)> = Vec::new();
        open.read(&root(), cookie, &mut |entry| {
            if part.len() == 7 {
                return ControlFlow::Break(());
            }
            part.push((entry.name.to_owned(), entry.cookie));
            ControlFlow::Continue(())
        })
        .unwrap();
        let Some((_, last)) = part.last() else { break };
        cookie = *last;
        names.extend(part.into_iter().map(|(name, _)| name));
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 500);
}

#[test]
fn paths_are_those_above() {
    let upper = layer("longnames", &[], layer("longnames", &[("suffix", "!")], memory()));
    let directory = upper.root().mkdir(&root(), name("a"), 0o755).unwrap().vnode;
    let (file, _) = create(&directory, &root(), "b", 0o644);
    assert_eq!(upper.root().path().unwrap(), b"");
    assert_eq!(file.path().unwrap(), b"a/b");
    directory.unlink(&root(), name("b")).unwrap();
    assert_eq!(file.path(), Err(Errno::ENOENT));
}

/// What is reported above these layers when a file below them changed.
fn reported(put_on: impl Fn(FileSystemRef) -> FileSystemRef) -> Vec<String> {
    let lower = Reporting::new();
    let upper = put_on(lower.clone());
    let notes = Notes::of(&upper);
    let directory = lower.root().handle();
    lower.notifiers.entry_changed(&directory, name("file.long"));
    lower.notifiers.entry_changed(&directory, name("hidden"));
    lower.notifiers.data_changed(&directory, 10, 5);
    lower.notifiers.attributes_changed(&directory);
    notes.take()
}

#[test]
fn changes_below_are_reported_in_the_names_and_offsets_above() {
    let everywhere = format!("data 0 {}", u64::MAX);
    let as_below = ["entry file.long", "entry hidden", "data 10 5", "attributes"];
    assert_eq!(reported(|lower| layer("readonly", &[], lower)), as_below);
    let names = reported(|lower| layer("longnames", &[], lower));
    assert_eq!(names, ["entry file", &everywhere, "attributes"]);
    let data = reported(|lower| layer("rot13", &[], lower));
    assert_eq!(data, ["entry file.long", "entry hidden", &everywhere, "attributes"]);
}
