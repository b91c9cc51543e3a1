//! The file system on a device: mounting, periodic synchronization, unmounting, and what it declares.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use vnode::{
    Caller, Claim, ClaimFlag, Control, ControlError, Description, Errno, FileSystem, Handle, KeptAccessTimes, Needs,
    Promises, Properties, Result, TimesTell, VnodeRef, profile,
};

use crate::device::DeviceRef;

use super::directory::contents::Contents;
use super::directory::extents::Extents;
use super::directory::slots::SLOTS_MAX;
use super::entry_metadata::EntryMetadata;
use super::entry_metadata::owners::{OwnerEntry, OwnerTable};
use super::format::{BOOT_SECTOR_SIZE, BootSector, CodePage, ENTRY_SIZE, Entry, FatWidth, Geometry, GeometryError};
use super::journal::{Batch, JOURNAL_NAME, Journal};
use super::names::NameRules;
use super::options::{ErrorPolicy, MetadataMode, Options};
use super::recovery::{Preened, preen};
use super::sidecar::log::Seed;
use super::sidecar::store::{Owner, SIDECAR_NAME, has_visible_sidecar, read_header};
use super::tree::KIND;
use super::tree::handles::root_handle;
use super::tree::inode::{Inode, NewInode, Shared};
use super::tree::metadata::Metadata;
use super::tree::numbers::ROOT_NUMBER;
use super::tree::sync_timer::SyncTimer;
use super::tree::volume::{NewVolume, OpenJournal, Volume};
use super::volume::allocation::Clusters;
use super::volume::chain::{Chain, leading_runs};
use super::volume::data::DataAccess;
use super::volume::state;
use super::volume::storage::Storage;
use super::volume::table::Table;

/// A FAT12, FAT16 or FAT32 file system on a device.
///
/// Changes are brought to the device one to two seconds after the last of them and at the latest 5 seconds after the first, at fsync(2)
/// and [`FileSystem::sync`], and when this is dropped. What a
/// power failure leaves has everything that was synchronized before. Files that are still open when this is dropped can no longer be
/// changed.
///
/// # Names
/// Long names are found regardless of case, as Windows compares them, and shown as they were created. Names that FAT cannot store are
/// refused with `EINVAL`: with any of `"*/:<>?\|` or a control character, with a dot or space at the end, or in bytes that are not
/// UTF-8. An unpaired surrogate in a name on the disk is shown in the three bytes that its number has. A name of more than 255 bytes is
/// shown as its short name.
///
/// # Limits
/// Files have up to 4 GiB − 1 byte and no holes: what a program skips is written as zeros. A directory has up to 65,536 slots of 32
/// bytes, of which a name takes one and more. There are hard links only with sidecars. Without metadata (`meta=none`) there are only files and
/// directories, owners and modes are those of the options, and only permission to write can be taken away, from everybody. Only sidecars
/// have extended attributes, ACLs and times that are more exact than those of FAT.
///
/// # Damage
/// A volume that was not unmounted is repaired where nothing can be lost by it. If more is left to repair, if damage is found later, or if
/// a write fails, it can only be read, unless the options say otherwise.
pub struct FatFileSystem {
    root: Arc<Inode>,
    volume: Shared,
    details: String,
    claimed: ClaimFlag,
    /// Number of failed synchronizations that were reported by [`FileSystem::sync`].
    reported: AtomicU64,
}

/// The reason why a file system cannot be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountError {
    /// The device cannot be read, or not be written although that is required.
    Device(Errno),
    /// The device has no FAT file system, or a damaged one.
    NotFat(GeometryError),
    /// FAT32 has no room for metadata in ten bytes of an entry.
    PaperOnFat32,
    /// The log of Unix metadata in the root directory is not hidden, so that it does not count.
    SidecarVisible,
    /// The log of Unix metadata in the root directory is damaged, or of an unknown version.
    SidecarInvalid,
    /// Metadata was requested in sidecars, and something else in the root directory has their name.
    SidecarName,
    /// The size of reads and writes is no multiple of the cluster size.
    Block {
        /// The size of the options in bytes.
        block: u32,
        /// The cluster size in bytes.
        cluster_size: u32,
    },
}

