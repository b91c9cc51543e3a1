//! Real mounts of the memory base, seen as a user sees them. They need root and /dev/fuse, and say so where absent.

mod support;

use plyfs_frontends::fuse::{Mount, MountError, MountFlags, MountOptions, MountPoint, UnmountMode};
use rustix::fs::OFlags;
use rustix::mount::{MountFlags as KernelFlags, UnmountFlags};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use support::{
    Mounted, Shared, as_user, copy_program, map_while_appending, memory, mount_directory, mount_memory, mount_with,
    set_lock, thousands_wait_for_a_lock, unmount_when_unused, until, wait_for_locks,
};
use vnode::layer::{Layer, LayerFile, LayerVnode, Operation, stack};
use vnode::{Caller, Errno, Lock, LockKind, LockOwner, Needs, Promises, Properties, Result};

#[test]
fn files_are_written_read_and_mapped_to_attributes() {
    let Some(mounted) = mount_memory() else { return };
    let path = mounted.path("file");
    fs::write(&path, b"hello").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.len(), metadata.nlink()), (5, 1));
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"y", 1 << 20).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), (1 << 20) + 1);
}

#[test]
fn names_over_255_bytes_are_too_long() {
    let Some(mounted) = mount_memory() else { return };
    fs::write(mounted.path(&"n".repeat(255)), b"").unwrap();
    for length in [256, 1000] {
        let error = fs::write(mounted.path(&"n".repeat(length)), b"").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
    }
}

#[test]
fn unlinked_file_stays_usable() {
    let Some(mounted) = mount_memory() else { return };
    let path = mounted.path("file");
    let mut options = File::options();
    let mut file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    file.write_all(b"still here").unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.nlink(), metadata.len(), metadata.mode() & 0o777), (0, 10, 0o600));
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
}

#[test]
fn running_program_is_not_truncated() {
    let Some(mounted) = mount_memory() else { return };
    let path = mounted.path("program");
    copy_program("/bin/sleep", &path);
    let size = fs::metadata(&path).unwrap().len();
    let mut running = std::process::Command::new(&path).arg("10").spawn().unwrap();
    for flags in [libc::O_WRONLY | libc::O_TRUNC, libc::O_RDONLY | libc::O_TRUNC] {
        let opened = File::options().read(true).custom_flags(flags & libc::O_TRUNC).write(flags & 1 != 0).open(&path);
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::ETXTBSY));
        assert_eq!(fs::metadata(&path).unwrap().len(), size, "the program is gone");
    }
    running.kill().unwrap();
    running.wait().unwrap();
    File::options().read(true).custom_flags(libc::O_TRUNC).open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "opening for reading truncates too");
}

#[test]
fn a_large_directory_is_listed_once_and_whole() {
    let Some(mounted) = mount_memory() else { return };
    let directory = mounted.path("directory");
    fs::create_dir(&directory).unwrap();
    let mut expected: Vec<String> = (0..3000).map(|number| format!("{number}-{}", "x".repeat(number % 200))).collect();
    for name in &expected {
        fs::write(directory.join(name), b"").unwrap();
    }
    let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn cached_names_do_not_bypass_search_permission() {
    let Some(mounted) = mount_memory() else { return };
    let directory = mounted.path("directory");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("file"), b"secret").unwrap();
    let cat = format!("cat {}", directory.join("file").display());
    fs::set_permissions(directory.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(as_user(1234, &cat));
    let stat = format!("stat {}", directory.join("file").display());
    for mode in [0o700, 0o711, 0o600, 0o755, 0o710] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        let searchable = mode & 1 != 0;
        // Root's look-ups must not let others in by filling the cache.
        fs::metadata(directory.join("file")).unwrap();
        assert_eq!(as_user(1234, &stat), searchable, "mode {mode:o}");
        assert_eq!(as_user(1234, &cat), searchable, "mode {mode:o}");
    }
}

#[test]
fn names_in_open_directories_are_looked_up_once() {
    let Some(mounted) = mount_memory() else { return };
    let directory = mounted.path("directory");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("file"), b"").unwrap();
    fs::metadata(directory.join("file")).unwrap();
    let before = mounted.requests("LOOKUP") + mounted.requests("GETATTR");
    for _ in 0..100 {
        fs::metadata(directory.join("file")).unwrap();
        fs::metadata(directory.join("missing")).unwrap_err();
    }
    let asked = mounted.requests("LOOKUP") + mounted.requests("GETATTR") - before;
    assert!(asked <= 3, "{asked} requests for cached names");
}

#[test]
fn acl_that_narrows_a_directory_expires_its_names() {
    let Some((mounted, _lower)) = mount_directory(MountOptions::default()) else { return };
    let directory = mounted.path("directory");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("file"), b"").unwrap();
    let stat = format!("stat {}", directory.join("file").display());
    assert!(as_user(1234, &stat));
    // Version 2; user::rwx, user:1234:---, group::r-x, mask::r-x, other::r-x: nothing of it shows in the mode.
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, u32::MAX), (2, 0, 1234), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 5, u32::MAX)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(&directory, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty()).unwrap();
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o755);
    fs::metadata(directory.join("file")).unwrap();
    assert!(!as_user(1234, &stat));
    assert!(as_user(1235, &stat));
    rustix::fs::removexattr(&directory, "system.posix_acl_access").unwrap();
    assert!(as_user(1234, &stat));
}

/// What an access control list and chattr(1) change beside is seen at once, although the kernel keeps attributes without bound.
#[test]
fn acl_and_inode_flags_update_attributes_at_once() {
    for write_back in [false, true] {
        let Some((mounted, lower)) =
            mount_directory(MountOptions { write_back, over: true, ..MountOptions::default() })
        else {
            return;
        };
        let path = mounted.path("file");
        let file = File::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        // Version 2; user::rw-, user:1234:rwx, group::r--, mask::rwx, other::r--.
        let entries: [(u16, u16, u32); 5] =
            [(1, 6, u32::MAX), (2, 7, 1234), (4, 4, u32::MAX), (16, 7, u32::MAX), (32, 4, u32::MAX)];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(permissions.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        rustix::fs::setxattr(&path, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o674, "written back: {write_back}");

        if write_back {
            // The time of change is the kernel's own.
            continue;
        }
        let before = fs::metadata(&path).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::NODUMP).unwrap();
        let (shown, below) = (fs::metadata(&path).unwrap(), fs::metadata(lower.path().join("file")).unwrap());
        let time = |found: &fs::Metadata| (found.ctime(), found.ctime_nsec());
        assert!(time(&below) > time(&before), "the base has noted no change: this tests nothing");
        assert_eq!(time(&shown), time(&below));
    }
}

