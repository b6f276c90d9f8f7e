//! The freshness of a cached version, in words for an operator.

use std::fmt;
use std::time::Duration;

use super::{Judgement, Policy};
use crate::text::RoundedDuration;

/// The present freshness of a cached version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The version is served without a request to the origin, for this long.
    Fresh(Duration),
    /// The version is served while it is confirmed, for this long.
    WhileRevalidating(Duration),
    /// The version is confirmed before it is served; if the origin fails, it is served for this long.
    Stale(Duration),
    /// The same at any age: the last stop was unclean, or an error was found in the version.
    Unconfirmed(Duration),
}

impl Freshness {
    /// Returns the freshness of a version confirmed `age` ago. With `must_confirm` it is `Unconfirmed`.
    #[must_use]
    pub fn new(policy: &Policy, age: Duration, must_confirm: bool) -> Self {
        let until = |end: Duration| end.saturating_sub(age);
        let failing = until(policy.lifetime + policy.stale_if_error);
        match policy.judge(age, must_confirm) {
            _ if must_confirm => Self::Unconfirmed(failing),
            Judgement::Fresh => Self::Fresh(until(policy.lifetime)),
            Judgement::WhileRevalidating => {
                Self::WhileRevalidating(until(policy.lifetime + policy.stale_while_revalidate))
            }
            Judgement::Stale => Self::Stale(failing),
        }
    }

    /// The state in one word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fresh(_) => "fresh",
            Self::WhileRevalidating(_) | Self::Stale(_) => "stale",
            Self::Unconfirmed(_) => "unconfirmed",
        }
    }
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failing = |f: &mut fmt::Formatter<'_>, left: Duration| match left {
            Duration::ZERO => f.write_str(", also where the origin fails"),
            left => write!(
                f,
                "; served for another {} if the origin fails",
                RoundedDuration(left)
            ),
        };
        match *self {
            Self::Fresh(left) => write!(f, "fresh for another {}", RoundedDuration(left)),
            Self::WhileRevalidating(left) => {
                let left = RoundedDuration(left);
                write!(f, "stale: served while it is confirmed, for another {left}")
            }
            Self::Stale(left) => {
                f.write_str("stale: confirmed before it is served")?;
                failing(f, left)
            }
            Self::Unconfirmed(left) => {
                f.write_str(
                    "unconfirmed since the start, or doubted: confirmed before it is served",
                )?;
                failing(f, left)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(age: u64, must_confirm: bool, stale_if_error: u64) -> String {
        let secs = Duration::from_secs;
        let policy = Policy {
            storable: true,
            lifetime: secs(60),
            stale_while_revalidate: secs(600),
            stale_if_error: secs(stale_if_error),
        };
        Freshness::new(&policy, secs(age), must_confirm).to_string()
    }

    #[test]
    fn it_says_what_the_next_request_would_meet() {
        let day = 86_400;
        for (age, must_confirm, words) in [
            (17, false, "fresh for another 43s"),
            (
                60,
                false,
                "stale: served while it is confirmed, for another 10m",
            ),
            (
                660,
                false,
                "stale: confirmed before it is served; served for another 23h 50m if the origin fails",
            ),
            (
                day + 60,
                false,
                "stale: confirmed before it is served, also where the origin fails",
            ),
            (
                5,
                true,
                "unconfirmed since the start, or doubted: confirmed before it is served; \
                 served for another 1d if the origin fails",
            ),
        ] {
            assert_eq!(text(age, must_confirm, day), words);
        }
    }
}
