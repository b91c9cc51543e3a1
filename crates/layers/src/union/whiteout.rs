//! Whiteouts and the other marks in a branch: what a name in a branch stands for, and which marks a directory bears.
//!
//! Two formats are read. That of the paper (Unionfs, section 2), which aufs and OCI layers use too: a file `.wh.NAME`
//! hides NAME in the branches to the right, and `.wh..wh..opq` in a directory hides all that is below the same directory
//! to the right. And that of Linux's overlayfs: a character device 0:0 in the place of the name, and extended attributes
//! for opaque and moved directories. Names of users that begin with `.wh.` are kept as `.wh..wh.u` and their rest.

use std::borrow::Cow;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vnode::{Caller, Device, Entry, Errno, FileKind, Name, NameBuf, RenameMode, Result, VnodeRef, XattrMode};

use super::sure::Sure;
use super::trusted::Mark;
use super::whiteout_device::has_number;
use super::xattrs::{attribute, attributes};

/// What every mark's name begins with.
pub(super) const PREFIX: &[u8] = b".wh.";
/// The directory at a branch's root that belongs to the union.
pub(super) const STATE: &[u8] = b".wh..wh.plyfs";
const OPAQUE: &[u8] = b".wh..wh..opq";
const ESCAPE: &[u8] = b".wh..wh.u";

/// The attributes of overlayfs.
const OVERLAY_OPAQUE: Mark = Mark::new(b"trusted.overlay.opaque", b"user.overlay.opaque");
/// Where a moved directory keeps the path that it had: the same as overlayfs, for which it means the same.
pub(super) const OVERLAY_REDIRECT: Mark = Mark::new(b"trusted.overlay.redirect", b"user.overlay.redirect");
/// On a device 0:0 that is no whiteout.
pub(super) const USERS_DEVICE: &[u8] = b"trusted.plyfs.device";
/// No path is longer that a moved directory had.
pub(super) const REDIRECT_MAX: usize = 4096;

/// Prefixes that users' attributes may have too, as those of a kernel overlay on the union do, and how theirs are kept: as
/// overlayfs keeps those of an overlay on it.
const SHARED: [(&[u8], &[u8]); 2] =
    [(b"trusted.overlay.", b"trusted.overlay.overlay."), (b"user.overlay.", b"user.overlay.overlay.")];
/// Prefixes of the union's own.
const OWN: [&[u8]; 2] = [b"trusted.plyfs.", b"user.plyfs."];

/// Whether an extended attribute in a branch is one that is not shown to users.
pub(super) fn is_own_attribute(stored: &[u8]) -> bool {
    shown_attribute(stored).is_none()
}

/// The name in branches of what users see as this extended attribute; `None` for one that is not theirs.
pub(super) fn stored_attribute(shown: &[u8]) -> Option<Cow<'_, [u8]>> {
    for (prefix, escaped) in SHARED {
        if let Some(rest) = shown.strip_prefix(prefix) {
            return Some(Cow::Owned([escaped, rest].concat()));
        }
    }
    (!OWN.iter().any(|prefix| shown.starts_with(prefix))).then_some(Cow::Borrowed(shown))
}

/// What users see an extended attribute of a branch as; `None` for one of the union's own.
pub(super) fn shown_attribute(stored: &[u8]) -> Option<Cow<'_, [u8]>> {
    for (prefix, escaped) in SHARED {
        if let Some(rest) = stored.strip_prefix(escaped) {
            return Some(Cow::Owned([prefix, rest].concat()));
        }
        if stored.starts_with(prefix) {
            return None;
        }
    }
    (!OWN.iter().any(|prefix| stored.starts_with(prefix))).then_some(Cow::Borrowed(stored))
}

/// The names of attributes that users see of these, each with a zero after it.
pub(super) fn shown_attributes(stored: &[u8]) -> Vec<u8> {
    let names = stored.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.filter_map(shown_attribute).flat_map(|name| [&name, &b"\0"[..]].concat()).collect()
}

