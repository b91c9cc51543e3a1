//! A file system in memory, written and read by the formats alone, without the tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use plyfs_bases::device::{Device, DeviceRef, MemoryDevice};
use plyfs_bases::fat::format::{
    BOOT_SECTOR_SIZE, BootSector, ENTRY_SIZE, Entry, EntryAttributes, EntrySlot, FatWidth, Geometry, Link,
    LongNameReader, ShortName, entry_length, long_name_slots, read_entry, units_to_name, write_entry,
};
use plyfs_bases::fat::tools::mkfs::{MkfsOptions, mkfs};

/// All widths.
pub(crate) const WIDTHS: [FatWidth; 3] = [FatWidth::Fat12, FatWidth::Fat16, FatWidth::Fat32];

/// A file system in memory.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) device: Arc<MemoryDevice>,
    pub(crate) geometry: Geometry,
    /// Cluster from which to look for a free one.
    next: u32,
}

impl Image {
    /// Returns an empty file system with clusters of 512 bytes.
    pub(crate) fn new(width: FatWidth) -> Self {
        let size = match width {
            FatWidth::Fat12 => 1_474_560,
            FatWidth::Fat16 => 4 << 20,
            FatWidth::Fat32 => 35 << 20,
        };
        let options = MkfsOptions {
            width: Some(width),
            sectors_per_cluster: Some(1),
            label: Some("SAMPLE".into()),
            ..MkfsOptions::default()
        };
        let device = Arc::new(MemoryDevice::new(size));
        mkfs(device.clone(), &options, &mut |_| ()).unwrap();
        Self::open(device)
    }

    /// Returns the file system on a device.
    pub(crate) fn open(device: Arc<MemoryDevice>) -> Self {
        let geometry = Geometry::new(&boot_sector(&*device, 0), device.size()).unwrap();
        Self { device, geometry, next: geometry.root_cluster().unwrap_or(1) + 1 }
    }

    /// Returns a copy that changes by itself.
    pub(crate) fn copy(&self) -> Self {
        Self { device: Arc::new((*self.device).clone()), ..self.clone() }
    }

    pub(crate) fn device(&self) -> DeviceRef {
        self.device.clone()
    }

    pub(crate) fn width(&self) -> FatWidth {
        self.geometry.width()
    }

    pub(crate) fn cluster_size(&self) -> usize {
        self.geometry.cluster_size() as usize
    }

