//! Taking names away (Unionfs, section 3.5): what is in the way of a branch on the right is hidden by a whiteout.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{AccessMode, Attributes, Caller, Cancellation, Entry, Errno, FileKind, Name, Result, VnodeRef};

use super::branches::Member;
use super::copy_up::Extent;
use super::durable::sync_directory;
use super::lookup::{Found, Search};
use super::node::{Changes, Instance, Node, starting_with};
use super::parallel::Answers;
use super::settings::Deletion;
use super::sure::Sure;
use super::whiteout::{self, Meaning};
use super::{Union, work};

/// How often what is to be removed may change before we give up.
const ATTEMPTS: usize = 16;

impl Node {
    /// Takes the name of anything but a directory away.
    pub(super) fn unlink_name(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.remove(caller, name, |removal| {
            let Removal { found, directory, stored, .. } = *removal;
            if found.kind() == FileKind::Directory {
                self.may_remove(caller, directory, &found.attributes)?;
                return Err(Errno::EISDIR);
            }
            if removal.is_on_the_left {
                self.may_remove(caller, directory, &found.attributes)?;
                return removal.hide(self);
            }
            let mut shows_more = removal.shows_more(self)?;
            if shows_more {
                self.may_remove(caller, directory, &found.attributes)?;
                if self.union.settings.deletion == Deletion::All {
                    shows_more = removal.remove_on_the_right(self) == Leaves::Something && removal.shows_more(self)?;
                }
            }
            if !shows_more {
                return directory.unlink_surely(caller, stored);
            }
            self.remove_hiding(removal, || directory.unlink_surely(caller, stored))
        })
    }

    /// Removes a directory in which users see nothing.
    pub(super) fn remove_directory(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.remove(caller, name, |removal| {
            let Removal { found, directory, stored, .. } = *removal;
            self.may_remove(caller, directory, &found.attributes)?;
            if found.kind() != FileKind::Directory {
                return Err(Errno::ENOTDIR);
            }
            let node = self.union.node(found.clone())?;
            let _names = node.alone();
            if !node.shows_nothing()? {
                return Err(Errno::ENOTEMPTY);
            }
            if removal.is_on_the_left {
                return removal.hide(self);
            }
            let remove_own = || remove_own_directory(&found.instances[0].member, directory, stored);
            if !removal.shows_more(self)? {
                return remove_own();
            }
            if whiteout::can_stand_beside(stored, self.union.settings.whiteouts) {
                node.is_at(self, stored);
                node.keep_rest(caller, &found.instances[0].member)?;
            }
            self.remove_hiding(removal, remove_own)?;
            if self.union.settings.deletion == Deletion::All
                && (removal.remove_on_the_right(self) == Leaves::Nothing || removal.shows_more(self) == Ok(false))
            {
                // What is not needed any more may stay.
                let _ = whiteout::lift(directory, stored);
            }
            Ok(())
        })
    }

