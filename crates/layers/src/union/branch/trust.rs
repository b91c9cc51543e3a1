//! Trust: the extended attributes that store marks, and whether anybody but the server can have set one.
//!
//! A mark tells the server where to find data and which object is which, so one that a user wrote could reveal what only the
//! server may read. A server that acts for the superuser of the machine stores marks in `trusted` attributes, which nobody else
//! can set, and trusts no others. Any other server has only `user` attributes. These can be set by the object's owner, so they
//! are trusted on objects that are the server's own: in a user namespace, on all that have an owner there, since nobody has set
//! them but the server's user or somebody whom that user has let into the namespace.

use std::sync::OnceLock;

use procfs::{IdKind, has_machine_ids};
use rustix::thread::CapabilitySet;
use vnode::{Attributes, Caller, Errno, Result, VnodeRef, XattrMode};

use super::xattrs::{self, attribute};

/// A mark, with the names of its attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrustedAttribute {
    trusted: &'static [u8],
    user: &'static [u8],
    /// The `user` name that earlier versions set.
    former: Option<&'static [u8]>,
}

/// Namespace of the extended attributes in which this process stores marks of a union: `trusted` or `user` (xattr(7)).
pub fn attributes_of_marks() -> &'static str {
    if server_identity() == ServerIdentity::Superuser { "trusted" } else { "user" }
}

impl TrustedAttribute {
    pub(crate) const fn new(trusted: &'static [u8], user: &'static [u8]) -> Self {
        Self { trusted, user, former: None }
    }

    /// Adds the `user` name that earlier versions set, which is read and removed, but not set any more.
    pub(crate) const fn formerly(self, former: &'static [u8]) -> Self {
        Self { former: Some(former), ..self }
    }

    /// The name that this server sets, and trusts.
    fn own(self) -> &'static [u8] {
        if server_identity() == ServerIdentity::Superuser { self.trusted } else { self.user }
    }

    /// All names, whoever trusts them.
    fn names(self) -> impl Iterator<Item = &'static [u8]> {
        [Some(self.trusted), Some(self.user), self.former].into_iter().flatten()
    }

    /// Returns whether it is in a list of listxattr(2), trusted or not.
    pub(crate) fn is_in(self, names: &[u8]) -> bool {
        names.split(|&byte| byte == 0).any(|name| self.names().any(|own| own == name))
    }

    /// Its value, if nobody else can have set it.
    pub(crate) fn get(self, object: &VnodeRef) -> Result<Option<Vec<u8>>> {
        let former = self.former.filter(|_| self.own() == self.user);
        let stored = match (attribute(object, self.own()), former) {
            (Ok(None), Some(former)) => attribute(object, former),
            (value, _) => value,
        };
        match stored {
            // On somebody else's object it would not be trusted.
            Err(Errno::EPERM | Errno::EACCES) if !is_own(object)? => Ok(None),
            Ok(Some(_)) if !is_own(object)? => Ok(None),
            value => value,
        }
    }

    /// Returns whether the object has an untrusted one. A superuser's is invisible to others.
    pub(crate) fn is_untrusted(self, object: &VnodeRef) -> Result<bool> {
        let is_there = |name| match attribute(object, name) {
            Err(Errno::EPERM | Errno::EACCES) => Ok(true),
            value => value.map(|value| value.is_some()),
        };
        if self.get(object)?.is_some() {
            return Ok(false);
        }
        self.names().try_fold(false, |found, name| Ok(found || is_there(name)?))
    }

    /// Sets it; returns whether that was possible, and it will be trusted.
    ///
    /// # Errors
    /// Storage errors, lack of space included.
    pub(crate) fn set(self, writer: &Caller, object: &VnodeRef, value: &[u8]) -> Result<bool> {
        if !is_own(object)? {
            return Ok(false);
        }
        match object.setxattr(writer, self.own(), value, XattrMode::Set) {
            Err(Errno::EPERM | Errno::EACCES | Errno::EOPNOTSUPP) => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Removes it, whoever set it.
    pub(crate) fn remove(self, object: &VnodeRef) -> Result<()> {
        let there = xattrs::attributes(object)?;
        let is_there = |name: &&[u8]| there.split(|&byte| byte == 0).any(|known| known == *name);
        for name in self.names().filter(is_there) {
            match object.removexattr(&Caller::server(), name) {
                Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns whether nobody but the server, or the superuser, can have created something in a directory with these attributes, or
/// have moved something there.
pub(crate) fn is_private(directory: &Attributes) -> bool {
    directory.is_directory() && only_server_writes(directory)
}

/// Returns whether nobody but the server, or the superuser, can have written to an object with these attributes.
pub(crate) fn only_server_writes(object: &Attributes) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    is_owned(object) && object.mode & OTHERS_WRITE == 0
}

/// Returns whether an object with these attributes is the server's, or the superuser's.
pub(crate) fn is_owned(object: &Attributes) -> bool {
    match server_identity() {
        ServerIdentity::Superuser => object.uid == 0,
        ServerIdentity::User(uid) => object.uid == uid || object.uid == 0,
        ServerIdentity::InNamespace => object.uid == 0,
    }
}

/// Returns whether only the server can have set the attributes of an object that it trusts.
fn is_own(object: &VnodeRef) -> Result<bool> {
    /// Owner that represents all those without a mapping in a user namespace (/proc/sys/kernel/overflowuid).
    const OVERFLOW_UID: u32 = 65_534;
    let owner = || object.getattr(&Caller::server()).map(|attributes| attributes.uid);
    Ok(match server_identity() {
        ServerIdentity::Superuser => true,
        ServerIdentity::User(uid) => owner()? == uid,
        ServerIdentity::InNamespace => owner()? != OVERFLOW_UID,
    })
}

/// Owner of a server's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerIdentity {
    /// The superuser of the machine, who can set `trusted` attributes.
    Superuser,
    /// The superuser of a user namespace, who has several users there.
    InNamespace,
    /// This user.
    User(u32),
}

/// The kind of this process.
fn server_identity() -> ServerIdentity {
    static SERVER_IDENTITY: OnceLock<ServerIdentity> = OnceLock::new();
    *SERVER_IDENTITY.get_or_init(|| {
        let may =
            rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
        let uid = rustix::process::geteuid();
        match has_machine_ids(IdKind::User) {
            Some(true) if may => ServerIdentity::Superuser,
            Some(false) if uid.is_root() => ServerIdentity::InNamespace,
            _ => ServerIdentity::User(uid.as_raw()),
        }
    })
}
