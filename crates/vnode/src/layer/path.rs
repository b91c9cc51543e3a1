//! The path of a vnode in its layer, and what the layer lets a caller find by it.

use super::template::{Layer, LayerVnode};
use crate::name::NameCow;
use crate::{Caller, Errno, Name, Result, Vnode, VnodeRef};

/// Decodes the lower path from the root down, each name in its directory.
pub(crate) fn decoded<L: Layer>(node: &LayerVnode<L>) -> Result<Vec<u8>> {
    let mut path = Vec::new();
    walk(node, Caller::shared_server(), |_, decoded, _| {
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(decoded.as_name().as_bytes());
        Ok(())
    })?;
    Ok(path)
}

/// Goes along the lower path of a vnode from the root down. Calls `visit` with each directory, a name in it as `caller` is shown it,
/// and the lower object of that name; returns the last lower object.
fn walk<L: Layer>(
    node: &LayerVnode<L>,
    caller: &Caller,
    mut visit: impl FnMut(&LayerVnode<L>, NameCow<'_>, &VnodeRef) -> Result<()>,
) -> Result<VnodeRef> {
    let lower_path = node.lower().path()?;
    let server = Caller::shared_server();
    let mut lower = node.mount.lower.root();
    let mut directory = node.wrap(lower.clone());
    for component in lower_path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        let name = Name::new(component)?;
        lower = lower.lookup(server, name)?.vnode;
        // One that has entries of the directory above it has no name of its own.
        let shown_by = node.layer().upper_directory(server, &lower)?;
        if shown_by.is_some_and(|shown_by| shown_by.handle() == directory.lower().handle()) {
            continue;
        }
        visit(&directory, directory.try_decode(caller, name)?.ok_or(Errno::ENOENT)?, &lower)?;
        directory = directory.wrap(lower.clone());
    }
    Ok(lower)
}

/// Checks that an object is not one of its layer's own entries, nor in one.
///
/// # Errors
/// `ENOENT` if it is; `EOPNOTSUPP` if the layer has own entries and the lower file system does not know the path.
pub(crate) fn check_not_own<L: Layer>(node: &LayerVnode<L>) -> Result<()> {
    if !node.layer().own_entries().exist {
        return Ok(());
    }
    let is_own = |component: &[u8]| Name::new(component).is_ok_and(|name| node.layer().is_own_entry(name));
    match node.lower().path()?.split(|&byte| byte == b'/').any(is_own) {
        true => Err(Errno::ENOENT),
        false => Ok(()),
    }
}

/// Looks up the path of an object in its layer, each name as `caller`.
///
/// # Errors
/// See [`LayerVnode::check_lookup`].
pub(crate) fn check_lookup<L: Layer>(node: &LayerVnode<L>, caller: &Caller) -> Result<()> {
    // Permissions on the way are no concern of a handle.
    let caller = if caller.server { caller.clone() } else { Caller::server_for(caller) };
    let lower = walk(node, &caller, |directory, decoded, lower| {
        let found = directory.lookup(&caller, decoded.as_name())?.vnode;
        if directory.lower_of(&found)?.handle() == lower.handle() { Ok(()) } else { Err(Errno::ENOENT) }
    })?;
    if lower.handle() == node.lower().handle() { Ok(()) } else { Err(Errno::ENOENT) }
}
