//! Extended attributes: namespaces, permissions, sizes, and the ACLs in the form of attributes.

use libc::{S_ISGID, S_ISVTX};
use vnode::{Caller, Errno, FileKind, Result, XattrMode};

use super::acl::Acl;
use super::inode::Inode;
use super::memory;
use super::metadata::Metadata;
use super::permissions;
use super::xattr_store::CAPABILITY;

/// Maximum length of a name in bytes, namespace included.
const NAME_MAX: usize = 255;
/// Maximum size of a value in bytes.
const VALUE_MAX: usize = 65_536;

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// The namespace of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Namespace {
    User,
    Trusted,
    Security,
    AccessAcl,
    DefaultAcl,
    /// Any other, which is unsupported.
    Other,
}

impl Inode {
    /// Returns the value of an attribute.
    pub(crate) fn get_xattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        let namespace = namespace_of(name)?;
        let state = self.read();
        let metadata = &state.metadata;
        let acl = match namespace {
            Namespace::AccessAcl => &metadata.access_acl,
            Namespace::DefaultAcl => &metadata.default_acl,
            _ => {
                admit(metadata, caller, namespace, name, permissions::READ)?;
                let value = metadata.xattrs.get(name).ok_or(Errno::ENODATA)?;
                // An empty one can be set but not read.
                return if name == CAPABILITY && value.is_empty() { Err(Errno::EINVAL) } else { Ok(value.to_vec()) };
            }
        };
        if self.kind == FileKind::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        acl.as_ref().map(|acl| acl.to_bytes()).ok_or(Errno::ENODATA)
    }

    /// Sets an attribute.
    pub(crate) fn set_xattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let namespace = namespace_of(name)?;
        if value.len() > VALUE_MAX {
            return Err(Errno::E2BIG);
        }
        let mut state = self.write();
        let metadata = &mut state.metadata;
        match namespace {
            Namespace::AccessAcl | Namespace::DefaultAcl => {
                memory::check_available(4 * value.len() as u64)?;
                set_acl(metadata, caller, namespace, Acl::parse(value)?)
            }
            _ => {
                if name != CAPABILITY || !caller.may_give_capabilities(value, metadata.uid) {
                    admit(metadata, caller, namespace, name, permissions::WRITE)?;
                }
                if name == CAPABILITY && !value.is_empty() && !is_capability(value) {
                    return Err(Errno::EINVAL);
                }
                let is_same = metadata.xattrs.get(name) == Some(value);
                metadata.xattrs.set(&self.volume.pages, name, value, mode)?;
                if !is_same {
                    metadata.changed();
                }
                Ok(())
            }
        }
    }

    /// Returns the names of all attributes that the caller may see, each terminated by a NUL.
    pub(crate) fn list_xattrs(&self, caller: &Caller) -> Vec<u8> {
        let state = self.read();
        let metadata = &state.metadata;
        let acls = [(ACCESS_ACL, &metadata.access_acl), (DEFAULT_ACL, &metadata.default_acl)];
        let acls = acls.into_iter().filter(|(_, acl)| acl.is_some()).map(|(name, _)| name);
        let visible = |name: &&[u8]| !name.starts_with(b"trusted.") || caller.is_superuser();
        let names = metadata.xattrs.names().filter(visible);
        acls.chain(names).flat_map(|name| name.iter().copied().chain([0])).collect()
    }

    /// Removes an attribute.
    pub(crate) fn remove_xattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        let namespace = namespace_of(name)?;
        let mut state = self.write();
        let metadata = &mut state.metadata;
        match namespace {
            Namespace::AccessAcl | Namespace::DefaultAcl => set_acl(metadata, caller, namespace, None),
            _ => {
                let value = metadata.xattrs.get(name).unwrap_or_default();
                if name != CAPABILITY || !caller.may_give_capabilities(value, metadata.uid) {
                    admit(metadata, caller, namespace, name, permissions::WRITE)?;
                }
                metadata.xattrs.remove(&self.volume.pages, name)?;
                metadata.changed();
                Ok(())
            }
        }
    }
}

