//! Look-up of a name in the branches (Unionfs, section 3.2).

use std::sync::Arc;

use vnode::{Attributes, Caller, Entry, Errno, FileKind, Name, Result, VnodeRef};

use crate::union::branch::branches::Member;
use crate::union::branch::parallel::Answers;
use crate::union::branch::whiteout::{self, Marks};
use crate::union::cache::names::{self, ANYTHING};
use crate::union::identity::{self, Identity};
use crate::union::node::{Instance, NO_COUNT, Node, Whereabouts};
use crate::union::state::Union;

/// Number of misses after which the remaining branches are queried in parallel.
const MISSES_BEFORE_ALL: usize = 2;

/// Result of a search through the branches.
#[derive(Default)]
pub(crate) struct Search {
    /// The object found, if any.
    pub(crate) found: Option<Found>,
    /// The branch whose whiteout ended the search.
    pub(crate) whiteout: Option<Arc<Member>>,
}

/// An object in the branches.
#[derive(Clone)]
pub(crate) struct Found {
    /// Branch-set generation at which this result was computed.
    pub(crate) generation: u64,
    /// The object in each branch, leftmost first; more than one only for directories.
    pub(crate) instances: Vec<Instance>,
    /// Attributes of the leftmost instance; provisional if those of any instance are.
    pub(crate) attributes: Attributes,
    /// Whether it is a copy, and this name still leads to the original.
    pub(crate) is_borrowed: bool,
}

/// Result of querying one branch for a name.
enum Answer {
    Nothing,
    Whiteout,
    /// An object that ends the search.
    Object(Entry),
    /// A directory, which may be merged with others.
    Directory(Entry, Marks),
}

/// Query of one instance of a directory.
#[derive(Clone, Copy)]
struct Question {
    /// Whether this is the leftmost instance, which decides whether the caller may search the directory.
    is_first: bool,
    /// Whether there are lower instances.
    has_more: bool,
    /// Whether the instance is in the last of all branches.
    is_last: bool,
    /// Whether cached names are ignored.
    is_fresh: bool,
}

/// Sources of a search's results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The branches, and the cached names in them.
    KnownNames,
    /// The present state of the branches only.
    Branches,
}

impl By {
    /// Returns whether one of a directory's instances is known not to have a name. The leftmost is always queried.
    fn is_needless(self, place: &Instance, index: usize, stored: Name<'_>) -> bool {
        index > 0 && self == Self::KnownNames && place.names.excludes(stored)
    }
}

impl Question {
    /// Queries a name. The leftmost instance is queried as the caller, the others as the server.
    fn ask(self, place: &Instance, caller: &Caller, stored: Name<'_>) -> Result<Answer> {
        let names = if self.is_fresh { ANYTHING } else { place.names.ask(&place.vnode, stored)? };
        if !self.is_first && names.is_nothing() {
            return Ok(Answer::Nothing);
        }
        let server = Caller::server().cancelled_with(caller);
        let caller = if self.is_first { caller } else { &server };
        let answer = place.member.pace.time(|| self.ask_branch(place, caller, stored, names))?;
        if matches!(answer, Answer::Nothing) {
            place.member.has_nothing()?;
        }
        Ok(answer)
    }

    /// Queries a name, given what the name cache says about it.
    fn ask_branch(self, place: &Instance, caller: &Caller, stored: Name<'_>, names: names::Answer) -> Result<Answer> {
        let has_whiteout = || -> Result<bool> {
            let stands = names.may_have_whiteout && whiteout::stands(&place.vnode, stored)?;
            if names.may_have_whiteout && !stands {
                place.names.has_missed();
            }
            Ok(stands)
        };
        let entry = match place.vnode.lookup(caller, stored) {
            Err(Errno::ENOENT) if has_whiteout()? => return Ok(Answer::Whiteout),
            Err(Errno::ENOENT) => return Ok(Answer::Nothing),
            entry => entry?,
        };
        if whiteout::is_device(&entry)? {
            return Ok(Answer::Whiteout);
        }
        if !entry.attributes.is_directory() || self.is_last {
            return Ok(Answer::Object(entry));
        }
        // The root of another server's mount has no marks, and is not queried.
        let is_asked = !entry.attributes.is_provisional;
        let mut marks =
            if is_asked { place.member.marks.of(&entry.vnode, &entry.attributes)? } else { Marks::default() };
        if marks.is_doubtful {
            place.member.doubts(stored);
        }
        // A directory beside a whiteout hides the lower branches.
        marks.is_opaque |= marks.redirect.is_none() && self.has_more && has_whiteout()?;
        Ok(Answer::Directory(entry, marks))
    }
}

