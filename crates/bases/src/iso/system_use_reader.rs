//! What the system use areas of a directory record say, wherever they continue: within limits, and in no circle.

use vnode::{Device, Errno, zeros};

use super::format::Malformed;
use super::format::rock_ridge::{self, AlternateName, FileTimes, PosixAttributes};
use super::format::symlink::SymlinkTarget;
use super::format::system_use::{ContinuationArea, ExtensionReference, SystemUseEntries, SystemUseEntry};
use super::format::zisofs::Compression;
use super::tree::Tree;

/// Largest number of areas in which a record may continue.
const AREAS_MAX: usize = 256;
/// Largest number of bytes of these areas.
const RECORD_BYTES_MAX: u64 = 1 << 20;
/// Bytes of continuation areas in one directory after which records may have only as many as below: a directory whose records
/// all share the longest possible area takes no longer to read than other directories of its size.
const DIRECTORY_BYTES: u64 = 64 << 20;
const RECORD_BYTES_AFTERWARDS: u64 = 8 << 10;
/// Bytes of continuation areas in one directory after which no record may have one.
const DIRECTORY_BYTES_MAX: u64 = 256 << 20;

/// Bytes that are read at once.
const RUN_LENGTH: u64 = 64 << 10;
/// Number of runs that are kept: the areas of successive records are next to each other.
const RUNS_MAX: usize = 4;

/// What the system use areas of one record say.
#[derive(Debug, Default)]
pub(crate) struct SystemUse {
    pub(crate) posix: Option<PosixAttributes>,
    pub(crate) device: Option<Device>,
    pub(crate) name: AlternateName,
    pub(crate) symlink: Option<SymlinkTarget>,
    pub(crate) times: FileTimes,
    /// Location of the directory that this record stands for.
    pub(crate) child: Option<u32>,
    /// Location of the directory that a relocated one belongs to.
    pub(crate) parent: Option<u32>,
    /// The directory is shown elsewhere.
    pub(crate) is_relocated: bool,
    /// Size of a file that is stored without its holes.
    pub(crate) sparse_size: Option<u64>,
    pub(crate) compression: Option<Compression>,
    /// Identifiers of the extensions in use.
    pub(crate) extensions: Vec<Vec<u8>>,
    /// Some of it makes no sense: the object is not what it seems.
    pub(crate) is_damaged: bool,
}

/// Reads the system use areas of the records of one directory.
pub(crate) struct SystemUseReader<'a> {
    tree: &'a Tree,
    /// Runs of bytes by their offset in the device, the last used one last.
    runs: Vec<(u64, Vec<u8>)>,
    /// Number of bytes of continuation areas so far.
    bytes: u64,
}

impl<'a> SystemUseReader<'a> {
    pub(crate) fn new(tree: &'a Tree) -> Self {
        Self { tree, runs: Vec::new(), bytes: 0 }
    }

    /// Reads all areas of a record, of which this is the first.
    pub(crate) fn read(&mut self, first: &[u8]) -> SystemUse {
        let mut found = SystemUse::default();
        let mut next = found.add_area(first);
        let mut areas = Vec::new();
        let mut bytes = 0;
        while let Some(area) = next {
            bytes += u64::from(area.length);
            self.bytes += u64::from(area.length);
            let limit = match self.bytes {
                bytes if bytes <= DIRECTORY_BYTES => RECORD_BYTES_MAX,
                bytes if bytes <= DIRECTORY_BYTES_MAX => RECORD_BYTES_AFTERWARDS,
                _ => 0,
            };
            if areas.contains(&area) || areas.len() == AREAS_MAX || bytes > limit {
                found.is_damaged = true;
                break;
            }
            areas.push(area);
            let Ok(contents) = self.contents(area) else {
                found.is_damaged = true;
                break;
            };
            next = found.add_area(&contents);
        }
        found
    }

    /// Returns the bytes of an area.
    fn contents(&mut self, area: ContinuationArea) -> vnode::Result<Vec<u8>> {
        let mut offset = self.tree.offset_of(area.block) + u64::from(area.offset);
        let mut contents = Vec::new();
        let length = area.length as usize;
        while contents.len() < length {
            let start = offset / RUN_LENGTH * RUN_LENGTH;
            let run = self.run(start)?;
            let part = run.get((offset - start) as usize..).unwrap_or_default();
            let part = &part[..part.len().min(length - contents.len())];
            if part.is_empty() {
                return Err(Errno::EIO);
            }
            contents.extend_from_slice(part);
            offset += part.len() as u64;
        }
        Ok(contents)
    }

    /// Returns the run that begins at this offset; it ends early with the image.
    fn run(&mut self, start: u64) -> vnode::Result<&[u8]> {
        match self.runs.iter().position(|(offset, _)| *offset == start) {
            Some(index) => self.runs[index..].rotate_left(1),
            None => {
                let length = self.tree.device.size().saturating_sub(start).min(RUN_LENGTH);
                let mut run = zeros(length as usize)?;
                self.tree.read(start, &mut run)?;
                if self.runs.len() == RUNS_MAX {
                    self.runs.remove(0);
                }
                self.runs.push((start, run));
            }
        }
        Ok(self.runs.last().map_or(&[], |(_, run)| run))
    }
}

