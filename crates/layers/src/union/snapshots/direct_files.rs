//! Files that the kernel keeps writing directly while a snapshot is taken: a copy of each takes its place in the layer that is
//! frozen, and the file moves to the new one.
//!
//! Between these two steps the file's only name is in the work directory, where leftovers of an interrupted server are removed.
//! So before the snapshot takes effect, a record there lists the locations of all of them. The next union to use the branch
//! puts such a file back: then the snapshot has everything that was written to it up to the interruption, and nothing of that
//! is lost.

use std::fmt::Write as _;
use std::sync::Arc;

use vnode::{Caller, Creation, Errno, Name, NameBuf, OpenFlags, RenameMode, Result, Vnode, VnodeRef};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::encoding;
use crate::union::branch::register::LATER_VERSION;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout;
use crate::union::branch::work::{self, EntryPurpose};
use crate::union::copy_up::{copy_consistently, keeping_times};
use crate::union::node::{Instance, Node, NodeLocation};

/// First line of a record.
const RECORD_HEADER: &str = "plyfs kept 1";
/// Maximum size of a record in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 20;

/// A file that is still being written, and its copy for a snapshot.
pub(crate) struct DirectFileCopy {
    pub(crate) node: Arc<Node>,
    member: Arc<BranchMember>,
    pub(crate) copy: NameBuf,
}

impl DirectFileCopy {
    /// # Errors
    /// `EMLINK` for a file with several names, `EBUSY` for one that is never unchanged for long enough, and errors from
    /// copying.
    pub(crate) fn new(node: Arc<Node>, member: &Arc<BranchMember>) -> Result<Self> {
        node.find_location()?;
        let original = node.leftmost();
        if original.vnode.getattr(&Caller::server())?.nlink > 1 {
            return Err(Errno::EMLINK);
        }
        let copy = copy_consistently(&original, member, &node.identity)?;
        Ok(Self { node, member: Arc::clone(member), copy })
    }

    /// Moves the file to the new layer, and the copy to its place. Nothing has changed if that fails.
    fn move_to_layer(&self, new: &Arc<BranchMember>) -> Result<()> {
        let NodeLocation::At(above) = self.node.location() else { return Ok(()) };
        let server = Caller::server();
        let (stored, old) = (above.stored.as_name(), above.directory.instance_in(&self.member).ok_or(Errno::ESTALE)?);
        let new_directory = above.directory.ensure_directory_in(&server, new)?;
        keeping_times(&old, || self.swap_with_copy(&old, &new_directory, stored))?;
        let Instance { vnode, ino, .. } = self.node.leftmost();
        self.node.set_instances(vec![Instance::new(new, vnode, ino)]);
        Ok(())
    }

    /// Moves the file back to its place from the new layer, if it went there, and the copy out of sight; returns whether both
    /// are so.
    pub(crate) fn move_back_from(&self, new: &Arc<BranchMember>) -> bool {
        let Instance { member, vnode, ino, .. } = self.node.leftmost();
        if !Arc::ptr_eq(&member, new) {
            return true;
        }
        let NodeLocation::At(above) = self.node.location() else { return false };
        let locations = (above.directory.instance_in(&self.member), above.directory.instance_in(new));
        let (Some(old), Some(new)) = locations else { return false };
        let is_back = keeping_times(&old, || self.undo_swap(&old, &new, above.stored.as_name())).is_ok();
        if is_back {
            self.node.set_instances(vec![Instance::new(&self.member, vnode, ino)]);
        }
        is_back
    }

    /// Undoes [`DirectFileCopy::swap_with_copy`].
    fn undo_swap(&self, old: &VnodeRef, new: &VnodeRef, stored: Name<'_>) -> Result<()> {
        let (server, work, copy) = (Caller::server(), self.member.work.directory()?, self.copy.as_name());
        new.rename_verified(&server, stored, &work, copy, RenameMode::NoReplace)?;
        match work.rename_verified(&server, copy, old, stored, RenameMode::Exchange) {
            Err(error) if whiteout::is_unsupported(error) => {
                let aside = self.member.work.unused_name();
                old.rename_verified(&server, stored, &work, aside.as_name(), RenameMode::NoReplace)?;
                work.rename_verified(&server, copy, old, stored, RenameMode::NoReplace)?;
                work.rename_verified(&server, aside.as_name(), &work, copy, RenameMode::NoReplace)
            }
            exchanged => exchanged,
        }
    }

    /// Gives the copy the file's name in the old layer, and the file its name in the new one.
    fn swap_with_copy(&self, old: &VnodeRef, new: &VnodeRef, stored: Name<'_>) -> Result<()> {
        let (server, work, copy) = (Caller::server(), self.member.work.directory()?, self.copy.as_name());
        // In one step: whatever happens then, the snapshot has its copy.
        let exchange = || work.rename_verified(&server, copy, old, stored, RenameMode::Exchange);
        match exchange() {
            Err(error) if whiteout::is_unsupported(error) => {
                old.rename_verified(&server, stored, new, stored, RenameMode::NoReplace)?;
                return work.rename_verified(&server, copy, old, stored, RenameMode::NoReplace).inspect_err(|_| {
                    let _ = new.rename_verified(&server, stored, old, stored, RenameMode::NoReplace);
                });
            }
            exchanged => exchanged?,
        }
        work.rename_verified(&server, copy, new, stored, RenameMode::NoReplace).inspect_err(|_| {
            // Otherwise the file that programs write would have no name.
            let _ = exchange();
        })
    }
}

