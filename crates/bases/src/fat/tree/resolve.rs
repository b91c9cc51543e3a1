//! Resolution of handles: from a number and a place back to the object, also after a restart.

use std::collections::HashSet;
use std::sync::Arc;

use vnode::{Errno, FileKind, Handle, InodeNumber, Result};

use crate::fat::format::{DosDateTime, ENTRY_SIZE, Entry, ShortName};

use super::handles::HandleParts;
use super::inode::Inode;
use super::metadata::first_cluster;
use super::numbers::ROOT_NUMBER;

/// Maximum depth of directories that is followed upwards.
const DEPTH_MAX: usize = 4096;

impl Inode {
    /// Returns the object of a handle. Called on the root directory.
    ///
    /// # Errors
    /// `ESTALE` if it no longer exists, or the handle is not of this volume; `EIO`, `ENOMEM`.
    pub(crate) fn resolve(&self, handle: &Handle) -> Result<Arc<Inode>> {
        let parts = HandleParts::decode(handle).filter(|parts| parts.serial == self.volume.serial);
        let parts = parts.ok_or(Errno::ESTALE)?;
        if parts.number == ROOT_NUMBER {
            return Ok(self.to_arc());
        }
        if let Some(live) = self.volume.find_live(parts.number)
            && live.read().metadata.created == parts.created
        {
            return Ok(live);
        }
        if let Some(directory) = self.directory_of_cluster(parts.place.directory)?
            && let Some(found) = directory.child_in_place(&parts)?
        {
            return Ok(found);
        }
        self.search(&parts)
    }

    /// Returns the object in the place of a handle, if it is the handle's.
    fn child_in_place(&self, parts: &HandleParts) -> Result<Option<Arc<Inode>>> {
        let state = self.read_loaded()?;
        let slot = parts.place.slot;
        let contents = state.contents()?;
        let Some(entry) = contents.entry(slot).filter(|_| !self.is_own_file(contents, slot)) else { return Ok(None) };
        if self.link_number(&entry).is_some() {
            let object = self.child(&state, slot)?;
            let (cluster, created) = object.identity();
            return Ok(Some(object).filter(|_| parts.is_of_place(cluster, created)));
        }
        let cluster = first_cluster(&entry, self.volume.storage.geometry().width());
        if parts.is_of_place(cluster, self.volume.stamp(&entry)) {
            self.child(&state, slot).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns first cluster, 0 without data, and time of creation of this object, which is no directory.
    fn identity(&self) -> (u32, DosDateTime) {
        let state = self.read();
        let cluster = if state.size == 0 { 0 } else { self.lock_chain().first() };
        (cluster, state.metadata.created)
    }

    /// Returns the directory with a first cluster, which is found by its entry `..`. Called on the root directory.
    fn directory_of_cluster(&self, cluster: u32) -> Result<Option<Arc<Inode>>> {
        let mut clusters = vec![cluster];
        while let Some(&cluster) = clusters.last().filter(|&&cluster| !self.is_root_cluster(cluster)) {
            if !self.volume.storage.geometry().contains(cluster) || clusters.len() > DEPTH_MAX {
                return Ok(None);
            }
            let Some(parent) = self.parent_cluster(cluster)? else { return Ok(None) };
            clusters.push(parent);
        }
        let mut directory = self.to_arc();
        for cluster in clusters.into_iter().rev().skip(1) {
            let Some(next) = directory.subdirectory(cluster)? else { return Ok(None) };
            directory = next;
        }
        Ok(Some(directory))
    }

    fn is_root_cluster(&self, cluster: u32) -> bool {
        cluster == 0 || Some(cluster) == self.volume.storage.geometry().root_cluster()
    }

    /// Returns the first cluster of the parent of the directory that begins with a cluster; `None` if it is no directory.
    fn parent_cluster(&self, cluster: u32) -> Result<Option<u32>> {
        let geometry = self.volume.storage.geometry();
        let mut bytes = [0; 2 * ENTRY_SIZE];
        self.volume.storage.read(geometry.cluster_offset(cluster).ok_or(Errno::EIO)?, &mut bytes)?;
        let [dot, dot_dot] = bytes.as_chunks().0 else { return Ok(None) };
        let (dot, dot_dot) = (Entry::decode(dot), Entry::decode(dot_dot));
        let is_directory = dot.name == ShortName::DOT
            && dot_dot.name == ShortName::DOT_DOT
            && dot.first_cluster(geometry.width()) == cluster;
        Ok(is_directory.then(|| dot_dot.first_cluster(geometry.width())))
    }

    /// Returns the directory in this one that begins with a cluster.
    fn subdirectory(&self, cluster: u32) -> Result<Option<Arc<Inode>>> {
        let width = self.volume.storage.geometry().width();
        let state = self.read_loaded()?;
        let contents = state.contents()?;
        let is_it = |entry: &Entry| entry.is_directory() && entry.first_cluster(width) == cluster;
        let slot = contents.slots_from(0).find(|&slot| contents.entry(slot).is_some_and(|entry| is_it(&entry)));
        slot.map(|slot| self.child(&state, slot)).transpose()
    }

    /// Looks for an object that was moved, in all directories below this one.
    fn search(&self, parts: &HandleParts) -> Result<Arc<Inode>> {
        let mut visited: HashSet<InodeNumber> = HashSet::new();
        let mut open: Vec<Arc<Inode>> = self.volume.store().into_iter().chain([self.to_arc()]).collect();
        while let Some(directory) = open.pop() {
            if !visited.insert(directory.number) {
                continue;
            }
            if let Some(found) = directory.search_here(parts, &mut open)? {
                return Ok(found);
            }
            self.volume.forget_contents();
        }
        Err(Errno::ESTALE)
    }

    /// Looks for an object in this directory, and adds the directories in it to those that are open.
    fn search_here(&self, parts: &HandleParts, open: &mut Vec<Arc<Inode>>) -> Result<Option<Arc<Inode>>> {
        let state = match self.read_loaded() {
            Err(Errno::EIO) => return Ok(None),
            result => result?,
        };
        let contents = state.contents()?;
        for slot in contents.slots_from(0).filter(|&slot| !self.is_own_file(contents, slot)) {
            let Some(entry) = contents.entry(slot).filter(|entry| self.link_number(entry).is_none()) else { continue };
            if parts.is_of(self.number_of(slot, &entry), self.volume.stamp(&entry)) {
                return self.child(&state, slot).map(Some);
            }
            if entry.is_directory() {
                // A damaged entry leads nowhere.
                open.extend(self.child(&state, slot).ok().filter(|child| child.kind == FileKind::Directory));
            }
        }
        Ok(None)
    }
}
