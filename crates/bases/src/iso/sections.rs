//! The data of files: sections in extents, contiguous or interleaved with others, of which a file may have several.

use std::ops::Range;

use super::format::Malformed;
use super::format::directory_record::DirectoryRecord;
use super::tree::Tree;

/// Largest number of sections of a file. The image has no more than 8 TiB, and a section up to 4 GiB.
const SECTIONS_MAX: usize = 4_096;

/// A part of a file in an extent of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    /// Offset in the file of its first byte.
    start: u64,
    /// First logical block of the data.
    block: u64,
    length: u32,
    /// Number of logical blocks of each unit of an interleaved section; 0 for others.
    unit_blocks: u8,
    /// Number of logical blocks between two units.
    gap_blocks: u8,
}

/// All sections of a file, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSections {
    sections: Vec<Section>,
    size: u64,
}

impl FileSections {
    /// Adds the section that a record describes.
    ///
    /// # Errors
    /// [`Malformed`] if the file has too many: an object in use would take too much memory.
    pub(crate) fn add(&mut self, record: &DirectoryRecord<'_>) -> Result<(), Malformed> {
        // The location of what has no bytes is of no interest: some writers put anything there.
        if record.data_length == 0 {
            return Ok(());
        }
        if self.sections.len() == SECTIONS_MAX {
            return Err(Malformed);
        }
        let attribute_blocks = u64::from(record.attribute_blocks);
        let (unit, gap) = (u64::from(record.unit_blocks), u64::from(record.gap_blocks));
        // The extended attribute record has units of its own where the section is interleaved.
        let skipped = if unit == 0 { attribute_blocks } else { attribute_blocks.div_ceil(unit) * (unit + gap) };
        self.sections.push(Section {
            start: self.size,
            block: u64::from(record.block) + skipped,
            length: record.data_length,
            unit_blocks: record.unit_blocks,
            gap_blocks: record.gap_blocks,
        });
        self.size += u64::from(record.data_length);
        Ok(())
    }

    /// Releases memory that further sections would take.
    pub(crate) fn shrink(&mut self) {
        self.sections.shrink_to_fit();
    }

    /// Returns the number of bytes of all sections.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns how many bytes of memory the sections take.
    pub(crate) fn memory(&self) -> usize {
        self.sections.len() * size_of::<Section>()
    }

    /// Announces to the device that a part of the file will be read. Only of sections that are not interleaved.
    pub(crate) fn prefetch(&self, tree: &Tree, part: &Range<u64>) {
        let first = self.sections.partition_point(|section| section.end() <= part.start);
        for section in self.sections[first..].iter().take_while(|section| section.start < part.end) {
            let (start, end) = (part.start.max(section.start), part.end.min(section.end()));
            if !section.is_interleaved() && start < end {
                let offset = section.block * u64::from(tree.block_size) + (start - section.start);
                tree.device.prefetch(offset, end - start);
            }
        }
    }

    /// Fills the buffer from an offset in the file, up to the end of the file at most.
    ///
    /// # Errors
    /// `EIO`, also if a part is not in the image.
    pub(crate) fn read(&self, tree: &Tree, offset: u64, buffer: &mut [u8]) -> vnode::Result<()> {
        let first = self.sections.partition_point(|section| section.end() <= offset);
        let (mut offset, mut rest) = (offset, buffer);
        for section in &self.sections[first..] {
            let left = (section.end() - offset).min(rest.len() as u64) as usize;
            let (part, after) = rest.split_at_mut(left);
            section.read(tree, offset - section.start, part)?;
            offset += left as u64;
            rest = after;
            if rest.is_empty() {
                return Ok(());
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(vnode::Errno::EIO) }
    }
}

impl Section {
    fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }

    fn is_interleaved(&self) -> bool {
        self.unit_blocks != 0 && self.gap_blocks != 0
    }

