//! Opening a file for changes of its parts, each of which is read before it is written.

use crate::{Caller, Errno, OpenFileRef, OpenFlags, Result, Vnode};

/// Opens a file for read-modify-write of its parts, on behalf of a caller that opens it with `flags`; see
/// [`OpenFlags::for_rewriting`].
///
/// The caller needs only the permissions that it requests: if it may write but not read, the server reads. A truncation then
/// clears set-ID bits as the caller's own would.
///
/// # Errors
/// As open(2) with `flags`; also if the file can be opened only for appending.
pub fn open_for_rewriting(vnode: &dyn Vnode, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
    let wanted = flags.for_rewriting();
    match vnode.open(caller, wanted) {
        Err(Errno::EACCES) if flags.writes() && !flags.reads() => {
            vnode.open(caller, flags.without(OpenFlags::TRUNCATE))?;
            vnode.open(&Caller::server_changing_for(caller), wanted)
        }
        answer => answer,
    }
}
