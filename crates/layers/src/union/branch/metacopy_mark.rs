//! The mark of a metadata-only copy: it says that the data are elsewhere, and where.
//!
//! With whiteouts as files it is one attribute, `plyfs.metacopy`: modification time and size of the original, and its path from
//! the root of the lower branches. With overlayfs's whiteouts it has the kernel's form: `overlay.metacopy`, and the path in
//! `overlay.redirect`, which the kernel omits as long as the file has its first name.

use vnode::{Attributes, Caller, Errno, Result, SetAttributes, SetTime, Timestamp, VnodeRef};

use super::trust::TrustedAttribute as Trusted;
use super::whiteout::{MAX_REDIRECT_BYTES as PATH_MAX, OVERLAY_REDIRECT as REDIRECT, WhiteoutFormat};
use super::xattrs;

const OWN_MARK: Trusted =
    Trusted::new(b"trusted.plyfs.metacopy", b"user.overlay.plyfs.metacopy").formerly(b"user.plyfs.metacopy");
const OVERLAY_MARK: Trusted = Trusted::new(b"trusted.overlay.metacopy", b"user.overlay.metacopy");

/// Content of a metadata-only copy's mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetacopyMark {
    /// Location of the data: a path from the root of the lower branches, a sibling's name there, or, if `None`, the same name.
    pub(crate) path: Option<Vec<u8>>,
    /// State of the original, if known.
    fingerprint: Option<Fingerprint>,
    /// Whether nobody can have written it who may not read everything anyway.
    pub(crate) is_trusted: bool,
}

/// State that distinguishes an original from other files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    mtime: Timestamp,
    size: u64,
}

impl MetacopyMark {
    /// The mark of a file. Most have none, and a single query shows that.
    pub(crate) fn of(file: &VnodeRef) -> Result<Option<Self>> {
        let names = xattrs::attributes(file)?;
        if OWN_MARK.is_in(&names)
            && let Some(value) = OWN_MARK.get(file)?
        {
            let (path, fingerprint) = decode(&value).ok_or(Errno::EIO)?;
            return Ok(Some(Self { path: Some(path), fingerprint: Some(fingerprint), is_trusted: true }));
        }
        if OVERLAY_MARK.is_in(&names) && OVERLAY_MARK.get(file)?.is_some() {
            let path = if REDIRECT.is_in(&names) { REDIRECT.get(file)? } else { None };
            let path = path.filter(|path| !path.is_empty() && path.len() <= PATH_MAX);
            return Ok(Some(Self { path, fingerprint: None, is_trusted: true }));
        }
        // An untrusted mark also means that the data are not here.
        let is_untrusted = OWN_MARK.is_in(&names) && OWN_MARK.is_untrusted(file)?
            || OVERLAY_MARK.is_in(&names) && OVERLAY_MARK.is_untrusted(file)?;
        Ok(is_untrusted.then_some(Self { path: None, fingerprint: None, is_trusted: false }))
    }

    /// Returns whether it says where the data are regardless of the copy's name.
    pub(crate) fn has_full_path(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.starts_with(b"/"))
    }

    /// Returns whether this may be the original, as far as its state is known.
    pub(crate) fn matches(&self, file: &VnodeRef) -> Result<bool> {
        match self.fingerprint {
            Some(fingerprint) => Ok(Fingerprint::of(&file.getattr(&Caller::server())?) == fingerprint),
            None => Ok(true),
        }
    }
}

impl Fingerprint {
    fn of(attributes: &Attributes) -> Self {
        Self { mtime: attributes.mtime, size: attributes.size }
    }
}

/// A mark to be set.
#[derive(Clone, Debug)]
pub(crate) struct NewMetacopyMark {
    path: Vec<u8>,
    original: Fingerprint,
    format: WhiteoutFormat,
}

impl NewMetacopyMark {
    /// The mark for a copy of the object at this path, with these attributes.
    pub(crate) fn new(path: Vec<u8>, original: &Attributes, format: WhiteoutFormat) -> Self {
        Self { path, original: Fingerprint::of(original), format }
    }

