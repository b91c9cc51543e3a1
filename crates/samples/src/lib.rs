//! Sample layers, as written outside of the project: small, complete, and in the matrix of the conformance tests.

pub mod mirror;
pub mod negate;
pub mod veil;
pub mod zstd;

use layers::Kind;

/// Registrations of these layers, for a stack builder.
pub const KINDS: &[Kind] = &[mirror::KIND, negate::KIND, veil::KIND, zstd::KIND];

/// Returns the registration of the layer of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}
