//! `plyfs fat mkfs`: makes an empty file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bases::device::{Access, FileDevice, MemoryDevice, OpenError, PartitionTable};
use bases::fat::format::FatWidth;
use bases::fat::is_file_system;
use bases::fat::tools::Progress;
use bases::fat::tools::mkfs::{MkfsOptions, MkfsReport, mkfs, plan};
use clap::{Args, ValueHint};
use layers::command::{CommandHost, Exit, Failure, Outcome};
use layers::printable::json_text;

use super::image::{Contents, Image, ImageArguments, Location};
use super::values::{NameArguments, TimeArguments, byte, current_time, serial, size};
use super::{failure, sectors};

/// Number of bytes at the beginning of a device that must be zero, unless it is to be overwritten: all common file systems have their
/// marks there.
const BLANK_BYTES: u64 = 128 * 1024;

/// Arguments of mkfs.
#[derive(Args, Debug)]
pub(crate) struct MkfsArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Size of the file system in bytes, or with k, m, g or t; an image that does not exist is created with it. Default: the whole device
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Width of the entries of the file allocation table: 12, 16 or 32. Default: 12 for floppies and up to 4.1 MiB, 32 from 512 MiB
    #[arg(short = 'F', long, value_name = "BITS", value_parser = width)]
    width: Option<FatWidth>,
    /// Label of up to 11 characters
    #[arg(short = 'n', long, value_name = "TEXT")]
    label: Option<String>,
    /// Serial number, in hexadecimal: 1234-ABCD. Default: made from the time
    #[arg(short = 'i', long, value_name = "NUMBER", value_parser = serial)]
    serial: Option<u32>,
    /// Sectors of a cluster: a power of two up to 128. Default: by width and size
    #[arg(short = 's', long, value_name = "NUMBER")]
    sectors_per_cluster: Option<u32>,
    /// Size of a sector in bytes: 512, 1024, 2048 or 4096. Default: that of the device, or 512
    #[arg(short = 'S', long, value_name = "BYTES")]
    sector_size: Option<u32>,
    /// Number of file allocation tables
    #[arg(short = 'f', long, value_name = "NUMBER", default_value_t = 2)]
    tables: u8,
    /// Number of reserved sectors at least; alignment may add some. Default: 32 for a width of 32, otherwise 1
    #[arg(short = 'R', long, value_name = "NUMBER")]
    reserved_sectors: Option<u16>,
    /// Number of entries of the root directory at least, unless the width is 32. Default: 512, or that of the floppy
    #[arg(short = 'r', long, value_name = "NUMBER")]
    root_entries: Option<u16>,
    /// Sector of the copy of the boot sector, for a width of 32; 0 for none, which fsck reports. Default: 6
    #[arg(short = 'b', long, value_name = "SECTOR")]
    backup_sector: Option<u16>,
    /// Media byte: 0xf0, or 0xf8 to 0xff. Default: 0xf8, or that of the floppy
    #[arg(short = 'M', long, value_name = "BYTE", value_parser = byte)]
    media: Option<u8>,
    /// Number of the drive, for firmware. Default: 0x80, or 0 of a floppy
    #[arg(short = 'D', long, value_name = "BYTE", value_parser = byte)]
    drive: Option<u8>,
    /// Heads and sectors of a track, for firmware: 255/63. Default: by size
    #[arg(short = 'g', long, value_name = "HEADS/SECTORS", value_parser = geometry)]
    geometry: Option<(u16, u16)>,
    /// Sectors of the disk before the file system. Default: those before the partition
    #[arg(long, value_name = "NUMBER")]
    hidden_sectors: Option<u32>,
    /// Do not align the first cluster to a multiple of the size of clusters
    #[arg(short = 'a', long)]
    no_align: bool,
    /// Write a partition table with the whole disk as its only partition into the boot sector
    #[arg(long, alias = "mbr")]
    partition_table: bool,
    /// Read the device first, and mark clusters that cannot be read
    #[arg(short = 'c', long)]
    check: bool,
    /// File with the numbers of bad sectors, one a line, as badblocks(8) writes them with the size of sectors
    #[arg(short = 'l', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    bad_sectors: Option<PathBuf>,
    /// Overwrite what the device contains
    #[arg(long)]
    force: bool,
    /// Show what would be made, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: NameArguments,
    #[command(flatten)]
    times: TimeArguments,
}

/// Makes the file system, and prints what it is like.
pub(crate) fn run(arguments: &MkfsArguments, host: &dyn CommandHost) -> Outcome {
    let location = arguments.image.location()?;
    let report = match arguments.size {
        Some(size) if location.partition.is_none() && is_missing(&location.path) => {
            make_new(arguments, &location, size, host)?
        }
        _ => make_existing(arguments, &location, host)?,
    };
    let text = if arguments.json { json_text(&report.to_json()) } else { report.to_string() };
    host.print(&text)
}

