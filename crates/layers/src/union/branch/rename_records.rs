//! Records of renames: a rename that has to be followed by removals records them before it is made.
//!
//! Most renames are one step. But the object that is replaced may be in another branch than its replacement, or be a directory
//! that contains marks and has to be exchanged first. Then a record in the work directory of the branch in which the object
//! moves names the object, its destination, and what must be removed once it is there. The next union to use the branch either
//! finds the object there and completes the removals, or does not and drops the record.

use std::fmt::Write as _;

use vnode::{Caller, Creation, Errno, FileKind, Handle, InodeNumber, Name, NameBuf, OpenFlags, Result, VnodeRef};

use super::branches::BranchMember;
use super::encoding;
use super::entry_purpose::EntryPurpose;
use super::objects;
use super::state_directory;

/// First line of a record.
const RECORD_HEADER: &str = "plyfs rename 2";
/// Maximum size of a record in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// An object at a name in a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedObject {
    /// Identifier of the branch.
    pub(crate) branch: u64,
    /// Handle of the directory there.
    directory: Handle,
    /// Its path from the branch's root, in whichever layer, for branches whose handles do not outlive a mount.
    path: Option<Vec<u8>>,
    pub(crate) name: NameBuf,
    /// Inode number of the object.
    ino: InodeNumber,
    /// Whether a whiteout device takes its place when it is removed.
    pub(crate) leaves_device: bool,
}

/// Work that remains after one rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenameRecord {
    /// The object's location if the rename was made.
    pub(crate) moved: RecordedObject,
    /// Objects that must not be visible then.
    pub(crate) removed: Vec<RecordedObject>,
    /// Location at which a user's device that is a whiteout must be visible then; the inode number is unused.
    pub(crate) device: Option<RecordedObject>,
}

/// Content of a file that may be a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecordContent {
    /// A complete record.
    Complete(Box<RenameRecord>),
    /// Not written to its end: the rename was not made.
    Incomplete,
    /// Written by a later version, which knows what remains to be done.
    LaterVersion,
}

impl RecordContent {
    fn parse(text: &str) -> Self {
        match RenameRecord::decode(text) {
            Some(record) => Self::Complete(Box::new(record)),
            None if state_directory::is_later_version(text, RECORD_HEADER) => Self::LaterVersion,
            None => Self::Incomplete,
        }
    }
}

impl RecordedObject {
    /// The object with that inode number at a name in a directory of the branch.
    pub(crate) fn new(member: &BranchMember, directory: &VnodeRef, stored: Name<'_>, ino: InodeNumber) -> Self {
        let (path, name) = (directory.path().ok(), stored.to_owned());
        Self {
            branch: member.base.numbers.identifier,
            directory: directory.handle(),
            path,
            name,
            ino,
            leaves_device: false,
        }
    }

    /// The directory, if it still exists.
    ///
    /// # Errors
    /// Errors that leave this undecided: the remaining work stays recorded.
    pub(crate) fn directory_in(&self, member: &BranchMember) -> Result<Option<VnodeRef>> {
        if let Some(directory) = if_exists(member, member.base.file_system.resolve(&Caller::server(), &self.directory))?
        {
            return Ok(Some(directory));
        }
        let Some(path) = &self.path else { return Ok(None) };
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        if_exists(
            member,
            names.into_iter().try_fold(member.base.root.clone(), |directory, name| {
                Ok(directory.lookup(&Caller::server(), Name::new(name)?)?.vnode)
            }),
        )
    }

