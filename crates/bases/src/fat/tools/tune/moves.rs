//! Moves of clusters, each of which leaves a sound file system behind whenever it is interrupted: data and links of the new
//! clusters are stable before anything refers to them, and that is stable before the old ones are free.

use std::collections::HashMap;

use super::owners::{Before, ChainReference, Owners};
use crate::fat::format::Link;
use crate::fat::tools::error::ToolError;
use crate::fat::tools::volume::Volume;

/// Number of bytes that are moved before anything is flushed.
const BATCH: u32 = 4 * 1024 * 1024;

/// A file system whose clusters are moved.
pub(crate) struct Mover<'a> {
    /// The file system.
    pub(crate) volume: &'a mut Volume,
    /// The owners of its clusters.
    pub(crate) owners: Owners,
    /// Number of clusters moved so far.
    pub(crate) moved: u64,
}

impl Mover<'_> {
    /// Moves the chain of a head to other clusters, whose present owners move out of the way.
    ///
    /// # Errors
    /// [`ToolError::NoSpace`] if there is no free cluster.
    pub(crate) fn move_chain(
        &mut self,
        head: usize,
        targets: &[u32],
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ToolError> {
        let start = self.owners.heads.get(head).map(|head| head.start).ok_or(ToolError::Inconsistent)?;
        let mut chain = self.volume.sound_chain(start)?;
        if chain.len() != targets.len() {
            return Err(ToolError::Inconsistent);
        }
        let batch_max = (BATCH / self.volume.geometry.cluster_size()).max(1) as usize;
        let mut index = 0;
        while let Some(first) = (index..chain.len()).find(|&each| chain.get(each) != targets.get(each)) {
            let batch = self.clear_targets(&mut chain, targets, first, batch_max)?;
            let pairs = chain.iter().zip(targets).skip(first).take(batch);
            let moves: Vec<(u32, u32)> = pairs.map(|(&from, &to)| (from, to)).filter(|(from, to)| from != to).collect();
            self.relocate(&moves)?;
            chain.iter_mut().zip(targets).skip(first).take(batch).for_each(|(each, &target)| *each = target);
            index = first + batch;
            progress(moves.len() as u64);
        }
        Ok(())
    }

    /// Moves the owners of the next targets of a chain away. Returns how many are free, or in place, then: at least one.
    fn clear_targets(
        &mut self,
        chain: &mut [u32],
        targets: &[u32],
        first: usize,
        batch_max: usize,
    ) -> Result<usize, ToolError> {
        let mut rooms = self.rooms(targets, first, batch_max);
        let mut moves = HashMap::new();
        // The single room that is taken when there is no other is a target, which must not be counted then.
        let (mut batch, mut taken) = (0, None);
        for (index, &target) in targets.iter().enumerate().skip(first).take(batch_max) {
            let is_in_place = chain.get(index) == Some(&target);
            if taken == Some(target) {
                break;
            }
            if !is_in_place && !self.owners.free.contains(target) {
                let counted = || targets.iter().skip(first).take(batch);
                let Some(room) = rooms.pop().filter(|room| !counted().any(|target| target == room)) else { break };
                moves.insert(target, room);
                taken = Some(room);
            }
            batch += 1;
        }
        if batch == 0 {
            return Err(ToolError::NoSpace);
        }
        let pairs: Vec<(u32, u32)> = moves.iter().map(|(&from, &to)| (from, to)).collect();
        self.relocate(&pairs)?;
        for cluster in chain.iter_mut() {
            if let Some(&room) = moves.get(cluster) {
                *cluster = room;
            }
        }
        Ok(batch)
    }

    /// Returns free clusters, best last: those after all targets, then others, but none of the next targets unless there is
    /// no other.
    fn rooms(&self, targets: &[u32], first: usize, batch_max: usize) -> Vec<u32> {
        let next: std::collections::HashSet<u32> = targets.iter().skip(first).take(batch_max).copied().collect();
        let after = targets.iter().max().map_or(0, |last| last + 1);
        let count = next.len();
        let behind = self.owners.free.iter_from(after).filter(|cluster| !next.contains(cluster)).take(count);
        let mut rooms: Vec<u32> = behind.collect();
        if rooms.len() < count {
            let missing = count - rooms.len();
            let before = self.owners.free.iter().take_while(|&cluster| cluster < after);
            rooms.extend(before.filter(|cluster| !next.contains(cluster)).take(missing));
        }
        if rooms.is_empty() {
            // Only targets are free: the last of them can be the room of the first.
            let last = targets.iter().skip(first).rev().copied().find(|&target| self.owners.free.contains(target));
            rooms.extend(last);
        }
        rooms.reverse();
        rooms
    }

    /// Moves clusters to free ones, all of them or none if this is interrupted before the end.
    fn relocate(&mut self, pairs: &[(u32, u32)]) -> Result<(), ToolError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let moves: HashMap<u32, u32> = pairs.iter().copied().collect();
        let moved = |cluster: u32| moves.get(&cluster).copied().unwrap_or(cluster);
        let mut links = Vec::with_capacity(pairs.len());
        for &(from, to) in pairs {
            self.copy(from, to)?;
            let link = match self.volume.table.get(from)? {
                Link::Next(next) => Link::Next(moved(next)),
                link => link,
            };
            links.push((to, link));
        }
        for &(cluster, link) in &links {
            self.volume.table.set(cluster, link)?;
        }
        self.volume.flush()?;
        let mut directories = Vec::new();
        for &(from, to) in pairs {
            if self.refer(from, to, &moves)? {
                directories.push((from, to));
            }
        }
        // Their entries refer to the new clusters of the directories below by then.
        for (from, to) in directories {
            self.volume.point_children(to, from)?;
        }
        self.volume.flush()?;
        for &(from, _) in pairs {
            self.volume.table.set(from, Link::Free)?;
        }
        self.owners.record_moves(&moves, &links);
        self.moved += pairs.len() as u64;
        Ok(())
    }

    /// Copies a cluster; the entry of a directory for itself is that of the new one.
    fn copy(&mut self, from: u32, to: u32) -> Result<(), ToolError> {
        let mut contents = vec![0; self.volume.geometry.cluster_size() as usize];
        self.volume.disk.read(self.volume.offset(from)?, &mut contents)?;
        if self.owners.is_directory(from) {
            if matches!(self.owners.before(from), Some(Before::Head(_))) {
                self.volume.point_dot(&mut contents, to);
            }
            self.owners.move_entries(self.volume, &contents, from, to);
        }
        self.volume.disk.write(self.volume.offset(to)?, &contents)
    }

    /// Makes what refers to a cluster refer to its new one, unless it has moved, too, and does already. Returns whether the
    /// cluster is the first one of a directory, to which directories below refer.
    fn refer(&mut self, from: u32, to: u32, moves: &HashMap<u32, u32>) -> Result<bool, ToolError> {
        let number = match self.owners.before(from).ok_or(ToolError::Inconsistent)? {
            Before::Cluster(before) if moves.contains_key(&before) => return Ok(false),
            Before::Cluster(before) => return self.volume.table.set(before, Link::Next(to)).map(|()| false),
            Before::Head(number) => number,
        };
        let head = *self.owners.heads.get(number).ok_or(ToolError::Inconsistent)?;
        match head.reference {
            ChainReference::BootSector => {
                self.volume.change_boot_sector(&|boot| {
                    if let Some(fields) = &mut boot.extended {
                        fields.root_cluster = to;
                    }
                })?;
                return Ok(false);
            }
            ChainReference::FixedRoot(position) => self.volume.set_start(position, to)?,
            ChainReference::Directory { cluster, offset } => {
                self.volume.set_start(self.volume.offset(cluster)? + u64::from(offset), to)?;
            }
        }
        Ok(head.is_directory)
    }
}
