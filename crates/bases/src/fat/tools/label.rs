//! The label and the serial number of a file system.

use std::fmt;

use serde_json::{Value, json};
use vnode::Timestamp;

use super::directory::{DirectoryRange, DirectoryStart, EntryReader, NamedEntry};
use super::entries::label_entry;
use super::error::ToolError;
use super::printable::printable;
use super::volume::Volume;
use crate::device::DeviceRef;
use crate::fat::format::{CodePage, DosDateTime, EntrySlot, Label, NO_NAME, ShortName};

/// The label and the serial number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelReport {
    /// The label of the root directory, which is the one that systems show.
    pub root: Option<String>,
    /// The label of the boot sector.
    pub boot: Option<String>,
    /// The serial number as it is shown, if the boot sector has one.
    pub serial: Option<String>,
}

impl LabelReport {
    /// Returns the label: that of the root directory if it has one.
    pub fn label(&self) -> Option<&str> {
        self.root.as_deref().or(self.boot.as_deref())
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        json!({"label": self.label(), "root": self.root, "boot": self.boot, "serial": self.serial})
    }
}

impl fmt::Display for LabelReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |label: Option<&str>| printable(label.unwrap_or("none"));
        writeln!(formatter, "label: {}", shown(self.label()))?;
        if self.boot != self.root {
            writeln!(formatter, "label of the boot sector: {}", shown(self.boot.as_deref()))?;
        }
        writeln!(formatter, "serial number: {}", self.serial.as_deref().unwrap_or("none"))
    }
}

/// Returns the label and the serial number.
///
/// # Errors
/// If there is no file system, or it cannot be read.
pub fn show_label(device: DeviceRef, page: CodePage) -> Result<LabelReport, ToolError> {
    let mut volume = Volume::open(device)?;
    let root = root_label(&mut volume)?.map(|named| Label(named.entry.name.0).decode(page));
    let is_none = |label: &[u8; 11]| *label == NO_NAME || *label == [b' '; 11];
    let boot = volume.boot.label().filter(|label| !is_none(label)).map(|label| Label(label).decode(page));
    Ok(LabelReport { root, boot, serial: volume.boot.identity.map(|identity| identity.serial_text()) })
}

/// Sets or removes the label, in the root directory and in the boot sector. `time` becomes the time of its modification,
/// `offset_minutes` ahead of UTC.
///
/// # Errors
/// [`ToolError::RootFull`], or [`ToolError::NoSpace`] if the root directory needs another cluster.
pub fn set_label(
    device: DeviceRef,
    label: Option<Label>,
    time: Timestamp,
    offset_minutes: i32,
) -> Result<(), ToolError> {
    let mut volume = Volume::open(device)?;
    let present = root_label(&mut volume)?;
    match (label, present) {
        (Some(label), Some(named)) => {
            let mut entry = named.entry;
            entry.name = ShortName(label.0);
            entry.modified = DosDateTime { hundredths: 0, ..DosDateTime::encode(time, offset_minutes) };
            volume.disk.write(named.position, &entry.encode())?;
        }
        (Some(label), None) => {
            let mut range = DirectoryRange::whole(DirectoryStart::root(&volume.geometry), &volume.geometry);
            let free = volume.free_slots(&mut range, 1, &[], None)?;
            let entry = label_entry(label, DosDateTime::encode(time, offset_minutes));
            let slots: Vec<_> = free.into_iter().map(|position| (position, entry)).collect();
            volume.write_slots(&range, &slots)?;
            // The directory may have grown.
            volume.refresh_info()?;
        }
        (None, Some(named)) => volume.disk.write(named.position, &[EntrySlot::DELETED])?,
        (None, None) => (),
    }
    volume.flush()?;
    let stored = label.map_or(NO_NAME, |label| label.0);
    volume.change_boot_sector(&|boot| {
        if let Some((label, _)) = boot.identity.as_mut().and_then(|identity| identity.label.as_mut()) {
            *label = stored;
        }
    })?;
    volume.disk.flush()
}

/// Sets the serial number, if the boot sector has one.
///
/// # Errors
/// [`ToolError::NoSerial`] if it has none.
pub fn set_serial(device: DeviceRef, serial: u32) -> Result<(), ToolError> {
    let mut volume = Volume::open(device)?;
    if volume.boot.identity.is_none() {
        return Err(ToolError::NoSerial);
    }
    volume.change_boot_sector(&|boot| {
        if let Some(identity) = &mut boot.identity {
            identity.serial = serial;
        }
    })?;
    volume.disk.flush()
}

/// Returns the entry of the label.
fn root_label(volume: &mut Volume) -> Result<Option<NamedEntry>, ToolError> {
    let mut reader = EntryReader::new(DirectoryStart::root(&volume.geometry), &volume.geometry);
    while let Some(named) = reader.next(volume)? {
        if named.is_label {
            return Ok(Some(named));
        }
    }
    Ok(None)
}
