//! Dates of the Gregorian calendar in UTC, as seconds since 1970.
//!
//! The conversion is that of H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".

const DAY: u64 = 86_400;

/// The seconds at the end of the year 9999.
const END: u64 = 253_402_300_800;

/// Reads `2027-01-31` (its first second) or `2027-01-31T23:59:59Z` (RFC 3339, UTC only). `None`: it is neither, or
/// before 1970.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let shape = |text: &str, at: [usize; 2], mark: u8| {
        text.is_ascii() && at.iter().all(|at| text.as_bytes().get(*at) == Some(&mark))
    };
    if !shape(day, [4, 7], b'-') || !shape(time, [2, 5], b':') {
        return None;
    }
    read(
        [&day[..4], &day[5..7], &day[8..]],
        [&time[..2], &time[3..5], &time[6..]],
    )
}

/// Reads `20270131T235959Z`, the basic format of ISO 8601 that AWS signatures use.
#[must_use]
pub fn parse_basic(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    read(
        [&text[..4], &text[4..6], &text[6..8]],
        [&text[9..11], &text[11..13], &text[13..15]],
    )
}

/// Writes the format of [`parse_basic`]. Times after the year 9999 are written as its last second.
#[must_use]
pub fn format_basic(seconds: u64) -> String {
    let seconds = seconds.min(END - 1);
    let (year, month, day) = civil(seconds / DAY);
    let rest = seconds % DAY;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

fn read(day: [&str; 3], time: [&str; 3]) -> Option<u64> {
    let number = |text: &str, digits: usize| {
        let fits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| text.parse::<u64>().ok()).flatten()
    };
    let date = (number(day[0], 4)?, number(day[1], 2)?, number(day[2], 2)?);
    let [hour, minute, second] = time.map(|text| number(text, 2));
    let (hour, minute, second) = (hour?, minute?, second?);
    let days = days(date)?;
    if civil(days) != date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days * DAY + hour * 3600 + minute * 60 + second)
}

/// Returns the days since 1970-01-01. `None` before that, or for a month that does not exist.
fn days((year, month, day): (u64, u64, u64)) -> Option<u64> {
    if !(1..=12).contains(&month) {
        return None;
    }
    let year = if month <= 2 {
        year.checked_sub(1)?
    } else {
        year
    };
    let era = year / 400;
    let of_era = year % 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    (era * 146_097 + of_era).checked_sub(719_468)
}

/// Returns year, month and day of a number of days since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = (shifted + 2) % 12 + 1;
    let year = year + days / 146_097 * 400 + u64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_are_read_to_the_second() {
        for (text, seconds) in [
            ("1970-01-01", Some(0)),
            ("2000-02-29", Some(951_782_400)),
            ("2027-01-31T23:59:59Z", Some(1_801_439_999)),
            ("9999-12-31T23:59:59Z", Some(END - 1)),
            ("1969-12-31", None),
            ("0000-01-01", None),
            ("2027-02-29", None),
            ("2100-02-29", None),
            ("2027-13-01", None),
            ("2027-00-01", None),
            ("2027-01-00", None),
            ("2027-1-1", None),
            ("2027-01-01T24:00:00Z", None),
            ("2027-01-01T00:00:00", None),
            ("2027-01-01T00:00:00+01:00", None),
            ("2027-01-01 00:00:00Z", None),
            ("+027-01-01", None),
            ("2027-01-0ü", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(parse(text), seconds, "{text}");
        }
        assert_eq!(parse_basic("20130524T000000Z"), Some(1_369_353_600));
        for bad in [
            "20130524T000000",
            "20130524t000000Z",
            "2013052ü000000Z",
            "20130532T000000Z",
        ] {
            assert_eq!(parse_basic(bad), None, "{bad}");
        }
        assert_eq!(format_basic(u64::MAX), "99991231T235959Z");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(seconds in 0..END) {
            prop_assert_eq!(parse_basic(&format_basic(seconds)), Some(seconds));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,24}") {
            let _ = (parse(&text), parse_basic(&text));
        }
    }
}
