//! `plyfs fat`: each tool with its options, what is printed for people and programs, and whatever can be wrong with an image.

#[path = "../support/mod.rs"]
mod support;

mod images;
mod making;
mod mounted;
mod mutated;
mod page;
mod refusals;
mod repairing;
mod tuning;
