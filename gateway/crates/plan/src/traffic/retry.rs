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
mod tests;