    /// Fills the buffer from an offset in the section.
    fn read(&self, tree: &Tree, mut offset: u64, buffer: &mut [u8]) -> vnode::Result<()> {
        let block_size = u64::from(tree.block_size);
        let start = self.block * block_size;
        let unit = u64::from(self.unit_blocks) * block_size;
        if !self.is_interleaved() {
            return tree.read(start + offset, buffer);
        }
        let period = unit + u64::from(self.gap_blocks) * block_size;
        let mut rest = buffer;
        while !rest.is_empty() {
            let within = offset % unit;
            let length = (unit - within).min(rest.len() as u64) as usize;
            let (part, after) = rest.split_at_mut(length);
            tree.read(start + offset / unit * period + within, part)?;
            offset += length as u64;
            rest = after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use vnode::Errno;

    use super::super::format::directory_record::tests::record;
    use super::super::tree::TreeKind;
    use super::super::tree::tests::tree_of;
    use super::*;

    /// Returns a tree whose bytes are the numbers of their blocks.
    fn tree() -> Tree {
        tree_of((0..100 * 512).map(|at| (at / 512) as u8).collect(), TreeKind::Plain, 512)
    }

    /// Returns the sections of records: block, length, attribute blocks, unit, gap.
    fn sections(records: &[(u32, u32, u8, u8, u8)]) -> FileSections {
        let mut sections = FileSections::default();
        for &(block, length, attributes, unit, gap) in records {
            let mut bytes = record(b"F", block, length, 0);
            (bytes[1], bytes[26], bytes[27]) = (attributes, unit, gap);
            sections.add(&DirectoryRecord::parse(&bytes).unwrap().unwrap()).unwrap();
        }
        sections
    }

    /// Returns the blocks of each byte from this offset, run by run.
    fn blocks(sections: &FileSections, offset: u64, length: usize) -> Vec<(u8, usize)> {
        let mut buffer = vec![0xff; length];
        sections.read(&tree(), offset, &mut buffer).unwrap();
        buffer.chunk_by(|one, other| one == other).map(|run| (run[0], run.len())).collect()
    }

    #[test]
    fn sections_follow_each_other() {
        let file = sections(&[(10, 600, 0, 0, 0), (77, 0, 0, 0, 0), (20, 512, 2, 0, 0), (5, 10, 0, 0, 0)]);
        assert_eq!(file.size(), 1122);
        assert_eq!(blocks(&file, 0, 1122), [(10, 512), (11, 88), (22, 512), (5, 10)]);
        assert_eq!(blocks(&file, 599, 2), [(11, 1), (22, 1)]);
        assert_eq!(blocks(&file, 1112, 10), [(5, 10)]);
        assert_eq!(blocks(&file, 1122, 0), []);
    }

    #[test]
    fn interleaved_sections_have_gaps() {
        let file = sections(&[(10, 2000, 0, 2, 3)]);
        assert_eq!(blocks(&file, 0, 2000), [(10, 512), (11, 512), (15, 512), (16, 464)]);
        assert_eq!(blocks(&file, 1020, 8), [(11, 4), (15, 4)]);
        let with_attributes = sections(&[(10, 600, 1, 2, 3)]);
        assert_eq!(blocks(&with_attributes, 0, 600), [(15, 512), (16, 88)]);
        assert_eq!(blocks(&sections(&[(10, 1100, 0, 1, 0)]), 0, 1100), [(10, 512), (11, 512), (12, 76)]);
    }

    #[test]
    fn a_file_has_no_more_sections_than_an_image_can_have() {
        let mut file = sections(&[(10, 512, 0, 0, 0); SECTIONS_MAX]);
        let bytes = record(b"F", 10, 512, 0);
        let record = DirectoryRecord::parse(&bytes).unwrap().unwrap();
        assert_eq!((file.add(&record), file.size()), (Err(Malformed), SECTIONS_MAX as u64 * 512));
    }

    #[test]
    fn what_is_outside_of_the_image_is_an_error() {
        let mut buffer = [0; 600];
        let file = sections(&[(99, 600, 0, 0, 0)]);
        assert_eq!(file.read(&tree(), 0, &mut buffer), Err(Errno::EIO));
        assert_eq!(file.read(&tree(), 0, &mut buffer[..512]), Ok(()));
        assert_eq!(sections(&[(u32::MAX, 1, 255, 255, 255)]).read(&tree(), 0, &mut buffer[..1]), Err(Errno::EIO));
        assert_eq!(sections(&[]).read(&tree(), 0, &mut buffer[..1]), Err(Errno::EIO));
    }
}
