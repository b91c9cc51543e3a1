//! Open files.

use std::any::Any;
use std::sync::Arc;

use vnode::profile::Part;
use vnode::{Attributes, Caller, Errno, OpenFile, Result};

use super::KIND;
use super::decompression::CompressedFile;
use super::directory::Named;
use super::node::IsoNode;
use super::object::{Content, Encoding};
use super::read_ahead::ReadAhead;
use super::volume::Volume;

/// An open regular file.
pub(crate) struct IsoFile {
    volume: Arc<Volume>,
    source: FileSource,
    attributes: Attributes,
    read_ahead: ReadAhead,
}

/// Where the data of a file come from.
enum FileSource {
    /// What a directory says.
    Object(Named),
    /// Contiguous bytes at this offset in the image.
    Range(u64),
}

impl IsoFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for data that are stored in a way that is not supported; `EIO` for compressed data without a valid header.
    pub(crate) fn open(node: &IsoNode) -> Result<Self> {
        let source = match node {
            IsoNode::Object { named, .. } => FileSource::Object(named.clone()),
            _ => FileSource::Range(node.boot_file().ok_or(Errno::EIO)?.offset),
        };
        let file = Self {
            volume: Arc::clone(node.volume()),
            source,
            attributes: node.attributes(),
            read_ahead: ReadAhead::default(),
        };
        if let FileSource::Object(named) = &file.source
            && let Content::File { encoding, .. } = &named.object.content
        {
            match encoding {
                Encoding::Plain => {}
                Encoding::Zisofs(_) => file.compressed().ok_or(Errno::EIO)?.check()?,
                Encoding::Unsupported { .. } => return Err(Errno::EOPNOTSUPP),
            }
        }
        Ok(file)
    }

    /// Announces to the device what will be read after this read. Of compressed files it is not known where that is.
    fn announce(&self, offset: u64, length: usize) {
        let FileSource::Object(named) = &self.source else { return };
        if let Content::File { sections, encoding: Encoding::Plain } = &named.object.content
            && let Some(part) = self.read_ahead.note(offset, length as u64, self.attributes.size)
        {
            sections.prefetch(&self.volume.tree, &part);
        }
    }

    /// Returns the file as a compressed one.
    fn compressed(&self) -> Option<CompressedFile<'_>> {
        let FileSource::Object(named) = &self.source else { return None };
        let Content::File { sections, encoding: Encoding::Zisofs(compression) } = &named.object.content else {
            return None;
        };
        let position = named.object.position;
        Some(CompressedFile { volume: &self.volume, position, sections, compression: *compression })
    }
}

impl Part for IsoFile {
    const PART: &'static str = KIND;
}

impl OpenFile for IsoFile {
    fn read_at(&self, _caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let left = self.attributes.size.saturating_sub(offset);
        let length = left.min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..length];
        if buffer.is_empty() {
            return Ok(0);
        }
        self.announce(offset, length);
        match &self.source {
            FileSource::Range(start) => self.volume.tree.read(start + offset, buffer)?,
            FileSource::Object(named) => match (&named.object.content, self.compressed()) {
                (_, Some(compressed)) => compressed.read(offset, buffer)?,
                (Content::File { sections, .. }, None) => sections.read(&self.volume.tree, offset, buffer)?,
                _ => return Err(Errno::EIO),
            },
        }
        Ok(length)
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        Ok(self.attributes)
    }

    fn closing_tells(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
