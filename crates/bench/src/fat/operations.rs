//! Small operations on cached files, after John Ousterhout's tests: the paper's Table 3.
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};

use super::loop_image::LoopImage;
use super::mtools::Mtools;
use super::subject::{Access, FatSubject};
use crate::measure::Sample;
use crate::teardown;
use crate::tree::open_directory;

/// Number of bytes per read or write call.
const PIECE_BYTES: usize = 16 << 10;

const LONG_PATH: &str = "a/b/a-directory/another-directory/and-the-next/c/d/e/f/the-last-directory/foo";
const OPENED: [(&str, &str); 3] =
    [("open \"foo\"", "foo"), ("open \"a/b/foo\"", "a/b/foo"), ("open a long path", LONG_PATH)];
const CREATED: [(&str, usize); 3] = [("crtdel 0 KB", 0), ("crtdel 10 KB", 10 << 10), ("crtdel 100 KB", 100 << 10)];
const READ: [(&str, usize); 3] = [("read 1 KB", 1 << 10), ("read 8 KB", 8 << 10), ("read 100 KB", 100 << 10)];
const WRITTEN: [(&str, usize); 3] = [("write 1 KB", 1 << 10), ("write 8 KB", 8 << 10), ("write 100 KB", 100 << 10)];

/// Number of repetitions of each test.
#[derive(Clone, Copy)]
pub(crate) struct Repetitions {
    opens: u32,
    creations: u32,
    transfers: u32,
    programs: u32,
}

impl Repetitions {
    /// The repetitions of a full run: at least the paper's hundred where no program is started for each.
    pub(crate) const FULL: Self = Self { opens: 5_000, creations: 300, transfers: 1_000, programs: 20 };
    /// Few, to show that all works.
    pub(crate) const QUICK: Self = Self { opens: 200, creations: 100, transfers: 100, programs: 3 };
}

/// Runs the tests on a new file system. The duration of a sample is that of one operation.
pub(crate) fn run(image: &LoopImage, subject: &FatSubject, repetitions: Repetitions) -> Result<Vec<Sample>> {
    image.check_unused()?;
    image.format(subject.format)?;
    match &subject.access {
        Access::Device => device(image, repetitions),
        Access::Tools => tools(image, repetitions),
        Access::Kernel(_) | Access::Server(..) => mounted(image, subject, repetitions),
    }
}

/// Has no names: reads and writes the same bytes of the device through the page cache.
fn device(image: &LoopImage, repetitions: Repetitions) -> Result<Vec<Sample>> {
    let device = image.open(true)?;
    write_pieces(&device, &contents(READ[2].1))?;
    let mut samples = Vec::new();
    for (step, bytes) in READ {
        samples.push(repeated(step, repetitions.transfers, || read_pieces(&device, bytes))?);
    }
    for (step, bytes) in WRITTEN {
        let data = contents(bytes);
        samples.push(repeated(step, repetitions.transfers, || write_pieces(&device, &data))?);
    }
    Ok(samples)
}

fn mounted(image: &LoopImage, subject: &FatSubject, repetitions: Repetitions) -> Result<Vec<Sample>> {
    let mount = subject.mount(image)?;
    let mut samples = Vec::new();
    open_files(mount.directory(), repetitions, &mut samples).context("open")?;
    create_and_delete(mount.directory(), repetitions, &mut samples).context("crtdel")?;
    transfer(mount.directory(), repetitions, &mut samples).context("read and write")?;
    mount.unmount()?;
    let mount = subject.mount(image)?;
    for (step, bytes) in WRITTEN {
        if std::fs::read(mount.directory().join(file_name(step)))? != contents(bytes) {
            bail!("{step}: the file does not have what was written");
        }
    }
    mount.unmount()?;
    Ok(samples)
}

