//! Front ends, which turn requests from outside into vnode calls.

pub mod fuse;
