//! A layer whose call of a number fails, with nothing done or with all done, and through which the kernel may read and write by
//! itself: calls on open files are not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vnode::layer::{Layer, LayerVnode};
use vnode::{
    Attributes, Caller, Created, Creation, Entry, Errno, Name, Promises, RenameMode, Result, SetAttributes, VnodeRef,
    XattrMode,
};

/// Which call fails, shared with the test.
#[derive(Clone, Default)]
pub(crate) struct Interrupted(Arc<Numbers>);

#[derive(Default)]
struct Numbers {
    calls: AtomicU64,
    /// 0 for none.
    failing: AtomicU64,
    /// It is done all the same: 1.
    is_late: AtomicU64,
    /// So do all after it: 1.
    is_last: AtomicU64,
}

impl Interrupted {
    /// From here on calls are counted from 1, and this one answers `EIO`.
    pub(crate) fn fail(&self, call: u64, is_late: bool) {
        self.0.calls.store(0, Ordering::Relaxed);
        self.0.is_late.store(is_late.into(), Ordering::Relaxed);
        self.0.is_last.store(0, Ordering::Relaxed);
        self.0.failing.store(call, Ordering::Relaxed);
    }

    /// The same, and so do all later ones: whoever makes them has been stopped.
    pub(crate) fn stop(&self, call: u64, is_late: bool) {
        self.fail(call, is_late);
        self.0.is_last.store(1, Ordering::Relaxed);
    }

    /// How many calls there were.
    pub(crate) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    fn call<T>(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let number = self.0.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let failing = self.0.failing.load(Ordering::Relaxed);
        if failing != 0 && number > failing && self.0.is_last.load(Ordering::Relaxed) != 0 {
            return Err(Errno::EIO);
        }
        if number != failing {
            return make();
        }
        if self.0.is_late.load(Ordering::Relaxed) != 0 {
            make()?;
        }
        Err(Errno::EIO)
    }
}

impl Layer for Interrupted {
    type State = ();

    fn kind(&self) -> &'static str {
        "interrupted"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn getattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Attributes> {
        self.call(|| node.forward_getattr(caller))
    }

    fn setattr(&self, node: &LayerVnode<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        self.call(|| node.forward_setattr(caller, changes))
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        self.call(|| node.forward_lookup(caller, name))
    }

    fn create(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        self.call(|| node.forward_create(caller, name, how))
    }

    fn mkdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        self.call(|| node.forward_mkdir(caller, name, mode))
    }

    fn link(&self, node: &LayerVnode<Self>, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        self.call(|| node.forward_link(caller, target, name))
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.call(|| node.forward_unlink(caller, name))
    }

    fn rmdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.call(|| node.forward_rmdir(caller, name))
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
        self.call(|| node.forward_rename(caller, name, to, to_name, mode))
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.call(|| node.forward_getxattr(caller, name))
    }

    fn setxattr(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.call(|| node.forward_setxattr(caller, name, value, mode))
    }
}