fn open_files(directory: &Path, repetitions: Repetitions, samples: &mut Vec<Sample>) -> Result<()> {
    let top = open_directory(directory)?;
    for (step, path) in OPENED {
        let file = directory.join(path);
        for (end, _) in path.match_indices('/') {
            teardown::make_directory(&directory.join(&path[..end]))?;
        }
        File::create(&file)?;
        let open = || Ok(openat(&top, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(drop)?);
        samples.push(repeated(step, repetitions.opens, open)?);
    }
    Ok(())
}

fn create_and_delete(directory: &Path, repetitions: Repetitions, samples: &mut Vec<Sample>) -> Result<()> {
    let top = open_directory(directory)?;
    for (step, bytes) in CREATED {
        let data = contents(bytes);
        let create_and_delete = || {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = File::from(openat(&top, "created", flags, Mode::RUSR | Mode::WUSR)?);
            write_pieces(&file, &data)?;
            drop(file);
            Ok(unlinkat(&top, "created", AtFlags::empty())?)
        };
        samples.push(repeated(step, repetitions.creations, create_and_delete)?);
        if directory.join("created").exists() {
            bail!("{step}: the file is still there");
        }
    }
    Ok(())
}

fn transfer(directory: &Path, repetitions: Repetitions, samples: &mut Vec<Sample>) -> Result<()> {
    for (step, bytes) in READ {
        let path = directory.join(file_name(step));
        write_pieces(&File::create(&path)?, &contents(bytes))?;
        let file = File::open(&path)?;
        samples.push(repeated(step, repetitions.transfers, || {
            read_pieces(&file, bytes)?;
            // The end of the file is read, too.
            match file.read_at(&mut [0], bytes as u64)? {
                0 => Ok(()),
                _ => bail!("{step}: the file is longer than what was written"),
            }
        })?);
    }
    for (step, bytes) in WRITTEN {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(directory.join(file_name(step)))?;
        let data = contents(bytes);
        samples.push(repeated(step, repetitions.transfers, || write_pieces(&file, &data))?);
    }
    Ok(())
}

/// Opens cannot be compared: a program opens the volume, not the file.
fn tools(image: &LoopImage, repetitions: Repetitions) -> Result<Vec<Sample>> {
    let tools = Mtools::new(image);
    let (source, copy) = (image.root().join("small"), image.root().join("small-copy"));
    let mut samples = Vec::new();
    for (step, bytes) in CREATED {
        std::fs::write(&source, contents(bytes))?;
        samples.push(repeated(step, repetitions.programs, || {
            tools.copy_to(&source, "created")?;
            tools.delete("created")
        })?);
    }
    for (step, bytes) in READ.into_iter().chain(WRITTEN) {
        std::fs::write(&source, contents(bytes))?;
        tools.copy_to(&source, "file")?;
        let is_read = step.starts_with("read");
        samples.push(repeated(step, repetitions.programs, || {
            if is_read { tools.copy_from("file", &copy) } else { tools.copy_to(&source, "file") }
        })?);
        tools.copy_from("file", &copy)?;
        if std::fs::read(&copy)? != contents(bytes) {
            bail!("{step}: the file does not have what was written");
        }
    }
    Ok(samples)
}

fn repeated(step: &'static str, times: u32, mut work: impl FnMut() -> Result<()>) -> Result<Sample> {
    // What the first one brings into caches is not measured.
    work().context(step)?;
    let start = Instant::now();
    for _ in 0..times {
        work().context(step)?;
    }
    let seconds = start.elapsed().as_secs_f64() / f64::from(times);
    Ok(Sample { step, operations: 1, seconds, processor_seconds: None, requests: None })
}

/// Reads the beginning of a file in pieces, and verifies the last byte.
fn read_pieces(file: &File, bytes: usize) -> Result<()> {
    let mut buffer = [0; PIECE_BYTES];
    let mut position = 0;
    let mut last = None;
    while position < bytes {
        let length = PIECE_BYTES.min(bytes - position);
        file.read_exact_at(&mut buffer[..length], position as u64)?;
        position += length;
        last = buffer[..length].last().copied();
    }
    if last != bytes.checked_sub(1).map(byte) {
        bail!("the file does not have what was written");
    }
    Ok(())
}

fn write_pieces(file: &File, data: &[u8]) -> Result<()> {
    let mut position = 0;
    for piece in data.chunks(PIECE_BYTES) {
        file.write_all_at(piece, position)?;
        position += piece.len() as u64;
    }
    Ok(())
}

fn contents(bytes: usize) -> Vec<u8> {
    (0..bytes).map(byte).collect()
}

fn byte(position: usize) -> u8 {
    (position % 251) as u8
}

fn file_name(step: &str) -> String {
    step.replace(' ', "-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_written_and_read_to_the_last_byte() {
        let file = tempfile::tempfile().expect("a file");
        for bytes in [0, 1, PIECE_BYTES, 100 << 10] {
            write_pieces(&file, &contents(bytes)).expect("it is written");
            read_pieces(&file, bytes).expect("it is read");
        }
        file.write_all_at(b"!", (100 << 10) - 1).expect("it is written");
        assert!(read_pieces(&file, 100 << 10).is_err());
    }
}
