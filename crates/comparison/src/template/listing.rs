//! Directories whose names come from several: collected whole when reading begins.
//!
//! They are listed in the order of a hash of each name, which is the place to go on from: it stays what it is when others
//! come and go.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, DirectoryEntry, FileKind, NameBuf, OpenDirectory, OpenDirectoryRef, Result, VnodeRef};

/// Names that are being collected, with inode numbers, kinds, and the places to go on from.
#[derive(Default)]
pub struct Names(Vec<(u64, NameBuf, u64, Option<FileKind>)>);

impl Names {
    /// Adds the names of a directory, but for those already there and those left out.
    pub fn add(&mut self, caller: &Caller, directory: &VnodeRef, is_shown: impl Fn(&[u8]) -> bool) -> Result<()> {
        directory.open_directory(caller)?.read(caller, 0, &mut |entry| {
            if is_shown(entry.name.as_bytes()) {
                self.0.push((cookie(entry.name.as_bytes()), entry.name.to_owned(), entry.ino, entry.kind));
            }
            ControlFlow::Continue(())
        })
    }

    /// In the order of their places, no two of which are the same.
    fn in_order(mut self) -> Self {
        // The sort is stable: of two that are the same the first to be added stays.
        self.0.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        self.0.dedup_by(|later, earlier| later.1 == earlier.1);
        let mut last = 0;
        for (cookie, ..) in &mut self.0 {
            *cookie = (*cookie).max(last + 1);
            last = *cookie;
        }
        self
    }
}

/// Cookies begin at 3: 0 is the start, and 1 and 2 are `.` and `..`.
fn cookie(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() >> 1).max(3)
}

/// What collects the names of a directory.
type Collect<L> = fn(&LayerVnode<L>, &Caller, &mut Names) -> Result<()>;

/// An open directory.
pub struct Listing<L: Layer> {
    node: Arc<LayerVnode<L>>,
    collect: Collect<L>,
    names: Mutex<Arc<Names>>,
}

impl<L: Layer> Listing<L> {
    /// Opens a directory, if the template can.
    pub fn open(node: &LayerVnode<L>, caller: &Caller, collect: Collect<L>) -> Result<OpenDirectoryRef> {
        node.forward_open_directory(caller)?;
        Ok(Arc::new(Self { node: node.shared(), collect, names: Mutex::default() }))
    }

    fn names(&self, caller: &Caller, is_new: bool) -> Result<Arc<Names>> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if is_new {
            let mut collected = Names::default();
            (self.collect)(&self.node, caller, &mut collected)?;
            *names = Arc::new(collected.in_order());
        }
        Ok(Arc::clone(&names))
    }
}

impl<L: Layer> OpenDirectory for Listing<L> {
    fn read(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let names = self.names(caller, cookie == 0)?;
        let first = names.0.partition_point(|(place, ..)| *place <= cookie);
        for (cookie, name, ino, kind) in &names.0[first..] {
            if sink(DirectoryEntry { name: name.as_name(), ino: *ino, kind: *kind, cookie: *cookie }).is_break() {
                break;
            }
        }
        Ok(())
    }
}