/// How whiteouts and opaque directories are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    /// As files with names of their own.
    #[default]
    Names,
    /// As overlayfs does. Where the branch cannot, as files.
    Overlay,
}

/// What an entry of a branch stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// An object that users see by this name.
    Object(Cow<'a, [u8]>),
    /// The absence of what users would see by this name.
    Whiteout(Cow<'a, [u8]>),
    /// A mark.
    Mark,
}

/// Whether a name is one that whiteouts and marks have.
pub(super) fn is_special(stored: &[u8]) -> bool {
    stored.starts_with(PREFIX)
}

/// What an entry stands for, by its name.
pub(super) fn meaning(stored: &[u8]) -> Meaning<'_> {
    let Some(rest) = stored.strip_prefix(PREFIX) else { return Meaning::Object(Cow::Borrowed(stored)) };
    if let Some(tail) = stored.strip_prefix(ESCAPE) {
        return Meaning::Object(Cow::Owned([PREFIX, tail].concat()));
    }
    if let Some(tail) = rest.strip_prefix(ESCAPE) {
        return Meaning::Whiteout(Cow::Owned([PREFIX, tail].concat()));
    }
    // What is no name hides nothing.
    let is_whiteout = !rest.starts_with(PREFIX) && Name::new(rest).is_ok();
    if is_whiteout { Meaning::Whiteout(Cow::Borrowed(rest)) } else { Meaning::Mark }
}

/// The name in branches of what users see by `name`.
///
/// # Errors
/// `ENAMETOOLONG` for a name that has no room for the escape.
pub(super) fn stored(name: Name<'_>) -> Result<Cow<'_, [u8]>> {
    match name.as_bytes().strip_prefix(PREFIX) {
        None => Ok(Cow::Borrowed(name.as_bytes())),
        Some(rest) => {
            let stored = [ESCAPE, rest].concat();
            Name::new(&stored)?;
            Ok(Cow::Owned(stored))
        }
    }
}

/// The name of a whiteout.
///
/// # Errors
/// `ENAMETOOLONG`: then only a device can be the whiteout.
pub(super) fn whiteout_name(stored: Name<'_>) -> Result<NameBuf> {
    NameBuf::new([PREFIX, stored.as_bytes()].concat())
}

/// Whether what was found is overlayfs's whiteout, and not a user's device of the same number.
pub(super) fn is_device(found: &Entry) -> Result<bool> {
    Ok(has_number(&found.attributes) && attribute(&found.vnode, USERS_DEVICE)?.is_none())
}

/// Marks a device with the number of a whiteout as a user's: from now on it is seen.
///
/// # Errors
/// `EPERM` where the mark cannot be set.
pub(super) fn mark_as_users(device: &VnodeRef) -> Result<()> {
    match device.setxattr(&Caller::server(), USERS_DEVICE, b"y", XattrMode::Set) {
        Err(Errno::EOPNOTSUPP | Errno::EACCES) => Err(Errno::EPERM),
        result => result,
    }
}

/// Whether a whiteout of the name, as a file of its own, stands in the directory.
pub(super) fn stands(directory: &VnodeRef, stored: Name<'_>) -> Result<bool> {
    match whiteout_name(stored) {
        Ok(name) => exists(directory, name.as_name()),
        Err(_) => Ok(false),
    }
}

/// Whether the directory hides what is below the same directory to the right.
pub(super) fn is_opaque(directory: &VnodeRef) -> Result<bool> {
    let value = OVERLAY_OPAQUE.of(directory)?;
    Ok(value.is_some_and(|value| value == b"y") || has_opaque_mark(directory)?)
}

fn has_opaque_mark(directory: &VnodeRef) -> Result<bool> {
    match exists(directory, mark(OPAQUE)) {
        // A server that is no superuser cannot look into it, and neither can anybody through it.
        Err(Errno::EACCES) => Ok(false),
        exists => exists,
    }
}

/// What a directory says of the branches on its right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// It hides what they have.
    pub(super) is_opaque: bool,
    /// As [`redirect`].
    pub(super) redirect: Option<Vec<u8>>,
    /// It has one that is not believed.
    pub(super) is_doubtful: bool,
}

