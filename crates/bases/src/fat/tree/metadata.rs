//! Metadata of an object: from its entry and its record, and back to both.

use vnode::{Device, FileKind, Timestamp};

use crate::fat::entry_metadata::fields::UnixFields;
use crate::fat::entry_metadata::{EntryMetadata, inline};
use crate::fat::format::{DosDateTime, Entry, EntryAttributes, FatWidth};
use crate::fat::options::Options;
use crate::fat::sidecar::extended_attributes::ExtendedAttributes;
use crate::fat::sidecar::record::{EntryState, Record, privileges};
use crate::unix::creation::TARGET_MAX;
use crate::unix::protection::Protection;
use crate::unix::times::Times;

/// The permission to write, of all classes.
const WRITE_BITS: u32 = 0o222;

/// The attributes of an object without its contents.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) protection: Protection,
    pub(crate) device: Device,
    pub(crate) times: Times,
    pub(crate) extended_attributes: ExtendedAttributes,
    /// Attributes of the entry, except that the read-only one follows from the mode.
    pub(crate) attributes: EntryAttributes,
    /// Time of the creation as the entry has it; none if the entry has metadata in its place.
    pub(crate) created: DosDateTime,
    /// Mode bits that are stored, and that the options hide.
    pub(crate) hidden_mode: u32,
}

impl Metadata {
    /// Returns the metadata of an object that is created now, whose entry has the time `created`.
    pub(crate) fn new(mut protection: Protection, device: Device, created: Timestamp, options: &Options) -> Self {
        let is_directory = protection.kind == FileKind::Directory;
        protection.mode &= !mask(protection.kind, options);
        let attributes = if is_directory { EntryAttributes::DIRECTORY } else { EntryAttributes::ARCHIVE };
        Self {
            protection,
            device,
            times: Times::now(),
            extended_attributes: ExtendedAttributes::default(),
            attributes,
            created: DosDateTime::encode(created, options.time_offset_minutes),
            hidden_mode: 0,
        }
    }

    /// Returns the metadata of a root directory without a record.
    pub(crate) fn of_root(options: &Options) -> Self {
        let first = Timestamp { seconds: crate::fat::format::DosTimeRange::FIRST, nanoseconds: 0 };
        let protection = Protection { mode: options.directory_mode, ..owned(options, FileKind::Directory) };
        Self {
            protection,
            device: Device::default(),
            times: Times { atime: first, mtime: first, ctime: first, btime: first },
            extended_attributes: ExtendedAttributes::default(),
            attributes: EntryAttributes::DIRECTORY,
            created: DosDateTime::default(),
            hidden_mode: 0,
        }
    }

    /// Returns the metadata of the object of an entry, of which a record or the entry itself may know more.
    pub(crate) fn of_entry(
        entry: &Entry,
        record: Option<&Record>,
        (options, coding): (&Options, &EntryMetadata),
    ) -> Self {
        let kind = if entry.is_directory() { FileKind::Directory } else { FileKind::Regular };
        let default = Self {
            protection: Protection { mode: default_mode(entry, options), ..owned(options, kind) },
            device: Device::default(),
            times: times_of(entry, options),
            extended_attributes: ExtendedAttributes::default(),
            attributes: entry.attributes,
            created: entry.created,
            hidden_mode: 0,
        };
        if coding.is_used() {
            return default.with_fields(entry, coding.decode(entry), (options, coding));
        }
        match record {
            Some(record) if Self::has_own(entry, Some(record), coding) => {
                default.with_record(entry, record).masked(options)
            }
            _ => default,
        }
    }

    /// Returns whether the mode that [`Metadata::of_entry`] returns is the object's own, and not that of the options.
    pub(crate) fn has_own(entry: &Entry, record: Option<&Record>, coding: &EntryMetadata) -> bool {
        if coding.is_used() {
            return coding.decode(entry).is_some();
        }
        record.is_some_and(|record| (record.protection.kind == FileKind::Directory) == entry.is_directory())
    }

    /// Makes the object one that only the superuser may use: it was saved by a check, which does not know whose it was.
    pub(crate) fn restrict(&mut self, options: &Options) {
        let mode = if self.protection.kind == FileKind::Directory { 0o700 } else { 0o600 };
        (self.protection.uid, self.protection.gid, self.protection.mode) = (0, 0, mode);
        *self = self.clone().masked(options);
    }

