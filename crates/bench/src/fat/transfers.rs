//! Uncached sequential transfers of a large file: the paper's Table 4.
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};

use super::loop_image::LoopImage;
use super::mtools::Mtools;
use super::subject::{Access, FatSubject};
use crate::clock::ClockReading;
use crate::measure::Sample;
use crate::workloads::sequential::{BLOCK_BYTES, read, read_blocks, write_blocks};

const WRITE: &str = "write";
const READ: &str = "read";
const FILE: &str = "file";

/// Writes a file of that size to a new file system until it is on the device, then reads it with nothing cached.
pub(crate) fn run(image: &LoopImage, subject: &FatSubject, bytes: u64) -> Result<Vec<Sample>> {
    let blocks = bytes / BLOCK_BYTES as u64;
    image.check_unused()?;
    image.format(subject.format)?;
    let samples = match &subject.access {
        Access::Device => device(image, bytes),
        Access::Tools => tools(image, blocks),
        Access::Kernel(_) | Access::Server(..) => mounted(image, subject, blocks),
    }?;
    Ok(samples.into())
}

/// Writes and reads that many bytes of the device itself.
pub(crate) fn device(image: &LoopImage, bytes: u64) -> Result<[Sample; 2]> {
    let blocks = bytes / BLOCK_BYTES as u64;
    let written = timed(WRITE, || {
        write_blocks(&image.open(true)?, blocks)?;
        image.sync()
    })?;
    image.drop_cached()?;
    Ok([written, timed(READ, || read_blocks(&image.open(false)?, blocks))?])
}

fn mounted(image: &LoopImage, subject: &FatSubject, blocks: u64) -> Result<[Sample; 2]> {
    let mount = subject.mount(image)?;
    let path = mount.directory().join(FILE);
    let written = timed(WRITE, || {
        let file = File::create(&path)?;
        write_blocks(&file, blocks)?;
        file.sync_all()?;
        drop(file);
        // Not every server passes fsync on to the device.
        image.sync()
    })?;
    mount.unmount()?;
    image.drop_cached()?;
    let mount = subject.mount(image)?;
    let samples = [written, timed(READ, || read(&path, blocks))?];
    mount.unmount()?;
    Ok(samples)
}

/// The file is copied from and to the tmpfs that contains the image.
fn tools(image: &LoopImage, blocks: u64) -> Result<[Sample; 2]> {
    let (source, copy) = (image.root().join("source"), image.root().join("copy"));
    let outcome = copy_both_ways(image, &source, &copy, blocks);
    for file in [source, copy] {
        if file.exists() {
            std::fs::remove_file(file)?;
        }
    }
    outcome
}

fn copy_both_ways(image: &LoopImage, source: &Path, copy: &Path, blocks: u64) -> Result<[Sample; 2]> {
    write_blocks(&File::create(source)?, blocks)?;
    let tools = Mtools::new(image);
    let written = timed(WRITE, || {
        tools.copy_to(source, FILE)?;
        image.sync()
    })?;
    image.drop_cached()?;
    let samples = [written, timed(READ, || tools.copy_from(FILE, copy))?];
    read(copy, blocks)?;
    Ok(samples)
}

fn timed(step: &'static str, work: impl FnOnce() -> Result<()>) -> Result<Sample> {
    let start = ClockReading::now();
    work().context(step)?;
    let used = start.used();
    Ok(Sample {
        step,
        operations: 0,
        seconds: used.wall.as_secs_f64(),
        processor_seconds: Some(used.cpu.as_secs_f64()),
        requests: None,
    })
}
