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

use super::Described;
use super::host::Running;
use super::loaded::Loaded;

/// Smallest cookie of an entry: 0 is the start, and 1 and 2 are `.` and `..`.
const COOKIE_MIN: u64 = 3;

/// Maximum number of bytes of names, with the data kept for each, that rules add to a listing.
const ADDED_BYTES_MAX: usize = 64 << 20;

/// Returns the cookie from which reading resumes after a name.
fn cookie(name: &NameBuf) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.as_bytes().hash(&mut hasher);
    (hasher.finish() >> 1).max(COOKIE_MIN)
}

/// A listed name.
struct Listed {
    cookie: u64,
    name: NameBuf,
    ino: u64,
    kind: Option<FileKind>,
}

/// Names collected so far.
#[derive(Default)]
pub(crate) struct Names {
    listed: Vec<Listed>,
    known: HashSet<NameBuf>,
    /// Name that is being passed to the rules.
    current: Option<NameBuf>,
    is_skipped: bool,
    /// Number of bytes that rules have added.
    added_bytes: usize,
}

impl Names {
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
        self.known.insert(name.clone());
        self.listed.push(Listed { cookie: cookie(&name), name, ino: entry.ino, kind: entry.kind });
    }

    /// Returns the names in the order of their cookies, no two of which are equal.
    fn in_order(mut self) -> Vec<Listed> {
        self.listed.sort_by(|one, other| (one.cookie, &one.name).cmp(&(other.cookie, &other.name)));
        let mut last = 0;
        for listed in &mut self.listed {
            listed.cookie = listed.cookie.max(last + 1);
            last = listed.cookie;
        }
        self.listed
    }

    /// Adds the names of another directory.
    pub(crate) fn read(&mut self, node: &LayerVnode<Described>, caller: &Caller, leaves_out_known: bool) -> Result<()> {
        let directory = node.forward_open_directory(caller)?;
        let mut is_too_much = false;
        directory.read(caller, 0, &mut |entry| {
            if !(leaves_out_known && self.known.contains(&entry.name.to_owned())) {
                self.added_bytes += entry.name.as_bytes().len() + std::mem::size_of::<Listed>();
                is_too_much = self.added_bytes > ADDED_BYTES_MAX;
                if is_too_much {
                    return ControlFlow::Break(());
                }
                self.add(entry);
            }
            ControlFlow::Continue(())
        })?;
        if is_too_much { Err(Errno::ENOMEM) } else { Ok(()) }
    }
}

/// An open directory whose listing rules control.
pub(crate) struct Listing {
    loaded: Arc<Loaded>,
    node: Arc<LayerVnode<Described>>,
    opened: OpenDirectoryRef,
    /// Names collected when reading last began.
    names: Mutex<Option<Arc<Vec<Listed>>>>,
}

impl Listing {
    /// Wraps a directory that the template opened.
    pub(crate) fn open(
        loaded: Arc<Loaded>,
        node: Arc<LayerVnode<Described>>,
        opened: OpenDirectoryRef,
    ) -> OpenDirectoryRef {
        Arc::new(Listing { loaded, node, opened, names: Mutex::new(None) })
    }

    fn collect(&self, caller: &Caller) -> Result<Vec<Listed>> {
        let layer = self.node.layer();
        let levels = layer.levels.load();
        let _alone = layer.one_at_a_time(&levels, caller)?;
        let rules = self.loaded.rules(&Operation::ReadDirectory);
        let mut names = Names::default();
        let mut running = Running::new(&self.loaded, &self.node, caller);
        running.operation = Some(&Operation::ReadDirectory);
        running.listing = Some(&mut names);
        running.around(rules, |running| {
            let read = self.read_all(caller, rules.instead, running);
            running.listed(read);
        });
        match running.answer() {
            Some(error) => Err(error),
            None => Ok(names.in_order()),
        }
    }

    /// Passes each name of the directory to the replace rule.
    fn read_all(&self, caller: &Caller, rule: Option<usize>, running: &mut Running<'_>) -> Result<()> {
        let mut cancelled = Ok(());
        self.opened.read(caller, 0, &mut |entry| {
            cancelled = caller.cancellation().check();
            if cancelled.is_err() {
                return ControlFlow::Break(());
            }
            // To the rules, each name is an operation of its own.
            running.begin_anew();
            if let Some(names) = &mut running.listing {
                names.current = Some(entry.name.to_owned());
                names.is_skipped = false;
            }
            if let Some(rule) = rule {
                running.rule_instead(rule);
            }
            if let Some(names) = &mut running.listing {
                names.current = None;
                if !names.is_skipped {
                    names.add(entry);
                }
            }
            if running.is_finished { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        cancelled
    }
}

impl OpenDirectory for Listing {
    fn read(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let known = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let names = match known.filter(|_| cookie != 0) {
            Some(names) => names,
            None => {
                let names = Arc::new(self.collect(caller)?);
                *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&names));
                names
            }
        };
        let first = names.partition_point(|listed| listed.cookie <= cookie);
        for Listed { cookie, name, ino, kind } in &names[first..] {
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
