//! Reads directories: from records to objects with names.

use vnode::{Errno, Result, zeros};

use super::directory::{Directory, DirectoryBuilder};
use super::directory_head::DirectoryHead;
use super::format::directory_record::DirectoryRecord;
use super::format::rock_ridge::AlternateName;
use super::format::{Malformed, SECTOR_SIZE, names};
use super::object::{self, Content, Metadata, Object, RecordPosition};
use super::sections::FileSections;
use super::system_use_reader::{SystemUse, SystemUseReader};
use super::tree::{Tree, TreeKind};

/// Bytes that are read at once: whole sectors.
const RUN_LENGTH: u64 = 64 * SECTOR_SIZE as u64;

/// Names of the directory at the root in which mkisofs puts relocated directories.
const RELOCATION_NAMES: [&[u8]; 2] = [b"rr_moved", b".rr_moved"];

/// Reads the directory with this head, if it takes no more than `limit` bytes of memory.
///
/// # Errors
/// `EIO` if a part of it cannot be read; `ENOMEM` beyond the limit.
pub(crate) fn read(tree: &Tree, head: &DirectoryHead, limit: u64) -> Result<Directory> {
    let mut reader = DirectoryReader {
        tree,
        head,
        system_use: SystemUseReader::new(tree),
        builder: DirectoryBuilder::default(),
        continued: None,
    };
    // Every block of a directory has records, so what is longer than its limit would exceed it.
    if u64::from(head.length) > limit {
        return Err(Errno::ENOMEM);
    }
    let start = tree.offset_of(head.block);
    let end = start + u64::from(head.length);
    let mut offset = start;
    while offset < end {
        let run_end = (offset / RUN_LENGTH * RUN_LENGTH + RUN_LENGTH).min(end);
        let mut run = zeros((run_end - offset) as usize)?;
        tree.read(offset, &mut run)?;
        reader.add_run(offset, &run);
        if reader.builder.memory() > limit {
            return Err(Errno::ENOMEM);
        }
        offset = run_end;
    }
    reader.finish_continued(false);
    if head.block == tree.root.block && tree.kind == TreeKind::RockRidge {
        reader.hide_relocation_directory(limit);
    }
    Ok(reader.builder.finish())
}

/// A file whose records have not all been read.
struct ContinuedFile {
    identifier: Vec<u8>,
    position: RecordPosition,
    name: Vec<u8>,
    metadata: Metadata,
    system_use: SystemUse,
    sections: FileSections,
}

impl ContinuedFile {
    /// Adds the section of one of its records.
    fn add(&mut self, record: &DirectoryRecord<'_>) {
        self.system_use.is_damaged |= self.sections.add(record).is_err();
    }
}

struct DirectoryReader<'a> {
    tree: &'a Tree,
    head: &'a DirectoryHead,
    system_use: SystemUseReader<'a>,
    builder: DirectoryBuilder,
    continued: Option<ContinuedFile>,
}

