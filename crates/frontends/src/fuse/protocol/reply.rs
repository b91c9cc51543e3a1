//! Encoding: results are written directly into the memory from which they are sent.

use super::wire;
use zerocopy::{Immutable, IntoBytes};

/// A reply being built. The header is filled in when it is finished; results are appended after it, and file data is read
/// into place, so nothing is copied and one `write` sends it.
pub(crate) struct Reply<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

const HEADER: usize = Reply::HEADER;

impl<'a> Reply<'a> {
    /// Size of the header, in bytes, in front of the results.
    pub(crate) const HEADER: usize = size_of::<wire::OutHeader>();

    /// Creates an empty reply, to be built in memory that has room for the header and any results.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Reply<'a> {
        Reply { bytes, length: HEADER }
    }

    /// Discards what was encoded.
    pub(crate) fn clear(&mut self) {
        self.length = HEADER;
    }

    /// Returns the results encoded so far.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[HEADER..self.length]
    }

    /// Returns how many more bytes of results fit.
    pub(crate) fn capacity_left(&self) -> usize {
        self.bytes.len() - self.length
    }

    /// Appends a structure. A result is far smaller than the buffer; if it does not fit, it is omitted as a whole and the
    /// result is `false`.
    pub(crate) fn put<T: IntoBytes + Immutable>(&mut self, value: &T) -> bool {
        self.put_bytes(value.as_bytes())
    }

    /// Appends bytes, all or none.
    pub(crate) fn put_bytes(&mut self, value: &[u8]) -> bool {
        match self.bytes.get_mut(self.length..self.length + value.len()) {
            Some(destination) => {
                destination.copy_from_slice(value);
                self.length += value.len();
                true
            }
            None => false,
        }
    }

    /// Returns a buffer for up to `length` bytes after what was encoded, for data to be read into; the part that was used is
    /// then claimed by [`Reply::advance`].
    pub(crate) fn space(&mut self, length: usize) -> &mut [u8] {
        let end = self.bytes.len().min(self.length.saturating_add(length));
        &mut self.bytes[self.length..end]
    }

    /// Claims bytes that were written into [`Reply::space`].
    pub(crate) fn advance(&mut self, length: usize) {
        self.length = self.bytes.len().min(self.length + length);
    }

    /// Completes a successful reply; returns the number of bytes to send.
    pub(crate) fn finish(&mut self, unique: u64) -> usize {
        self.finish_with(unique, 0)
    }

    /// Completes a failed reply, which carries only the error; returns the number of bytes to send.
    pub(crate) fn finish_error(&mut self, unique: u64, errno: i32) -> usize {
        self.clear();
        self.finish_with(unique, -errno)
    }

    fn finish_with(&mut self, unique: u64, error: i32) -> usize {
        let header = wire::OutHeader { length: self.length as u32, error, unique };
        self.bytes[..HEADER].copy_from_slice(header.as_bytes());
        self.length
    }
}

/// Packs directory entries into a reply of the size that the kernel requested.
pub(crate) struct EntryPacker<'a, 'b> {
    reply: &'a mut Reply<'b>,
    end: usize,
}

impl<'a, 'b> EntryPacker<'a, 'b> {
    /// Creates a packer that appends entries to `reply` until `size` bytes are full.
    pub(crate) fn new(reply: &'a mut Reply<'b>, size: u32) -> EntryPacker<'a, 'b> {
        let end = reply.length + reply.capacity_left().min(size as usize);
        EntryPacker { reply, end }
    }

    /// Returns the number of bytes left.
    pub(crate) fn bytes_left(&self) -> usize {
        self.end - self.reply.length
    }

    /// Returns the size in bytes of an entry with a name of this length.
    pub(crate) fn length(name_length: usize, plus: bool) -> usize {
        let looked_up = if plus { size_of::<wire::EntryOut>() } else { 0 };
        looked_up + wire::record_align(size_of::<wire::DirectoryEntry>() + name_length)
    }

