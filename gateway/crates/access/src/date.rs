//! Dates in UTC, as seconds since 1970.

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime};

/// The seconds at the end of the year 9999.
const END: u64 = 253_402_300_800;

type Format = &'static [BorrowedFormatItem<'static>];

const DAY_FORMAT: Format = format_description!("[year]-[month]-[day]");
const TIME_FORMAT: Format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
const BASIC_FORMAT: Format = format_description!("[year][month][day]T[hour][minute][second]Z");

/// Reads `2027-01-31` (its first second) or `2027-01-31T23:59:59Z` (RFC 3339, UTC only). `None`: it is neither, or
/// before 1970.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let day = || Date::parse(text, DAY_FORMAT).map(Date::midnight);
    seconds(
        text,
        PrimitiveDateTime::parse(text, TIME_FORMAT)
            .or_else(|_| day())
            .ok()?,
    )
}

/// Reads `20270131T235959Z`, the basic format of ISO 8601 that AWS signatures use.
#[must_use]
pub fn parse_basic(text: &str) -> Option<u64> {
    seconds(text, PrimitiveDateTime::parse(text, BASIC_FORMAT).ok()?)
}

/// Writes the format of [`parse_basic`]. Times after the year 9999 are written as its last second.
#[must_use]
pub fn format_basic(seconds: u64) -> String {
    let seconds = i64::try_from(seconds.min(END - 1)).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds);
    let text = time.ok().and_then(|time| time.format(BASIC_FORMAT).ok());
    text.expect("a year of four digits can be written")
}

/// Returns the seconds of a time that was read from this text. A year has no sign here.
fn seconds(text: &str, time: PrimitiveDateTime) -> Option<u64> {
    let begins = text.starts_with(|first: char| first.is_ascii_digit());
    let seconds = u64::try_from(time.assume_utc().unix_timestamp()).ok();
    seconds.filter(|_| begins)
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
            ("+2027-01-01", None),
            ("2027-01-31T23:59:60Z", None),
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
            "+20130524T000000Z",
            "20130524T000000Z ",
            "20130524T000060Z",
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