    pub(crate) fn read<const LENGTH: usize>(&self, offset: u64) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        self.device.read_at(offset, &mut bytes).unwrap();
        bytes
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        self.device.write_at(offset, bytes).unwrap();
    }

    /// Changes the boot sector at an offset.
    pub(crate) fn edit_boot(&self, offset: u64, edit: impl FnOnce(&mut BootSector)) {
        let mut sector = self.read::<BOOT_SECTOR_SIZE>(offset);
        let mut boot = BootSector::decode(&sector);
        edit(&mut boot);
        boot.encode(&mut sector);
        self.write(offset, &sector);
    }

    /// Returns the value of an entry of the first table.
    pub(crate) fn value(&self, cluster: u32) -> u32 {
        let mut bytes = vec![0; entry_length(self.width())];
        self.device.read_at(self.geometry.entry_offset(0, cluster).unwrap(), &mut bytes).unwrap();
        read_entry(self.width(), cluster, &bytes).unwrap()
    }

    pub(crate) fn link(&self, cluster: u32) -> Link {
        Link::decode(self.width(), self.value(cluster))
    }

    /// Sets the value of an entry of one table.
    pub(crate) fn set_value_in(&self, table: u8, cluster: u32, value: u32) {
        let mut bytes = vec![0; entry_length(self.width())];
        let offset = self.geometry.entry_offset(table, cluster).unwrap();
        self.device.read_at(offset, &mut bytes).unwrap();
        write_entry(self.width(), cluster, &mut bytes, value).unwrap();
        self.write(offset, &bytes);
    }

    /// Sets the value of an entry of all tables.
    pub(crate) fn set_value(&self, cluster: u32, value: u32) {
        (0..self.geometry.fats()).for_each(|table| self.set_value_in(table, cluster, value));
    }

    pub(crate) fn set_link(&self, cluster: u32, link: Link) {
        self.set_value(cluster, link.encode(self.width()));
    }

    /// Links clusters to a chain.
    pub(crate) fn link_all(&self, clusters: &[u32]) {
        for (index, &cluster) in clusters.iter().enumerate() {
            self.set_link(cluster, clusters.get(index + 1).map_or(Link::End, |&next| Link::Next(next)));
        }
    }

    /// Returns the next free clusters.
    pub(crate) fn free(&mut self, count: usize) -> Vec<u32> {
        let clusters = self.geometry.cluster_numbers();
        let free: Vec<u32> =
            (self.next..clusters.end).filter(|&cluster| self.link(cluster) == Link::Free).take(count).collect();
        assert_eq!(free.len(), count, "the image is full");
        self.next = free.last().map_or(self.next, |last| last + 1);
        free
    }

    pub(crate) fn offset(&self, cluster: u32) -> u64 {
        self.geometry.cluster_offset(cluster).unwrap()
    }

    /// Returns a chain up to its end, or to whatever ends it.
    pub(crate) fn chain(&self, start: u32) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut next = start;
        while self.geometry.contains(next) && chain.len() < self.geometry.clusters() as usize {
            chain.push(next);
            match self.link(next) {
                Link::Next(after) => next = after,
                _ => break,
            }
        }
        chain
    }

    /// Returns the positions of the slots of a directory; 0 is the root directory.
    pub(crate) fn slots(&self, directory: u32) -> Vec<u64> {
        let positions = |offset: u64, length: u64| (offset..offset + length).step_by(ENTRY_SIZE);
        let start = if directory == 0 { self.geometry.root_cluster().unwrap_or(0) } else { directory };
        match self.geometry.root_region() {
            Some((offset, length)) if start == 0 => positions(offset, length.into()).collect(),
            _ => {
                let clusters = self.chain(start);
                clusters.iter().flat_map(|&each| positions(self.offset(each), self.cluster_size() as u64)).collect()
            }
        }
    }

    pub(crate) fn slot(&self, position: u64) -> [u8; ENTRY_SIZE] {
        self.read(position)
    }

    pub(crate) fn entry(&self, position: u64) -> Entry {
        Entry::decode(&self.slot(position))
    }

    /// Changes an entry.
    pub(crate) fn edit(&self, position: u64, edit: impl FnOnce(&mut Entry)) {
        let mut entry = self.entry(position);
        edit(&mut entry);
        self.write(position, &entry.encode());
    }

    /// Adds an entry with its long name to the first free slots of a directory. Returns their positions; the last is that of
    /// the entry.
    pub(crate) fn add_entry(&mut self, directory: u32, entry: &Entry, long_name: &str) -> Vec<u64> {
        let units: Vec<u16> = long_name.encode_utf16().collect();
        let mut contents: Vec<_> = long_name_slots(&units, &entry.name).iter().map(|slot| slot.encode()).collect();
        contents.push(entry.encode());
        let slots = self.slots(directory);
        let is_end = |position: &u64| self.slot(*position)[0] == 0;
        let Some(first) = slots.iter().position(is_end).filter(|first| first + contents.len() < slots.len()) else {
            self.grow(directory);
            return self.add_entry(directory, entry, long_name);
        };
        let positions: Vec<u64> = slots[first..first + contents.len()].to_vec();
        positions.iter().zip(&contents).for_each(|(&position, bytes)| self.write(position, bytes));
        positions
    }

    fn grow(&mut self, directory: u32) {
        let start = if directory == 0 { self.geometry.root_cluster().unwrap() } else { directory };
        let new = self.free(1)[0];
        self.write(self.offset(new), &vec![0; self.cluster_size()]);
        self.set_link(*self.chain(start).last().unwrap(), Link::Next(new));
        self.set_link(new, Link::End);
    }

    /// Adds a file with these clusters and contents. Returns the positions of its slots.
    pub(crate) fn add_file_at(
        &mut self,
        directory: u32,
        (short_name, long_name): (&[u8; 11], &str),
        clusters: &[u32],
        contents: &[u8],
    ) -> Vec<u64> {
        for (&cluster, part) in clusters.iter().zip(contents.chunks(self.cluster_size())) {
            self.write(self.offset(cluster), part);
        }
        self.link_all(clusters);
        let mut entry = Entry::new(ShortName(*short_name), EntryAttributes::ARCHIVE);
        entry.set_first_cluster(self.width(), clusters.first().copied().unwrap_or(0));
        entry.size = contents.len() as u32;
        self.add_entry(directory, &entry, long_name)
    }

    /// Adds a file.
    pub(crate) fn add_file(&mut self, directory: u32, names: (&[u8; 11], &str), contents: &[u8]) -> Vec<u64> {
        let clusters = self.free(contents.len().div_ceil(self.cluster_size()));
        self.add_file_at(directory, names, &clusters, contents)
    }

    /// Adds a directory with this first cluster. Returns the position of its entry.
    pub(crate) fn add_directory_at(&mut self, directory: u32, names: (&[u8; 11], &str), cluster: u32) -> u64 {
        self.write(self.offset(cluster), &vec![0; self.cluster_size()]);
        self.set_link(cluster, Link::End);
        for (index, (name, start)) in
            [(ShortName::DOT, cluster), (ShortName::DOT_DOT, directory)].into_iter().enumerate()
        {
            let mut entry = Entry::new(name, EntryAttributes::DIRECTORY);
            entry.set_first_cluster(self.width(), start);
            self.write(self.offset(cluster) + (index * ENTRY_SIZE) as u64, &entry.encode());
        }
        let mut entry = Entry::new(ShortName(*names.0), EntryAttributes::DIRECTORY);
        entry.set_first_cluster(self.width(), cluster);
        *self.add_entry(directory, &entry, names.1).last().unwrap()
    }

    /// Adds a directory. Returns its first cluster and the position of its entry.
    pub(crate) fn add_directory(&mut self, directory: u32, names: (&[u8; 11], &str)) -> (u32, u64) {
        let cluster = self.free(1)[0];
        (cluster, self.add_directory_at(directory, names, cluster))
    }

    /// Returns the contents of all files by their paths, and an empty value for each directory.
    pub(crate) fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        // Tools may have moved the root directory since.
        Self::open(self.device.clone()).walk()
    }

    fn walk(&self) -> BTreeMap<String, Vec<u8>> {
        let mut tree = BTreeMap::new();
        let mut open = vec![(0, String::new())];
        while let Some((directory, path)) = open.pop() {
            assert!(tree.len() < 100_000, "the tree is endless");
            let mut long_name = LongNameReader::default();
            for position in self.slots(directory) {
                match EntrySlot::decode(&self.slot(position)) {
                    EntrySlot::End => break,
                    EntrySlot::LongName(slot) => drop(long_name.push(&slot)),
                    EntrySlot::Deleted | EntrySlot::Label(_) => drop(long_name.clear()),
                    EntrySlot::Entry(entry) if entry.name.is_dots() => (),
                    EntrySlot::Entry(entry) => {
                        let name = match long_name.finish(&entry.name) {
                            Ok(Some(units)) => String::from_utf8_lossy(&units_to_name(&units)).into_owned(),
                            _ => entry.name.decode(Default::default(), entry.case),
                        };
                        let path = format!("{path}/{name}");
                        let start = entry.first_cluster(self.width());
                        if entry.is_directory() {
                            open.push((start, path.clone()));
                            tree.insert(path, Vec::new());
                        } else {
                            tree.insert(path, self.contents(start, entry.size));
                        }
                    }
                }
            }
        }
        tree
    }

    fn contents(&self, start: u32, size: u32) -> Vec<u8> {
        let mut contents = Vec::new();
        for cluster in self.chain(start) {
            let mut part = vec![0; self.cluster_size()];
            self.device.read_at(self.offset(cluster), &mut part).unwrap();
            contents.extend(part);
        }
        contents.truncate(size as usize);
        contents
    }
}

/// Returns the boot sector at an offset of a device.
pub(crate) fn boot_sector(device: &dyn Device, offset: u64) -> BootSector {
    let mut sector = [0; BOOT_SECTOR_SIZE];
    device.read_at(offset, &mut sector).unwrap();
    BootSector::decode(&sector)
}

/// Returns bytes that differ from cluster to cluster.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.u8(1..)).collect()
}
