//! Rules of views: which processes see one, by their user, session, ancestors or program.
//!
//! The module is below the union, whose state has the views with their rules; what a view shows is in
//! [`crate::views`], above the union's operations.

mod process;
mod process_events;
mod process_tree;
mod rule;
mod session;

pub(crate) use rule::{RULE_SUBJECTS, ViewRule};
