//! What a layer keeps for each vnode, and for each open file.

use std::marker::PhantomData;

/// State that a layer keeps: any type with a default for each vnode, `()` for none, and [`VnodeAndFile`] for open files too.
///
/// State that is made from the lower object, and whose making may fail, is a cell that an operation fills when it first needs it,
/// such as `once_cell::sync::OnceCell`: nobody pays for objects that are only looked up, and the operation returns the error. What an
/// open file needs from the beginning is made by [`super::Layer::opened`].
pub trait LayerState: 'static {
    /// State of a vnode. It lives as long as the vnode is referenced, and all references share it.
    type Vnode: Default + Send + Sync + 'static;
    /// State of an open file.
    type File: Default + Send + Sync + 'static;
}

impl<V: Default + Send + Sync + 'static> LayerState for V {
    type Vnode = V;
    type File = ();
}

/// State of each vnode and of each open file.
#[derive(Debug)]
pub struct VnodeAndFile<V, F>(PhantomData<fn() -> (V, F)>);

impl<V: Default + Send + Sync + 'static, F: Default + Send + Sync + 'static> LayerState for VnodeAndFile<V, F> {
    type Vnode = V;
    type File = F;
}
