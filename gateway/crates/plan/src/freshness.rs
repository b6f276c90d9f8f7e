//! Freshness: the lifetime of a version, and its use after that (RFC 9111, 4.2; RFC 5861; RFC
//! 8246).

use std::time::Duration;

use super::{Profile, Timestamp, Version};

/// The lifetime of an `immutable` object without one of its own: a year, the longest that RFC 2616
/// allowed and that caches still agree on.
const IMMUTABLE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The response directives of `Cache-Control` that concern a shared cache (RFC 9111, 5.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Directives {
    /// The response must not be stored.
    pub no_store: bool,
    /// The response is for one user only, so not for a shared cache.
    pub private: bool,
    /// The response must not be served without confirmation. Set also for `no-cache="field"`, to be
    /// safe.
    pub no_cache: bool,
    /// The response must not be served stale: `must-revalidate`, `proxy-revalidate`, or implied by
    /// `s-maxage` (RFC 9111, 5.2.2.10).
    pub must_revalidate: bool,
    /// The response will not change while fresh (RFC 8246).
    pub immutable: bool,
    /// `s-maxage`, else `max-age`. An unreadable number counts as 0 (RFC 9111, 4.2.1).
    pub max_age: Option<Duration>,
}

impl Directives {
    /// Reads a `Cache-Control` value. Unknown directives are skipped and names are
    /// case-insensitive. If a directive is given twice, the stricter one counts.
    #[must_use]
    pub fn parse(value: &str) -> Self {
        let mut read = Self::default();
        let (mut shared, mut any) = (None, None);
        for directive in split_list(value) {
            let (name, argument) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" => read.no_store = true,
                "private" => read.private = true,
                "no-cache" => read.no_cache = true,
                "must-revalidate" | "proxy-revalidate" => read.must_revalidate = true,
                "immutable" => read.immutable = true,
                "s-maxage" => shared = shorter(shared, argument),
                "max-age" => any = shorter(any, argument),
                _ => {}
            }
        }
        read.must_revalidate |= shared.is_some();
        read.max_age = shared.or(any);
        read
    }
}

/// Splits at commas outside of quoted strings.
fn split_list(value: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    value
        .split(move |c: char| {
            quoted ^= c == '"';
            c == ',' && !quoted
        })
        .map(str::trim)
}

