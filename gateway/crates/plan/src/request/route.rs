//! The choice of a request's route: the longest matching prefix wins, `host` narrows it.

use percent_encoding::percent_decode;

/// The condition of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRule {
    /// The host of the requests (no port, any case); `None` matches any host.
    pub host: Option<String>,
    /// The prefix, percent-decoded: `/`, `/media`, `/media/`. It matches whole segments: `/media` takes `/media` and
    /// `/media/a`, not `/mediathek`.
    pub path: String,
}

/// The table of all routes.
#[derive(Debug, Clone, Default)]
pub struct RouteTable {
    /// The rules and their original indexes. The longest prefix comes first; of equal prefixes those with a host come
    /// first.
    rules: Vec<(usize, RouteRule)>,
    /// By original index: whether the prefix of another rule goes on below the rule's own.
    has_longer: Vec<bool>,
}

impl RouteTable {
    /// Creates a table over `rules`; [`RouteTable::find`] returns their indexes. Of two equal rules the first counts.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = RouteRule>) -> Self {
        let lower = |mut rule: RouteRule| {
            rule.host = rule.host.map(|host| bare_host(&host).to_ascii_lowercase());
            rule
        };
        let mut rules: Vec<_> = rules.into_iter().map(lower).enumerate().collect();
        let goes_on = |own: &str, other: &str| other.len() > own.len() && other.starts_with(own);
        let has_longer = |(_, own): &(usize, RouteRule)| {
            let mut others = rules.iter().map(|(_, other)| trimmed(&other.path));
            others.any(|other| goes_on(trimmed(&own.path), other))
        };
        let has_longer = rules.iter().map(has_longer).collect();
        rules.sort_by_key(|(_, rule)| {
            let length = trimmed(&rule.path).len();
            (std::cmp::Reverse(length), rule.host.is_none())
        });
        Self { rules, has_longer }
    }

    /// Returns whether a path below the rule of this index may belong to a rule with a longer prefix. If not, all paths
    /// with the beginning of one that belongs to the rule, up to the slash below its prefix, belong to it.
    #[must_use]
    pub fn has_longer(&self, index: usize) -> bool {
        self.has_longer.get(index).is_none_or(|longer| *longer)
    }

    /// Returns the index of the route for a request to `host` (as in the `Host` header, with or without a port) and
    /// `path` (as in the request target, still encoded). Also returns the rest of the path below the route, still
    /// encoded and without a leading slash.
    ///
    /// A path with an empty segment (`//`) that would belong to another route without it belongs to none: some stores
    /// leave such segments out (MinIO the first ones, SeaweedFS all), and would give out the other route's objects.
    #[must_use]
    pub fn find<'p>(&self, host: &str, path: &'p str) -> Option<(usize, &'p str)> {
        let found = self.longest(host, path)?;
        match without_empty_segments(path) {
            Some(bare) if self.longest(host, &bare).map(|(index, _)| index) != Some(found.0) => {
                None
            }
            _ => Some(found),
        }
    }

    fn longest<'p>(&self, host: &str, path: &'p str) -> Option<(usize, &'p str)> {
        let is_encoded = path.contains('%');
        let below = |rule: &RouteRule| match is_encoded {
            true => rest_below(&rule.path, path),
            false => rest_below_plain(&rule.path, path),
        };
        let mut rules = self.rules_for(host);
        rules.find_map(|(index, rule)| below(rule).map(|rest| (index, rest)))
    }

    /// Returns the routes for requests to `host` whose paths begin with `path`, character by character, each with the
    /// rest of `path` below it. The rest is empty if `path` ends above the route.
    #[must_use]
    pub fn routes_under<'p>(&self, host: &str, path: &'p str) -> Vec<(usize, &'p str)> {
        let decoded: Vec<u8> = percent_decode(path.as_bytes()).collect();
        let mut found = Vec::new();
        for (index, rule) in self.rules_for(host) {
            let own = trimmed(&rule.path);
            if own.as_bytes().starts_with(&decoded) {
                found.push((&rule.path, (index, "")));
            } else if let Some(rest) = rest_below(&rule.path, path) {
                // All other paths with this beginning go here.
                found.push((&rule.path, (index, rest)));
                break;
            }
        }
        // Of equal rules the first counts.
        let mut seen = Vec::new();
        found.retain(|(own, _)| {
            let is_new = !seen.contains(own);
            seen.push(*own);
            is_new
        });
        found.into_iter().map(|(_, found)| found).collect()
    }

    fn rules_for(&self, host: &str) -> impl Iterator<Item = (usize, &RouteRule)> {
        let here = move |own: &String| own.eq_ignore_ascii_case(bare_host(host));
        let rules = self.rules.iter();
        let rules = rules.filter(move |(_, rule)| rule.host.as_ref().is_none_or(here));
        rules.map(|(index, rule)| (*index, rule))
    }
}

