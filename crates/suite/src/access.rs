//! The way in which a run accesses its stack.

use std::fmt;

/// The way in which a run accesses its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StackAccess {
    /// Through its vnodes.
    Tree,
    /// Through a mount whose requests come through /dev/fuse.
    Device,
    /// Through a mount whose requests come through io_uring.
    Uring,
}

impl StackAccess {
    /// Returns whether the stack is mounted.
    pub fn is_mount(self) -> bool {
        self != Self::Tree
    }
}

impl fmt::Display for StackAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tree => "tree",
            Self::Device => "mount",
            Self::Uring => "mount over io_uring",
        })
    }
}