impl SystemUse {
    /// Adds what an area says; returns the area in which it continues.
    fn add_area(&mut self, area: &[u8]) -> Option<ContinuationArea> {
        let mut next = None;
        for entry in SystemUseEntries(area) {
            if entry.and_then(|entry| self.add(&entry, &mut next)).is_err() {
                self.is_damaged = true;
            }
        }
        next
    }

    fn add(&mut self, entry: &SystemUseEntry<'_>, next: &mut Option<ContinuationArea>) -> Result<(), Malformed> {
        let data = entry.data;
        match &entry.signature {
            b"CE" => *next = Some(ContinuationArea::parse(data)?),
            b"ER" => self.extensions.push(ExtensionReference::parse(data)?.identifier),
            b"PX" => self.posix = Some(PosixAttributes::parse(data)?),
            b"PN" => self.device = Some(rock_ridge::device_number(data)?),
            b"NM" => self.name.add(data)?,
            b"SL" => self.add_symlink(data),
            b"TF" => self.times.add(data)?,
            b"CL" => self.child = Some(rock_ridge::location(data)?),
            b"PL" => self.parent = Some(rock_ridge::location(data)?),
            b"RE" => self.is_relocated = true,
            b"SF" => self.sparse_size = Some(rock_ridge::sparse_size(data)?),
            b"ZF" | b"Z2" => self.compression = Some(Compression::parse(entry.version, data)?),
            // Padding, the beginning, the selection of extensions, and those of others.
            _ => {}
        }
        Ok(())
    }

    /// Adds a part of a symlink's target. If it makes no sense, only the target is unknown.
    fn add_symlink(&mut self, data: &[u8]) {
        let target = self.symlink.get_or_insert_default();
        if target.add(data).is_err() {
            target.spoil();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::TreeKind;
    use super::super::tree::tests::tree_of;
    use super::*;

    fn tree(bytes: Vec<u8>) -> Tree {
        tree_of(bytes, TreeKind::RockRidge, 2048)
    }

    fn continuation(block: u32, offset: u32, length: u32) -> Vec<u8> {
        let numbers = [block, offset, length];
        let data = numbers.iter().flat_map(|number| [number.to_le_bytes(), number.to_be_bytes()].concat());
        b"CE\x1c\x01".iter().copied().chain(data).collect()
    }

    #[test]
    fn areas_are_followed_across_runs() {
        let mut bytes = vec![0; 200 * 2048];
        let at = 65_536 - 3;
        let second = [continuation(100, 10, 9), b"NM\x07\x01\x01bc".to_vec()].concat();
        bytes[at..at + second.len()].copy_from_slice(&second);
        bytes[204_810..204_819].copy_from_slice(b"NM\x09\x01\x00defg");
        let tree = tree(bytes);
        let first = [b"NM\x06\x01\x01a".to_vec(), continuation(31, 2045, second.len() as u32)].concat();
        let found = SystemUseReader::new(&tree).read(&first);
        assert_eq!((found.name.into_bytes().unwrap(), found.is_damaged), (b"abcdefg".to_vec(), false));
    }

    #[test]
    fn circles_and_areas_outside_of_the_image_are_damage() {
        let mut bytes = vec![0; 4 * 2048];
        bytes[2048..2076].copy_from_slice(&continuation(1, 0, 28));
        let tree = tree(bytes);
        for (block, offset, length) in
            [(1, 0, 28), (4, 0, 1), (3, 2048, 1), (u32::MAX, u32::MAX, 1), (3, 2000, 100), (0, 0, u32::MAX)]
        {
            let first = [b"NM\x06\x01\x00a".to_vec(), continuation(block, offset, length)].concat();
            let found = SystemUseReader::new(&tree).read(&first);
            assert!(found.is_damaged, "{block} {offset} {length}");
            assert_eq!(found.name.into_bytes().unwrap(), b"a");
        }
    }

    #[test]
    fn long_chains_are_cut_off() {
        let mut bytes = vec![0; 64 * 2048];
        for at in (0..64 * 2048 - 28).step_by(28) {
            bytes[at..at + 28].copy_from_slice(&continuation(0, at as u32 + 28, 28));
        }
        let tree = tree(bytes);
        let mut reader = SystemUseReader::new(&tree);
        assert!(reader.read(&continuation(0, 0, 28)).is_damaged);
        assert_eq!(reader.bytes, (AREAS_MAX as u64 + 1) * 28);
    }

    #[test]
    fn what_a_directory_may_have_is_used_up() {
        let mut bytes = vec![0; 1024 * 2048];
        bytes[..4].copy_from_slice(b"ST\x04\x01");
        let tree = tree(bytes);
        let mut reader = SystemUseReader::new(&tree);
        let is_damaged = |reader: &mut SystemUseReader<'_>, length| reader.read(&continuation(0, 0, length)).is_damaged;
        assert!(!is_damaged(&mut reader, 1 << 20) && is_damaged(&mut reader, (1 << 20) + 1));
        reader.bytes = DIRECTORY_BYTES;
        assert!(is_damaged(&mut reader, (8 << 10) + 1) && !is_damaged(&mut reader, 8 << 10));
        reader.bytes = DIRECTORY_BYTES_MAX;
        assert!(is_damaged(&mut reader, 1));
    }

    #[test]
    fn a_target_that_makes_no_sense_is_unknown() {
        let tree = tree(vec![]);
        let found = SystemUseReader::new(&tree).read(b"SL\x08\x01\x00\x10\x00x");
        assert!(!found.is_damaged && found.symlink.unwrap().finish().is_err());
    }
}