impl DirectoryReader<'_> {
    /// Adds the records of a run of bytes, which begins at this offset in the image and ends with a sector or the directory.
    fn add_run(&mut self, run_offset: u64, run: &[u8]) {
        let mut position = 0;
        while let Some(rest) = run.get(position..).filter(|rest| !rest.is_empty()) {
            let offset = run_offset + position as u64;
            let left_in_sector = (u64::from(SECTOR_SIZE) - offset % u64::from(SECTOR_SIZE)) as usize;
            let sector = rest.get(..left_in_sector).unwrap_or(rest);
            match DirectoryRecord::parse(sector) {
                Ok(Some(record)) => {
                    self.add_record((offset - self.tree.offset_of(self.head.block)) as u32, &record);
                    position += record.length;
                }
                Ok(None) => position += sector.len(),
                Err(Malformed) => {
                    self.builder.add_damage();
                    position += sector.len();
                }
            }
        }
    }

    fn add_record(&mut self, offset: u32, record: &DirectoryRecord<'_>) {
        if record.is_self() || record.is_parent() || record.is_associated() {
            return;
        }
        if let Some(continued) = &mut self.continued {
            if continued.identifier == record.identifier && !record.is_directory() {
                continued.add(record);
                if !record.is_continued() {
                    self.finish_continued(true);
                }
                return;
            }
            self.finish_continued(false);
        }
        let mut system_use = self.system_use_of(record);
        if system_use.is_relocated {
            return self.builder.add_relocated();
        }
        let metadata = Metadata::new(record, &system_use, &self.tree.options);
        let name = names::safe(self.name_of(record, std::mem::take(&mut system_use.name)));
        let position = RecordPosition { directory: self.head.block, offset };
        if record.is_directory() || system_use.child.is_some() {
            let content = self.directory_content(record, &system_use);
            return self.builder.add(name, Object { position, metadata, content });
        }
        let identifier = if record.is_continued() { record.identifier.to_vec() } else { Vec::new() };
        let sections = FileSections::default();
        let mut file = ContinuedFile { identifier, position, name, metadata, system_use, sections };
        file.add(record);
        self.continued = Some(file);
        if !record.is_continued() {
            self.finish_continued(true);
        }
    }

    /// Adds the file whose records have been read, all of them if it `is_whole`.
    fn finish_continued(&mut self, is_whole: bool) {
        let Some(file) = self.continued.take() else { return };
        let ContinuedFile { position, name, metadata, system_use, mut sections, .. } = file;
        sections.shrink();
        let content = match object::content(&metadata, system_use, sections, self.tree.options.zisofs) {
            Content::File { .. } if !is_whole => Content::Damaged,
            content => content,
        };
        self.builder.add(name, Object { position, metadata, content });
    }

    fn system_use_of(&mut self, record: &DirectoryRecord<'_>) -> SystemUse {
        match record.system_use.get(self.tree.skipped..) {
            Some(area) if self.tree.kind == TreeKind::RockRidge => self.system_use.read(area),
            _ => SystemUse::default(),
        }
    }

    fn name_of(&self, record: &DirectoryRecord<'_>, alternate: AlternateName) -> Vec<u8> {
        let (identifier, is_directory) = (record.identifier, record.is_directory());
        let mapping = self.tree.options.names;
        match self.tree.kind {
            TreeKind::RockRidge => {
                alternate.into_bytes().unwrap_or_else(|| names::from_plain(identifier, is_directory, mapping))
            }
            TreeKind::Joliet => names::from_joliet(identifier, is_directory),
            TreeKind::Enhanced => names::from_enhanced(identifier, is_directory),
            TreeKind::Plain => names::from_plain(identifier, is_directory, mapping),
        }
    }

    /// Returns the contents of a directory. What leads back to the root or to this directory is no directory in this one.
    fn directory_content(&self, record: &DirectoryRecord<'_>, system_use: &SystemUse) -> Content {
        let block = system_use.child.map_or_else(|| record.data_block(), Ok);
        match block {
            _ if system_use.is_damaged => Content::Damaged,
            Ok(_) if system_use.child.is_none() && record.data_length == 0 => Content::EmptyDirectory,
            Ok(block) if block != self.tree.root.block && block != self.head.block => Content::Directory(block),
            _ => Content::Damaged,
        }
    }

    /// Hides the directory for relocated directories, if it has no others.
    fn hide_relocation_directory(&mut self, limit: u64) {
        let tree = self.tree;
        let has_only_relocated = |block| {
            let Ok(Some(head)) = DirectoryHead::read(tree, block) else { return false };
            let is_other = head.block != tree.root.block && head.parent == tree.root.block;
            is_other
                && read(tree, &head, limit).is_ok_and(|directory| {
                    directory.relocated_count > 0 && directory.entries.is_empty() && !directory.is_damaged
                })
        };
        self.builder.remove(|named| match named.object.content {
            Content::Directory(block) => RELOCATION_NAMES.contains(&&*named.name) && has_only_relocated(block),
            _ => false,
        });
    }
}