impl fmt::Display for MountError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(errno) => write!(formatter, "the device cannot be used: {errno}"),
            Self::NotFat(error) => write!(formatter, "no FAT file system: {error}"),
            Self::PaperOnFat32 => {
                write!(formatter, "entries of FAT32 have no room for `meta=paper`; use `meta=inline` or `meta=sidecar`")
            }
            Self::SidecarVisible => write!(
                formatter,
                "the log of Unix metadata in the root directory, PLYFS.ATR, lost its attributes hidden and system, and private files \
                 would be public; `plyfs fat fsck` restores them; use `meta=none` to mount it without metadata"
            ),
            Self::SidecarInvalid => write!(
                formatter,
                "the log of Unix metadata in the root directory, PLYFS.ATR, is damaged or of an unknown version, and private files \
                 would be public; `plyfs fat fsck` sets it aside; use `meta=none` to mount it without metadata"
            ),
            Self::SidecarName => write!(
                formatter,
                "the root directory has a file or directory called PLYFS.ATR that is no hidden log of Unix metadata; \
                 mount it with `meta=none` and rename that"
            ),
            Self::Block { block, cluster_size } => {
                write!(formatter, "the block size of {block} bytes is no multiple of the cluster size, {cluster_size}")
            }
        }
    }
}

impl std::error::Error for MountError {}

impl From<Errno> for MountError {
    fn from(errno: Errno) -> Self {
        Self::Device(errno)
    }
}

impl From<GeometryError> for MountError {
    fn from(error: GeometryError) -> Self {
        Self::NotFat(error)
    }
}

impl FatFileSystem {
    /// Mounts the file system on a device, which is called `title` in messages.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn open(device: DeviceRef, title: &str, options: Options) -> std::result::Result<Self, MountError> {
        let mut sector = [0; BOOT_SECTOR_SIZE];
        device.read_at(0, &mut sector)?;
        let boot = BootSector::decode(&sector);
        let geometry = Geometry::new(&boot, device.size())?;
        if !options.block.is_multiple_of(geometry.cluster_size()) {
            return Err(MountError::Block { block: options.block, cluster_size: geometry.cluster_size() });
        }
        let mut storage = Storage::new(device, geometry, title.to_owned(), &options);
        let rules = NameRules {
            page: CodePage::by_number(options.code_page).unwrap_or_default(),
            translation: options.translation,
        };
        let is_trusted = recover(&mut storage, rules, &options)?;
        let mut table = Table::new(options.memory / 2);
        let journal = open_journal(&storage, &mut table, rules, &options)?;
        let root = read_root(&storage, &mut table, rules)?;
        let entry_metadata = entry_metadata(&root, &options, storage.geometry().width())?;
        let has_sidecars = !entry_metadata.is_used()
            && Volume::<Inode>::wants_sidecars(&options, own_file(&root, &SIDECAR_NAME).is_some());
        let clusters = Mutex::new(Clusters::new(table));
        let access = DataAccess { storage: &storage, clusters: &clusters, block: 0 };
        check_root_sidecar(&root, access, (options.metadata, has_sidecars))?;
        let details = format!("{title},{options}");
        let new = NewVolume {
            clusters: clusters.into_inner().unwrap_or_else(PoisonError::into_inner),
            options,
            is_trusted,
            serial: boot.identity.map_or(0, |identity| identity.serial),
            has_sidecars,
            entry_metadata,
            journal,
        };
        Ok(Self::start(Arc::new(Volume::new(storage, new)), details)?)
    }

    fn start(volume: Shared, details: String) -> Result<Self> {
        let root = new_root(&volume)?;
        let _ = volume.root.set(Arc::downgrade(&root));
        volume.open_store(&root);
        let (weak, timer) = (Arc::downgrade(&volume), volume.timer.clone());
        let first_change = move || synchronize_periodically(weak, timer);
        *volume.first_change.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(first_change));
        let (claimed, reported) = Default::default();
        let file_system = Self { root, volume, details, claimed, reported };
        file_system.create_root_sidecar()?;
        Ok(file_system)
    }

    /// Creates the sidecar of the root directory if sidecars were requested, so that the volume has them from here on.
    fn create_root_sidecar(&self) -> Result<()> {
        let is_requested = self.volume.options.metadata == MetadataMode::Sidecar && self.volume.has_sidecars;
        if !is_requested || self.volume.storage.is_read_only() || self.root.lock_sidecar().is_some() {
            return Ok(());
        }
        self.volume.change(|_| {
            let mut state = self.root.write();
            let size = self.root.record_size(&state.metadata);
            self.root.reserve_record(&mut state, size)?;
            self.root.mark_dirty(&mut state);
            Ok(())
        })
    }

    /// Brings all changes to the disk, and marks the volume as unmounted. Dropping this does so, too, but reports errors only to the
    /// log. Whatever is changed afterwards fails with `EROFS`.
    ///
    /// # Errors
    /// `EIO` if this or an earlier write failed.
    pub fn end(&self) -> Result<()> {
        self.volume.timer.stop();
        self.volume.end()
    }
}

