//! Microseconds of the directory base's operations beside the plain system calls, and the memory that a vnode takes.
//!
//! `cargo run --release -p plyfs-bases --example dir_operations -- DIRECTORY [FILES]`, as root to see credentials switched.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use plyfs_bases::dir::{DirectoryFileSystem, Options};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use vnode::{Caller, Creation, FileSystem, Name, OpenFlags, RenameMode, SetAttributes, VnodeRef};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: dir_operations DIRECTORY [FILES]";
    let path = arguments.next().expect(usage);
    let files = arguments.next().map_or(20_000, |count| count.parse().expect(usage));
    let path = Path::new(&path).join(format!("dir-operations-{}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(1_000), Some(1_000)).unwrap_or_default();
    let file_system = DirectoryFileSystem::open(&path, Options::default()).unwrap();
    let directory: OwnedFd = std::fs::File::open(&path).unwrap().into();
    memory(&file_system, files);
    println!("{:24} {:>10} {:>10} {:>10}", "microseconds", "raw", "root", "user");
    Bench { root: file_system.root(), directory, files }.run();
    std::fs::remove_dir_all(&path).unwrap();
}

fn ignore<T>(_: T) {}

struct Bench {
    root: VnodeRef,
    directory: OwnedFd,
    files: usize,
}

fn names(files: usize) -> Vec<String> {
    (0..files).map(|file| format!("file-{file:06}")).collect()
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

impl Bench {
    fn run(&self) {
        let names = names(self.files);
        let callers = [Caller::with_groups(0, 0, &[], 0o022), Caller::with_groups(1_000, 1_000, &[4, 24], 0o022)];
        let mut table = Vec::new();
        table.push(self.raw(&names));
        plyfs_bases::dir::restore_thread_credentials();
        callers.iter().for_each(|caller| table.push(self.base(&names, caller)));
        plyfs_bases::dir::restore_thread_credentials();
        for (place, (operation, raw)) in table[0].iter().enumerate() {
            println!("{operation:24} {raw:10.2} {:10.2} {:10.2}", table[1][place].1, table[2][place].1);
        }
    }

    fn raw(&self, names: &[String]) -> Vec<(&'static str, f64)> {
        let directory = self.directory.as_fd();
        let statx = |fd: &OwnedFd, name: &str, flags| {
            rustix::fs::statx(fd, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME).unwrap()
        };
        let open = |name: &str, flags| rustix::fs::openat(directory, name, flags, Mode::from(0o644)).unwrap();
        vec![
            timed("create, close", names, |name| drop(open(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL))),
            timed("lookup", names, |name| ignore(statx(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW))),
            timed("getattr", names, |name| ignore(statx(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW))),
            timed("getattr of a directory", names, |_| ignore(statx(&self.directory, "", AtFlags::EMPTY_PATH))),
            timed("open, close", names, |name| drop(open(name, OFlags::RDONLY))),
            timed("write 4096", names, {
                let file = open(&names[0], OFlags::RDWR);
                move |_| ignore(rustix::io::pwrite(&file, &[0; 4_096], 0).unwrap())
            }),
            timed("chmod", names, |name| {
                rustix::fs::chmodat(directory, name, Mode::from(0o600), AtFlags::empty()).unwrap()
            }),
            timed("rename", names, |name| {
                rustix::fs::renameat(directory, name, directory, format!("{name}-")).unwrap();
            }),
            timed("unlink", names, |name| {
                rustix::fs::unlinkat(directory, format!("{name}-"), AtFlags::empty()).unwrap();
            }),
        ]
    }

    fn base(&self, names: &[String], caller: &Caller) -> Vec<(&'static str, f64)> {
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let mut live = Vec::new();
        let mut rows = vec![timed("create", names, |file| drop(self.root.create(caller, name(file), &how).unwrap()))];
        rows.push(timed("lookup", names, |file| live.push(self.root.lookup(caller, name(file)).unwrap().vnode)));
        let mut next = live.iter().cycle();
        rows.push(timed("getattr", names, |_| ignore(next.next().unwrap().getattr(caller).unwrap())));
        rows.push(timed("getattr of a directory", names, |_| ignore(self.root.getattr(caller).unwrap())));
        rows.push(timed("open, close", names, |_| {
            drop(next.next().unwrap().open(caller, OpenFlags::READ).unwrap());
        }));
        let file = live[0].open(caller, OpenFlags::READ_WRITE).unwrap();
        rows.push(timed("write", names, |_| ignore(file.write_at(caller, 0, &[0; 4_096]).unwrap())));
        let mode = SetAttributes { mode: Some(0o600), ..Default::default() };
        rows.push(timed("chmod", names, |_| ignore(next.next().unwrap().setattr(caller, &mode).unwrap())));
        rows.push(timed("rename", names, |file| {
            let to = format!("{file}-");
            self.root.rename(caller, name(file), &self.root, name(&to), RenameMode::Replace).unwrap();
        }));
        // As the kernel does: it lets go of a file soon after it is unlinked.
        let mut forgotten = live.into_iter();
        rows.push(timed("unlink", names, |file| {
            self.root.unlink(caller, name(&format!("{file}-"))).unwrap();
            drop(forgotten.next());
        }));
        rows
    }
}

fn timed(operation: &'static str, names: &[String], mut call: impl FnMut(&str)) -> (&'static str, f64) {
    let start = processor_time();
    names.iter().for_each(|name| call(name));
    (operation, (processor_time() - start) * 1e6 / names.len() as f64)
}

/// Seconds of this thread's processor time: the machine may be busy with other things.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn memory(file_system: &DirectoryFileSystem, files: usize) {
    let caller = Caller::server();
    let (root, names) = (file_system.root(), names(files));
    for file in &names {
        root.mknod(&caller, name(file), vnode::FileKind::Regular, 0o600, Default::default()).unwrap();
    }
    // Filled once, so that its memory does not count.
    let mut held: Vec<VnodeRef> = vec![file_system.root(); files];
    held.clear();
    let before = resident();
    held.extend(names.iter().map(|file| root.lookup(&caller, name(file)).unwrap().vnode));
    let after = resident();
    println!("{} vnodes take {} KiB: {} bytes each", files, after - before, (after - before) * 1_024 / files);
    drop(held);
    println!("and {} KiB after they are dropped", resident().saturating_sub(before));
    // SAFETY: malloc_trim may be called at any time.
    unsafe { libc::malloc_trim(0) };
    println!("and {} KiB after the allocator was told to give back what it can", resident().saturating_sub(before));
    for file in &names {
        root.unlink(&caller, name(file)).unwrap();
    }
}

/// Resident memory in KiB.
fn resident() -> usize {
    procfs::Process::Own.status().unwrap().unwrap().resident_bytes().unwrap() as usize >> 10
}
