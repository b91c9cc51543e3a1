//! Path tables: the directories of a volume in the order of their numbers, each with the number of its parent.

use super::fields::{Fields, Malformed};

/// Location of a path table with little-endian numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathTableLocation {
    /// First logical block.
    pub(crate) block: u32,
    /// Length in bytes.
    pub(crate) length: u32,
}

/// The parent of every directory of a path table, both by the first logical blocks of their data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathTable {
    /// Sorted by directory, each of them once.
    parents: Vec<(u32, u32)>,
}

impl PathTable {
    /// Decodes a path table. Records after one that makes no sense are left out.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut blocks = Vec::new();
        let mut parents = Vec::new();
        let mut rest = bytes;
        while let Ok(record) = Record::parse(rest) {
            blocks.push(record.block);
            // A parent precedes the directories that it lists; numbers count from 1.
            match usize::from(record.parent).checked_sub(1).and_then(|index| blocks.get(index)) {
                Some(&parent) => parents.push((record.block, parent)),
                None => break,
            }
            rest = rest.get(record.length..).unwrap_or_default();
        }
        // Of several records of a directory, the first one counts.
        parents.sort_by_key(|(block, _)| *block);
        parents.dedup_by_key(|(block, _)| *block);
        parents.shrink_to_fit();
        Self { parents }
    }

    /// Returns the parent of the directory that begins in this block.
    pub(crate) fn parent(&self, block: u32) -> Option<u32> {
        let index = self.parents.binary_search_by_key(&block, |(block, _)| *block).ok()?;
        self.parents.get(index).map(|(_, parent)| *parent)
    }
}

/// A record of a path table.
struct Record {
    /// First logical block of the data of the directory.
    block: u32,
    /// Number of the parent.
    parent: u16,
    /// Length of the record in bytes.
    length: usize,
}

impl Record {
    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let fields = Fields(bytes);
        let name_length = usize::from(fields.byte(0)?);
        if name_length == 0 {
            return Err(Malformed);
        }
        let attribute_blocks = u32::from(fields.byte(1)?);
        let block = fields.little32(2)?.checked_add(attribute_blocks).ok_or(Malformed)?;
        fields.bytes(8, name_length)?;
        Ok(Self { block, parent: fields.little16(6)?, length: 8 + name_length.next_multiple_of(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a path table of directories: block, parent, name.
    fn table(directories: &[(u32, u16, &str)]) -> Vec<u8> {
        let records = directories.iter().flat_map(|(block, parent, name)| {
            let mut record = vec![name.len() as u8, 0];
            record.extend(block.to_le_bytes());
            record.extend(parent.to_le_bytes());
            record.extend(name.bytes());
            record.resize(record.len().next_multiple_of(2), 0);
            record
        });
        records.collect()
    }

    #[test]
    fn every_directory_has_a_parent() {
        let table = PathTable::parse(&table(&[(19, 1, "\0"), (25, 1, "A"), (20, 1, "BB"), (30, 3, "CCC")]));
        assert_eq!([19, 25, 20, 30].map(|block| table.parent(block)), [19, 19, 19, 20].map(Some));
        assert_eq!(table.parent(21), None);
    }

    #[test]
    fn the_first_record_of_a_directory_counts() {
        let table = PathTable::parse(&table(&[(19, 1, "\0"), (20, 1, "A"), (21, 1, "B"), (20, 3, "C")]));
        assert_eq!(table.parent(20), Some(19));
    }

    #[test]
    fn records_that_make_no_sense_end_the_table() {
        let whole = table(&[(19, 1, "\0"), (20, 1, "A"), (21, 2, "B")]);
        for (offset, value) in [(10, 0), (16, 9), (16, 0)] {
            let mut bytes = whole.clone();
            bytes[offset] = value;
            let table = PathTable::parse(&bytes);
            assert_eq!([19, 20, 21].map(|block| table.parent(block)), [Some(19), None, None], "{value} at {offset}");
        }
        let table = PathTable::parse(&whole[..whole.len() - 2]);
        assert_eq!([20, 21].map(|block| table.parent(block)), [Some(19), None]);
        assert_eq!(PathTable::parse(&[]), PathTable::default());
    }
}