impl Drop for FatFileSystem {
    fn drop(&mut self) {
        if let Err(errno) = self.end() {
            tracing::error!("{}: changes may be lost: {errno}", self.volume.storage.title());
        }
        self.volume.forget_store();
    }
}

impl FileSystem for FatFileSystem {
    fn root(&self) -> VnodeRef {
        profile::vnode(self.root.clone())
    }

    fn resolve(&self, _caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        Ok(profile::vnode(self.root.resolve(handle)?))
    }

    fn sync(&self) -> Result<()> {
        self.volume.synchronize_and_report(&self.reported)
    }

    fn end_of_use(&self) -> Result<()> {
        self.end()
    }

    fn claim(&self) -> Result<Claim> {
        self.claimed.claim()
    }

    fn properties(&self) -> Properties {
        let times_tell_changes = if self.volume.has_sidecars { TimesTell::OfAll } else { TimesTell::OfNone };
        Properties {
            promises: Promises {
                exact_names: false,
                has_backing_files: false,
                times_tell_changes,
                // Without times of creation, a handle may be that of a later object in the same place.
                persistent_handles: !self.volume.entry_metadata.is_used(),
                ..Promises::TRANSPARENT
            },
            needs: Needs { access_times: true, read_only: self.volume.storage.is_read_only(), ..Needs::NONE },
        }
    }

    fn describe(&self) -> Vec<Description> {
        let properties = self.properties();
        vec![Description { kind: KIND.to_owned(), details: self.details.clone(), properties }]
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        Err(command.unknown_to(KIND))
    }

    fn keep_access_times(&self, kept: KeptAccessTimes) {
        for (is_updated, is_kept) in self.volume.updates_access_times.iter().zip([kept.files, kept.directories]) {
            is_updated.store(!is_kept, Ordering::Relaxed);
        }
    }
}

