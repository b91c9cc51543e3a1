//! The state directory of a branch, `.wh..wh.plyfs` at its root: what unions store there beside the users' objects.
//!
//! Only the server can write to it, or nothing in it is trusted.

use vnode::{
    Caller, Created, Creation, Entry, Errno, FileKind, Name, OpenFlags, RenameMode, Result, SetAttributes, VnodeRef,
};

use super::objects::{find, read_all, write_all};
use super::trust;
use super::verified::VerifiedOperations;
use super::whiteout::STATE_DIRECTORY;

/// Error passed up for a record that a later version has written. No file system returns it.
pub(crate) const LATER_VERSION: Errno = Errno::EPROTO;

/// Name of the work directory. Every other entry of the state directory has its name here too: the check
/// reports all others as unknown.
pub(crate) const WORK: &[u8] = b"work";
/// Directory of names that lead to copies of files with several names.
pub(crate) const LINKS: &[u8] = b"links";
/// File that is locked while the branch is written to.
pub(crate) const LOCK: &[u8] = b"lock";
/// Name of the file that [`super::register`] reads.
pub(crate) const REGISTER: &[u8] = b"branches";
/// Marker file of [`has_copied_directories`](super::work::WorkDirectory::has_copied_directories).
pub(crate) const COPIED_DIRECTORIES: &[u8] = b"directories";
/// Marker file of [`has_metacopies`](super::work::WorkDirectory::has_metacopies). It has an attribute: if that is missing, the
/// branch was copied without its attributes, and the metadata-only copies have lost theirs too.
pub(crate) const METACOPIES: &[u8] = b"metacopies";
/// Name of the file that [`super::history`] reads.
pub(crate) const HISTORY: &[u8] = b"history";
/// Directory of later layers.
pub(crate) const LAYERS: &[u8] = b"layers";
/// Journal of the commit of a fork.
pub(crate) const COMMIT: &[u8] = b"commit";
/// Directory that holds directories in transit while a layer is merged.
pub(crate) const MERGE_TRANSIT: &[u8] = b"moving";
/// File of [`super::losses`].
pub(crate) const LOSSES: &[u8] = b"losses";
/// File of a work directory that says to which directory it belongs. Only what attaches the work directory reads it.
const DIRECTORY: &[u8] = b"directory";
/// Temporary name of a state file until it is complete.
pub(crate) const TEMPORARY: &[u8] = b"part";

/// Entries of the state directory that are directories.
const DIRECTORIES: [&[u8]; 4] = [WORK, LINKS, LAYERS, MERGE_TRANSIT];
/// Those that are files.
const FILES: [&[u8]; 9] =
    [LOCK, REGISTER, COPIED_DIRECTORIES, METACOPIES, HISTORY, COMMIT, LOSSES, DIRECTORY, TEMPORARY];

/// Returns the kind of the entry of a state directory with this name; `None` if it has none.
pub(crate) fn kind_of(name: &[u8]) -> Option<FileKind> {
    match name {
        _ if DIRECTORIES.contains(&name) => Some(FileKind::Directory),
        _ if FILES.contains(&name) => Some(FileKind::Regular),
        _ => None,
    }
}

/// The state directory of the branch with this root, if it has one.
///
/// # Errors
/// `EPERM` if others than the server can have written to it: nothing in it is trusted.
pub(crate) fn state_of(root: &VnodeRef) -> Result<Option<VnodeRef>> {
    match find(root, own_name(STATE_DIRECTORY))? {
        Some(state) if !trust::is_private(&state.attributes) => Err(Errno::EPERM),
        found => Ok(found.map(|state| state.vnode)),
    }
}

/// Returns whether the state directory is absent or trusted, with all that unions read in it.
pub(crate) fn has_trusted_state(root: &VnodeRef) -> Result<bool> {
    let check = || {
        let Some(state) = state_of(root)? else { return Ok(()) };
        // By their names: it may be one that can be searched, and not listed.
        DIRECTORIES.iter().chain(&FILES).copied().try_for_each(|name| find_own(&state, name).map(drop))
    };
    match check() {
        Err(Errno::EPERM) => Ok(false),
        checked => checked.map(|()| true),
    }
}

/// The entry of the state directory with this name, if there is one.
///
/// # Errors
/// `EPERM` if others than the server can have written to it: a directory of root's is no state directory by its name, if it is
/// moved there.
pub(crate) fn find_own(state: &VnodeRef, name: &'static [u8]) -> Result<Option<Entry>> {
    let Some(entry) = find(state, own_name(name))? else { return Ok(None) };
    check_own(state, name, &entry)?;
    Ok(Some(entry))
}

