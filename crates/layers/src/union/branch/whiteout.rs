//! Whiteouts and the other marks in a branch: the meaning of a name in a branch, and the marks of a directory.
//!
//! Two formats are read. The format of the paper (Unionfs, section 2), which aufs and OCI layers also use: a file `.wh.NAME`
//! hides NAME in the lower branches, and `.wh..wh..opq` in a directory hides the contents of its lower parts. And the format of
//! Linux's overlayfs: a character device 0:0 in place of the name, and extended attributes for opaque and moved directories.
//! Users' names that begin with `.wh.` are stored with the prefix `.wh..wh.u` instead.

use std::borrow::Cow;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vnode::{Caller, Device, Entry, Errno, FileKind, Name, NameBuf, RenameMode, Result, VnodeRef, XattrMode};

use super::trust::TrustedAttribute;
use super::verified::VerifiedOperations;
use super::whiteout_device::has_number;
use super::xattrs::{attribute, attributes};

/// Prefix of the name of every mark.
pub(crate) const MARK_PREFIX: &[u8] = b".wh.";
/// Name of the union's own directory at a branch's root.
pub const STATE_DIRECTORY: &[u8] = b".wh..wh.plyfs";
const OPAQUE_MARK: &[u8] = b".wh..wh..opq";
const ESCAPE_PREFIX: &[u8] = b".wh..wh.u";

/// Extended attributes of overlayfs.
const OVERLAY_OPAQUE: TrustedAttribute = TrustedAttribute::new(b"trusted.overlay.opaque", b"user.overlay.opaque");
/// Attribute in which a moved directory stores its former path, with the same name and meaning as in overlayfs.
pub(crate) const OVERLAY_REDIRECT: TrustedAttribute =
    TrustedAttribute::new(b"trusted.overlay.redirect", b"user.overlay.redirect");
/// Attribute of a device 0:0 that is not a whiteout.
pub(crate) const USER_DEVICE_MARK: &[u8] = b"trusted.plyfs.device";
/// Maximum length of a moved directory's former path.
pub(crate) const MAX_REDIRECT_BYTES: usize = 4096;

/// Prefixes that users' attributes may have too, like those of a kernel overlay on the union, and the escaped form in which
/// theirs are stored: the form in which overlayfs stores those of an overlay on it.
const SHARED_PREFIXES: [(&[u8], &[u8]); 2] =
    [(b"trusted.overlay.", b"trusted.overlay.overlay."), (b"user.overlay.", b"user.overlay.overlay.")];
/// Prefixes that only the union uses.
const OWN_PREFIXES: [&[u8]; 2] = [b"trusted.plyfs.", b"user.plyfs."];

/// Returns whether an extended attribute in a branch is hidden from users.
pub(crate) fn is_own_attribute(stored: &[u8]) -> bool {
    shown_attribute(stored).is_none()
}

/// Name in branches of a user-visible extended attribute; `None` for one that users cannot have.
pub(crate) fn stored_attribute(shown: &[u8]) -> Option<Cow<'_, [u8]>> {
    for (prefix, escaped) in SHARED_PREFIXES {
        if let Some(rest) = shown.strip_prefix(prefix) {
            return Some(Cow::Owned([escaped, rest].concat()));
        }
    }
    (!OWN_PREFIXES.iter().any(|prefix| shown.starts_with(prefix))).then_some(Cow::Borrowed(shown))
}

/// User-visible name of an extended attribute of a branch; `None` for one of the union's own.
pub(crate) fn shown_attribute(stored: &[u8]) -> Option<Cow<'_, [u8]>> {
    for (prefix, escaped) in SHARED_PREFIXES {
        if let Some(rest) = stored.strip_prefix(escaped) {
            return Some(Cow::Owned([prefix, rest].concat()));
        }
        if stored.starts_with(prefix) {
            return None;
        }
    }
    (!OWN_PREFIXES.iter().any(|prefix| stored.starts_with(prefix))).then_some(Cow::Borrowed(stored))
}

