//! Numbers as times: valid ones from 2099 on, which other systems keep when they rename a file.

use crate::fat::format::DosDateTime;

/// Years since 1980 of the first year that stands for a number.
const YEAR_MIN: u64 = 119;
/// Number of years that a date can have.
const YEARS: u64 = 128;

/// Number of values of each field of a time, from the one that changes first.
const HUNDREDTHS: u64 = 200;
const HALF_SECONDS: u64 = 30;
const MINUTES: u64 = 60;
const HOURS: u64 = 24;
/// All months have these days.
const DAYS: u64 = 28;
const MONTHS: u64 = 12;

/// Number of numbers that a time can stand for.
pub(crate) const NUMBERS: u64 = HUNDREDTHS * HALF_SECONDS * MINUTES * HOURS * DAYS * MONTHS * (YEARS - YEAR_MIN);

/// Returns the time that stands for a number below [`NUMBERS`].
pub(crate) fn time_of_number(number: u64) -> DosDateTime {
    let mut rest = number % NUMBERS;
    let mut take = |count: u64| {
        let digit = rest % count;
        rest /= count;
        digit
    };
    let hundredths = take(HUNDREDTHS);
    let (half_seconds, minute, hour) = (take(HALF_SECONDS), take(MINUTES), take(HOURS));
    let (day, month) = (take(DAYS) + 1, take(MONTHS) + 1);
    DosDateTime {
        date: ((YEAR_MIN + rest) << 9 | month << 5 | day) as u16,
        time: (hour << 11 | minute << 5 | half_seconds) as u16,
        hundredths: hundredths as u8,
    }
}

/// Returns the number that a time stands for; `None` for a real time.
pub(crate) fn number_of_time(time: DosDateTime) -> Option<u64> {
    time.decode(0)?;
    let (year, month, day) = (u64::from(time.date >> 9), u64::from(time.date >> 5 & 0xF), u64::from(time.date & 0x1F));
    let (hour, minute, half_seconds) =
        (u64::from(time.time >> 11), u64::from(time.time >> 5 & 0x3F), u64::from(time.time & 0x1F));
    let year = year.checked_sub(YEAR_MIN)?;
    let day = day.checked_sub(1).filter(|&day| day < DAYS)?;
    let digits = [
        (month.checked_sub(1)?, MONTHS),
        (day, DAYS),
        (hour, HOURS),
        (minute, MINUTES),
        (half_seconds, HALF_SECONDS),
        (u64::from(time.hundredths), HUNDREDTHS),
    ];
    Some(digits.iter().fold(year, |number, (digit, count)| number * count + digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_as_valid_times() {
        for number in [0, 1, 199, 200, 436_208_641, u64::from(u32::MAX), NUMBERS - 1] {
            let time = time_of_number(number);
            assert!(time.decode(0).is_some(), "{time:?}");
            assert_eq!(number_of_time(time), Some(number));
        }
    }

    #[test]
    fn real_times_are_no_numbers() {
        let real = DosDateTime { date: 118 << 9 | 12 << 5 | 31, time: 0, hundredths: 0 };
        let invalid = DosDateTime { date: 119 << 9 | 13 << 5 | 1, ..real };
        let late = DosDateTime { date: 119 << 9 | 1 << 5 | 29, ..real };
        assert_eq!([real, invalid, late, DosDateTime::default()].map(number_of_time), [None; 4]);
    }
}
