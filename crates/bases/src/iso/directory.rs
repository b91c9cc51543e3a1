//! Directories in memory: the objects that one has, by name, by record and by block.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::format::names;
use super::object::{Content, Object};

/// An object with the name by which its directory shows it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: Arc<[u8]>,
    pub(crate) object: Arc<Object>,
}

impl Named {
    /// Returns this as vnodes have it, see [`Object::for_vnode`].
    pub(crate) fn for_vnode(&self) -> Self {
        Self { name: Arc::clone(&self.name), object: self.object.for_vnode() }
    }
}

/// The objects that a directory shows, in the order of their records.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) entries: Vec<Named>,
    by_name: HashMap<Arc<[u8]>, u32>,
    /// Directories among the entries.
    by_block: HashMap<u32, u32>,
    /// Number of directories that other directories show.
    pub(crate) relocated_count: u32,
    /// Some records make no sense, so that there may be more objects.
    pub(crate) is_damaged: bool,
    /// Number of bytes of memory, roughly.
    pub(crate) memory: u64,
}

/// Bytes that an entry takes in the vector and the tables, roughly.
const ENTRY_BYTES: u64 = 112;

impl Directory {
    /// Returns the object with this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Named> {
        self.entries.get(*self.by_name.get(name)? as usize)
    }

    /// Returns the object whose first record has this offset in the directory.
    pub(crate) fn at(&self, offset: u32) -> Option<&Named> {
        let position = |named: &Named| named.object.position.offset;
        let index = self.entries.binary_search_by_key(&offset, position).ok()?;
        self.entries.get(index)
    }

    /// Returns the directory that begins in this block.
    pub(crate) fn subdirectory(&self, block: u32) -> Option<&Named> {
        self.entries.get(*self.by_block.get(&block)? as usize)
    }

    /// Returns the index of the first entry whose record has at least this offset.
    pub(crate) fn index_from(&self, offset: u64) -> usize {
        self.entries.partition_point(|named| u64::from(named.object.position.offset) < offset)
    }
}

/// A directory in the course of being read.
#[derive(Default)]
pub(crate) struct DirectoryBuilder {
    directory: Directory,
    /// Last number that an object got, by what names have in common that may collide when they get one. So no number is tried twice,
    /// whatever the names are.
    duplicates: HashMap<Box<[u8]>, u32>,
}

impl DirectoryBuilder {
    /// Adds the object whose first record follows those of all others. The first one of a name has it; others get a number. A
    /// directory that has been added before is damaged the second time.
    pub(crate) fn add(&mut self, name: Vec<u8>, mut object: Object) {
        let index = self.directory.entries.len() as u32;
        if let Content::Directory(block) = object.content {
            match self.directory.by_block.entry(block) {
                Entry::Occupied(_) => object.content = Content::Damaged,
                Entry::Vacant(vacant) => {
                    vacant.insert(index);
                }
            }
        }
        let name = self.unique(name);
        self.directory.memory += ENTRY_BYTES + name.len() as u64 + object.memory();
        self.directory.by_name.insert(Arc::clone(&name), index);
        self.directory.entries.push(Named { name, object: Arc::new(object) });
    }

    fn unique(&mut self, name: Vec<u8>) -> Arc<[u8]> {
        let name: Arc<[u8]> = name.into();
        if !self.directory.by_name.contains_key(&name) {
            return name;
        }
        let count = self.duplicates.entry(names::duplicate_stem(&name).into()).or_insert(1);
        loop {
            *count += 1;
            let numbered = names::duplicate(&name, *count);
            if !self.directory.by_name.contains_key(&numbered[..]) {
                return numbered.into();
            }
        }
    }

    /// Notes a directory that another directory shows.
    pub(crate) fn add_relocated(&mut self) {
        self.directory.relocated_count += 1;
    }

    /// Notes that a record makes no sense.
    pub(crate) fn add_damage(&mut self) {
        self.directory.is_damaged = true;
    }

