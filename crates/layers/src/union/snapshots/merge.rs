//! Merging layers: a layer's changes are applied to the layer below it, which then takes its place (the paper's snapmerge).
//!
//! Objects are renamed, so nothing is copied, and the users' view stays the same at each step except where a directory was
//! moved. An interrupted merge is simply run again: what was already moved is no longer there to be moved.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use vnode::progress::object_done;
use vnode::{Caller, Entry, Errno, FileKind, Name, NameBuf, RenameMode, Result, VnodeRef};

use crate::union::branch::branches::{Member, Slot};
use crate::union::branch::verified::Sure;
use crate::union::branch::whiteout::{self, Meaning};
use crate::union::branch::work::Purpose;
use crate::union::branch::{links, work};
use crate::union::copy_up::{copy_attributes, replace_attributes};
use crate::union::identity::Identity;
use crate::union::node::{Instance, NO_COUNT};
use crate::union::operations::lookup::Found;
use crate::union::state::Union;

/// A merge in progress.
pub(crate) struct Fold<'a> {
    /// The branches below both layers.
    pub(crate) union: &'a Union,
    /// The layer that is removed.
    pub(crate) upper: &'a Arc<Member>,
    /// The layer that receives its changes.
    pub(crate) lower: &'a Arc<Member>,
}

/// Copies of files with several names, by their names in the links directory.
type Copies = HashMap<NameBuf, VnodeRef>;

/// A directory of the upper layer, with the part of its path that it does not share with its predecessor in a list.
struct Directory {
    /// Number of names, counted from the root, that its path has in common with its predecessor's.
    shared: usize,
    /// Names after the shared ones.
    names: Vec<NameBuf>,
    upper: VnodeRef,
    /// Key of its lower part while that is in transit.
    key: NameBuf,
    /// Path of its lower part, if the directory has been moved.
    rest: Option<Vec<u8>>,
}

/// A directory that both layers have.
struct Pair {
    /// `None` for the root.
    name: Option<NameBuf>,
    upper: VnodeRef,
    lower: VnodeRef,
    /// Its instances in the branches below both layers.
    below: Vec<Instance>,
}

/// A pair whose marks have been merged.
struct Entered {
    pair: Pair,
    /// Objects still in the upper layer.
    objects: Vec<NameBuf>,
}

/// Result of resolving a path from the roots of the lower layer and of the branches below it.
struct Resolved {
    /// The directory there in the lower layer: its parent, and its name in that.
    in_lower: Option<(VnodeRef, NameBuf)>,
    /// Path of the same directory in the branches below the lower layer; `None` if the lower layer hides them.
    below: Option<Vec<u8>>,
}