    /// Finds what has the name and where its removal is to be noted, and removes it.
    fn remove(
        self: &Arc<Self>,
        caller: &Caller,
        name: Name<'_>,
        remove: impl Fn(&Removal<'_>) -> Result<()>,
    ) -> Result<()> {
        self.only_directory()?;
        let stored = whiteout::stored(name)?;
        let stored = Name::new(&stored)?;
        for _ in 0..ATTEMPTS {
            let seen = self.changed();
            let (before, node) = match self.look(caller, stored)? {
                (Search { found: Some(found), .. }, Some(node)) => (found, node),
                _ => return Err(Errno::ENOENT),
            };
            before.is_movable()?;
            self.may_take_away(caller, &before.attributes)?;
            if before.is_borrowed {
                self.settle(caller, &before, &node, stored)?;
                continue;
            }
            let leftmost = &before.instances[0];
            if self.union.counts_names(caller, &before, &node)? {
                continue;
            }
            let is_on_the_left = !self.union.branches.may_change(&leftmost.member);
            if is_on_the_left && before.attributes.is_immutable() {
                return Err(Errno::EPERM);
            }
            let member =
                if is_on_the_left { self.branch_of_whiteout(&leftmost.member)? } else { Arc::clone(&leftmost.member) };
            let directory = &match self.place_in(caller, &member) {
                // It has just been moved to where it cannot be in that branch.
                Err(Errno::EXDEV) => continue,
                placed => placed?,
            };
            let is_thorough = self.union.settings.deletion == Deletion::All;
            let names = [stored];
            let _names = self.alone_for(Changes::Names(&names, if is_thorough { None } else { Some(&member) }));
            let (found, node) = if self.changed() == seen {
                (before, node)
            } else {
                let Some(found) = self.search(caller, stored)?.found else { return Err(Errno::ENOENT) };
                if found.is_borrowed || !Arc::ptr_eq(&found.instances[0].member, &leftmost.member) {
                    // It has been copied meanwhile.
                    continue;
                }
                let node = self.union.node(found.clone())?;
                (found, node)
            };
            let instances = self.instances();
            let Some([_, right @ ..]) = starting_with(&instances, &found.instances[0].member) else { continue };
            let removal = Removal { found: &found, right, directory, member: &member, stored, is_on_the_left };
            remove(&removal)?;
            if is_on_the_left {
                node.is_hidden.store(true, Ordering::Relaxed);
                if is_thorough {
                    removal.remove_on_the_right(self);
                }
            }
            self.was_changed_in(&member);
            node.is_gone_from(self, stored);
            node.has_lost_a_name();
            return Ok(());
        }
        Err(Errno::EAGAIN)
    }

    /// Removes what has the name and leaves a whiteout.
    fn remove_hiding(&self, removal: &Removal<'_>, remove: impl FnOnce() -> Result<()>) -> Result<()> {
        let Removal { found, directory, stored, .. } = *removal;
        if !whiteout::can_stand_beside(stored, self.union.settings.whiteouts) {
            match found.instances[0].member.work.replace_by_device(directory, stored) {
                Err(error) if whiteout::is_incapable(error) => {}
                done => return done,
            }
        }
        let stood = whiteout::stands(directory, stored)?;
        removal.member.whiteouts.cover(directory, stored)?;
        remove().inspect_err(|_| {
            // It is seen beside its whiteout, which is in nobody's way then; one that stood there before has its reasons.
            if !stood && is_there(directory, stored, &found.instances[0].vnode) {
                let _ = whiteout::remove(directory, stored);
            }
        })
    }

    /// The branch where whiteouts of what is in `member` go.
    fn branch_of_whiteout(self: &Arc<Self>, member: &Member) -> Result<Arc<Member>> {
        let position = self.union.branches.position(member).ok_or(Errno::ESTALE)?;
        self.nearest_branch(position)
    }

    /// Whether the caller may take away a name of an object with these attributes, as the branch would decide.
    pub(super) fn may_remove(&self, caller: &Caller, directory: &VnodeRef, victim: &Attributes) -> Result<()> {
        const STICKY: u32 = 0o1000;
        let attributes = directory.getattr(caller)?;
        if attributes.only_grows_or_stays() || victim.only_grows_or_stays() {
            return Err(Errno::EPERM);
        }
        if caller.is_superuser() {
            return Ok(());
        }
        directory.access(caller, AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits()))?;
        let is_owner = [attributes.uid, victim.uid].contains(&caller.uid);
        if attributes.mode & STICKY != 0 && !is_owner && !caller.is_superuser() {
            return Err(Errno::EPERM);
        }
        Ok(())
    }
}

/// Whether a name stands for the object still. A question that fails is answered so, since a whiteout hides nothing beside it.
fn is_there(directory: &VnodeRef, stored: Name<'_>, object: &VnodeRef) -> bool {
    match directory.lookup(&Caller::server(), stored) {
        Ok(entry) => entry.vnode.handle() == object.handle(),
        Err(error) => error != Errno::ENOENT,
    }
}

