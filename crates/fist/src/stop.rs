//! Why a run stops before its end.

use std::fmt;

use crate::text::Span;

/// A run that was stopped, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub why: Why,
    /// Where in the text.
    pub span: Span,
}

/// Why a run stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// `fistRetErr`: as it should.
    Finished = 1,
    /// A pointer to nothing is used.
    NullPointer,
    /// Memory is reached for that no object has.
    OutOfBounds,
    /// A pointer is used to what is gone.
    Gone,
    /// What is not written to is written to.
    ReadOnly,
    /// Pointers to different objects are subtracted.
    OtherObject,
    /// What was not allocated is given back.
    NotAllocated,
    /// A division by zero.
    DivisionByZero,
    /// It takes too long.
    TooManySteps,
    /// Functions call each other too deeply.
    TooDeep,
    /// It takes too much memory.
    OutOfMemory,
    /// An element that an array does not have.
    NoElement,
    /// A length below zero, or too large.
    BadLength,
    /// It handles too many bytes, or asks for too much below.
    TooMuchWork,
    /// It computes longer than its time limit.
    TooLong,
}

impl Why {
    /// All of them, in the order of their numbers.
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
