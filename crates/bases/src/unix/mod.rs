//! Unix rules: who may do what to an object, and what follows from it, with the same results as Linux's own file systems.
//!
//! Pure functions over plain values, for bases that check permissions themselves: they neither store anything nor lock.

#![cfg_attr(not(feature = "mem"), allow(dead_code, reason = "other bases need a part of the rules"))]

pub(crate) mod acl;
pub(crate) mod changes;
pub(crate) mod creation;
pub(crate) mod extended_attributes;
pub(crate) mod permissions;
pub(crate) mod protection;
pub(crate) mod renames;
pub(crate) mod set_id;
pub(crate) mod times;
