//! Handles: valid in every instance for the same image, and for nothing that it does not show.

use std::fs;

use vnode::{Errno, FileSystem, Handle};

use crate::image::{Workshop, find, open, open_bytes, root_user};
use crate::source;
use crate::tools::{genisoimage, xorriso};

#[test]
fn handles_outlive_the_instance_that_issued_them() {
    let workshop = Workshop::new();
    source::kinds(&workshop.source());
    source::deep(&workshop.source(), 12);
    genisoimage(&["-R"], &workshop.path("image"), &workshop.source());
    let first = open(&workshop.path("image"), "");
    let all: Vec<_> = first.walk().map(|entry| entry.ok().unwrap()).collect();
    assert!(all.len() > 30 && first.properties().promises.persistent_handles);
    for entry in &all {
        // Nothing is cached in another instance.
        let second = open(&workshop.path("image"), "");
        let resolved = second.resolve(&root_user(), &entry.vnode.handle()).unwrap();
        assert_eq!(resolved.getattr(&root_user()).unwrap(), entry.attributes);
        assert_eq!(resolved.path().unwrap(), entry.path);
        assert_eq!(first.fsid(), second.fsid());
    }
}

#[test]
fn handles_of_other_images_and_trees_are_stale() {
    let workshop = Workshop::new();
    source::kinds(&workshop.source());
    xorriso(&["-R", "-J"], &workshop.path("image"), &workshop.source());
    xorriso(&["-R", "-J", "-V", "OTHER"], &workshop.path("other"), &workshop.source());
    let handle = find(&open(&workshop.path("image"), ""), "one byte").unwrap().handle();
    for (image, options) in [("other", ""), ("image", "rock=no"), ("image", "rock=no,joliet=no")] {
        let file_system = open(&workshop.path(image), options);
        assert_eq!(file_system.resolve(&root_user(), &handle).err(), Some(Errno::ESTALE), "{image} {options}");
    }
}

#[test]
fn what_the_image_does_not_show_has_no_handle() {
    let workshop = Workshop::new();
    let source = workshop.source();
    source::deep(&source, 9);
    source::file(&source.join("contents"), 4096);
    genisoimage(&["-R"], &workshop.path("image"), &source);
    // The contents of a file look like a directory whose parent is the root.
    let mut image = crate::fields::ImageBytes(fs::read(workshop.path("image")).unwrap());
    let root = image.root();
    let block = image.number(image.record(root, "CONTENTS.;1") + 2);
    let hidden = image.directory(&["RR_MOVED"]);
    let own = image.records(root);
    let head = image.0[own[0]..own[2]].to_vec();
    image.0[block * 2048..][..head.len()].copy_from_slice(&head);
    image.set(block * 2048 + 2, block);
    let file_system = open_bytes(&image.0, "").unwrap();
    let valid = file_system.walk().map(|entry| entry.ok().unwrap().vnode.handle()).collect::<Vec<_>>();
    let mut tried = 0;
    for form in 0..=5u8 {
        for first in (0..image.0.len() / 2048).chain([block, hidden, u32::MAX as usize]) {
            for second in (0..400).step_by(2).chain([2048, u32::MAX as usize]) {
                let mut bytes = file_system.root().handle().as_bytes().to_vec();
                bytes[0] = form;
                bytes[9..13].copy_from_slice(&(first as u32).to_le_bytes());
                bytes[13..17].copy_from_slice(&(second as u32).to_le_bytes());
                let handle = Handle::new(&bytes).unwrap();
                let resolved = file_system.resolve(&root_user(), &handle);
                let expected = if valid.contains(&handle) { None } else { Some(Errno::ESTALE) };
                assert_eq!(resolved.err(), expected, "{handle:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100_000);
}
