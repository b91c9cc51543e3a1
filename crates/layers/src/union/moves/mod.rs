//! Moves of many objects between branches, while programs use the union: a branch is drained, the use of branches is balanced, or
//! the files of each directory are brought together.
//!
//! Each object moves by itself ([`relocate`](crate::union::state::Node::relocate)), in an operation of its own, so that programs are
//! not held up, and a move that is interrupted anywhere is continued by the same command.

mod balance;
mod consolidate;
mod drain;
mod report;
mod walk;
