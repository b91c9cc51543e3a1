//! What differs between two states of a union.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vnode::progress::object_done;
use vnode::{Attributes, Caller, Entry, Errno, FileKind, NameBuf, OpenFlags, Result, VnodeRef, read_fully, zeros};

use super::node::{Instance, Node};
use super::tree_path::TreePath;
use super::whiteout::{self, Meaning};
use super::work;

/// How often what has a name may change before it is taken as it is.
const ATTEMPTS: usize = 64;

/// Bytes of a path that a program can give to the kernel at once (`PATH_MAX`). What is in a new directory whose path is longer is
/// not listed, since the paths of a tree that is deep enough would take more memory than there is.
const PATH_MAX: usize = 4096;
/// Bytes of data that are compared at a time.
const COMPARED: usize = 1 << 18;
/// Bytes that longer paths may take together. Whatever differs beyond that is told by the last directory with a shorter path.
const DEEP_BYTES_MAX: usize = 64 << 20;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What has become of the object.
    pub change: Change,
    /// From the root, without a slash before it; empty for the root itself.
    pub path: Vec<u8>,
    /// Of the newer state, or of what was deleted.
    pub kind: FileKind,
}

/// What has become of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is only in the newer state.
    Added,
    /// It is in both, and differs.
    Changed,
    /// It is only in the older state.
    Deleted,
}

impl Change {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// Differences as JSON, for programs.
pub fn to_json(differences: &[Difference]) -> String {
    let entry = |difference: &Difference| {
        let path = String::from_utf8_lossy(&difference.path);
        let kind = format!("{:?}", difference.kind).to_lowercase();
        serde_json::json!({ "change": difference.change.name(), "path": path, "kind": kind })
    };
    serde_json::Value::Array(differences.iter().map(entry).collect()).to_string()
}

/// The differences that were found so far.
#[derive(Default)]
struct Differences {
    list: Vec<Difference>,
    /// Bytes of the paths that are longer than [`PATH_MAX`].
    deep_bytes: usize,
    /// No more of these are listed.
    is_full: bool,
}

impl Differences {
    fn add(&mut self, change: Change, path: &TreePath, entry: &Entry) {
        if path.length() > PATH_MAX {
            self.is_full |= self.deep_bytes + path.length() > DEEP_BYTES_MAX;
            if self.is_full {
                return self.add_whole(path);
            }
            self.deep_bytes += path.length();
        }
        self.list.push(Difference { change, path: path.to_bytes(), kind: entry.attributes.kind });
    }

    /// Whether what is in a directory is to be compared; if not, something in it counts as changed.
    fn may_go_into(&mut self, path: &TreePath) -> bool {
        let may = !self.is_full || path.length() <= PATH_MAX;
        if !may {
            self.add_whole(path);
        }
        may
    }

    /// Something at a path that is too long to be listed differs.
    fn add_whole(&mut self, path: &TreePath) {
        let path = path.start(PATH_MAX).to_bytes();
        self.list.push(Difference { change: Change::Changed, path, kind: FileKind::Directory });
    }