    /// Returns the kind of the object of an entry, as [`Metadata::of_entry`].
    pub(crate) fn kind_of(entry: &Entry, record: Option<&Record>, coding: &EntryMetadata) -> FileKind {
        if entry.is_directory() {
            return FileKind::Directory;
        }
        let kind = match record {
            _ if coding.is_used() => coding.decode(entry).map(|fields| fields.kind),
            record => record.map(|record| kind_by_record(entry, record)),
        };
        kind.filter(|&kind| kind != FileKind::Directory && has_data_of(entry, kind, coding))
            .unwrap_or(FileKind::Regular)
    }

    /// Returns this metadata, which an entry has by itself, with what it has in place of other fields.
    fn with_fields(
        mut self,
        entry: &Entry,
        fields: Option<UnixFields>,
        (options, coding): (&Options, &EntryMetadata),
    ) -> Self {
        self.created = DosDateTime::default();
        let Some(fields) = fields else { return self };
        self.attributes = self.attributes.with(EntryAttributes::RESERVED, false);
        self.protection.kind = if has_data_of(entry, fields.kind, coding) { fields.kind } else { FileKind::Regular };
        (self.protection.uid, self.protection.gid) = (fields.uid, fields.gid);
        self.protection.mode = match (entry.is_directory(), entry.attributes.contains(EntryAttributes::READ_ONLY)) {
            (false, true) => fields.mode & !WRITE_BITS,
            _ => fields.mode,
        };
        self.device = fields.device;
        self.times.btime = self.times.mtime;
        if coding.replaces_access_date() {
            self.times.atime = self.times.mtime;
        }
        self.masked(options)
    }

    /// Hides the mode bits that no object has by the options.
    fn masked(mut self, options: &Options) -> Self {
        let mask = mask(self.protection.kind, options);
        self.hidden_mode = self.protection.mode & mask;
        self.protection.mode &= !mask;
        if let Some(acl) = self.protection.access_acl.take_if(|_| mask & 0o777 != 0) {
            self.protection.access_acl = Some(acl.with_mode(self.protection.mode).into());
        }
        self
    }

    /// Forgets hidden mode bits by which a file acts for its owner or group, because its data or owner changes.
    pub(crate) fn forget_hidden_privileges(&mut self) {
        self.hidden_mode &= !privileges(self.protection.kind);
    }

    /// Returns this metadata, which an entry has by itself, with what its record knows. What the entry says counts where somebody else
    /// has changed it since.
    fn with_record(self, entry: &Entry, record: &Record) -> Self {
        let mut protection = record.protection.clone();
        let was_read_only = record.entry.attributes.contains(EntryAttributes::READ_ONLY);
        match (was_read_only, entry.attributes.contains(EntryAttributes::READ_ONLY)) {
            (false, true) => protection.mode &= !WRITE_BITS,
            (true, false) => protection.mode |= 0o200,
            _ => {}
        }
        let kind = kind_by_record(entry, record);
        if protection.kind == FileKind::Symlink && kind != FileKind::Symlink {
            // All symlinks have all permissions.
            protection.mode = self.protection.mode;
        }
        protection.kind = kind;
        let mut extended_attributes = record.extended_attributes.clone();
        if record.entry.modified != entry.modified || record.entry.size != entry.size {
            protection.mode &= !privileges(protection.kind);
            extended_attributes.forget_capability();
        }
        let mut times = record.times;
        if record.entry.modified != entry.modified {
            (times.mtime, times.ctime) = (self.times.mtime, self.times.mtime.max(times.ctime));
        }
        if record.entry.accessed_date != entry.accessed_date {
            times.atime = self.times.atime;
        }
        Self { protection, device: record.device, times, extended_attributes, ..self }
    }

    /// Sets the fields of an entry, except for its name, first cluster and size.
    pub(crate) fn store(&self, entry: &mut Entry, (options, coding): (&Options, &EntryMetadata)) {
        entry.attributes = self.stored_attributes();
        if !coding.is_used() {
            entry.created = self.created;
        }
        let offset = options.time_offset_minutes;
        entry.modified = DosDateTime { hundredths: 0, ..DosDateTime::encode(self.times.mtime, offset) };
        entry.accessed_date = DosDateTime::encode(self.times.atime, offset).date;
        let Protection { kind, uid, gid, .. } = self.protection;
        let mode = self.protection.mode | self.hidden_mode;
        coding.encode(entry, &UnixFields { kind, mode, uid, gid, device: self.device });
    }