impl Found {
    /// Kind of the leftmost instance.
    pub(crate) fn kind(&self) -> FileKind {
        self.attributes.kind
    }

    /// Checks that the object can be removed, moved or replaced.
    ///
    /// # Errors
    /// `EBUSY` if another server is mounted on it in a branch; that server is not queried for its contents, because nobody
    /// could change the directory meanwhile.
    pub(crate) fn is_movable(&self) -> Result<()> {
        if self.attributes.is_provisional { Err(Errno::EBUSY) } else { Ok(()) }
    }
}

impl Union {
    /// Searches for a name in a directory with these instances. The leftmost is queried as the caller, whose permission to
    /// search the directory it decides; the others as the server.
    pub(crate) fn search(&self, directory: &[Instance], caller: &Caller, stored: Name<'_>) -> Result<Search> {
        // Others write to a view's branches too, and their changes are visible at once.
        if self.private.is_some() {
            return self.search_by(By::Branches, directory, caller, stored);
        }
        let replacements = || directory.iter().map(|place| place.names.replacements()).fold(0, u64::wrapping_add);
        let before = replacements();
        let search = self.search_by(By::KnownNames, directory, caller, stored)?;
        // That nothing is found must be true now, even if somebody else has just changed a branch; so must the instances of a
        // directory that was not known before: they are cached for longer than names are.
        let holders = match &search.found {
            None => &[][..],
            Some(found) if found.kind() == FileKind::Directory && !self.is_live(found)? => &found.instances,
            Some(_) => return Ok(search),
        };
        let is_replaced = replacements() != before;
        let is_outdated = are_outdated(directory, holders, caller)?;
        if is_replaced || is_outdated { self.search_by(By::Branches, directory, caller, stored) } else { Ok(search) }
    }

    /// A single pass of [`Union::search`].
    fn search_by(&self, by: By, directory: &[Instance], caller: &Caller, stored: Name<'_>) -> Result<Search> {
        let mut search = Search::default();
        let generation = self.branches.generation();
        let mut answers: Option<Answers<Result<Answer>>> = None;
        let mut in_vain = 0;
        for (index, place) in directory.iter().enumerate() {
            place.member.must_be_there()?;
            if by.is_needless(place, index, stored) {
                continue;
            }
            // A directory is queried in all branches, and a name that some branches lack is likely to be far down.
            let ask_all = search.found.is_some() || in_vain >= MISSES_BEFORE_ALL;
            if answers.is_none() && (ask_all || place.member.pace.is_slow()) {
                answers = Some(self.ask_ahead(by, directory, index, caller, stored, ask_all));
            }
            let answer = match answers.as_ref().and_then(|answers| answers.take(index, caller.cancellation())) {
                Some(answer) => answer?,
                None => self.question(by, directory, index).ask(place, caller, stored),
            };
            let judged = |error| place.member.judged(error);
            let (entry, marks) = match answer.map_err(judged)? {
                Answer::Nothing => {
                    in_vain += 1;
                    continue;
                }
                Answer::Whiteout => {
                    search.whiteout = Some(Arc::clone(&place.member));
                    break;
                }
                Answer::Object(entry) => (entry, None),
                Answer::Directory(entry, marks) => (entry, Some(marks)),
            };
            if search.found.is_some() && !entry.attributes.is_directory() {
                break;
            }
            let copy = if entry.attributes.is_directory() {
                None
            } else {
                self.shared_copy(&place.member, &entry).map_err(judged)?
            };
            let is_borrowed = copy.is_some();
            let (instance, Entry { attributes, .. }) = copy.unwrap_or_else(|| (place.with(&entry), entry));
            match &mut search.found {
                Some(found) => {
                    found.instances.push(instance);
                    found.attributes.is_provisional |= attributes.is_provisional;
                }
                None => {
                    search.found = Some(Found { generation, instances: vec![instance], attributes, is_borrowed });
                }
            }
            let Some(marks) = marks else { break };
            let is_elsewhere = self.rest_is_elsewhere(&directory[index..], marks.redirect, search.found.as_mut())?;
            if is_elsewhere || marks.is_opaque {
                break;
            }
        }
        Ok(search)
    }