impl Fold<'_> {
    /// Copies the data of metadata-only files that may depend on the lower layer, before anything is moved or about to be.
    ///
    /// # Errors
    /// `EIO` if some data are missing.
    pub(crate) fn bring_data(&self) -> Result<()> {
        let both = [self.upper, self.lower].map(Slot::read_only);
        let right = self.union.branches.slots();
        self.union.view_of(both.into_iter().chain(right.iter().cloned()).collect()).bring_all(self.upper)
    }

    /// Checks that all changes can be moved, before any is.
    ///
    /// # Errors
    /// `EXDEV` if a directory was moved in the relative form that overlayfs may write: its lower part cannot be located once
    /// the directory above it has been merged. Errors from reading directories.
    pub(crate) fn may_be_run(&self) -> Result<()> {
        moved_directories(&self.upper.root, &HashSet::new()).map(drop)
    }

    /// [`Fold::run`] again after a failure; first removes what the failed run left in the work directory.
    ///
    /// # Errors
    /// Also `ESTALE` if lower parts of moved directories are in transit, and their owners are unknown.
    pub(crate) fn run_again(&self) -> Result<()> {
        self.lower.work.undo_unfinished()?;
        // Lower parts in transit are identified by the handles of their directories, which a copy of the branch does not
        // preserve.
        let taken = Self::on_the_way(&self.lower.work.state_directory(work::Work::MOVING)?)?;
        let directories = moved_directories(&self.upper.root, &taken)?;
        let known: HashSet<&NameBuf> = directories.iter().map(|directory| &directory.key).collect();
        if taken.iter().any(|key| !known.contains(key)) {
            return Err(Errno::ESTALE);
        }
        self.run()
    }

    /// Keys of the lower parts that were taken out and have not reached their places.
    fn on_the_way(directory: &VnodeRef) -> Result<HashSet<NameBuf>> {
        Ok(work::entries(directory)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Moves all changes.
    pub(crate) fn run(&self) -> Result<()> {
        if self.upper.work.has_copied_directories() {
            self.lower.work.note_copied_directories()?;
        }
        let copies = self.shared_copies()?;
        let held = self.hold_originals(&copies)?;
        self.bring_rests()?;
        let below = if whiteout::is_opaque(&self.lower.root)? { Vec::new() } else { self.union.roots() };
        self.fold_tree(&self.upper.root, &self.lower.root, below)?;
        replace_attributes(&self.upper.root, &self.lower.root)?;
        self.fold_links(&copies)?;
        held.iter().for_each(|held| self.lower.work.discard(held));
        Ok(())
    }

    /// Moves the contents of a directory of the upper layer, with everything below it. No directory in it has a redirect any
    /// more: all lower parts are in place. Iterative: a tree may be deeper than a thread's stack.
    fn fold_tree(&self, upper: &VnodeRef, lower: &VnodeRef, below: Vec<Instance>) -> Result<()> {
        let mut way = vec![self.enter(Pair { name: None, upper: upper.clone(), lower: lower.clone(), below })?];
        while let Some(top) = way.last_mut() {
            if let Some(name) = top.objects.pop() {
                let Pair { upper, lower, below, .. } = &top.pair;
                if let Some(inner) = self.fold_object(upper, lower, name.as_name(), below)? {
                    way.push(self.enter(inner)?);
                }
                continue;
            }
            let Some(Entered { pair: Pair { name: Some(name), upper, lower, .. }, .. }) = way.pop() else { break };
            replace_attributes(&upper, &lower)?;
            if let Some(above) = way.last() {
                crate::union::operations::remove::remove_own_directory(self.upper, &above.pair.upper, name.as_name())?;
            }
        }
        Ok(())
    }

    /// Makes a directory of the lower layer hide what its counterpart in the upper layer hides. Only the objects remain to be
    /// moved.
    fn enter(&self, mut pair: Pair) -> Result<Entered> {
        let Pair { upper, lower, below, .. } = &mut pair;
        if whiteout::is_opaque(upper)? {
            for (name, _) in work::entries(lower)? {
                if whiteout::meaning(name.as_bytes()) != Meaning::Mark {
                    self.take_away(lower, name.as_name())?;
                }
            }
            whiteout::set_opaque(lower, self.format())?;
            below.clear();
        }
        // Whiteouts first: a whiteout beside its object says that the object hides the lower branches.
        let (objects, marks): (Vec<_>, Vec<_>) = work::entries(upper)?
            .into_iter()
            .map(|(name, _)| name)
            .partition(|name| matches!(whiteout::meaning(name.as_bytes()), Meaning::Object(_)));
        for name in marks {
            let Some(stored) = whiteout::stored_of_whiteout(name.as_bytes()) else { continue };
            match work::find(upper, stored)? {
                None => self.hide(lower, stored, below)?,
                Some(entry) if entry.attributes.is_directory() => {
                    whiteout::set_opaque(&entry.vnode, self.format())?;
                }
                Some(_) => {}
            }
            upper.unlink_surely(&Caller::server(), name.as_name())?;
        }
        Ok(Entered { pair, objects })
    }

    /// Moves one object. A directory that both layers have is not moved itself: the result is the pair whose objects are to be
    /// moved.
    fn fold_object(
        &self,
        upper: &VnodeRef,
        lower: &VnodeRef,
        name: Name<'_>,
        below: &[Instance],
    ) -> Result<Option<Pair>> {
        let server = Caller::server();
        object_done();
        let Some(entry) = work::find(upper, name)? else { return Ok(None) };
        if whiteout::is_device(&entry)? {
            self.hide(lower, name, below)?;
            return upper.unlink_surely(&server, name).map(|()| None);
        }
        let there = work::find(lower, name)?;
        let merges = there.as_ref().is_some_and(|there| there.attributes.is_directory())
            && entry.attributes.is_directory()
            && !whiteout::is_opaque(&entry.vnode)?;
        if let (true, Some(there)) = (merges, &there) {
            let is_last = whiteout::redirect(&there.vnode)?.is_none() && hides(lower, name, &there.vnode)?;
            let below = if is_last { Vec::new() } else { self.directory_below(&there.vnode, name, below)? };
            let (upper, lower) = (entry.vnode, there.vnode.clone());
            return Ok(Some(Pair { name: Some(name.to_owned()), upper, lower, below }));
        }
        let hides_more = entry.attributes.is_directory()
            && (there.is_some() || whiteout::stands(lower, name)?)
            && self.is_below(below, name)?;
        if hides_more {
            whiteout::set_opaque(&entry.vnode, self.format())?;
        }
        match &there {
            Some(there) if there.attributes.is_directory() || entry.attributes.is_directory() => {
                self.take_away(lower, name)?;
            }
            Some(there) => self.forget_older_copies(there)?,
            None => {}
        }
        self.forget_older_copies(&entry)?;
        upper.rename_surely(&server, name, lower, name, RenameMode::Replace)?;
        whiteout::remove(lower, name).map(|()| None)
    }

    /// Removes the lower layer's link entries for older copies of these files: either no other name leads to them any more, or
    /// the upper layer has link entries of its own for them.
    fn forget_older_copies(&self, entry: &Entry) -> Result<()> {
        match self.lower.work.links_if_there()? {
            Some(links) => forget_copies(&links, entry),
            None => Ok(()),
        }
    }

    /// Removes the lower layer's object of that name, and hides the branches below.
    fn hide(&self, lower: &VnodeRef, name: Name<'_>, below: &[Instance]) -> Result<()> {
        if work::find(lower, name)?.is_some() {
            self.take_away(lower, name)?;
        }
        whiteout::remove(lower, name)?;
        if self.is_below(below, name)? { self.lower.whiteouts.hide(lower, name, self.format()) } else { Ok(()) }
    }

    /// Moves the lower parts of moved directories within the lower layer. First all are taken out of their places, since one
    /// may move to where another was.
    fn bring_rests(&self) -> Result<()> {
        let on_the_way = self.lower.work.state_directory(work::Work::MOVING)?;
        let taken = Self::on_the_way(&on_the_way)?;
        let directories = moved_directories(&self.upper.root, &taken)?;
        // Deepest first: a path stays valid as long as nothing above it has moved.
        let mut moved: Vec<&Directory> = directories.iter().filter(|directory| directory.rest.is_some()).collect();
        moved.sort_by_key(|directory| std::cmp::Reverse(directory.rest.as_ref().map(Vec::len)));
        for directory in moved {
            self.take_rest(directory, &on_the_way)?;
        }
        // Topmost first, the order in which they were found. The walk to each starts where it diverges from the walk to its
        // predecessor.
        let (mut path, mut way) = (Vec::new(), vec![(self.upper.root.clone(), self.lower.root.clone())]);
        for directory in &directories {
            path.truncate(directory.shared);
            path.extend(directory.names.iter().cloned());
            way.truncate(directory.shared + 1);
            self.bring_rest(directory, &path, &mut way, &on_the_way)?;
        }
        Ok(())
    }

    /// Takes the lower part of a moved directory out of the lower layer. If that layer has none, a directory is created, since
    /// its path from the lower layer to the branches below may differ from the path from the upper layer.
    fn take_rest(&self, directory: &Directory, on_the_way: &VnodeRef) -> Result<()> {
        let Some(path) = &directory.rest else { return Ok(()) };
        if work::find(on_the_way, directory.key.as_name())?.is_some() {
            // Done by an interrupted merge.
            return Ok(());
        }
        let server = Caller::server();
        let Resolved { in_lower, below } = self.resolve(path)?;
        let (from, name) = match in_lower {
            Some(place) => place,
            None => self.make_like(&directory.upper)?,
        };
        let rest = from.lookup(&server, name.as_name())?.vnode;
        match below {
            Some(path) if self.has_rest(&path)? => whiteout::set_redirect(&Caller::server(), &rest, &path)?,
            _ => {
                whiteout::set_opaque(&rest, self.format())?;
                whiteout::remove_redirect(&rest)?;
            }
        }
        from.rename_surely(&server, name.as_name(), on_the_way, directory.key.as_name(), RenameMode::NoReplace)
    }

    /// Returns whether the branches below both layers have a directory at a path.
    fn has_rest(&self, path: &[u8]) -> Result<bool> {
        let is_directory = |found: Found| found.kind() == FileKind::Directory;
        Ok(self.union.search_path(&self.union.roots(), path)?.is_some_and(is_directory))
    }

    /// Moves the lower part of the directory with this path into place. `way` holds the start of the path in both layers, and
    /// the whole of it on return.
    fn bring_rest(
        &self,
        directory: &Directory,
        path: &[NameBuf],
        way: &mut Vec<(VnodeRef, VnodeRef)>,
        on_the_way: &VnodeRef,
    ) -> Result<()> {
        let server = Caller::server();
        if work::find(on_the_way, directory.key.as_name())?.is_none() {
            return Ok(());
        }
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        while let (Some((upper, lower)), Some(part)) = (way.last(), above.get(way.len() - 1)) {
            let lower = self.directory_like(upper, lower, part.as_name())?;
            let upper = upper.lookup(&server, part.as_name())?.vnode;
            way.push((upper, lower));
        }
        let Some((upper, lower)) = way.last().cloned() else { return Ok(()) };
        let moved = upper.lookup(&server, name.as_name())?.vnode;
        // From here on it is visible together with its lower part.
        whiteout::remove(&upper, name.as_name())?;
        whiteout::remove_opaque(&moved)?;
        whiteout::remove_redirect(&moved)?;
        if work::find(&lower, name.as_name())?.is_some() {
            self.take_away(&lower, name.as_name())?;
        }
        on_the_way.rename_surely(&server, directory.key.as_name(), &lower, name.as_name(), RenameMode::NoReplace)?;
        whiteout::remove(&lower, name.as_name())
    }

    /// Resolves a path through the lower layer, and on through the branches below it.
    fn resolve(&self, path: &[u8]) -> Result<Resolved> {
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
            match work::find(&above, name.as_name())? {
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
                None if whiteout::stands(&above, name.as_name())? => (in_lower, below) = (None, None),
                None => (in_lower, below) = (None, further(name.as_bytes())),
            }
        }
        Ok(Resolved { in_lower, below })
    }

    /// The directory of that name in the lower layer into which the upper layer's is merged, created if necessary: it then
    /// hides what the upper one hides. The lower part of a moved directory is already in place.
    fn directory_like(&self, upper: &VnodeRef, lower: &VnodeRef, name: Name<'_>) -> Result<VnodeRef> {
        let server = Caller::server();
        let there = work::find(lower, name)?;
        let directory = upper.lookup(&server, name)?.vnode;
        let is_opaque = hides(upper, name, &directory)?;
        if let Some(entry) = there.as_ref().filter(|entry| !is_opaque && entry.attributes.is_directory()) {
            return Ok(entry.vnode.clone());
        }
        let (work, part) = self.make_like(&directory)?;
        let made = work.lookup(&server, part.as_name())?.vnode;
        if is_opaque || there.is_some() || whiteout::stands(lower, name)? {
            whiteout::set_opaque(&made, self.format())?;
        }
        if there.is_some() {
            self.take_away(lower, name)?;
        }
        work.rename_surely(&server, part.as_name(), lower, name, RenameMode::NoReplace)?;
        whiteout::remove(lower, name)?;
        // The lower layer now hides what it hides.
        whiteout::remove(upper, name)?;
        whiteout::remove_opaque(&directory)?;
        Ok(made)
    }

    /// Creates an empty directory of the lower layer with the attributes and the identity of one in the upper layer. It is out
    /// of sight: returns the work directory and its name there.
    fn make_like(&self, upper: &VnodeRef) -> Result<(VnodeRef, NameBuf)> {
        let (work, part) = (self.lower.work.directory()?, self.lower.work.name());
        let made = work.mkdir(&Caller::server(), part.as_name(), 0o700)?.vnode;
        copy_attributes(&Caller::server(), upper, &made, None)?;
        self.keep_identity(upper, &made)?;
        Ok((work, part))
    }

    /// Identity by which an object of the branch is known in its layer.
    fn identity_of(&self, object: &VnodeRef, ino: u64) -> Result<Identity> {
        match Identity::brought(object)? {
            Some((identity, _)) => Ok(identity),
            None => Identity::native(&self.lower.base, &object.handle(), ino),
        }
    }

    /// Gives a directory that was created in another's place that one's identity.
    fn keep_identity(&self, upper: &VnodeRef, made: &VnodeRef) -> Result<()> {
        let identity = self.identity_of(upper, upper.getattr(&Caller::server())?.ino)?;
        self.lower.work.note_copied_directories()?;
        identity.bring(&Caller::server(), made, NO_COUNT).map(drop)
    }

    /// The upper layer's copies of files with several names, by their names in the links directory.
    fn shared_copies(&self) -> Result<Copies> {
        let Some(links) = self.upper.work.links_if_there()? else { return Ok(Copies::new()) };
        let copy = |(name, _): (NameBuf, _)| {
            let copy = links.lookup(&Caller::server(), name.as_name())?.vnode;
            Ok((name, copy))
        };
        work::entries(&links)?.into_iter().map(copy).collect()
    }

    /// Gives each of these copies' originals in the lower layer one more name, out of sight, so that each name that is left
    /// still counts as one of several, and users who reach it are led to the copy, until it has the copy's data. After a
    /// failure these names stay as long as the union; the next union to use the branch removes them, and finishes the merge.
    fn hold_originals(&self, copies: &Copies) -> Result<Vec<NameBuf>> {
        let (mut held, mut known) = (Vec::new(), HashSet::new());
        self.each_original(copies, &mut |_, _, original, copy| {
            if known.insert(copy.handle()) {
                let (work, name) = (self.lower.work.directory()?, self.lower.work.name());
                work.link_surely(&Caller::server(), original, name.as_name())?;
                held.push(name);
            }
            Ok(())
        })?;
        Ok(held)
    }

    /// Turns the remaining names in the lower layer of originals that have copies into names of the copies; then moves the link
    /// entries of the copies. The order matters: a merge that is run again finds all that is left.
    fn fold_links(&self, copies: &Copies) -> Result<()> {
        self.each_original(copies, &mut |directory, name, _, copy| self.give_name(copy, directory, name))?;
        let Some(from) = self.upper.work.links_if_there()?.filter(|_| !copies.is_empty()) else { return Ok(()) };
        let to = self.lower.work.links()?;
        copies.keys().try_for_each(|name| {
            from.rename_surely(&Caller::server(), name.as_name(), &to, name.as_name(), RenameMode::Replace)
        })
    }

    /// Visits every name of an original in the lower layer, with its directory and the copy.
    fn each_original(
        &self,
        copies: &Copies,
        visit: &mut dyn FnMut(&VnodeRef, Name<'_>, &VnodeRef, &VnodeRef) -> Result<()>,
    ) -> Result<()> {
        let mut way = Vec::from_iter((!copies.is_empty()).then(|| self.lower.root.clone()));
        while let Some(directory) = way.pop() {
            for (name, _) in work::entries(&directory)? {
                if name.as_bytes() == whiteout::STATE {
                    continue;
                }
                object_done();
                let Entry { vnode, attributes } = directory.lookup(&Caller::server(), name.as_name())?;
                if attributes.is_directory() {
                    way.push(vnode);
                    continue;
                }
                let identity = self.identity_of(&vnode, attributes.ino)?;
                let copy = copies.get(&links::name_of(&identity));
                if let Some(copy) = copy.filter(|copy| copy.handle() != vnode.handle()) {
                    visit(&directory, name.as_name(), &vnode, copy)?;
                }
            }
        }
        Ok(())
    }

    /// Replaces one of the original's names with a new name of the copy, and decrements the original's name count. The name of
    /// an entry left in the work directory by an interruption encodes the count to restore.
    fn give_name(&self, copy: &VnodeRef, directory: &VnodeRef, name: Name<'_>) -> Result<()> {
        let (server, work) = (Caller::server(), self.lower.work.directory()?);
        let counted = Identity::brought(copy)?.filter(|(_, names)| *names != NO_COUNT);
        let purpose = counted.as_ref().map_or(Purpose::Passing, |(_, names)| Purpose::Name(*names));
        let part = self.lower.work.name_for(purpose);
        work.link_surely(&server, copy, part.as_name())?;
        let count = |left: fn(u32) -> u32| {
            counted.as_ref().map_or(Ok(()), |(identity, names)| identity.bring(&server, copy, left(*names)).map(drop))
        };
        let placed = count(|names| names.saturating_sub(1))
            .and_then(|()| work.rename_surely(&server, part.as_name(), directory, name, RenameMode::Replace));
        // If that fails too, the remaining entry's name encodes it.
        if placed.is_err() && count(|names| names).is_ok() {
            self.lower.work.discard(&part);
        }
        placed
    }

    fn format(&self) -> whiteout::Format {
        self.union.settings.whiteouts
    }

    /// Removes an object from the lower layer. If it is the only copy of a file with several names, all of these names have
    /// been removed: removing one would have made a copy in the upper layer.
    fn take_away(&self, directory: &VnodeRef, name: Name<'_>) -> Result<()> {
        if let Some(entry) = work::find(directory, name)? {
            self.forget_older_copies(&entry)?;
        }
        let taken = self.lower.work.take(directory, name)?;
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
            Some(path) => self.union.search_rest(&path, &self.union.roots(), below)?,
        };
        Ok(found.filter(|found| found.kind() == FileKind::Directory).map(|found| found.instances).unwrap_or_default())
    }
}

