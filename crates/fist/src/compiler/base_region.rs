//! Bases of accesses whose regions have been looked up.

use cranelift_codegen::ir::Value;
use cranelift_frontend::Variable;

/// A base whose region has been looked up.
pub(crate) struct BaseRegion {
    /// The pointer.
    pub(crate) pointer: Value,
    /// The pointer with its offset cleared.
    pub(crate) high: Value,
    /// Its offset.
    pub(crate) offset: Value,
    /// Address of the region, and the number of readable and writable bytes: 0 if it does not exist.
    pub(crate) address: Variable,
    pub(crate) readable: Variable,
    pub(crate) writable: Variable,
    /// Size of an object in bytes, all of it readable and writable.
    pub(crate) bytes: Option<u64>,
}