    /// The query for one of a directory's instances.
    fn question(&self, by: By, directory: &[Instance], index: usize) -> Question {
        Question {
            is_first: index == 0,
            has_more: index + 1 < directory.len(),
            is_last: self.is_last(&directory[index].member),
            is_fresh: by == By::Branches,
        }
    }

    /// Queries the instances from a given one on in parallel: the slow ones, or all.
    fn ask_ahead(
        &self,
        by: By,
        directory: &[Instance],
        from: usize,
        caller: &Caller,
        stored: Name<'_>,
        all: bool,
    ) -> Answers<Result<Answer>> {
        let questions: Vec<Question> = (0..directory.len()).map(|index| self.question(by, directory, index)).collect();
        let is_needed = |index: usize, place: &Instance| {
            index >= from && (all || place.member.pace.is_slow()) && !by.is_needless(place, index, stored)
        };
        let of_helper = caller.cancellation().of_helper();
        let (caller, asked) = (caller.clone().cancelled_by(of_helper), stored.to_owned());
        Answers::of(directory, is_needed, move |index, place| questions[index].ask(place, &caller, asked.as_name()))
    }

    /// Finds the lower part of a directory that has been moved here. `places` are the instances of its parent, from this branch
    /// on.
    fn rest_is_elsewhere(
        &self,
        places: &[Instance],
        redirect: Option<Vec<u8>>,
        found: Option<&mut Found>,
    ) -> Result<bool> {
        let Some(path) = redirect else { return Ok(false) };
        let rest = self.search_rest(&path, &self.roots_right_of(&places[0].member), &places[1..])?;
        if let (Some(found), Some(rest)) = (found, rest)
            && rest.kind() == FileKind::Directory
        {
            self.table.has_moved_directory();
            found.instances.extend(rest.instances);
        }
        Ok(true)
    }

    /// Finds the lower part of a moved directory by its redirect: a path from these roots, or a sibling's name.
    pub(crate) fn search_rest(&self, path: &[u8], roots: &[Instance], beside: &[Instance]) -> Result<Option<Found>> {
        match path.strip_prefix(b"/") {
            Some(path) => self.search_path(roots, path),
            None => Ok(self.search(beside, &Caller::server(), Name::new(path)?)?.found),
        }
    }

    /// Returns whether this is the last branch.
    fn is_last(&self, member: &Arc<Member>) -> bool {
        self.branches.slots().last().is_some_and(|slot| Arc::ptr_eq(&slot.member, member))
    }

