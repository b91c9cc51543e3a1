//! Taking names away (Unionfs, section 3.5): what is in the way of a branch on the right is hidden by a whiteout.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{AccessMode, Attributes, Caller, Cancellation, Errno, FileKind, Name, RenameMode, Result, VnodeRef};

use super::branches::Member;
use super::copy_up::Extent;
use super::durable::{are_apart, sync_directory};
use super::lookup::{Found, Search};
use super::names::Answer;
use super::node::{Changes, Instance, NO_COUNT, Node, starting_with};
use super::parallel::Answers;
use super::refusal::take_away;
use super::settings::Deletion;
use super::sure::Sure;
use super::whiteout::{self, Meaning};
use super::{Union, work};

/// How often what is to be removed may change before we give up.
const ATTEMPTS: usize = 16;

impl Node {
    /// Takes the name of anything but a directory away.
    pub(super) fn unlink_name(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
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
    pub(super) fn remove_directory(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
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
                // What is not needed any more may stay.
                let _ = whiteout::lift(directory, stored);
            }
            Ok(())
        })
    }

    /// Finds what has the name, which has to be of a kind, and where its removal is to be noted, and removes it.
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
            // Nothing is copied for what is refused; who may not remove it is told that first.
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

    /// Removes what has the name and leaves a whiteout.
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
            // It is seen beside its whiteout, which is in nobody's way then; one that stood there before has its reasons.
            if is_new && is_there(directory, stored, &found.instances[0].vnode) {
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
        let both = AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits());
        take_away(caller, &directory.getattr(caller)?, victim, || match caller.is_superuser() {
            true => Ok(()),
            false => directory.access(caller, both),
        })
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
    /// It is a copy that names of the original still lead to: one of those may be removed on the right only if it is the last.
    has_names_on_the_right: bool,
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

/// What one of the places has by a name.
struct Has {
    object: Option<Reached>,
    /// A search that comes from the left ends here.
    ends_search: bool,
    /// Nobody else can just have put something there.
    is_sure: bool,
}

impl Has {
    /// Asks the place, as far as it is not known.
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
        // One that stands beside an object hides what is on the right of that, too.
        let ends_search = names.may_have_whiteout && whiteout::stands(&place.vnode, stored)?;
        if names.may_have_whiteout && !ends_search {
            place.names.has_missed();
        }
        Ok(Self { object, ends_search, is_sure: true })
    }
}

/// What the places have by the name that a search from the left comes to, up to a whiteout of the name, and that no moved
/// directory needs; and what there is beside that. The places are asked at once where that pays.
pub(super) fn within_reach<'a>(places: &'a [Instance], stored: Name<'_>) -> (Vec<(&'a Instance, Reached)>, Leaves) {
    let (mut reached, mut leaves, mut is_whole) = (Vec::new(), Leaves::Nothing, true);
    let asked = stored.to_owned();
    // What is known of a slow one costs a question for its times.
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

/// Takes out what is no directory and has one on its right, or may have one where not all places could be asked: that may be
/// part of a directory that was moved, which ends here. Whether there was such.
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
            let (server, work) = (Caller::server(), member.work.directory()?);
            let name = member.work.take(directory, stored)?;
            // Out of reach of others: what they have put in meanwhile has to stay.
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
