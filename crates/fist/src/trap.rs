//! Traps: why a run ends early.

use std::fmt;

use crate::text::Span;

/// A trap: its kind and location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// The trap kind.
    pub kind: TrapKind,
    /// Location in the source text.
    pub span: Span,
}

/// Trap kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TrapKind {
    /// `fistRetErr`: the intended end.
    Finished = 1,
    /// A null pointer is used.
    NullPointer,
    /// An access outside the bounds of its object.
    OutOfBounds,
    /// A stale pointer is used: its object is gone.
    StalePointer,
    /// A write to read-only memory.
    ReadOnly,
    /// Subtraction of pointers into different objects.
    DifferentObjects,
    /// Memory that was not allocated is freed.
    NotAllocated,
    /// A division by zero.
    DivisionByZero,
    /// The fuel is used up.
    OutOfFuel,
    /// Calls are nested too deeply.
    CallDepth,
    /// The memory limit is exceeded.
    OutOfMemory,
    /// An array index is out of range.
    IndexOutOfRange,
    /// A length is negative or too large.
    InvalidLength,
    /// Too many bytes are handled, or too much is requested from the lower layer.
    WorkLimit,
    /// The time limit is exceeded.
    TimeLimit,
}

impl TrapKind {
    /// All trap kinds, in the order of their numbers.
    pub const ALL: [TrapKind; 15] = [
        TrapKind::Finished,
        TrapKind::NullPointer,
        TrapKind::OutOfBounds,
        TrapKind::StalePointer,
        TrapKind::ReadOnly,
        TrapKind::DifferentObjects,
        TrapKind::NotAllocated,
        TrapKind::DivisionByZero,
        TrapKind::OutOfFuel,
        TrapKind::CallDepth,
        TrapKind::OutOfMemory,
        TrapKind::IndexOutOfRange,
        TrapKind::InvalidLength,
        TrapKind::WorkLimit,
        TrapKind::TimeLimit,
    ];
}

impl fmt::Display for TrapKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            TrapKind::Finished => "it has ended",
            TrapKind::NullPointer => "a null pointer is used",
            TrapKind::OutOfBounds => "an access outside the object that a pointer points to",
            TrapKind::StalePointer => "a stale pointer is used: its object is gone",
            TrapKind::ReadOnly => "a write to read-only memory",
            TrapKind::DifferentObjects => "a subtraction of pointers into different objects",
            TrapKind::NotAllocated => "memory is freed that was not allocated",
            TrapKind::DivisionByZero => "a division by zero",
            TrapKind::OutOfFuel => "its fuel is used up: it takes too many steps",
            TrapKind::CallDepth => "function calls are nested too deeply",
            TrapKind::OutOfMemory => "it exceeds its memory limit",
            TrapKind::IndexOutOfRange => "an array index is out of range",
            TrapKind::InvalidLength => "a length is negative or too large",
            TrapKind::WorkLimit => "it handles too many bytes, or makes too many requests below",
            TrapKind::TimeLimit => "it exceeds its time limit",
        })
    }
}
