//! The kinds of layers and bases that an expression can name, and where it finds FiST programs.

use std::sync::Arc;

use layers::Kind;

use crate::built_in::BASES;
use crate::kinds::BaseKind;
use crate::search_path::SearchPath;

/// What an expression can name: the kinds of layers and bases of Plyfs, others that a program adds, and FiST programs on a search
/// path.
#[derive(Clone, Debug)]
pub struct Registry {
    /// Sorted by name.
    layers: Arc<[Kind]>,
    /// Sorted by name.
    bases: Arc<[BaseKind]>,
    search_path: SearchPath,
}

impl Default for Registry {
    /// Returns the kinds that Plyfs has, and the search path of the process for FiST programs.
    fn default() -> Self {
        Registry { layers: layers::kinds().into(), bases: BASES.into(), search_path: SearchPath::default() }
    }
}

impl Registry {
    /// Adds a kind of layer. Replaces one of the same name.
    pub fn with_layer(self, kind: Kind) -> Self {
        Registry { layers: with(&self.layers, kind, |kind| kind.name), ..self }
    }

    /// Adds a kind of base, written as `name:location`. Replaces one of the same name.
    pub fn with_base(self, kind: BaseKind) -> Self {
        Registry { bases: with(&self.bases, kind, |kind| kind.name), ..self }
    }

    /// Sets the directories in which FiST programs are found by name.
    pub fn with_search_path(self, search_path: SearchPath) -> Self {
        Registry { search_path, ..self }
    }

    /// Returns the directories in which FiST programs are found by name, if there is no kind of layer of that name.
    pub fn search_path(&self) -> &SearchPath {
        &self.search_path
    }

    /// Returns all kinds of layers, sorted by name.
    pub fn layers(&self) -> &[Kind] {
        &self.layers
    }

    /// Returns the kind of layer with this name.
    pub fn layer(&self, name: &str) -> Option<&Kind> {
        self.layers.iter().find(|kind| kind.name == name)
    }

    /// Returns all kinds of bases, sorted by name.
    pub fn bases(&self) -> &[BaseKind] {
        &self.bases
    }

    /// Returns the kind of base with this name.
    pub fn base(&self, name: &str) -> Option<&BaseKind> {
        self.bases.iter().find(|kind| kind.name == name)
    }
}

/// Adds a kind to others, in place of one of the same name.
fn with<K: Copy>(others: &[K], added: K, name: impl Fn(&K) -> &'static str) -> Arc<[K]> {
    let mut kinds: Vec<K> = others.iter().filter(|other| name(other) != name(&added)).copied().collect();
    kinds.push(added);
    kinds.sort_by_key(name);
    kinds.into()
}
