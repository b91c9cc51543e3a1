//! An open directory of a layer: entries with their names decoded.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::operation::Operation;
use super::template::{Layer, LayerDirectory, LayerVnode, declared};
use crate::{Caller, Cookie, DirectoryEntry, InodeNumber, OpenDirectory, OpenDirectoryRef, Result};

/// Number of entries that are read below before they are decoded.
const ENTRIES_AT_ONCE: usize = 128;

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
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let layer = self.node.layer();
        let lower_caller = layer.map_caller(caller);
        if declared(layer).promises.names_untouched {
            return self.lower.read(&lower_caller, cookie, sink);
        }
        // Decoding may read below, where the lower directory may be locked while it gives its entries.
        let mut next = cookie;
        loop {
            let mut entries = Vec::new();
            self.lower.read(&lower_caller, next, &mut |DirectoryEntry { name, ino, kind, cookie }| {
                if entries.len() == ENTRIES_AT_ONCE {
                    return ControlFlow::Break(());
                }
                entries.push((name.to_owned(), ino, kind, cookie));
                ControlFlow::Continue(())
            })?;
            let is_last = entries.len() < ENTRIES_AT_ONCE;
            for (name, ino, kind, cookie) in entries {
                next = cookie;
                let Some(decoded) = self.node.decode(caller, name.as_name()) else { continue };
                if sink(DirectoryEntry { name: decoded.as_name(), ino, kind, cookie }).is_break() {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

impl<L: Layer> OpenDirectory for LayerDirectory<L> {
    fn read(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.node.run(caller, Operation::ReadDirectory, |layer| layer.read_directory(self, caller, cookie, sink))
    }

    fn dots(&self) -> Option<[InodeNumber; 2]> {
        declared(self.node.layer()).promises.attributes_untouched.then(|| self.lower.dots()).flatten()
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.node
            .run(caller, Operation::Fsync { data_only }, |layer| self.lower.fsync(&layer.map_caller(caller), data_only))
    }
}
