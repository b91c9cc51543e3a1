//! Text files that options name.

use std::fs::File;
use std::io::Read;

use vnode::Errno;

/// Maximum size of a text file: far more than anybody writes, so that a device without an end is not read for ever.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file, which may be a pipe, such as that of a process substitution in a shell.
///
/// # Errors
/// `EFBIG` if it is larger than [`MAX_BYTES`], `EILSEQ` if it is not valid UTF-8, and the error of reading it.
pub(crate) fn read(path: &str) -> Result<String, Errno> {
    let mut text = Vec::new();
    let length = File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if length as u64 > MAX_BYTES {
        return Err(Errno::EFBIG);
    }
    String::from_utf8(text).map_err(|_| Errno::EILSEQ)
}
