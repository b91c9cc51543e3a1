//! Resident memory of each server after a walk over very many files, and after the kernel forgot them.
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::image::Image;
use crate::report::{self, Machine};
use crate::session::Session;
use crate::slices::SubjectTurn;
use crate::subjects::{MountStyle, Subject};
use crate::tree::{open_directory, walk};

const FILES_PER_DIRECTORY: u64 = 1_000;

/// Maximum time in seconds that the server may take to process the kernel's FORGET requests.
const MAX_FORGET_SECONDS: u64 = 30;

#[derive(Serialize)]
struct MemoryResults {
    machine: Machine,
    files: u64,
    subjects: BTreeMap<String, MemoryFigures>,
    failures: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct MemoryFigures {
    version: Option<String>,
    mounted_bytes: u64,
    walked_bytes: u64,
    forgotten_bytes: u64,
    walk_seconds: f64,
}

/// Measures every subject that has a server; returns whether all could be measured.
pub(crate) fn run(image: &Image, subjects: &[Subject], files: u64, output: Option<&Path>) -> Result<bool> {
    let tree = image.directory().join("tree");
    eprintln!("bench: making {files} files");
    make_tree(&tree, files)?;
    let mut results =
        MemoryResults { machine: Machine::current(), files, subjects: BTreeMap::new(), failures: BTreeMap::new() };
    println!(
        "\nresident memory in MiB, {files} files\n{:<28}{:>10}{:>10}{:>12}{:>12}",
        "", "mounted", "walked", "forgotten", "walk (s)"
    );
    for subject in
        subjects.iter().filter(|subject| matches!(subject.style, MountStyle::Server | MountStyle::ServerOver))
    {
        match measure(image, subject, &tree, files) {
            Ok(figures) => {
                let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
                println!(
                    "{:<28}{:>10.1}{:>10.1}{:>12.1}{:>12.2}",
                    subject.name,
                    mebibytes(figures.mounted_bytes),
                    mebibytes(figures.walked_bytes),
                    mebibytes(figures.forgotten_bytes),
                    figures.walk_seconds
                );
                results.subjects.insert(subject.name.clone(), figures);
            }
            Err(error) => {
                let reason = format!("{error:#}").replace(&*image.root().to_string_lossy(), "");
                eprintln!("bench: memory, {} FAILED: {reason}", subject.name);
                results.failures.insert(subject.name.clone(), reason);
            }
        }
    }
    let all = results.failures.is_empty();
    if let Some(directory) = output {
        report::write_json(directory, "memory.json", &results)?;
    }
    Ok(all)
}

fn make_tree(tree: &Path, files: u64) -> Result<()> {
    fs::create_dir(tree)?;
    for number in 0..files {
        let directory = tree.join((number / FILES_PER_DIRECTORY).to_string());
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir(&directory)?;
        }
        File::create(directory.join(format!("file-{number:07}")))?;
    }
    Ok(())
}

fn measure(image: &Image, subject: &Subject, tree: &Path, files: u64) -> Result<MemoryFigures> {
    let turn = SubjectTurn::unshared();
    let mut session = Session::new(image, subject, 0, &turn)?;
    let session_tree = session.data().join("tree");
    // One tree for all subjects: creating it takes longer than walking it.
    fs::rename(tree, &session_tree)?;
    let outcome = measure_mounted(&mut session, files);
    let unmounted = session.unmount();
    let returned = fs::rename(&session_tree, tree).context("cannot take the tree back");
    let mut figures = outcome?;
    unmounted?;
    returned?;
    figures.version = subject.version();
    Ok(figures)
}

fn measure_mounted(session: &mut Session<'_>, files: u64) -> Result<MemoryFigures> {
    session.mount()?;
    let server = session.server().context("there is no server process")?;
    let mounted_bytes = resident_bytes(server)?;
    let start = Instant::now();
    let found = walk(open_directory(&session.directory().join("tree"))?, true)?;
    let walk_seconds = start.elapsed().as_secs_f64();
    let expected = files + files.div_ceil(FILES_PER_DIRECTORY);
    if found != expected {
        bail!("the walk found {found} entries, not {expected}");
    }
    let walked_bytes = resident_bytes(server)?;
    // Drops only dentries and inodes: the kernel then sends FORGET requests to the server.
    fs::write("/proc/sys/vm/drop_caches", "2").context("cannot drop the caches of the kernel")?;
    let forgotten_bytes = wait_until_stable(server)?;
    Ok(MemoryFigures { version: None, mounted_bytes, walked_bytes, forgotten_bytes, walk_seconds })
}

/// Returns the resident memory once it has not changed for two seconds.
fn wait_until_stable(server: u32) -> Result<u64> {
    let deadline = Instant::now() + Duration::from_secs(MAX_FORGET_SECONDS);
    let mut last = resident_bytes(server)?;
    let mut since = Instant::now();
    while Instant::now() < deadline && since.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(100));
        let now = resident_bytes(server)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

fn resident_bytes(process: u32) -> Result<u64> {
    let status = procfs::Process::Numbered(process).status()?.context("the server is gone")?;
    status.resident_bytes().context("the server has no resident memory")
}
