//! Removal of names (Unionfs, section 3.5): a name that shadows objects in lower branches is replaced by a whiteout.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{AccessMode, Attributes, Caller, Cancellation, Errno, FileKind, Name, RenameMode, Result, VnodeRef};

use super::lookup::{Found, Search};
use super::permission::take_away;
use crate::union::branch::branches::Member;
use crate::union::branch::parallel::Answers;
use crate::union::branch::verified::Sure;
use crate::union::branch::whiteout::{self, Meaning};
use crate::union::branch::work;
use crate::union::branch::write_order::{are_apart, sync_directory};
use crate::union::cache::names::Answer;
use crate::union::copy_up::Extent;
use crate::union::node::{Changes, Instance, NO_COUNT, Node, starting_with};
use crate::union::settings::Deletion;
use crate::union::state::Union;

/// Maximum number of attempts if the object to be removed changes meanwhile.
const ATTEMPTS: usize = 16;

impl Node {
    /// Removes a name of anything but a directory.
    pub(crate) fn unlink_name(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let is_file = |kind| if kind == FileKind::Directory { Err(Errno::EISDIR) } else { Ok(()) };
        self.remove(caller, name, is_file, |removal| {
            let Removal { found, directory, stored, .. } = *removal;
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
    pub(crate) fn remove_directory(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let is_directory = |kind| if kind == FileKind::Directory { Ok(()) } else { Err(Errno::ENOTDIR) };
        self.remove(caller, name, is_directory, |removal| {
            let Removal { found, directory, stored, .. } = *removal;
            self.may_remove(caller, directory, &found.attributes)?;
            let node = self.found_node(found.clone(), stored)?;
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
                // A whiteout that is no longer needed may stay.
                let _ = whiteout::lift(directory, stored);
            }
            Ok(())
        })
    }

    /// Finds the object of that name, which must be of the expected kind, and the branch that records its removal, and removes
    /// it.
    fn remove(
        self: &Arc<Self>,
        caller: &Caller,
        name: Name<'_>,
        is_of_kind: impl Fn(FileKind) -> Result<()>,
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
            // Nothing is copied for an operation that is refused; the lack of permission is reported first.
            is_of_kind(before.kind())
                .or_else(|refusal| self.could_take_away(caller, &before.attributes).and(Err(refusal)))?;
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
                is_of_kind(found.kind())?;
                let node = self.found_node(found.clone(), stored)?;
                (found, node)
            };
            let instances = self.instances();
            let Some([_, right @ ..]) = starting_with(&instances, &found.instances[0].member) else { continue };
            let has_names_on_the_right = !matches!(node.names.load(Ordering::Relaxed), 0 | NO_COUNT);
            let (found, member) = (&found, &*member);
            let removal = Removal { found, right, directory, member, stored, is_on_the_left, has_names_on_the_right };
            remove(&removal)?;
            if is_on_the_left {
                node.is_hidden.store(true, Ordering::Relaxed);
                if is_thorough {
                    removal.remove_on_the_right(self);
                }
            }
            self.was_changed_in(member);
            node.is_gone_from(self, stored);
            node.has_lost_a_name();
            return Ok(());
        }
        Err(Errno::EAGAIN)
    }

    /// Removes the object of that name and leaves a whiteout.
    fn remove_hiding(&self, removal: &Removal<'_>, remove: impl FnOnce() -> Result<()>) -> Result<()> {
        let Removal { found, directory, stored, .. } = *removal;
        if !whiteout::can_stand_beside(stored, self.union.settings.whiteouts) {
            match found.instances[0].member.work.replace_by_device(directory, stored) {
                Err(error) if whiteout::is_incapable(error) => {}
                done => return done,
            }
        }
        let is_new = removal.member.whiteouts.cover(directory, stored)?;
        remove().inspect_err(|_| {
            // The object is visible beside its whiteout, which does no harm then; a whiteout that was there before has its
            // reasons.
            if is_new && is_there(directory, stored, &found.instances[0].vnode) {
                let _ = whiteout::remove(directory, stored);
            }
        })
    }

    /// The branch that receives the whiteouts of objects in `member`.
    fn branch_of_whiteout(self: &Arc<Self>, member: &Member) -> Result<Arc<Member>> {
        let position = self.union.branches.position(member).ok_or(Errno::ESTALE)?;
        self.nearest_branch(position)
    }

    /// Checks that the caller may remove a name of an object with these attributes, as the branch would.
    pub(crate) fn may_remove(&self, caller: &Caller, directory: &VnodeRef, victim: &Attributes) -> Result<()> {
        let both = AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits());
        take_away(caller, &directory.getattr(caller)?, victim, || match caller.is_superuser() {
            true => Ok(()),
            false => directory.access(caller, both),
        })
    }
}

