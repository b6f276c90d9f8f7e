//! The times of orders: of renewals, and after failures.

use std::time::{Duration, SystemTime};

use tidegate_plan::retry::Backoff;
use tidegate_tls::IssuedCertificate;

/// The times between attempts that fail. Let's Encrypt allows five failed validations of a name in an hour; at most four
/// attempts fall into the first one.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(10 * 60),
    cap: Duration::from_secs(12 * 3600),
};

/// The least time that a directory is left alone which says that there were too many orders.
const LIMITED_DELAY: Duration = Duration::from_secs(3600);

/// The longest time that a directory can ask to be left alone.
const MAX_ASKED_DELAY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Returns when a certificate is renewed: at two thirds of its lifetime. `None`: it has no lifetime.
pub(crate) fn renewal(issued: &IssuedCertificate) -> Option<SystemTime> {
    let (begin, _) = span(issued)?;
    Some(begin + longest_wait(issued)?)
}

/// Returns the longest time from now to the renewal of a certificate that has begun, whatever the clock says.
pub(crate) fn longest_wait(issued: &IssuedCertificate) -> Option<Duration> {
    let (_, lifetime) = span(issued)?;
    Some(lifetime * 2 / 3)
}

/// Returns when a certificate that was issued at `now` is renewed: no earlier than after a tenth of its lifetime, however
/// wrong the clock is.
pub(crate) fn next_renewal(issued: &IssuedCertificate, now: SystemTime) -> Option<SystemTime> {
    let (_, lifetime) = span(issued)?;
    Some(renewal(issued)?.max(now + lifetime / 10))
}

/// Returns when a certificate begins, and for how long it holds.
fn span(issued: &IssuedCertificate) -> Option<(SystemTime, Duration)> {
    let begin = u64::try_from(issued.begin).ok()?;
    let lifetime = u64::try_from(issued.end.checked_sub(issued.begin)?).ok()?;
    let begin = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(begin))?;
    let lifetime = Duration::from_secs(lifetime);
    begin.checked_add(lifetime)?;
    (!lifetime.is_zero()).then_some((begin, lifetime))
}

/// Returns the time from the last of so many failures to the next attempt. `draw`, from 0 to 1, spreads gateways that
/// failed together.
pub(crate) fn retry_delay(failures: u32, draw: f64) -> Duration {
    BACKOFF.pause(failures.saturating_sub(1), draw)
}

/// Returns the same for a directory that has asked for a time, or has only said that there were too many orders.
pub(crate) fn polite_delay(own: Duration, is_limited: bool, asked: Option<Duration>) -> Duration {
    let least = match (asked, is_limited) {
        (Some(asked), _) => asked.min(MAX_ASKED_DELAY),
        (None, true) => LIMITED_DELAY,
        (None, false) => Duration::ZERO,
    };
    own.max(least)
}

/// Returns how long an attempt is waited for that a process before has noted for `next`. A time that no failure can ask for
/// is that of a clock which was ahead: then it is `own`, the time after so many failures.
pub(crate) fn noted_delay(next: SystemTime, now: SystemTime, own: Duration) -> Duration {
    let left = next.duration_since(now).unwrap_or_default();
    if left > MAX_ASKED_DELAY { own } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn issued(begin: i64, end: i64) -> IssuedCertificate {
        IssuedCertificate {
            names: vec![],
            begin,
            end,
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_lifetime() {
        let ninety = issued(1000, 1000 + 90 * DAY.cast_signed());
        assert_eq!(renewal(&ninety), Some(at(1000 + 60 * DAY)));
        assert_eq!(next_renewal(&ninety, at(1000)), Some(at(1000 + 60 * DAY)));
        // A clock that is ahead does not order again and again.
        let ahead = at(1000 + 200 * DAY);
        assert_eq!(next_renewal(&ninety, ahead), Some(at(1000 + 209 * DAY)));
    }

    #[test]
    fn a_certificate_without_a_lifetime_has_no_renewal() {
        for (begin, end) in [(5, 5), (6, 5), (-1, 5), (i64::MIN, i64::MAX), (0, i64::MIN)] {
            assert_eq!(renewal(&issued(begin, end)), None, "{begin} {end}");
        }
        assert!(renewal(&issued(0, i64::MAX)).is_none_or(|at| at > SystemTime::UNIX_EPOCH));
    }

    #[test]
    fn failures_double_the_delay_up_to_half_a_day() {
        let minutes = |failures, draw| retry_delay(failures, draw).as_secs() / 60;
        let longest: Vec<_> = (1..=8).map(|failures| minutes(failures, 1.0)).collect();
        assert_eq!(longest, [10, 20, 40, 80, 160, 320, 640, 720]);
        assert_eq!(minutes(u32::MAX, 1.0), 720);
        assert_eq!((minutes(1, 0.0), minutes(u32::MAX, 0.0)), (5, 360));
        // In the first hour after the first failure, at most three more.
        let earliest: Duration = (1..=4).map(|failures| retry_delay(failures, 0.0)).sum();
        assert!(earliest > Duration::from_secs(3600));
    }

    #[test]
    fn a_directory_is_left_alone_for_as_long_as_it_asks() {
        let minutes = |own: u64, limited, asked: Option<u64>| {
            let asked = asked.map(|minutes| Duration::from_secs(minutes * 60));
            polite_delay(Duration::from_secs(own * 60), limited, asked).as_secs() / 60
        };
        assert_eq!(minutes(5, false, None), 5);
        assert_eq!(minutes(5, true, None), 60);
        assert_eq!(minutes(80, true, None), 80);
        assert_eq!(minutes(5, true, Some(30)), 30);
        assert_eq!(minutes(5, false, Some(1)), 5);
        assert_eq!(minutes(5, false, Some(1 << 40)), 7 * 24 * 60);
    }

    #[test]
    fn a_noted_time_counts_if_a_failure_can_have_asked_for_it() {
        let now = at(100 * DAY);
        let left = |next| noted_delay(next, now, Duration::from_secs(5)).as_secs();
        assert_eq!((left(at(0)), left(now)), (0, 0));
        assert_eq!(left(at(101 * DAY)), DAY);
        assert_eq!(left(at(107 * DAY)), 7 * DAY);
        assert_eq!(left(at(107 * DAY + 1)), 5);
    }
}
