//! Numbers of bytes in options: digits, and a unit of 1,024 bytes or a power of that.

/// Units by their powers of 1,024, as they are written.
const UNITS: [&str; 5] = ["", "k", "m", "g", "t"];

/// Parses a number of bytes such as `4g`. The unit may be in upper case.
///
/// # Errors
/// What is expected instead.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let power = UNITS.iter().position(|known| unit.eq_ignore_ascii_case(known));
    let bytes = power.and_then(|power| digits.parse::<u64>().ok()?.checked_mul(1 << (10 * power)));
    bytes.ok_or_else(|| "a number of bytes such as 512m, 4g or 1t".to_owned())
}

/// Formats a number of bytes in the largest unit in which it is a whole number, as [`parse_size`] reads it.
pub fn format_size(bytes: u64) -> String {
    let is_whole = |power: &usize| bytes > 0 && bytes.is_multiple_of(1 << (10 * power));
    let power = (0..UNITS.len()).rev().find(is_whole).unwrap_or(0);
    format!("{}{}", bytes >> (10 * power), UNITS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_back() {
        for (text, bytes) in [("0", 0), ("1023", 1023), ("1k", 1 << 10), ("1536m", 1536 << 20), ("3t", 3 << 40)] {
            assert_eq!((parse_size(text), format_size(bytes).as_str()), (Ok(bytes), text));
        }
        assert_eq!(parse_size("4G"), Ok(4 << 30));
        for wrong in ["", "g", "-1", "1.5g", "4gb", "99999999999t"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
