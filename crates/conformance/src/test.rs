//! A test: its name, what it needs and what it does.

use crate::{Ability, Outcome, Scene};

/// A named test.
#[derive(Debug)]
pub struct Test {
    /// What it is about.
    pub group: &'static str,
    /// Its name, unique in the group.
    pub name: &'static str,
    /// What a subject must be able to do for the test to make sense.
    pub needs: &'static [Ability],
    pub(crate) body: fn(&Scene<'_>) -> Outcome,
}

impl Test {
    /// Group and name.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}