/// Moves all files to a new layer.
///
/// # Errors
/// The path of the first that cannot move, and the error.
pub(crate) fn move_to_layer(
    new: &Arc<BranchMember>,
    kept: &[DirectFileCopy],
) -> std::result::Result<(), (String, Errno)> {
    kept.iter().try_for_each(|kept| {
        let path = || String::from_utf8_lossy(&kept.node.path().unwrap_or_default()).into_owned();
        kept.move_to_layer(new).map_err(|error| (path(), error))
    })
}

/// Records the locations of the files that are about to change places with their copies; returns the name of the record in the
/// work directory, or `None` if there are no files.
pub(crate) fn write_record(member: &BranchMember, kept: &[DirectFileCopy]) -> Result<Option<NameBuf>> {
    if kept.is_empty() {
        return Ok(None);
    }
    let root = member.root.path()?;
    let mut text = format!("{RECORD_HEADER}\n");
    for one in kept {
        let NodeLocation::At(above) = one.node.location() else { continue };
        let directory = above.directory.instance_in(&one.member).ok_or(Errno::ESTALE)?.path()?;
        let below = directory.strip_prefix(&root[..]).ok_or(Errno::ESTALE)?;
        let digits = [one.copy.as_bytes(), below, above.stored.as_bytes()].map(encoding::to_hex);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} /{} {} {}", digits[0], digits[1], digits[2], one.node.leftmost().ino);
    }
    text.push_str("end\n");
    let (work, name) = (member.work.directory()?, member.work.unused_name_for(EntryPurpose::DirectFiles));
    let written = write(&work, name.as_name(), text.as_bytes());
    if written.is_err() {
        member.work.discard(&name);
    }
    written.map(|()| Some(name))
}

fn write(work: &VnodeRef, name: Name<'_>, text: &[u8]) -> Result<()> {
    let server = Caller::server();
    let creation = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
    let file = work.create(&server, name, &creation)?.file;
    work::write_all(&*file, 0, text)?;
    file.fsync(&server, false)
}

/// Puts back the files that were in transit when a server was interrupted, in the layer with this root. A record that was not
/// written to its end is ignored: nothing was in transit.
///
/// # Errors
/// Errors from putting them back, and [`LATER_VERSION`] for a record of a later version: the record and the files stay.
pub(crate) fn restore_interrupted(root: &VnodeRef, work: &VnodeRef, record: Name<'_>) -> Result<()> {
    let entry = work.lookup(&Caller::server(), record)?;
    if entry.attributes.is_directory() || entry.attributes.size > MAX_RECORD_BYTES {
        return Ok(());
    }
    let text = String::from_utf8(work::read_all(&entry, MAX_RECORD_BYTES)?).unwrap_or_default();
    if work::is_later_version(&text, RECORD_HEADER) {
        return Err(LATER_VERSION);
    }
    let locations = decode_record(&text).unwrap_or_default();
    locations.iter().try_for_each(|location| location.restore(root, work))
}

/// Former location of a file.
#[derive(Debug, PartialEq, Eq)]
struct FileLocation {
    /// Name of its copy in the work directory.
    copy: NameBuf,
    /// Path of its directory from the root of the layer.
    directory: Vec<u8>,
    name: NameBuf,
    ino: u64,
}

/// The locations in a record, if it is complete.
fn decode_record(text: &str) -> Option<Vec<FileLocation>> {
    let body = text.strip_prefix(RECORD_HEADER)?.strip_prefix('\n')?.strip_suffix("end\n")?;
    body.lines().map(FileLocation::decode).collect()
}

impl FileLocation {
    fn decode(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [copy, directory, name, ino] = words[..] else { return None };
        let name_of = |digits| NameBuf::new(encoding::from_hex(digits)?).ok();
        Some(Self {
            copy: name_of(copy)?,
            directory: encoding::from_hex(directory.strip_prefix('/')?)?,
            name: name_of(name)?,
            ino: ino.parse().ok()?,
        })
    }

    /// Puts the file back if it is where its copy was, or the copy if nothing is at the location.
    fn restore(&self, root: &VnodeRef, work: &VnodeRef) -> Result<()> {
        let server = Caller::server();
        let Some(there) = work::find(work, self.copy.as_name())? else { return Ok(()) };
        let mut directory = root.clone();
        for name in self.directory.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            directory = directory.lookup(&server, Name::new(name)?)?.vnode;
        }
        let (copy, name) = (self.copy.as_name(), self.name.as_name());
        if there.attributes.ino != self.ino && work::find(&directory, name)?.is_some() {
            return Ok(());
        }
        keeping_times(&directory, || work.rename_verified(&server, copy, &directory, name, RenameMode::Replace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_record_is_ignored() {
        let text = format!("{RECORD_HEADER}\n61 / 62 7\n6162 /612f62 ff {}\nend\n", u64::MAX);
        let location = |copy: &[u8], directory: &[u8], name: &[u8], ino| {
            let name_of = |bytes: &[u8]| NameBuf::new(bytes.to_vec()).unwrap();
            FileLocation { copy: name_of(copy), directory: directory.to_vec(), name: name_of(name), ino }
        };
        assert_eq!(
            decode_record(&text),
            Some(vec![location(b"a", b"", b"b", 7), location(b"ab", b"a/b", b"\xff", u64::MAX)])
        );
        for length in 0..text.len() {
            assert_eq!(decode_record(&text[..length]), None, "cut after {length} bytes");
        }
    }
}