/// Returns a path without its empty segments, if it has one; slashes may be encoded.
fn without_empty_segments(path: &str) -> Option<String> {
    if !has_empty_segment(path) {
        return None;
    }
    let plain = path.replace("%2F", "/").replace("%2f", "/");
    let mut segments = plain.split('/');
    let first = segments.next().unwrap_or_default();
    let last = if plain.ends_with('/') { "/" } else { "" };
    let kept = segments.filter(|segment| !segment.is_empty());
    let kept = kept.map(|segment| format!("/{segment}"));
    Some(format!("{first}{}{last}", kept.collect::<String>()))
}

fn has_empty_segment(path: &str) -> bool {
    let octets = path.as_bytes();
    if !path.contains('%') {
        // Without an early end, so that the processor compares many octets at a time: a signature in a path is long.
        let pairs = octets.iter().zip(octets.get(1..).unwrap_or_default());
        let is_empty = |one: u8, next: u8| (one == b'/') & (next == b'/');
        return pairs.fold(false, |found, (one, next)| found | is_empty(*one, *next));
    }
    let (mut path, mut is_behind_slash) = (octets, false);
    loop {
        let (is_slash, rest) = match path {
            [b'/', rest @ ..] | [b'%', b'2', b'f' | b'F', rest @ ..] => (true, rest),
            [_, rest @ ..] => (false, rest),
            [] => return false,
        };
        if is_slash && is_behind_slash {
            return true;
        }
        (is_behind_slash, path) = (is_slash, rest);
    }
}

fn trimmed(prefix: &str) -> &str {
    prefix.trim_end_matches('/')
}

/// Returns a host without port and without the root's dot (RFC 3986, 3.2.2).
fn bare_host(host: &str) -> &str {
    let end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    let bare = &host[..end];
    bare.strip_suffix('.').unwrap_or(bare)
}

/// Returns the rest of `path` below `prefix`, if no letter of it is encoded.
fn rest_below_plain<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(trimmed(prefix))?;
    let is_whole = rest.is_empty() && !prefix.ends_with('/');
    rest.strip_prefix('/').or_else(|| is_whole.then_some(rest))
}

/// Returns the rest of `path` below `prefix`. Encoded letters match too, so that no spelling of a path evades its
/// route.
fn rest_below<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    let rest = strip_decoded(trimmed(prefix), path)?;
    match strip_slash(rest) {
        Some(inner) => Some(inner),
        None => (rest.is_empty() && !prefix.ends_with('/')).then_some(rest),
    }
}

/// Compares octets and not characters: of a letter beyond ASCII a client may encode each octet, or none.
fn strip_decoded<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    if let Some(rest) = path.strip_prefix(prefix) {
        return Some(rest);
    }
    let mut rest = path.as_bytes();
    for wanted in prefix.bytes() {
        rest = strip_octet(rest, wanted)?;
    }
    // A prefix is whole characters, so what matched it is as well.
    path.get(path.len() - rest.len()..)
}

fn strip_slash(path: &str) -> Option<&str> {
    let rest = strip_octet(path.as_bytes(), b'/')?;
    path.get(path.len() - rest.len()..)
}

/// Returns `path` after its first octet, which must be `wanted`, plain or encoded.
fn strip_octet(path: &[u8], wanted: u8) -> Option<&[u8]> {
    let (first, rest) = match path {
        [b'%', a, b, rest @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
            (percent_decode(&path[..3]).next()?, rest)
        }
        [first, rest @ ..] => (*first, rest),
        [] => return None,
    };
    (first == wanted).then_some(rest)
}

#[cfg(test)]
mod tests;
