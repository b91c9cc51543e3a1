//! The head of a directory: its first two records, which are those of itself and of its parent.

use vnode::{Result, zeros};

use super::format::SECTOR_SIZE;
use super::format::directory_record::DirectoryRecord;
use super::format::system_use::sharing;
use super::object::Metadata;
use super::system_use_reader::{SystemUse, SystemUseReader};
use super::tree::{Tree, TreeKind};

/// What a directory says about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryHead {
    /// First logical block of its data, which identifies it.
    pub(crate) block: u32,
    /// Length of its data in bytes.
    pub(crate) length: u32,
    /// Its attributes.
    pub(crate) metadata: Metadata,
    /// Whether these are attributes of Rock Ridge; some writers have them only in the parent's record of the directory.
    pub(crate) has_posix: bool,
    /// First logical block of its parent's data: of the one that shows it, if it is relocated.
    pub(crate) parent: u32,
}

impl DirectoryHead {
    /// Reads the head of the directory that begins in this block; `None` if none begins there.
    ///
    /// # Errors
    /// `EIO` if the block cannot be read.
    pub(crate) fn read(tree: &Tree, block: u32) -> Result<Option<Self>> {
        let offset = tree.offset_of(block);
        let left_in_sector = u64::from(SECTOR_SIZE) - offset % u64::from(SECTOR_SIZE);
        let left = tree.device.size().saturating_sub(offset).min(left_in_sector);
        if left == 0 {
            return Ok(None);
        }
        let mut bytes = zeros(left as usize)?;
        tree.read(offset, &mut bytes)?;
        let Ok(Some(own)) = DirectoryRecord::parse(&bytes) else { return Ok(None) };
        let Ok(Some(parent)) = DirectoryRecord::parse(&bytes[own.length..]) else { return Ok(None) };
        let is_directory = own.is_self() && own.is_directory() && own.data_block() == Ok(block) && parent.is_parent();
        let Ok(physical_parent) = parent.data_block() else { return Ok(None) };
        if !is_directory || offset + u64::from(own.data_length) > tree.device.size() {
            return Ok(None);
        }
        let own_use = system_use(tree, &own);
        let parent_use = system_use(tree, &parent);
        Ok(Some(Self {
            block,
            length: own.data_length,
            metadata: Metadata::new(&own, &own_use, &tree.options),
            has_posix: own_use.posix.is_some(),
            parent: parent_use.parent.unwrap_or_else(|| recorded_parent(tree, block, physical_parent)),
        }))
    }
}

/// Returns the parent of a directory whose parent record names this block. In the trees of Joliet and of enhanced descriptors that
/// libisofs writes, each directory is its own parent, but the path table is right.
fn recorded_parent(tree: &Tree, block: u32, physical_parent: u32) -> u32 {
    let is_own_parent = physical_parent == block && block != tree.root.block;
    let by_table = if is_own_parent { tree.parent_by_path_table(block) } else { None };
    by_table.unwrap_or(physical_parent)
}

/// Reads what the system use areas of one of these records say.
fn system_use(tree: &Tree, record: &DirectoryRecord<'_>) -> SystemUse {
    // The area of the root's own record is the one that says how many bytes all others begin with.
    let is_root = record.is_self() && record.data_block() == Ok(tree.root.block);
    let area = record.system_use;
    let entries = if is_root { sharing(area).map(|(_, entries)| entries) } else { area.get(tree.skipped..) };
    match entries {
        Some(area) if tree.kind == TreeKind::RockRidge => SystemUseReader::new(tree).read(area),
        _ => SystemUse::default(),
    }
}

/// Returns the first record of the root directory of a tree, if that is a directory: its system use area and identity.
///
/// # Errors
/// `EIO` if it cannot be read.
pub(crate) fn root_system_use(tree: &Tree) -> Result<Option<Vec<u8>>> {
    let mut bytes = [0; 255];
    let offset = tree.offset_of(tree.root.block);
    let length = tree.device.size().saturating_sub(offset).min(bytes.len() as u64) as usize;
    tree.read(offset, &mut bytes[..length])?;
    match DirectoryRecord::parse(&bytes[..length]) {
        Ok(Some(record)) if record.is_self() => Ok(Some(record.system_use.to_vec())),
        _ => Ok(None),
    }
}
