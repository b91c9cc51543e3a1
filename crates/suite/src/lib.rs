//! Infrastructure for runs over whole stacks: stacks built from recipes, directories for their lower files, mounts.
//!
//! The runs themselves are this crate's tests. `tests/conformance.rs` runs every conformance test over every stack of
//! the matrix, through its vnodes and through a mount, each as one counted test.

pub mod access;
pub mod cover;
mod initial_credentials;
mod kernel;
pub mod matrix;
pub mod pairs;
pub mod plan;
mod recipe;
mod served;
mod test_directory;
mod timed;
mod timeout;

pub use initial_credentials::{keep_initial_credentials, with_initial_credentials};
pub use recipe::{Base, Recipe, RecipeError};
pub use served::{ServedStack, serve_if_requested};
pub use test_directory::{TestDirectory, make_branches, make_volume};
pub use timed::timed_trial;
pub use timeout::with_timeout;
