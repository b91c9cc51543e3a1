//! The file system on a device: mounting, periodic synchronization, unmounting, and what it declares.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

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
use super::format::{
    BOOT_SECTOR_SIZE, BootSector, CodePage, ENTRY_SIZE, EntryAttributes, FatWidth, Geometry, GeometryError,
};
use super::journal::{JOURNAL_NAME, Journal};
use super::names::NameRules;
use super::options::{ErrorPolicy, MetadataMode, Options};
use super::recovery::{Preened, preen};
use super::sidecar::store::{Owner, SIDECAR_NAME};
use super::tree::KIND;
use super::tree::handles::root_handle;
use super::tree::inode::{Inode, NewInode, Shared};
use super::tree::metadata::Metadata;
use super::tree::numbers::ROOT_NUMBER;
use super::tree::volume::{NewVolume, Volume};
use super::volume::allocation::Clusters;
use super::volume::chain::Chain;
use super::volume::state;
use super::volume::storage::Storage;
use super::volume::table::Table;

/// Interval at which changes are brought to the disk.
const INTERVAL: Duration = Duration::from_secs(5);

/// A FAT12, FAT16 or FAT32 file system on a device.
///
/// Changes are on the device at the latest 5 seconds after they were made, after fsync(2) and sync(2), and when this is dropped. What a
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
/// bytes, of which a name takes one and more. There are no hard links. Without metadata (`meta=none`) there are only files and
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
    stop: Arc<StopFlag>,
}

/// The reason why a file system cannot be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountError {
    /// The device cannot be read, or not be written although that is required.
    Device(Errno),
    /// The device has no FAT file system, or a damaged one.
    NotFat(GeometryError),
    /// The journal has changes that were not completed, and the device is read-only.
    JournalPending,
    /// FAT32 has no room for metadata in ten bytes of an entry.
    PaperOnFat32,
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
            Self::Block { block, cluster_size } => {
                write!(formatter, "the block size of {block} bytes is no multiple of the cluster size, {cluster_size}")
            }
            Self::JournalPending => {
                write!(formatter, "the journal has changes that a power failure interrupted; mount it writable once")
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
        let journal = open_journal(&storage, &mut table, rules)?;
        let root = read_root(&storage, &mut table, rules)?;
        let entry_metadata = entry_metadata(&root, &options, storage.geometry().width())?;
        let has_sidecars = !entry_metadata.is_used()
            && Volume::<Inode>::wants_sidecars(&options, own_file(&root, &SIDECAR_NAME).is_some());
        let details = format!("{title},{options}");
        let new = NewVolume {
            clusters: Clusters::new(table),
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
        let stop = Arc::new(StopFlag::default());
        let (weak, thread_stop) = (Arc::downgrade(&volume), stop.clone());
        let first_change = move || synchronize_periodically(weak, thread_stop);
        *volume.first_change.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(first_change));
        let file_system = Self { root, volume, details, claimed: ClaimFlag::default(), stop };
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
        self.stop.stop();
        self.volume.end()
    }
}

impl Drop for FatFileSystem {
    fn drop(&mut self) {
        if let Err(errno) = self.end() {
            tracing::error!("{}: changes may be lost: {errno}", self.volume.storage.title());
        }
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
        self.volume.synchronize()
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
    open_journal(storage, &mut table, rules)?;
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
/// [`MountError`]; [`MountError::JournalPending`] on a device that is read-only.
pub fn complete_journal(device: DeviceRef, title: &str) -> std::result::Result<(), MountError> {
    let mut sector = [0; BOOT_SECTOR_SIZE];
    device.read_at(0, &mut sector)?;
    let geometry = Geometry::new(&BootSector::decode(&sector), device.size())?;
    let options = Options::default();
    let storage = Storage::new(device, geometry, title.to_owned(), &options);
    open_journal(&storage, &mut Table::new(options.memory / 2), NameRules::default())?;
    Ok(())
}

/// Returns the inode of the root directory, with its own record.
fn new_root(volume: &Shared) -> Result<Arc<Inode>> {
    let new = NewInode {
        number: ROOT_NUMBER,
        handle: root_handle(volume.serial),
        metadata: Metadata::of_root(&volume.options),
        link: None,
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

/// Returns the slot of a hidden file of this base's own.
fn own_file(contents: &Contents, name: &super::format::ShortName) -> Option<u32> {
    let own = EntryAttributes::HIDDEN | EntryAttributes::SYSTEM;
    let is_own =
        |slot: &u32| contents.entry(*slot).is_some_and(|entry| entry.attributes.contains(own) && !entry.is_directory());
    contents.find_short(name).filter(is_own)
}

/// Returns the journal of the volume, if it has one, after its batch was applied.
fn open_journal(
    storage: &Storage,
    table: &mut Table,
    rules: NameRules,
) -> std::result::Result<Option<Journal>, MountError> {
    let root = read_root(storage, table, rules)?;
    let Some(entry) = own_file(&root, &JOURNAL_NAME).and_then(|slot| root.entry(slot)) else { return Ok(None) };
    let length_max = entry.size.div_ceil(storage.geometry().cluster_size());
    let mut chain = Chain::new(entry.first_cluster(storage.geometry().width()));
    let runs = chain.runs(table, storage, length_max.saturating_add(1))?;
    let Some(mut journal) = Journal::new(storage, &runs, entry.size.into()) else { return Ok(None) };
    if storage.is_read_only() {
        return if journal.pending(storage)?.is_some() { Err(MountError::JournalPending) } else { Ok(Some(journal)) };
    }
    let replayed = journal.replay(storage)?;
    if replayed > 0 {
        tracing::info!("{}: completed a change of {replayed} blocks from the journal", storage.title());
    }
    Ok(Some(journal))
}

/// Ends periodic synchronization.
#[derive(Default)]
struct StopFlag {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopFlag {
    fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits, and returns whether to go on.
    fn wait(&self) -> bool {
        let is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_stopped, INTERVAL, |is_stopped| !*is_stopped);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Starts the thread that synchronizes the volume from time to time, as long as it is mounted.
fn synchronize_periodically(volume: Weak<Volume<Inode>>, stop: Arc<StopFlag>) {
    let run = move || {
        while stop.wait() {
            let Some(volume) = volume.upgrade() else { return };
            if volume.is_dirty() {
                // A failure makes the volume read-only, and is logged.
                let _ = volume.synchronize();
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("fat-sync".to_owned()).spawn(vnode::as_server(run)) {
        tracing::warn!("changes are stored only by sync, fsync and unmounting: {error}");
    }
}
