//! The kinds of layers and bases that this command knows.

use std::sync::OnceLock;

use stack::Registry;

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// Sets the kinds, and returns them. Must be called before anything asks for them; a second call has no effect.
pub(crate) fn set(registry: Registry) -> &'static Registry {
    REGISTRY.get_or_init(|| registry)
}

/// Returns the kinds: those that were set, or else those of Plyfs.
pub(crate) fn registry() -> &'static Registry {
    REGISTRY.get_or_init(Registry::default)
}
