//! Conversion of the fields of a command's data from and to text.

use fist::code::Integer;

use super::declaration::IoctlField;

/// Writes the value of a field, or returns a description of what is expected.
pub(crate) fn write(field: &IoctlField, value: &str, data: &mut [u8]) -> Result<(), String> {
    let Some(length) = field.length else {
        let target = &mut data[field.offset..field.offset + field.bytes];
        target.copy_from_slice(&number(field, value)?[..field.bytes]);
        return Ok(());
    };
    if field.bytes == 1 {
        let bytes = match value.strip_prefix('@') {
            Some(file) => {
                std::fs::read(file).map_err(|error| format!("a file that can be read, and {file}: {error}"))?
            }
            None => value.as_bytes().to_vec(),
        };
        if bytes.len() > length {
            return Err(format!("at most {length} bytes, or @FILE of at most that size"));
        }
        data[field.offset..field.offset + bytes.len()].copy_from_slice(&bytes);
        return Ok(());
    }
    let numbers: Vec<_> = value.split(':').collect();
    if numbers.len() > length {
        return Err(format!("at most {length} numbers with colons between them"));
    }
    for (index, value) in numbers.iter().enumerate() {
        let start = field.offset + index * field.bytes;
        data[start..start + field.bytes].copy_from_slice(&number(field, value)?[..field.bytes]);
    }
    Ok(())
}

/// Returns the bytes of a number that fits the field.
fn number(field: &IoctlField, text: &str) -> Result<[u8; 8], String> {
    let integer = Integer { bytes: field.bytes as u8, is_unsigned: field.unsigned };
    integer.read(text).map(i64::to_le_bytes)
}

/// Returns the value of a field as text; an array of bytes is read up to its first zero byte.
pub(crate) fn read(field: &IoctlField, data: &[u8]) -> String {
    let integer = |index: usize| {
        let start = field.offset + index * field.bytes;
        let bytes = &data[start..start + field.bytes];
        let is_negative = !field.unsigned && bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut extended = [if is_negative { 0xff } else { 0 }; 16];
        extended[..bytes.len()].copy_from_slice(bytes);
        i128::from_le_bytes(extended).to_string()
    };
    match field.length {
        None => integer(0),
        Some(length) if field.bytes == 1 => {
            let bytes = &data[field.offset..field.offset + length];
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
            bytes[..end].escape_ascii().to_string()
        }
        Some(length) => (0..length).map(integer).collect::<Vec<_>>().join(":"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(bytes: usize, unsigned: bool, length: Option<usize>) -> IoctlField {
        IoctlField { name: "field".to_owned(), offset: 2, bytes, unsigned, length }
    }

    #[test]
    fn values_round_trip() {
        for (field, value) in [
            (field(4, false, None), "-5"),
            (field(8, true, None), "18446744073709551615"),
            (field(1, false, Some(8)), "text"),
            (field(2, false, Some(3)), "1:-2:3"),
        ] {
            let mut data = [0; 16];
            write(&field, value, &mut data).unwrap();
            assert_eq!((read(&field, &data).as_str(), data[0]), (value, 0));
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let mut data = [0; 16];
        assert_eq!(write(&field(1, true, None), "256", &mut data).unwrap_err(), "a number from 0 to 255");
        assert!(write(&field(1, true, Some(2)), "abc", &mut data).is_err());
        assert!(write(&field(4, true, Some(1)), "1:2", &mut data).is_err());
        assert!(write(&field(1, true, Some(2)), "@/nowhere", &mut data).is_err());
    }
}
