//! Fields of structures on disk: numbers at fixed offsets, all of them checked against the bytes that exist.

/// A structure on disk that is truncated or contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The bytes of one structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns `length` bytes at `offset`.
    ///
    /// # Errors
    /// [`Malformed`] if the structure ends before.
    pub(crate) fn bytes(self, offset: usize, length: usize) -> Result<&'a [u8], Malformed> {
        let end = offset.checked_add(length).ok_or(Malformed)?;
        self.0.get(offset..end).ok_or(Malformed)
    }

    /// Returns the byte at `offset`.
    ///
    /// # Errors
    /// As [`Fields::bytes`], as for all other numbers.
    pub(crate) fn byte(self, offset: usize) -> Result<u8, Malformed> {
        self.0.get(offset).copied().ok_or(Malformed)
    }

    /// Returns a number of 16 bits in little-endian order.
    pub(crate) fn little16(self, offset: usize) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array(offset)?))
    }

    /// Returns a number of 32 bits in little-endian order.
    pub(crate) fn little32(self, offset: usize) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(offset)?))
    }

    /// Returns a number of 64 bits in little-endian order.
    pub(crate) fn little64(self, offset: usize) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(offset)?))
    }

    /// Returns a number of 16 bits that is recorded in both byte orders, 4 bytes in all. Where they differ, the little-endian
    /// one counts: writers and readers that were never tested on big-endian machines got only that right.
    pub(crate) fn both16(self, offset: usize) -> Result<u16, Malformed> {
        self.bytes(offset, 4)?;
        self.little16(offset)
    }

    /// Returns a number of 32 bits that is recorded in both byte orders, 8 bytes in all, as [`Fields::both16`] does.
    pub(crate) fn both32(self, offset: usize) -> Result<u32, Malformed> {
        self.bytes(offset, 8)?;
        self.little32(offset)
    }

    fn array<const LENGTH: usize>(self, offset: usize) -> Result<[u8; LENGTH], Malformed> {
        self.bytes(offset, LENGTH)?.try_into().map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_byte_orders_the_little_endian_one_counts() {
        let fields = Fields(&[1, 2, 0, 0, 9, 9, 9, 9]);
        assert_eq!(fields.both32(0), Ok(0x201));
        assert_eq!(fields.both16(0), Ok(0x201));
        assert_eq!(fields.little64(0), Ok(0x0909_0909_0000_0201));
    }

    #[test]
    fn what_ends_early_is_malformed() {
        let fields = Fields(&[0; 7]);
        assert_eq!(fields.both32(0), Err(Malformed));
        assert_eq!(fields.both16(4), Err(Malformed));
        assert_eq!(fields.byte(7), Err(Malformed));
        assert_eq!(fields.bytes(usize::MAX, 2), Err(Malformed));
        assert_eq!(fields.bytes(7, 0), Ok(&[][..]));
    }
}
