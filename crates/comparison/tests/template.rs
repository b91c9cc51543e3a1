//! The samples on the layer template, each through a real mount.

mod behaviour;