    /// All of them, by their paths.
    fn sorted(mut self) -> Vec<Difference> {
        self.list.sort_by(|one, other| one.path.cmp(&other.path));
        self.list.dedup();
        self.list
    }
}

/// What is different in the newer directory, with all below it. What both have from the same branches is not looked at.
pub(super) fn compare(older: &Arc<Node>, newer: &Arc<Node>) -> Result<Vec<Difference>> {
    let mut differences = Differences::default();
    let (old, new) = (entry_of_directory(older)?, entry_of_directory(newer)?);
    if !is_directory_unchanged(&old, &new)? {
        differences.add(Change::Changed, &TreePath::root(), &new);
    }
    // Not by recursion: a tree may be deeper than a thread's stack.
    let mut open = vec![(TreePath::root(), Arc::clone(older), Arc::clone(newer))];
    while let Some((path, older, newer)) = open.pop() {
        if is_same(&older.instances(), &newer.instances()) {
            continue;
        }
        let changed = changed_names(&older, &newer)?;
        let (mut before, mut after) = (entries(&older, changed.as_ref())?, entries(&newer, changed.as_ref())?);
        let names: BTreeSet<NameBuf> = before.keys().chain(after.keys()).cloned().collect();
        for name in names {
            object_done();
            let path = path.join(name.as_name());
            let pair = match (before.remove(&name), after.remove(&name)) {
                (Some(old), Some(new)) if is_same_entry(&old, &new) => continue,
                _ => both(&older, &newer, &name)?,
            };
            match pair {
                (None, None) => {}
                (None, Some(entry)) => added(entry, path, &mut differences)?,
                (Some(old), None) => differences.add(Change::Deleted, &path, &old),
                (Some(old), Some(entry)) if is_directory(&old) && is_directory(&entry) => {
                    if !is_directory_unchanged(&old, &entry)? {
                        differences.add(Change::Changed, &path, &entry);
                    }
                    if differences.may_go_into(&path) {
                        open.push((path, node(&old.vnode), node(&entry.vnode)));
                    }
                }
                (Some(old), Some(entry)) if is_directory(&old) || is_directory(&entry) => {
                    differences.add(Change::Deleted, &path, &old);
                    added(entry, path, &mut differences)?;
                }
                (Some(old), Some(entry)) if is_unchanged(&old, &entry)? => {}
                (Some(_), Some(entry)) => differences.add(Change::Changed, &path, &entry),
            }
        }
    }
    Ok(differences.sorted())
}

/// What has a name in either directory at one time: others may be changing what both are made of.
fn both(older: &Arc<Node>, newer: &Arc<Node>, name: &NameBuf) -> Result<(Option<Entry>, Option<Entry>)> {
    let is_still = |before: &Option<Entry>, now: &Option<Entry>| match (before, now) {
        (None, None) => true,
        (Some(before), Some(now)) => is_same_entry(before, now),
        _ => false,
    };
    let mut pair = (entry_of(older, name)?, entry_of(newer, name)?);
    for _ in 0..ATTEMPTS {
        let again = (entry_of(older, name)?, entry_of(newer, name)?);
        if is_still(&pair.0, &again.0) && is_still(&pair.1, &again.1) {
            break;
        }
        pair = again;
    }
    Ok(pair)
}

/// An object with all below it is new.
fn added(entry: Entry, path: TreePath, differences: &mut Differences) -> Result<()> {
    let mut new = vec![(path, entry)];
    while let Some((path, entry)) = new.pop() {
        object_done();
        differences.add(Change::Added, &path, &entry);
        if is_directory(&entry) && path.length() <= PATH_MAX {
            let below = entries(&node(&entry.vnode), None)?;
            new.extend(below.into_iter().map(|(name, entry)| (path.join(name.as_name()), entry)));
        }
    }
    Ok(())
}

/// The names that may stand for something else in the newer directory: if it is the older one with more on its left, those that
/// are there. What else is in it is not looked at: it may be much, or not answer. `None` if all names may.
fn changed_names(older: &Node, newer: &Node) -> Result<Option<BTreeSet<NameBuf>>> {
    let (older, newer) = (older.instances(), newer.instances());
    let Some(more) = newer.len().checked_sub(older.len()) else { return Ok(None) };
    let (left, rest) = newer.split_at(more);
    if !is_same(rest, &older) {
        return Ok(None);
    }
    let mut names = BTreeSet::new();
    for Instance { member, vnode, .. } in left {
        // A file that was copied by one of its names is another by all of them.
        if let Some(links) = member.work.links_if_there()?
            && !work::entries(&links)?.is_empty()
        {
            return Ok(None);
        }
        for stored in names_in(vnode)? {
            if let Meaning::Object(name) | Meaning::Whiteout(name) = whiteout::meaning(stored.as_bytes()) {
                names.insert(NameBuf::new(name.into_owned())?);
            }
        }
    }
    Ok(Some(names))
}

/// What a directory has by these names, or by all.
fn entries(directory: &Arc<Node>, names: Option<&BTreeSet<NameBuf>>) -> Result<BTreeMap<NameBuf, Entry>> {
    let names = match names {
        Some(names) => names.iter().cloned().collect(),
        None => names_in(&(Arc::clone(directory) as VnodeRef))?,
    };
    let mut entries = BTreeMap::new();
    for name in names {
        if let Some(entry) = entry_of(directory, &name)? {
            entries.insert(name, entry);
        }
    }
    Ok(entries)
}

/// The names in a directory, none if it is gone.
fn names_in(directory: &VnodeRef) -> Result<Vec<NameBuf>> {
    match work::entries(directory) {
        Err(Errno::ENOENT | Errno::ESTALE) => Ok(Vec::new()),
        entries => Ok(entries?.into_iter().map(|(name, _)| name).collect()),
    }
}

/// What has the name now, if it is not gone.
fn entry_of(directory: &Arc<Node>, name: &NameBuf) -> Result<Option<Entry>> {
    match work::find(&(Arc::clone(directory) as VnodeRef), name.as_name()) {
        // The directory itself is gone.
        Err(Errno::ESTALE) => Ok(None),
        found => found,
    }
}

/// A directory with its attributes.
fn entry_of_directory(directory: &Arc<Node>) -> Result<Entry> {
    let vnode = Arc::clone(directory) as VnodeRef;
    let attributes = vnode.getattr(&Caller::server())?;
    Ok(Entry { vnode, attributes })
}

/// Whether a directory is as it was, but for what is in it and its times.
fn is_directory_unchanged(old: &Entry, new: &Entry) -> Result<bool> {
    Ok(is_same_entry(old, new) || (are_equal(&old.attributes, &new.attributes) && have_equal_xattrs(old, new)?))
}

/// Whether neither has been changed since the other was made of it, or both are one.
fn is_unchanged(old: &Entry, new: &Entry) -> Result<bool> {
    if is_same_entry(old, new) {
        return Ok(true);
    }
    let (one, other) = (&old.attributes, &new.attributes);
    let is_alike =
        are_equal(one, other) && one.size == other.size && one.mtime == other.mtime && one.rdev == other.rdev;
    if !is_alike || !have_equal_xattrs(old, new)? {
        return Ok(false);
    }
    let server = Caller::server();
    match one.kind {
        FileKind::Symlink => Ok(old.vnode.readlink(&server)? == new.vnode.readlink(&server)?),
        // Whoever writes to a file can give it the time and the size that it had.
        FileKind::Regular => have_equal_data(old, new),
        _ => Ok(true),
    }
}

fn have_equal_data(one: &Entry, other: &Entry) -> Result<bool> {
    let server = Caller::server();
    let files = [one.vnode.open(&server, OpenFlags::READ)?, other.vnode.open(&server, OpenFlags::READ)?];
    let mut parts = [zeros(COMPARED)?, zeros(COMPARED)?];
    let mut offset = 0;
    loop {
        let mut lengths = [0; 2];
        for ((file, part), length) in files.iter().zip(&mut parts).zip(&mut lengths) {
            *length = read_fully(&**file, &server, offset, part)?;
        }
        let [length, other_length] = lengths;
        if length != other_length || parts[0][..length] != parts[1][..length] {
            return Ok(false);
        }
        if length < COMPARED {
            return Ok(true);
        }
        offset += length as u64;
    }
}

fn are_equal(one: &Attributes, other: &Attributes) -> bool {
    (one.kind, one.mode, one.uid, one.gid) == (other.kind, other.mode, other.uid, other.gid)
}

fn have_equal_xattrs(one: &Entry, other: &Entry) -> Result<bool> {
    Ok(whiteout::users_attributes(&one.vnode)? == whiteout::users_attributes(&other.vnode)?)
}

fn is_same_entry(one: &Entry, other: &Entry) -> bool {
    is_same(&node(&one.vnode).instances(), &node(&other.vnode).instances())
}

fn is_same(one: &[Instance], other: &[Instance]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
}

fn is_directory(entry: &Entry) -> bool {
    entry.attributes.is_directory()
}

fn node(vnode: &VnodeRef) -> Arc<Node> {
    vnode.as_any().downcast_ref::<Node>().expect("a union's vnodes are nodes").reference()
}
