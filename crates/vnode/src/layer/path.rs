//! The path of a vnode whose layer changes names.

use super::template::{Layer, LayerVnode};
use crate::{Caller, Errno, Name, Result};

/// Decodes the lower path from the root down, each name in its directory.
pub(crate) fn decoded<L: Layer>(node: &LayerVnode<L>) -> Result<Vec<u8>> {
    let lower_path = node.lower().path()?;
    let server = Caller::shared_server();
    let mut lower = node.mount.lower.root();
    let mut directory = node.wrap(lower.clone());
    let mut path = Vec::with_capacity(lower_path.len());
    for component in lower_path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        let name = Name::new(component)?;
        lower = lower.lookup(server, name)?.vnode;
        // One that has entries of the directory above it has no name of its own.
        let shown_by = node.layer().upper_directory(server, &lower)?;
        if shown_by.is_some_and(|shown_by| shown_by.handle() == directory.lower().handle()) {
            continue;
        }
        let decoded = directory.try_decode(server, name)?.ok_or(Errno::ENOENT)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(decoded.as_name().as_bytes());
        directory = directory.wrap(lower.clone());
    }
    Ok(path)
}