fn shorter(seen: Option<Duration>, argument: &str) -> Option<Duration> {
    let text = argument.trim().trim_matches('"');
    let secs = match text.parse::<u64>() {
        Ok(secs) => secs.min(1 << 31),
        // A number too large to represent is the largest (RFC 9111, 1.2.2); anything else is 0.
        Err(_) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => 1 << 31,
        Err(_) => 0,
    };
    let read = Duration::from_secs(secs);
    Some(seen.map_or(read, |seen| seen.min(read)))
}

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
        let of_profile = Self {
            storable: true,
            lifetime: profile.ttl,
            stale_while_revalidate: profile.stale_while_revalidate,
            stale_if_error: profile.stale_if_error,
        };
        if profile.force_ttl {
            return of_profile;
        }
        let directives = version
            .header(&http::header::CACHE_CONTROL)
            .map(Directives::parse)
            .unwrap_or_default();
        let own = directives.max_age.or_else(|| expires(version, confirmed));
        let lifetime = match own {
            _ if directives.no_cache => Duration::ZERO,
            _ if directives.immutable => own.unwrap_or(IMMUTABLE),
            Some(own) => own.min(profile.ttl),
            None => profile.ttl,
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
mod tests {
    use super::*;
    use crate::ETag;
    use http::{HeaderName, HeaderValue, header};
    use proptest::prelude::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn profile() -> Profile {
        Profile {
            read_ahead: 0,
            streams: 1,
            ttl: secs(60),
            force_ttl: false,
            stale_while_revalidate: secs(600),
            stale_if_error: secs(86_400),
            negative_ttl: secs(5),
            list_pages: 10,
            disk: crate::profile::DiskUse::First,
            bulk: false,
        }
    }

    fn version(headers: &[(HeaderName, &str)]) -> Version {
        Version {
            etag: ETag::parse("\"a\"").expect("a tag"),
            size: 1,
            last_modified: None,
            version_id: None,
            headers: headers
                .iter()
                .map(|(n, v)| (n.clone(), HeaderValue::from_str(v).expect("a value")))
                .collect(),
        }
    }

    fn under(cache_control: &str) -> Policy {
        Policy::new(
            &version(&[(header::CACHE_CONTROL, cache_control)]),
            &profile(),
            Timestamp(0),
        )
    }

    #[test]
    fn the_shorter_of_object_and_profile() {
        for (value, lifetime) in [
            ("", 60),
            ("max-age=10", 10),
            ("max-age=3600", 60),
            ("max-age=10, s-maxage=20", 20),
            ("MAX-AGE=\"7\"", 7),
            ("max-age=oops", 0),
            ("max-age=99999999999999999999", 60),
            ("max-age=5, max-age=9", 5),
            ("no-cache", 0),
            ("no-cache=\"set-cookie, x\", max-age=30", 0),
            ("public, max-age=31536000, immutable", 31_536_000),
            ("immutable", 31_536_000),
        ] {
            assert_eq!(under(value).lifetime, secs(lifetime), "{value}");
        }
    }

    #[test]
    fn what_may_not_be_stored_or_served_stale() {
        for (value, storable, stale) in [
            ("", true, true),
            ("no-store", false, true),
            ("private", false, true),
            ("must-revalidate", true, false),
            ("proxy-revalidate", true, false),
            ("s-maxage=5", true, false),
            ("no-cache", true, false),
            ("max-age=5", true, true),
        ] {
            let policy = under(value);
            assert_eq!(policy.storable, storable, "{value}");
            assert_eq!(policy.serves_on_error(secs(3600)), stale, "{value}");
            assert_eq!(
                policy.judge(secs(61), false) == Judgement::WhileRevalidating,
                stale,
                "{value}"
            );
        }
    }

    #[test]
    fn force_ttl_overrules_and_expires_counts() {
        let forced = Profile {
            force_ttl: true,
            ..profile()
        };
        let v = version(&[(header::CACHE_CONTROL, "no-store, max-age=0")]);
        let policy = Policy::new(&v, &forced, Timestamp(0));
        assert_eq!((policy.storable, policy.lifetime), (true, secs(60)));

        let confirmed = Timestamp::from_secs(784_111_777 - 10);
        let v = version(&[(header::EXPIRES, "Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert_eq!(Policy::new(&v, &profile(), confirmed).lifetime, secs(10));
        let v = version(&[(header::EXPIRES, "0")]);
        assert_eq!(
            Policy::new(&v, &profile(), confirmed).lifetime,
            Duration::ZERO
        );
    }

    #[test]
    fn a_doubted_version_is_confirmed_at_any_age() {
        assert_eq!(
            under("immutable").judge(Duration::ZERO, true),
            Judgement::Stale
        );
    }

    proptest! {
        #[test]
        fn only_ever_gets_staler(age in 0u64..100_000, more in 0u64..100_000, cc in "[a-z0-9=, -]{0,40}") {
            let policy = under(&cc);
            let rank = |j| match j {
                Judgement::Fresh => 0,
                Judgement::WhileRevalidating => 1,
                Judgement::Stale => 2,
            };
            let (young, old) = (secs(age), secs(age + more));
            prop_assert!(rank(policy.judge(young, false)) <= rank(policy.judge(old, false)));
            prop_assert!(policy.serves_on_error(young) || !policy.serves_on_error(old));
            prop_assert!(policy.lifetime <= secs(60) || cc.contains("immutable"));
        }
    }
}
