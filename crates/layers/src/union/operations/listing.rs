//! Directory reading (Unionfs, section 3.3): the names of all branches, each once, without the hidden ones.
//!
//! A directory of one branch is read as that branch returns it. One of several branches is collected completely, in an order of
//! its own: by the hashes of the names, which serve as cookies. So a reader can resume anywhere, even after a restart, and
//! names that are created or removed do not shift others.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::hash_table::Entry;
use hashbrown::{HashSet, HashTable};
use vnode::profile::Part;
use vnode::{
    Caller, Cancellation, Cookie, DirectoryEntry, Errno, FileKind, InodeNumber, Name, NameBuf, OpenDirectory,
    OpenDirectoryRef, Result,
};

use crate::union::branch::encoding::hash;
use crate::union::branch::identity::tagged_ino;
use crate::union::branch::whiteout::{self, EntryMeaning};
use crate::union::cache::names::{DirectoryScan, DirectoryTimes, cache_key, may_be_device};
use crate::union::lookup::parallel::ParallelQueries;
use crate::union::settings::NAME;
use crate::union::state::Node;
use crate::union::state::instance::Instance;

/// An open directory.
pub(crate) struct DirectoryListing {
    node: Arc<Node>,
    /// The leftmost instance when the directory was opened, as the caller.
    instance: Instance,
    leftmost: OpenDirectoryRef,
    /// Whether the directory was merged when this pass began: it may come to be in several branches.
    is_merged: AtomicBool,
    merged: Mutex<Option<Arc<[MergedEntry]>>>,
}

/// An entry of a directory of several branches.
struct MergedEntry {
    cookie: Cookie,
    name: NameBuf,
    ino: InodeNumber,
    kind: Option<FileKind>,
}

/// Inode number and kind that users see; `None` for a whiteout.
type VisibleEntry = Option<(InodeNumber, Option<FileKind>)>;

impl DirectoryListing {
    pub(crate) fn open(node: Arc<Node>, caller: &Caller) -> Result<Self> {
        node.require_directory()?;
        let instance = node.leftmost();
        instance.member.require_available()?;
        let leftmost = instance.vnode.open_directory(caller)?;
        let is_merged = AtomicBool::new(node.instances().len() > 1);
        Ok(Self { node, instance, leftmost, is_merged, merged: Mutex::default() })
    }

    fn read_single(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let _names = self.node.read_guard();
        let instance = std::slice::from_ref(&self.instance);
        self.instance.member.require_available()?;
        let (mut failed, mut is_over) = (Ok(()), true);
        let read = self.leftmost.read(caller, cookie, &mut |entry| {
            is_over = false;
            let EntryMeaning::Object(shown) = whiteout::meaning(entry.name.as_bytes()) else {
                return ControlFlow::Continue(());
            };
            let Ok(name) = Name::new(&shown) else { return ControlFlow::Continue(()) };
            let as_listed = (tagged_ino(self.instance.member.base.numbers.tag, entry.ino), entry.kind);
            let seen = match self.node.is_visible_as_listed(instance, entry.kind) {
                true => Ok(Some(as_listed)),
                false => self.node.visible_entry(instance, entry.name),
            };
            match or_listed(seen, as_listed) {
                Ok(Some((ino, kind))) => sink(DirectoryEntry { name, ino, kind, cookie: entry.cookie }),
                // Removed meanwhile, or hidden.
                Ok(None) | Err(Errno::ENOENT | Errno::ESTALE) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Err(error);
                    ControlFlow::Break(())
                }
            }
        });
        if is_over || read.is_err() {
            // A removed directory has no entries and no valid positions.
            self.instance.member.verify_absence()?;
        }
        read.map_err(|error| self.instance.member.reported_error(error)).and(failed)
    }

    /// The entries from now on, or those collected at the start of this pass.
    fn merged(&self, caller: &Caller, from_start: bool) -> Result<Arc<[MergedEntry]>> {
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        match &*merged {
            Some(items) if !from_start => Ok(Arc::clone(items)),
            _ => {
                let items: Arc<[MergedEntry]> = self.merge_entries(caller)?.into();
                *merged = Some(Arc::clone(&items));
                Ok(items)
            }
        }
    }

    fn merge_entries(&self, caller: &Caller) -> Result<Vec<MergedEntry>> {
        let _names = self.node.read_guard();
        Ok(self.node.merge_entries(Some((&self.instance, &self.leftmost)), caller.cancellation())?.into_items())
    }
}

