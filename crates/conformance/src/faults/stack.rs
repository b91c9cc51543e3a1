//! What is tested: layers on file systems that fail.

use vnode::FileSystemRef;

/// A way to put layers on file systems.
pub trait Stack {
    /// What it is called in messages.
    fn title(&self) -> String;

    /// Number of file systems below.
    fn width(&self) -> usize;

    /// An empty file system to be one of them, which fails as it is told: it takes the commands of the layer `faulty`.
    fn below(&self) -> FileSystemRef;

    /// The stack.
    fn build(&self, below: Vec<FileSystemRef>) -> FileSystemRef;

    /// The same for whoever makes the tree that operations work on.
    fn build_writable(&self, below: Vec<FileSystemRef>) -> FileSystemRef {
        self.build(below)
    }

    /// Whether the tree lies in several of the file systems, as the stack puts it. Otherwise it lies in the last one.
    fn spreads(&self) -> bool {
        false
    }
}