#[test]
fn passthrough_serves_the_files_of_a_directory() {
    let Some((mounted, lower)) = mount_directory(MountOptions::default()) else { return };
    let path = mounted.path("file");
    fs::write(&path, vec![1; 100_000]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), vec![1; 100_000]);
    assert_eq!(fs::read(lower.path().join("file")).unwrap(), vec![1; 100_000]);
    if mounted.mount.decisions().passthrough.is_ok() {
        assert_eq!((mounted.requests("READ"), mounted.requests("WRITE")), (0, 0));
    }
}

#[test]
fn without_passthrough_the_data_is_the_same() {
    let options = MountOptions { passthrough: false, ..MountOptions::default() };
    let Some((mounted, lower)) = mount_directory(options) else { return };
    let path = mounted.path("file");
    fs::write(&path, vec![1; 3_000_000]).unwrap();
    assert_eq!(fs::read(lower.path().join("file")).unwrap(), vec![1; 3_000_000]);
    fs::write(lower.path().join("other"), b"made below").unwrap();
    assert_eq!(fs::read(mounted.path("other")).unwrap(), b"made below");
    assert!(mounted.requests("WRITE") >= 3);
}

/// A layer that declares these properties and does nothing.
struct DeclaredProperties(Properties);

impl Layer for DeclaredProperties {
    type State = ();

    fn kind(&self) -> &'static str {
        "declares"
    }

    fn promises(&self) -> Promises {
        self.0.promises
    }

    fn needs(&self) -> Needs {
        self.0.needs
    }
}

#[test]
fn page_cache_survives_an_open_of_an_unchanged_file() {
    let options = MountOptions { passthrough: false, ..MountOptions::default() };
    let Some((mounted, lower)) = mount_directory(options) else { return };
    let (path, below) = (mounted.path("file"), lower.path().join("file"));
    fs::write(&below, vec![1; 300_000]).unwrap();
    // As long as times may not tell a change, nothing is kept.
    std::thread::sleep(Duration::from_millis(50));
    let read = || fs::read(&path).unwrap();
    assert_eq!(read(), vec![1; 300_000]);
    let requests = mounted.requests("READ");
    assert!(requests > 0);
    assert_eq!(read(), vec![1; 300_000]);
    assert_eq!(mounted.requests("READ"), requests, "it was cached");
    for round in 2..30 {
        // Of the same size, and right after it was opened and read.
        fs::write(&below, vec![round; 300_000]).unwrap();
        assert_eq!(read(), vec![round; 300_000]);
        fs::write(&path, vec![round + 100; 300_000]).unwrap();
        assert_eq!(read(), vec![round + 100; 300_000]);
    }
}

#[test]
fn mapping_of_an_appending_file_writes_in_place() {
    for write_back in [false, true] {
        let Some(mounted) = mount_with(memory(), MountOptions { write_back, ..MountOptions::default() }) else {
            return;
        };
        let path = mounted.path("file");
        fs::write(&path, [b'a'; 8192]).unwrap();
        assert!(map_while_appending(&path));
        let mut expected = [b'a'; 8195];
        expected[10..15].copy_from_slice(b"HELLO");
        expected[8192..].copy_from_slice(b"end");
        assert!(fs::read(&path).unwrap() == expected, "written back: {write_back}");
    }
}

#[test]
fn writes_follow_flags_set_by_fcntl() {
    let options = |passthrough, write_back| MountOptions { passthrough, write_back, ..MountOptions::default() };
    for options in [options(true, false), options(false, false), options(false, true)] {
        let Some((mounted, lower)) = mount_directory(options.clone()) else { return };
        let path = mounted.path("file");
        let written = |opened: OFlags, then: OFlags, offset: u64| {
            fs::write(&path, "0123456789").unwrap();
            let file = rustix::fs::open(&path, opened, rustix::fs::Mode::empty()).unwrap();
            // Also where others have opened the file, and appending has begun.
            let other = File::open(&path).unwrap();
            rustix::io::pwrite(&file, b"+", offset).unwrap();
            rustix::fs::fcntl_setfl(&file, then).unwrap();
            rustix::io::pwrite(&file, b"X", offset).unwrap();
            drop((file, other));
            fs::read_to_string(lower.path().join("file")).unwrap()
        };
        for access in [OFlags::WRONLY, OFlags::RDWR] {
            let appending = access | OFlags::APPEND;
            assert_eq!(written(appending, OFlags::empty(), 3), "012X456789+", "{options:?}");
            assert_eq!(written(access, OFlags::APPEND, 3), "012+456789X", "{options:?}");
            assert_eq!(written(appending, OFlags::APPEND, 3), "0123456789+X", "{options:?}");
        }
    }
}

#[test]
fn concurrent_appends_lose_nothing() {
    const EACH: usize = 500;
    for passthrough in [true, false] {
        let Some((mounted, lower)) = mount_directory(MountOptions { passthrough, ..MountOptions::default() }) else {
            return;
        };
        let path = mounted.path("log");
        fs::write(&path, "").unwrap();
        std::thread::scope(|scope| {
            for writer in ["a", "b", "c"] {
                let path = &path;
                scope.spawn(move || {
                    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
                    (0..EACH).for_each(|_| file.write_all(writer.as_bytes()).unwrap());
                });
            }
        });
        let log = fs::read_to_string(lower.path().join("log")).unwrap();
        assert_eq!(["a", "b", "c"].map(|writer| log.matches(writer).count()), [EACH; 3], "{passthrough}");
        assert_eq!(fs::read_to_string(&path).unwrap(), log, "{passthrough}");
    }
}

fn written_back() -> Option<(Mounted, tempfile::TempDir)> {
    mount_directory(MountOptions { write_back: true, over: true, ..MountOptions::default() })
}

/// Takes its time to write.
struct LateWrites;

impl Layer for LateWrites {
    type State = ();

    fn kind(&self) -> &'static str {
        "late"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        std::thread::sleep(Duration::from_millis(300));
        file.forward_write_at(caller, offset, data)
    }
}