impl Node {
    /// Returns whether users see nothing in this directory. The caller holds the lock.
    pub(crate) fn is_visibly_empty(self: &Arc<Self>) -> Result<bool> {
        Ok(self.merge_entries(None, &Cancellation::default())?.items.is_empty())
    }

    /// The entries that users see in this directory, an instance of which may already be open. The caller holds the lock.
    fn merge_entries(
        self: &Arc<Self>,
        opened: Option<(&Instance, &OpenDirectoryRef)>,
        cancellation: &Cancellation,
    ) -> Result<EntryMerge> {
        let instances = self.instances();
        instances.iter().try_for_each(|instance| instance.member.require_available())?;
        let own = opened.and_then(|(instance, opened)| {
            Some((instances.iter().position(|known| known.is_same(instance))?, Arc::clone(opened)))
        });
        let list = move |reader: &Caller, index: usize, instance: &Instance| {
            let opened = own.as_ref().filter(|(own, _)| *own == index).map(|(_, opened)| Arc::clone(opened));
            instance.member.latency.measure(|| BranchListing::read(reader, instance, opened))
        };
        let reader = Caller::server().cancelled_by(cancellation.clone());
        let (of_helper, by_others) = (reader.clone().cancelled_by(cancellation.of_helper()), list.clone());
        let answers = ParallelQueries::start(
            &instances,
            |_, _| true,
            move |index, instance| by_others(&of_helper, index, instance),
        );
        let mut listed = Vec::with_capacity(instances.len());
        for (index, instance) in instances.iter().enumerate() {
            let read = answers.take(index, cancellation);
            let read = read.unwrap_or_else(|| Ok(list(&reader, index, instance)))?;
            listed.push(read.map_err(|error| instance.member.reported_error(error))?);
        }
        let mut entry_merge = EntryMerge::default();
        for (index, entries) in listed.iter().enumerate() {
            let (places, tag) = (&instances[index..], instances[index].member.base.numbers.tag);
            for (entry, stored) in entries.iter() {
                entry_merge.add(
                    entry,
                    stored,
                    tagged_ino(tag, entry.ino),
                    self.is_visible_as_listed(places, entry.kind),
                );
            }
            if !entry_merge.unknown.is_empty() {
                let (stored, shown): (Vec<_>, Vec<_>) = std::mem::take(&mut entry_merge.unknown).into_iter().unzip();
                for (ListedAs { name, ino, kind }, seen) in shown.into_iter().zip(self.visible_entries(places, stored))
                {
                    match or_listed(seen, (ino, kind))? {
                        Some((ino, kind)) => entry_merge.insert(name, ino, kind),
                        None => entry_merge.hidden_here.push(name),
                    }
                }
            }
            let hidden_here = std::mem::take(&mut entry_merge.hidden_here);
            entry_merge.hidden.extend(hidden_here);
        }
        Ok(entry_merge)
    }

    /// Returns whether users see an entry of that kind in the first of these instances exactly as it is listed there.
    fn is_visible_as_listed(self: &Arc<Self>, instances: &[Instance], kind: Option<FileKind>) -> bool {
        let (union, member) = (&self.union, &instances[0].member);
        match kind {
            // It may be a whiteout.
            None | Some(FileKind::CharacterDevice) => false,
            // The lower part of a moved directory may have been there before it.
            Some(FileKind::Directory) => {
                union.identities_follow_locations()
                    && !member.work.has_copied_directories()
                    && union.branches.position(member) == Some(union.branches.slots().len() - 1)
            }
            _ => !member.work.was_written(),
        }
    }

