//! Opens an image: selects a session, and the directory tree in it that shows most.

use vnode::Errno;

use super::Options;
use super::boot_directory::BootDirectory;
use super::directory_head::{DirectoryHead, root_system_use};
use super::error::OpenErrorCause;
use super::format::rock_ridge;
use super::format::system_use::sharing;
use super::format::volume_descriptor::VolumeDescription;
use super::raw_sectors;
use super::sessions::{self, Descriptors, Sessions};
use super::system_use_reader::SystemUseReader;
use super::tree::{Tree, TreeKind};
use super::volume::Volume;
use crate::device::DeviceRef;

/// An opened image, and what is known of it besides.
pub(crate) struct Opened {
    pub(crate) volume: Volume,
    pub(crate) sessions: Sessions,
    /// Bytes of a sector of the image, if it is one of whole sectors.
    pub(crate) sector_size: Option<u64>,
    /// Identifiers of the extensions in the system use areas of the primary tree.
    pub(crate) extensions: Vec<Vec<u8>>,
}

/// Opens the image on a device.
///
/// # Errors
/// [`OpenErrorCause`].
pub(crate) fn open(device: DeviceRef, options: Options) -> Result<Opened, OpenErrorCause> {
    let whole_size = device.size();
    let device = raw_sectors::user_data(device)?;
    let sector_size = raw_sectors::sector_size(device.size(), whole_size);
    let sessions = sessions::find(&*device, options.session, options.start)?;
    let (primary, extensions) = primary_tree(&device, &sessions.selected, &options)?;
    let tree = select(primary, &sessions.selected);
    let description = description_of(&sessions.selected, tree.kind);
    let block_count = description.map_or(0, |volume| volume.block_count);
    let head = DirectoryHead::read(&tree, tree.root.block)?;
    let root = head.ok_or(OpenErrorCause::Damaged("its root directory makes no sense"))?;
    let hash = hash(&sessions.selected, tree.kind);
    let boot_catalog = sessions.selected.boot_catalog.filter(|_| tree.options.boot);
    let mut volume = Volume::new(tree, root, hash, block_count);
    let directory = volume.directory(&volume.root)?;
    if let Some(sector) = boot_catalog {
        volume.boot = BootDirectory::read(&volume.tree, sector, |name| directory.find(name).is_some())?;
    }
    Ok(Opened { volume, sessions, sector_size, extensions })
}

/// Returns the tree of the primary descriptor, with Rock Ridge if it has that, and the identifiers of its extensions.
fn primary_tree(
    device: &DeviceRef,
    descriptors: &Descriptors,
    options: &Options,
) -> Result<(Tree, Vec<Vec<u8>>), Errno> {
    let new = |kind, skipped| Tree::new(device.clone(), kind, skipped, &descriptors.primary, options.clone());
    let plain = new(TreeKind::Plain, 0);
    // A root directory that cannot be read may still be readable in another tree.
    let area = root_system_use(&plain).ok().flatten().unwrap_or_default();
    let Some((skipped, entries)) = sharing(&area) else { return Ok((plain, Vec::new())) };
    let extensions = SystemUseReader::new(&plain).read(entries).extensions;
    // Some writers have the attributes without saying which extensions they are.
    let is_rock_ridge = extensions.is_empty() || extensions.iter().any(|it| rock_ridge::IDENTIFIERS.contains(&&it[..]));
    let uses_it = options.rock && is_rock_ridge;
    Ok((if uses_it { new(TreeKind::RockRidge, skipped) } else { plain }, extensions))
}

/// Returns the primary tree if it has Rock Ridge; otherwise that of Joliet, or of an enhanced descriptor, or the primary one.
fn select(primary: Tree, descriptors: &Descriptors) -> Tree {
    let (joliet, enhanced) = (primary.options.joliet, primary.options.enhanced);
    if primary.kind == TreeKind::RockRidge {
        return primary;
    }
    let kinds = [(joliet, TreeKind::Joliet), (enhanced, TreeKind::Enhanced)];
    let kinds = kinds.into_iter().filter(|(is_used, _)| *is_used).map(|(_, kind)| kind);
    let mut trees = kinds.filter_map(|kind| Some((kind, description_of(descriptors, kind)?)));
    match trees.next() {
        Some((kind, volume)) => Tree::new(primary.device, kind, 0, volume, primary.options),
        None => primary,
    }
}

/// Returns the descriptor of a tree. Of several of Joliet, the first one counts.
pub(crate) fn description_of(descriptors: &Descriptors, kind: TreeKind) -> Option<&VolumeDescription> {
    let find = |is_it: fn(&VolumeDescription) -> bool| descriptors.supplementary.iter().find(|volume| is_it(volume));
    match kind {
        TreeKind::RockRidge | TreeKind::Plain => Some(&descriptors.primary),
        TreeKind::Joliet => find(|volume| volume.joliet_level.is_some()),
        TreeKind::Enhanced => find(|volume| volume.is_enhanced),
    }
}

/// Returns what distinguishes handles of this tree from those of others.
fn hash(descriptors: &Descriptors, kind: TreeKind) -> u64 {
    let mut bytes = [0; 13];
    bytes[..8].copy_from_slice(&descriptors.hash.to_le_bytes());
    bytes[8..12].copy_from_slice(&descriptors.start.to_le_bytes());
    bytes[12] = kind as u8;
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
