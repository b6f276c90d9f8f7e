//! The directives of `Cache-Control`.

use std::time::Duration;

use http::HeaderValue;

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
    /// Reads the values of all `Cache-Control` lines. Unknown directives are skipped and names are
    /// case-insensitive. If a directive is given twice, the stricter one counts. Bytes that are no text spoil their own
    /// directive alone.
    #[must_use]
    pub fn of<'v>(lines: impl Iterator<Item = &'v HeaderValue>) -> Self {
        let mut read = Self::default();
        let (mut shared, mut any) = (None, None);
        let lines = lines.map(|line| String::from_utf8_lossy(line.as_bytes()));
        for line in lines {
            for directive in split_list(&line) {
                let (name, argument) = directive.split_once('=').unwrap_or((directive, ""));
                let name = name.trim();
                // Each hit of an object with the header reads it: no copy in lower case.
                match |own: &str| name.eq_ignore_ascii_case(own) {
                    is if is("no-store") => read.no_store = true,
                    is if is("private") => read.private = true,
                    is if is("no-cache") => read.no_cache = true,
                    is if is("must-revalidate") || is("proxy-revalidate") => {
                        read.must_revalidate = true;
                    }
                    is if is("immutable") => read.immutable = true,
                    is if is("s-maxage") => shared = shorter(shared, argument),
                    is if is("max-age") => any = shorter(any, argument),
                    _ => {}
                }
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

/// Reads a number of seconds, quoted or not. One that is too large to represent is the largest, 2^31 (RFC 9111, 1.2.2);
/// anything else is 0.
#[must_use]
pub fn delta_seconds(argument: &str) -> Duration {
    let text = argument.trim().trim_matches('"');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let secs = match text.parse::<u64>() {
        _ if !is_number => 0,
        Ok(secs) => secs.min(1 << 31),
        Err(_) => 1 << 31,
    };
    Duration::from_secs(secs)
}

fn shorter(seen: Option<Duration>, argument: &str) -> Option<Duration> {
    let read = delta_seconds(argument);
    Some(seen.map_or(read, |seen| seen.min(read)))
}