/// Opens a file of the state directory, which is created if it does not exist. It is not truncated: it may be somebody else's.
///
/// # Errors
/// `EPERM` as for [`find_own`].
pub(crate) fn create_own(state: &VnodeRef, name: &'static [u8], flags: OpenFlags) -> Result<Created> {
    let created = state.create(&Caller::server(), own_name(name), &Creation { mode: 0o600, flags })?;
    check_own(state, name, &created.entry)?;
    Ok(created)
}

fn check_own(state: &VnodeRef, name: &[u8], entry: &Entry) -> Result<()> {
    let attributes = &entry.attributes;
    let is_own = kind_of(name) == Some(attributes.kind) && trust::is_owned(attributes);
    // A layer below, or the file system, may give files a mode of its own: nobody reaches them in a directory that others cannot
    // search.
    let is_out_of_reach = || attributes.kind == FileKind::Regular && is_closed(state);
    if is_own && (trust::only_server_writes(attributes) || is_out_of_reach()) { Ok(()) } else { Err(Errno::EPERM) }
}

/// Returns whether nobody but its owner can search a directory.
fn is_closed(directory: &VnodeRef) -> bool {
    directory.getattr(&Caller::server()).is_ok_and(|attributes| attributes.mode & 0o011 == 0)
}

/// Creates or finds a directory that only the server can have written to: the state directory, or one in it.
///
/// # Errors
/// `EPERM` as for [`state_of`].
pub(crate) fn make_private_directory(parent: &VnodeRef, bytes: &'static [u8]) -> Result<VnodeRef> {
    let server = Caller::server();
    match parent.mkdir(&server, own_name(bytes), 0o700) {
        // Whoever owns the parent may have put a directory of their own in its place since.
        Ok(entry) if !trust::is_owned(&entry.attributes) => Err(Errno::EPERM),
        Ok(entry) => {
            // Objects created in it must not inherit ACLs.
            for list in [b"system.posix_acl_default", &b"system.posix_acl_access"[..]] {
                let _ = entry.vnode.removexattr(&server, list);
            }
            let private = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
            let now = entry.vnode.setattr(&server, &private)?;
            if trust::is_private(&now) { Ok(entry.vnode) } else { Err(Errno::EPERM) }
        }
        // Another union has just created it, or somebody else has.
        Err(Errno::EEXIST) => match parent.lookup(&server, own_name(bytes))? {
            found if trust::is_private(&found.attributes) => Ok(found.vnode),
            _ => Err(Errno::EPERM),
        },
        Err(error) => Err(error),
    }
}

/// Writes a state file completely or not at all.
pub(crate) fn write_state_file(state: &VnodeRef, file: &'static [u8], text: &[u8]) -> Result<()> {
    let server = Caller::server();
    let made = create_own(state, TEMPORARY, OpenFlags::WRITE)?;
    made.file.truncate(&server, 0)?;
    let written = write_all(&*made.file, 0, text).and_then(|()| made.file.fsync(&server, false));
    if written.is_err() {
        let _ = state.unlink_verified(&server, own_name(TEMPORARY));
        return written;
    }
    state.rename_verified(&server, own_name(TEMPORARY), state, own_name(file), RenameMode::Replace)
}

/// The text of a state file, if the file exists.
pub(crate) fn read_state_file(state: &VnodeRef, file: &'static [u8], bytes_max: u64) -> Result<Option<String>> {
    let Some(found) = find_own(state, file)? else { return Ok(None) };
    String::from_utf8(read_all(&found, bytes_max)?).map(Some).map_err(|_| Errno::EIO)
}

/// Returns whether the first line of a text declares a later version than `form`; both end with a number.
pub(crate) fn is_later_version(text: &str, form: &str) -> bool {
    fn number(line: &str) -> Option<(&str, u32)> {
        let (of, number) = line.rsplit_once(' ')?;
        Some((of, number.parse().ok()?))
    }
    let line = text.split_once('\n').map_or(text, |(line, _)| line);
    number(line).zip(number(form)).is_some_and(|((of, said), (known, number))| of == known && said > number)
}

/// A name that the union itself uses.
pub(crate) fn own_name(bytes: &'static [u8]) -> Name<'static> {
    Name::new(bytes).expect("our own names are names")
}