/// The marks of a directory, asked for together: most have none, and one question tells so.
pub(super) fn marks(directory: &VnodeRef) -> Result<Marks> {
    let names = attributes(directory)?;
    let opaque = if OVERLAY_OPAQUE.is_in(&names) { OVERLAY_OPAQUE.of(directory)? } else { None };
    let is_opaque = opaque.is_some_and(|value| value == b"y") || has_opaque_mark(directory)?;
    let redirect = if OVERLAY_REDIRECT.is_in(&names) { redirect(directory)? } else { None };
    let is_doubted = |mark: Mark| Ok::<_, Errno>(mark.is_in(&names) && mark.is_doubtful(directory)?);
    let is_doubtful = is_doubted(OVERLAY_OPAQUE)? || is_doubted(OVERLAY_REDIRECT)?;
    Ok(Marks { is_opaque, redirect, is_doubtful })
}

/// Where the rest of a moved directory is: a path from the root of the branches to the right, or a name in the same
/// directory there.
pub(super) fn redirect(directory: &VnodeRef) -> Result<Option<Vec<u8>>> {
    Ok(OVERLAY_REDIRECT.of(directory)?.filter(|path| !path.is_empty() && path.len() <= REDIRECT_MAX))
}

/// Marks a directory that is not seen yet as opaque.
pub(super) fn set_opaque(directory: &VnodeRef, format: Format) -> Result<()> {
    if format == Format::Overlay && OVERLAY_OPAQUE.set(&Caller::server(), directory, b"y")? {
        return Ok(());
    }
    match directory.mknod_surely(&Caller::server(), mark(OPAQUE), FileKind::Regular, 0o444, Device::default()) {
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Notes where the rest of a directory stays when it moves.
///
/// # Errors
/// `EXDEV` where the branch has no extended attributes to note it in: then programs copy.
pub(super) fn set_redirect(writer: &Caller, directory: &VnodeRef, path: &[u8]) -> Result<()> {
    if path.len() > REDIRECT_MAX {
        return Err(Errno::EXDEV);
    }
    if OVERLAY_REDIRECT.set(writer, directory, path)? { Ok(()) } else { Err(Errno::EXDEV) }
}

/// Takes every mark of opaque directories away.
pub(super) fn remove_opaque(object: &VnodeRef) -> Result<()> {
    OVERLAY_OPAQUE.remove(object)?;
    match object.unlink_surely(&Caller::server(), mark(OPAQUE)) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
        result => result,
    }
}

/// Whether something that is no directory is marked as an opaque one.
pub(super) fn is_opaque_file(file: &VnodeRef) -> Result<bool> {
    Ok(OVERLAY_OPAQUE.of(file)?.is_some())
}

/// Whether there is a mark of moved directories, readable or not.
pub(super) fn has_redirect(object: &VnodeRef) -> Result<bool> {
    Ok(OVERLAY_REDIRECT.of(object)?.is_some())
}

/// Takes the mark of moved directories away.
pub(super) fn remove_redirect(object: &VnodeRef) -> Result<()> {
    OVERLAY_REDIRECT.remove(object)
}

/// Whether the whiteout of a name is one that can stand beside what has the name.
pub(super) fn can_stand_beside(stored: Name<'_>, format: Format) -> bool {
    format == Format::Names && whiteout_name(stored).is_ok()
}

/// Makes the whiteouts of a branch. Those that are files are names of one file, where the branch has such: to make a name
/// costs less than to make a file.
#[derive(Default)]
pub(super) struct Whiteouts {
    /// The one that was last made as a file.
    file: Mutex<Option<VnodeRef>>,
    /// The branch has no hard links.
    has_no_names: AtomicBool,
    /// It has been reported that one could not be removed.
    is_reported: AtomicBool,
}

impl Whiteouts {
    /// Hides a name that nothing has in this directory.
    pub(super) fn hide(&self, directory: &VnodeRef, stored: Name<'_>, format: Format) -> Result<()> {
        if !can_stand_beside(stored, format) {
            match make_device(directory, stored) {
                Err(error) if is_incapable(error) => {}
                made => return made,
            }
        }
        self.cover(directory, stored).map(drop)
    }

    /// Puts a whiteout beside what has the name in this directory, which is seen until it goes: whether none stood there before.
    ///
    /// # Errors
    /// `ENAMETOOLONG` for a name whose whiteout can only stand in its place.
    pub(super) fn cover(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<bool> {
        let (server, name) = (Caller::server(), whiteout_name(stored)?);
        let file = self.file().clone().filter(|_| !self.has_no_names.load(Ordering::Relaxed));
        match file.map(|file| directory.link_surely(&server, &file, name.as_name())) {
            Some(Ok(_)) => return Ok(true),
            Some(Err(error)) if is_incapable(error) => self.has_no_names.store(true, Ordering::Relaxed),
            _ => {}
        }
        // There is none yet, or it is gone, or can have no more names.
        match directory.mknod(&server, name.as_name(), FileKind::Regular, 0o444, Device::default()) {
            Ok(made) => {
                *self.file() = Some(made.vnode);
                Ok(true)
            }
            Err(Errno::EEXIST) if stands(directory, stored)? => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the whiteout of a name, if it is a file of its own, after something has come to the name: users see that
    /// already, and one that has to stay is in nobody's way. The first that does is reported.
    pub(super) fn uncover(&self, directory: &VnodeRef, stored: Name<'_>, branch: &str) {
        if let Err(error) = remove(directory, stored)
            && !self.is_reported.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                target: "union",
                "{branch}: a whiteout of {} cannot be removed: {error}; it hides nothing, and plyfs union check --repair \
                 removes it when the union is unmounted",
                stored.as_bytes().escape_ascii()
            );
        }
    }

    fn file(&self) -> MutexGuard<'_, Option<VnodeRef>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name in branches that a whiteout of this name hides; `None` for what is no whiteout.
pub(super) fn stored_of_whiteout(name: &[u8]) -> Option<Name<'_>> {
    match meaning(name) {
        Meaning::Whiteout(_) => Name::new(&name[PREFIX.len()..]).ok(),
        _ => None,
    }
}

/// Makes a device that is a whiteout.
pub(super) fn make_device(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    directory.mknod(&Caller::server(), stored, FileKind::CharacterDevice, 0, Device::default()).map(drop)
}

/// Whether the error says that a branch has no devices, or none of the renames that put them into a place.
pub(super) fn is_incapable(error: Errno) -> bool {
    matches!(error, Errno::EPERM | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP)
}

/// Takes the whiteout of a name away, if there is one that is a file of its own.
pub(super) fn remove(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    let Ok(name) = whiteout_name(stored) else { return Ok(()) };
    match directory.unlink_surely(&Caller::server(), name.as_name()) {
        Err(Errno::ENOENT) => Ok(()),
        // Whoever may make names in the branch has made it; what is in it nobody sees.
        Err(Errno::EISDIR) => directory.rmdir_surely(&Caller::server(), name.as_name()),
        result => result,
    }
}

/// Takes the whiteout of a name away, of whichever form.
pub(super) fn lift(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    match directory.lookup(&Caller::server(), stored) {
        Ok(entry) if is_device(&entry)? => directory.unlink_surely(&Caller::server(), stored)?,
        Ok(_) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error),
    }
    remove(directory, stored)
}

/// Makes room for an object where a device is the whiteout: the whiteout becomes a file of its own, in one step. Whether
/// one was there.
pub(super) fn make_room(directory: &VnodeRef, stored: Name<'_>) -> Result<bool> {
    let server = Caller::server();
    match directory.lookup(&server, stored) {
        Ok(entry) if is_device(&entry)? => {
            match whiteout_name(stored) {
                Ok(name) => directory.rename_surely(&server, stored, directory, name.as_name(), RenameMode::Replace)?,
                Err(_) => directory.unlink_surely(&server, stored)?,
            }
            Ok(true)
        }
        Ok(_) | Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Puts the device back that made room for an object, since none has come.
pub(super) fn take_back_room(directory: &VnodeRef, stored: Name<'_>) {
    let server = Caller::server();
    // Where it stays a file of its own, that hides the name as well.
    let _ = match whiteout_name(stored) {
        Ok(name) => directory.rename_surely(&server, name.as_name(), directory, stored, RenameMode::NoReplace),
        Err(_) => make_device(directory, stored),
    };
}

fn exists(directory: &VnodeRef, name: Name<'_>) -> Result<bool> {
    match directory.lookup(&Caller::server(), name) {
        Ok(_) => Ok(true),
        Err(Errno::ENOENT | Errno::ENAMETOOLONG) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The extended attributes that users see, sorted.
pub(super) fn users_attributes(object: &VnodeRef) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let server = Caller::server();
    let names = object.listxattr(&server)?;
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && !is_own_attribute(name));
    let mut attributes = Vec::new();
    for name in names {
        match object.getxattr(&server, name) {
            Ok(value) => attributes.push((name.to_vec(), value)),
            Err(Errno::ENODATA) => {}
            // A capability of no bytes can be set but not read.
            Err(Errno::EINVAL) => attributes.push((name.to_vec(), Vec::new())),
            Err(error) => return Err(error),
        }
    }
    attributes.sort();
    Ok(attributes)
}

fn mark(name: &'static [u8]) -> Name<'static> {
    Name::new(name).expect("a mark's name is a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &[u8]) -> Meaning<'_> {
        Meaning::Object(Cow::Borrowed(name))
    }

    #[test]
    fn names_in_branches_and_names_that_users_see() {
        for name in [&b"x"[..], b".wh", b".wh.x", b".wh..wh..opq", b".wh..wh.plyfs", b".wh..wh.ux", b".wh."] {
            let name = Name::new(name).unwrap();
            let kept = stored(name).unwrap();
            assert_eq!(meaning(&kept), object(name.as_bytes()), "{name:?} is kept as {kept:?}");
            let whiteout = whiteout_name(Name::new(&kept).unwrap()).unwrap();
            assert_eq!(meaning(whiteout.as_bytes()), Meaning::Whiteout(Cow::Borrowed(name.as_bytes())), "{name:?}");
        }
        for mark in
            [&b".wh."[..], b".wh..", b".wh...", STATE, OPAQUE, b".wh..wh.plnk", b".wh..wh.orph", b".wh..wh.aufs"]
        {
            assert_eq!(meaning(mark), Meaning::Mark);
        }
    }

    #[test]
    fn attributes_in_branches_and_attributes_that_users_see() {
        for shown in [&b"user.x"[..], b"trusted.overlay.opaque", b"user.overlay.overlay.x", b"trusted.overlays"] {
            let stored = stored_attribute(shown).unwrap();
            assert_eq!(shown_attribute(&stored).as_deref(), Some(shown), "{stored:?}");
        }
        assert_eq!(
            stored_attribute(b"trusted.overlay.opaque").as_deref(),
            Some(&b"trusted.overlay.overlay.opaque"[..])
        );
        for own in [&b"trusted.plyfs.origin"[..], b"user.plyfs.x"] {
            assert_eq!((stored_attribute(own), shown_attribute(own)), (None, None));
        }
        assert_eq!(
            shown_attributes(b"trusted.overlay.opaque\0user.x\0user.overlay.overlay.y\0"),
            b"user.x\0user.overlay.y\0"
        );
    }

    #[test]
    fn names_without_room_for_an_escape_are_too_long() {
        let long = [PREFIX, &[b'x'; 251]].concat();
        assert_eq!(stored(Name::new(&long).unwrap()).err(), Some(Errno::ENAMETOOLONG));
        assert!(whiteout_name(Name::new(&[b'x'; 251]).unwrap()).is_ok());
        assert!(whiteout_name(Name::new(&[b'x'; 252]).unwrap()).is_err());
    }
}