/// Completes the changes in the journal, and repairs what is safe to repair on a volume that was not unmounted. Returns whether the
/// volume is as if it had been unmounted.
fn recover(storage: &mut Storage, rules: NameRules, options: &Options) -> std::result::Result<bool, MountError> {
    let mut table = Table::new(options.memory / 2);
    if !state::is_marked_dirty(storage, &mut table)? {
        return Ok(state::is_stored(storage, &mut table)?);
    }
    complete_changes(storage, &mut table, rules)?;
    if storage.is_read_only() {
        return Ok(false);
    }
    let title = storage.title().to_owned();
    if !options.preen {
        tracing::warn!("{title}: the volume was not unmounted; {}", storage.remedy());
        return Ok(false);
    }
    let left = match preen(storage.device().clone(), storage.geometry().clusters(), options) {
        Preened::Sound(0) => return Ok(true),
        Preened::Sound(found) => {
            tracing::info!("{title}: the volume was not unmounted; {found} problems were repaired");
            return Ok(true);
        }
        Preened::TooLarge => {
            tracing::warn!("{title}: the volume was not unmounted, and is too large to check; {}", storage.remedy());
            return Ok(false);
        }
        Preened::Left(problems) => format!("has problems that need a full check: {problems}"),
        Preened::Failed(error) => format!("could not be checked: {error}"),
    };
    if options.errors == ErrorPolicy::RemountReadOnly {
        storage.set_read_only();
        tracing::error!("{title}: the volume was not unmounted, and {left}; it is read-only; {}", storage.remedy());
    } else {
        tracing::error!("{title}: the volume was not unmounted, and {left}; {}", storage.remedy());
    }
    Ok(false)
}

/// Completes the changes in the journal of a volume that is not mounted, as mounting it does. A check of a volume that was not unmounted
/// begins with this: otherwise it sees changes of which only a part is in place. Messages call the volume `title`.
///
/// # Errors
/// [`MountError`]; `EROFS` on a device that is read-only; `EIO` if the changes could not be written.
pub fn complete_journal(device: DeviceRef, title: &str) -> std::result::Result<(), MountError> {
    let mut sector = [0; BOOT_SECTOR_SIZE];
    device.read_at(0, &mut sector)?;
    let geometry = Geometry::new(&BootSector::decode(&sector), device.size())?;
    let options = Options::default();
    let mut storage = Storage::new(device, geometry, title.to_owned(), &options);
    if storage.is_read_only() {
        return Err(Errno::EROFS.into());
    }
    let (mut table, rules) = (Table::new(options.memory / 2), NameRules::default());
    if state::is_marked_dirty(&storage, &mut table)? {
        complete_changes(&mut storage, &mut table, rules)?;
    } else {
        open_journal(&storage, &mut table, rules, &options)?;
    }
    if storage.is_read_only() { Err(Errno::EIO.into()) } else { Ok(()) }
}

/// Returns the inode of the root directory, with its own record.
fn new_root(volume: &Shared) -> Result<Arc<Inode>> {
    let new = NewInode {
        number: ROOT_NUMBER,
        handle: root_handle(volume.serial),
        metadata: Metadata::of_root(&volume.options),
        link: None,
        stored: None,
        is_dangling: false,
        chain: Chain::new(volume.storage.geometry().root_cluster().unwrap_or(0)),
        size: 0,
    };
    let root = Inode::new(volume, new);
    volume.live.insert(ROOT_NUMBER, &root);
    let mut state = root.write();
    root.load(&mut state)?;
    let record = root.lock_sidecar().as_ref().and_then(|sidecar| sidecar.record(Owner::Root).cloned());
    if let Some(record) = record {
        state.metadata.set_record(&record, &volume.options);
    }
    drop(state);
    Ok(root)
}

/// Reads the root directory.
fn read_root(storage: &Storage, table: &mut Table, rules: NameRules) -> Result<Contents> {
    let geometry = storage.geometry();
    let mut extents = Extents::default();
    if let Some((offset, size)) = geometry.root_region() {
        extents.push(offset, size.into());
    }
    if let Some(cluster) = geometry.root_cluster() {
        let length_max = (SLOTS_MAX * ENTRY_SIZE as u32).div_ceil(geometry.cluster_size());
        for run in Chain::new(cluster).runs(table, storage, length_max)? {
            let offset = geometry.cluster_offset(run.cluster).ok_or(Errno::EIO)?;
            extents.push(offset, u64::from(run.count) * u64::from(geometry.cluster_size()));
        }
    }
    Contents::read(storage, extents, rules)
}

