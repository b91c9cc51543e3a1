//! Merging layers: a layer's changes are applied to the layer below it, which then takes its place (the paper's snapmerge).
//!
//! Objects are renamed, so nothing is copied, and the users' view stays the same at each step except where a directory was
//! moved. An interrupted merge is simply run again: what was already moved is no longer there to be moved.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use vnode::progress::object_done;
use vnode::{Caller, Entry, Errno, FileKind, InodeNumber, Name, NameBuf, RenameMode, Result, VnodeRef};

use crate::union::branch::branches::{BranchMember, BranchSlot};
use crate::union::branch::entry_purpose::EntryPurpose;
use crate::union::branch::identity::{Identity, UNCOUNTED_NAMES};
use crate::union::branch::objects;
use crate::union::branch::state_directory;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout::{self, EntryMeaning};
use crate::union::copy_up::{copy_attributes, replace_attributes};
use crate::union::lookup::search::LookupResult;
use crate::union::lookup::shared_copies;
use crate::union::state::Union;
use crate::union::state::instance::Instance;

/// A merge in progress.
pub(crate) struct LayerMerge<'a> {
    /// The branches below both layers.
    pub(crate) union: &'a Union,
    /// The layer that is removed.
    pub(crate) upper: &'a Arc<BranchMember>,
    /// The layer that receives its changes.
    pub(crate) lower: &'a Arc<BranchMember>,
}

/// Copies of files with several names, by their names in the links directory.
type SharedCopies = HashMap<NameBuf, VnodeRef>;

/// A directory of the upper layer, with the part of its path that it does not share with its predecessor in a list.
struct MovedUpperDirectory {
    /// Number of names, counted from the root, that its path has in common with its predecessor's.
    shared: usize,
    /// Names after the shared ones.
    names: Vec<NameBuf>,
    upper: VnodeRef,
    /// Key of its lower part while that is in transit.
    key: NameBuf,
    /// Path of its lower part, if the directory has been moved.
    lower_path: Option<Vec<u8>>,
}

/// A directory that both layers have.
struct DirectoryPair {
    /// `None` for the root.
    name: Option<NameBuf>,
    upper: VnodeRef,
    lower: VnodeRef,
    /// Its instances in the branches below both layers.
    below: Vec<Instance>,
}

/// A pair whose marks have been merged.
struct PreparedPair {
    pair: DirectoryPair,
    /// Objects still in the upper layer.
    objects: Vec<NameBuf>,
}

/// Result of resolving a path from the roots of the lower layer and of the branches below it.
struct ResolvedPath {
    /// The directory there in the lower layer: its parent, and its name in that.
    in_lower: Option<(VnodeRef, NameBuf)>,
    /// Path of the same directory in the branches below the lower layer; `None` if the lower layer hides them.
    below: Option<Vec<u8>>,
}

