//! What becomes of a file of a branch that may only be read when it is changed.

use std::fs::{self, File, FileTimes};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::XattrFlags;

use crate::scene::{Scene, ro, rw};
use crate::subject::Wish;
use crate::{Outcome, expect, expect_equal};

/// A process of this user runs a command of the shell.
fn shell_as(user: u32, command: &str) -> Outcome {
    let output = Command::new("/bin/sh").args(["-c", command]).uid(user).gid(user).output()?;
    expect(output.status.success(), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn files_are_copied_to_be_written(scene: &Scene) -> Outcome {
    scene.files(&["lower/d/f", "lower/d/g"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    File::options().append(true).open(union.path("d/f"))?.write_all(b", changed")?;
    expect_equal(union.read("d/f")?, "lower/d/f, changed".into(), "the changed file")?;
    union.write("d/g", "anew")?;
    expect_equal(union.read("d/g")?, "anew".into(), "the file written anew")?;
    expect_equal(scene.read("lower/d/f")?, "lower/d/f".into(), "the original")?;
    expect_equal(scene.read("upper/d/f")?, "lower/d/f, changed".into(), "the copy")
}

/// The time of all that [`others_files`] makes.
fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

/// A directory with two files, each another user's.
fn others_files(scene: &Scene) {
    scene.files(&["lower/d/written", "lower/d/changed"]);
    for (name, user, mode) in [("written", 1001, 0o640), ("changed", 1003, 0o604), ("", 1005, 0o755)] {
        let path = scene.path("lower/d").join(name);
        chown(&path, Some(user), Some(user + 1)).expect("its owner is set");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode is set");
        let times = FileTimes::new().set_accessed(long_ago()).set_modified(long_ago());
        File::open(&path).and_then(|file| file.set_times(times)).expect("its times are set");
    }
}

pub(crate) fn owner_and_mode_are_kept(scene: &Scene) -> Outcome {
    others_files(scene);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    union.write("d/written", "anew")?;
    fs::set_permissions(union.path("d/changed"), fs::Permissions::from_mode(0o600))?;
    expect(scene.has("upper/d/written") && scene.has("upper/d/changed"), "nothing was copied")?;
    for root in [union.path("d"), scene.path("upper/d")] {
        let of = |name: &str| fs::metadata(root.join(name));
        let rights = |name: &str| of(name).map(|status| (status.uid(), status.gid(), status.mode() & 0o7777));
        expect_equal(rights("written")?, (1001, 1002, 0o640), "the written file")?;
        expect_equal(rights("changed")?, (1003, 1004, 0o600), "the file with another mode")?;
        expect_equal(rights("")?, (1005, 1006, 0o755), "the directory")?;
    }
    Ok(())
}

pub(crate) fn times_are_kept(scene: &Scene) -> Outcome {
    others_files(scene);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    fs::set_permissions(union.path("d/changed"), fs::Permissions::from_mode(0o600))?;
    expect(scene.has("upper/d/changed"), "nothing was copied")?;
    for root in [union.path("d"), scene.path("upper/d")] {
        let of = |name: &str| fs::metadata(root.join(name)).and_then(|status| status.modified());
        expect_equal(of("changed")?, long_ago(), "the time of a file whose mode has changed")?;
        expect_equal(of("")?, long_ago(), "the time of its directory, in which nothing has changed")?;
    }
    Ok(())
}

/// `u::rw-,u:1000:r--,g::r--,m::r--,o::---` as Linux keeps it.
const ACL: &[u8] = &[
    2, 0, 0, 0, //
    1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, //
    2, 0, 4, 0, 0xe8, 3, 0, 0, //
    4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, //
    16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, //
    32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];

pub(crate) fn extended_attributes_and_acls_are_kept(scene: &Scene) -> Outcome {
    scene.files(&["lower/f"]);
    let attributes: [(&str, &[u8]); 2] = [("user.note", b"kept"), ("system.posix_acl_access", ACL)];
    for (name, value) in attributes {
        let set = rustix::fs::setxattr(scene.path("lower/f"), name, value, XattrFlags::empty());
        set.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    union.write("f", "anew")?;
    expect(scene.has("upper/f"), "nothing was copied")?;
    for (name, value) in attributes {
        let mut found = [0; 256];
        let length = rustix::fs::getxattr(scene.path("upper/f"), name, &mut found)
            .map_err(|error| format!("{name} of the copy: {error}"))?;
        expect_equal(&found[..length], value, name)?;
    }
    Ok(())
}

pub(crate) fn hard_links_stay_links(scene: &Scene) -> Outcome {
    scene.files(&["lower/f"]);
    scene.directory("lower/d");
    fs::hard_link(scene.path("lower/f"), scene.path("lower/d/g")).expect("a link is made");
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    let check = |text: &str| {
        let (f, g) = (fs::metadata(union.path("f"))?, fs::metadata(union.path("d/g"))?);
        expect_equal((g.ino(), f.nlink(), g.nlink()), (f.ino(), 2, 2), "number and link counts")?;
        expect_equal((union.read("f")?, union.read("d/g")?), (text.into(), text.into()), "the text by both names")
    };
    union.write("f", "changed")?;
    check("changed")?;
    expect_equal(scene.read("lower/f")?, "lower/f".into(), "the original")?;
    union.remount()?;
    check("changed")?;
    union.write("d/g", "again")?;
    check("again")
}

pub(crate) fn open_descriptors_follow_the_copy(scene: &Scene) -> Outcome {
    scene.files(&["lower/f"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    let mut reader = File::open(union.path("f"))?;
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    expect_equal(text.as_str(), "lower/f", "before")?;
    let mut writer = File::options().write(true).open(union.path("f"))?;
    writer.write_all(b"changed")?;
    expect_equal(scene.read("lower/f")?, "lower/f".into(), "the original")?;
    reader.seek(SeekFrom::Start(0))?;
    text.clear();
    reader.read_to_string(&mut text)?;
    expect_equal(text.as_str(), "changed", "what was opened before the copy reads")
}

/// A file of four bytes, mapped to be read.
struct Mapped {
    address: *mut std::ffi::c_void,
}

impl Mapped {
    const LENGTH: usize = 4;

    fn new(file: &File) -> std::io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: the kernel chooses a free place for the mapping.
        let address = unsafe { mmap(std::ptr::null_mut(), Self::LENGTH, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        Ok(Self { address })
    }

    fn bytes(&self) -> [u8; Self::LENGTH] {
        // SAFETY: so much is mapped for as long as this lives, of a file that is never cut.
        unsafe { self.address.cast::<[u8; Self::LENGTH]>().read_volatile() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        let _ = unsafe { rustix::mm::munmap(self.address, Self::LENGTH) };
    }
}

pub(crate) fn memory_maps_follow_the_copy(scene: &Scene) -> Outcome {
    scene.directory("lower");
    fs::write(scene.path("lower/f"), "1234").expect("a file is made");
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    let map = Mapped::new(&File::open(union.path("f"))?)?;
    expect_equal(map.bytes(), *b"1234", "before")?;
    File::options().write(true).open(union.path("f"))?.write_all(b"abcd")?;
    expect_equal(scene.read("lower/f")?, "1234".into(), "the original")?;
    expect_equal(map.bytes(), *b"abcd", "what was mapped before the copy shows")
}

/// Whether a union has made anything of the users' names in a branch.
fn has_names(branch: &Path) -> bool {
    let own = [".unionfs", ".wh..wh.plyfs", ".wh..opq"];
    let entries = fs::read_dir(branch).expect("a branch can be listed");
    entries.flatten().any(|entry| !own.iter().any(|own| entry.file_name() == *own))
}

pub(crate) fn directories_above_copies_are_made_when_needed(scene: &Scene) -> Outcome {
    scene.files(&["lower/a/b/f", "lower/a/other/f"]);
    let union = scene.mount(&[rw("upper"), ro("lower")]);
    expect_equal(union.read("a/b/f")?, "lower/a/b/f".into(), "the file")?;
    union.list("a/other")?;
    expect(!union.has("a/b/missing")?, "something is there that is not")?;
    expect(!has_names(&scene.path("upper")), "reading has made directories")?;
    union.write("a/b/new", "new")?;
    expect_equal(scene.read("upper/a/b/new")?, "new".into(), "the new file")?;
    expect(!scene.has("upper/a/other"), "a directory was made that nothing needs")
}

pub(crate) fn attributes_are_copied_without_data(scene: &Scene) -> Outcome {
    scene.directory("lower");
    fs::write(scene.path("lower/f"), vec![b'x'; 4 << 20]).expect("a file is made");
    let union = scene.try_mount(&[rw("upper"), ro("lower")], Some(Wish::AttributesOnly))?;
    fs::set_permissions(union.path("f"), fs::Permissions::from_mode(0o600))?;
    let copy = fs::metadata(scene.path("upper/f"))?;
    expect(copy.blocks() * 512 < 1 << 20, format!("the copy has {} blocks", copy.blocks()))?;
    expect(fs::read(union.path("f"))? == vec![b'x'; 4 << 20], "the data are others")?;
    File::options().append(true).open(union.path("f"))?.write_all(b"y")?;
    let text = fs::read(scene.path("upper/f"))?;
    expect(text.len() == (4 << 20) + 1 && text.starts_with(b"xx") && text.ends_with(b"xy"), "the written copy")
}

pub(crate) fn owners_of_copies_can_be_chosen(scene: &Scene) -> Outcome {
    scene.files(&["lower/d/f"]);
    fs::set_permissions(scene.path("lower/d/f"), fs::Permissions::from_mode(0o666)).expect("its mode is set");
    let union = scene.try_mount(&[rw("upper"), ro("lower")], Some(Wish::CopiesOfCaller))?;
    shell_as(1001, &format!("echo changed > {}/d/f", union.mount_point()))?;
    expect_equal(fs::metadata(union.path("d/f"))?.uid(), 1001, "the owner of the copy")
}
