//! What users see of merged directories, deletions and renames.

use std::fs;

use rustix::fs::{CWD, FileType, Mode};

use crate::scene::{Scene, ro, rw};
use crate::{Outcome, expect, expect_equal};

pub(crate) fn directories_are_merged_at_every_level(scene: &Scene) -> Outcome {
    scene.files(&["upper/a/b/c/one", "lower/a/b/c/two", "lowest/a/b/three"]);
    let union = scene.mount(&[rw("upper"), ro("lower"), ro("lowest")]);
    expect_equal(union.list("a/b/c")?, vec!["one".into(), "two".into()], "a/b/c")?;
    expect_equal(union.list("a/b")?, vec!["c".into(), "three".into()], "a/b")?;
    expect_equal(union.read("a/b/c/two")?, "lower/a/b/c/two".into(), "a file of the second branch")?;
    expect_equal(union.read("a/b/three")?, "lowest/a/b/three".into(), "a file of the third branch")
}

pub(crate) fn names_are_listed_once(scene: &Scene) -> Outcome {
    scene.files(&["upper/d/same", "lower/d/same", "lower/d/other", "lowest/d/same"]);
    let union = scene.mount(&[rw("upper"), ro("lower"), ro("lowest")]);
    expect_equal(union.list("d")?, vec!["other".into(), "same".into()], "d")?;
    expect_equal(union.read("d/same")?, "upper/d/same".into(), "the leftmost")
}

pub(crate) fn deleting_does_not_expose(scene: &Scene) -> Outcome {
    scene.files(&["upper/f", "lower/f", "upper/d/one", "lower/d/one", "lower/d/two"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    fs::remove_file(union.path("f"))?;
    expect(!union.has("f")?, "the file below has come to light")?;
    fs::remove_dir_all(union.path("d"))?;
    expect(!union.has("d")?, "the directory below has come to light")
}

pub(crate) fn whiteouts_hide_what_cannot_be_deleted(scene: &Scene) -> Outcome {
    scene.files(&["lower/f", "lower/g"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    fs::remove_file(union.path("f"))?;
    expect(!union.has("f")?, "it is still there")?;
    expect(scene.has("lower/f"), "it is deleted in a branch that may only be read")?;
    union.remount()?;
    expect_equal(union.list("")?, vec!["g".into()], "after a remount")
}

pub(crate) fn directories_made_again_are_empty(scene: &Scene) -> Outcome {
    scene.files(&["lower/d/f", "lower/d/sub/g"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    fs::remove_dir_all(union.path("d"))?;
    fs::create_dir(union.path("d"))?;
    expect_equal(union.list("d")?, vec![], "the new directory")?;
    union.remount()?;
    expect_equal(union.list("d")?, vec![], "the new directory after a remount")
}

pub(crate) fn both_formats_of_whiteouts_are_read(scene: &Scene) -> Outcome {
    scene.files(&["lower/f", "lower/g", "upper/.wh.f"]);
    let device = rustix::fs::mknodat(CWD, scene.path("upper/g"), FileType::CharacterDevice, Mode::empty(), 0);
    device.expect("a device is made");
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    expect(!union.has("f")?, "the empty file .wh.f does not hide f")?;
    expect(!union.has("g")?, "the device 0:0 does not hide g")
}

pub(crate) fn directories_of_read_only_branches_are_renamed(scene: &Scene) -> Outcome {
    scene.files(&["lower/d/sub/f", "lower/e/f"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    fs::rename(union.path("d"), union.path("e/moved"))?;
    let check = || {
        expect(!union.has("d")?, "the old name is still there")?;
        expect_equal(union.list("e")?, vec!["f".into(), "moved".into()], "the new parent")?;
        expect_equal(union.read("e/moved/sub/f")?, "lower/d/sub/f".into(), "what was in it")
    };
    check()?;
    union.remount()?;
    check()
}
