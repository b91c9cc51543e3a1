//! Fields of images that tests change.

/// The bytes of an image.
#[derive(Clone)]
pub(crate) struct ImageBytes(pub Vec<u8>);

const SECTOR: usize = 2048;

impl ImageBytes {
    /// Returns the first block of the primary root directory.
    pub(crate) fn root(&self) -> usize {
        self.number(16 * SECTOR + 156 + 2)
    }

    /// Returns the little-endian number of 32 bits at a position.
    pub(crate) fn number(&self, position: usize) -> usize {
        u32::from_le_bytes(self.0[position..position + 4].try_into().unwrap()) as usize
    }

    /// Sets a number of 32 bits in both byte orders.
    pub(crate) fn set(&mut self, position: usize, number: usize) {
        self.0[position..position + 4].copy_from_slice(&(number as u32).to_le_bytes());
        self.0[position + 4..position + 8].copy_from_slice(&(number as u32).to_be_bytes());
    }

    /// Returns the positions of the records of the directory that begins in a block.
    pub(crate) fn records(&self, block: usize) -> Vec<usize> {
        let start = block * SECTOR;
        let end = start + self.number(start + 10);
        let (mut position, mut found) = (start, Vec::new());
        while position < end {
            match self.0[position] {
                0 => position = (position / SECTOR + 1) * SECTOR,
                length => {
                    found.push(position);
                    position += usize::from(length);
                }
            }
        }
        found
    }

    /// Returns the position of the record with this identifier in a directory.
    pub(crate) fn record(&self, block: usize, identifier: &str) -> usize {
        let records = self.records(block);
        *records.iter().find(|position| self.identifier(**position) == identifier.as_bytes()).unwrap()
    }

    /// Returns the first block of the directory at a path of identifiers.
    pub(crate) fn directory(&self, path: &[&str]) -> usize {
        path.iter().fold(self.root(), |block, name| self.number(self.record(block, name) + 2))
    }

    /// Returns the identifier of the record at a position.
    pub(crate) fn identifier(&self, position: usize) -> &[u8] {
        &self.0[position + 33..position + 33 + usize::from(self.0[position + 32])]
    }

    /// Returns the position of the system use entry with this signature in the record at a position.
    pub(crate) fn entry(&self, record: usize, signature: &[u8; 2]) -> usize {
        let end = record + usize::from(self.0[record]);
        let length = usize::from(self.0[record + 32]);
        let mut position = record + 33 + length + usize::from(length % 2 == 0);
        while self.0[position..position + 2] != *signature {
            position += usize::from(self.0[position + 2]);
            assert!(position < end, "there is no such entry");
        }
        position
    }
}