/// Returns whether a name still leads to the object; also `true` on errors, since a whiteout does not hide the object beside
/// it.
fn is_there(directory: &VnodeRef, stored: Name<'_>, object: &VnodeRef) -> bool {
    match directory.lookup(&Caller::server(), stored) {
        Ok(entry) => entry.vnode.handle() == object.handle(),
        Err(error) => error != Errno::ENOENT,
    }
}

/// Minimum number of removals for which a helper is worth waking.
const REMOVALS_MIN: usize = 4;

/// A removal, and where it is recorded.
struct Removal<'a> {
    found: &'a Found,
    /// Instances of the directory below the one that has the leftmost object.
    right: &'a [Instance],
    /// The directory in the branch that records the removal: that of the leftmost object, or a higher one.
    directory: &'a VnodeRef,
    /// The branch that records the removal.
    member: &'a Member,
    stored: Name<'a>,
    is_on_the_left: bool,
    /// Whether it is a copy, and names of the original still lead to it: one of those may be removed in a lower branch only if
    /// it is the last.
    has_names_on_the_right: bool,
}

/// Objects that remain at a name after a removal.
#[derive(PartialEq, Eq)]
pub(crate) enum Leaves {
    Nothing,
    /// Possibly something.
    Something,
}

impl Removal<'_> {
    /// Returns whether the removal would reveal an object of a lower branch.
    fn shows_more(&self, directory: &Node) -> Result<bool> {
        if self.right.is_empty() {
            return Ok(false);
        }
        match directory.union.search(self.right, &Caller::server(), self.stored) {
            // Possibly, in a branch that has failed: an unnecessary whiteout does no harm.
            Err(Errno::EIO) if self.right.iter().any(|place| place.member.has_failed()) => Ok(true),
            search => Ok(search?.found.is_some()),
        }
    }

    /// Leaves nothing but a whiteout.
    fn hide(&self, directory: &Node) -> Result<()> {
        self.member.whiteouts.hide(self.directory, self.stored, directory.union.settings.whiteouts)
    }

    /// Removes what may be removed of the name in lower branches, in parallel. Invisible to users: what stays is hidden.
    fn remove_on_the_right(&self, directory: &Node) -> Leaves {
        let (reached, mut leaves) = within_reach(self.right, self.stored);
        let all = reached.len();
        let mut hidden: Vec<(Instance, Reached)> =
            reached.into_iter().map(|(place, entry)| (place.clone(), entry)).collect();
        hidden.retain(|(place, entry)| {
            let may_be_original = self.has_names_on_the_right && matches!(entry, Reached::Other);
            directory.union.branches.may_change(&place.member) && !may_be_original
        });
        if hidden.len() < all {
            leaves = Leaves::Something;
        }
        let count = hidden.len();
        let (kind, instances, stored) = (self.found.kind(), self.found.instances.clone(), self.stored.to_owned());
        let is_apart = |place: &Instance| are_apart((&place.member, &place.vnode), (self.member, self.directory));
        let apart: Vec<bool> = hidden.iter().map(|(place, _)| is_apart(place)).collect();
        let remove = move |index: usize| {
            let (place, entry) = &hidden[index];
            let is_removed = remove_at(place, entry, kind, &instances, stored.as_name())?;
            if is_removed && apart[index] {
                // The object that hides it may be removed next, and that removal must not reach the disk first.
                sync_directory(&place.vnode)?;
            }
            Ok::<bool, Errno>(is_removed)
        };
        let remove = Arc::new(remove);
        let by_others = Arc::clone(&remove);
        let removed = Answers::of_many(count, REMOVALS_MIN, move |index| by_others(index));
        for index in 0..count {
            // An error is treated like a read-only branch.
            if removed.take(index, &Cancellation::default()).unwrap_or_else(|| Ok(remove(index))) != Ok(Ok(true)) {
                leaves = Leaves::Something;
            }
        }
        leaves
    }
}

