//! Directory listings that rules control: collected in full when reading begins, each name passed to the rules.
//!
//! Names are listed in the order of their hashes, which serve as the cookies from which reading resumes: a hash stays
//! the same when other names come and go, and when the directory is opened again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use vnode::layer::{LayerVnode, Operation};
use vnode::{Caller, DirectoryEntry, Errno, FileKind, NameBuf, OpenDirectory, OpenDirectoryRef, Result};

use super::FistLayer;
use super::host::RuleContext;
use super::module::LoadedModule;

/// Smallest cookie of an entry: 0 is the start, and 1 and 2 are `.` and `..`.
const FIRST_ENTRY_COOKIE: u64 = 3;

/// Maximum number of bytes of names, with the data kept for each, that rules add to a listing.
const MAX_ADDED_BYTES: usize = 64 << 20;

/// Returns the cookie from which reading resumes after a name.
fn cookie(name: &NameBuf) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.as_bytes().hash(&mut hasher);
    (hasher.finish() >> 1).max(FIRST_ENTRY_COOKIE)
}

/// A listed name.
struct ListedName {
    cookie: u64,
    name: NameBuf,
    ino: u64,
    kind: Option<FileKind>,
}

/// Names collected so far.
#[derive(Default)]
pub(crate) struct CollectedNames {
    listed: Vec<ListedName>,
    seen: HashSet<NameBuf>,
    /// Name that is being passed to the rules.
    current: Option<NameBuf>,
    is_skipped: bool,
    /// Number of bytes that rules have added.
    added_bytes: usize,
}

impl CollectedNames {
    pub(crate) fn current(&self) -> Option<&[u8]> {
        self.current.as_ref().map(NameBuf::as_bytes)
    }

    /// Omits a name: the one that is being passed to the rules, or another.
    pub(crate) fn skip(&mut self, name: Option<&[u8]>) {
        match name {
            Some(name) if self.current() != Some(name) => self.listed.retain(|listed| listed.name.as_bytes() != name),
            _ => self.is_skipped = true,
        }
    }

    fn add(&mut self, entry: DirectoryEntry<'_>) {
        let name = entry.name.to_owned();
        self.seen.insert(name.clone());
        self.listed.push(ListedName { cookie: cookie(&name), name, ino: entry.ino, kind: entry.kind });
    }

    /// Returns the names in the order of their cookies, no two of which are equal.
    fn into_cookie_order(mut self) -> Vec<ListedName> {
        self.listed.sort_by(|one, other| (one.cookie, &one.name).cmp(&(other.cookie, &other.name)));
        let mut last = 0;
        for listed in &mut self.listed {
            listed.cookie = listed.cookie.max(last + 1);
            last = listed.cookie;
        }
        self.listed
    }

    /// Adds the names of another directory.
    pub(crate) fn read(&mut self, node: &LayerVnode<FistLayer>, caller: &Caller, skips_seen: bool) -> Result<()> {
        let directory = node.forward_open_directory(caller)?;
        let mut is_over_limit = false;
        directory.read(caller, 0, &mut |entry| {
            if !(skips_seen && self.seen.contains(&entry.name.to_owned())) {
                self.added_bytes += entry.name.as_bytes().len() + std::mem::size_of::<ListedName>();
                is_over_limit = self.added_bytes > MAX_ADDED_BYTES;
                if is_over_limit {
                    return ControlFlow::Break(());
                }
                self.add(entry);
            }
            ControlFlow::Continue(())
        })?;
        if is_over_limit { Err(Errno::ENOMEM) } else { Ok(()) }
    }
}

/// An open directory whose listing rules control.
pub(crate) struct RuledDirectory {
    module: Arc<LoadedModule>,
    node: Arc<LayerVnode<FistLayer>>,
    opened: OpenDirectoryRef,
    /// Names collected when reading last began.
    names: Mutex<Option<Arc<Vec<ListedName>>>>,
}

impl RuledDirectory {
    /// Wraps a directory that the template opened.
    pub(crate) fn open(
        module: Arc<LoadedModule>,
        node: Arc<LayerVnode<FistLayer>>,
        opened: OpenDirectoryRef,
    ) -> OpenDirectoryRef {
        Arc::new(RuledDirectory { module, node, opened, names: Mutex::new(None) })
    }

    fn collect(&self, caller: &Caller) -> Result<Vec<ListedName>> {
        let layer = self.node.layer();
        let members = layer.members.load();
        let _serial = layer.lock_serial(&members, caller)?;
        let rules = self.module.rules(&Operation::ReadDirectory);
        let mut names = CollectedNames::default();
        let mut context = RuleContext::new(&self.module, &self.node, caller);
        context.operation = Some(&Operation::ReadDirectory);
        context.listing = Some(&mut names);
        context.run_around(rules, |context| {
            let read = self.read_all(caller, rules.replace, context);
            context.record_listing_error(read);
        });
        match context.final_error() {
            Some(error) => Err(error),
            None => Ok(names.into_cookie_order()),
        }
    }

    /// Passes each name of the directory to the replace rule.
    fn read_all(&self, caller: &Caller, rule: Option<usize>, context: &mut RuleContext<'_>) -> Result<()> {
        let mut cancelled = Ok(());
        self.opened.read(caller, 0, &mut |entry| {
            cancelled = caller.cancellation().check();
            if cancelled.is_err() {
                return ControlFlow::Break(());
            }
            // To the rules, each name is an operation of its own.
            context.reset_meter();
            if let Some(names) = &mut context.listing {
                names.current = Some(entry.name.to_owned());
                names.is_skipped = false;
            }
            if let Some(rule) = rule {
                context.run_replace_rule(rule);
            }
            if let Some(names) = &mut context.listing {
                names.current = None;
                if !names.is_skipped {
                    names.add(entry);
                }
            }
            if context.is_finished { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        cancelled
    }
}

impl OpenDirectory for RuledDirectory {
    fn read(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let collected = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let names = match collected.filter(|_| cookie != 0) {
            Some(names) => names,
            None => {
                let names = Arc::new(self.collect(caller)?);
                *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&names));
                names
            }
        };
        let first = names.partition_point(|listed| listed.cookie <= cookie);
        for ListedName { cookie, name, ino, kind } in &names[first..] {
            let entry = DirectoryEntry { name: name.as_name(), ino: *ino, kind: *kind, cookie: *cookie };
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.opened.fsync(caller, data_only)
    }
}
