//! Bases of accesses whose regions have been looked up.

use cranelift_codegen::ir::Value;
use cranelift_frontend::Variable;

/// A base whose region has been looked up.
pub(super) struct Anchor {
    /// The pointer.
    pub(super) pointer: Value,
    /// The pointer without its offset.
    pub(super) high: Value,
    /// Its offset.
    pub(super) offset: Value,
    /// Where the region is, and how much of it can be read and written to: nothing if it is not there.
    pub(super) address: Variable,
    pub(super) readable: Variable,
    pub(super) writable: Variable,
    /// Bytes of an object: all can be read and written to.
    pub(super) bytes: Option<u64>,
}
