//! The tested stacks: layers on file systems with injected faults.

use vnode::FileSystemRef;

/// A construction of layers on file systems.
pub trait Stack {
    /// Returns its name in messages.
    fn title(&self) -> String;

    /// Returns the number of lower file systems.
    fn width(&self) -> usize;

    /// Returns an empty lower file system that fails on command: it accepts the commands of the layer `faulty`.
    fn below(&self) -> FileSystemRef;

    /// Builds the stack.
    fn build(&self, below: Vec<FileSystemRef>) -> FileSystemRef;

    /// Builds the stack in a writable form, for creating the tree that operations work on.
    fn build_writable(&self, below: Vec<FileSystemRef>) -> FileSystemRef {
        self.build(below)
    }

    /// Returns whether the tree is in several of the file systems, as the stack distributes it. Otherwise it is in the last
    /// one.
    fn spreads(&self) -> bool {
        false
    }
}