    /// Returns the record of the object, which has a size in bytes, and whose entry was stored.
    pub(crate) fn record(&self, size: u64, options: &Options) -> Record {
        let offset = options.time_offset_minutes;
        let entry = EntryState {
            attributes: self.stored_attributes(),
            modified: DosDateTime { hundredths: 0, ..DosDateTime::encode(self.times.mtime, offset) },
            accessed_date: DosDateTime::encode(self.times.atime, offset).date,
            size: if self.protection.kind == FileKind::Directory { 0 } else { size as u32 },
        };
        Record {
            protection: Protection { mode: self.protection.mode | self.hidden_mode, ..self.protection.clone() },
            device: self.device,
            times: self.times,
            extended_attributes: self.extended_attributes.clone(),
            entry,
        }
    }

    /// Sets the metadata of a record, for the root directory.
    pub(crate) fn set_record(&mut self, record: &Record, options: &Options) {
        if record.protection.kind == self.protection.kind {
            self.protection = record.protection.clone();
            self.times = record.times;
            self.extended_attributes = record.extended_attributes.clone();
            *self = self.clone().masked(options);
        }
    }

    /// Rounds times to what an entry has, for volumes where nothing else has them. The change time stays exact while the object is in
    /// memory.
    pub(crate) fn round_times(&mut self, options: &Options) {
        let offset = options.time_offset_minutes;
        let rounded = |time: Timestamp, time_of_day: bool, hundredths: bool| {
            let mut stored = DosDateTime::encode(time, offset);
            stored.time = if time_of_day { stored.time } else { 0 };
            stored.hundredths = if hundredths { stored.hundredths } else { 0 };
            stored.decode(offset).unwrap_or(time)
        };
        self.times.mtime = rounded(self.times.mtime, true, false);
        self.times.atime = rounded(self.times.atime, false, false);
        self.times.btime = rounded(self.times.btime, true, true);
    }

    fn stored_attributes(&self) -> EntryAttributes {
        let is_directory = self.protection.kind == FileKind::Directory;
        // An object of an unknown owner shows no mode, but has one.
        let is_unknown = [self.protection.uid, self.protection.gid].contains(&inline::UNKNOWN_ID);
        let is_read_only = if is_directory || is_unknown {
            self.attributes.contains(EntryAttributes::READ_ONLY)
        } else {
            (self.protection.mode | self.hidden_mode) & WRITE_BITS == 0
        };
        self.attributes.with(EntryAttributes::READ_ONLY, is_read_only)
    }
}

/// Returns the number of an entry's first cluster; 0 if it has none.
pub(crate) fn first_cluster(entry: &Entry, width: FatWidth) -> u32 {
    if entry.size == 0 && !entry.is_directory() { 0 } else { entry.first_cluster(width) }
}

/// Returns the mode of a file without metadata: that of the options, without permission to write if it is read-only.
pub(crate) fn default_mode(entry: &Entry, options: &Options) -> u32 {
    if entry.is_directory() {
        options.directory_mode
    } else if entry.attributes.contains(EntryAttributes::READ_ONLY) {
        options.file_mode & !WRITE_BITS
    } else {
        options.file_mode
    }
}

/// Returns the mode of a file that can be stored without metadata for a requested one; `None` if it cannot be.
pub(crate) fn storable_mode(requested: u32, kind: FileKind, options: &Options) -> Option<u32> {
    let full = if kind == FileKind::Directory { options.directory_mode } else { options.file_mode };
    let is_read_only = kind != FileKind::Directory && requested == full & !WRITE_BITS;
    (requested == full || is_read_only).then_some(requested)
}

/// Returns the mode that a new file without metadata gets for a requested one.
pub(crate) fn created_mode(requested: u32, kind: FileKind, options: &Options) -> u32 {
    match kind {
        FileKind::Directory => options.directory_mode,
        _ if requested & WRITE_BITS == 0 => options.file_mode & !WRITE_BITS,
        _ => options.file_mode,
    }
}

/// Returns the kind of the object of an entry with this record. A symlink never changes its size: otherwise somebody else has written a
/// file in place of it.
fn kind_by_record(entry: &Entry, record: &Record) -> FileKind {
    let kind = record.protection.kind;
    let is_same = kind != FileKind::Symlink || record.entry.size == entry.size;
    if is_same && has_data_of(entry, kind, &EntryMetadata::None) { kind } else { FileKind::Regular }
}

/// Returns whether the data of an entry is that of such an object.
fn has_data_of(entry: &Entry, kind: FileKind, coding: &EntryMetadata) -> bool {
    match kind {
        FileKind::Regular | FileKind::Directory => true,
        kind if inline::has_device_data(kind) => entry.size == coding.device_size(),
        FileKind::Symlink => (1..=TARGET_MAX).contains(&(entry.size as usize)),
        _ => entry.size == 0,
    }
}

