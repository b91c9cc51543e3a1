//! Data layers through a real mount, with the kernel's cache and memory maps between them and the tests. Needs root and
//! /dev/fuse, and says so where they are absent.

mod common;

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::codecs::CODECS;
use common::{memory, random};
use conformance::{Abilities, Ability, File, Identity, Mounted, Subject, run};
use frontends::fuse::{Mount, MountOptions, MountPoint, UnmountMode};

/// Whether the kernel hands on every write at once, or keeps it for a while.
#[derive(Clone, Copy, Debug)]
enum Writes {
    Through,
    Back,
}

const SERVE: &str = "PLYFS_TEST_SERVE";

/// A data layer on a file system in memory, mounted by a process of its own: a page fault of a test must never wait for
/// the test's own process.
struct Served {
    server: Child,
    /// Kept open, since the server's test harness ends with a few words.
    _output: Lines<BufReader<ChildStdout>>,
    directory: tempfile::TempDir,
}

impl Served {
    /// `None`, with a word about it, where nothing can be mounted.
    fn start(codec: &str, block_size: usize, writes: Writes) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "serve_if_asked", "--nocapture"])
            .env(SERVE, format!("{codec} {block_size} {writes:?} {}", directory.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")), "the server ended");
        Some(Self { server, _output: lines, directory })
    }

    fn subject(&self, title: &str, lacking: &[Ability]) -> Mounted {
        let lacking = lacking.iter().chain(&[Ability::CopyRange, Ability::GrowingFiles]);
        let abilities = lacking.fold(Abilities::complete(), |abilities, ability| abilities.without(*ability));
        Mounted::new(self.directory.path()).unwrap().titled(title).limited_to(abilities)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        if !self.server.wait().is_ok_and(|status| status.success()) {
            let _ = MountPoint::open(self.directory.path()).and_then(|point| point.unmount(UnmountMode::Lazy));
        }
    }
}

/// In the server's process, the server. Elsewhere, nothing.
#[test]
fn serve_if_asked() {
    let Ok(asked) = std::env::var(SERVE) else { return };
    let words: Vec<&str> = asked.splitn(4, ' ').collect();
    let (_, put_on) = CODECS.iter().find(|(name, _)| *name == words[0]).unwrap();
    rustix::process::umask(rustix::fs::Mode::empty());
    let write_back = words[2] == format!("{:?}", Writes::Back);
    let options = MountOptions { allow_other: true, write_back, ..MountOptions::default() };
    let mount = Mount::new(put_on(words[1].parse().unwrap(), memory()), Path::new(words[3]), &options).unwrap();
    println!("\nready");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(mount);
}

#[test]
fn encoded_files_conform_through_a_mount() {
    // Holes of blocks that are no multiple of a page are not where those below are.
    const HOLES: [Ability; 3] = [Ability::Holes, Ability::Punch, Ability::LargeFiles];
    for (codec, block_size, lacking) in [("checksum", 4096, &[][..]), ("checksum", 1000, &HOLES), ("xor", 512, &HOLES)]
    {
        let Some(served) = Served::start(codec, block_size, Writes::Through) else { return };
        let report = run(&served.subject(&format!("{codec} of {block_size}"), lacking), |_| true);
        println!("{report}");
        assert!(report.failures.is_empty() && report.passed > 0, "see above");
    }
}

#[test]
fn files_written_back_conform() {
    // The kernel has times of its own.
    const TIMES: [Ability; 2] = [Ability::AccessTimes, Ability::SteadyChangeTimes];
    let Some(served) = Served::start("rot13", 4096, Writes::Back) else { return };
    let report = run(&served.subject("rot13, written back", &TIMES), |_| true);
    println!("{report}");
    assert!(report.failures.is_empty() && report.passed > 0, "see above");
}

#[test]
fn reads_writes_and_memory_maps_see_one_file() {
    let mut random = random();
    let through =
        [("checksum", 4096), ("checksum", 1000), ("rot13", 4096), ("xor", 300)].map(|of| (of, Writes::Through));
    let back = [("checksum", 4096), ("xor", 300)].map(|of| (of, Writes::Back));
    for ((codec, block_size), writes) in through.into_iter().chain(back) {
        let Some(served) = Served::start(codec, block_size, writes) else { return };
        let subject = served.subject(codec, &[]);
        let client = subject.client(&Identity::ROOT);
        let mut file = client.create(b"file").unwrap();
        let mut model = Vec::new();
        for step in 0..800 {
            step_both(&*file, &mut model, &mut random);
            if step % 100 == 99 {
                // What was cached is written, and read anew.
                file.sync(false).unwrap();
                file = client.edit(b"file").unwrap();
            }
            let mut data = vec![0; model.len() + 10];
            let length = file.read_at(&mut data, 0).unwrap();
            assert_eq!(file.stat().unwrap().size, model.len() as u64, "{codec} of {block_size}, step {step}");
            assert!(data[..length] == model, "{codec} of {block_size}, step {step}");
        }
    }
}

/// Does the same to the file and to the model.
fn step_both(file: &dyn File, model: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const REACH: usize = 40_000;
    let mut data = vec![0; random.usize(1..9000)];
    random.fill(&mut data);
    let offset = random.usize(..REACH);
    match random.u8(..6) {
        0 | 1 => {
            assert_eq!(file.write_at(&data, offset as u64), Ok(data.len()));
            model.resize(model.len().max(offset + data.len()), 0);
            model[offset..offset + data.len()].copy_from_slice(&data);
        }
        2 => {
            file.truncate(offset as u64).unwrap();
            model.resize(offset, 0);
        }
        3 if offset < model.len() => {
            let length = data.len().min(model.len() - offset);
            let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
            file.allocate(mode, offset as u64, length as u64).unwrap();
            model[offset..offset + length].fill(0);
        }
        _ if model.is_empty() => {}
        4 => {
            let map = file.map(model.len(), random.bool(), false).unwrap();
            assert!(map.load(0, model.len()) == *model, "as mapped");
        }
        _ => {
            let map = file.map(model.len(), true, true).unwrap();
            let offset = random.usize(..model.len());
            let length = data.len().min(model.len() - offset);
            map.store(offset, &data[..length]);
            model[offset..offset + length].copy_from_slice(&data[..length]);
            if random.bool() {
                map.sync().unwrap();
            }
        }
    }
}
