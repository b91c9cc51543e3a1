//! Removal of names (Unionfs, section 3.5): a name that shadows objects in lower branches is replaced by a whiteout.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{AccessMode, Attributes, Caller, Cancellation, Errno, FileKind, Name, RenameMode, Result, VnodeRef};

use super::permission::check_removal;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::identity::UNCOUNTED_NAMES;
use crate::union::branch::objects;
use crate::union::branch::objects::sync_directory;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout::{self, EntryMeaning};
use crate::union::branch::write_order::are_unordered;
use crate::union::cache::names::NamePresence;
use crate::union::copy_up::extent::DataExtent;
use crate::union::lookup::parallel::ParallelQueries;
use crate::union::lookup::search::{LookupResult, SearchResult};
use crate::union::settings::DeletionPolicy;
use crate::union::state::guards::NameChanges;
use crate::union::state::instance::{Instance, instances_from};
use crate::union::state::{Node, Union};

/// Maximum number of attempts if the object to be removed changes meanwhile.
const MAX_ATTEMPTS: usize = 16;

impl Node {
    /// Removes a name of anything but a directory.
    pub(crate) fn unlink_name(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let is_file = |kind| if kind == FileKind::Directory { Err(Errno::EISDIR) } else { Ok(()) };
        self.remove(caller, name, is_file, |removal| {
            let NameRemoval { found, directory, stored, .. } = *removal;
            if removal.is_recorded_higher {
                self.check_removal_permission(caller, directory, &found.attributes)?;
                return removal.hide(self);
            }
            let mut reveals_lower = removal.reveals_lower(self)?;
            if reveals_lower {
                self.check_removal_permission(caller, directory, &found.attributes)?;
                if self.union.settings.deletion == DeletionPolicy::All {
                    reveals_lower =
                        removal.remove_lower(self) == Remainder::Something && removal.reveals_lower(self)?;
                }
            }
            if !reveals_lower {
                return directory.unlink_verified(caller, stored);
            }
            self.remove_and_hide(removal, || directory.unlink_verified(caller, stored))
        })
    }

