//! Text files that options name.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstatfs};
use vnode::Errno;

/// Maximum size of a text file: far more than anybody writes, so that a device without an end is not read for ever.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file, which may be a pipe, such as that of a process substitution in a shell.
///
/// # Errors
/// `EINVAL` if it is a FIFO, which might never have a writer, `EFBIG` if it is larger than [`MAX_BYTES`], `EILSEQ` if it is not
/// valid UTF-8, and the error of reading it.
pub(crate) fn read(path: &str) -> Result<String, Errno> {
    String::from_utf8(bytes(path)?).map_err(|_| Errno::EILSEQ)
}

/// Like [`read`], with a replacement character for what is not UTF-8.
pub(crate) fn read_lossy(path: &str) -> Result<String, Errno> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

fn bytes(path: &str) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    let length = open(path)?.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if length as u64 > MAX_BYTES { Err(Errno::EFBIG) } else { Ok(text) }
}

fn open(path: &str) -> io::Result<File> {
    const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    if file.metadata()?.file_type().is_fifo() && fstatfs(&file)?.f_type != PIPEFS_MAGIC {
        return Err(ErrorKind::InvalidInput.into());
    }
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifos_without_a_writer_are_refused_and_foreign_bytes_are_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(read_lossy(&path("fifo")), Err(Errno::EINVAL));
        std::fs::write(path("text"), b"M\xfcller").unwrap();
        assert_eq!(
            (read(&path("text")), read_lossy(&path("text"))),
            (Err(Errno::EILSEQ), Ok("M\u{fffd}ller".to_owned()))
        );
    }
}
