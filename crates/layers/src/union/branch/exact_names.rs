//! Exact names in a branch that folds them: `A` finds `a` there, `x.` is `x`, and `LONGNA~1` finds an object with a long name,
//! as on FAT.
//!
//! Lower branches may have each of these as an object of its own, so in such a branch an object has only the name that its
//! directory lists. Nothing is created at a name that the directory would list as another, and nothing replaces an object that
//! has another name.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use hashbrown::HashSet;
use vnode::layer::{self, Layer, LayerVnode};
use vnode::{
    Caller, Cookie, Created, Creation, Description, Device, Entry, Errno, FileKind, FileSystemRef, Name, Promises,
    RenameMode, Result, Timestamp, VnodeRef,
};

/// Maximum number of cached names; larger directories are read for each query.
const MAX_LISTED_NAMES: usize = 1 << 15;

/// The file system with exact names.
pub(crate) fn with_exact_names(file_system: FileSystemRef) -> FileSystemRef {
    if !file_system.properties().promises.exact_names { layer::stack(ExactNames, file_system) } else { file_system }
}

/// Layer on a branch that folds names. It is internal to the union, and not listed in any description.
struct ExactNames;

/// Cached names that a directory lists.
#[derive(Default)]
struct ListingCache(Mutex<Option<CachedListing>>);

struct CachedListing {
    names: HashSet<Box<[u8]>>,
    /// Times of the directory's last change before it was read.
    times: (Timestamp, Timestamp),
}

impl ListingCache {
    /// Returns whether the directory lists this name.
    fn has(&self, directory: &VnodeRef, name: Name<'_>) -> Result<bool> {
        let server = Caller::server();
        let attributes = directory.getattr(&server)?;
        let times = (attributes.mtime, attributes.ctime);
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |listed: &CachedListing| listed.times == times && listed.names.contains(name.as_bytes());
        if listed.as_ref().is_some_and(is_known) {
            return Ok(true);
        }
        let (mut names, mut has) = (HashSet::new(), false);
        directory.open_directory(&server)?.read(&server, Cookie::START, &mut |entry| {
            has |= entry.name == name;
            if names.len() < MAX_LISTED_NAMES {
                names.insert(entry.name.as_bytes().into());
            }
            ControlFlow::Continue(())
        })?;
        *listed = (names.len() < MAX_LISTED_NAMES).then_some(CachedListing { names, times });
        Ok(has)
    }

    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Returns whether an object found by this name may have another.
fn may_be_folded(name: Name<'_>) -> bool {
    let is_folded = |byte: &u8| byte.is_ascii_alphabetic() || !byte.is_ascii() || *byte == b'~';
    name.as_bytes().iter().any(is_folded) || check_form(name).is_err()
}

/// Refuses names that would lose their last characters.
fn check_form(name: Name<'_>) -> Result<()> {
    if name.as_bytes().ends_with(b".") || name.as_bytes().ends_with(b" ") { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Refuses a name that is not listed.
fn require_listed(node: &LayerVnode<ExactNames>, name: Name<'_>) -> Result<()> {
    if !may_be_folded(name) || node.state().has(node.lower(), name)? { Ok(()) } else { Err(Errno::ENOENT) }
}

/// Refuses a name by which another object would be found.
fn require_free(node: &LayerVnode<ExactNames>, name: Name<'_>) -> Result<()> {
    check_form(name)?;
    match node.lower().lookup(&Caller::server(), name) {
        Err(Errno::ENOENT) => Ok(()),
        found => found.and_then(|_| require_listed(node, name)).map_err(|error| match error {
            Errno::ENOENT => Errno::EEXIST,
            error => error,
        }),
    }
}

/// Creates an object at a new name.
fn make<T>(node: &LayerVnode<ExactNames>, name: Name<'_>, make: impl FnOnce() -> Result<T>) -> Result<T> {
    check_form(name)?;
    let made = make();
    node.state().forget();
    made
}

/// Removes a name.
fn remove(node: &LayerVnode<ExactNames>, name: Name<'_>, remove: impl FnOnce() -> Result<()>) -> Result<()> {
    require_listed(node, name)?;
    let removed = remove();
    node.state().forget();
    removed
}

impl Layer for ExactNames {
    type State = ListingCache;

    fn kind(&self) -> &'static str {
        "exact names"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn describe(&self) -> Vec<Description> {
        Vec::new()
    }

    fn answers_to(&self, _: &str) -> bool {
        false
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let entry = node.forward_lookup(caller, name)?;
        require_listed(node, name).map(|()| entry)
    }

    fn create(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        if !how.flags.is_exclusive() {
            require_free(node, name)?;
        }
        make(node, name, || node.forward_create(caller, name, how))
    }

    fn mkdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        make(node, name, || node.forward_mkdir(caller, name, mode))
    }

    fn mknod(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        make(node, name, || node.forward_mknod(caller, name, kind, mode, device))
    }

    fn symlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        make(node, name, || node.forward_symlink(caller, name, target))
    }

    fn link(&self, node: &LayerVnode<Self>, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        make(node, name, || node.forward_link(caller, target, name))
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        remove(node, name, || node.forward_unlink(caller, name))
    }

    fn rmdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        remove(node, name, || node.forward_rmdir(caller, name))
    }

    fn rename(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        node.lower_of(to)?;
        let target = to.as_any().downcast_ref::<LayerVnode<Self>>().ok_or(Errno::EXDEV)?;
        require_listed(node, name)?;
        require_free(target, to_name)?;
        let renamed = node.forward_rename(caller, name, to, to_name, mode);
        node.state().forget();
        target.state().forget();
        renamed
    }
}