/// Removes a branch's object of that name, if it is of the same kind as the object found, which has these instances; returns
/// whether it did.
fn remove_at(
    place: &Instance,
    entry: &Reached,
    kind: FileKind,
    instances: &[Instance],
    stored: Name<'_>,
) -> Result<bool> {
    match entry {
        Reached::Directory(vnode) if kind == FileKind::Directory => {
            // Another directory of that name may be part of a moved one.
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

/// A branch's object of a name.
pub(crate) enum Reached {
    Directory(VnodeRef),
    /// Anything else except whiteouts.
    Other,
}

/// Contents of one instance of a directory at a name.
struct Has {
    object: Option<Reached>,
    /// Whether a search from above ends here.
    ends_search: bool,
    /// Whether nobody else can just have put something there.
    is_sure: bool,
}

impl Has {
    /// Queries the instance for what is not known.
    fn of(place: &Instance, stored: Name<'_>) -> Result<Self> {
        place.member.has_nothing()?;
        let before = place.names.replacements();
        let names = place.names.ask(&place.vnode, stored)?;
        let is_replaced = place.names.replacements() != before;
        if names.is_nothing() {
            let is_sure = !is_replaced && place.names.is_outdated(&place.vnode) == Ok(false);
            return Ok(Self { object: None, ends_search: false, is_sure });
        }
        if names.is_file() {
            return Ok(Self { object: Some(Reached::Other), ends_search: false, is_sure: true });
        }
        place.member.pace.time(|| Self::asked(place, stored, names))
    }

    fn asked(place: &Instance, stored: Name<'_>, names: Answer) -> Result<Self> {
        let found = if names.may_have_object { work::find(&place.vnode, stored)? } else { None };
        let object = match found {
            // It is the whiteout.
            Some(entry) if whiteout::is_device(&entry)? => {
                return Ok(Self { object: None, ends_search: true, is_sure: true });
            }
            Some(entry) if entry.attributes.is_directory() => Some(Reached::Directory(entry.vnode)),
            other => other.map(|_| Reached::Other),
        };
        // A whiteout beside an object hides the branches below it too.
        let ends_search = names.may_have_whiteout && whiteout::stands(&place.vnode, stored)?;
        if names.may_have_whiteout && !ends_search {
            place.names.has_missed();
        }
        Ok(Self { object, ends_search, is_sure: true })
    }
}

/// The objects of that name that a search from above reaches, up to a whiteout of the name, and that no moved directory needs;
/// and what else there may be. The instances are queried in parallel if that pays.
pub(crate) fn within_reach<'a>(places: &'a [Instance], stored: Name<'_>) -> (Vec<(&'a Instance, Reached)>, Leaves) {
    let (mut reached, mut leaves, mut is_whole) = (Vec::new(), Leaves::Nothing, true);
    let asked = stored.to_owned();
    // For a slow branch, validating the name cache costs a query of the directory's times.
    let is_needed = |_, place: &Instance| place.member.pace.is_slow() || !place.names.tell(stored);
    let answers = Answers::of(places, is_needed, move |_, place| Has::of(place, asked.as_name()));
    for (index, place) in places.iter().enumerate() {
        let has = answers.take(index, &Cancellation::default()).unwrap_or_else(|| Ok(Has::of(place, stored)));
        let Ok(Ok(has)) = has else {
            (leaves, is_whole) = (Leaves::Something, false);
            break;
        };
        if !has.is_sure {
            leaves = Leaves::Something;
        }
        reached.extend(has.object.map(|object| (place, object)));
        if has.ends_search {
            break;
        }
    }
    if keep_ends_of_directories(&mut reached, is_whole) {
        leaves = Leaves::Something;
    }
    (reached, leaves)
}

/// Takes out every object other than a directory that has a directory below it, or may have one if some instances could not be
/// queried: it may be part of a moved directory, which ends here. Returns whether there were any.
fn keep_ends_of_directories(reached: &mut Vec<(&Instance, Reached)>, is_whole: bool) -> bool {
    let is_directory = |(_, entry): &(&Instance, Reached)| matches!(entry, Reached::Directory(_));
    let all = reached.len();
    let end = if is_whole { reached.iter().rposition(is_directory).unwrap_or(0) } else { all };
    let mut index = 0;
    reached.retain(|entry| {
        index += 1;
        index > end || is_directory(entry)
    });
    reached.len() < all
}

/// Returns whether the directory has no entries that users could see.
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

/// Removes a directory that contains only marks; it disappears at once.
pub(crate) fn remove_own_directory(member: &Member, directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    match directory.rmdir_surely(&Caller::server(), stored) {
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
            let (server, work) = (Caller::server(), member.work.directory()?);
            let name = member.work.take(directory, stored)?;
            // Others cannot reach it here: anything they have put into it meanwhile has to stay.
            let taken = work.lookup(&server, name.as_name()).and_then(|taken| has_only_marks(&taken.vnode));
            if taken != Ok(true) {
                work.rename_surely(&server, name.as_name(), directory, stored, RenameMode::NoReplace)?;
                return Err(taken.err().unwrap_or(Errno::ENOTEMPTY));
            }
            member.work.discard(&name);
            Ok(())
        }
        result => result,
    }
}

impl Union {
    /// Copies a file with several names to a branch in which its names can be counted, before one of them is removed; returns
    /// whether it was not there yet.
    pub(crate) fn counts_names(&self, caller: &Caller, found: &Found, node: &Arc<Node>) -> Result<bool> {
        let is_counted = found.kind() == FileKind::Directory || self.branches.may_change(&found.instances[0].member);
        if is_counted || node.shown(found.attributes).nlink < 2 {
            return Ok(false);
        }
        match node.writable(caller, Extent::Nothing) {
            // No branch can have all its names: they are not counted.
            Err(Errno::EMLINK) => Ok(false),
            copied => copied.map(|_| true),
        }
    }
}
