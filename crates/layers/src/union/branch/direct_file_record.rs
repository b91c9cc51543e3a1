//! Records of files that change places with their copies for a snapshot, since the kernel keeps writing them directly: see
//! [`crate::union::snapshots::direct_files`].
//!
//! Between the two steps the file's only name is in the work directory, where leftovers of an interrupted server are removed. The
//! next union to use the branch puts such a file back, at the location that the record has.

use std::fmt::Write as _;

use vnode::{Caller, Creation, FileKind, InodeNumber, Name, NameBuf, OpenFlags, RenameMode, Result, VnodeRef};

use super::objects::keeping_times;
use super::state_directory::LATER_VERSION;
use super::verified::VerifiedOperations;
use super::{encoding, objects, state_directory};

/// First line of a record.
const RECORD_HEADER: &str = "plyfs kept 1";

/// Maximum size of a record in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Former location of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileLocation {
    /// Name of its copy in the work directory.
    pub(crate) copy: NameBuf,
    /// Path of its directory from the root of the layer.
    pub(crate) directory: Vec<u8>,
    pub(crate) name: NameBuf,
    pub(crate) ino: InodeNumber,
}

/// Writes a record of files that are about to change places with their copies, under an unused name in the work directory.
pub(crate) fn write_record(work: &VnodeRef, name: Name<'_>, locations: &[FileLocation]) -> Result<()> {
    let mut text = format!("{RECORD_HEADER}\n");
    for FileLocation { copy, directory, name, ino } in locations {
        let [copy, directory, name] = [copy.as_bytes(), directory, name.as_bytes()].map(encoding::to_hex);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{copy} /{directory} {name} {ino}");
    }
    text.push_str("end\n");
    let server = Caller::server();
    let creation = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
    let file = work.create(&server, name, &creation)?.file;
    objects::write_all(&*file, 0, text.as_bytes())?;
    file.fsync(&server, false)
}

/// Puts back the files that were in transit when a server was interrupted, in the layer with this root. A record that was not
/// written to its end is ignored: nothing was in transit.
///
/// # Errors
/// Errors from putting them back, and [`LATER_VERSION`] for a record of a later version: the record and the files stay.
pub(crate) fn restore_interrupted(root: &VnodeRef, work: &VnodeRef, record: Name<'_>) -> Result<()> {
    let entry = work.lookup(&Caller::server(), record)?;
    if entry.attributes.kind != FileKind::Regular || entry.attributes.size > MAX_RECORD_BYTES {
        return Ok(());
    }
    let text = String::from_utf8(objects::read_all(&entry, MAX_RECORD_BYTES)?).unwrap_or_default();
    if state_directory::is_later_version(&text, RECORD_HEADER) {
        return Err(LATER_VERSION);
    }
    let locations = decode_record(&text).unwrap_or_default();
    locations.iter().try_for_each(|location| location.restore(root, work))
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
            ino: InodeNumber::new(ino.parse().ok()?),
        })
    }

    /// Puts the file back if it is where its copy was, or the copy if nothing is at the location.
    fn restore(&self, root: &VnodeRef, work: &VnodeRef) -> Result<()> {
        let server = Caller::server();
        let Some(there) = objects::find(work, self.copy.as_name())? else { return Ok(()) };
        let mut directory = root.clone();
        for name in self.directory.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            directory = directory.lookup(&server, Name::new(name)?)?.vnode;
        }
        let (copy, name) = (self.copy.as_name(), self.name.as_name());
        if there.attributes.ino != self.ino && objects::find(&directory, name)?.is_some() {
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
        let location = |copy: &[u8], directory: &[u8], name: &[u8], ino: u64| {
            let name_of = |bytes: &[u8]| NameBuf::new(bytes.to_vec()).unwrap();
            FileLocation {
                copy: name_of(copy),
                directory: directory.to_vec(),
                name: name_of(name),
                ino: InodeNumber::new(ino),
            }
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