    fn fits(&self, name_length: usize, plus: bool) -> bool {
        EntryPacker::length(name_length, plus) <= self.bytes_left()
    }

    /// Appends an entry of READDIR; returns `false` if it does not fit.
    pub(crate) fn push(&mut self, entry: wire::DirectoryEntry, name: &[u8]) -> bool {
        self.fits(name.len(), false) && self.append(entry, name)
    }

    /// Appends an entry of READDIRPLUS; returns `false` if it does not fit. A `looked_up` with node 0 makes the kernel use
    /// only the name.
    pub(crate) fn push_plus(&mut self, looked_up: &wire::EntryOut, entry: wire::DirectoryEntry, name: &[u8]) -> bool {
        self.fits(name.len(), true) && self.reply.put(looked_up) && self.append(entry, name)
    }

    fn append(&mut self, entry: wire::DirectoryEntry, name: &[u8]) -> bool {
        let entry = wire::DirectoryEntry { name_length: name.len() as u32, ..entry };
        let length = size_of::<wire::DirectoryEntry>() + name.len();
        let padding = &[0; 8][..wire::record_align(length) - length];
        self.reply.put(&entry) && self.reply.put_bytes(name) && self.reply.put_bytes(padding)
    }
}

/// Returns whether the kernel accepts a reply with this error: it accepts none with a kernel-internal number, such as
/// ERESTARTSYS, and the caller would wait forever.
pub(crate) fn is_valid_reply_error(errno: i32) -> bool {
    /// The first of the kernel-internal error numbers (include/linux/errno.h).
    const FIRST_INTERNAL_ERRNO: i32 = 512;
    (1..FIRST_INTERNAL_ERRNO).contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_its_header_and_its_results() {
        let mut bytes = [0; 80];
        let mut reply = Reply::new(&mut bytes);
        assert!(reply.put(&wire::WriteOut { size: 5, padding: 0 }));
        let length = reply.finish(9);
        let bytes = &bytes[..length];
        assert_eq!(bytes.len(), 24);
        assert_eq!(bytes[..4], 24u32.to_le_bytes());
        assert_eq!(bytes[4..8], [0; 4]);
        assert_eq!(bytes[8..16], 9u64.to_le_bytes());
        assert_eq!(bytes[16..20], 5u32.to_le_bytes());
    }

    #[test]
    fn an_error_drops_what_was_encoded() {
        let mut bytes = [0; 80];
        let mut reply = Reply::new(&mut bytes);
        reply.put_bytes(b"half a result");
        assert_eq!(reply.finish_error(1, 5), 16);
        assert_eq!(bytes[4..8], (-5i32).to_le_bytes());
    }

    #[test]
    fn a_buffer_never_overflows() {
        let mut bytes = [0; HEADER + 10];
        let mut reply = Reply::new(&mut bytes);
        assert!(reply.put_bytes(b"12345678"));
        assert!(!reply.put_bytes(b"abc"));
        assert_eq!(reply.space(100).len(), 2);
        reply.advance(100);
        assert_eq!(reply.payload().len(), 10);
        assert_eq!(reply.capacity_left(), 0);
    }

    #[test]
    fn entries_are_aligned_and_fit_the_requested_size() {
        let mut bytes = [0; HEADER + 4096];
        let mut reply = Reply::new(&mut bytes);
        let mut packer = EntryPacker::new(&mut reply, 80);
        let entry = wire::DirectoryEntry { inode: 1, cookie: 2, name_length: 0, kind: 4 };
        assert!(packer.push(entry, b"a")); // 24 + 1, aligned to 32
        assert!(packer.push(entry, b"12345678")); // 32
        assert!(!packer.push(entry, b"x"));
        assert_eq!(reply.payload().len(), 64);

        reply.clear();
        let mut packer = EntryPacker::new(&mut reply, 200);
        assert!(packer.push_plus(&wire::EntryOut::default(), entry, b"a"));
        assert!(!packer.push_plus(&wire::EntryOut::default(), entry, b"a"));
        assert_eq!(reply.payload().len(), 160);
    }
}
