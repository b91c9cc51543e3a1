//! Who is believed: the extended attributes that marks are kept in, and whether anybody but the server can have set one.
//!
//! A mark tells the server where to look for data and which object is which, so one that a user wrote could show what only
//! the server may read. A server that acts for the superuser of the machine keeps marks in `trusted` attributes, which nobody
//! else can set, and believes no others. Any other server has only `user` attributes. Those of an object can be set by its
//! owner, so they are believed of objects that are the server's own: in a user namespace, of all that have an owner there,
//! since nobody has set them but the server's user or somebody whom that user has let into the namespace.

use std::sync::OnceLock;

use rustix::thread::CapabilitySet;
use vnode::{Attributes, Caller, Errno, IdKind, Result, VnodeRef, XattrMode, has_machine_ids};

use super::xattrs::{self, attribute};

/// A mark, by the names of the attribute that it is kept in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    trusted: &'static [u8],
    user: &'static [u8],
}

/// The name space of the extended attributes that this process keeps marks of a union in: `trusted` or `user` (xattr(7)).
pub fn attributes_of_marks() -> &'static str {
    if server() == Server::Superuser { "trusted" } else { "user" }
}

impl Mark {
    pub(super) const fn new(trusted: &'static [u8], user: &'static [u8]) -> Self {
        Self { trusted, user }
    }

    /// The one that this server sets, and believes.
    fn own(self) -> &'static [u8] {
        if server() == Server::Superuser { self.trusted } else { self.user }
    }

    /// Whether it is in a list of listxattr(2), believed or not.
    pub(super) fn is_in(self, names: &[u8]) -> bool {
        names.split(|&byte| byte == 0).any(|name| name == self.trusted || name == self.user)
    }

    /// Its value, where nobody else can have set it.
    pub(super) fn of(self, object: &VnodeRef) -> Result<Option<Vec<u8>>> {
        match attribute(object, self.own()) {
            // Of somebody else's object it would not be believed.
            Err(Errno::EPERM | Errno::EACCES) if !is_own(object)? => Ok(None),
            Ok(Some(_)) if !is_own(object)? => Ok(None),
            value => value,
        }
    }

    /// Whether the object has one that is not believed. A superuser's does not show to others.
    pub(super) fn is_doubtful(self, object: &VnodeRef) -> Result<bool> {
        let is_there = |name| match attribute(object, name) {
            Err(Errno::EPERM | Errno::EACCES) => Ok(true),
            value => value.map(|value| value.is_some()),
        };
        Ok(self.of(object)?.is_none() && (is_there(self.user)? || is_there(self.trusted)?))
    }

    /// Sets it: whether that could be, and it will be believed.
    ///
    /// # Errors
    /// Those of storage, a lack of room among them.
    pub(super) fn set(self, writer: &Caller, object: &VnodeRef, value: &[u8]) -> Result<bool> {
        if !is_own(object)? {
            return Ok(false);
        }
        match object.setxattr(writer, self.own(), value, XattrMode::Set) {
            Err(Errno::EPERM | Errno::EACCES | Errno::EOPNOTSUPP) => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Takes it away, whoever set it.
    pub(super) fn remove(self, object: &VnodeRef) -> Result<()> {
        let there = xattrs::attributes(object)?;
        let is_there = |name: &&[u8]| there.split(|&byte| byte == 0).any(|known| known == *name);
        for name in [self.trusted, self.user].into_iter().filter(is_there) {
            match object.removexattr(&Caller::server(), name) {
                Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether nobody but the server, or the superuser, can have made something in a directory with these attributes, or have moved
/// something there.
pub(super) fn is_private(directory: &Attributes) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    let is_owned = match server() {
        Server::Superuser => directory.uid == 0,
        Server::User(uid) => directory.uid == uid || directory.uid == 0,
        Server::InNamespace => directory.uid == 0,
    };
    directory.is_directory() && is_owned && directory.mode & OTHERS_WRITE == 0
}

/// Whether only the server can have set attributes of an object that it believes.
fn is_own(object: &VnodeRef) -> Result<bool> {
    /// What stands for every owner that has no number in a user namespace (/proc/sys/kernel/overflowuid).
    const NOBODY: u32 = 65_534;
    let owner = || object.getattr(&Caller::server()).map(|attributes| attributes.uid);
    Ok(match server() {
        Server::Superuser => true,
        Server::User(uid) => owner()? == uid,
        Server::InNamespace => owner()? != NOBODY,
    })
}

/// Whose marks a server keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// The superuser of the machine's: it can set `trusted` attributes.
    Superuser,
    /// Those of the superuser of a user namespace, who has several users there.
    InNamespace,
    /// Those of this user.
    User(u32),
}

/// What this process is.
fn server() -> Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    *SERVER.get_or_init(|| {
        let may =
            rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
        let uid = rustix::process::geteuid();
        match has_machine_ids(IdKind::User) {
            Some(true) if may => Server::Superuser,
            Some(false) if uid.is_root() => Server::InNamespace,
            _ => Server::User(uid.as_raw()),
        }
    })
}