    /// User-visible inode number and kind for each of these names, as returned by [`Node::visible_entry`].
    fn visible_entries(
        self: &Arc<Self>,
        instances: &[Instance],
        stored: Vec<NameBuf>,
    ) -> impl Iterator<Item = Result<VisibleEntry>> {
        let (node, instances, stored): (_, Arc<[Instance]>, Arc<[NameBuf]>) =
            (Arc::clone(self), instances.into(), stored.into());
        let count = stored.len();
        let see = move |index: usize| node.visible_entry(&instances, stored[index].as_name());
        let answers = ParallelQueries::start_many(count, 2, see.clone());
        (0..count).map(move |index| answers.take(index, &Cancellation::default()).unwrap_or_else(|| Ok(see(index)))?)
    }

    /// Inode number and kind that users see for the first of these instances' object of a name; `None` for a whiteout. The
    /// caller holds the lock.
    fn visible_entry(self: &Arc<Self>, places: &[Instance], stored: Name<'_>) -> Result<VisibleEntry> {
        let search = self.union.search(places, &Caller::server(), stored)?;
        let Some(found) = search.found else { return Ok(None) };
        let kind = found.kind();
        if kind == FileKind::Directory && found.instances.len() > 1 {
            let node = self.child(found, stored)?;
            let ino = node.identity.ino;
            self.cache_recent(stored, node);
            return Ok(Some((ino, Some(kind))));
        }
        Ok(Some((self.present_identity(&found, stored)?.ino, Some(kind))))
    }
}

/// User-visible form of an entry after its look-up; as listed, if the server may read the directory but not search it.
fn or_listed(seen: Result<VisibleEntry>, as_listed: (InodeNumber, Option<FileKind>)) -> Result<VisibleEntry> {
    if seen == Err(Errno::EACCES) { Ok(Some(as_listed)) } else { seen }
}

/// One branch's entries in the directory, with all names in one buffer.
#[derive(Default)]
struct BranchListing {
    entries: Vec<ListedEntry>,
    names: Vec<u8>,
    /// Whether there are names of the form of whiteouts and marks.
    has_marks: bool,
}

struct ListedEntry {
    name_length: usize,
    /// Hash of the name.
    hashed: u64,
    ino: InodeNumber,
    kind: Option<FileKind>,
}

impl BranchListing {
    /// Reads a whole directory, which may already be open. The caller holds the lock.
    fn read(reader: &Caller, instance: &Instance, opened: Option<OpenDirectoryRef>) -> Result<Self> {
        let opened = opened.map_or_else(|| instance.vnode.open_directory(reader), Ok)?;
        let times = DirectoryTimes::of(&instance.vnode.getattr(reader)?);
        let mut listed = Self::default();
        opened.read(reader, Cookie::START, &mut |entry| listed.push(&entry))?;
        if listed.entries.is_empty() {
            // A removed directory has no entries.
            instance.member.verify_absence()?;
        }
        instance.names.fill_from(DirectoryScan {
            names: listed.entries.iter().map(|entry| cache_key(entry.hashed, entry.kind)),
            has_whiteouts: listed.has_marks,
            has_devices: listed.entries.iter().any(|entry| may_be_device(entry.kind)),
            times,
        });
        Ok(listed)
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> ControlFlow<()> {
        let name = entry.name.as_bytes();
        self.has_marks |= whiteout::is_special(name);
        self.entries.push(ListedEntry {
            name_length: name.len(),
            hashed: hash(name),
            ino: entry.ino,
            kind: entry.kind,
        });
        self.names.extend_from_slice(name);
        ControlFlow::Continue(())
    }

    fn iter(&self) -> impl Iterator<Item = (&ListedEntry, Name<'_>)> {
        let mut rest = self.names.as_slice();
        self.entries.iter().filter_map(move |entry| {
            let (name, after) = rest.split_at(entry.name_length);
            rest = after;
            Some((entry, Name::new(name).ok()?))
        })
    }
}

/// Names of a directory, collected from one branch after the other.
#[derive(Default)]
struct EntryMerge {
    items: HashTable<MergedEntry>,
    /// Names hidden by whiteouts in higher branches.
    hidden: HashSet<NameBuf>,
    /// Names hidden by whiteouts in the branch being read.
    hidden_here: Vec<NameBuf>,
    /// Entries that require a look-up: the name in the branch, and the entry as listed.
    unknown: Vec<(NameBuf, ListedAs)>,
}

/// A branch's entry as users see it if no look-up is required.
struct ListedAs {
    name: NameBuf,
    ino: InodeNumber,
    kind: Option<FileKind>,
}

impl EntryMerge {
    /// Adds a branch's entry with its inode number, unless a higher branch has or hides its name. An entry that users may not
    /// see as listed is queued for a look-up.
    fn add(&mut self, entry: &ListedEntry, stored: Name<'_>, ino: InodeNumber, is_visible_as_listed: bool) {
        let (shown, hashed) = match whiteout::meaning(stored.as_bytes()) {
            EntryMeaning::Mark => return,
            EntryMeaning::Whiteout(name) => return self.hidden_here.extend(NameBuf::new(name.into_owned())),
            EntryMeaning::Object(Cow::Borrowed(shown)) => (Cow::Borrowed(shown), entry.hashed),
            EntryMeaning::Object(Cow::Owned(shown)) => {
                let hashed = hash(&shown);
                (Cow::Owned(shown), hashed)
            }
        };
        let is_there = self.items.find(hashed, |item| item.name.as_bytes() == &*shown).is_some();
        if is_there {
            return;
        }
        let Ok(name) = NameBuf::new(shown.into_owned()) else { return };
        if self.hidden.contains(&name) {
            return;
        }
        match is_visible_as_listed {
            true => self.insert(name, ino, entry.kind),
            false => self.unknown.push((stored.to_owned(), ListedAs { name, ino, kind: entry.kind })),
        }
    }