/// The kernel writes back pages and times in one go when nobody waits for it, and reports the time while the pages are
/// on their way.
#[test]
fn late_writeback_keeps_the_mtime_of_the_kernel() {
    let below = memory();
    let options = MountOptions { write_back: true, ..MountOptions::default() };
    let Some(mounted) = mount_with(stack(LateWrites, below.clone()), options) else { return };
    let mut file = File::create(mounted.path("file")).unwrap();
    file.write_all(b"data").unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    rustix::fs::syncfs(File::open(mounted.mount.mount_point()).unwrap()).unwrap();
    drop(file);
    let caller = Caller::server();
    let name = vnode::Name::new(b"file").unwrap();
    let is_there = || {
        let found = below.root().lookup(&caller, name).unwrap().attributes;
        let time = Duration::new(found.mtime.seconds as u64, found.mtime.nanoseconds);
        (found.size, std::time::UNIX_EPOCH + time)
    };
    let patience = Instant::now() + Duration::from_secs(10);
    while is_there().0 != 4 {
        assert!(Instant::now() < patience, "the data do not arrive");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(is_there(), (4, written));
}

#[test]
fn cached_writes_arrive_at_close_or_fsync() {
    let Some((mounted, lower)) = written_back() else { return };
    assert!(mounted.mount.decisions().write_back.is_ok());
    let below = lower.path().join("file");
    let mut file = File::create(mounted.path("file")).unwrap();
    for number in 0..20_000 {
        writeln!(file, "{number:09}").unwrap();
    }
    assert!(mounted.requests("WRITE") < 200, "{}", mounted.requests("WRITE"));
    assert_eq!(file.metadata().unwrap().len(), 200_000);
    file.sync_all().unwrap();
    assert_eq!(fs::metadata(&below).unwrap().len(), 200_000);
    // Times go on in steps.
    std::thread::sleep(Duration::from_millis(20));
    file.write_all(b"last").unwrap();
    let written = file.metadata().unwrap();
    drop(file);
    let text = fs::read_to_string(&below).unwrap();
    assert!(text.len() == 200_004 && text.ends_with("000019999\nlast"));
    let arrived = fs::metadata(&below).unwrap();
    assert_eq!((arrived.mtime(), arrived.mtime_nsec()), (written.mtime(), written.mtime_nsec()));
    assert!(fs::metadata(mounted.path("file")).unwrap().blocks() > 0, "what it takes is asked for again");
}

#[test]
fn cached_writes_are_not_holes() {
    let Some((mounted, _lower)) = written_back() else { return };
    let mut file = File::create_new(mounted.path("file")).unwrap();
    file.write_all_at(&[1; 4096], 1 << 20).unwrap();
    file.set_len(4 << 20).unwrap();
    file.write_all_at(&[1; 4096], 2 << 20).unwrap();
    let mut reader = File::open(mounted.path("file")).unwrap();
    for file in [&mut file, &mut reader] {
        let mut found = Vec::new();
        let mut at = 0;
        while let Ok(data) = rustix::fs::seek(&*file, rustix::fs::SeekFrom::Data(at)) {
            at = rustix::fs::seek(&*file, rustix::fs::SeekFrom::Hole(data)).unwrap();
            found.push((data, at));
        }
        assert_eq!(found, [(1 << 20, (1 << 20) + 4096), (2 << 20, (2 << 20) + 4096)]);
    }
    assert_eq!(fs::read(mounted.path("file")).unwrap()[1 << 20], 1);
}

#[test]
fn writers_may_write_with_the_writeback_cache() {
    let Some((mounted, lower)) = written_back() else { return };
    let path = mounted.path("file");
    fs::write(&path, b"old\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let text = || fs::read_to_string(lower.path().join("file")).unwrap();
    // Appended by two at once, each at the end.
    let script = |word: &str| format!("for i in 1 2 3 4 5 6 7 8 9; do echo {word} >> {}; done", path.display());
    std::thread::scope(|scope| {
        let others = ["one", "two"].map(|word| scope.spawn(move || as_user(1000, &script(word))));
        assert!(others.into_iter().all(|other| other.join().unwrap()));
    });
    assert_eq!((text().matches("one\n").count(), text().matches("two\n").count(), text().len()), (9, 9, 4 + 72));
    // The time of now, by somebody else than the owner; another time is the owner's to set.
    fs::File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(fs::metadata(lower.path().join("file")).unwrap().mtime(), 0);
    assert!(!as_user(1000, &format!("touch -d 2001-01-01 {}", path.display())));
    assert!(as_user(1000, &format!("touch {}", path.display())));
    assert!(fs::metadata(lower.path().join("file")).unwrap().mtime() > 1_600_000_000);
    // Closing writes times back, in the name of whoever closes.
    fs::rename(&path, mounted.path("other")).unwrap();
    fs::rename(mounted.path("other"), &path).unwrap();
    assert!(as_user(1000, &format!("cat {0} {0} > /dev/null", path.display())));
    // What may only be written is read by nobody but the server.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o222)).unwrap();
    assert!(as_user(1000, &format!("printf new | dd of={} conv=notrunc bs=3 2>&1", path.display())));
    assert!(text().starts_with("new\none") || text().starts_with("new\ntwo"), "{}", text());
    assert!(!as_user(1000, &format!("cat {}", path.display())));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(!as_user(1000, &format!("echo x >> {}", path.display())));
}

#[test]
fn writeback_cache_is_off_where_a_layer_sees_writes() {
    let options = MountOptions { write_back: true, ..MountOptions::default() };
    let directory = tempfile::tempdir().unwrap();
    let watched = Properties { needs: Needs { every_data_operation: true, ..Needs::NONE }, ..Properties::TRANSPARENT };
    let refused =
        Mount::new(stack(DeclaredProperties(watched), memory()), directory.path(), &options).map(drop).unwrap_err();
    assert!(matches!(refused, MountError::NoWriteBack(_)), "{refused}");
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is mounted");
}

#[test]
fn close_without_errors_to_report_sends_no_flush() {
    let Some(mounted) = mount_memory() else { return };
    for number in 0..20 {
        fs::write(mounted.path("file"), [number; 100]).unwrap();
        fs::read(mounted.path("file")).unwrap();
    }
    assert_eq!(mounted.requests("FLUSH"), 0);
}

#[test]
fn first_read_after_a_write_updates_the_access_time() {
    let options = MountOptions { over: true, passthrough: false, ..MountOptions::default() };
    let Some((mounted, _lower)) = mount_directory(options) else { return };
    let path = mounted.path("file");
    fs::write(&path, [1; 20_000]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let is_read = || fs::metadata(&path).map(|state| state.accessed().unwrap() > state.modified().unwrap()).unwrap();
    assert!(!is_read());
    fs::read(&path).unwrap();
    assert!(is_read());
    let requests = mounted.requests("READ");
    fs::read(&path).unwrap();
    assert_eq!(mounted.requests("READ"), requests, "it was cached");
}

/// Maps a page of a file, to be written.
fn map_page(file: &File) -> *mut u8 {
    let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, protection, rustix::mm::MapFlags::SHARED, file, 0) }
        .unwrap()
        .cast()
}

/// Writes to a page of [`map_page`] and takes it away.
fn write_and_unmap(page: *mut u8) {
    // SAFETY: the page is mapped, and used for the last time here.
    unsafe {
        page.write(page.read() + 1);
        rustix::mm::msync(page.cast(), 4096, rustix::mm::MsyncFlags::SYNC).unwrap();
        rustix::mm::munmap(page.cast(), 4096).unwrap();
    }
}

#[test]
fn mapped_write_updates_the_mtime() {
    let Some((mounted, lower)) = mount_directory(MountOptions { over: true, ..MountOptions::default() }) else {
        return;
    };
    let path = mounted.path("file");
    fs::write(&path, vec![0; 4096]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let page = map_page(&file);
    drop(file);
    // With passthrough, the file that was mapped is closed now; else when the mapping goes.
    let is_closed = mounted.mount.decisions().passthrough.is_ok();
    let patience = Instant::now() + Duration::from_secs(20);
    while is_closed && mounted.requests("RELEASE") < 2 {
        assert!(Instant::now() < patience, "the file is not closed");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The kernel drops its cached attributes when it makes a mapping, and not when a page is written: cached again,
    // they are those from before the write.
    fs::metadata(&path).unwrap();
    write_and_unmap(page);
    let below = fs::metadata(lower.path().join("file")).unwrap().modified().unwrap();
    assert!(below > before);
    let patience = Instant::now() + Duration::from_secs(5);
    while fs::metadata(&path).unwrap().modified().unwrap() != below {
        assert!(Instant::now() < patience, "the time of before the mapping is kept");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(fs::read(&path).unwrap()[0], 1);
}

#[test]
fn a_file_written_through_a_mapping_shows_its_time_when_it_is_closed() {
    /// Attributes of a file that may be mapped are kept for a second: what is seen sooner is seen because of the close.
    const CLOSE_TIMEOUT: Duration = Duration::from_millis(800);
    let Some((mounted, lower)) = mount_directory(MountOptions { over: true, ..MountOptions::default() }) else {
        return;
    };
    let path = mounted.path("file");
    fs::write(&path, vec![0; 4096]).unwrap();
    let is_seen_at_close = || {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let page = map_page(&file);
        let asked = Instant::now();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_and_unmap(page);
        drop(file);
        let below = fs::metadata(lower.path().join("file")).unwrap().modified().unwrap();
        assert!(below > before);
        while fs::metadata(&path).unwrap().modified().unwrap() != below {
            std::thread::sleep(Duration::from_millis(5));
        }
        asked.elapsed() < CLOSE_TIMEOUT
    };
    // A machine that is busy with something else may be late, but not always.
    assert!((0..10).any(|_| is_seen_at_close()));
}

#[test]
fn passthrough_writes_clear_set_id_bits_except_for_root() {
    let Some((mounted, _lower)) = mount_directory(MountOptions::default()) else { return };
    let path = mounted.path("program");
    fs::write(&path, b"old").unwrap();
    let opened_before = File::options().write(true).open(&path).unwrap();
    let set = || fs::set_permissions(&path, fs::Permissions::from_mode(0o4777)).unwrap();
    let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
    set();
    opened_before.write_all_at(b"x", 0).unwrap();
    assert_eq!(mode(), 0o4777);
    // While root's descriptor is open, with root's backing file.
    assert!(as_user(1234, &format!("printf new >> {}", path.display())));
    assert_eq!(mode(), 0o777);
    drop(opened_before);
    set();
    assert!(as_user(1234, &format!("printf new >> {}", path.display())));
    assert_eq!(mode(), 0o777);
}

#[test]
fn a_capability_set_on_a_new_file_is_seen_and_goes_with_a_write() {
    let Some((mounted, _lower)) = mount_directory(MountOptions::default()) else { return };
    let path = mounted.path("program");
    fs::write(&path, b"old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let mut capability = vec![1, 0, 0, 2, 0, 4, 0, 0];
    capability.extend([0; 12]);
    let name = "security.capability";
    rustix::fs::setxattr(&path, name, &capability, rustix::fs::XattrFlags::empty()).unwrap();
    let mut room = [0; 64];
    assert_eq!(rustix::fs::getxattr(&path, name, &mut room), Ok(20));
    assert!(as_user(1234, &format!("printf new >> {}", path.display())));
    assert_eq!(rustix::fs::getxattr(&path, name, &mut room), Err(rustix::io::Errno::NODATA));
}

#[test]
fn every_change_of_data_takes_privileges_from_a_user_and_keeps_set_id_bits_for_root() {
    const CHANGES: [&str; 9] = [
        "printf new >>",
        "dd conv=notrunc count=1 of=",
        "truncate -s 3",
        "true >",
        "fallocate -l 4096",
        "fallocate -n -o 4096 -l 65536",
        "fallocate -p -o 4096 -l 4096",
        "fallocate -z -o 4096 -l 4096",
        "python3 -c 'import os, sys; assert os.copy_file_range(0, os.open(sys.argv[1], os.O_WRONLY), 4096) == 4096'",
    ];
    let on_directory = mount_directory(MountOptions::default());
    let (on_directory, lower) = on_directory.map_or((None, None), |(mounted, lower)| (Some(mounted), Some(lower)));
    // tmpfs cannot.
    let zeroes_ranges = lower.as_ref().is_none_or(|lower| {
        let probe = lower.path().join("probe");
        fs::write(&probe, [1; 8192]).unwrap();
        as_user(0, &format!("fallocate -z -o 4096 -l 4096 {}", probe.display()))
    });
    let mounts = [mount_memory().map(|mounted| (mounted, true)), on_directory.map(|mounted| (mounted, zeroes_ranges))];
    for (mounted, zeroes_ranges) in mounts.into_iter().flatten() {
        let path = mounted.path("program");
        let source = mounted.path("source");
        fs::write(&source, [1; 8192]).unwrap();
        let name = "security.capability";
        let mut capability = vec![1, 0, 0, 2, 0, 4, 0, 0];
        capability.extend([0; 12]);
        for command in CHANGES.into_iter().filter(|command| zeroes_ranges || !command.starts_with("fallocate -z")) {
            let separator = if command.ends_with('=') { "" } else { " " };
            let command = format!("{command}{separator}{} <{}", path.display(), source.display());
            // Without passthrough the kernel writes as somebody who may not keep set-ID bits, whoever writes.
            let is_write = ["printf", "dd"].iter().any(|program| command.starts_with(program));
            for (uid, mode) in [(1234, 0o777), (0, 0o6777)].into_iter().take(if is_write { 1 } else { 2 }) {
                fs::write(&path, [2; 4 * 4096]).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
                rustix::fs::setxattr(&path, name, &capability, rustix::fs::XattrFlags::empty()).unwrap();
                assert!(as_user(uid, &command), "{command}");
                let left = rustix::fs::getxattr(&path, name, &mut [0; 64][..]);
                assert_eq!(left, Err(rustix::io::Errno::NODATA), "{uid}: {command}");
                fs::write(&path, [2; 4 * 4096]).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
                assert!(as_user(uid, &command), "{command}");
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode, "{uid}: {command}");
            }
        }
    }
}

#[test]
fn refused_change_keeps_capabilities() {
    let options = MountOptions { allow_other: true, default_permissions: Some(false), ..MountOptions::default() };
    let Some((mounted, _lower)) = mount_directory(options) else { return };
    let path = mounted.path("program");
    fs::write(&path, b"old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), Some(1234)).unwrap();
    let name = "security.capability";
    let set = || {
        let capability: Vec<u8> =
            [0x0200_0001_u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        rustix::fs::setxattr(&path, name, &capability, rustix::fs::XattrFlags::empty()).unwrap();
    };
    let has = || rustix::fs::getxattr(&path, name, &mut [0; 64][..]).is_ok();
    let run = |uid, command: &str| as_user(uid, &format!("{command} {}", path.display()));
    set();
    assert!(!run(1234, "chown 5") && has(), "the owner may not give it away");
    assert!(!run(1235, "chgrp 1235") && has(), "it is another's");
    assert!(!run(1235, "setcap -r") && has());
    for command in ["printf new >>", "truncate -s 3", "chown -h :1234"] {
        set();
        assert!(run(1234, command) && !has(), "{command}");
    }
    set();
    // As Linux does: no ids are named, and nobody is asked.
    assert!(run(1235, "chown :") && !has());
    set();
    assert!(run(1234, "unshare --user --map-root-user setcap cap_net_raw=ep") && has());
    assert!(run(1234, "unshare --user --map-root-user setcap -r") && !has());
}

/// Pins this thread to the first of its CPUs; returns those on which it could run before.
fn pin_to_one_cpu() -> rustix::thread::CpuSet {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set(first);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    allowed
}

/// Misbehaves at certain names.
#[derive(Default)]
struct MisbehavingLayer(Arc<Gate>);

/// Holds slow requests until it is opened, or for so long that nobody could take it for a busy machine.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    gave_up: AtomicBool,
}

impl Gate {
    fn wait(&self) {
        const GATE_TIMEOUT: Duration = Duration::from_secs(60);
        let is_open = self.is_open.lock().unwrap();
        let (_open, end) = self.opened.wait_timeout_while(is_open, GATE_TIMEOUT, |is_open| !*is_open).unwrap();
        self.gave_up.fetch_or(end.timed_out(), Ordering::Relaxed);
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn shut(&self) {
        *self.is_open.lock().unwrap() = false;
    }

    /// Opened even if the test fails in between.
    fn open_on_drop(&self) -> impl Drop {
        struct Opener<'g>(&'g Gate);
        impl Drop for Opener<'_> {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        Opener(self)
    }
}

impl Layer for MisbehavingLayer {
    type State = ();

    fn kind(&self) -> &'static str {
        "unruly"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, ..Needs::NONE }
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        let Operation::Lookup(name) = operation else { return Ok(()) };
        match name.as_bytes() {
            b"panic" => panic!("as asked"),
            b"slow" => self.0.wait(),
            b"enosys" => return Err(Errno::ENOSYS),
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn panic_fails_only_its_request() {
    let Some(mounted) = mount_with(stack(MisbehavingLayer::default(), memory()), MountOptions::default()) else {
        return;
    };
    fs::write(mounted.path("file"), b"before").unwrap();
    for _ in 0..20 {
        let error = fs::metadata(mounted.path("panic")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"before");
}

#[test]
fn refused_operation_is_sent_again() {
    let Some(mounted) = mount_with(stack(MisbehavingLayer::default(), memory()), MountOptions::default()) else {
        return;
    };
    assert!(fs::metadata(mounted.path("enosys")).is_err());
    fs::write(mounted.path("file"), b"").unwrap();
    assert!(fs::metadata(mounted.path("file")).is_ok());
}

/// Callers on one CPU, more than it has workers, and all at once: those that come last wait in the kernel until there
/// is another worker, and for nobody who is slow.
#[test]
fn burst_of_slow_requests_on_one_cpu_does_not_delay_others() {
    let gate = Arc::new(Gate::default());
    let Some(mounted) = mount_with(stack(MisbehavingLayer(gate.clone()), memory()), MountOptions::default()) else {
        return;
    };
    for burst in 0..5 {
        let directories: Vec<PathBuf> = (0..16).map(|number| mounted.path(&format!("{burst}-{number}"))).collect();
        directories.iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let start = std::sync::Barrier::new(directories.len() + 1);
        let elsewhere = pin_to_one_cpu();
        gate.shut();
        std::thread::scope(|scope| {
            let _opener = gate.open_on_drop();
            for directory in &directories {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    fs::metadata(directory.join("slow")).unwrap_err()
                });
            }
            start.wait();
            let _ = fs::metadata(mounted.path("quick"));
        });
        rustix::thread::sched_setaffinity(None, &elsewhere).unwrap();
        assert!(!gate.gave_up.load(Ordering::Relaxed), "the quick one of burst {burst} waited for a slow one");
    }
}

/// A worker that left its CPU to the caller would get it back only after all others that compute there.
/// Sets a flag when it is dropped, also by a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn caller_is_served_beside_busy_programs_on_its_cpu() {
    let Some(mounted) = mount_with(memory(), MountOptions::default()) else { return };
    let elsewhere = pin_to_one_cpu();
    let (is_over, busy, requests) = (AtomicBool::new(false), 3, 6_000);
    let ask = |number: u32| fs::metadata(mounted.path(&number.to_string())).unwrap_err();
    // On a slow machine, or one that has much else to do, requests take long by themselves.
    let started = Instant::now();
    (0..requests / 10).for_each(|number| drop(ask(number)));
    let limit = Duration::from_secs(20) + 100 * started.elapsed();
    std::thread::scope(|scope| {
        // Also when a request takes too long.
        let _end = SetOnDrop(&is_over);
        for _ in 0..busy {
            // They stay on this thread's CPU.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let started = Instant::now();
        for number in 0..requests {
            ask(number);
            // Not that of one request, which may meet the slices of all others.
            let taken = started.elapsed();
            assert!(taken < limit, "{number} requests took {taken:?}");
        }
    });
    rustix::thread::sched_setaffinity(None, &elsewhere).unwrap();
}

#[test]
fn slow_requests_do_not_delay_others() {
    let gate = Arc::new(Gate::default());
    let Some(mounted) = mount_with(stack(MisbehavingLayer(gate.clone()), memory()), MountOptions::default()) else {
        return;
    };
    for number in 0..8 {
        let directory = mounted.path(&number.to_string());
        fs::create_dir(&directory).unwrap();
    }
    std::thread::scope(|scope| {
        let _opener = gate.open_on_drop();
        for number in 0..8 {
            let slow = mounted.path(&number.to_string()).join("slow");
            scope.spawn(move || fs::metadata(slow).unwrap_err());
        }
        std::thread::sleep(Duration::from_millis(300));
        for number in 0..50 {
            fs::write(mounted.path(&format!("file{number}")), b"quick").unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while mounted.mount.workers() < 9 {
            assert!(Instant::now() < deadline, "{} workers for eight slow requests", mounted.mount.workers());
        }
    });
    assert!(!gate.gave_up.load(Ordering::Relaxed), "quick requests waited for slow ones");
    if mounted.mount.decisions().uring.is_ok() {
        // With rings the burst's workers stay for a while.
        return;
    }
    // The burst's workers do not stay.
    for number in 0..200 {
        fs::write(mounted.path(&format!("file{number}")), b"quick").unwrap();
    }
    let patience = Instant::now() + Duration::from_secs(10);
    while mounted.mount.workers() > 6 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
        fs::write(mounted.path("file0"), b"again").unwrap();
    }
    assert!(mounted.mount.workers() <= 6, "{} workers left", mounted.mount.workers());
}

/// How long after its release a lock is got by who waits for it.
fn time_until_woken(mounted: &Mounted, holder: &File, other: &File) -> Duration {
    set_lock(other, libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0).unwrap();
    set_lock(holder, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 10).unwrap();
    let requests = mounted.requests("SETLKW");
    let error = set_lock(other, libc::F_OFD_SETLK, libc::F_RDLCK, 5, 1).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    set_lock(other, libc::F_OFD_SETLK, libc::F_RDLCK, 10, 1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            set_lock(other, libc::F_OFD_SETLKW, libc::F_WRLCK, 5, 1).unwrap();
            Instant::now()
        });
        std::thread::sleep(Duration::from_millis(300));
        assert!(!waiter.is_finished());
        let released = Instant::now();
        set_lock(holder, libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0).unwrap();
        let taken = waiter.join().unwrap();
        assert!(taken >= released);
        assert_eq!(mounted.requests("SETLKW"), requests + 1);
        taken - released
    })
}

#[test]
fn lock_request_waits_until_release() {
    let Some(mounted) = mount_with(stack(Shared, memory()), MountOptions::default()) else { return };
    let path = mounted.path("file");
    fs::write(&path, b"data").unwrap();
    let holder = File::options().read(true).write(true).open(&path).unwrap();
    let other = File::options().read(true).write(true).open(&path).unwrap();
    // A machine that is busy with something else may be late, but not always.
    let mut times = (0..20).map(|_| time_until_woken(&mounted, &holder, &other));
    assert!(times.any(|time| time < Duration::from_millis(150)));
}

#[test]
fn waiting_for_a_lock_ends_with_a_signal() {
    let Some(mounted) = mount_with(stack(Shared, memory()), MountOptions::default()) else { return };
    let path = mounted.path("file");
    fs::write(&path, b"data").unwrap();
    let holder = File::options().read(true).write(true).open(&path).unwrap();
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let started = Instant::now();
    let status =
        Command::new("timeout").args(["-s", "INT", "0.5", "flock", path.to_str().unwrap(), "true"]).status().unwrap();
    assert!(!status.success());
    assert!(started.elapsed() < Duration::from_secs(5), "the wait was not interrupted");
    // The mount is free of it. The kernel's word that the file was closed comes a moment after that.
    drop(holder);
    assert!(Command::new("flock").args(["-w", "20", path.to_str().unwrap(), "true"]).status().unwrap().success());
}

#[test]
fn thousands_may_wait_for_locks_while_others_are_served() {
    let Some(mounted) = mount_with(stack(Shared, memory()), MountOptions::default()) else { return };
    thousands_wait_for_a_lock(&mounted);
}

#[test]
fn locks_are_granted_in_order_of_request() {
    use rustix::fs::{FlockOperation, flock};
    let Some(mounted) = mount_with(stack(Shared, memory()), MountOptions::default()) else { return };
    let path = mounted.path("file");
    fs::write(&path, b"data").unwrap();
    let holder = File::open(&path).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    let (order, first) = (Mutex::new(Vec::new()), mounted.requests("SETLKW"));
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (order, file) = (&order, File::open(&path).unwrap());
            scope.spawn(move || {
                flock(&file, FlockOperation::LockExclusive).unwrap();
                order.lock().unwrap().push(number);
            });
            until(|| mounted.requests("SETLKW") > first + number, "it waits");
        }
        flock(&holder, FlockOperation::Unlock).unwrap();
    });
    assert_eq!(order.into_inner().unwrap(), (0..16).collect::<Vec<_>>());
}