    /// Removes a directory in which users see nothing.
    pub(crate) fn remove_directory(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let is_directory = |kind| if kind == FileKind::Directory { Ok(()) } else { Err(Errno::ENOTDIR) };
        self.remove(caller, name, is_directory, |removal| {
            let NameRemoval { found, directory, stored, .. } = *removal;
            self.check_removal_permission(caller, directory, &found.attributes)?;
            let node = self.node_of(found.clone(), stored)?;
            let _names = node.write_guard();
            if !node.is_visibly_empty()? {
                return Err(Errno::ENOTEMPTY);
            }
            if removal.is_recorded_higher {
                return removal.hide(self);
            }
            let remove_own = || remove_marked_directory(&found.instances[0].member, directory, stored);
            if !removal.reveals_lower(self)? {
                return remove_own();
            }
            if whiteout::can_be_beside(stored, self.union.settings.whiteouts) {
                node.record_location(self, stored);
                node.keep_lower_part(caller, &found.instances[0].member)?;
            }
            self.remove_and_hide(removal, remove_own)?;
            if self.union.settings.deletion == DeletionPolicy::All
                && (removal.remove_lower(self) == Remainder::Nothing || removal.reveals_lower(self) == Ok(false))
            {
                // A whiteout that is no longer needed may stay.
                let _ = whiteout::remove_any(directory, stored);
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
        remove: impl Fn(&NameRemoval<'_>) -> Result<()>,
    ) -> Result<()> {
        self.require_directory()?;
        let stored = whiteout::stored_name(name)?;
        let stored = Name::new(&stored)?;
        for _ in 0..MAX_ATTEMPTS {
            let seen = self.change_count();
            let (before, node) = match self.search_node(caller, stored)? {
                (SearchResult { found: Some(found), .. }, Some(node)) => (found, node),
                _ => return Err(Errno::ENOENT),
            };
            before.check_movable()?;
            self.check_remove_name_if_copied(caller, &before.attributes)?;
            // Nothing is copied for an operation that is refused; the lack of permission is reported first.
            is_of_kind(before.kind())
                .or_else(|refusal| self.check_remove_name(caller, &before.attributes).and(Err(refusal)))?;
            if before.is_copied_under_other_name {
                self.link_up(caller, &before, &node, stored)?;
                continue;
            }
            let leftmost = &before.instances[0];
            if self.union.ensure_names_counted(caller, &before, &node)? {
                continue;
            }
            let is_recorded_higher = !self.union.branches.may_change(&leftmost.member);
            if is_recorded_higher && before.attributes.is_immutable() {
                return Err(Errno::EPERM);
            }
            let member = if is_recorded_higher {
                self.branch_of_whiteout(&leftmost.member)?
            } else {
                Arc::clone(&leftmost.member)
            };
            let directory = &match self.directory_for_change(caller, &member) {
                // It has just been moved to where it cannot be in that branch.
                Err(Errno::EXDEV) => continue,
                placed => placed?,
            };
            let is_thorough = self.union.settings.deletion == DeletionPolicy::All;
            let names = [stored];
            let _names =
                self.write_guard_for(NameChanges::Names(&names, if is_thorough { None } else { Some(&member) }));
            let (found, node) = if self.change_count() == seen {
                (before, node)
            } else {
                let Some(found) = self.search(caller, stored)?.found else { return Err(Errno::ENOENT) };
                if found.is_copied_under_other_name || !Arc::ptr_eq(&found.instances[0].member, &leftmost.member) {
                    // It has been copied meanwhile.
                    continue;
                }
                is_of_kind(found.kind())?;
                let node = self.node_of(found.clone(), stored)?;
                (found, node)
            };
            let instances = self.instances();
            let Some([_, lower @ ..]) = instances_from(&instances, &found.instances[0].member) else { continue };
            let has_original_names = !matches!(node.original_names.load(Ordering::Relaxed), 0 | UNCOUNTED_NAMES);
            let (found, member) = (&found, &*member);
            let removal =
                NameRemoval { found, lower, directory, member, stored, is_recorded_higher, has_original_names };
            remove(&removal)?;
            if is_recorded_higher {
                node.is_hidden.store(true, Ordering::Relaxed);
                if is_thorough {
                    removal.remove_lower(self);
                }
            }
            self.touch_leftmost(member);
            node.record_name_removed(self, stored);
            node.record_lost_name();
            return Ok(());
        }
        Err(Errno::EAGAIN)
    }

    /// Removes the object of that name and leaves a whiteout.
    fn remove_and_hide(&self, removal: &NameRemoval<'_>, remove: impl FnOnce() -> Result<()>) -> Result<()> {
        let NameRemoval { found, directory, stored, .. } = *removal;
        if !whiteout::can_be_beside(stored, self.union.settings.whiteouts) {
            match found.instances[0].member.work.replace_by_device(directory, stored) {
                Err(error) if whiteout::is_unsupported(error) => {}
                done => return done,
            }
        }
        let is_new = removal.member.whiteouts.add_file(directory, stored)?;
        remove().inspect_err(|_| {
            // The object is visible beside its whiteout, which does no harm then; a whiteout that was there before has its
            // reasons.
            if is_new && still_leads_to(directory, stored, &found.instances[0].vnode) {
                let _ = whiteout::remove(directory, stored);
            }
        })
    }

    /// The branch that receives the whiteouts of objects in `member`.
    fn branch_of_whiteout(self: &Arc<Self>, member: &BranchMember) -> Result<Arc<BranchMember>> {
        let position = self.union.branches.position(member).ok_or(Errno::ESTALE)?;
        self.nearest_branch(position)
    }

    /// Checks that the caller may remove a name of an object with these attributes, as the branch would.
    pub(crate) fn check_removal_permission(
        &self,
        caller: &Caller,
        directory: &VnodeRef,
        victim: &Attributes,
    ) -> Result<()> {
        let both = AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits());
        check_removal(caller, &directory.getattr(caller)?, victim, || match caller.is_superuser() {
            true => Ok(()),
            false => directory.access(caller, both),
        })
    }
}

/// Returns whether a name still leads to the object; also `true` on errors, since a whiteout does not hide the object beside
/// it.
fn still_leads_to(directory: &VnodeRef, stored: Name<'_>, object: &VnodeRef) -> bool {
    match directory.lookup(&Caller::server(), stored) {
        Ok(entry) => entry.vnode.handle() == object.handle(),
        Err(error) => error != Errno::ENOENT,
    }
}

/// Minimum number of removals for which a helper is worth waking.
const MIN_HELPED_REMOVALS: usize = 4;

/// A removal, and where it is recorded.
struct NameRemoval<'a> {
    found: &'a LookupResult,
    /// Instances of the directory below the one that has the leftmost object.
    lower: &'a [Instance],
    /// The directory in the branch that records the removal: that of the leftmost object, or a higher one.
    directory: &'a VnodeRef,
    /// The branch that records the removal.
    member: &'a BranchMember,
    stored: Name<'a>,
    is_recorded_higher: bool,
    /// Whether it is a copy, and names of the original still lead to it: one of those may be removed in a lower branch only if
    /// it is the last.
    has_original_names: bool,
}

/// Objects that remain at a name after a removal.
#[derive(PartialEq, Eq)]
pub(crate) enum Remainder {
    Nothing,
    /// Possibly something.
    Something,
}

impl NameRemoval<'_> {
    /// Returns whether the removal would reveal an object of a lower branch.
    fn reveals_lower(&self, directory: &Node) -> Result<bool> {
        if self.lower.is_empty() {
            return Ok(false);
        }
        match directory.union.search(self.lower, &Caller::server(), self.stored) {
            // Possibly, in a branch that has failed: an unnecessary whiteout does no harm.
            Err(Errno::EIO) if self.lower.iter().any(|instance| instance.member.has_failed()) => Ok(true),
            search => Ok(search?.found.is_some()),
        }
    }

    /// Leaves nothing but a whiteout.
    fn hide(&self, directory: &Node) -> Result<()> {
        self.member.whiteouts.hide(self.directory, self.stored, directory.union.settings.whiteouts)
    }

    /// Removes what may be removed of the name in lower branches, in parallel. Invisible to users: what stays is hidden.
    fn remove_lower(&self, directory: &Node) -> Remainder {
        let (reached, mut leaves) = reachable_objects(self.lower, self.stored);
        let all = reached.len();
        let mut hidden: Vec<(Instance, ReachedObject)> =
            reached.into_iter().map(|(instance, entry)| (instance.clone(), entry)).collect();
        hidden.retain(|(instance, entry)| {
            let may_be_original = self.has_original_names && matches!(entry, ReachedObject::Other);
            directory.union.branches.may_change(&instance.member) && !may_be_original
        });
        if hidden.len() < all {
            leaves = Remainder::Something;
        }
        let count = hidden.len();
        let (kind, instances, stored) = (self.found.kind(), self.found.instances.clone(), self.stored.to_owned());
        let is_unordered =
            |instance: &Instance| are_unordered((&instance.member, &instance.vnode), (self.member, self.directory));
        let unordered: Vec<bool> = hidden.iter().map(|(instance, _)| is_unordered(instance)).collect();
        let remove = move |index: usize| {
            let (instance, entry) = &hidden[index];
            let is_removed = remove_at(instance, entry, kind, &instances, stored.as_name())?;
            if is_removed && unordered[index] {
                // The object that hides it may be removed next, and that removal must not reach the disk first.
                sync_directory(&instance.vnode)?;
            }
            Ok::<bool, Errno>(is_removed)
        };
        let remove = Arc::new(remove);
        let shared_remove = Arc::clone(&remove);
        let removed = ParallelQueries::start_many(count, MIN_HELPED_REMOVALS, move |index| shared_remove(index));
        for index in 0..count {
            // An error is treated like a read-only branch.
            if removed.take(index, &Cancellation::default()).unwrap_or_else(|| Ok(remove(index))) != Ok(Ok(true)) {
                leaves = Remainder::Something;
            }
        }
        leaves
    }
}

/// Removes a branch's object of that name, if it is of the same kind as the object found, which has these instances; returns
/// whether it did.
fn remove_at(
    place: &Instance,
    entry: &ReachedObject,
    kind: FileKind,
    instances: &[Instance],
    stored: Name<'_>,
) -> Result<bool> {
    match entry {
        ReachedObject::Directory(vnode) if kind == FileKind::Directory => {
            // Another directory of that name may be part of a moved one.
            let is_part = |instance: &Instance| instance.is_object(&place.member, vnode);
            if !instances.iter().any(is_part) || !has_only_marks(vnode)? {
                return Ok(false);
            }
            remove_marked_directory(&place.member, &place.vnode, stored)?;
        }
        ReachedObject::Other if kind != FileKind::Directory => {
            place.vnode.unlink_verified(&Caller::server(), stored)?
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A branch's object of a name.
pub(crate) enum ReachedObject {
    Directory(VnodeRef),
    /// Anything else except whiteouts.
    Other,
}

/// Contents of one instance of a directory at a name.
struct NameContents {
    object: Option<ReachedObject>,
    /// Whether a search from above ends here.
    ends_search: bool,
    /// Whether nobody else can just have put something there.
    is_sure: bool,
}

impl NameContents {
    /// Queries the instance for what is not known.
    fn of(instance: &Instance, stored: Name<'_>) -> Result<Self> {
        instance.member.verify_absence()?;
        let before = instance.names.replacements();
        let names = instance.names.query(&instance.vnode, stored)?;
        if names.is_absent() {
            let is_current = instance.names.is_outdated(&instance.vnode) == Ok(false);
            // Asked last: a cache that another thread has dropped meanwhile is not outdated.
            let is_sure = is_current && instance.names.replacements() == before;
            return Ok(Self { object: None, ends_search: false, is_sure });
        }
        if names.is_file() {
            return Ok(Self { object: Some(ReachedObject::Other), ends_search: false, is_sure: true });
        }
        instance.member.latency.measure(|| Self::query_branch(instance, stored, names))
    }

    fn query_branch(instance: &Instance, stored: Name<'_>, names: NamePresence) -> Result<Self> {
        let found = if names.may_have_object { objects::find(&instance.vnode, stored)? } else { None };
        let object = match found {
            // It is the whiteout.
            Some(entry) if whiteout::is_whiteout_device(&entry)? => {
                return Ok(Self { object: None, ends_search: true, is_sure: true });
            }
            Some(entry) if entry.attributes.is_directory() => Some(ReachedObject::Directory(entry.vnode)),
            other => other.map(|_| ReachedObject::Other),
        };
        // A whiteout beside an object hides the branches below it too.
        let ends_search = names.may_have_whiteout && whiteout::has_whiteout_file(&instance.vnode, stored)?;
        if names.may_have_whiteout && !ends_search {
            instance.names.record_miss();
        }
        Ok(Self { object, ends_search, is_sure: true })
    }
}

/// The objects of that name that a search from above reaches, up to a whiteout of the name, and that no moved directory needs;
/// and what else there may be. The instances are queried in parallel if that pays.
pub(crate) fn reachable_objects<'a>(
    instances: &'a [Instance],
    stored: Name<'_>,
) -> (Vec<(&'a Instance, ReachedObject)>, Remainder) {
    let (mut reached, mut leaves, mut is_whole) = (Vec::new(), Remainder::Nothing, true);
    let asked = stored.to_owned();
    // For a slow branch, validating the name cache costs a query of the directory's times.
    let is_needed = |_, instance: &Instance| instance.member.latency.is_slow() || !instance.names.is_conclusive(stored);
    let answers =
        ParallelQueries::start(instances, is_needed, move |_, instance| NameContents::of(instance, asked.as_name()));
    for (index, instance) in instances.iter().enumerate() {
        let has =
            answers.take(index, &Cancellation::default()).unwrap_or_else(|| Ok(NameContents::of(instance, stored)));
        let Ok(Ok(has)) = has else {
            (leaves, is_whole) = (Remainder::Something, false);
            break;
        };
        if !has.is_sure {
            leaves = Remainder::Something;
        }
        reached.extend(has.object.map(|object| (instance, object)));
        if has.ends_search {
            break;
        }
    }
    if drop_directory_ends(&mut reached, is_whole) {
        leaves = Remainder::Something;
    }
    (reached, leaves)
}

/// Takes out every object other than a directory that has a directory below it, or may have one if some instances could not be
/// queried: it may be part of a moved directory, which ends here. Returns whether there were any.
fn drop_directory_ends(reached: &mut Vec<(&Instance, ReachedObject)>, is_whole: bool) -> bool {
    let is_directory = |(_, entry): &(&Instance, ReachedObject)| matches!(entry, ReachedObject::Directory(_));
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
    for (name, kind) in objects::entries(directory)? {
        if !matches!(whiteout::meaning(name.as_bytes()), EntryMeaning::Object(_)) {
            continue;
        }
        let may_be_device = matches!(kind, None | Some(FileKind::CharacterDevice));
        if !may_be_device || !whiteout::is_whiteout_device(&directory.lookup(&server, name.as_name())?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a directory that contains only marks; it disappears at once.
pub(crate) fn remove_marked_directory(member: &BranchMember, directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    match directory.rmdir_verified(&Caller::server(), stored) {
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
            let (server, work) = (Caller::server(), member.work.directory()?);
            let name = member.work.stash(directory, stored)?;
            // Others cannot reach it here: anything they have put into it meanwhile has to stay.
            let taken = work.lookup(&server, name.as_name()).and_then(|taken| has_only_marks(&taken.vnode));
            if taken != Ok(true) {
                work.rename_verified(&server, name.as_name(), directory, stored, RenameMode::NoReplace)?;
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
    pub(crate) fn ensure_names_counted(&self, caller: &Caller, found: &LookupResult, node: &Arc<Node>) -> Result<bool> {
        let is_counted = found.kind() == FileKind::Directory || self.branches.may_change(&found.instances[0].member);
        if is_counted || node.visible_attributes(found.attributes).nlink < 2 {
            return Ok(false);
        }
        match node.writable_within(caller, DataExtent::Nothing, usize::MAX) {
            // No branch can have all its names: they are not counted.
            Err(Errno::EMLINK) => Ok(false),
            copied => copied.map(|_| true),
        }
    }
}
