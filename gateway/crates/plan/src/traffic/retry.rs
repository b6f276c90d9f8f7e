//! The number of retries of a failed request and the pauses before them.
//!
//! Pauses grow from one try to the next and are drawn at random, so that readers that failed
//! together do not return together. The draw is an argument.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use crate::Timestamp;

/// A pause that doubles with every failure, up to a ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause, before it is drawn.
    pub base: Duration,
    /// The longest pause.
    pub cap: Duration,
}

impl Backoff {
    /// Returns the pause after `failures` failures (0 for the first pause): between half of the
    /// doubled base and all of it. `draw` is a random number in `0.0..1.0`.
    #[must_use]
    pub fn pause(self, failures: u32, draw: f64) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let whole = self.base.saturating_mul(factor).min(self.cap);
        whole.mul_f64(0.5 + draw.clamp(0.0, 1.0) / 2.0)
    }
}

/// The rules for retries of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The most retries after the first try.
    pub retries: u32,
    /// The pauses between tries.
    pub backoff: Backoff,
    /// The longest pause that an origin may request (`Retry-After`, RFC 9110, 10.2.3). If it
    /// requests more, there is no retry, so that the waiting reader gets the error at once.
    pub max_retry_after: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            retries: 2,
            backoff: Backoff {
                base: Duration::from_millis(100),
                cap: Duration::from_secs(2),
            },
            max_retry_after: Duration::from_secs(5),
        }
    }
}

impl Retry {
    /// Returns the pause before the next try after `done` retries, or `None` to give up. `retry_after` is
    /// the pause that the origin requests. It is kept and lengthened by up to a base pause, so that
    /// clients do not all return at the same moment.
    #[must_use]
    pub fn pause(&self, done: u32, retry_after: Option<Duration>, draw: f64) -> Option<Duration> {
        if done >= self.retries {
            return None;
        }
        match retry_after {
            Some(retry_after) if retry_after > self.max_retry_after => None,
            Some(retry_after) => {
                Some(retry_after + self.backoff.base.mul_f64(draw.clamp(0.0, 1.0)))
            }
            None => Some(self.backoff.pause(done, draw)),
        }
    }
}

/// Returns the pause that an answer requests, in seconds or until a date (RFC 9110, 10.2.3). A date that is past requests
/// none, which is zero.
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(Timestamp::from(date).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn doubles_from_the_base_to_the_cap() {
        let backoff = Backoff {
            base: MS(100),
            cap: MS(500),
        };
        let longest: Vec<_> = (0..4).map(|n| backoff.pause(n, 1.0)).collect();
        assert_eq!(longest, [100, 200, 400, 500].map(MS));
        assert_eq!(backoff.pause(0, 0.0), MS(50));
        assert_eq!(backoff.pause(u32::MAX, 1.0), MS(500));
    }

    #[test]
    fn keeps_to_what_the_origin_asks_for_within_its_patience() {
        let retry = Retry {
            max_retry_after: MS(3000),
            ..Retry::default()
        };
        assert_eq!(retry.pause(0, Some(MS(3000)), 0.0), Some(MS(3000)));
        assert_eq!(retry.pause(0, Some(MS(3001)), 0.0), None);
        assert_eq!(retry.pause(retry.retries, None, 0.0), None);
    }

    #[test]
    fn a_pause_is_requested_in_seconds_or_by_a_date() {
        let date = httpdate::parse_http_date("Thu, 26 Nov 2026 08:00:00 GMT").expect("a date");
        let asked = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().expect("a value"));
            retry_after(&headers, date.into()).map(|pause| pause.as_secs())
        };
        assert_eq!(asked(" 120"), Some(120));
        assert_eq!(asked("Thu, 26 Nov 2026 09:00:00 GMT"), Some(3600));
        assert_eq!(asked("Thu, 26 Nov 2026 07:00:00 GMT"), Some(0));
        for none in ["soon", "-1", ""] {
            assert_eq!(asked(none), None, "{none}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), date.into()), None);
    }

    proptest! {
        #[test]
        fn tries_are_bounded_and_pauses_too(
            retries in 0..20_u32,
            retry_after in prop::option::of(0..10_000_u64),
            draw in 0.0..1.0_f64,
        ) {
            let retry = Retry { retries, ..Retry::default() };
            let pauses: Vec<_> = (0..)
                .map_while(|done| retry.pause(done, retry_after.map(MS), draw))
                .collect();
            prop_assert!(pauses.len() <= retries as usize);
            let longest = retry.backoff.cap.max(retry.max_retry_after + retry.backoff.base);
            prop_assert!(pauses.iter().all(|pause| *pause <= longest));
            if let Some(retry_after) = retry_after {
                prop_assert!(pauses.iter().all(|pause| *pause >= MS(retry_after)));
            }
        }
    }
}
