//! Directories whose names come from several: collected whole when reading begins.
//!
//! They are listed in the order of a hash of each name, which is the place to go on from: it stays what it is when others
//! come and go.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use vnode::layer::{Layer, LayerVnode};
use vnode::{
    Caller, Cookie, DirectoryEntry, FileKind, InodeNumber, NameBuf, OpenDirectory, OpenDirectoryRef, Result, VnodeRef,
};

/// A name that is listed, and the place to go on from.
struct Listed {
    cookie: Cookie,
    name: NameBuf,
    ino: InodeNumber,
    kind: Option<FileKind>,
}

/// Names that are being collected.
#[derive(Default)]
pub(crate) struct Names(Vec<Listed>);

impl Names {
    /// Adds the names of a directory that are shown. Of two that are the same the first to be added is listed.
    pub(crate) fn add(
        &mut self,
        caller: &Caller,
        directory: &VnodeRef,
        is_shown: impl Fn(&[u8]) -> bool,
    ) -> Result<()> {
        directory.open_directory(caller)?.read(caller, Cookie::START, &mut |entry| {
            if is_shown(entry.name.as_bytes()) {
                let (name, ino, kind) = (entry.name.to_owned(), entry.ino, entry.kind);
                self.0.push(Listed { cookie: cookie(&name), name, ino, kind });
            }
            ControlFlow::Continue(())
        })
    }

    /// In the order of their places, no two of which are the same.
    fn in_order(mut self) -> Self {
        // The sort is stable: of two that are the same the first to be added stays.
        self.0.sort_by(|one, other| (one.cookie, &one.name).cmp(&(other.cookie, &other.name)));
        self.0.dedup_by(|later, earlier| later.name == earlier.name);
        let mut last = Cookie::START;
        for listed in &mut self.0 {
            listed.cookie = listed.cookie.max(last.next());
            last = listed.cookie;
        }
        self
    }
}

fn cookie(name: &NameBuf) -> Cookie {
    let mut hasher = DefaultHasher::new();
    name.as_bytes().hash(&mut hasher);
    Cookie::new(hasher.finish() >> 1).max(Cookie::FIRST)
}

/// What collects the names of a directory.
type Collect<L> = fn(&LayerVnode<L>, &Caller, &mut Names) -> Result<()>;

/// An open directory.
pub(crate) struct Listing<L: Layer> {
    node: Arc<LayerVnode<L>>,
    collect: Collect<L>,
    names: Mutex<Arc<Names>>,
}

impl<L: Layer> Listing<L> {
    /// Opens a directory, if the template can.
    pub(crate) fn open(node: &LayerVnode<L>, caller: &Caller, collect: Collect<L>) -> Result<OpenDirectoryRef> {
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
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let names = self.names(caller, cookie == Cookie::START)?;
        let first = names.0.partition_point(|listed| listed.cookie <= cookie);
        for Listed { cookie, name, ino, kind } in &names.0[first..] {
            if sink(DirectoryEntry { name: name.as_name(), ino: *ino, kind: *kind, cookie: *cookie }).is_break() {
                break;
            }
        }
        Ok(())
    }
}
