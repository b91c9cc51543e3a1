//! Branches: which may be changed, when they come and go, and what they may be.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::scene::{Scene, Union, ro, rw};
use crate::subject::{Subject, Wish};
use crate::{Outcome, eventually, expect, expect_equal};

pub(crate) fn files_are_changed_in_several_branches(scene: &Scene) -> Outcome {
    scene.files(&["one/a/f", "two/b/g", "three/c/h"]);
    let union = scene.mount(&[rw("one"), rw("two"), ro("three")]);
    for name in ["a/f", "b/g"] {
        union.write(name, "changed")?;
    }
    expect_equal(scene.read("one/a/f")?, "changed".into(), "in the first branch")?;
    expect_equal(scene.read("two/b/g")?, "changed".into(), "in the second branch")?;
    expect(!scene.has("one/b/g"), "the file of the second branch was copied")
}

/// Whatever is tried with what it has, and whatever comes of it.
pub(crate) fn read_only_branches_are_never_written(scene: &Scene) -> Outcome {
    scene.files(&["lower/d/f", "lower/d/g", "lower/d/h", "lower/d/i"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    let path = |name: &str| union.path("d").join(name);
    let _ = File::options().append(true).open(path("f")).and_then(|mut file| file.write_all(b", changed"));
    let _ = File::options().write(true).open(path("g")).and_then(|file| file.set_len(1));
    let _ = fs::set_permissions(path("h"), fs::Permissions::from_mode(0o600));
    let _ = fs::remove_file(path("i"));
    let _ = fs::write(path("new"), "new");
    for name in ["lower/d/f", "lower/d/g", "lower/d/h", "lower/d/i"] {
        expect_equal(scene.read(name)?, name.into(), name)?;
    }
    expect(fs::metadata(scene.path("lower/d/h"))?.mode() & 0o777 != 0o600, "a mode was changed in it")?;
    expect(!scene.has("lower/d/new"), "a file was made in it")
}

/// A branch that may be written comes to a place between others, and goes again, while a file is open.
fn comes_and_goes(scene: &Scene, at: usize) -> Outcome {
    scene.files(&["one/d/only-one", "two/d/f", "two/d/only-two", "new/d/f", "new/d/only-new"]);
    let union = scene.mount(&[rw("one"), ro("two")]);
    expect_equal(union.read("d/f")?, "two/d/f".into(), "before")?;
    let mut open = File::open(union.path("d/only-two"))?;
    union.insert(at, &rw("new"))?;
    eventually(|| {
        expect_equal(union.read("d/f")?, "new/d/f".into(), "with the branch")?;
        expect_equal(union.list("d")?.len(), 4, "the number of names with the branch")
    })?;
    union.write("d/f", "changed")?;
    expect_equal(scene.read("new/d/f")?, "changed".into(), "the file in the new branch")?;
    union.remove("new")?;
    eventually(|| {
        expect_equal(union.read("d/f")?, "two/d/f".into(), "without the branch")?;
        expect_equal(union.list("d")?.len(), 3, "the number of names without the branch")
    })?;
    let mut text = String::new();
    open.rewind()?;
    open.read_to_string(&mut text)?;
    expect_equal(text.as_str(), "two/d/only-two", "the open file")
}

pub(crate) fn a_branch_on_top_comes_and_goes(scene: &Scene) -> Outcome {
    comes_and_goes(scene, 0)
}

pub(crate) fn a_branch_anywhere_comes_and_goes(scene: &Scene) -> Outcome {
    comes_and_goes(scene, 1)
}

/// What is possible with a union: each operation in turn.
fn abilities(union: &Union<'_>) -> [bool; 6] {
    let done = |outcome: Outcome| outcome.is_ok();
    [
        done(union.write("d/new", "new").and_then(|()| expect_equal(union.read("d/new")?, "new".into(), "new"))),
        done(union.write("d/f", "changed").and_then(|()| expect_equal(union.read("d/f")?, "changed".into(), "f"))),
        fs::set_permissions(union.path("d/g"), fs::Permissions::from_mode(0o600)).is_ok(),
        fs::remove_file(union.path("d/h")).is_ok() && union.has("d/h").is_ok_and(|is_there| !is_there),
        fs::remove_dir_all(union.path("e")).is_ok() && fs::create_dir(union.path("e")).is_ok(),
        union.remount().is_ok() && union.read("d/new").is_ok() && union.list("d").is_ok_and(|names| !names.is_empty()),
    ]
}

/// As the branch that may be written: a file system without extended attributes, a FUSE mount, and another overlay.
pub(crate) fn any_file_system_is_a_branch(scene: &Scene) -> Outcome {
    let lower = ["lower/d/f", "lower/d/g", "lower/d/h", "lower/e/f"];
    scene.files(&lower);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    let usual = abilities(&union);
    union.unmount()?;
    scene.file_system("ramfs", "ramfs", "");
    let layers = ["overlay-lower", "overlay-upper", "overlay-work"].map(|name| scene.directory(name));
    let [below, above, work] = layers.each_ref().map(|path| path.display());
    scene.file_system("overlay", "overlay", &format!("lowerdir={below},upperdir={above},workdir={work}"));
    let (source, fuse) = (scene.directory("source"), scene.directory("fuse"));
    let words = [source, fuse].map(|path| path.display().to_string());
    Subject::Plyfs.plyfs("", &["mount", &words[0], &words[1]]).expect("a FUSE file system is mounted");
    for kind in ["ramfs", "fuse", "overlay"] {
        let upper = format!("{kind}/upper");
        let union = scene.try_mount(&[rw(&upper), ro("lower")], None).map_err(|error| format!("{kind}: {error}"))?;
        expect_equal(abilities(&union), usual, kind)?;
        union.unmount()?;
    }
    Ok(())
}

pub(crate) fn changes_in_branches_are_seen(scene: &Scene) -> Outcome {
    scene.files(&["upper/d/mine", "lower/d/changed", "lower/d/removed"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    expect_equal(union.list("d")?.len(), 3, "the number of names")?;
    expect_equal(union.read("d/changed")?, "lower/d/changed".into(), "before")?;
    expect(!union.has("d/new")?, "it is not there yet")?;
    scene.files(&["lower/d/new"]);
    fs::write(scene.path("lower/d/changed"), "longer than it was before").expect("the branch is written");
    fs::remove_file(scene.path("lower/d/removed")).expect("the branch is written");
    eventually(|| {
        expect_equal(union.read("d/new")?, "lower/d/new".into(), "a new file")?;
        expect_equal(union.read("d/changed")?, "longer than it was before".into(), "a changed file")?;
        expect_equal(union.list("d")?, ["changed", "mine", "new"].map(str::to_owned).to_vec(), "the names")
    })
}

pub(crate) fn a_missing_branch_is_an_error(scene: &Scene) -> Outcome {
    scene.files(&["upper/f"]);
    scene.directory("upper.work");
    scene.directory("lower");
    let mounted = scene.mount_as_is(&[rw("upper"), ro("lower"), ro("missing")], None);
    expect(mounted.is_err(), "it was mounted without the branch")
}

pub(crate) fn deleting_from_all_branches_can_be_chosen(scene: &Scene) -> Outcome {
    scene.files(&["one/f", "two/f", "two/d/g"]);
    let union = scene.try_mount(&[rw("one"), rw("two")], Some(Wish::DeleteAll))?;
    fs::remove_file(union.path("f"))?;
    fs::remove_dir_all(union.path("d"))?;
    let left = ["one/f", "two/f", "two/d", "one/.wh.f", "one/.wh.d"].map(|name| scene.has(name));
    expect_equal(left, [false; 5], "what is left in the branches")
}

/// The branch that may be written has a layer of its own, and so has the union, in one mount.
pub(crate) fn branches_are_stacks_of_layers(scene: &Scene) -> Outcome {
    scene.files(&["lower/f"]);
    let (upper, lower) = (scene.directory("upper"), scene.path("lower"));
    let mount = scene.directory("mount").display().to_string();
    let stack = format!("({} | rot13)=rw, {} | union | longnames", upper.display(), lower.display());
    scene.subject.plyfs("layers in branches", &["mount", &stack, &mount])?;
    fs::write(format!("{mount}/f"), "uryyb")?;
    expect_equal(fs::read_to_string(format!("{mount}/f"))?, "uryyb".into(), "through the mount")?;
    expect_equal(scene.read("upper/f.long")?, "hello".into(), "in the branch")
}
