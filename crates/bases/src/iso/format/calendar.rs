//! The proleptic Gregorian calendar: days since 1970 from a date and back.

/// A date. Months and days count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

/// Days of 400 years: leap years repeat after as many.
const ERA_DAYS: i64 = 146_097;
/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH_DAYS: i64 = 719_468;

impl Date {
    /// Returns whether the month has such a day. Every month counts as one of 31 days: some writers are as careless.
    pub(crate) fn is_valid(self) -> bool {
        (1..=12).contains(&self.month) && (1..=31).contains(&self.day)
    }

    /// Returns the number of days since 1 January 1970. Years begin in March, so that a leap day is the last of its year.
    pub(crate) fn days(self) -> i64 {
        let year = if self.month > 2 { self.year } else { self.year - 1 };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH_DAYS
    }

    /// Returns the date that is so many days after 1 January 1970.
    pub(crate) fn from_days(days: i64) -> Self {
        let days = days + EPOCH_DAYS;
        let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month + 2) / 5 + 1) as u8;
        let month = (if month < 10 { month + 3 } else { month - 9 }) as u8;
        Self { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree() {
        for (year, month, day, days) in
            [(1970, 1, 1, 0), (1969, 12, 31, -1), (2000, 2, 29, 11_016), (2000, 3, 1, 11_017), (1900, 1, 1, -25_567)]
        {
            let date = Date { year, month, day };
            assert_eq!(date.days(), days, "{date:?}");
            assert_eq!(Date::from_days(days), date);
        }
        for days in (-800_000..3_000_000).step_by(97) {
            assert_eq!(Date::from_days(days).days(), days);
        }
    }
}
