//! Which file is which: inode numbers and handles.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use crate::scene::{Scene, Union, ro, rw};
use crate::subject::Wish;
use crate::{Outcome, expect, expect_equal};

/// Two branches on file systems of their own, which give out the same numbers.
fn two_file_systems(scene: &Scene) -> Union<'_> {
    for name in ["one", "two"] {
        scene.file_system("tmpfs", name, "");
        let files = ["b/d/f", "b/d/g", "b/e/h"].map(|file| format!("{name}/{file}-{name}"));
        scene.files(&files.each_ref().map(String::as_str));
    }
    let number = |name: &str| fs::metadata(scene.path(name)).expect("it was made").ino();
    assert_eq!(number("one/b/d/f-one"), number("two/b/d/f-two"), "otherwise nothing is probed");
    scene.mount(&[rw("one/b"), ro("two/b")])
}

/// Every path below a directory, with its number by stat(2) and as its directory lists it.
fn numbers(directory: &Path) -> Result<HashMap<String, (u64, u64)>, Box<dyn Error>> {
    let mut found = HashMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let status = fs::symlink_metadata(entry.path())?;
        found.insert(entry.path().display().to_string(), (status.ino(), entry.ino()));
        if status.is_dir() {
            found.extend(numbers(&entry.path())?);
        }
    }
    Ok(found)
}

pub(crate) fn inode_numbers_are_unique(scene: &Scene) -> Outcome {
    let union = two_file_systems(scene);
    let mut seen = HashMap::from([(fs::metadata(union.path(""))?.ino(), union.mount_point())]);
    for (path, (number, _)) in numbers(&union.path(""))? {
        let status = fs::symlink_metadata(&path)?;
        expect_equal(status.dev(), fs::metadata(union.path(""))?.dev(), "the device number of one mount")?;
        if let Some(other) = seen.insert(number, path.clone()) {
            return Err(format!("{path} and {other} have the number {number}").into());
        }
    }
    Ok(())
}

pub(crate) fn inode_numbers_are_the_same_in_listings(scene: &Scene) -> Outcome {
    let union = two_file_systems(scene);
    for (path, (by_stat, listed)) in numbers(&union.path(""))? {
        expect_equal(listed, by_stat, &path)?;
    }
    Ok(())
}

pub(crate) fn inode_numbers_stay_when_files_are_copied(scene: &Scene) -> Outcome {
    let union = two_file_systems(scene);
    let paths = ["d/f-two", "e", "e/h-two"];
    let number = |path: &&str| fs::metadata(union.path(path)).map(|status| status.ino());
    let before = paths.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    union.write("d/f-two", "changed")?;
    union.write("e/h-two", "changed")?;
    expect(scene.has("one/b/d/f-two"), "nothing was copied")?;
    // Until nobody caches anything.
    std::thread::sleep(Duration::from_millis(1100));
    let after = paths.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    expect_equal(after, before, "the numbers")
}

pub(crate) fn inode_numbers_stay_over_a_remount(scene: &Scene) -> Outcome {
    let union = two_file_systems(scene);
    // Also of what was copied, where that is possible.
    let _ = union.write("d/f-two", "changed");
    std::thread::sleep(Duration::from_millis(1100));
    let before = numbers(&union.path(""))?;
    union.remount()?;
    // In another order, so that numbers that are counted differ.
    fs::metadata(union.path("e/h-two"))?;
    expect_equal(numbers(&union.path(""))?, before, "the numbers")
}

pub(crate) fn handles_stay_valid_over_a_remount(scene: &Scene) -> Outcome {
    scene.files(&["upper/d/f", "lower/d/g"]);
    let union = scene.try_mount(&[rw("upper"), ro("lower")], Some(Wish::Handles))?;
    let handles = [Handle::of(&union.path("d/f"))?, Handle::of(&union.path("d/g"))?];
    union.remount()?;
    for (handle, text) in handles.iter().zip(["upper/d/f", "lower/d/g"]) {
        let file = handle.open(&File::open(union.path(""))?)?;
        expect_equal(io::read_to_string(file)?, text.into(), "the file of a handle")?;
    }
    Ok(())
}

const HANDLE_BYTES_MAX: usize = 128;

/// What name_to_handle_at(2) gives for a file.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_BYTES_MAX],
}

impl Handle {
    fn of(path: &Path) -> io::Result<Self> {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        let mut handle = Self { bytes: HANDLE_BYTES_MAX as u32, kind: 0, data: [0; HANDLE_BYTES_MAX] };
        let mut mount = 0;
        let place = (&raw mut handle).cast();
        // SAFETY: the path ends with a zero byte, and the handle has room for as many bytes as it says.
        let result = unsafe { libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), place, &raw mut mount, 0) };
        if result == 0 { Ok(handle) } else { Err(io::Error::last_os_error()) }
    }

    fn open(&self, mount: &File) -> io::Result<File> {
        let handle = (&raw const *self).cast_mut().cast();
        // SAFETY: the kernel only reads the handle, which has the layout that it expects.
        let descriptor = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), handle, libc::O_RDONLY) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(descriptor) })
    }
}