fn mask(kind: FileKind, options: &Options) -> u32 {
    if kind == FileKind::Symlink { 0 } else { options.mask(kind == FileKind::Directory) }
}

fn owned(options: &Options, kind: FileKind) -> Protection {
    Protection { kind, uid: options.uid, gid: options.gid, mode: 0, access_acl: None, default_acl: None }
}

/// Returns the times that an entry has. FAT has no change time: it is that of the modification.
fn times_of(entry: &Entry, options: &Options) -> Times {
    let offset = options.time_offset_minutes;
    let first = Timestamp { seconds: crate::fat::format::DosTimeRange::FIRST, nanoseconds: 0 };
    let created = entry.created.decode(offset);
    let mtime = entry.modified.decode(offset).or(created).unwrap_or(first);
    let accessed = DosDateTime { date: entry.accessed_date, ..DosDateTime::default() };
    let atime = accessed.decode(offset).unwrap_or(mtime);
    Times { atime, mtime, ctime: mtime, btime: created.unwrap_or(mtime) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat::format::ShortName;

    fn of_entry(entry: &Entry, record: Option<&Record>) -> Metadata {
        Metadata::of_entry(entry, record, (&options(), &EntryMetadata::None))
    }

    fn options() -> Options {
        Options {
            uid: 1,
            gid: 2,
            file_mode: 0o640,
            directory_mode: 0o750,
            time_offset_minutes: 60,
            ..Options::default()
        }
    }

    fn entry() -> Entry {
        let date = 46 << 9 | 11 << 5 | 29;
        let modified = DosDateTime { date, time: 3 << 11 | 7 << 5 | 4, hundredths: 0 };
        Entry { modified, accessed_date: date, ..Entry::new(ShortName(*b"FILE       "), EntryAttributes::ARCHIVE) }
    }

    #[test]
    fn files_without_records_have_what_the_options_say() {
        let metadata = of_entry(&entry(), None);
        assert_eq!((metadata.protection.uid, metadata.protection.gid, metadata.protection.mode), (1, 2, 0o640));
        assert_eq!(metadata.times.mtime, Timestamp { seconds: 1_795_918_028, nanoseconds: 0 });
        assert_eq!((metadata.times.ctime, metadata.times.btime), (metadata.times.mtime, metadata.times.mtime));
        let read_only = Entry { attributes: EntryAttributes::READ_ONLY, ..entry() };
        assert_eq!(of_entry(&read_only, None).protection.mode, 0o440);
        let mut stored = entry();
        metadata.store(&mut stored, (&options(), &EntryMetadata::None));
        assert_eq!(stored, entry());
    }

    #[test]
    fn records_count_as_long_as_nobody_else_changed_the_entry() {
        let mut metadata = of_entry(&entry(), None);
        metadata.protection.mode = 0o4755;
        metadata.times.mtime.nanoseconds = 123;
        let record = metadata.record(0, &options());
        let again = of_entry(&entry(), Some(&record));
        assert_eq!((again.protection.mode, again.times.mtime.nanoseconds), (0o4755, 123));
        let mut changed = Entry { attributes: EntryAttributes::READ_ONLY, ..entry() };
        changed.modified.time += 1;
        let again = of_entry(&changed, Some(&record));
        assert_eq!((again.protection.mode, again.times.mtime.seconds), (0o555, metadata.times.mtime.seconds + 2));
        let larger = Entry { size: 1, ..entry() };
        let again = of_entry(&larger, Some(&record));
        assert_eq!(again.protection.mode, 0o755, "somebody has changed the data without its time");
        let directory = Entry { attributes: EntryAttributes::DIRECTORY, ..entry() };
        assert_eq!(of_entry(&directory, Some(&record)).protection.mode, 0o750);
    }

    #[test]
    fn modes_that_cannot_be_stored_are_known() {
        let storable = |mode, kind| storable_mode(mode, kind, &options());
        assert_eq!(storable(0o640, FileKind::Regular), Some(0o640));
        assert_eq!(storable(0o440, FileKind::Regular), Some(0o440));
        assert_eq!(storable(0o644, FileKind::Regular), None);
        assert_eq!(storable(0o550, FileKind::Directory), None);
        assert_eq!(created_mode(0o444, FileKind::Regular, &options()), 0o440);
        assert_eq!(created_mode(0o666, FileKind::Regular, &options()), 0o640);
    }
}