/// Returns whether nothing exists at a path; a symlink exists.
fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Makes a file system in a new image, which is removed again if that fails.
fn make_new(arguments: &MkfsArguments, location: &Location, size: u64, host: &dyn CommandHost) -> Outcome<MkfsReport> {
    let options = options(arguments, 0)?;
    // What cannot be made creates no image.
    let planned = location.choose(Arc::new(MemoryDevice::new(size)), Contents::Anything)?;
    let report = plan(planned.device.clone(), &options).map_err(|error| failure::of_mkfs(&planned.name, &error))?;
    if arguments.dry_run {
        return Ok(report);
    }
    let device = FileDevice::create(&location.path, size).map_err(|error| failure::of_opening(&error))?;
    let image = location.choose(Arc::new(device), Contents::Anything)?;
    make(&image, &options, host).inspect_err(|_| {
        let _ = fs::remove_file(&location.path);
    })
}

/// Makes a file system in an image or on a device that exists.
fn make_existing(arguments: &MkfsArguments, location: &Location, host: &dyn CommandHost) -> Outcome<MkfsReport> {
    let access = if arguments.dry_run { Access::Read } else { Access::Write };
    let device = FileDevice::open(&location.path, access).map_err(|error| of_opening(&error))?;
    let image = location.choose(Arc::new(device), Contents::Anything)?;
    let options = options(arguments, image.start)?;
    if arguments.dry_run {
        return plan(image.device.clone(), &options).map_err(|error| failure::of_mkfs(&image.name, &error));
    }
    if !arguments.force {
        check_blank(&image)?;
    }
    make(&image, &options, host)
}

fn make(image: &Image, options: &MkfsOptions, host: &dyn CommandHost) -> Outcome<MkfsReport> {
    let bar = host.progress_bar("fat mkfs");
    let progress = &mut |step: Progress| bar.show(&step.phase.to_string(), step.done, step.total);
    mkfs(image.device.clone(), options, progress).map_err(|error| failure::of_mkfs(&image.name, &error))
}

/// Returns the options of formatting. `start` is the offset of the partition in bytes.
fn options(arguments: &MkfsArguments, start: u64) -> Outcome<MkfsOptions> {
    let sector_size = u64::from(arguments.sector_size.unwrap_or(512).max(512));
    let hidden = u32::try_from(start / sector_size).unwrap_or(0);
    Ok(MkfsOptions {
        width: arguments.width,
        size: arguments.size,
        sector_size: arguments.sector_size,
        sectors_per_cluster: arguments.sectors_per_cluster,
        fats: arguments.tables,
        reserved_sectors: arguments.reserved_sectors,
        root_entries: arguments.root_entries,
        label: arguments.label.clone(),
        page: arguments.names.codepage,
        serial: arguments.serial,
        media: arguments.media,
        hidden_sectors: arguments.hidden_sectors.unwrap_or(hidden),
        heads: arguments.geometry.map(|(heads, _)| heads),
        sectors_per_track: arguments.geometry.map(|(_, sectors)| sectors),
        drive: arguments.drive,
        backup_sector: arguments.backup_sector,
        align: !arguments.no_align,
        bad_sectors: arguments.bad_sectors.as_deref().map(sectors::read_list).transpose()?.unwrap_or_default(),
        check_surface: arguments.check,
        partition_table: arguments.partition_table,
        time: current_time(),
        offset_minutes: arguments.times.offset_minutes(),
    })
}

/// Fails if the beginning of a device contains anything.
fn check_blank(image: &Image) -> Outcome {
    let mut beginning = vec![0; image.device.size().min(BLANK_BYTES) as usize];
    // What cannot be read contains nothing that could be lost.
    if image.device.read_at(0, &mut beginning).is_err() || beginning.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let contents = match PartitionTable::read(image.device.as_ref()) {
        _ if is_file_system(image.device.as_ref()).unwrap_or(false) => "a FAT file system",
        Ok(Some(table)) if !table.entries.is_empty() => "a partition table",
        _ => "data",
    };
    let message = format!("`{}` is not empty, but contains {contents}; to overwrite it, add --force", image.name);
    Err(Failure::new(Exit::Failure, message))
}

/// As [`failure::of_opening`], with the remedy for an image that does not exist.
fn of_opening(error: &OpenError) -> Failure {
    match error {
        OpenError::Missing(path)
            if path.parent().is_some_and(|parent| parent.as_os_str().is_empty() || parent.is_dir()) =>
        {
            let message = format!("there is no file `{}`; to create it, add its size: --size 64m", path.display());
            Failure::new(Exit::Stack, message)
        }
        error => failure::of_opening(error),
    }
}

fn width(text: &str) -> Result<FatWidth, &'static str> {
    match text {
        "12" => Ok(FatWidth::Fat12),
        "16" => Ok(FatWidth::Fat16),
        "32" => Ok(FatWidth::Fat32),
        _ => Err("give 12, 16 or 32"),
    }
}

fn geometry(text: &str) -> Result<(u16, u16), &'static str> {
    let parts = text.split_once('/').map(|(heads, sectors)| (heads.parse(), sectors.parse()));
    match parts {
        Some((Ok(heads), Ok(sectors))) => Ok((heads, sectors)),
        _ => Err("give the heads and the sectors of a track, such as 255/63"),
    }
}
