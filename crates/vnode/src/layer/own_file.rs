//! Files of a layer's own in lower directories: written and read by the server, which others cannot direct to files of theirs.

use super::own_entries::temporary_name;
use crate::{
    Caller, Creation, Errno, FileKind, Name, OpenFileRef, OpenFlags, RenameMode, Result, VnodeRef, read_fully,
    write_fully,
};

/// Writes a file of a layer of this kind in a lower directory, at the expense of `caller`. It has its name once its content is on
/// stable storage, and replaces a file of that name, to which nothing is written: a server that ends leaves the old one or the
/// new one.
///
/// # Errors
/// Those of the lower file system; the old file stays then.
pub fn write_own_file(kind: &str, directory: &VnodeRef, caller: &Caller, name: Name<'_>, content: &[u8]) -> Result<()> {
    let server = Caller::server().at_expense_of(caller);
    let temporary = temporary_name(kind)?;
    let how = Creation { mode: 0o600, flags: OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE) };
    let file = directory.create(&server, temporary.as_name(), &how)?.file;
    let fill = |file: &OpenFileRef| {
        write_fully(&**file, &server, 0, content)?;
        file.fsync(&server, false)
    };
    let placed =
        fill(&file).and_then(|()| directory.rename(&server, temporary.as_name(), directory, name, RenameMode::Replace));
    if placed.is_err() {
        let _ = directory.unlink(&Caller::server(), temporary.as_name());
    }
    placed
}

/// Reads a file of the layer's own in a lower directory. Returns the number of bytes that it has, up to the size of the buffer.
///
/// # Errors
/// `ENOENT`; `EBADMSG` for what is no regular file with one name: others may have put it there. Those of the lower file system.
pub fn read_own_file(directory: &VnodeRef, name: Name<'_>, buffer: &mut [u8]) -> Result<usize> {
    let server = Caller::server();
    let entry = directory.lookup(&server, name)?;
    if entry.attributes.kind != FileKind::Regular || entry.attributes.nlink != 1 {
        return Err(Errno::EBADMSG);
    }
    let file = entry.vnode.open(&server, OpenFlags::READ)?;
    read_fully(&*file, &server, 0, buffer)
}
