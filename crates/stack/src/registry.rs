//! The kinds of layers that an expression can name.

use std::sync::Arc;

use layers::Kind;

/// The kinds of layers that an expression can name: those of Plyfs, and others that a program adds.
#[derive(Clone, Debug)]
pub struct Registry {
    /// Sorted by name.
    layers: Arc<[Kind]>,
}

impl Default for Registry {
    /// Returns the kinds that Plyfs has.
    fn default() -> Self {
        Registry { layers: layers::kinds().into() }
    }
}

impl Registry {
    /// Adds a kind of layer. Replaces one of the same name.
    pub fn with_layer(self, kind: Kind) -> Self {
        let mut layers: Vec<Kind> = self.layers.iter().filter(|other| other.name != kind.name).copied().collect();
        layers.push(kind);
        layers.sort_by_key(|kind| kind.name);
        Registry { layers: layers.into() }
    }

    /// Returns all kinds of layers, sorted by name.
    pub fn layers(&self) -> &[Kind] {
        &self.layers
    }

    /// Returns the kind of layer with this name.
    pub fn layer(&self, name: &str) -> Option<&Kind> {
        self.layers.iter().find(|kind| kind.name == name)
    }
}
