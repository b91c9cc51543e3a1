//! Infrastructure for runs over whole stacks: stacks built from descriptions, directories for their lower files, mounts.
//!
//! The runs themselves are this crate's tests. `tests/conformance.rs` runs every conformance test over every stack of
//! the matrix, by its vnodes and through a mount, each as one counted test.

pub mod cover;
mod kernel;
pub mod matrix;
pub mod pairs;
mod patience;
mod place;
pub mod plan;
pub mod reach;
mod recipe;
mod served;
mod starter;
mod timed;

pub use patience::patiently;
pub use place::{Place, make_branches};
pub use recipe::{Base, Recipe, RecipeError};
pub use served::{Served, serve_if_asked};
pub use starter::{keep_credentials, with_kept_credentials};
pub use timed::timed;