/// Returns whether a directory that was not moved hides the objects of its name in the branches below.
fn hides(above: &VnodeRef, name: Name<'_>, directory: &VnodeRef) -> Result<bool> {
    Ok(whiteout::is_opaque(directory)? || whiteout::stands(above, name)?)
}

/// The moved directories in this one, parents before children, and those whose lower part was taken out by an interrupted
/// merge. Iterative: a tree may be deeper than a thread's stack.
fn moved_directories(root: &VnodeRef, taken: &HashSet<NameBuf>) -> Result<Vec<Directory>> {
    let (mut found, mut path, mut shared) = (Vec::new(), Vec::new(), 0);
    let mut way = vec![(root.clone(), subdirectories(root)?)];
    while let Some((directory, left)) = way.last_mut() {
        let Some(name) = left.pop() else {
            way.pop();
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
        let rest = whiteout::redirect(&entry.vnode)?;
        if rest.as_ref().is_some_and(|rest| !rest.starts_with(b"/")) {
            // A sibling's name, as overlayfs may write it: it cannot be located once its directory has been merged.
            return Err(Errno::EXDEV);
        }
        let key = links::name_of_handle(&entry.vnode.handle());
        if rest.is_some() || taken.contains(&key) {
            found.push(Directory { shared, names: path[shared..].to_vec(), upper: entry.vnode.clone(), key, rest });
            shared = path.len();
        }
        let left = subdirectories(&entry.vnode)?;
        way.push((entry.vnode, left));
    }
    Ok(found)
}

/// Names in a directory that may be directories, except for the union's own.
fn subdirectories(directory: &VnodeRef) -> Result<Vec<NameBuf>> {
    let may_be = |(name, kind): &(NameBuf, Option<FileKind>)| {
        matches!(kind, None | Some(FileKind::Directory)) && name.as_bytes() != whiteout::STATE
    };
    Ok(work::entries(directory)?.into_iter().filter(may_be).map(|(name, _)| name).collect())
}

/// Removes the link entries of the copies of a file, or of all files in a directory.
fn forget_copies(links: &VnodeRef, entry: &Entry) -> Result<()> {
    let server = Caller::server();
    let mut left = vec![entry.clone()];
    while let Some(entry) = left.pop() {
        if entry.attributes.is_directory() {
            for (name, _) in work::entries(&entry.vnode)? {
                left.push(entry.vnode.lookup(&server, name.as_name())?);
            }
        } else if let Some((identity, _)) = Identity::brought(&entry.vnode)? {
            match links.unlink_surely(&server, links::name_of(&identity).as_name()) {
                Err(Errno::ENOENT) => {}
                result => result?,
            }
        }
    }
    Ok(())
}
