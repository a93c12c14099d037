//! Dates for templates: a point in time, printed with `strftime` conversions.
//!
//! Not here: time zones; the caller passes the time of the zone that it wants.

use core::fmt::Write as _;

/// A point in time, in the zone in which it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970-01-01 00:00 in that zone, leap seconds not counted.
    pub seconds: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The calendar fields of a moment.
struct Fields {
    year: i64,
    /// 1 to 12.
    month: u8,
    /// 1 to 31.
    day: u8,
    /// 0 is Sunday.
    weekday: u8,
    /// 1 to 366.
    yearday: u16,
    hour: u8,
    minute: u8,
    second: u8,
}

impl Moment {
    /// The present, in universal time.
    #[must_use]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self { seconds: since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)) }
    }

    fn fields(self) -> Fields {
        let seconds = self.seconds.clamp(-62_135_596_800, 253_402_300_799);
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let small = |value: i64| u8::try_from(value).unwrap_or(0);
        let mut year = 1970 + days.div_euclid(366);
        while first_day(year + 1) <= days {
            year += 1;
        }
        while first_day(year) > days {
            year -= 1;
        }
        let yearday = days - first_day(year);
        let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (mut month, mut day) = (0, yearday);
        for length in lengths {
            if day < length {
                break;
            }
            day -= length;
            month += 1;
        }
        Fields {
            year,
            month: small(month + 1),
            day: small(day + 1),
            weekday: small((days + 4).rem_euclid(7)),
            yearday: u16::try_from(yearday + 1).unwrap_or(0),
            hour: small(rest / 3600),
            minute: small(rest / 60 % 60),
            second: small(rest % 60),
        }
    }

    /// Prints the moment with the conversions of C's `strftime`; an unknown one is copied.
    #[must_use]
    pub fn strftime(self, format: &str) -> String {
        let fields = self.fields();
        let mut out = String::new();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            // glibc's flag for numbers without padding
            let bare = rest.starts_with('-');
            let conversion = rest.chars().nth(usize::from(bare));
            let Some(conversion) = conversion else {
                out.push('%');
                break;
            };
            rest = &rest[usize::from(bare) + conversion.len_utf8()..];
            if !fields.print(conversion, bare, &mut out) {
                out.push('%');
                out.push_str(if bare { "-" } else { "" });
                out.push(conversion);
            }
        }
        out + rest
    }
}

impl Fields {
    /// Prints one conversion; returns false if it is unknown.
    fn print(&self, conversion: char, bare: bool, out: &mut String) -> bool {
        let month = MONTHS[usize::from(self.month - 1)];
        let day = DAYS[usize::from(self.weekday)];
        let half = (self.hour + 11) % 12 + 1;
        let mut number = |value: i64, width: usize| {
            let width = if bare { 0 } else { width };
            // writing to a String can't fail
            let _ = write!(out, "{value:0width$}");
        };
        match conversion {
            'Y' => number(self.year, 4),
            'y' => number(self.year % 100, 2),
            'm' => number(self.month.into(), 2),
            'd' => number(self.day.into(), 2),
            'j' => number(self.yearday.into(), 3),
            'H' => number(self.hour.into(), 2),
            'I' => number(half.into(), 2),
            'M' => number(self.minute.into(), 2),
            'S' => number(self.second.into(), 2),
            'w' => number(self.weekday.into(), 1),
            'f' => number(0, 6),
            'e' => {
                let _ = write!(out, "{:>2}", self.day);
            }
            'B' => out.push_str(month),
            'b' | 'h' => out.push_str(&month[..3]),
            'A' => out.push_str(day),
            'a' => out.push_str(&day[..3]),
            'p' => out.push_str(if self.hour < 12 { "AM" } else { "PM" }),
            'F' => {
                let _ = write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day);
            }
            'T' => {
                let _ = write!(out, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second);
            }
            'Z' => out.push_str("UTC"),
            'z' => out.push_str("+0000"),
            '%' => out.push('%'),
            _ => return false,
        }
        true
    }
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970-01-01 to the first day of `year`.
const fn first_day(year: i64) -> i64 {
    let before = year - 1;
    before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) - 719_162
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values printed by Python's `datetime`.
    #[test]
    fn strftime_equals_python() {
        let check = |seconds, format, expected| assert_eq!(Moment { seconds }.strftime(format), expected);
        check(1_709_210_096, "%d %b %Y", "29 Feb 2024");
        check(
            1_709_210_096,
            "%A, %B %d, %Y %H:%M:%S %j %p %I",
            "Thursday, February 29, 2024 12:34:56 060 PM 12",
        );
        check(0, "%Y-%m-%d %a %y %I%p 100%% %-d", "1970-01-01 Thu 70 12AM 100% 1");
        check(-1, "%F %T", "1969-12-31 23:59:59");
        check(4_102_444_799, "%Y-%m-%d %e %w", "2099-12-31 31 4");
        check(253_402_300_799, "%Y %q %", "9999 %q %");
    }
}
