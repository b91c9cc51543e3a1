//! The mark of a metadata-only copy: that its data are elsewhere, and where.
//!
//! With whiteouts as files it is one attribute, `plyfs.metacopy`: modification time and size of the original, and its path
//! from the root of the branches on the right. With those of overlayfs it is as the kernel writes it: `overlay.metacopy`,
//! and the path in `overlay.redirect`, which the kernel leaves out as long as the file has its first name.

use std::sync::OnceLock;

use vnode::{Attributes, Caller, Errno, IdKind, Result, Timestamp, VnodeRef, XattrMode, has_machine_ids};

use super::super::whiteout::{self, Format, OVERLAY_REDIRECT as REDIRECT, REDIRECT_MAX as PATH_MAX};

/// As root and as a user writes them.
const OWN: [&[u8]; 2] = [b"trusted.plyfs.metacopy", b"user.plyfs.metacopy"];
const OVERLAY: [&[u8]; 2] = [b"trusted.overlay.metacopy", b"user.overlay.metacopy"];

/// What a metadata-only copy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Mark {
    /// Where the data are: a path from the root of the branches on the right, a name in the same directory there, or the
    /// same name.
    pub(in super::super) path: Option<Vec<u8>>,
    /// What the original was, if that is known.
    fingerprint: Option<Fingerprint>,
    /// Nobody can have written it who may not read everything anyway.
    pub(in super::super) is_believed: bool,
}

/// What tells an original from another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    mtime: Timestamp,
    size: u64,
}

impl Mark {
    /// That of a file. Most have none, and one question tells so.
    pub(in super::super) fn of(file: &VnodeRef) -> Result<Option<Self>> {
        let names = whiteout::attributes(file)?;
        let get = |name: &[u8]| whiteout::attribute(file, &[name]);
        let has = |wanted: &[u8]| names.split(|&byte| byte == 0).any(|name| name == wanted);
        for (rank, name) in OWN.into_iter().enumerate().filter(|(_, name)| has(name)) {
            let Some(value) = get(name)? else { continue };
            let (path, fingerprint) = decode(&value).ok_or(Errno::EIO)?;
            return Ok(Some(Self { path: Some(path), fingerprint: Some(fingerprint), is_believed: is_believed(rank) }));
        }
        for (rank, name) in OVERLAY.into_iter().enumerate().filter(|(_, name)| has(name)) {
            if get(name)?.is_none() {
                continue;
            }
            let path = if has(REDIRECT[rank]) { get(REDIRECT[rank])? } else { None };
            let path = path.filter(|path| !path.is_empty() && path.len() <= PATH_MAX);
            return Ok(Some(Self { path, fingerprint: None, is_believed: is_believed(rank) }));
        }
        Ok(None)
    }

    /// Whether it says where the data are whatever name the copy has.
    pub(super) fn tells_path(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.starts_with(b"/"))
    }

    /// Whether this may be the original, by what is known of that.
    pub(super) fn is_of(&self, file: &VnodeRef) -> Result<bool> {
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

/// A mark that is to be set.
#[derive(Clone, Debug)]
pub(in super::super) struct NewMark {
    path: Vec<u8>,
    original: Fingerprint,
    format: Format,
}

impl NewMark {
    /// That of a copy of what is at this path, with these attributes.
    pub(super) fn new(path: Vec<u8>, original: &Attributes, format: Format) -> Self {
        Self { path, original: Fingerprint::of(original), format }
    }

    /// Sets it, of a file that is not seen yet: whether that could be.
    pub(in super::super) fn set(&self, writer: &Caller, file: &VnodeRef) -> Result<bool> {
        if self.path.len() > PATH_MAX {
            return Ok(false);
        }
        if self.format == Format::Names {
            return set(writer, file, &OWN, &encode(&self.path, self.original));
        }
        Ok(set(writer, file, &REDIRECT, &self.path)? && set(writer, file, &OVERLAY, b"")?)
    }
}

/// Has a mark of overlayfs tell a path: whether that could be.
pub(super) fn set_path(writer: &Caller, file: &VnodeRef, path: &[u8]) -> Result<bool> {
    if path.len() > PATH_MAX { Ok(false) } else { set(writer, file, &REDIRECT, path) }
}

/// Whether the file is a metadata-only copy, and may tell of what.
pub(in super::super) fn is_marked(file: &VnodeRef) -> Result<bool> {
    whiteout::has_any_attribute(file, &[OWN, OVERLAY].concat())
}

/// Takes the mark away: from then on the file has its data itself.
pub(super) fn remove(file: &VnodeRef) -> Result<()> {
    whiteout::remove_attribute(file, &OWN)?;
    whiteout::remove_attribute(file, &OVERLAY)?;
    whiteout::remove_attribute(file, &REDIRECT)
}

/// A server that may write `trusted` attributes believes no others: any owner of a file can set those, and be shown what
/// only the server may read.
fn is_believed(rank: usize) -> bool {
    rank == rank_of_server()
}

fn set(writer: &Caller, file: &VnodeRef, names: &[&[u8]; 2], value: &[u8]) -> Result<bool> {
    match file.setxattr(writer, names[rank_of_server()], value, XattrMode::Set) {
        Ok(()) => Ok(true),
        // Also where there is no room for it.
        Err(
            Errno::EPERM
            | Errno::EACCES
            | Errno::EOPNOTSUPP
            | Errno::ENOSPC
            | Errno::EDQUOT
            | Errno::E2BIG
            | Errno::ERANGE,
        ) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Which of the two names this server writes: the first with the rights of the superuser of the whole system.
fn rank_of_server() -> usize {
    static RANK: OnceLock<usize> = OnceLock::new();
    *RANK.get_or_init(|| {
        let is_machine_root = rustix::process::geteuid().is_root() && has_machine_ids(IdKind::User) == Some(true);
        usize::from(!is_machine_root)
    })
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
    fn what_is_written_is_read() {
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
