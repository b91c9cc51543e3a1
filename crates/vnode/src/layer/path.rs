//! The path of a vnode whose layer changes names.

use std::sync::Arc;

use super::template::{Layer, LayerVnode};
use crate::{Caller, Errno, Name, Result};

/// Decodes the lower path from the root down, each name in its directory.
pub(crate) fn decoded<L: Layer>(node: &LayerVnode<L>) -> Result<Vec<u8>> {
    let lower_path = node.lower().path()?;
    let mut directory = node.wrap(node.mount.lower.root());
    let mut path = Vec::with_capacity(lower_path.len());
    for component in lower_path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        let name = Name::new(component)?;
        let decoded = directory.layer().decode_name(&directory, name)?.ok_or(Errno::ENOENT)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&decoded);
        let below = directory.lower().lookup(&Caller::server(), name)?.vnode;
        directory = directory.wrap(Arc::clone(&below));
    }
    Ok(path)
}