/// Returns how the entries of a volume have metadata.
fn entry_metadata(
    root: &Contents,
    options: &Options,
    width: FatWidth,
) -> std::result::Result<EntryMetadata, MountError> {
    let mut owners = OwnerTable::default();
    let entries = root.slots_from(0).filter_map(|slot| root.entry(slot));
    for owner in entries.filter_map(|entry| OwnerEntry::of(&entry)) {
        owners.add(owner.is_group, owner.number, owner.id);
    }
    let has_sidecar = || own_file(root, &SIDECAR_NAME).is_some();
    match options.metadata {
        MetadataMode::Inline => Ok(EntryMetadata::Inline(Mutex::new(owners))),
        MetadataMode::Auto if !owners.is_empty() && !has_sidecar() => Ok(EntryMetadata::Inline(Mutex::new(owners))),
        MetadataMode::Paper if width == FatWidth::Fat32 => Err(MountError::PaperOnFat32),
        MetadataMode::Paper => Ok(EntryMetadata::Paper),
        MetadataMode::Auto | MetadataMode::None | MetadataMode::Sidecar => Ok(EntryMetadata::None),
    }
}

/// Checks that the root directory has no log of Unix metadata that would not be used in silence, and room for one if sidecars were
/// requested.
fn check_root_sidecar(
    root: &Contents,
    access: DataAccess<'_>,
    (mode, has_sidecars): (MetadataMode, bool),
) -> std::result::Result<(), MountError> {
    if (has_sidecars || mode == MetadataMode::Auto) && has_visible_sidecar(root, access)? {
        return Err(MountError::SidecarVisible);
    }
    if !has_sidecars {
        return Ok(());
    }
    let own = own_file(root, &SIDECAR_NAME);
    if let Some(log) = own.filter(|entry| entry.size > 0)
        && Seed::of_log(&read_header(&log, access)?).is_none()
    {
        return Err(MountError::SidecarInvalid);
    }
    let is_taken = || root.find(&root.rules().dotted_short(&SIDECAR_NAME)).is_some();
    if own.is_none() && is_taken() { Err(MountError::SidecarName) } else { Ok(()) }
}

/// Returns the entry of a hidden file of this base's own.
fn own_file(contents: &Contents, name: &super::format::ShortName) -> Option<Entry> {
    contents.entry(contents.find_short(name, Entry::is_hidden_file)?)
}