    /// The directory and whether the object is a directory, if the object is there.
    pub(crate) fn find(&self, member: &BranchMember) -> Result<Option<(VnodeRef, bool)>> {
        let Some(directory) = self.directory_in(member)? else { return Ok(None) };
        let found = directory.lookup(&Caller::server(), self.name.as_name());
        match found.map_err(|error| member.reported_error(error)) {
            Ok(entry) if entry.attributes.ino == self.ino => Ok(Some((directory, entry.attributes.is_directory()))),
            Ok(_) | Err(Errno::ENOENT | Errno::ESTALE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn encode(&self, verb: &str, text: &mut String) {
        let path = self.path.as_ref().map_or("-".to_owned(), |path| format!("/{}", encoding::to_hex(path)));
        let (directory, name) = (encoding::to_hex(self.directory.as_bytes()), encoding::to_hex(self.name.as_bytes()));
        // Writing to a string does not fail.
        let device = if self.leaves_device { " device" } else { "" };
        let _ = writeln!(text, "{verb} {} {directory} {path} {name} {}{device}", self.branch, self.ino);
    }

    fn decode(words: &[&str]) -> Option<Self> {
        let (words, leaves_device) = words.strip_suffix(&["device"]).map_or((words, false), |words| (words, true));
        let [branch, directory, path, name, ino] = words else { return None };
        let path = match path.strip_prefix('/') {
            Some(path) => Some(encoding::from_hex(path)?),
            None => None,
        };
        let (directory, name) =
            (Handle::new(&encoding::from_hex(directory)?).ok()?, NameBuf::new(encoding::from_hex(name)?).ok()?);
        let (branch, ino) = (branch.parse().ok()?, InodeNumber::new(ino.parse().ok()?));
        Some(Self { branch, directory, path, name, ino, leaves_device })
    }
}

impl RenameRecord {
    /// Writes the record into the work directory of the branch in which the object moves; returns its name there.
    pub(crate) fn write(&self, member: &BranchMember) -> Result<NameBuf> {
        let work = member.work.directory()?;
        loop {
            let name = member.work.unused_name_for(EntryPurpose::Record);
            match write(&work, name.as_name(), self.encode().as_bytes()) {
                Ok(()) => return Ok(name),
                // A record that waits for a branch has the name.
                Err(Errno::EEXIST) => {}
                Err(error) => {
                    member.work.discard(&name);
                    return Err(error);
                }
            }
        }
    }

    fn encode(&self) -> String {
        let mut text = format!("{RECORD_HEADER}\n");
        self.moved.encode("moved", &mut text);
        self.removed.iter().for_each(|removed| removed.encode("remove", &mut text));
        self.device.iter().for_each(|device| device.encode("whiteout", &mut text));
        text.push_str("end\n");
        text
    }

    /// `None` if it was not written to its end: then the rename was not made.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let body = text.strip_prefix(RECORD_HEADER)?.strip_prefix('\n')?.strip_suffix("end\n")?;
        let mut lines = body.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let moved = match lines.next()?.split_first()? {
            (&"moved", words) => RecordedObject::decode(words)?,
            _ => return None,
        };
        let (mut removed, mut device) = (Vec::new(), None);
        for line in lines {
            match line.split_first()? {
                (&"remove", words) if device.is_none() => removed.push(RecordedObject::decode(words)?),
                (&"whiteout", words) if device.is_none() => device = Some(RecordedObject::decode(words)?),
                _ => return None,
            }
        }
        Some(Self { moved, removed, device })
    }
}

/// The result, or `None` if the error says that the object no longer exists.
fn if_exists<T>(member: &BranchMember, answer: Result<T>) -> Result<Option<T>> {
    match answer.map_err(|error| member.reported_error(error)) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Records in a work directory.
pub(crate) fn records(work: &VnodeRef) -> Result<Vec<(NameBuf, RecordContent)>> {
    let mut found = Vec::new();
    for (name, _) in objects::entries(work)? {
        if EntryPurpose::of(name.as_bytes()) == Some(EntryPurpose::Record) {
            let text = read(work, name.as_name())?;
            found.push((name, RecordContent::parse(&text)));
        }
    }
    Ok(found)
}

fn write(work: &VnodeRef, name: Name<'_>, text: &[u8]) -> Result<()> {
    let server = Caller::server();
    let creation = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
    let file = work.create(&server, name, &creation)?.file;
    objects::write_all(&*file, 0, text)?;
    file.fsync(&server, false)
}

fn read(work: &VnodeRef, name: Name<'_>) -> Result<String> {
    let entry = work.lookup(&Caller::server(), name)?;
    if entry.attributes.kind != FileKind::Regular || entry.attributes.size > MAX_RECORD_BYTES {
        return Ok(String::new());
    }
    Ok(String::from_utf8(objects::read_all(&entry, MAX_RECORD_BYTES)?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(branch: u64, name: &[u8], path: Option<&[u8]>) -> RecordedObject {
        let (directory, name) = (Handle::new(&[1, 0, 255]).unwrap(), NameBuf::new(name.to_vec()).unwrap());
        RecordedObject {
            branch,
            directory,
            path: path.map(<[u8]>::to_vec),
            name,
            ino: InodeNumber::new(u64::MAX),
            leaves_device: branch == 7,
        }
    }

    #[test]
    fn record_round_trips_and_truncation_is_detected() {
        let removed = vec![object(7, b"a b\n", Some(b"")), object(u64::MAX, &[200; 255], Some(b"x/y"))];
        for device in [None, Some(object(3, b"from", Some(b"x")))] {
            let record = RenameRecord { moved: object(0, b"end", None), removed: removed.clone(), device };
            let text = record.encode();
            assert_eq!(RenameRecord::decode(&text), Some(record));
            for length in 0..text.len() {
                assert_eq!(
                    RecordContent::parse(&text[..length]),
                    RecordContent::Incomplete,
                    "cut after {length} bytes"
                );
            }
            assert_eq!(
                RecordContent::parse(&text.replacen(RECORD_HEADER, "plyfs rename 3", 1)),
                RecordContent::LaterVersion
            );
        }
    }
}