fn namespace_of(name: &[u8]) -> Result<Namespace> {
    match name {
        _ if name.is_empty() || name.len() > NAME_MAX => Err(Errno::ERANGE),
        ACCESS_ACL => Ok(Namespace::AccessAcl),
        DEFAULT_ACL => Ok(Namespace::DefaultAcl),
        _ if name.starts_with(b"system.") => Err(Errno::EOPNOTSUPP),
        _ if name.starts_with(b"user.") => Ok(Namespace::User),
        _ if name.starts_with(b"trusted.") => Ok(Namespace::Trusted),
        _ if name.starts_with(b"security.") => Ok(Namespace::Security),
        _ => Ok(Namespace::Other),
    }
}

/// Checks that the name is valid: Linux does so after the caller's permissions.
fn check_name(namespace: Namespace, name: &[u8]) -> Result<()> {
    match namespace {
        Namespace::Other => Err(Errno::EOPNOTSUPP),
        _ if name.ends_with(b".") && name.iter().filter(|&&byte| byte == b'.').count() == 1 => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Checks whether the caller may read or write an attribute that is not an ACL.
fn admit(metadata: &Metadata, caller: &Caller, namespace: Namespace, name: &[u8], wanted: u32) -> Result<()> {
    let writes = wanted == permissions::WRITE;
    let refusal = if writes { Errno::EPERM } else { Errno::ENODATA };
    match namespace {
        Namespace::Trusted if !caller.is_superuser() => return Err(refusal),
        Namespace::Security if writes && !caller.is_superuser() => return Err(Errno::EPERM),
        Namespace::User if !matches!(metadata.kind, FileKind::Regular | FileKind::Directory) => return Err(refusal),
        Namespace::User | Namespace::Other => {
            let sticky = metadata.kind == FileKind::Directory && metadata.mode & S_ISVTX != 0;
            if writes && sticky && namespace == Namespace::User {
                permissions::check_owner(metadata, caller)?;
            }
            permissions::check(metadata, caller, wanted)?;
        }
        _ => {}
    }
    check_name(namespace, name)
}

/// Sets or removes an ACL, with the corresponding mode bits.
fn set_acl(metadata: &mut Metadata, caller: &Caller, namespace: Namespace, acl: Option<Acl>) -> Result<()> {
    if metadata.kind == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    if namespace == Namespace::DefaultAcl && metadata.kind != FileKind::Directory {
        return if acl.is_some() { Err(Errno::EACCES) } else { Ok(()) };
    }
    permissions::check_owner(metadata, caller)?;
    let old = if namespace == Namespace::DefaultAcl { &metadata.default_acl } else { &metadata.access_acl };
    match &acl {
        Some(acl) => acl.check()?,
        None if old.is_none() => return Ok(()),
        None => {}
    }
    match (namespace, acl) {
        (Namespace::DefaultAcl, acl) => metadata.default_acl = acl.map(Box::new),
        (_, None) => metadata.access_acl = None,
        (_, Some(acl)) => {
            let before = (metadata.mode, metadata.access_acl.is_none());
            metadata.mode = metadata.mode & !0o777 | acl.mode_bits();
            if !permissions::may_keep_setgid(caller, metadata.gid) {
                metadata.mode &= !S_ISGID;
            }
            metadata.access_acl = (!acl.is_mode_only()).then(|| acl.into());
            if before == (metadata.mode, true) && metadata.access_acl.is_none() {
                // The mode already expresses it.
                return Ok(());
            }
        }
    }
    metadata.changed();
    Ok(())
}

/// Returns whether a value has the form that the kernel accepts for `security.capability`: revision 2 or 3 with its length.
fn is_capability(value: &[u8]) -> bool {
    const REVISION: usize = 3;
    matches!((value.len(), value.get(REVISION)), (20, Some(2)) | (24, Some(3)))
}
