//! Reads whole files below /proc, and takes numbers from their fields.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::str::FromStr;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

/// Room for most files: they have no size, and each read fills no more than a page.
const BUFFER_BYTES: usize = 4096;

/// Reads a file.
pub(crate) fn read(path: &str) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut content = Vec::new();
    loop {
        if content.capacity() - content.len() < BUFFER_BYTES / 4 {
            content.reserve(BUFFER_BYTES);
        }
        match rustix::io::read(&file, spare_capacity(&mut content)) {
            Ok(0) => return Ok(content),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns `None` instead of the errors of what has ended, or has no /proc.
pub(crate) fn unless_gone<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opening a file of a process that has ended fails with `ENOENT`, reading one with `ESRCH`.
fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::SRCH)
}

/// Returns the rest of the line that begins with `key` and a colon, without spaces around it.
pub(crate) fn field<'a>(text: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let value = |line: &'a [u8]| line.strip_prefix(key.as_bytes())?.strip_prefix(b":");
    text.split(|&byte| byte == b'\n').find_map(value).map(<[u8]>::trim_ascii)
}

/// Parses a decimal number.
pub(crate) fn number<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a number of this radix.
pub(crate) fn number_of_radix(text: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

/// Parses an amount of memory, as in `1024 kB`, as bytes.
pub(crate) fn bytes(text: &[u8]) -> Option<u64> {
    number::<u64>(text.strip_suffix(b"kB")?.trim_ascii_end())?.checked_mul(1024)
}

/// Returns the words of a line.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_longer_than_the_buffer_are_read_whole() {
        let table = read("/proc/self/smaps").unwrap();
        assert!(table.len() > BUFFER_BYTES && table.ends_with(b"\n"), "{}", table.len());
    }

    #[test]
    fn fields_are_found_by_their_whole_key() {
        let text = b"Name:\tx\nVmRSS:\t    12 kB\nVm:\t7\n";
        assert_eq!(field(text, "VmRSS").and_then(bytes), Some(12_288));
        assert_eq!(field(text, "Vm").and_then(number::<u32>), Some(7));
        assert_eq!(field(text, "V"), None);
        assert_eq!(words(b" a  b\t").collect::<Vec<_>>(), [b"a", b"b"]);
    }
}