    /// Returns the number of bytes of memory so far, roughly.
    pub(crate) fn memory(&self) -> u64 {
        self.directory.memory
    }

    /// Removes objects that are not to be shown.
    pub(crate) fn remove(&mut self, is_hidden: impl Fn(&Named) -> bool) {
        let entries = std::mem::take(&mut self.directory.entries);
        self.directory.by_name.clear();
        self.directory.by_block.clear();
        for named in entries.into_iter().filter(|named| !is_hidden(named)) {
            let index = self.directory.entries.len() as u32;
            self.directory.by_name.insert(Arc::clone(&named.name), index);
            if let Content::Directory(block) = named.object.content {
                self.directory.by_block.insert(block, index);
            }
            self.directory.entries.push(named);
        }
    }

    /// Returns the directory.
    pub(crate) fn finish(mut self) -> Directory {
        self.directory.entries.shrink_to_fit();
        self.directory
    }
}

#[cfg(test)]
mod tests {
    use vnode::{Device, FileKind, Timestamp};

    use super::super::object::{Metadata, RecordPosition};
    use super::*;

    fn object(offset: u32, content: Content) -> Object {
        let time = Timestamp::default();
        let metadata = Metadata {
            kind: FileKind::Regular,
            mode: 0,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: Device::default(),
            atime: time,
            mtime: time,
            ctime: time,
            btime: None,
        };
        Object { position: RecordPosition { directory: 20, offset }, metadata, content }
    }

    fn built(names: &[&str]) -> Directory {
        let mut builder = DirectoryBuilder::default();
        for (index, name) in names.iter().enumerate() {
            builder.add(name.as_bytes().to_vec(), object(index as u32 * 40 + 68, Content::Special));
        }
        builder.finish()
    }

    #[test]
    fn the_first_of_several_has_the_name() {
        let directory = built(&["a", "b", "a", "a~2", "a", "a~2"]);
        let names: Vec<_> = directory.entries.iter().map(|named| String::from_utf8_lossy(&named.name)).collect();
        assert_eq!(names, ["a", "b", "a~2", "a~2~2", "a~3", "a~2~3"]);
        for named in &directory.entries {
            assert!(Arc::ptr_eq(&directory.find(&named.name).unwrap().object, &named.object));
        }
        assert!(directory.find(b"c").is_none());
    }

    #[test]
    fn long_names_that_differ_only_at_their_ends_are_numbered_quickly() {
        const COUNT: usize = 20_000;
        let mut builder = DirectoryBuilder::default();
        for index in 0..2 * COUNT {
            let name = format!("{}{:05}", "x".repeat(250), index % COUNT);
            builder.add(name.into_bytes(), object(index as u32, Content::Special));
        }
        let directory = builder.finish();
        assert_eq!(directory.by_name.len(), 2 * COUNT, "all are different");
        assert!(directory.entries.iter().all(|named| named.name.len() == 255));
    }

    #[test]
    fn objects_are_found_by_their_records() {
        let directory = built(&["a", "b", "c"]);
        assert_eq!(&*directory.at(108).unwrap().name, b"b");
        assert!(directory.at(109).is_none());
        assert_eq!([0, 68, 69, 148, 149].map(|offset| directory.index_from(offset)), [0, 0, 1, 2, 3]);
    }

    #[test]
    fn a_directory_is_in_a_directory_once() {
        let mut builder = DirectoryBuilder::default();
        for (offset, name) in [(68, "a"), (108, "b"), (148, "c")] {
            let block = if name == "c" { 31 } else { 30 };
            builder.add(name.into(), object(offset, Content::Directory(block)));
        }
        builder.remove(|named| &*named.name == b"c");
        let directory = builder.finish();
        assert_eq!(&*directory.subdirectory(30).unwrap().name, b"a");
        assert!(matches!(directory.find(b"b").unwrap().object.content, Content::Damaged));
        assert!(directory.subdirectory(31).is_none() && directory.find(b"c").is_none());
    }
}