    fn insert(&mut self, name: NameBuf, ino: InodeNumber, kind: Option<FileKind>) {
        let hashed = hash(name.as_bytes());
        let vacancy = self.items.entry(hashed, |item| item.name == name, |item| hash(item.name.as_bytes()));
        if let Entry::Vacant(vacancy) = vacancy {
            vacancy.insert(MergedEntry { cookie: cookie_of(hashed), name, ino, kind });
        }
    }

    /// All entries, ordered by cookie.
    fn into_items(self) -> Vec<MergedEntry> {
        let mut items: Vec<MergedEntry> = self.items.into_iter().collect();
        items.sort_unstable_by(|one, other| {
            one.cookie.cmp(&other.cookie).then_with(|| one.name.as_bytes().cmp(other.name.as_bytes()))
        });
        for index in 1..items.len() {
            // Names with the same hash get consecutive cookies.
            items[index].cookie = items[index].cookie.max(items[index - 1].cookie.next());
        }
        items
    }
}

fn cookie_of(hashed: u64) -> Cookie {
    // Leaves room above for names with the same hash, and stays below 2^63.
    Cookie::new(Cookie::FIRST.get() + (hashed >> 2))
}

impl Part for DirectoryListing {
    const PART: &'static str = NAME;
}

impl OpenDirectory for DirectoryListing {
    fn read(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let _guard = self.node.begin_operation()?;
        self.read_guarded(caller, cookie, sink)
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.node.run_query(|node| {
            for instance in node.instances().iter() {
                if node.union.branches.may_change(&instance.member) {
                    match instance.vnode.open_directory(&Caller::server())?.fsync(caller, data_only) {
                        Err(Errno::EROFS) => {}
                        result => result?,
                    }
                    node.sync_arrival(&instance.member)?;
                }
            }
            Ok(())
        })
    }
}

impl DirectoryListing {
    /// As [`OpenDirectory::read`]. The caller holds an operation guard.
    pub(crate) fn read_guarded(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        if cookie == Cookie::START && self.node.instances().len() > 1 {
            self.is_merged.store(true, Ordering::Relaxed);
        }
        if !self.is_merged.load(Ordering::Relaxed) {
            return self.read_single(caller, cookie, sink);
        }
        let items = self.merged(caller, cookie == Cookie::START)?;
        let from = items.partition_point(|item| item.cookie <= cookie);
        for MergedEntry { cookie, name, ino, kind } in &items[from..] {
            let entry = DirectoryEntry { name: name.as_name(), ino: *ino, kind: *kind, cookie: *cookie };
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }
}
