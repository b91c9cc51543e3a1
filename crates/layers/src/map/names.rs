//! Locks of directories, which keep what a name refers to unchanged from the check of its removal until it is removed.

use vnode::Vnode;
use vnode::layer::Operation;
use vnode::{Handle, KeyedGuard, KeyedLocks};

/// One lock per directory. Only operations that remove names from their directory hold one: a name that nobody removes
/// keeps referring to the same object.
#[derive(Debug, Default)]
pub(crate) struct NameLocks(KeyedLocks<Handle>);

/// Locks held on one directory or two.
pub(crate) type NameGuards<'a> = [Option<KeyedGuard<'a, Handle>>; 2];

impl NameLocks {
    /// Locks a directory to remove a name from it that an operation has just created.
    pub(crate) fn lock_directory(&self, node: &dyn Vnode) -> KeyedGuard<'_, Handle> {
        self.0.write(node.handle())
    }

    /// Locks the directories from which the operation removes names.
    pub(crate) fn lock(&self, node: &dyn Vnode, operation: &Operation<'_>) -> NameGuards<'_> {
        match operation {
            Operation::Unlink(_) | Operation::RemoveDirectory(_) => [Some(self.0.write(node.handle())), None],
            Operation::Rename { to, .. } => {
                let (one, other) = self.0.write_both(node.handle(), to.handle());
                [Some(one), other]
            }
            _ => [None, None],
        }
    }
}
