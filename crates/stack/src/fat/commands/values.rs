//! Values of arguments: sizes, code pages, time zones, numbers in hexadecimal.

use bases::fat::Options;
use bases::fat::format::CodePage;
use clap::Args;
use vnode::Timestamp;

/// How names and times on the disk are read and written.
#[derive(Args, Debug)]
pub(crate) struct NameArguments {
    /// Code page of short names and labels, such as 437, 850 or 932
    #[arg(long, value_name = "NUMBER", default_value = "437", value_parser = code_page)]
    pub(crate) codepage: CodePage,
}

/// The time zone of times on the disk.
#[derive(Args, Debug)]
pub(crate) struct TimeArguments {
    /// Time zone of times on the disk: UTC, or the offset from it, such as +1:30 or -8
    #[arg(long, value_name = "ZONE", default_value = "UTC", allow_hyphen_values = true, value_parser = zone)]
    tz: i32,
}

impl TimeArguments {
    /// Returns the minutes by which local time is ahead of UTC.
    pub(crate) fn offset_minutes(&self) -> i32 {
        self.tz
    }
}

/// Returns the time that is written to the disk: the environment variable `SOURCE_DATE_EPOCH`, for images that are made again with the
/// same contents, or else the present.
pub(crate) fn current_time() -> Timestamp {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    fixed.map_or_else(Timestamp::now, |seconds| Timestamp { seconds, nanoseconds: 0 })
}

fn code_page(text: &str) -> Result<CodePage, &'static str> {
    let page = text.parse().ok().and_then(CodePage::by_number);
    page.ok_or("give the number of a known code page, such as 437, 850 or 932")
}

fn zone(text: &str) -> Result<i32, &'static str> {
    let options = (!text.contains(',')).then(|| Options::parse(&format!("tz={text}")).ok()).flatten();
    options.map(|options| options.time_offset_minutes).ok_or("give UTC, or an offset from it such as +1:30 or -8")
}

/// Returns a size in bytes, which may end with k, m, g or t for powers of 1,024.
pub(crate) fn size(text: &str) -> Result<u64, &'static str> {
    let lower = text.to_ascii_lowercase();
    let suffix = ["k", "m", "g", "t"].into_iter().zip(1..).find(|(suffix, _)| lower.ends_with(suffix));
    let (digits, power) = match suffix {
        Some((suffix, power)) => (lower.trim_end_matches(suffix), power),
        None => (lower.as_str(), 0),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| digits.parse::<u64>().ok()).flatten();
    // A longer suffix such as `kk` is none.
    let number = number.filter(|_| digits.len() + usize::from(power > 0) == lower.len());
    number
        .and_then(|number| number.checked_mul(1 << (10 * power)))
        .ok_or("give bytes, or a size such as 1440k, 64m or 2g")
}

/// Returns a byte, in decimal or in hexadecimal after `0x`.
pub(crate) fn byte(text: &str) -> Result<u8, &'static str> {
    let value = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u8::from_str_radix(digits.trim_start_matches('+'), 16),
        None => text.parse(),
    };
    value.map_err(|_| "give a number from 0 to 255, or 0x00 to 0xff")
}

/// Returns a serial number, with or without a hyphen in the middle.
pub(crate) fn serial(text: &str) -> Result<u32, &'static str> {
    let digits = match text.split_once('-') {
        Some((upper, lower)) if upper.len() == 4 && lower.len() == 4 => format!("{upper}{lower}"),
        _ => text.to_owned(),
    };
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_number.then(|| u32::from_str_radix(&digits, 16).ok()).flatten();
    number.ok_or("give up to 8 hexadecimal digits, such as 1234-ABCD")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        let sizes = ["512", "1440k", "1K", "3m", "2G", "1t"].map(size);
        assert_eq!(sizes, [512, 1440 << 10, 1 << 10, 3 << 20, 2 << 30, 1 << 40].map(Ok));
        for text in ["", "k", "-1", "+1", "1kk", "1b", "1.5m", "99999999999g", "1 k"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_of_the_format_are_hexadecimal() {
        assert_eq!(["1234-ABCD", "1234abcd", "7"].map(serial), [0x1234_ABCD, 0x1234_ABCD, 7].map(Ok));
        assert!(["", "-", "123456789", "12-34", "+1", "xyz"].iter().all(|text| serial(text).is_err()));
        assert_eq!(["0xF8", "248", "0"].map(byte), [Ok(0xF8), Ok(248), Ok(0)]);
        assert!(["0x100", "256", "", "0x", "-1"].iter().all(|text| byte(text).is_err()));
    }

    #[test]
    fn code_pages_and_zones_are_those_of_a_mount() {
        assert_eq!(code_page("850").unwrap().number(), 850);
        assert!(code_page("1").is_err() && code_page("x").is_err());
        assert_eq!(["UTC", "+1:30", "-8"].map(zone), [Ok(0), Ok(90), Ok(-480)]);
        assert!(["", "25", "1,ro"].iter().all(|text| zone(text).is_err()));
    }
}
