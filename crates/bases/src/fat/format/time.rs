//! Dates and times of directory entries: local time since 1980, in steps of 2 seconds or 10 milliseconds.

use vnode::Timestamp;

const SECONDS_PER_DAY: i64 = 86_400;
/// Days from 1970-01-01 to 1980-01-01.
const EPOCH_DAYS: i64 = 3652;
const YEARS: i64 = 128;
const MONTH_DAYS: [u8; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A date and time as a directory entry stores it. An entry has no time for the last access, and hundredths only for the
/// creation; what it has no field for is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DosDateTime {
    /// Years since 1980 in 7 bits, month in 4, day in 5. A date of 0 is none.
    pub date: u16,
    /// Hours in 5 bits, minutes in 6, half seconds in 5.
    pub time: u16,
    /// Hundredths of a second beyond the even second, up to 199.
    pub hundredths: u8,
}

/// The times that can be stored: local time from 1980-01-01 00:00:00 to 2107-12-31 23:59:59.99.
pub struct DosTimeRange;

impl DosTimeRange {
    /// Seconds from 1970 to the first one that can be stored, as local time.
    pub const FIRST: i64 = EPOCH_DAYS * SECONDS_PER_DAY;
    /// Seconds from 1970 to the last one that can be stored, as local time.
    pub const LAST: i64 = (EPOCH_DAYS + days_before_year(YEARS)) * SECONDS_PER_DAY - 1;
}

impl DosDateTime {
    /// Returns the point in time, if this is a valid date and time. Local time is `offset_minutes` ahead of UTC.
    pub fn decode(self, offset_minutes: i32) -> Option<Timestamp> {
        let (year, month, day) = (i64::from(self.date >> 9), self.date >> 5 & 0xF, self.date & 0x1F);
        let (hour, minute, second) = (self.time >> 11, self.time >> 5 & 0x3F, (self.time & 0x1F) * 2);
        let days_in_month = u16::from(days_in_month(year, usize::from(month).checked_sub(1)?)?);
        let is_valid = (1..=days_in_month).contains(&day) && hour < 24 && minute < 60 && second < 60;
        if !is_valid || self.hundredths >= 200 {
            return None;
        }
        let before: i64 = (0..usize::from(month) - 1).filter_map(|month| days_in_month_i64(year, month)).sum();
        let days = EPOCH_DAYS + days_before_year(year) + before + i64::from(day) - 1;
        let seconds = days * SECONDS_PER_DAY + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        let hundredths = u32::from(self.hundredths);
        Some(Timestamp {
            seconds: seconds + i64::from(hundredths / 100) - i64::from(offset_minutes) * 60,
            nanoseconds: hundredths % 100 * 10_000_000,
        })
    }

    /// Returns a point in time as it is stored, rounded down; the first or last time if it cannot be.
    pub fn encode(timestamp: Timestamp, offset_minutes: i32) -> Self {
        let local = timestamp.seconds.saturating_add(i64::from(offset_minutes) * 60);
        let seconds = local.clamp(DosTimeRange::FIRST, DosTimeRange::LAST);
        let nanoseconds = match seconds {
            seconds if seconds == local => timestamp.nanoseconds,
            DosTimeRange::FIRST => 0,
            _ => 999_999_999,
        };
        let (days, second_of_day) = (seconds / SECONDS_PER_DAY - EPOCH_DAYS, seconds % SECONDS_PER_DAY);
        let (year, month, day) = date_of(days);
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        Self {
            date: (year << 9 | month << 5 | day) as u16,
            time: (hour << 11 | minute << 5 | (second / 2)) as u16,
            hundredths: (second % 2 * 100) as u8 + (nanoseconds / 10_000_000).min(99) as u8,
        }
    }
}

/// Returns the days from 1980-01-01 to the first day of a year counted from 1980. 2100 is the only multiple of four that
/// is no leap year.
const fn days_before_year(year: i64) -> i64 {
    year * 365 + (year + 3) / 4 - if year > 120 { 1 } else { 0 }
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && year != 120
}

/// Returns the days of a month counted from 0.
fn days_in_month(year: i64, month: usize) -> Option<u8> {
    let days = *MONTH_DAYS.get(month)?;
    Some(if month == 1 && is_leap(year) { days + 1 } else { days })
}

fn days_in_month_i64(year: i64, month: usize) -> Option<i64> {
    days_in_month(year, month).map(i64::from)
}

/// Returns the year from 1980, the month from 1 and the day from 1 of a day counted from 1980-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let year = (0..YEARS).rev().find(|&year| days_before_year(year) <= days).unwrap_or(0);
    let mut day = days - days_before_year(year);
    let mut month = 0;
    while let Some(length) = days_in_month_i64(year, month) {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month as i64 + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }

    #[test]
    fn every_day_survives_encoding() {
        for day in 0..days_before_year(YEARS) {
            let time = at((EPOCH_DAYS + day) * SECONDS_PER_DAY + day % SECONDS_PER_DAY, 990_000_000);
            assert_eq!(DosDateTime::encode(time, 0).decode(0), Some(time), "day {day}");
        }
    }

    #[test]
    fn known_dates_are_stored_as_known() {
        // 2026-11-29 02:33:49.57 UTC, and 1:30 hours later by the clock.
        let time = at(1_795_919_629, 570_000_000);
        let date = 46 << 9 | 11 << 5 | 29;
        let stored = DosDateTime { date, time: 2 << 11 | 33 << 5 | 24, hundredths: 157 };
        assert_eq!(DosDateTime::encode(time, 0), stored);
        let stored = DosDateTime { time: 4 << 11 | 3 << 5 | 24, ..stored };
        assert_eq!(DosDateTime::encode(time, 90), stored);
        assert_eq!(stored.decode(90), Some(time));
    }

    #[test]
    fn leap_years_have_a_leap_day_except_2100() {
        let february_29 = |year: u16| DosDateTime { date: (year - 1980) << 9 | 2 << 5 | 29, ..Default::default() };
        assert!(february_29(2000).decode(0).is_some());
        assert!(february_29(2096).decode(0).is_some());
        assert_eq!(february_29(2100).decode(0), None);
        assert_eq!(february_29(2001).decode(0), None);
    }

    #[test]
    fn times_outside_of_the_range_are_the_nearest_inside() {
        let first = DosDateTime::encode(at(0, 5), 0);
        assert_eq!(first, DosDateTime { date: 1 << 5 | 1, time: 0, hundredths: 0 });
        let last = DosDateTime::encode(at(i64::MAX, 0), 0);
        assert_eq!(last.decode(0), Some(at(DosTimeRange::LAST, 990_000_000)));
        assert_eq!(DosDateTime::encode(at(i64::MIN, 0), -90), first);
    }

    #[test]
    fn invalid_fields_are_no_time() {
        let date = 46 << 9 | 11 << 5 | 29;
        let invalid = [
            DosDateTime::default(),
            DosDateTime { date: 13 << 5 | 1, ..Default::default() },
            DosDateTime { date: 11 << 5 | 31, ..Default::default() },
            DosDateTime { date: 11 << 5, ..Default::default() },
            DosDateTime { date, time: 24 << 11, hundredths: 0 },
            DosDateTime { date, time: 60 << 5, hundredths: 0 },
            DosDateTime { date, time: 30, hundredths: 0 },
            DosDateTime { date, time: 0, hundredths: 200 },
        ];
        assert!(invalid.iter().all(|time| time.decode(0).is_none()));
    }
}
