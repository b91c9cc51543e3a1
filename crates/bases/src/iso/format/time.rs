//! Time stamps of ISO 9660: 7 bytes in directory records, 17 in volume descriptors, either in Rock Ridge.

use vnode::Timestamp;

use super::calendar::Date;
use super::fields::Fields;

/// Length of a time stamp in directory records.
pub(crate) const SHORT_LENGTH: usize = 7;
/// Length of a time stamp in volume descriptors.
pub(crate) const LONG_LENGTH: usize = 17;

/// Largest offset from Greenwich Mean Time that is valid, in units of 15 minutes: 13 hours, in either direction 12.
const OFFSETS: std::ops::RangeInclusive<i8> = -48..=52;
const OFFSET_UNIT_SECONDS: i64 = 15 * 60;

/// Returns a time stamp of 7 bytes: years since 1900, month, day, hour, minute, second, offset from Greenwich. `None` if it is
/// not specified or not valid. An offset that is out of range counts as none.
pub(crate) fn short(bytes: &[u8]) -> Option<Timestamp> {
    let &[year, month, day, hour, minute, second, offset] = bytes.get(..SHORT_LENGTH)?.first_chunk()?;
    let date = Date { year: 1900 + i64::from(year), month, day };
    Some(Timestamp { seconds: seconds(date, [hour, minute, second], offset as i8)?, nanoseconds: 0 })
}

/// Returns a time stamp of 17 bytes: 16 digits down to hundredths of a second, then the offset from Greenwich; `None` as for
/// [`short`].
pub(crate) fn long(bytes: &[u8]) -> Option<Timestamp> {
    let fields = Fields(bytes);
    let offset = fields.byte(16).ok()? as i8;
    let number = |at, length| digits(fields.bytes(at, length).ok()?);
    let part = |at| number(at, 2).and_then(|number| u8::try_from(number).ok());
    let date = Date { year: i64::from(number(0, 4)?), month: part(4)?, day: part(6)? };
    // Some writers end the digits with a NUL or a space.
    let hundredths = number(14, 2).unwrap_or(0);
    let seconds = seconds(date, [part(8)?, part(10)?, part(12)?], offset)?;
    Some(Timestamp { seconds, nanoseconds: hundredths * 10_000_000 })
}

fn seconds(date: Date, [hour, minute, second]: [u8; 3], offset: i8) -> Option<i64> {
    // A leap second is the first second of the next minute.
    if !date.is_valid() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let offset = if OFFSETS.contains(&offset) { i64::from(offset) } else { 0 };
    let time = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some(date.days() * 86_400 + time - offset * OFFSET_UNIT_SECONDS)
}

fn digits(bytes: &[u8]) -> Option<u32> {
    bytes.iter().try_fold(0u32, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        Some(number * 10 + u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_have_zones_in_quarters_of_an_hour() {
        let at = |bytes: [u8; 7]| short(&bytes).map(|time| time.seconds);
        assert_eq!(at([70, 1, 1, 0, 0, 0, 0]), Some(0));
        assert_eq!(at([70, 1, 1, 1, 0, 0, 4]), Some(0));
        assert_eq!(at([69, 12, 31, 12, 0, 0, -48i8 as u8]), Some(0));
        assert_eq!(at([0, 1, 1, 0, 0, 0, 0]), Some(-2_208_988_800));
        assert_eq!(at([255, 12, 31, 23, 59, 59, 0]), Some(5_869_583_999));
        assert_eq!(at([70, 1, 1, 0, 0, 0, 100]), Some(0), "an offset of 25 hours is none");
    }

    #[test]
    fn times_that_are_not_specified_or_valid_are_none() {
        assert_eq!(short(&[0; 7]), None);
        assert_eq!(short(&[70, 13, 1, 0, 0, 0, 0]), None);
        assert_eq!(short(&[70, 1, 1, 24, 0, 0, 0]), None);
        assert_eq!(short(&[70, 1, 1, 0, 0, 0]), None);
        assert_eq!(long(b"0000000000000000\0"), None);
        assert_eq!(long(b"                \0"), None);
        assert_eq!(long(b"1970010100000000"), None);
    }

    #[test]
    fn long_times_have_hundredths_of_a_second() {
        let time = long(b"2000030100000199\xf0").unwrap();
        assert_eq!(time, Timestamp { seconds: 11_017 * 86_400 + 1 + 4 * 3600, nanoseconds: 990_000_000 });
        assert_eq!(long(b"19700101000000\0\0\0").unwrap().seconds, 0);
    }
}