/// User-visible names of these attributes, each NUL-terminated.
pub(crate) fn shown_attributes(stored: &[u8]) -> Vec<u8> {
    let names = stored.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.filter_map(shown_attribute).flat_map(|name| [&name, &b"\0"[..]].concat()).collect()
}

/// Format in which whiteouts and opaque directories are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WhiteoutFormat {
    /// Files with special names.
    #[default]
    Names,
    /// The format of overlayfs; files where the branch does not support it.
    Overlay,
}

/// Meaning of an entry of a branch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EntryMeaning<'a> {
    /// An object that users see by this name.
    Object(Cow<'a, [u8]>),
    /// The absence of an object of this user-visible name.
    Whiteout(Cow<'a, [u8]>),
    /// A mark.
    Mark,
}

/// Returns whether a name has the form of whiteouts and marks.
pub(crate) fn is_special(stored: &[u8]) -> bool {
    stored.starts_with(MARK_PREFIX)
}

/// The meaning of an entry, by its name.
pub(crate) fn meaning(stored: &[u8]) -> EntryMeaning<'_> {
    let Some(rest) = stored.strip_prefix(MARK_PREFIX) else { return EntryMeaning::Object(Cow::Borrowed(stored)) };
    if let Some(tail) = stored.strip_prefix(ESCAPE_PREFIX) {
        return EntryMeaning::Object(Cow::Owned([MARK_PREFIX, tail].concat()));
    }
    if let Some(tail) = rest.strip_prefix(ESCAPE_PREFIX) {
        return EntryMeaning::Whiteout(Cow::Owned([MARK_PREFIX, tail].concat()));
    }
    // An invalid name hides nothing.
    let is_whiteout = !rest.starts_with(MARK_PREFIX) && Name::new(rest).is_ok();
    if is_whiteout { EntryMeaning::Whiteout(Cow::Borrowed(rest)) } else { EntryMeaning::Mark }
}

/// Name in branches of what users see by `name`.
///
/// # Errors
/// `ENAMETOOLONG` for a name without room for the escape.
pub(crate) fn stored_name(name: Name<'_>) -> Result<Cow<'_, [u8]>> {
    match name.as_bytes().strip_prefix(MARK_PREFIX) {
        None => Ok(Cow::Borrowed(name.as_bytes())),
        Some(rest) => {
            let stored = [ESCAPE_PREFIX, rest].concat();
            Name::new(&stored)?;
            Ok(Cow::Owned(stored))
        }
    }
}

/// Name of a whiteout file.
///
/// # Errors
/// `ENAMETOOLONG`: then the whiteout can only be a device.
pub(crate) fn whiteout_name(stored: Name<'_>) -> Result<NameBuf> {
    NameBuf::new([MARK_PREFIX, stored.as_bytes()].concat())
}

/// Returns whether the entry is overlayfs's whiteout, and not a user's device of the same number.
pub(crate) fn is_whiteout_device(found: &Entry) -> Result<bool> {
    Ok(has_number(&found.attributes) && attribute(&found.vnode, USER_DEVICE_MARK)?.is_none())
}

/// Marks a device with the number of a whiteout as a user's, which makes it visible.
///
/// # Errors
/// `EPERM` if the mark cannot be set.
pub(crate) fn mark_user_device(device: &VnodeRef) -> Result<()> {
    match device.setxattr(&Caller::server(), USER_DEVICE_MARK, b"y", XattrMode::Set) {
        Err(Errno::EOPNOTSUPP | Errno::EACCES) => Err(Errno::EPERM),
        result => result,
    }
}

/// Returns whether the directory has a whiteout file of the name.
pub(crate) fn has_whiteout_file(directory: &VnodeRef, stored: Name<'_>) -> Result<bool> {
    match whiteout_name(stored) {
        Ok(name) => exists(directory, name.as_name()),
        Err(_) => Ok(false),
    }
}

/// Returns whether the directory hides its lower parts.
pub(crate) fn is_opaque(directory: &VnodeRef) -> Result<bool> {
    let value = OVERLAY_OPAQUE.get(directory)?;
    Ok(value.is_some_and(|value| value == b"y") || has_opaque_mark(directory)?)
}

fn has_opaque_mark(directory: &VnodeRef) -> Result<bool> {
    match exists(directory, mark(OPAQUE_MARK)) {
        // An unprivileged server cannot look into it, and neither can anybody through the server.
        Err(Errno::EACCES) => Ok(false),
        exists => exists,
    }
}

/// Marks of a directory about the lower branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectoryMarks {
    /// Whether the directory hides them.
    pub(crate) is_opaque: bool,
    /// The result of [`redirect`].
    pub(crate) redirect: Option<Vec<u8>>,
    /// Whether it has a mark that is not trusted.
    pub(crate) is_untrusted: bool,
}

