//! Declared properties of a file system: its promises and its needs, by which front ends choose optimizations.

use crate::{Needs, Promises};

/// Properties of a file system, or of one member of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// What others may rely on.
    pub promises: Promises,
    /// What others must do.
    pub needs: Needs,
}

impl Properties {
    /// Properties of a layer that passes everything on as it is.
    pub const TRANSPARENT: Self = Self { promises: Promises::TRANSPARENT, needs: Needs::NONE };

    /// Returns the properties of a member that declares `self` on a stack that declares `lower`.
    #[must_use]
    pub const fn stacked_on(self, lower: Self) -> Self {
        Self { promises: self.promises.stacked_on(lower.promises), needs: self.needs.stacked_on(lower.needs) }
    }

    /// Returns whether reads and writes may bypass the stack, to the base's files.
    pub const fn allows_bypass(&self) -> bool {
        self.promises.data_untouched && !self.needs.every_data_operation
    }
}

impl From<Promises> for Properties {
    /// Properties of a member that needs nothing.
    fn from(promises: Promises) -> Self {
        Self { promises, ..Self::TRANSPARENT }
    }
}

impl From<Needs> for Properties {
    /// Properties of a member that passes everything on as it is, and has to see it.
    fn from(needs: Needs) -> Self {
        Self { needs, ..Self::TRANSPARENT }
    }
}
