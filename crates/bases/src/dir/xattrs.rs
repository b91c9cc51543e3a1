//! Extended attributes, including those of symlinks.
//!
//! Attributes are accessed through the links of /proc/self/fd, which lead to the object of an `O_PATH` descriptor whatever
//! its kind. Operations for which Linux requires CAP_SYS_ADMIN or CAP_SETFCAP are refused here to callers without them.

use std::os::fd::AsFd;

use vnode::{Caller, Errno, FileKind, Result, XattrMode};

use rustix::fs::XattrFlags;

use super::credentials::AssumedCredentials;
use super::node::Node;
use super::restrictions::CAPABILITIES;
use super::status::Status;
use super::{errno, restrictions};

const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";

/// Returns the value of an attribute.
pub(crate) fn get(node: &Node, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
    if name.starts_with(TRUSTED) && !may_administer(node, caller) {
        return Err(Errno::ENODATA);
    }
    if restrictions::hides_attribute(&node.mount(), name) || (ignores_markers(node, caller) && is_marker_name(name)) {
        return Err(Errno::ENODATA);
    }
    let thread = &mut node.tree().credentials.thread();
    let object = node.descriptor(thread)?;
    let (acting, name) = (thread.act_for(caller)?, attribute_name(name)?);
    read_growing(|buffer| acting.attribute(&object, name, buffer))
}

/// Sets an attribute.
pub(crate) fn set(node: &Node, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
    let by = if is_for_own_namespace(node, caller, name, value)? {
        // Linux permits it by the capabilities in the namespace, which the file system here does not know of.
        &Caller::server().at_expense_of(caller)
    } else {
        check_change(node, caller, name)?;
        caller
    };
    let thread = &mut node.tree().credentials.thread();
    let object = node.descriptor(thread)?;
    let flags = match mode {
        XattrMode::Set => XattrFlags::empty(),
        XattrMode::Create => XattrFlags::CREATE,
        XattrMode::Replace => XattrFlags::REPLACE,
    };
    let name = attribute_name(name)?;
    thread.charge_space(by, |acting| acting.set_attribute(&object, name, value, flags))
}

/// Returns whether markers of layers on an object are ignored. Layers read markers during look-ups, in which the root
/// of a FUSE mount is not queried, and would trust its server.
fn ignores_markers(node: &Node, caller: &Caller) -> bool {
    caller.is_server_alone() && node.is_fuse_root()
}

/// Returns whether layers may store markers in an attribute of this name.
fn is_marker_name(name: &[u8]) -> bool {
    name.starts_with(TRUSTED) || name.starts_with(b"user.")
}

/// Returns the names of all attributes.
pub(crate) fn list(node: &Node, caller: &Caller) -> Result<Vec<u8>> {
    if ignores_markers(node, caller) {
        return Ok(Vec::new());
    }
    let thread = &mut node.tree().credentials.thread();
    let object = node.descriptor(thread)?;
    let acting = thread.act_for(caller)?;
    let names = match read_growing(|buffer| names_of(node, &acting, &object, caller, buffer)) {
        Err(Errno::EOPNOTSUPP) => return Ok(Vec::new()),
        names => names?,
    };
    let (shows_trusted, mount) = (may_administer(node, caller), node.mount());
    let is_visible = |name: &&[u8]| {
        (shows_trusted || !name.starts_with(TRUSTED))
            && !restrictions::hides_attribute(&mount, name.strip_suffix(b"\0").unwrap_or(name))
    };
    Ok(names.split_inclusive(|&byte| byte == 0).filter(is_visible).flatten().copied().collect())
}

/// Runs listxattr(2) on an object.
fn names_of(
    node: &Node,
    acting: &AssumedCredentials<'_>,
    object: impl AsFd,
    caller: &Caller,
    buffer: &mut [u8],
) -> rustix::io::Result<usize> {
    // The server may search all directories, and reaches each by its own `.` entry, which costs less than a /proc link.
    if caller.server && node.file_kind() == FileKind::Directory {
        match acting.list_attributes_at(&object, c".", buffer) {
            // Older seccomp filters return EPERM for calls that they do not know.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => {}
            listed => return listed,
        }
    }
    acting.list_attributes(object, buffer)
}

/// Removes an attribute.
pub(crate) fn remove(node: &Node, caller: &Caller, name: &[u8]) -> Result<()> {
    let is_own = name == CAPABILITIES
        && get(node, caller, name).is_ok_and(|value| is_for_own_namespace(node, caller, name, &value) == Ok(true));
    let by = if is_own {
        &Caller::server()
    } else {
        check_change(node, caller, name)?;
        caller
    };
    let thread = &mut node.tree().credentials.thread();
    let object = node.descriptor(thread)?;
    thread.act_for(by)?.remove_attribute(object, attribute_name(name)?).map_err(errno)
}

/// Returns whether the caller has the rights for which Linux requires CAP_SYS_ADMIN. Without switched credentials the kernel
/// decides.
fn may_administer(node: &Node, caller: &Caller) -> bool {
    !node.tree().credentials.assumes_callers() || caller.may_administer()
}

fn check_change(node: &Node, caller: &Caller, name: &[u8]) -> Result<()> {
    let privileged = name.starts_with(TRUSTED) || name.starts_with(SECURITY);
    if privileged && !may_administer(node, caller) { Err(Errno::EPERM) } else { Ok(()) }
}

/// Returns whether these are capabilities that the caller may set or remove as user 0 of its own user namespace.
fn is_for_own_namespace(node: &Node, caller: &Caller, name: &[u8], value: &[u8]) -> Result<bool> {
    if name != CAPABILITIES || !node.tree().credentials.assumes_callers() {
        return Ok(false);
    }
    let status = Status::of_descriptor(node.descriptor(&mut node.tree().credentials.thread())?)?;
    Ok(caller.may_give_capabilities(value, status.uid()))
}

/// Returns an attribute's name, after checking its length and that it contains no NUL, which would end it early.
fn attribute_name(name: &[u8]) -> Result<&[u8]> {
    match name {
        [] => Err(Errno::ERANGE),
        name if name.len() > 255 => Err(Errno::ERANGE),
        name if name.contains(&0) => Err(Errno::EINVAL),
        name => Ok(name),
    }
}

/// Repeats a call with a larger buffer until the result fits: most results are short, and they may grow between two calls.
fn read_growing(call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> Result<Vec<u8>> {
    let mut capacity = 256;
    loop {
        let mut buffer = vec![0; capacity];
        match call(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(rustix::io::Errno::RANGE) if capacity < XATTR_SIZE_MAX => {
                capacity = (capacity * 16).min(XATTR_SIZE_MAX)
            }
            Err(error) => return Err(errno(error)),
        }
    }
}

/// Maximum size of a value and of a list of names in bytes, as Linux's XATTR_SIZE_MAX.
const XATTR_SIZE_MAX: usize = 65_536;
