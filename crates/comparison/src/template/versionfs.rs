//! Versionfs keeps the last versions of each file: every time that it is opened to be written, what it held becomes
//! NAME.~1~, that which was there before NAME.~2~, and so on.

use std::sync::{Mutex, PoisonError};

use vnode::layer::{Layer, LayerVnode};
use vnode::{
    Caller, Created, Creation, Entry, Errno, FileKind, Name, NameBuf, Needs, OpenFileRef, OpenFlags, Promises,
    RenameMode, Result, VnodeRef,
};

use super::copy::copy;

/// Keeps versions.
pub struct Versionfs {
    versions: u8,
}

/// Where a file was looked up: the directory below, and the name.
#[derive(Default)]
pub struct LastName(Mutex<Option<(VnodeRef, NameBuf)>>);

impl Versionfs {
    /// The layer that keeps so many versions, at most 9.
    pub fn new(versions: u8) -> Self {
        Versionfs { versions: versions.min(9) }
    }

    /// Makes what a file holds its first version, if it is to have any.
    fn keep(&self, caller: &Caller, file: &VnodeRef, directory: &VnodeRef, name: Name<'_>) -> Result<()> {
        let has_versions = self.versions > 0 && file.kind() == FileKind::Regular && !is_version(name);
        if !has_versions || file.getattr(&Caller::server())?.size == 0 {
            return Ok(());
        }
        for number in (1..self.versions).rev() {
            let (from, to) = (version(name, number), version(name, number + 1));
            match directory.rename(caller, Name::new(&from)?, directory, Name::new(&to)?, RenameMode::Replace) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        copy(caller, file, directory, &version(name, 1))
    }
}

fn version(name: Name<'_>, number: u8) -> Vec<u8> {
    [name.as_bytes(), b".~", &[b'0' + number], b"~"].concat()
}

fn is_version(name: Name<'_>) -> bool {
    matches!(name.as_bytes(), [_, .., b'.', b'~', _, b'~'])
}

/// Notes where something was found.
fn note(entry: &Entry, node: &LayerVnode<Versionfs>, name: Name<'_>) {
    if let Some(found) = entry.vnode.as_any().downcast_ref::<LayerVnode<Versionfs>>() {
        let place = Some((VnodeRef::clone(node.lower()), name.to_owned()));
        *found.state().0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

impl Layer for Versionfs {
    type State = LastName;

    fn kind(&self) -> &'static str {
        "versionfs"
    }

    fn details(&self) -> String {
        format!("versions={}", self.versions)
    }

    fn promises(&self) -> Promises {
        Promises { exclusive: false, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, failed_lookups: true, ..Needs::NONE }
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        node.forward_lookup(caller, name).inspect(|entry| note(entry, node, name))
    }

    fn create(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        node.forward_create(caller, name, how).inspect(|created| note(&created.entry, node, name))
    }

    fn open(&self, node: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        let place = node.state().0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((directory, name)) = place.filter(|_| flags.writes()) {
            self.keep(caller, node.lower(), &directory, name.as_name())?;
        }
        node.forward_open(caller, flags)
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
        let to_directory = node.lower_of(to)?;
        if let Ok(replaced) = to_directory.lookup(&Caller::server(), to_name) {
            self.keep(caller, &replaced.vnode, to_directory, to_name)?;
        }
        node.forward_rename(caller, name, to, to_name, mode)?;
        // Whoever holds what was moved holds the vnode that this look-up notes the place of.
        let _ = to.lookup(&Caller::server(), to_name);
        Ok(())
    }
}