#[test]
fn lock_held_by_another_program_is_waited_for() {
    use rustix::fs::{FlockOperation, flock};
    let Some((mounted, lower)) = mount_directory(MountOptions::default()) else { return };
    let path = mounted.path("file");
    fs::write(&path, b"data").unwrap();
    let holder = File::open(lower.path().join("file")).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    std::thread::scope(|scope| {
        let waiters = wait_for_locks(scope, &path, 8, FlockOperation::LockExclusive);
        std::thread::sleep(Duration::from_millis(300));
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        flock(&holder, FlockOperation::Unlock).unwrap();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
    });
}

#[test]
fn killed_waiter_gets_no_lock() {
    let Some(mounted) = mount_with(stack(Shared, memory()), MountOptions::default()) else { return };
    let path = mounted.path("file");
    fs::write(&path, b"data").unwrap();
    let holder = File::open(&path).unwrap();
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut waiter = Command::new("flock").arg(&path).arg("true").spawn().unwrap();
    until(|| mounted.requests("SETLKW") >= 1, "it waits");
    waiter.kill().unwrap();
    until(|| waiter.try_wait().unwrap().is_some(), "it is gone");
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::Unlock).unwrap();
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
}

/// How long a lock takes to go.
const UNLOCK_DELAY: Duration = Duration::from_millis(10);

