//! Front ends: what turns requests from outside into vnode calls.

pub mod fuse;