    /// Sets it on a file that is not visible yet; returns whether that was possible.
    pub(crate) fn set(&self, writer: &Caller, file: &VnodeRef) -> Result<bool> {
        if self.path.len() > PATH_MAX {
            return Ok(false);
        }
        if self.format == WhiteoutFormat::Names {
            return set(OWN_MARK, writer, file, &encode(&self.path, self.original));
        }
        Ok(set(REDIRECT, writer, file, &self.path)? && set(OVERLAY_MARK, writer, file, b"")?)
    }
}

/// Adds a path to a mark of overlayfs; returns whether that was possible.
pub(crate) fn set_path(writer: &Caller, file: &VnodeRef, path: &[u8]) -> Result<bool> {
    if path.len() > PATH_MAX { Ok(false) } else { set(REDIRECT, writer, file, path) }
}

/// Returns whether the file is a metadata-only copy; its mark may lack the location.
pub(crate) fn is_marked(file: &VnodeRef) -> Result<bool> {
    let names = xattrs::attributes(file)?;
    Ok(OWN_MARK.is_in(&names) || OVERLAY_MARK.is_in(&names))
}

/// Removes the mark: from then on the file has its own data.
pub(crate) fn remove(file: &VnodeRef) -> Result<()> {
    let names = xattrs::attributes(file)?;
    for mark in [OWN_MARK, OVERLAY_MARK].into_iter().filter(|mark| mark.is_in(&names)) {
        mark.remove(file)?;
    }
    if REDIRECT.is_in(&names) {
        // It means nothing without the other.
        let _ = REDIRECT.remove(file);
    }
    Ok(())
}

/// Restores the modification time of a file whose data have not been filled in.
///
/// # Errors
/// Errors from finding out whether they have been.
pub(crate) fn restore_mtime(file: &VnodeRef, mtime: Timestamp) -> Result<()> {
    if is_marked(file)? {
        let times = SetAttributes { mtime: Some(SetTime::To(mtime)), ..SetAttributes::default() };
        // The remaining recovery does not depend on it.
        let _ = file.setattr(&Caller::server(), &times);
    }
    Ok(())
}

/// Sets one of the attributes; returns whether that was possible. Without space for it, it was not.
fn set(mark: Trusted, writer: &Caller, file: &VnodeRef, value: &[u8]) -> Result<bool> {
    match mark.set(writer, file, value) {
        Err(Errno::ENOSPC | Errno::EDQUOT | Errno::E2BIG | Errno::ERANGE) => Ok(false),
        set => set,
    }
}

fn encode(path: &[u8], Fingerprint { mtime, size }: Fingerprint) -> Vec<u8> {
    [format!("{}.{:09} {size} ", mtime.seconds, mtime.nanoseconds).as_bytes(), path].concat()
}

fn decode(value: &[u8]) -> Option<(Vec<u8>, Fingerprint)> {
    let mut parts = value.splitn(3, |&byte| byte == b' ');
    let (mtime, size) = (std::str::from_utf8(parts.next()?).ok()?, std::str::from_utf8(parts.next()?).ok()?);
    let path = parts.next().filter(|path| path.starts_with(b"/") && path.len() <= PATH_MAX)?;
    let (seconds, nanoseconds) = mtime.split_once('.')?;
    let mtime = Timestamp { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? };
    Some((path.to_vec(), Fingerprint { mtime, size: size.parse().ok()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_round_trips() {
        for seconds in [-1, 0, i64::MAX] {
            let fingerprint = Fingerprint { mtime: Timestamp { seconds, nanoseconds: 7 }, size: u64::MAX };
            let path = b"/a b/\xff".to_vec();
            assert_eq!(decode(&encode(&path, fingerprint)), Some((path, fingerprint)));
        }
        for wrong in [&b""[..], b"1.2 3", b"1.2 3 a", b"1 3 /a", b"x.2 3 /a"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
