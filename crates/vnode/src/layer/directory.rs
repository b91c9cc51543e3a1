//! An open directory of a layer: entries with their names decoded.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::operation::Operation;
use super::template::{Layer, LayerDirectory, LayerVnode};
use crate::{Caller, DirectoryEntry, Name, OpenDirectory, OpenDirectoryRef, Result};

impl<L: Layer> LayerDirectory<L> {
    /// Creates the open directory of `node` over an open lower directory.
    pub fn new(node: Arc<LayerVnode<L>>, lower: OpenDirectoryRef) -> Self {
        Self { node, lower }
    }

    /// Returns the directory that is open.
    pub fn node(&self) -> &Arc<LayerVnode<L>> {
        &self.node
    }

    /// Returns the open lower directory.
    pub fn lower(&self) -> &OpenDirectoryRef {
        &self.lower
    }

    /// Reads entries as the template does: lower entries, with each name decoded and hidden ones omitted. Cookies are
    /// those of the lower directory.
    ///
    /// # Errors
    /// As [`OpenDirectory::read`].
    pub fn forward_read(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let layer = self.node.layer();
        let caller = layer.map_caller(caller);
        if layer.properties().names_untouched {
            return self.lower.read(&caller, cookie, sink);
        }
        self.lower.read(&caller, cookie, &mut |entry| {
            let Ok(Some(decoded)) = layer.decode_name(&self.node, entry.name) else { return ControlFlow::Continue(()) };
            match Name::new(&decoded) {
                Ok(name) => sink(DirectoryEntry { name, ..entry }),
                Err(_) => ControlFlow::Continue(()),
            }
        })
    }
}

impl<L: Layer> OpenDirectory for LayerDirectory<L> {
    fn read(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.node.run(caller, Operation::ReadDirectory, |layer| layer.read_directory(self, caller, cookie, sink))
    }

    fn dots(&self) -> Option<[u64; 2]> {
        self.node.layer().properties().attributes_untouched.then(|| self.lower.dots()).flatten()
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.node
            .run(caller, Operation::Fsync { data_only }, |layer| self.lower.fsync(&layer.map_caller(caller), data_only))
    }
}