/// From so many removals on, a helper is worth waking.
const REMOVALS_MIN: usize = 4;

/// What is removed, and where.
struct Removal<'a> {
    found: &'a Found,
    /// Instances of the directory on the right of the one that has the leftmost object.
    right: &'a [Instance],
    /// The directory in the branch where the removal is noted: that of the leftmost object, or one on the left of it.
    directory: &'a VnodeRef,
    /// That branch.
    member: &'a Member,
    stored: Name<'a>,
    is_on_the_left: bool,
}

/// What there is by a name after it has been removed.
#[derive(PartialEq, Eq)]
pub(super) enum Leaves {
    Nothing,
    /// Perhaps.
    Something,
}

impl Removal<'_> {
    /// Whether something would come to light.
    fn shows_more(&self, directory: &Node) -> Result<bool> {
        if self.right.is_empty() {
            return Ok(false);
        }
        match directory.union.search(self.right, &Caller::server(), self.stored) {
            // Perhaps, in a branch that has failed: a whiteout of nothing is in nobody's way.
            Err(Errno::EIO) if self.right.iter().any(|place| place.member.has_failed()) => Ok(true),
            search => Ok(search?.found.is_some()),
        }
    }

    /// Leaves nothing but a whiteout.
    fn hide(&self, directory: &Node) -> Result<()> {
        self.member.whiteouts.hide(self.directory, self.stored, directory.union.settings.whiteouts)
    }

    /// Removes what may be removed of that, all at once. Users see none of it: what stays is hidden.
    fn remove_on_the_right(&self, directory: &Node) -> Leaves {
        let (mut reached, mut leaves) = within_reach(self.right, self.stored);
        let all = reached.len();
        keep_ends_of_directories(&mut reached);
        let mut hidden: Vec<(Instance, Reached)> =
            reached.into_iter().map(|(place, entry)| (place.clone(), entry)).collect();
        hidden.retain(|(place, _)| directory.union.branches.may_change(&place.member));
        if hidden.len() < all {
            leaves = Leaves::Something;
        }
        let count = hidden.len();
        let (kind, instances, stored) = (self.found.kind(), self.found.instances.clone(), self.stored.to_owned());
        let tag = self.member.base.tag;
        let remove = move |index: usize| {
            let (place, entry) = &hidden[index];
            let is_removed = remove_at(place, entry, kind, &instances, stored.as_name())?;
            if is_removed && place.member.base.tag != tag {
                // What hides it may go next, and is not to be the first of which the disk knows.
                sync_directory(&place.vnode)?;
            }
            Ok::<bool, Errno>(is_removed)
        };
        let remove = Arc::new(remove);
        let by_others = Arc::clone(&remove);
        let removed = Answers::of_many(count, REMOVALS_MIN, move |index| by_others(index));
        for index in 0..count {
            // An error is as good as a branch that is read-only.
            if removed.take(index, &Cancellation::default()).unwrap_or_else(|| Ok(remove(index))) != Ok(Ok(true)) {
                leaves = Leaves::Something;
            }
        }
        leaves
    }
}

