//! The tree of a file system that is sound: walks over all entries, and look-ups of paths.

use std::rc::Rc;

use super::cluster_map::ClusterMap;
use super::directory::{DirectoryStart, EntryReader, NamedEntry};
use super::error::ToolError;
use super::volume::Volume;
use crate::fat::format::{CodePage, names_equal};

/// An entry found in a walk.
pub(crate) struct TreeEntry<'a> {
    /// The directory that it is in.
    pub(crate) directory: DirectoryStart,
    /// Path of that directory, ending with a slash.
    pub(crate) directory_path: &'a str,
    /// The entry.
    pub(crate) named: &'a NamedEntry,
}

impl TreeEntry<'_> {
    /// Returns the path of the entry.
    pub(crate) fn path(&self, page: CodePage) -> String {
        format!("{}{}", self.directory_path, self.named.shown(page))
    }
}

/// Number of bytes of a path that are remembered in a walk. Deeper directories are shown without their upper ones.
const PATH_MAX: usize = 4096;

impl Volume {
    /// Calls `visit` for all files and directories, each directory before what is in it. A directory that can be reached
    /// twice is entered once; altogether no more clusters are read than exist, however chains run into each other.
    pub(crate) fn walk(
        &mut self,
        page: CodePage,
        visit: &mut dyn FnMut(&mut Self, &TreeEntry<'_>) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let root = DirectoryStart::root(&self.geometry);
        let mut entered = ClusterMap::new(&self.geometry);
        entered.insert(root.cluster());
        let mut open = vec![(root, Rc::from(""), String::new())];
        let mut clusters_left = self.geometry.clusters();
        while let Some((directory, parent_path, name)) = open.pop() {
            let directory_path: Rc<str> = shortened(format!("{parent_path}{name}/")).into();
            let first_below = open.len();
            let mut reader = EntryReader::limited(directory, &self.geometry, clusters_left);
            while let Some(named) = reader.next(self)? {
                if named.is_label || named.is_dots() {
                    continue;
                }
                visit(self, &TreeEntry { directory, directory_path: &directory_path, named: &named })?;
                let start = named.entry.first_cluster(self.geometry.width());
                if named.entry.is_directory() && entered.insert(start) {
                    open.push((DirectoryStart::Cluster(start), directory_path.clone(), named.shown(page)));
                }
            }
            clusters_left = clusters_left.saturating_sub(reader.clusters_read());
            // The first one is entered next.
            if let Some(below) = open.get_mut(first_below..) {
                below.reverse();
            }
        }
        Ok(())
    }

    /// Returns the entry of a path, whose parts are separated by slashes; `None` for the root directory.
    ///
    /// # Errors
    /// [`ToolError::NotFound`] and [`ToolError::NotADirectory`].
    pub(crate) fn find(&mut self, path: &str, page: CodePage) -> Result<Option<NamedEntry>, ToolError> {
        let mut found: Option<NamedEntry> = None;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let directory = self.directory_of(found.as_ref(), path)?;
            found = Some(self.find_in(directory, part, page)?.ok_or_else(|| ToolError::NotFound(path.to_owned()))?);
        }
        Ok(found)
    }

    /// Returns where the slots of a directory are; of the root directory if there is no entry.
    pub(crate) fn directory_of(&self, entry: Option<&NamedEntry>, path: &str) -> Result<DirectoryStart, ToolError> {
        match entry {
            None => Ok(DirectoryStart::root(&self.geometry)),
            Some(named) if named.entry.is_directory() => match named.entry.first_cluster(self.geometry.width()) {
                0 => Ok(DirectoryStart::root(&self.geometry)),
                cluster => Ok(DirectoryStart::Cluster(cluster)),
            },
            Some(_) => Err(ToolError::NotADirectory(path.to_owned())),
        }
    }

    fn find_in(
        &mut self,
        directory: DirectoryStart,
        part: &str,
        page: CodePage,
    ) -> Result<Option<NamedEntry>, ToolError> {
        let units: Vec<u16> = part.encode_utf16().collect();
        let mut reader = EntryReader::new(directory, &self.geometry);
        while let Some(named) = reader.next(self)? {
            let short = || named.entry.name.decode(page, named.entry.case).encode_utf16().collect::<Vec<_>>();
            let is_found = names_equal(&units, &named.shown_units(page)) || names_equal(&units, &short());
            if !named.is_label && is_found {
                return Ok(Some(named));
            }
        }
        Ok(None)
    }
}

/// Returns a path, without its beginning if it is too long.
fn shortened(path: String) -> String {
    let excess = path.len().saturating_sub(PATH_MAX);
    match path.char_indices().find(|&(index, _)| index >= excess) {
        Some((start, _)) if excess > 0 => format!("…{}", path.get(start..).unwrap_or_default()),
        _ => path,
    }
}