/// Locks reach the base, and are slow to go.
struct SlowToUnlock;

impl Layer for SlowToUnlock {
    type State = ();

    fn kind(&self) -> &'static str {
        "slow to unlock"
    }

    fn promises(&self) -> Promises {
        Promises { exclusive: false, ..Promises::TRANSPARENT }
    }

    fn lock(&self, file: &LayerFile<Self>, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        if lock.kind == LockKind::Unlock {
            std::thread::sleep(UNLOCK_DELAY);
        }
        file.forward_lock(caller, owner, lock)
    }
}

/// The release of a closed file comes a moment later, when the next file may have the same place in the kernel's memory.
#[test]
fn closed_file_releases_no_lock_of_a_later_one() {
    use rustix::fs::{FlockOperation, flock};
    let Some(mounted) = mount_with(stack(SlowToUnlock, memory()), MountOptions::default()) else { return };
    let path = mounted.path("file");
    fs::write(&path, b"data").unwrap();
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    let watcher = open();
    for round in 0..20 {
        let holder = open();
        flock(&holder, FlockOperation::LockExclusive).unwrap();
        std::thread::sleep(2 * UNLOCK_DELAY);
        let refused = flock(&watcher, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(refused, Err(rustix::io::Errno::WOULDBLOCK), "round {round}: the lock was lost");
        flock(&holder, FlockOperation::Unlock).unwrap();
    }
}

#[test]
fn any_close_releases_posix_locks() {
    let Some(mounted) = mount_with(stack(Shared, memory()), MountOptions::default()) else { return };
    let path = mounted.path("file");
    fs::write(&path, b"data").unwrap();
    let first = File::options().read(true).write(true).open(&path).unwrap();
    set_lock(&first, libc::F_SETLK, libc::F_WRLCK, 0, 0).unwrap();
    let other = File::options().read(true).write(true).open(&path).unwrap();
    assert!(set_lock(&other, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 0).is_err());
    drop(File::open(&path).unwrap());
    set_lock(&other, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 0).unwrap();
}

/// Has no locks, which the front end keeps then.
struct Lockless;

impl Layer for Lockless {
    type State = ();

    fn kind(&self) -> &'static str {
        "lockless"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn lock(&self, _: &LayerFile<Self>, _: &Caller, _: &LockOwner, _: &Lock) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn test_lock(&self, _: &LayerFile<Self>, _: &Caller, _: &LockOwner, _: &Lock) -> Result<Option<Lock>> {
        Err(Errno::EOPNOTSUPP)
    }
}

#[test]
fn closing_releases_locks_with_and_without_base_locks() {
    let options = MountOptions { forward_locks: Some(true), ..MountOptions::default() };
    for file_system in [stack(Lockless, memory()), stack(Shared, memory())] {
        let Some(mounted) = mount_with(file_system, options.clone()) else { return };
        let path = mounted.path("file");
        fs::write(&path, b"data").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let other = open();
        for _ in 0..3 {
            let holder = open();
            set_lock(&holder, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 0).unwrap();
            assert!(set_lock(&other, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 0).is_err());
            drop(holder);
            // The close is reported a moment later.
            until(|| set_lock(&other, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 0).is_ok(), "the lock is gone");
            set_lock(&other, libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0).unwrap();
        }
    }
}

#[test]
fn write_by_another_user_clears_set_id_bits() {
    let Some(mounted) = mount_memory() else { return };
    let path = mounted.path("program");
    fs::write(&path, b"old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    assert!(as_user(1234, &format!("printf new >> {}", path.display())));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    assert!(as_user(1234, &format!("truncate -s 1 {}", path.display())));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    assert!(as_user(1234, &format!("printf new > {}", path.display())));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
}

#[test]
fn unreadable_program_can_be_executed() {
    let Some(mounted) = mount_memory() else { return };
    let path = mounted.path("program");
    copy_program("/bin/true", &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o711)).unwrap();
    assert!(as_user(1234, path.to_str().unwrap()));
    assert!(!as_user(1234, &format!("cat {} > /dev/null", path.display())));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(!as_user(1234, path.to_str().unwrap()));
}

#[test]
fn a_file_opened_for_direct_io_works() {
    let Some(mounted) = mount_memory() else { return };
    let path = mounted.path("file");
    fs::write(&path, vec![7; 8192]).unwrap();
    let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
    let mut block = vec![0; 4096 * 2];
    let aligned = block.as_ptr().align_offset(4096);
    let read = direct.unwrap().read_at(&mut block[aligned..aligned + 4096], 4096).unwrap();
    assert_eq!(read, 4096);
    assert!(block[aligned..aligned + 4096].iter().all(|&byte| byte == 7));
}

/// Counts the objects below it that were let go.
struct Counting(Arc<AtomicU64>);

impl Layer for Counting {
    type State = ();

    fn kind(&self) -> &'static str {
        "counting"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn release(&self, _: &LayerFile<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn unmount_ends_threads_and_releases_open_files() {
    let released = Arc::new(AtomicU64::new(0));
    let file_system = stack(Counting(Arc::clone(&released)), memory());
    let Some(mounted) = mount_with(file_system, MountOptions::default()) else { return };
    let file = File::create(mounted.path("file")).unwrap();
    let error = mounted.mount.unmount(UnmountMode::Clean).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
    mounted.mount.unmount(UnmountMode::Lazy).unwrap();
    assert!(!mounted.mount.wait_timeout(Duration::from_millis(100)), "served while in use");
    unmount_when_unused(&mounted.mount);
    (&file).write_all(b"still served").unwrap();
    drop(file);
    assert!(mounted.mount.wait_timeout(Duration::from_secs(10)));
    assert_eq!(released.load(Ordering::SeqCst), 1);
    assert_eq!(mounted.mount.workers(), 0);
}

/// A directory on which a test mounts, which is unmounted whatever becomes of the test.
struct TestMountPoint(tempfile::TempDir);

impl Drop for TestMountPoint {
    fn drop(&mut self) {
        while rustix::mount::unmount(self.0.path(), UnmountFlags::DETACH).is_ok() {}
    }
}

#[test]
fn the_next_mount_with_its_number_is_not_unmounted() {
    /// Number of mounts in a row among which the number should be. Others that mount at the same time may take it.
    const MOUNTS: usize = 50;
    let number = |path: &Path| MountPoint::open(path).unwrap().mount();
    for _ in 0..20 {
        let Some(mounted) = mount_memory() else { return };
        let own = number(mounted.mount.mount_point());
        let (kept, other) =
            (TestMountPoint(tempfile::tempdir().unwrap()), TestMountPoint(tempfile::tempdir().unwrap()));
        let (kept_path, other_path) = (kept.0.path(), other.0.path());
        // The file system is in use after its mount is gone.
        rustix::mount::mount_bind(mounted.mount.mount_point(), kept_path).unwrap();
        rustix::mount::unmount(mounted.mount.mount_point(), UnmountFlags::empty()).unwrap();
        let is_given_again = (0..MOUNTS).any(|_| {
            rustix::mount::mount("none", other_path, "tmpfs", KernelFlags::empty(), c"size=64k").unwrap();
            number(other_path) == own
        });
        if !is_given_again {
            continue;
        }
        for mode in [UnmountMode::Clean, UnmountMode::Lazy, UnmountMode::Abort] {
            mounted.mount.unmount(mode).unwrap();
            assert_eq!(number(other_path), own, "{mode:?}");
        }
        assert!(!mounted.mount.wait_timeout(Duration::ZERO), "still served");
        rustix::mount::unmount(kept_path, UnmountFlags::empty()).unwrap();
        assert!(mounted.mount.wait_timeout(Duration::from_secs(10)));
        return;
    }
    panic!("the kernel did not give a number again");
}

#[test]
fn mount_on_top_is_not_unmounted() {
    let Some(mounted) = mount_memory() else { return };
    let over = Mount::new(memory(), mounted.mount.mount_point(), &MountOptions { over: true, ..Default::default() });
    let over = over.unwrap();
    let error = mounted.mount.unmount(UnmountMode::Lazy).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
    unmount_when_unused(&over);
    assert!(over.wait_timeout(Duration::from_secs(10)));
    unmount_when_unused(&mounted.mount);
    assert!(mounted.mount.wait_timeout(Duration::from_secs(10)));
}

#[test]
fn mount_over_its_own_directory_reaches_the_lower_one() {
    let lower = tempfile::tempdir().unwrap();
    fs::set_permissions(lower.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(lower.path().join("a/b")).unwrap();
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return eprintln!("skipped: mounting needs root and /dev/fuse");
    }
    let base = bases::dir::DirectoryFileSystem::open(lower.path(), bases::dir::Options::default()).unwrap();
    let options = MountOptions { over: true, allow_other: true, ..MountOptions::default() };
    let mount = Mount::new(Arc::new(base), lower.path(), &options).unwrap();
    let number = |path: &Path| fs::metadata(path).unwrap().ino();
    // The entries `.` and `..` have the inode numbers that stat(2) reports.
    let listing = Command::new("ls").args(["-1aif"]).arg(lower.path().join("a")).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    for (name, path) in [(".", lower.path().join("a")), ("..", lower.path().to_path_buf())] {
        let line = format!("{} {name}", number(&path));
        assert!(listing.lines().any(|other| other.trim() == line), "no {line:?} in {listing:?}");
    }
    fs::write(lower.path().join("a/b/file"), b"seen through the mount").unwrap();
    assert_eq!(fs::read(lower.path().join("a/b/file")).unwrap(), b"seen through the mount");
    // A descriptor of the server on its own mount would keep it busy for ever.
    unmount_when_unused(&mount);
    assert!(mount.wait_timeout(Duration::from_secs(10)));
    assert_eq!(fs::read(lower.path().join("a/b/file")).unwrap(), b"seen through the mount");
}

#[test]
fn listing_has_attributes_after_lookups() {
    let Some((mounted, lower)) = mount_directory(MountOptions::default()) else { return };
    (0..20).for_each(|number| fs::write(lower.path().join(number.to_string()), b"").unwrap());
    // As many nodes as the kernel knows.
    let nodes_after_listing = || {
        assert_eq!(fs::read_dir(mounted.path("")).unwrap().count(), 20);
        mounted.mount.nodes()
    };
    assert!(fs::metadata(mounted.path("absent")).is_err());
    assert_eq!(nodes_after_listing(), 1, "looking for what is not there");
    fs::metadata(mounted.path("7")).unwrap();
    assert_eq!(nodes_after_listing(), 21);
}

#[test]
fn abort_fails_open_files() {
    let Some(mounted) = mount_memory() else { return };
    let file = File::create(mounted.path("file")).unwrap();
    mounted.mount.unmount(UnmountMode::Abort).unwrap();
    assert!(mounted.mount.wait_timeout(Duration::from_secs(10)));
    assert!(file.sync_all().is_err());
}

#[test]
fn invalid_mount_point_is_reported_and_not_mounted() {
    let Some(mounted) = mount_memory() else { return };
    fs::write(mounted.path("file"), b"").unwrap();
    let mount = |path: &Path| Mount::new(memory(), path, &MountOptions::default());
    assert!(matches!(mount(&mounted.path("missing")), Err(MountError::MountPointMissing(_))));
    assert!(matches!(mount(&mounted.path("file")), Err(MountError::MountPointNotDirectory(_))));
    let busy = mount(mounted.mount.mount_point()).err().unwrap();
    assert!(matches!(busy, MountError::MountPointBusy(_)), "{busy}");
    assert!(busy.to_string().contains("plyfs umount"));
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let flags = MountFlags { read_only: true, ..MountFlags::default() };
    let options = MountOptions { flags, ..MountOptions::default() };
    let Some(mounted) = mount_with(memory(), options) else { return };
    let error = fs::write(mounted.path("file"), b"").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
}

#[test]
fn handles_of_the_mount_open_their_files() {
    let Some(mounted) = mount_memory() else { return };
    fs::create_dir(mounted.path("directory")).unwrap();
    fs::write(mounted.path("directory/file"), b"by handle").unwrap();
    let path = CString::new(mounted.path("directory/file").to_str().unwrap()).unwrap();
    let mut handle = [0u64; 20];
    handle[0] = 128; // handle_bytes in the low half, as the kernel lays the structure out
    let mut mount_id = 0;
    // SAFETY: the kernel fills `handle`, 8 bytes of header and room for 128, and `mount_id`.
    let result = unsafe {
        libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), handle.as_mut_ptr().cast(), &raw mut mount_id, 0)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    let root = File::open(mounted.mount.mount_point()).unwrap();
    // SAFETY: `handle` was filled by the kernel.
    let fd = unsafe { libc::open_by_handle_at(root.as_raw_fd(), handle.as_mut_ptr().cast(), libc::O_RDONLY) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "by handle");
}

#[test]
fn xattr_size_is_reported_and_small_buffers_are_refused() {
    let Some(mounted) = mount_memory() else { return };
    let path = mounted.path("file");
    fs::write(&path, b"").unwrap();
    rustix::fs::setxattr(&path, "user.key", b"value", rustix::fs::XattrFlags::CREATE).unwrap();
    let mut room = [0; 16];
    let (c_path, c_name) = (CString::new(path.to_str().unwrap()).unwrap(), c"user.key");
    // SAFETY: with no room the kernel writes nothing.
    let size = unsafe { libc::getxattr(c_path.as_ptr(), c_name.as_ptr(), std::ptr::null_mut(), 0) };
    assert_eq!(size, 5);
    assert_eq!(rustix::fs::getxattr(&path, "user.key", &mut room), Ok(5));
    assert_eq!(&room[..5], b"value");
    assert_eq!(rustix::fs::getxattr(&path, "user.key", &mut room[..3]), Err(rustix::io::Errno::RANGE));
    assert_eq!(rustix::fs::listxattr(&path, &mut room), Ok(9));
    rustix::fs::removexattr(&path, "user.key").unwrap();
    assert_eq!(rustix::fs::getxattr(&path, "user.key", &mut room), Err(rustix::io::Errno::NODATA));
}

#[test]
fn a_node_looked_up_twice_is_forgotten() {
    const FILES: u64 = 50;
    // No name is cached, so that each use of a path is a lookup.
    let options = MountOptions { name_timeout: Some(Duration::ZERO), ..MountOptions::default() };
    let Some(mounted) = mount_with(memory(), options) else { return };
    let before = mounted.mount.nodes();
    let paths: Vec<PathBuf> = (0..FILES).map(|number| mounted.path(&format!("file{number}"))).collect();
    for path in &paths {
        fs::write(path, b"").unwrap();
        for _ in 0..3 {
            fs::metadata(path).unwrap();
        }
    }
    assert_eq!(mounted.mount.nodes(), before + FILES);
    assert!(mounted.requests("LOOKUP") >= 3 * FILES);
    for path in &paths {
        fs::remove_file(path).unwrap();
    }
    // The kernel forgets a removed file at once, and reports it later.
    let patience = Instant::now() + Duration::from_secs(10);
    while mounted.mount.nodes() > before {
        assert!(Instant::now() < patience, "{} nodes of removed files stay", mounted.mount.nodes() - before);
        std::thread::sleep(Duration::from_millis(5));
    }
}
