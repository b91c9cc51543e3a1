//! What is on the disk, as text for people.

use std::fmt;
use std::ops::Range;

use serde_json::{Value, json};

use super::chain::{ChainEnd, Run};
use super::directory::{DirectoryRange, DirectoryStart};
use super::disk::Disk;
use super::error::ToolError;
use super::printable::printable;
use super::volume::Volume;
use crate::device::DeviceRef;
use crate::fat::format::{
    BootSector, CodePage, DosDateTime, Entry, EntrySlot, FatWidth, Geometry, InfoSector, Label, Link, LongNameSlot,
    VolumeFlags, units_to_name,
};

/// Number of rows of one dump; the last of more says so.
const ROWS_MAX: usize = 100_000;

/// A part of the disk in rows of a name and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The rows.
    pub rows: Vec<(String, String)>,
}

impl Dump {
    fn add(&mut self, name: impl Into<String>, value: impl fmt::Display) {
        match self.rows.len() {
            length if length < ROWS_MAX => self.rows.push((name.into(), value.to_string())),
            ROWS_MAX => self.rows.push(("…".into(), "there is more".into())),
            _ => (),
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() > ROWS_MAX
    }

    /// Returns the rows as JSON.
    pub fn to_json(&self) -> Value {
        self.rows.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        self.rows.iter().try_for_each(|(name, value)| writeln!(formatter, "{name:width$}  {}", printable(value)))
    }
}

/// Returns the fields of the boot sector, and where the regions are. The sector need not be valid.
///
/// # Errors
/// If it cannot be read.
pub fn dump_boot(device: DeviceRef, page: CodePage) -> Result<Dump, ToolError> {
    let disk = Disk(device);
    let boot = BootSector::decode(&disk.read_sector(0)?);
    let mut dump = Dump::default();
    dump.add("made by", boot.oem_name.escape_ascii());
    dump.add("bytes per sector", boot.bytes_per_sector);
    dump.add("sectors per cluster", boot.sectors_per_cluster);
    dump.add("reserved sectors", boot.reserved_sectors);
    dump.add("tables", boot.fats);
    dump.add("sectors per table", boot.fat_sectors);
    dump.add("root directory entries", boot.root_entries);
    dump.add("sectors", boot.total_sectors);
    dump.add("media byte", format_args!("{:#04x}", boot.media));
    dump.add("sectors per track, heads", format_args!("{}, {}", boot.sectors_per_track, boot.heads));
    dump.add("hidden sectors", boot.hidden_sectors);
    dump.add("drive number", format_args!("{:#04x}", boot.drive));
    let state = [(boot.state.is_dirty(), "not unmounted"), (boot.state.had_errors(), "had errors")];
    let state: Vec<&str> = state.iter().filter(|(is_set, _)| *is_set).map(|(_, text)| *text).collect();
    dump.add("state", if state.is_empty() { "clean".to_owned() } else { state.join(", ") });
    if let Some(fields) = boot.extended {
        dump.add("version", format_args!("{}.{}", fields.version >> 8, fields.version & 0xFF));
        dump.add("root directory cluster", fields.root_cluster);
        dump.add("information sector", fields.info_sector);
        dump.add("copy of the boot sector", fields.backup_sector);
        match fields.mirroring.active() {
            Some(table) => dump.add("table in use", u16::from(table) + 1),
            None => dump.add("tables in use", "all"),
        }
    }
    if let Some(identity) = boot.identity {
        dump.add("serial number", identity.serial_text());
        if let Some((label, type_name)) = identity.label {
            dump.add("label", Label(label).decode(page));
            dump.add("type", type_name.escape_ascii());
        }
    }
    dump.add("signature", if boot.has_signature { "present" } else { "missing" });
    match Geometry::new(&boot, disk.0.size()) {
        Ok(geometry) => dump_geometry(&geometry, &mut dump),
        Err(error) => dump.add("not valid", error),
    }
    Ok(dump)
}

fn dump_geometry(geometry: &Geometry, dump: &mut Dump) {
    dump.add("width", geometry.width());
    dump.add("cluster size", geometry.cluster_size());
    dump.add("clusters", geometry.clusters());
    for table in 0..geometry.fats() {
        let start = geometry.fat_offset(table).unwrap_or(0);
        dump.add(
            format!("table {}", u16::from(table) + 1),
            format_args!("bytes {start} to {}", start + geometry.fat_size()),
        );
    }
    if let Some((start, length)) = geometry.root_region() {
        dump.add("root directory", format_args!("bytes {start} to {}", start + u64::from(length)));
    }
    dump.add("first cluster", format_args!("byte {}", geometry.data_offset()));
    dump.add("end", format_args!("byte {}", geometry.size()));
}

/// Returns the information sector, with the numbers that it should have.
///
/// # Errors
/// If there is no file system, or it cannot be read.
pub fn dump_info(device: DeviceRef) -> Result<Dump, ToolError> {
    let mut volume = Volume::open(device)?;
    let mut dump = Dump::default();
    let number = |number: Option<u32>| number.map_or("unknown".to_owned(), |number| number.to_string());
    match volume.geometry.info_offset() {
        None => dump.add("information sector", "none"),
        Some(offset) => match InfoSector::decode(&volume.disk.read_sector(offset)?) {
            None => dump.add("information sector", "without signatures"),
            Some(info) => {
                dump.add("free clusters", number(info.free_clusters));
                dump.add("next free cluster", number(info.next_free));
            }
        },
    }
    let counted = volume.count_free()?;
    dump.add("free clusters, counted", number(counted.free_clusters));
    dump.add("first free cluster", number(counted.next_free));
    let value = volume.table.value(1)?;
    if let Some(flags) = VolumeFlags::decode(volume.geometry.width(), value) {
        dump.add("not unmounted, according to the table", flags.is_dirty);
        dump.add("had errors, according to the table", flags.had_errors);
    }
    Ok(dump)
}

/// Returns the entries of the first table in use for a range of clusters, from 0; neighbours of a chain, and free clusters,
/// in one row.
///
/// # Errors
/// If there is no file system, or it cannot be read.
pub fn dump_table(device: DeviceRef, clusters: Range<u32>) -> Result<Dump, ToolError> {
    let mut volume = Volume::open(device)?;
    let width = volume.geometry.width();
    let mut dump = Dump::default();
    let end = clusters.end.min(volume.geometry.cluster_numbers().end);
    let mut cluster = clusters.start;
    while cluster < end && !dump.is_full() {
        let value = volume.table.value(cluster)?;
        let first = cluster;
        let link = Link::decode(width, value);
        cluster += 1;
        // Whatever the link says of the first cluster, it says of those after it.
        let continues = |volume: &mut Volume, cluster: u32| -> Result<bool, ToolError> {
            let next = volume.table.get(cluster)?;
            Ok(match link {
                Link::Free | Link::Bad => next == link,
                Link::Next(after) if after == first + 1 => next == Link::Next(cluster + 1),
                _ => false,
            })
        };
        while first >= 2 && cluster < end && continues(&mut volume, cluster)? {
            cluster += 1;
        }
        let name = Run::text(&[Run { first, length: cluster - first }]);
        match link {
            _ if first < 2 => dump.add(name, format_args!("{value:#x}")),
            Link::Free => dump.add(name, "free"),
            Link::Bad => dump.add(name, "bad"),
            Link::End => dump.add(name, "end"),
            Link::Next(_) if cluster - first > 1 => dump.add(name, format_args!("each the next, then {cluster}")),
            Link::Next(next) => dump.add(name, next),
        }
    }
    Ok(dump)
}

/// Returns all slots of a directory, also deleted ones, up to its end. Times are shown as they are stored.
///
/// # Errors
/// [`ToolError::NotFound`] and [`ToolError::NotADirectory`]; if there is no file system, or it cannot be read.
pub fn dump_directory(device: DeviceRef, path: &str, page: CodePage) -> Result<Dump, ToolError> {
    let mut volume = Volume::open(device)?;
    let entry = volume.find(path, page)?;
    let start = volume.directory_of(entry.as_ref(), path)?;
    let mut dump = Dump::default();
    let mut reader = DirectoryRange::whole(start, &volume.geometry).reader();
    let mut index = 0_u64;
    while let Some(slot) = reader.next(&mut volume)?
        && !dump.is_full()
    {
        let width = volume.geometry.width();
        let value = match EntrySlot::decode(&slot.bytes) {
            EntrySlot::End => break,
            EntrySlot::Deleted => "deleted".to_owned(),
            EntrySlot::LongName(slot) => long_slot_text(&slot),
            EntrySlot::Label(entry) => format!("label {}", Label(entry.name.0).decode(page)),
            EntrySlot::Entry(entry) => entry_text(&entry, width, page),
        };
        dump.add(index.to_string(), value);
        index += 1;
    }
    Ok(dump)
}

fn long_slot_text(slot: &LongNameSlot) -> String {
    let length = slot.units.iter().position(|&unit| unit == 0).unwrap_or(slot.units.len());
    let name = units_to_name(slot.units.get(..length).unwrap_or_default());
    let first = if slot.is_first() { ", first" } else { "" };
    format!("long name {}{first}, checksum {:#04x}: {}", slot.number(), slot.checksum, String::from_utf8_lossy(&name))
}

fn entry_text(entry: &Entry, width: FatWidth, page: CodePage) -> String {
    let name = entry.name.decode(page, entry.case);
    let cluster = entry.first_cluster(width);
    format!(
        "{} {:>10} bytes, cluster {cluster}, modified {}, created {}, accessed {}: {name}",
        entry.attributes,
        entry.size,
        time_text(entry.modified),
        time_text(entry.created),
        date_text(entry.accessed_date)
    )
}

/// Returns a date and time as they are stored, valid or not; none for a date of 0.
fn time_text(time: DosDateTime) -> String {
    let (hours, minutes, seconds) = (time.time >> 11, time.time >> 5 & 0x3F, (time.time & 0x1F) * 2);
    match time.date {
        0 => "none".into(),
        date => {
            format!("{} {hours:02}:{minutes:02}:{:02}", date_text(date), seconds + u16::from(time.hundredths / 100))
        }
    }
}

fn date_text(date: u16) -> String {
    match date {
        0 => "none".into(),
        _ => format!("{}-{:02}-{:02}", 1980 + (date >> 9), date >> 5 & 0xF, date & 0x1F),
    }
}

/// Returns the chain of a file or directory.
///
/// # Errors
/// [`ToolError::NotFound`] and [`ToolError::NotADirectory`]; if there is no file system, or it cannot be read.
pub fn dump_chain(device: DeviceRef, path: &str, page: CodePage) -> Result<Dump, ToolError> {
    let mut volume = Volume::open(device)?;
    let entry = volume.find(path, page)?;
    let mut dump = Dump::default();
    let first = match &entry {
        Some(named) => {
            dump.add("size", named.entry.size);
            named.entry.first_cluster(volume.geometry.width())
        }
        None => DirectoryStart::root(&volume.geometry).cluster(),
    };
    if first == 0 {
        dump.add("clusters", "none");
        return Ok(dump);
    }
    let (clusters, end) = volume.chain(first, u32::MAX)?;
    let mut runs = Vec::new();
    clusters.iter().for_each(|&cluster| Run::append(&mut runs, cluster));
    dump.add("clusters", clusters.len());
    dump.add("fragments", runs.len());
    for run in &runs {
        let offset = volume.geometry.cluster_offset(run.first).unwrap_or(0);
        dump.add(Run::text(&[*run]), format_args!("from byte {offset}"));
    }
    dump.add("end", chain_end_text(end));
    Ok(dump)
}

fn chain_end_text(end: ChainEnd) -> String {
    match end {
        ChainEnd::Marked => "as it should be".into(),
        ChainEnd::Free(cluster) => format!("at cluster {cluster}, which is free"),
        ChainEnd::Bad(cluster) => format!("at cluster {cluster}, which is bad"),
        ChainEnd::Missing(cluster) => format!("at cluster {cluster}, which does not exist"),
        ChainEnd::Endless => "never".into(),
    }
}
