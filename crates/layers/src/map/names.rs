//! Locks of directories: what a name stands for stays so from the check of who may remove it until it is gone.

use vnode::Vnode;
use vnode::layer::Operation;
use vnode::{Handle, KeyedGuard, KeyedLocks};

/// One lock for each directory. Only operations that take names away from where they were hold one: a name that nobody takes
/// away stays what it is.
#[derive(Debug, Default)]
pub(super) struct NameLocks(KeyedLocks<Handle>);

/// Locks held, of one directory or two.
pub(super) type NameGuards<'a> = [Option<KeyedGuard<'a, Handle>>; 2];

impl NameLocks {
    /// Locks a directory from which a name is to be taken that an operation has just made.
    pub(super) fn lock_directory(&self, node: &dyn Vnode) -> KeyedGuard<'_, Handle> {
        self.0.write(node.handle())
    }

    /// Locks the directories from which the operation takes names away.
    pub(super) fn lock(&self, node: &dyn Vnode, operation: &Operation<'_>) -> NameGuards<'_> {
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
