//! Open directories: entries by the offsets of their records.

use std::ops::ControlFlow;
use std::sync::Arc;

use vnode::profile::Part;
use vnode::{Caller, Cookie, DirectoryEntry, Errno, FileKind, InodeNumber, Name, OpenDirectory, Result};

use super::KIND;
use super::boot_directory;
use super::directory::{Directory, Named};
use super::directory_node::{DirectoryNode, inode_number};
use super::node::IsoNode;
use super::object::Content;
use super::volume::Volume;

/// Cookies of the boot directory in the root, and of boot files in it: behind those of all records.
const BOOT_COOKIES: u64 = 1 << 40;

/// A directory opened for reading.
pub(crate) struct IsoDirectory {
    volume: Arc<Volume>,
    listing: Listing,
}

/// What a directory lists.
enum Listing {
    /// What its records say; and the boot directory, in the root directory. The objects are not kept: those of many open directories
    /// would take more memory than the options allow.
    Records { node: Arc<DirectoryNode>, has_boot: bool },
    /// The boot files.
    BootFiles,
    /// Nothing.
    Empty,
}

type Sink<'a> = dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()> + 'a;

impl IsoDirectory {
    /// Opens a directory.
    ///
    /// # Errors
    /// As [`Volume::directory`].
    pub(crate) fn open(node: &IsoNode) -> Result<Self> {
        let has_boot = |node: &DirectoryNode| node.parent().is_none() && node.volume.boot.is_some();
        let listing = match node {
            IsoNode::Directory(node) => {
                node.directory()?;
                Listing::Records { node: Arc::clone(node), has_boot: has_boot(node) }
            }
            IsoNode::BootDirectory { .. } => Listing::BootFiles,
            IsoNode::Object { .. } | IsoNode::BootFile { .. } => Listing::Empty,
        };
        Ok(Self { volume: Arc::clone(node.volume()), listing })
    }

    /// Passes the entries of records after the cookie; returns how many, and whether the sink broke.
    fn read_records(&self, directory: &Directory, cookie: Cookie, sink: &mut Sink<'_>) -> Result<(usize, bool)> {
        let after = cookie.get().saturating_add(1).saturating_sub(Cookie::FIRST.get());
        let rest = directory.entries.get(directory.index_from(after)..).unwrap_or_default();
        for (count, named) in rest.iter().enumerate() {
            let entry = DirectoryEntry {
                name: Name::new(&named.name)?,
                ino: inode_number(&self.volume, named),
                kind: kind(named),
                cookie: Cookie::new(u64::from(named.object.position.offset) + Cookie::FIRST.get()),
            };
            if sink(entry).is_break() {
                return Ok((count, true));
            }
        }
        Ok((rest.len(), false))
    }

    /// Passes an entry that is no record, if it is after the cookie; returns whether the sink broke.
    fn push(
        name: &[u8],
        number: InodeNumber,
        kind: FileKind,
        cookie: [Cookie; 2],
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let [after, own] = cookie;
        let entry = DirectoryEntry { name: Name::new(name)?, ino: number, kind: Some(kind), cookie: own };
        Ok(own > after && sink(entry).is_break())
    }
}

/// Returns the kind of an object, as far as it is known without a look-up.
fn kind(named: &Named) -> Option<FileKind> {
    match named.object.content {
        Content::Damaged => None,
        _ => Some(named.object.metadata.kind),
    }
}

impl Part for IsoDirectory {
    const PART: &'static str = KIND;
}

impl OpenDirectory for IsoDirectory {
    /// If some records make no sense, that is an error after all entries: of a read that would pass none of them.
    fn read(
        &self,
        _caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let boot_cookie = |index: usize| Cookie::new(BOOT_COOKIES + index as u64);
        match &self.listing {
            Listing::Empty => {}
            Listing::BootFiles => {
                let files = self.volume.boot.iter().flat_map(|boot| &boot.files);
                for (index, file) in files.enumerate() {
                    let number = boot_directory::inode_number(Some(index));
                    let cookies = [cookie, boot_cookie(index)];
                    if Self::push(file.name.as_bytes(), number, FileKind::Regular, cookies, sink)? {
                        return Ok(());
                    }
                }
            }
            Listing::Records { node, has_boot } => {
                let directory = node.directory()?;
                let (mut count, broke) = self.read_records(&directory, cookie, sink)?;
                if broke {
                    return Ok(());
                }
                if let Some(boot) = self.volume.boot.as_ref().filter(|_| *has_boot && cookie < boot_cookie(0)) {
                    let number = boot_directory::inode_number(None);
                    if Self::push(&boot.name, number, FileKind::Directory, [cookie, boot_cookie(0)], sink)? {
                        return Ok(());
                    }
                    count += 1;
                }
                if directory.is_damaged && count == 0 {
                    return Err(Errno::EIO);
                }
            }
        }
        Ok(())
    }
}