/// The journal of a volume.
enum JournalFile {
    /// The volume has none.
    Missing,
    Usable(Journal),
    /// There is a file that cannot be used, for this reason. Another one can take its name.
    Unusable(&'static str),
    /// There is one that is left to a later version of this base.
    OfOtherVersion,
}

/// Finds the journal of a volume. What is wrong with it is no damage: the volume is used without it.
///
/// # Errors
/// `EIO` or `ENOMEM` if the root directory cannot be read.
fn find_journal(storage: &Storage, table: &mut Table, rules: NameRules) -> Result<JournalFile> {
    let root = read_root(storage, table, rules)?;
    let Some(entry) = own_file(&root, &JOURNAL_NAME) else { return Ok(JournalFile::Missing) };
    if !Journal::is_valid_size(entry.size.into()) {
        return Ok(JournalFile::Unusable("has an invalid size"));
    }
    let count = entry.size.div_ceil(storage.geometry().cluster_size());
    let first = entry.first_cluster(storage.geometry().width());
    let journal =
        leading_runs(table, storage, first, count).map(|runs| Journal::new(storage, &runs, entry.size.into()));
    Ok(match journal {
        Err(_) => JournalFile::Unusable("has clusters that cannot be found"),
        Ok(None) => JournalFile::Unusable("has a chain that does not fit its size"),
        Ok(Some(journal)) => match journal.is_of_other_version(storage) {
            Err(_) => JournalFile::Unusable("cannot be read"),
            Ok(true) => JournalFile::OfOtherVersion,
            Ok(false) => JournalFile::Usable(journal),
        },
    })
}

/// Completes the changes in the journal of a volume that was not unmounted. If they cannot be written, the volume is read-only, and shown
/// as if they were.
///
/// # Errors
/// As [`find_journal`].
fn complete_changes(storage: &mut Storage, table: &mut Table, rules: NameRules) -> Result<()> {
    // Otherwise the volume has no changes to complete, and using it without them is reported by whoever opens the journal.
    let JournalFile::Usable(journal) = find_journal(storage, table, rules)? else { return Ok(()) };
    let title = storage.title().to_owned();
    let batch = match journal.batch(storage, table) {
        Ok(Batch::None) => return Ok(()),
        Ok(Batch::Current(batch)) => batch,
        Ok(Batch::Outdated) => {
            tracing::warn!("{title}: the journal is older than the directories, and is not applied");
            if !storage.is_read_only() && journal.discard(storage).is_err() {
                storage.set_read_only();
            }
            return Ok(());
        }
        Err(errno) => {
            tracing::warn!("{title}: the journal cannot be read ({errno}); changes that it holds are not completed");
            return Ok(());
        }
    };
    let reason = match storage.is_read_only() {
        true => "is read-only".to_owned(),
        false => match journal.apply(storage, &batch) {
            Ok(()) => {
                tracing::info!("{title}: completed a change of {} blocks from the journal", batch.len());
                return Ok(());
            }
            Err(errno) => format!("cannot be written ({errno})"),
        },
    };
    tracing::warn!(
        "{title}: a change of {} blocks was interrupted, and the volume {reason}: it is shown as if the change were complete",
        batch.len()
    );
    storage.overlay(batch.into_iter().map(|block| (block.offset, block.bytes)));
    Ok(())
}

/// Returns the journal of a volume that has no changes to complete, if it is to be used. One that still holds a batch is older than the
/// last unmounting or check of the volume: the batch is dropped.
///
/// # Errors
/// As [`find_journal`].
fn open_journal(storage: &Storage, table: &mut Table, rules: NameRules, options: &Options) -> Result<OpenJournal> {
    let title = storage.title();
    let journal = match find_journal(storage, table, rules)? {
        JournalFile::Missing => None,
        JournalFile::Usable(journal) => Some(journal),
        JournalFile::Unusable(reason) => {
            tracing::warn!("{title}: the journal {reason}, and is not used");
            None
        }
        JournalFile::OfOtherVersion => {
            tracing::warn!("{title}: the journal is of another version, and is left alone");
            return Ok(OpenJournal { journal: None, is_wanted: false });
        }
    };
    let Some(journal) = journal.filter(|_| !storage.is_read_only()) else {
        return Ok(OpenJournal { journal: None, is_wanted: options.journal });
    };
    if journal.batch(storage, table).is_ok_and(|batch| batch != Batch::None) {
        tracing::warn!(
            "{title}: the volume was repaired or unmounted since the journal was written; it is not applied"
        );
        // A failure makes the volume read-only, and is logged.
        let _ = journal.discard(storage);
    }
    Ok(OpenJournal { journal: Some(journal).filter(|_| options.journal), is_wanted: options.journal })
}

/// Starts the thread that synchronizes the volume from time to time, as long as it is mounted.
fn synchronize_periodically(volume: Weak<Volume<Inode>>, timer: Arc<SyncTimer>) {
    let run = move || {
        while timer.wait() {
            let Some(volume) = volume.upgrade() else { return };
            if volume.is_dirty() {
                // A failure makes the volume read-only, and is logged.
                let _ = volume.synchronize();
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("fat-sync".to_owned()).spawn(vnode::as_server(run)) {
        tracing::warn!("changes are stored only by fsync and unmounting: {error}");
    }
}
