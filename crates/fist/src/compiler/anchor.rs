//! Bases of accesses whose regions have been looked up.

use cranelift_codegen::ir::Value;
use cranelift_frontend::Variable;

/// A base whose region has been looked up.
pub(super) struct Anchor {
    /// The pointer.
    pub(super) pointer: Value,
    /// The pointer with its offset cleared.
    pub(super) high: Value,
    /// Its offset.
    pub(super) offset: Value,
    /// Address of the region, and the number of readable and writable bytes: 0 if it does not exist.
    pub(super) address: Variable,
    pub(super) readable: Variable,
    pub(super) writable: Variable,
    /// Size of an object in bytes, all of it readable and writable.
    pub(super) bytes: Option<u64>,
}
