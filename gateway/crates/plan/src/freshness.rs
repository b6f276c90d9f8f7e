//! Freshness: the lifetime of a version, and its use after that (RFC 9111, 4.2; RFC 5861; RFC
//! 8246).

use std::time::Duration;

use crate::{Profile, Timestamp, Version};

mod directives;
mod events;
mod report;

pub use directives::{Directives, delta_seconds};
pub use events::EventProof;
pub use report::Freshness;

/// The lifetime of an `immutable` object without one of its own: a year, the longest that RFC 2616
/// allowed and that caches still agree on.
const IMMUTABLE_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// The least lifetime of a version that events cover, for profiles without one.
const MIN_COVERED_LIFETIME: Duration = Duration::from_secs(1);

/// The rules for one version under one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Whether the version may be cached at all.
    pub storable: bool,
    /// The time after a confirmation during which the version is fresh.
    pub lifetime: Duration,
    /// The time after `lifetime` during which the version may be served while it is being
    /// confirmed.
    pub stale_while_revalidate: Duration,
    /// The time after `lifetime` during which the version may be served while the origin fails.
    pub stale_if_error: Duration,
}

impl Policy {
    /// Computes the gateway's own freshness: the shorter of the object's and the profile's
    /// lifetimes.
    ///
    /// With `force_ttl` the profile overrules the object entirely. An `immutable` object needs no
    /// confirmation within its own lifetime, however short the profile's `ttl` is. `confirmed` is
    /// the time of the origin's last confirmation of the version; `Expires` is counted from there.
    #[must_use]
    pub fn new(version: &Version, profile: &Profile, confirmed: Timestamp) -> Self {
        Self::with_floor(version, profile, confirmed, Duration::ZERO)
    }

    /// Computes the freshness of a version whose changes are reported by events: the object's own lifetime does not
    /// shorten it, for the version is known to stand. `no-cache` still demands that the bucket confirms each use.
    #[must_use]
    pub fn covered(version: &Version, profile: &Profile, confirmed: Timestamp) -> Self {
        let floor = profile.ttl.max(MIN_COVERED_LIFETIME);
        Self::with_floor(version, profile, confirmed, floor)
    }

    /// Computes the freshness with this least lifetime, which only `no-cache` shortens.
    fn with_floor(
        version: &Version,
        profile: &Profile,
        confirmed: Timestamp,
        floor: Duration,
    ) -> Self {
        let of_profile = Self {
            storable: true,
            lifetime: profile.ttl.max(floor),
            stale_while_revalidate: profile.stale_while_revalidate,
            stale_if_error: profile.stale_if_error,
        };
        if profile.force_ttl {
            return of_profile;
        }
        let directives = Directives::of(version.values(&http::header::CACHE_CONTROL));
        let own = directives.max_age.or_else(|| expires(version, confirmed));
        let lifetime = match own {
            _ if directives.no_cache => Duration::ZERO,
            _ if directives.immutable => own.unwrap_or(IMMUTABLE_LIFETIME).max(floor),
            Some(own) => own.min(profile.ttl).max(floor),
            None => of_profile.lifetime,
        };
        let may_be_stale = !directives.no_cache && !directives.must_revalidate;
        let stale = |allowed: Duration| {
            if may_be_stale {
                allowed
            } else {
                Duration::ZERO
            }
        };
        Self {
            storable: !directives.no_store && !directives.private,
            lifetime,
            stale_while_revalidate: stale(of_profile.stale_while_revalidate),
            stale_if_error: stale(of_profile.stale_if_error),
        }
    }

    /// Returns the permitted use of a version that was confirmed `age` ago.
    ///
    /// With `must_confirm` (after an invalidation or an unclean stop) the version is always stale.
    #[must_use]
    pub fn judge(&self, age: Duration, must_confirm: bool) -> Judgement {
        if must_confirm {
            Judgement::Stale
        } else if age < self.lifetime {
            Judgement::Fresh
        } else if age < self.lifetime + self.stale_while_revalidate {
            Judgement::WhileRevalidating
        } else {
            Judgement::Stale
        }
    }

    /// Returns the age that counts for a version confirmed `age` ago. `softened` is the time since a soft purge of it,
    /// which ended its lifetime then, however long that was.
    #[must_use]
    pub fn counted_age(&self, age: Duration, softened: Option<Duration>) -> Duration {
        match softened {
            None => age,
            Some(softened) => age.max(self.lifetime.saturating_add(softened)),
        }
    }

    /// Returns whether a version confirmed `age` ago may be served because the origin fails.
    #[must_use]
    pub fn serves_on_error(&self, age: Duration) -> bool {
        age < self.lifetime + self.stale_if_error
    }
}

fn expires(version: &Version, confirmed: Timestamp) -> Option<Duration> {
    let value = version.header(&http::header::EXPIRES)?;
    // An unreadable date, "0" above all, means already expired (RFC 9111, 5.3).
    let until = httpdate::parse_http_date(value).map_or(Timestamp(0), Timestamp::from);
    Some(until.since(confirmed))
}

/// The permitted use of a version at its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The version is served without a request to the origin.
    Fresh,
    /// The version is served, and confirmed in the background (RFC 5861, 3).
    WhileRevalidating,
    /// The gateway asks the origin first.
    Stale,
}

#[cfg(test)]
mod tests;
