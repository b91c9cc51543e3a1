//! Unionfs joins two file systems: what the first has hides what the second has.

use std::sync::OnceLock;

use vnode::layer::{self, Layer, LayerVnode, Operation};
use vnode::{
    Caller, Entry, Errno, FileSystemRef, Name, Needs, OpenDirectoryRef, Promises, RenameMode, Result, VnodeRef,
};

use super::branches::Branches;
use super::listing::{Listing, Names};

/// Shows the first branch, and what only the second has.
pub struct Unionfs {
    branches: Branches,
}

/// Whether an object is only in the second branch.
#[derive(Default)]
pub struct State(OnceLock<()>);

impl Unionfs {
    /// The two joined.
    pub fn join(first: FileSystemRef, second: FileSystemRef) -> FileSystemRef {
        let branches = Branches([FileSystemRef::clone(&first), second]);
        layer::stack(Unionfs { branches }, first)
    }

    /// Takes a name away in both branches: it may be in one only.
    fn in_both(&self, node: &LayerVnode<Self>, work: impl Fn(usize, &VnodeRef) -> Result<()>) -> Result<()> {
        let in_branch = |branch| self.branches.part(branch, node).and_then(|part| work(branch, &part));
        let first = in_branch(0);
        if !matches!(first, Ok(()) | Err(Errno::ENOENT)) {
            return first;
        }
        match in_branch(1) {
            Err(Errno::ENOENT) => first,
            second => second,
        }
    }

    fn collect(node: &LayerVnode<Self>, caller: &Caller, names: &mut Names) -> Result<()> {
        for branch in 0..2 {
            if let Ok(part) = node.layer().branches.part(branch, node) {
                names.add(caller, &part, |_| true)?;
            }
        }
        Ok(())
    }
}

impl Layer for Unionfs {
    type State = State;

    fn kind(&self) -> &'static str {
        "unionfs"
    }

    fn promises(&self) -> Promises {
        Promises { exclusive: false, shares_locks: false, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, failed_lookups: true, ..Needs::NONE }
    }

    /// Changes go to the first branch only, where that which was found in the second is not.
    fn admit(&self, node: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Access(_) | Operation::Unlink(_) | Operation::RemoveDirectory(_) | Operation::Rename { .. } => {
                Ok(())
            }
            _ if operation.modifies() && node.state().0.get().is_some() => Err(Errno::ENOENT),
            _ => Ok(()),
        }
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let is_second = node.state().0.get().is_some();
        let found = match node.forward_lookup(caller, name) {
            found if is_second => found?,
            Err(Errno::ENOENT) => {
                let Entry { vnode, attributes } = self.branches.part(1, node)?.lookup(caller, name)?;
                Entry { vnode: node.wrap(vnode), attributes }
            }
            found => return found,
        };
        if let Some(second) = found.vnode.as_any().downcast_ref::<LayerVnode<Self>>() {
            second.state().0.get_or_init(|| ());
        }
        Ok(found)
    }

    fn open_directory(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<OpenDirectoryRef> {
        Listing::open(node, caller, Self::collect)
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.in_both(node, |_, directory| directory.unlink(caller, name))
    }

    fn rmdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.in_both(node, |_, directory| directory.rmdir(caller, name))
    }

    fn rename(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let to = to.as_any().downcast_ref::<LayerVnode<Self>>().ok_or(Errno::EXDEV)?;
        self.in_both(node, |branch, from| {
            from.lookup(caller, name)?;
            let to = self.branches.part(branch, to).map_err(|_| Errno::EXDEV)?;
            from.rename(caller, name, &to, to_name, mode)
        })
    }
}
