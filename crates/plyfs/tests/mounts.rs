//! Mounted stacks: served, unmounted, and nothing left of a start that fails. Mounting needs root and /dev/fuse.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use plyfs::fuse::{MountError, MountOptions};
use plyfs::{Error, Mounted, Stack};

fn can_mount() -> bool {
    let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can_mount {
        eprintln!("skipped: mounting needs root and /dev/fuse");
    }
    can_mount
}

/// Returns the lines of the mount table for a mount point.
fn mounts_on(path: &Path) -> Vec<String> {
    let field = format!(" {} ", path.canonicalize().unwrap().display());
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    table.lines().filter(|line| line.contains(&field)).map(str::to_owned).collect()
}

/// Unmounts. A program that another test starts may hold copies of open files for a moment.
fn unmount(mounted: &Mounted) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match mounted.unmount() {
            Err(Error::Unmount { error, .. })
                if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < end =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            ended => return ended.unwrap(),
        }
    }
}

#[test]
fn a_stack_is_served_until_it_is_unmounted() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let stack = Stack::open("mem: | rot13").unwrap();
    let mounted = stack.mount(directory.path()).unwrap();
    assert_eq!(mounted.mount_point(), directory.path().canonicalize().unwrap());
    fs::write(directory.path().join("name"), "content").unwrap();
    assert_eq!(stack.read("name").unwrap(), b"content");
    let listed = mounts_on(directory.path());
    assert!(listed.len() == 1 && listed[0].contains("fuse.plyfs"), "{listed:?}");
    assert!(listed[0].contains("rot13") && listed[0].contains("allow_other"), "{listed:?}");
    unmount(&mounted);
    assert_eq!(mounts_on(directory.path()), [""; 0]);
    assert!(!directory.path().join("name").exists());
    mounted.wait().unwrap();
    assert_eq!(stack.read("name").unwrap(), b"content", "the stack outlives its mount");
}

#[test]
fn a_mount_in_use_stays_until_it_is_dropped() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mounted = Stack::open("mem:").unwrap().mount(directory.path()).unwrap();
    let file = File::create(directory.path().join("name")).unwrap();
    let error = mounted.unmount().unwrap_err();
    assert!(error.to_string().starts_with("cannot unmount "), "{error}");
    assert!(directory.path().join("name").exists());
    drop(file);
    drop(mounted);
    assert_eq!(mounts_on(directory.path()), [""; 0]);
}

#[test]
fn nothing_stays_mounted_after_a_start_that_fails() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let stack = Stack::open("mem:").unwrap();
    let mounted = stack.mount(directory.path()).unwrap();
    let again = stack.mount(directory.path()).err().unwrap();
    assert!(matches!(again, Error::Mount { error: MountError::MountPointBusy(_), .. }), "{again}");
    assert_eq!(mounts_on(directory.path()).len(), 1);
    unmount(&mounted);
    let withheld = "writeback-cache".parse().unwrap();
    let options = MountOptions { write_back: true, withheld, ..stack.mount_options() };
    let refused = stack.mount_with(directory.path(), &options).err().unwrap();
    assert!(matches!(refused, Error::Mount { error: MountError::NoWriteBack(_), .. }), "{refused}");
    assert_eq!(mounts_on(directory.path()), [""; 0]);
}

#[test]
fn a_missing_mount_point_is_named_with_the_remedy() {
    let stack = Stack::open("mem:").unwrap();
    let error = stack.mount("/none/at/all").err().unwrap();
    let message = error.to_string();
    assert!(
        message.starts_with("cannot mount on /none/at/all: the mount point /none/at/all does not exist"),
        "{message}"
    );
}
