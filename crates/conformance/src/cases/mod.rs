//! The tests, one module per group.

mod acls;
mod append;
mod attributes;
mod common;
mod copy;
mod data;
mod directories;
mod holes;
mod large;
mod links;
mod locks;
mod map;
mod names;
mod open;
mod permissions;
mod readonly;
mod rename;
mod space;
mod special;
mod storm;
mod times;
mod unlinked;
mod xattrs;

use std::sync::LazyLock;

use crate::subject::Result;
use crate::{Abilities, Client, Test};

/// Returns all tests, in groups.
pub fn all() -> &'static [Test] {
    static ALL: LazyLock<Vec<Test>> = LazyLock::new(|| GROUPS.iter().flat_map(|group| group()).collect());
    &ALL
}

/// The functions that return the tests, one per group.
const GROUPS: &[fn() -> Vec<Test>] = &[
    names::tests,
    attributes::tests,
    times::tests,
    data::tests,
    open::tests,
    permissions::tests,
    links::tests,
    rename::tests,
    directories::tests,
    unlinked::tests,
    holes::tests,
    append::tests,
    locks::tests,
    xattrs::tests,
    acls::tests,
    map::tests,
    copy::tests,
    special::tests,
    large::tests,
    space::tests,
    storm::tests,
    readonly::tests,
];

/// Creates the tree that read-only subjects are tested on.
pub(crate) fn prepare(client: &dyn Client, abilities: Abilities) -> Result<()> {
    readonly::prepare(client, abilities)
}
