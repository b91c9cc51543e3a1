//! GUIDs as GPT has them.

use std::fmt;

/// A GUID, in the order of its bytes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guid(pub [u8; 16]);

impl fmt::Display for Guid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.0;
        // The first three parts are stored as little-endian numbers.
        let (first, second, third) =
            (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]), u16::from_le_bytes([g, h]));
        write!(formatter, "{first:08x}-{second:04x}-{third:04x}-")?;
        for (index, byte) in rest.iter().enumerate() {
            let separator = if index == 2 { "-" } else { "" };
            write!(formatter, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_are_written_as_everywhere() {
        let system = [0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b];
        assert_eq!(Guid(system).to_string(), "c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
    }
}