/// Marks of a directory, queried together: most have none, and a single query shows that.
pub(crate) fn marks(directory: &VnodeRef) -> Result<DirectoryMarks> {
    let names = attributes(directory)?;
    let opaque = if OVERLAY_OPAQUE.is_in(&names) { OVERLAY_OPAQUE.get(directory)? } else { None };
    let is_opaque = opaque.is_some_and(|value| value == b"y") || has_opaque_mark(directory)?;
    let redirect = if OVERLAY_REDIRECT.is_in(&names) { redirect(directory)? } else { None };
    let is_doubted = |mark: TrustedAttribute| Ok::<_, Errno>(mark.is_in(&names) && mark.is_untrusted(directory)?);
    let is_untrusted = is_doubted(OVERLAY_OPAQUE)? || is_doubted(OVERLAY_REDIRECT)?;
    Ok(DirectoryMarks { is_opaque, redirect, is_untrusted })
}

/// Returns whether this may be a location as [`redirect`] returns it.
pub(crate) fn is_location(path: &[u8]) -> bool {
    match path.strip_prefix(b"/") {
        Some(path) => path.split(|&byte| byte == b'/').all(|name| name.is_empty() || Name::new(name).is_ok()),
        None => Name::new(path).is_ok(),
    }
}

/// Location of the lower part of a moved directory: a path from the root of the lower branches, or a name in the same directory
/// there.
pub(crate) fn redirect(directory: &VnodeRef) -> Result<Option<Vec<u8>>> {
    Ok(OVERLAY_REDIRECT.get(directory)?.filter(|path| !path.is_empty() && path.len() <= MAX_REDIRECT_BYTES))
}

