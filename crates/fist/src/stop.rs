//! Traps: why a run ends early.

use std::fmt;

use crate::text::Span;

/// A trap: its kind and location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The trap kind.
    pub why: Why,
    /// Location in the source text.
    pub span: Span,
}

/// Trap kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// `fistRetErr`: the intended end.
    Finished = 1,
    /// A null pointer is used.
    NullPointer,
    /// An access outside the bounds of its object.
    OutOfBounds,
    /// A stale pointer is used: its object is gone.
    Gone,
    /// A write to read-only memory.
    ReadOnly,
    /// Subtraction of pointers into different objects.
    OtherObject,
    /// Memory that was not allocated is freed.
    NotAllocated,
    /// A division by zero.
    DivisionByZero,
    /// The fuel is used up.
    TooManySteps,
    /// Calls are nested too deeply.
    TooDeep,
    /// The memory limit is exceeded.
    OutOfMemory,
    /// An array index is out of range.
    NoElement,
    /// A length is negative or too large.
    BadLength,
    /// Too many bytes are handled, or too much is requested from the lower layer.
    TooMuchWork,
    /// The time limit is exceeded.
    TooLong,
}

impl Why {
    /// All trap kinds, in the order of their numbers.
    pub const ALL: [Why; 15] = [
        Why::Finished,
        Why::NullPointer,
        Why::OutOfBounds,
        Why::Gone,
        Why::ReadOnly,
        Why::OtherObject,
        Why::NotAllocated,
        Why::DivisionByZero,
        Why::TooManySteps,
        Why::TooDeep,
        Why::OutOfMemory,
        Why::NoElement,
        Why::BadLength,
        Why::TooMuchWork,
        Why::TooLong,
    ];
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Why::Finished => "it has ended",
            Why::NullPointer => "a pointer to nothing is used",
            Why::OutOfBounds => "memory is reached for beyond the object that a pointer points to",
            Why::Gone => "a pointer is used to memory that is gone",
            Why::ReadOnly => "memory is written to that is read only",
            Why::OtherObject => "pointers to different objects are subtracted",
            Why::NotAllocated => "memory is given back that was not allocated",
            Why::DivisionByZero => "a division by zero",
            Why::TooManySteps => "it takes too many steps",
            Why::TooDeep => "functions call each other too deeply",
            Why::OutOfMemory => "it takes too much memory",
            Why::NoElement => "an element is asked for that the array does not have",
            Why::BadLength => "a length is below zero, or too large",
            Why::TooMuchWork => "it handles too many bytes, or asks for too much below",
            Why::TooLong => "it computes longer than its time limit",
        })
    }
}