    /// Finds the object at a path of names as they are in the branches.
    pub(crate) fn search_path(&self, roots: &[Instance], path: &[u8]) -> Result<Option<Found>> {
        let server = Caller::server();
        let mut found: Option<Found> = None;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let directory = found.as_ref().map_or(roots, |found| &found.instances);
            match self.search(directory, &server, Name::new(name)?) {
                Ok(Search { found: Some(next), .. }) => found = Some(next),
                Ok(_) | Err(Errno::ENOTDIR) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Roots of the branches, as instances of the union's root.
    pub(crate) fn roots(&self) -> Vec<Instance> {
        self.branches.slots().iter().map(|slot| root_of(&slot.member)).collect()
    }

    /// Roots of the branches below a branch.
    pub(crate) fn roots_right_of(&self, member: &Member) -> Vec<Instance> {
        let slots = self.branches.slots();
        let from = self.branches.position(member).map_or(slots.len(), |position| position + 1);
        slots[from..].iter().map(|slot| root_of(&slot.member)).collect()
    }

    /// Returns whether the object found has a live vnode.
    fn is_live(&self, found: &Found) -> Result<bool> {
        let (identity, _) = self.identity(&found.instances, found.kind())?;
        Ok(self.table.find(&identity.handle).is_some())
    }

    /// The identity of an object with these instances, and the number of names that lead to its original if it is a copy. An
    /// object that claims the identity of a live one, and is another, has an identity of its own.
    pub(crate) fn identity(&self, instances: &[Instance], kind: FileKind) -> Result<(Identity, u32)> {
        let claimed = self.claimed_identity(instances, kind)?;
        match self.table.own_identity(&claimed.0, kind, instances) {
            Some(own) => Ok((self.fitting(own)?, NO_COUNT)),
            None => Ok(claimed),
        }
    }

    /// The identity that an object with these instances claims.
    pub(crate) fn claimed_identity(&self, instances: &[Instance], kind: FileKind) -> Result<(Identity, u32)> {
        if kind == FileKind::Directory {
            let oldest = instances.iter().min_by_key(|instance| instance.member.age()).ok_or(Errno::ESTALE)?;
            if oldest.member.work.has_copied_directories()
                && let Some((identity, _)) = self.brought(&oldest.vnode)?
            {
                return Ok((self.fitting(identity)?, NO_COUNT));
            }
            let native = Identity::native(&oldest.member.base, &oldest.vnode.handle(), oldest.ino)?;
            return Ok((self.fitting(native)?, NO_COUNT));
        }
        let instance = instances.first().ok_or(Errno::ESTALE)?;
        let Instance { member, vnode, ino, .. } = instance;
        let native = Identity::native(&member.base, &vnode.handle(), *ino)?;
        if !member.work.exists()
            || self.table.find(&native.handle).is_some_and(|node| node.leftmost().is_same(instance))
        {
            return Ok((self.fitting(native)?, NO_COUNT));
        }
        let (identity, names) = self.brought(vnode)?.unwrap_or((native, NO_COUNT));
        Ok((self.fitting(identity)?, names))
    }

    /// The stored origin of a copied object, if this union or one of the same branches stored it, and the number of names that
    /// lead to its original.
    pub(crate) fn brought(&self, object: &VnodeRef) -> Result<Option<(Identity, u32)>> {
        Ok(Identity::brought(object)?.filter(|(identity, _)| self.knows(identity)))
    }

    /// Returns whether the branch of an identity is known here by its tag.
    pub(crate) fn knows(&self, identity: &Identity) -> bool {
        identity::parts(&identity.handle).is_some_and(|(tag, _)| self.branches.is_known(tag, identity.branch))
    }
}

/// Returns whether somebody else may have changed one of a directory's instances since its names were cached, except for those
/// in the holders' branches. All are queried, slow ones in parallel.
fn are_outdated(directory: &[Instance], holders: &[Instance], caller: &Caller) -> Result<bool> {
    // An instance that has failed was not needed.
    let is_asked = |place: &Instance| {
        let is_believed = || holders.iter().any(|instance| Arc::ptr_eq(&instance.member, &place.member));
        !place.member.has_failed() && !is_believed()
    };
    let ask = |place: &Instance| place.names.is_outdated(&place.vnode);
    let is_needed = |_, place: &Instance| place.names.are_known() && is_asked(place);
    let answers = Answers::of_slow(directory, is_needed, move |_, place| ask(place));
    let mut is_outdated = false;
    for (index, place) in directory.iter().enumerate().filter(|(_, place)| is_asked(place)) {
        let outdated = answers.take(index, caller.cancellation()).unwrap_or_else(|| Ok(ask(place)))?;
        let outdated = outdated.map_err(|error| place.member.judged(error));
        is_outdated |= if place.member.has_failed() { true } else { outdated? };
    }
    Ok(is_outdated)
}

impl Instance {
    /// An object in this directory, as an instance.
    fn with(&self, entry: &Entry) -> Instance {
        Instance::new(&self.member, entry.vnode.clone(), entry.attributes.ino)
    }
}

/// Root of a branch, as an instance of the union's root.
pub(crate) fn root_of(member: &Arc<Member>) -> Instance {
    Instance::new(member, member.root.clone(), member.root_ino)
}

impl Node {
    /// Searches for a name as it is in the branches. The caller holds the lock.
    pub(crate) fn search(&self, caller: &Caller, stored: Name<'_>) -> Result<Search> {
        self.union.search(&self.instances(), caller, stored)
    }

    /// The vnode of an object found here by a name.
    pub(crate) fn found_node(self: &Arc<Self>, found: Found, stored: Name<'_>) -> Result<Arc<Node>> {
        let identity = self.identity_of(&found, stored)?;
        let place = (found.generation, found.instances.clone());
        Ok(self.union.table.find_or_insert(&self.union, identity, found.kind(), place))
    }

    /// Like [`Node::identity_of`], but prefers the identity that the live vnode had before the branches were changed.
    pub(crate) fn present_identity(&self, found: &Found, stored: Name<'_>) -> Result<Identity> {
        let (identity, _) = self.identity_of(found, stored)?;
        let table = &self.union.table;
        let live = if table.has_other_names() { table.find(&identity.handle) } else { None };
        Ok(live.map_or(identity, |node| node.identity))
    }

    /// The identity of an object found here by a name, and the number of names that lead to its original if it is a copy.
    fn identity_of(&self, found: &Found, stored: Name<'_>) -> Result<(Identity, u32)> {
        let (identity, names) = self.union.identity(&found.instances, found.kind())?;
        if found.kind() != FileKind::Directory {
            return Ok((identity, names));
        }
        Ok((self.union.fitting(self.identity_here(identity, &found.instances[0], stored)?)?, names))
    }

    /// The identity of a directory found here by a name, which claims this one. A directory that is also visible elsewhere gets
    /// another identity here, for example if two directories have the same location as their lower part: it would otherwise
    /// contain itself.
    fn identity_here(&self, claimed: Identity, leftmost: &Instance, stored: Name<'_>) -> Result<Identity> {
        let is_elsewhere = |identity: &Identity| match self.union.table.find(&identity.handle) {
            Some(live) => live.is_seen_elsewhere(self, stored),
            None => Ok(false),
        };
        if !is_elsewhere(&claimed)? {
            return Ok(claimed);
        }
        let native = Identity::native(&leftmost.member.base, &leftmost.vnode.handle(), leftmost.ino)?;
        // The other may consist only of the lower part, which is all that is here.
        Ok(if is_elsewhere(&native)? { claimed.of_place(&self.identity.handle, stored) } else { native })
    }

    /// Returns whether this directory, which was found by a name here, is still at another location.
    fn is_seen_elsewhere(&self, directory: &Node, stored: Name<'_>) -> Result<bool> {
        if self.is_root() {
            return Ok(true);
        }
        let Whereabouts::At(above) = self.whereabouts() else { return Ok(false) };
        if self.was_at(directory, stored) {
            return Ok(false);
        }
        match above.directory.search(&Caller::server(), above.stored.as_name()) {
            Ok(Search { found: Some(found), .. }) => Ok(self.is_in(&found.instances)),
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The vnode of an object found here. The caller holds the lock.
    pub(crate) fn child(self: &Arc<Self>, found: Found, stored: Name<'_>) -> Result<Arc<Node>> {
        let child = self.found_node(found, stored)?;
        child.is_at(self, stored);
        Ok(child)
    }

    /// Searches for a name and its vnode, as a hint: both may be outdated at once.
    pub(crate) fn look(self: &Arc<Self>, caller: &Caller, stored: Name<'_>) -> Result<(Search, Option<Arc<Node>>)> {
        let _names = self.shared();
        let search = self.search(caller, stored)?;
        let node = search.found.clone().map(|found| self.child(found, stored)).transpose()?;
        Ok((search, node))
    }

    /// Looks up a name on behalf of users.
    pub(crate) fn look_up(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        self.only_directory()?;
        let stored = whiteout::stored(name)?;
        let stored = Name::new(&stored)?;
        let _names = self.shared();
        if let Ok(Some((node, attributes))) = self.recent(caller, stored) {
            return Ok(node.entry(attributes));
        }
        let found = self.search(caller, stored)?.found.ok_or(Errno::ENOENT)?;
        let attributes = found.attributes;
        let child = self.child(found, stored)?;
        Ok(child.entry(attributes))
    }
}
