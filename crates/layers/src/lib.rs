//! Layers: file systems stacked on file systems, one module and one feature each.
//!
//! Every module has the same shape: the layer, its options, a `KIND` that registers it, and `create`, which builds the
//! layer from options as given in a stack expression. [`kinds`] lists all layers, so that stack builders iterate over
//! it and know no layer by name. Two modules are not layers but build on `union`: `fork`, a union for the changes of one command,
//! and `views`, which give selected processes a branch of their own. Those are selected by `view_rules`, below `union`.

pub mod options;

#[cfg(feature = "audit")]
pub mod audit;
#[cfg(feature = "fist")]
pub mod described;
#[cfg(feature = "faulty")]
pub mod faulty;
#[cfg(feature = "union")]
pub mod fork;
#[cfg(feature = "longnames")]
pub mod longnames;
#[cfg(feature = "map")]
pub mod map;
#[cfg(feature = "readonly")]
pub mod readonly;
#[cfg(feature = "rot13")]
pub mod rot13;
#[cfg(feature = "throttle")]
pub mod throttle;
#[cfg(feature = "union")]
pub mod union;
#[cfg(feature = "union")]
mod view_rules;
#[cfg(feature = "union")]
mod views;

mod branch;
#[cfg(feature = "commands")]
pub mod command;
mod control;
pub mod copies;
#[cfg(any(feature = "audit", feature = "map"))]
mod globs;
#[cfg(any(feature = "audit", feature = "fist", feature = "map", feature = "readonly", feature = "union"))]
mod ioctl;
mod kind;
mod only_described;
pub mod printable;
#[cfg(any(feature = "audit", feature = "faulty"))]
mod rules;
pub mod sizes;
pub mod standard_error;
#[cfg(any(feature = "audit", feature = "faulty", feature = "map"))]
mod text_file;
#[cfg(any(feature = "audit", feature = "map"))]
mod users;

pub use branch::{
    BRANCH_OPTIONS, Branch, BranchMode, BranchOpener, BranchScan, BranchSource, PatternMatch, PatternMatches,
};
pub use control::{ControlArgument, ControlArguments, ControlFailure, ControlSpecification};
pub use kind::{BRANCHES_COMMAND, Join, Kind, Pair, Synopsis};
pub use only_described::{is_only_described, only_described};
pub use options::{OptionError, OptionProblem, OptionSpecification, Refusal};

/// Returns the registrations of all layers in this build, sorted by name.
pub const fn kinds() -> &'static [Kind] {
    &[
        #[cfg(feature = "audit")]
        audit::KIND,
        #[cfg(feature = "faulty")]
        faulty::KIND,
        #[cfg(feature = "longnames")]
        longnames::KIND,
        #[cfg(feature = "map")]
        map::KIND,
        #[cfg(feature = "readonly")]
        readonly::KIND,
        #[cfg(feature = "rot13")]
        rot13::KIND,
        #[cfg(feature = "throttle")]
        throttle::KIND,
        #[cfg(feature = "union")]
        union::KIND,
    ]
}

/// Returns the registration of the named layer.
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted_and_found_by_name() {
        assert!(kinds().is_sorted_by_key(|kind| kind.name));
        assert!(kinds().iter().all(|known| kind(known.name).is_some_and(|found| found.summary == known.summary)));
        assert!(kind("nothing").is_none());
    }
}

/// The guide to layers, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/layers.md"))]
pub struct Guide;

/// The guide to writing one, whose example is a test.
#[cfg(doctest)]
#[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/write-a-layer.md"))]
pub struct GuideToWriting;