/// Removes what a branch has by the name, if it is of the same kind as what was found, which has these instances: whether it
/// did.
fn remove_at(
    place: &Instance,
    entry: &Reached,
    kind: FileKind,
    instances: &[Instance],
    stored: Name<'_>,
) -> Result<bool> {
    match entry {
        Reached::Directory(vnode) if kind == FileKind::Directory => {
            // Another of that name may be part of a directory that was moved.
            let is_part = |instance: &Instance| instance.is(&place.member, vnode);
            if !instances.iter().any(is_part) || !has_only_marks(vnode)? {
                return Ok(false);
            }
            remove_own_directory(&place.member, &place.vnode, stored)?;
        }
        Reached::Other if kind != FileKind::Directory => place.vnode.unlink_surely(&Caller::server(), stored)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// What a branch has by a name.
pub(super) enum Reached {
    Directory(VnodeRef),
    /// Anything else but a whiteout.
    Other,
}

/// Those of the places that have something by the name and that a search from the left comes to: up to a whiteout of the
/// name.
pub(super) fn within_reach<'a>(places: &'a [Instance], stored: Name<'_>) -> (Vec<(&'a Instance, Reached)>, Leaves) {
    let (mut reached, mut leaves) = (Vec::new(), Leaves::Nothing);
    for place in places {
        if place.member.has_nothing().is_err() {
            return (reached, Leaves::Something);
        }
        let before = place.names.replacements();
        let Ok(names) = place.names.ask(&place.vnode, stored) else { return (reached, Leaves::Something) };
        let is_replaced = place.names.replacements() != before;
        if names.is_nothing() && (is_replaced || place.names.is_outdated(&place.vnode) != Ok(false)) {
            // Somebody else may just have put something there.
            leaves = Leaves::Something;
        }
        if names.may_have_object {
            match place.vnode.lookup(&Caller::server(), stored) {
                Ok(Entry { vnode, attributes }) if attributes.is_directory() => {
                    reached.push((place, Reached::Directory(vnode)));
                }
                Ok(entry) => match whiteout::is_device(&entry) {
                    Ok(false) => reached.push((place, Reached::Other)),
                    Ok(true) => return (reached, leaves),
                    Err(_) => return (reached, Leaves::Something),
                },
                Err(Errno::ENOENT) => {}
                Err(_) => return (reached, Leaves::Something),
            }
        }
        if names.may_have_whiteout {
            match whiteout::stands(&place.vnode, stored) {
                Ok(false) => place.names.has_missed(),
                // It hides what is on the right of what it stands beside, too.
                Ok(true) => return (reached, leaves),
                Err(_) => return (reached, Leaves::Something),
            }
        }
    }
    (reached, leaves)
}

/// Takes out what is no directory and has one on its right, which may be part of a directory that was moved: that ends there.
pub(super) fn keep_ends_of_directories(reached: &mut Vec<(&Instance, Reached)>) {
    let is_directory = |(_, entry): &(&Instance, Reached)| matches!(entry, Reached::Directory(_));
    if let Some(last) = reached.iter().rposition(is_directory) {
        let mut index = 0;
        reached.retain(|entry| {
            index += 1;
            index > last || is_directory(entry)
        });
    }
}

/// Whether the directory has nothing that could be seen.
fn has_only_marks(directory: &VnodeRef) -> Result<bool> {
    let server = Caller::server();
    for (name, kind) in work::entries(directory)? {
        if !matches!(whiteout::meaning(name.as_bytes()), Meaning::Object(_)) {
            continue;
        }
        let may_be_device = matches!(kind, None | Some(FileKind::CharacterDevice));
        if !may_be_device || !whiteout::is_device(&directory.lookup(&server, name.as_name())?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a directory that has nothing but marks, out of sight at once.
pub(super) fn remove_own_directory(member: &Member, directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    match directory.rmdir_surely(&Caller::server(), stored) {
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
            let name = member.work.take(directory, stored)?;
            member.work.discard(&name);
            Ok(())
        }
        result => result,
    }
}

impl Union {
    /// Has a file with several names copied where its names can be counted, one of which is about to go: whether it was not
    /// there yet.
    pub(super) fn counts_names(&self, caller: &Caller, found: &Found, node: &Arc<Node>) -> Result<bool> {
        let is_counted = found.kind() == FileKind::Directory || self.branches.may_change(&found.instances[0].member);
        if is_counted || node.shown(found.attributes).nlink < 2 {
            return Ok(false);
        }
        match node.writable(caller, Extent::Nothing) {
            // No branch can have its names: they are not counted.
            Err(Errno::EMLINK) => Ok(false),
            copied => copied.map(|_| true),
        }
    }
}