impl LayerMerge<'_> {
    /// Copies the data of metadata-only files that may depend on the lower layer, before anything is moved or about to be.
    ///
    /// # Errors
    /// `EIO` if some data are missing.
    pub(crate) fn fill_metacopies(&self) -> Result<()> {
        let both = [self.upper, self.lower].map(BranchSlot::read_only);
        let right = self.union.branches.slots();
        self.union.read_only_union(both.into_iter().chain(right.iter().cloned()).collect()).fill_all(self.upper)
    }

    /// Checks that all changes can be moved, before any is.
    ///
    /// # Errors
    /// `EXDEV` if a directory was moved in the relative form that overlayfs may write: its lower part cannot be located once
    /// the directory above it has been merged. Errors from reading directories.
    pub(crate) fn check(&self) -> Result<()> {
        moved_directories(&self.upper.root, &HashSet::new()).map(drop)
    }

    /// [`LayerMerge::run`] again after a failure; first removes what the failed run left in the work directory.
    ///
    /// # Errors
    /// Also `ESTALE` if lower parts of moved directories are in transit, and their owners are unknown.
    pub(crate) fn rerun(&self) -> Result<()> {
        self.lower.work.undo_unfinished()?;
        // Lower parts in transit are identified by the handles of their directories, which a copy of the branch does not
        // preserve.
        let taken = Self::keys_in_transit(&self.lower.work.state_directory(state_directory::MERGE_TRANSIT)?)?;
        let directories = moved_directories(&self.upper.root, &taken)?;
        let known: HashSet<&NameBuf> = directories.iter().map(|directory| &directory.key).collect();
        if taken.iter().any(|key| !known.contains(key)) {
            return Err(Errno::ESTALE);
        }
        self.run()
    }

    /// Keys of the lower parts that were taken out and have not reached their places.
    fn keys_in_transit(directory: &VnodeRef) -> Result<HashSet<NameBuf>> {
        Ok(objects::entries(directory)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Moves all changes.
    pub(crate) fn run(&self) -> Result<()> {
        if self.upper.work.has_copied_directories() {
            self.lower.work.record_copied_directories()?;
        }
        let copies = self.shared_copies()?;
        let held = self.pin_originals(&copies)?;
        self.move_lower_parts()?;
        let below = if whiteout::is_opaque(&self.lower.root)? { Vec::new() } else { self.union.roots() };
        self.merge_tree(&self.upper.root, &self.lower.root, below)?;
        replace_attributes(&self.upper.root, &self.lower.root)?;
        self.merge_links(&copies)?;
        held.iter().for_each(|held| self.lower.work.discard(held));
        Ok(())
    }

    /// Moves the contents of a directory of the upper layer, with everything below it. No directory in it has a redirect any
    /// more: all lower parts are in place. Iterative: a tree may be deeper than a thread's stack.
    fn merge_tree(&self, upper: &VnodeRef, lower: &VnodeRef, below: Vec<Instance>) -> Result<()> {
        let mut stack =
            vec![self.prepare_pair(DirectoryPair { name: None, upper: upper.clone(), lower: lower.clone(), below })?];
        while let Some(top) = stack.last_mut() {
            if let Some(name) = top.objects.pop() {
                let DirectoryPair { upper, lower, below, .. } = &top.pair;
                if let Some(inner) = self.merge_object(upper, lower, name.as_name(), below)? {
                    stack.push(self.prepare_pair(inner)?);
                }
                continue;
            }
            let Some(PreparedPair { pair: DirectoryPair { name: Some(name), upper, lower, .. }, .. }) = stack.pop()
            else {
                break;
            };
            replace_attributes(&upper, &lower)?;
            if let Some(above) = stack.last() {
                crate::union::operations::remove::remove_marked_directory(
                    self.upper,
                    &above.pair.upper,
                    name.as_name(),
                )?;
            }
        }
        Ok(())
    }

    /// Makes a directory of the lower layer hide what its counterpart in the upper layer hides. Only the objects remain to be
    /// moved.
    fn prepare_pair(&self, mut pair: DirectoryPair) -> Result<PreparedPair> {
        let DirectoryPair { upper, lower, below, .. } = &mut pair;
        if whiteout::is_opaque(upper)? {
            for (name, _) in objects::entries(lower)? {
                if whiteout::meaning(name.as_bytes()) != EntryMeaning::Mark {
                    self.remove_object(lower, name.as_name())?;
                }
            }
            whiteout::set_opaque(lower, self.format())?;
            below.clear();
        }
        // Whiteouts first: a whiteout beside its object says that the object hides the lower branches.
        let (objects, marks): (Vec<_>, Vec<_>) = objects::entries(upper)?
            .into_iter()
            .map(|(name, _)| name)
            .partition(|name| matches!(whiteout::meaning(name.as_bytes()), EntryMeaning::Object(_)));
        for name in marks {
            let Some(stored) = whiteout::hidden_name(name.as_bytes()) else { continue };
            match objects::find(upper, stored)? {
                None => self.hide(lower, stored, below)?,
                Some(entry) if entry.attributes.is_directory() => {
                    whiteout::set_opaque(&entry.vnode, self.format())?;
                }
                Some(_) => {}
            }
            upper.unlink_verified(&Caller::server(), name.as_name())?;
        }
        Ok(PreparedPair { pair, objects })
    }

    /// Moves one object. A directory that both layers have is not moved itself: the result is the pair whose objects are to be
    /// moved.
    fn merge_object(
        &self,
        upper: &VnodeRef,
        lower: &VnodeRef,
        name: Name<'_>,
        below: &[Instance],
    ) -> Result<Option<DirectoryPair>> {
        let server = Caller::server();
        object_done();
        let Some(entry) = objects::find(upper, name)? else { return Ok(None) };
        if whiteout::is_whiteout_device(&entry)? {
            self.hide(lower, name, below)?;
            return upper.unlink_verified(&server, name).map(|()| None);
        }
        let there = objects::find(lower, name)?;
        let merges = there.as_ref().is_some_and(|there| there.attributes.is_directory())
            && entry.attributes.is_directory()
            && !whiteout::is_opaque(&entry.vnode)?;
        if let (true, Some(there)) = (merges, &there) {
            let is_last = whiteout::redirect(&there.vnode)?.is_none() && hides(lower, name, &there.vnode)?;
            let below = if is_last { Vec::new() } else { self.directory_below(&there.vnode, name, below)? };
            let (upper, lower) = (entry.vnode, there.vnode.clone());
            return Ok(Some(DirectoryPair { name: Some(name.to_owned()), upper, lower, below }));
        }
        let hides_more = entry.attributes.is_directory()
            && (there.is_some() || whiteout::has_whiteout_file(lower, name)?)
            && self.is_below(below, name)?;
        if hides_more {
            whiteout::set_opaque(&entry.vnode, self.format())?;
        }
        match &there {
            Some(there) if there.attributes.is_directory() || entry.attributes.is_directory() => {
                self.remove_object(lower, name)?;
            }
            Some(there) => self.forget_older_copies(there)?,
            None => {}
        }
        self.forget_older_copies(&entry)?;
        upper.rename_verified(&server, name, lower, name, RenameMode::Replace)?;
        whiteout::remove(lower, name).map(|()| None)
    }

    /// Removes the lower layer's link entries for older copies of these files: either no other name leads to them any more, or
    /// the upper layer has link entries of its own for them.
    fn forget_older_copies(&self, entry: &Entry) -> Result<()> {
        match self.lower.work.existing_links()? {
            Some(links) => forget_copies(&links, entry),
            None => Ok(()),
        }
    }

    /// Removes the lower layer's object of that name, and hides the branches below.
    fn hide(&self, lower: &VnodeRef, name: Name<'_>, below: &[Instance]) -> Result<()> {
        if objects::find(lower, name)?.is_some() {
            self.remove_object(lower, name)?;
        }
        whiteout::remove(lower, name)?;
        if self.is_below(below, name)? { self.lower.whiteouts.hide(lower, name, self.format()) } else { Ok(()) }
    }

    /// Moves the lower parts of moved directories within the lower layer. First all are taken out of their places, since one
    /// may move to where another was.
    fn move_lower_parts(&self) -> Result<()> {
        let transit = self.lower.work.state_directory(state_directory::MERGE_TRANSIT)?;
        let taken = Self::keys_in_transit(&transit)?;
        let directories = moved_directories(&self.upper.root, &taken)?;
        // Deepest first: a path stays valid as long as nothing above it has moved.
        let mut moved: Vec<&MovedUpperDirectory> =
            directories.iter().filter(|directory| directory.lower_path.is_some()).collect();
        moved.sort_by_key(|directory| std::cmp::Reverse(directory.lower_path.as_ref().map(Vec::len)));
        for directory in moved {
            self.detach_lower_part(directory, &transit)?;
        }
        // Topmost first, the order in which they were found. The walk to each starts where it diverges from the walk to its
        // predecessor.
        let (mut path, mut stack) = (Vec::new(), vec![(self.upper.root.clone(), self.lower.root.clone())]);
        for directory in &directories {
            path.truncate(directory.shared);
            path.extend(directory.names.iter().cloned());
            stack.truncate(directory.shared + 1);
            self.place_lower_part(directory, &path, &mut stack, &transit)?;
        }
        Ok(())
    }

    /// Takes the lower part of a moved directory out of the lower layer. If that layer has none, a directory is created, since
    /// its path from the lower layer to the branches below may differ from the path from the upper layer.
    fn detach_lower_part(&self, directory: &MovedUpperDirectory, transit: &VnodeRef) -> Result<()> {
        let Some(path) = &directory.lower_path else { return Ok(()) };
        if objects::find(transit, directory.key.as_name())?.is_some() {
            // Done by an interrupted merge.
            return Ok(());
        }
        let server = Caller::server();
        let ResolvedPath { in_lower, below } = self.resolve(path)?;
        let (from, name) = match in_lower {
            Some(place) => place,
            None => self.make_directory_like(&directory.upper)?,
        };
        let lower_path = from.lookup(&server, name.as_name())?.vnode;
        match below {
            Some(path) if self.has_lower_part(&path)? => whiteout::set_redirect(&Caller::server(), &lower_path, &path)?,
            _ => {
                whiteout::set_opaque(&lower_path, self.format())?;
                whiteout::remove_redirect(&lower_path)?;
            }
        }
        from.rename_verified(&server, name.as_name(), transit, directory.key.as_name(), RenameMode::NoReplace)
    }

    /// Returns whether the branches below both layers have a directory at a path.
    fn has_lower_part(&self, path: &[u8]) -> Result<bool> {
        let is_directory = |found: LookupResult| found.kind() == FileKind::Directory;
        Ok(self.union.search_path(&self.union.roots(), path)?.is_some_and(is_directory))
    }

    /// Moves the lower part of the directory with this path into place. `stack` holds the start of the path in both
    /// layers, and the whole of it on return.
    fn place_lower_part(
        &self,
        directory: &MovedUpperDirectory,
        path: &[NameBuf],
        stack: &mut Vec<(VnodeRef, VnodeRef)>,
        transit: &VnodeRef,
    ) -> Result<()> {
        let server = Caller::server();
        if objects::find(transit, directory.key.as_name())?.is_none() {
            return Ok(());
        }
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        while let (Some((upper, lower)), Some(part)) = (stack.last(), above.get(stack.len() - 1)) {
            let lower = self.ensure_directory_like(upper, lower, part.as_name())?;
            let upper = upper.lookup(&server, part.as_name())?.vnode;
            stack.push((upper, lower));
        }
        let Some((upper, lower)) = stack.last().cloned() else { return Ok(()) };
        let moved = upper.lookup(&server, name.as_name())?.vnode;
        // From here on it is visible together with its lower part.
        whiteout::remove(&upper, name.as_name())?;
        whiteout::remove_opaque(&moved)?;
        whiteout::remove_redirect(&moved)?;
        if objects::find(&lower, name.as_name())?.is_some() {
            self.remove_object(&lower, name.as_name())?;
        }
        transit.rename_verified(&server, directory.key.as_name(), &lower, name.as_name(), RenameMode::NoReplace)?;
        whiteout::remove(&lower, name.as_name())
    }

    /// Resolves a path through the lower layer, and on through the branches below it.
    fn resolve(&self, path: &[u8]) -> Result<ResolvedPath> {
        let mut in_lower = None;
        let mut directory = Some(self.lower.root.clone());
        let mut below = if whiteout::is_opaque(&self.lower.root)? { None } else { Some(Vec::new()) };
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let name = NameBuf::new(name.to_vec())?;
            let further = |name: &[u8]| below.as_ref().map(|below| [below, &b"/"[..], name].concat());
            let Some(above) = directory.take() else {
                (in_lower, below) = (None, further(name.as_bytes()));
                continue;
            };
            match objects::find(&above, name.as_name())? {
                Some(entry) if entry.attributes.is_directory() => {
                    below = match whiteout::redirect(&entry.vnode)? {
                        Some(elsewhere) if elsewhere.starts_with(b"/") => Some(elsewhere),
                        // A sibling's name: the relative form that overlayfs may write.
                        Some(beside) => further(&beside),
                        None if hides(&above, name.as_name(), &entry.vnode)? => None,
                        None => further(name.as_bytes()),
                    };
                    directory = Some(entry.vnode);
                    in_lower = Some((above, name));
                }
                // A whiteout, or an object other than a directory.
                Some(_) => (in_lower, below) = (None, None),
                None if whiteout::has_whiteout_file(&above, name.as_name())? => (in_lower, below) = (None, None),
                None => (in_lower, below) = (None, further(name.as_bytes())),
            }
        }
        Ok(ResolvedPath { in_lower, below })
    }

    /// The directory of that name in the lower layer into which the upper layer's is merged, created if necessary: it then
    /// hides what the upper one hides. The lower part of a moved directory is already in place.
    fn ensure_directory_like(&self, upper: &VnodeRef, lower: &VnodeRef, name: Name<'_>) -> Result<VnodeRef> {
        let server = Caller::server();
        let there = objects::find(lower, name)?;
        let directory = upper.lookup(&server, name)?.vnode;
        let is_opaque = hides(upper, name, &directory)?;
        if let Some(entry) = there.as_ref().filter(|entry| !is_opaque && entry.attributes.is_directory()) {
            return Ok(entry.vnode.clone());
        }
        let (work, part) = self.make_directory_like(&directory)?;
        let made = work.lookup(&server, part.as_name())?.vnode;
        if is_opaque || there.is_some() || whiteout::has_whiteout_file(lower, name)? {
            whiteout::set_opaque(&made, self.format())?;
        }
        if there.is_some() {
            self.remove_object(lower, name)?;
        }
        work.rename_verified(&server, part.as_name(), lower, name, RenameMode::NoReplace)?;
        whiteout::remove(lower, name)?;
        // The lower layer now hides what it hides.
        whiteout::remove(upper, name)?;
        whiteout::remove_opaque(&directory)?;
        Ok(made)
    }

    /// Creates an empty directory of the lower layer with the attributes and the identity of one in the upper layer. It is out
    /// of sight: returns the work directory and its name there.
    fn make_directory_like(&self, upper: &VnodeRef) -> Result<(VnodeRef, NameBuf)> {
        let (work, part) = (self.lower.work.directory()?, self.lower.work.unused_name());
        let made = work.mkdir(&Caller::server(), part.as_name(), 0o700)?.vnode;
        copy_attributes(&Caller::server(), upper, &made, None)?;
        self.keep_identity(upper, &made)?;
        Ok((work, part))
    }

    /// Identity by which an object of the branch is known in its layer.
    fn identity_of(&self, object: &VnodeRef, ino: InodeNumber) -> Result<Identity> {
        match Identity::stored_origin(object)? {
            Some((identity, _)) => Ok(identity),
            None => Identity::native(&self.lower.base.numbers, &object.handle(), ino),
        }
    }

    /// Gives a directory that was created in another's place that one's identity.
    fn keep_identity(&self, upper: &VnodeRef, made: &VnodeRef) -> Result<()> {
        let identity = self.identity_of(upper, upper.getattr(&Caller::server())?.ino)?;
        self.lower.work.record_copied_directories()?;
        identity.store_origin(&Caller::server(), made, UNCOUNTED_NAMES).map(drop)
    }

    /// The upper layer's copies of files with several names, by their names in the links directory.
    fn shared_copies(&self) -> Result<SharedCopies> {
        let Some(links) = self.upper.work.existing_links()? else { return Ok(SharedCopies::new()) };
        let copy = |(name, _): (NameBuf, _)| {
            let copy = links.lookup(&Caller::server(), name.as_name())?.vnode;
            Ok((name, copy))
        };
        objects::entries(&links)?.into_iter().map(copy).collect()
    }

    /// Gives each of these copies' originals in the lower layer one more name, out of sight, so that each name that is left
    /// still counts as one of several, and users who reach it are led to the copy, until it has the copy's data. After a
    /// failure these names stay as long as the union; the next union to use the branch removes them, and finishes the merge.
    fn pin_originals(&self, copies: &SharedCopies) -> Result<Vec<NameBuf>> {
        let (mut held, mut known) = (Vec::new(), HashSet::new());
        self.visit_originals(copies, &mut |_, _, original, copy| {
            if known.insert(copy.handle()) {
                let (work, name) = (self.lower.work.directory()?, self.lower.work.unused_name());
                work.link_verified(&Caller::server(), original, name.as_name())?;
                held.push(name);
            }
            Ok(())
        })?;
        Ok(held)
    }

    /// Turns the remaining names in the lower layer of originals that have copies into names of the copies; then moves the link
    /// entries of the copies. The order matters: a merge that is run again finds all that is left.
    fn merge_links(&self, copies: &SharedCopies) -> Result<()> {
        self.visit_originals(copies, &mut |directory, name, _, copy| self.give_name_to_copy(copy, directory, name))?;
        let Some(from) = self.upper.work.existing_links()?.filter(|_| !copies.is_empty()) else { return Ok(()) };
        let to = self.lower.work.links()?;
        copies.keys().try_for_each(|name| {
            from.rename_verified(&Caller::server(), name.as_name(), &to, name.as_name(), RenameMode::Replace)
        })
    }

    /// Visits every name of an original in the lower layer, with its directory and the copy.
    fn visit_originals(
        &self,
        copies: &SharedCopies,
        visit: &mut dyn FnMut(&VnodeRef, Name<'_>, &VnodeRef, &VnodeRef) -> Result<()>,
    ) -> Result<()> {
        let mut stack = Vec::from_iter((!copies.is_empty()).then(|| self.lower.root.clone()));
        while let Some(directory) = stack.pop() {
            for (name, _) in objects::entries(&directory)? {
                if name.as_bytes() == whiteout::STATE_DIRECTORY {
                    continue;
                }
                object_done();
                let Entry { vnode, attributes } = directory.lookup(&Caller::server(), name.as_name())?;
                if attributes.is_directory() {
                    stack.push(vnode);
                    continue;
                }
                let identity = self.identity_of(&vnode, attributes.ino)?;
                let copy = copies.get(&shared_copies::link_name(&identity));
                if let Some(copy) = copy.filter(|copy| copy.handle() != vnode.handle()) {
                    visit(&directory, name.as_name(), &vnode, copy)?;
                }
            }
        }
        Ok(())
    }

    /// Replaces one of the original's names with a new name of the copy, and decrements the original's name count. The name of
    /// an entry left in the work directory by an interruption encodes the count to restore.
    fn give_name_to_copy(&self, copy: &VnodeRef, directory: &VnodeRef, name: Name<'_>) -> Result<()> {
        let (server, work) = (Caller::server(), self.lower.work.directory()?);
        let counted = Identity::stored_origin(copy)?.filter(|(_, names)| *names != UNCOUNTED_NAMES);
        let purpose = counted.as_ref().map_or(EntryPurpose::Transit, |(_, names)| EntryPurpose::Name(*names));
        let part = self.lower.work.unused_name_for(purpose);
        work.link_verified(&server, copy, part.as_name())?;
        let count = |left: fn(u32) -> u32| {
            counted
                .as_ref()
                .map_or(Ok(()), |(identity, names)| identity.store_origin(&server, copy, left(*names)).map(drop))
        };
        let placed = count(|names| names.saturating_sub(1))
            .and_then(|()| work.rename_verified(&server, part.as_name(), directory, name, RenameMode::Replace));
        // If that fails too, the remaining entry's name encodes it.
        if placed.is_err() && count(|names| names).is_ok() {
            self.lower.work.discard(&part);
        }
        placed
    }

    fn format(&self) -> whiteout::WhiteoutFormat {
        self.union.settings.whiteouts
    }

    /// Removes an object from the lower layer. If it is the only copy of a file with several names, all of these names have
    /// been removed: removing one would have made a copy in the upper layer.
    fn remove_object(&self, directory: &VnodeRef, name: Name<'_>) -> Result<()> {
        if let Some(entry) = objects::find(directory, name)? {
            self.forget_older_copies(&entry)?;
        }
        let taken = self.lower.work.stash(directory, name)?;
        self.lower.work.discard(&taken);
        Ok(())
    }

    fn is_below(&self, below: &[Instance], name: Name<'_>) -> Result<bool> {
        Ok(self.union.search(below, &Caller::server(), name)?.found.is_some())
    }

    /// The lower part of a directory of the lower layer, in the branches below that.
    fn directory_below(&self, directory: &VnodeRef, name: Name<'_>, below: &[Instance]) -> Result<Vec<Instance>> {
        let found = match whiteout::redirect(directory)? {
            None => self.union.search(below, &Caller::server(), name)?.found,
            Some(path) => self.union.search_redirect(&path, &self.union.roots(), below)?,
        };
        Ok(found.filter(|found| found.kind() == FileKind::Directory).map(|found| found.instances).unwrap_or_default())
    }
}

/// Returns whether a directory that was not moved hides the objects of its name in the branches below.
fn hides(above: &VnodeRef, name: Name<'_>, directory: &VnodeRef) -> Result<bool> {
    Ok(whiteout::is_opaque(directory)? || whiteout::has_whiteout_file(above, name)?)
}

/// The moved directories in this one, parents before children, and those whose lower part was taken out by an interrupted
/// merge. Iterative: a tree may be deeper than a thread's stack.
fn moved_directories(root: &VnodeRef, taken: &HashSet<NameBuf>) -> Result<Vec<MovedUpperDirectory>> {
    let (mut found, mut path, mut shared) = (Vec::new(), Vec::new(), 0);
    let mut stack = vec![(root.clone(), subdirectories(root)?)];
    while let Some((directory, left)) = stack.last_mut() {
        let Some(name) = left.pop() else {
            stack.pop();
            path.pop();
            shared = shared.min(path.len());
            continue;
        };
        let entry = directory.lookup(&Caller::server(), name.as_name())?;
        if !entry.attributes.is_directory() {
            continue;
        }
        object_done();
        path.push(name);
        let lower_path = whiteout::redirect(&entry.vnode)?;
        if lower_path.as_ref().is_some_and(|lower_path| !lower_path.starts_with(b"/")) {
            // A sibling's name, as overlayfs may write it: it cannot be located once its directory has been merged.
            return Err(Errno::EXDEV);
        }
        let key = shared_copies::handle_name(&entry.vnode.handle());
        if lower_path.is_some() || taken.contains(&key) {
            found.push(MovedUpperDirectory {
                shared,
                names: path[shared..].to_vec(),
                upper: entry.vnode.clone(),
                key,
                lower_path,
            });
            shared = path.len();
        }
        let left = subdirectories(&entry.vnode)?;
        stack.push((entry.vnode, left));
    }
    Ok(found)
}

/// Names in a directory that may be directories, except for the union's own.
fn subdirectories(directory: &VnodeRef) -> Result<Vec<NameBuf>> {
    let may_be = |(name, kind): &(NameBuf, Option<FileKind>)| {
        matches!(kind, None | Some(FileKind::Directory)) && name.as_bytes() != whiteout::STATE_DIRECTORY
    };
    Ok(objects::entries(directory)?.into_iter().filter(may_be).map(|(name, _)| name).collect())
}

/// Removes the link entries of the copies of a file, or of all files in a directory.
fn forget_copies(links: &VnodeRef, entry: &Entry) -> Result<()> {
    let server = Caller::server();
    let mut left = vec![entry.clone()];
    while let Some(entry) = left.pop() {
        if entry.attributes.is_directory() {
            for (name, _) in objects::entries(&entry.vnode)? {
                left.push(entry.vnode.lookup(&server, name.as_name())?);
            }
        } else if let Some((identity, _)) = Identity::stored_origin(&entry.vnode)? {
            match links.unlink_verified(&server, shared_copies::link_name(&identity).as_name()) {
                Err(Errno::ENOENT) => {}
                result => result?,
            }
        }
    }
    Ok(())
}