/// Marks a directory that is not visible yet as opaque.
pub(crate) fn set_opaque(directory: &VnodeRef, format: WhiteoutFormat) -> Result<()> {
    if format == WhiteoutFormat::Overlay && OVERLAY_OPAQUE.set(&Caller::server(), directory, b"y")? {
        return Ok(());
    }
    match directory.mknod_verified(&Caller::server(), mark(OPAQUE_MARK), FileKind::Regular, 0o444, Device::default()) {
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Records where the lower part of a directory stays when the directory moves.
///
/// # Errors
/// `EXDEV` if the branch has no extended attributes to record it in: programs then copy.
pub(crate) fn set_redirect(writer: &Caller, directory: &VnodeRef, path: &[u8]) -> Result<()> {
    if path.len() > MAX_REDIRECT_BYTES {
        return Err(Errno::EXDEV);
    }
    if OVERLAY_REDIRECT.set(writer, directory, path)? { Ok(()) } else { Err(Errno::EXDEV) }
}

/// Removes every opaque mark.
pub(crate) fn remove_opaque(object: &VnodeRef) -> Result<()> {
    OVERLAY_OPAQUE.remove(object)?;
    match object.unlink_verified(&Caller::server(), mark(OPAQUE_MARK)) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
        result => result,
    }
}

/// Returns whether anything but a directory carries an opaque mark.
pub(crate) fn is_opaque_file(file: &VnodeRef) -> Result<bool> {
    Ok(OVERLAY_OPAQUE.get(file)?.is_some())
}

/// Returns whether there is a redirect mark, readable or not.
pub(crate) fn has_redirect(object: &VnodeRef) -> Result<bool> {
    Ok(OVERLAY_REDIRECT.get(object)?.is_some())
}

/// Removes the redirect mark.
pub(crate) fn remove_redirect(object: &VnodeRef) -> Result<()> {
    OVERLAY_REDIRECT.remove(object)
}

/// Returns whether the whiteout of a name can be beside the object of that name.
pub(crate) fn can_be_beside(stored: Name<'_>, format: WhiteoutFormat) -> bool {
    format == WhiteoutFormat::Names && whiteout_name(stored).is_ok()
}

/// Creates the whiteouts of a branch. Whiteout files are hard links of one file, if the branch supports that: a link is cheaper
/// to create than a file.
#[derive(Default)]
pub(crate) struct WhiteoutWriter {
    /// The most recent whiteout created as a file.
    file: Mutex<Option<VnodeRef>>,
    /// Whether the branch lacks hard links.
    lacks_hard_links: AtomicBool,
    /// Whether a failure to remove a whiteout has been reported.
    is_reported: AtomicBool,
}

impl WhiteoutWriter {
    /// Hides an unused name in this directory.
    pub(crate) fn hide(&self, directory: &VnodeRef, stored: Name<'_>, format: WhiteoutFormat) -> Result<()> {
        if !can_be_beside(stored, format) {
            match make_device(directory, stored) {
                Err(error) if is_unsupported(error) => {}
                made => return made,
            }
        }
        self.add_file(directory, stored).map(drop)
    }

    /// Creates a whiteout beside the object of that name in this directory, which stays visible until it is removed. Returns
    /// whether there was no whiteout before.
    ///
    /// # Errors
    /// `ENAMETOOLONG` for a name whose whiteout can only be in its place.
    pub(crate) fn add_file(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<bool> {
        let (server, name) = (Caller::server(), whiteout_name(stored)?);
        let file = self.file().clone().filter(|_| !self.lacks_hard_links.load(Ordering::Relaxed));
        match file.map(|file| directory.link_verified(&server, &file, name.as_name())) {
            Some(Ok(_)) => return Ok(true),
            Some(Err(error)) if is_unsupported(error) => self.lacks_hard_links.store(true, Ordering::Relaxed),
            _ => {}
        }
        // There is none yet, or it is gone or has the maximum number of links.
        match directory.mknod(&server, name.as_name(), FileKind::Regular, 0o444, Device::default()) {
            Ok(made) => {
                *self.file() = Some(made.vnode);
                Ok(true)
            }
            Err(Errno::EEXIST) if has_whiteout_file(directory, stored)? => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the whiteout file of a name after an object of that name has been created: users already see the object, and a
    /// whiteout that has to stay does no harm. The first that stays is reported.
    pub(crate) fn uncover(&self, directory: &VnodeRef, stored: Name<'_>, branch: &str) {
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

/// Name in branches that a whiteout file of this name hides; `None` if it is not a whiteout.
pub(crate) fn hidden_name(name: &[u8]) -> Option<Name<'_>> {
    match meaning(name) {
        EntryMeaning::Whiteout(_) => Name::new(&name[MARK_PREFIX.len()..]).ok(),
        _ => None,
    }
}

/// Creates a device that is a whiteout.
pub(crate) fn make_device(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    directory.mknod(&Caller::server(), stored, FileKind::CharacterDevice, 0, Device::default()).map(drop)
}

/// Returns whether the error says that a branch lacks devices, or the renames that put them into place.
pub(crate) fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::EPERM | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP)
}

/// Removes the whiteout of a name, if there is one that is a file of its own.
pub(crate) fn remove(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    let Ok(name) = whiteout_name(stored) else { return Ok(()) };
    match directory.unlink_verified(&Caller::server(), name.as_name()) {
        Err(Errno::ENOENT) => Ok(()),
        // Somebody who may create names in the branch has made it; its contents are invisible.
        Err(Errno::EISDIR) => directory.rmdir_verified(&Caller::server(), name.as_name()),
        result => result,
    }
}

/// Removes the whiteout of a name, whatever its form.
pub(crate) fn remove_any(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    match directory.lookup(&Caller::server(), stored) {
        Ok(entry) if is_whiteout_device(&entry)? => directory.unlink_verified(&Caller::server(), stored)?,
        Ok(_) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error),
    }
    remove(directory, stored)
}

/// Atomically turns a whiteout device into a whiteout file, so that an object can take its name. Returns whether there was a
/// device.
pub(crate) fn displace_device(directory: &VnodeRef, stored: Name<'_>) -> Result<bool> {
    let server = Caller::server();
    match directory.lookup(&server, stored) {
        Ok(entry) if is_whiteout_device(&entry)? => {
            match whiteout_name(stored) {
                Ok(name) => {
                    directory.rename_verified(&server, stored, directory, name.as_name(), RenameMode::Replace)?
                }
                Err(_) => directory.unlink_verified(&server, stored)?,
            }
            Ok(true)
        }
        Ok(_) | Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Restores the whiteout device after no object has taken its name.
pub(crate) fn restore_device(directory: &VnodeRef, stored: Name<'_>) {
    let server = Caller::server();
    // If it stays a whiteout file, that hides the name as well.
    let _ = match whiteout_name(stored) {
        Ok(name) => directory.rename_verified(&server, name.as_name(), directory, stored, RenameMode::NoReplace),
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

/// User-visible extended attributes, sorted.
pub(crate) fn user_xattrs(object: &VnodeRef) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let server = Caller::server();
    let names = object.listxattr(&server)?;
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && !is_own_attribute(name));
    let mut attributes = Vec::new();
    for name in names {
        match object.getxattr(&server, name) {
            Ok(value) => attributes.push((name.to_vec(), value)),
            Err(Errno::ENODATA) => {}
            // An empty capability can be set but not read.
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

    fn object(name: &[u8]) -> EntryMeaning<'_> {
        EntryMeaning::Object(Cow::Borrowed(name))
    }

    #[test]
    fn names_are_escaped_and_unescaped() {
        for name in [&b"x"[..], b".wh", b".wh.x", b".wh..wh..opq", b".wh..wh.plyfs", b".wh..wh.ux", b".wh."] {
            let name = Name::new(name).unwrap();
            let kept = stored_name(name).unwrap();
            assert_eq!(meaning(&kept), object(name.as_bytes()), "{name:?} is kept as {kept:?}");
            let whiteout = whiteout_name(Name::new(&kept).unwrap()).unwrap();
            assert_eq!(
                meaning(whiteout.as_bytes()),
                EntryMeaning::Whiteout(Cow::Borrowed(name.as_bytes())),
                "{name:?}"
            );
        }
        for mark in [
            &b".wh."[..],
            b".wh..",
            b".wh...",
            STATE_DIRECTORY,
            OPAQUE_MARK,
            b".wh..wh.plnk",
            b".wh..wh.orph",
            b".wh..wh.aufs",
        ] {
            assert_eq!(meaning(mark), EntryMeaning::Mark);
        }
    }

    #[test]
    fn attributes_are_escaped_and_unescaped() {
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
    fn names_too_long_to_escape_are_refused() {
        let long = [MARK_PREFIX, &[b'x'; 251]].concat();
        assert_eq!(stored_name(Name::new(&long).unwrap()).err(), Some(Errno::ENAMETOOLONG));
        assert!(whiteout_name(Name::new(&[b'x'; 251]).unwrap()).is_ok());
        assert!(whiteout_name(Name::new(&[b'x'; 252]).unwrap()).is_err());
    }
}
