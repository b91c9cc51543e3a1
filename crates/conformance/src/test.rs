//! A test: its name, the abilities that it needs, and its body.

use crate::{Ability, Outcome, TestContext};

/// A named test.
#[derive(Debug)]
pub struct Test {
    /// The subject area of the test.
    pub group: &'static str,
    /// Name of the test, unique in the group.
    pub name: &'static str,
    /// The abilities that a subject must have for the test to be meaningful.
    pub needs: &'static [Ability],
    pub(crate) body: fn(&TestContext<'_>) -> Outcome,
}

impl Test {
    /// Returns the group and the name.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}
