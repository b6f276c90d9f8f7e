//! The choice of a request's route: the longest matching prefix wins, `host` narrows it.

use percent_encoding::percent_decode_str;

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
        let decoded: Vec<u8> = percent_decode_str(path).collect();
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
    if !has_empty_segment(path.as_bytes()) {
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

fn has_empty_segment(mut path: &[u8]) -> bool {
    let mut is_behind_slash = false;
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

fn strip_decoded<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    if let Some(rest) = path.strip_prefix(prefix) {
        return Some(rest);
    }
    let mut rest = path;
    for wanted in prefix.bytes() {
        rest = strip_octet(rest, wanted)?;
    }
    Some(rest)
}

fn strip_slash(path: &str) -> Option<&str> {
    path.strip_prefix('/').or_else(|| strip_octet(path, b'/'))
}

/// Returns `path` after its first octet, which must be `wanted`, plain or encoded.
fn strip_octet(path: &str, wanted: u8) -> Option<&str> {
    let width = match path.as_bytes() {
        [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => 3,
        [_, ..] => 1,
        [] => return None,
    };
    let first = path.get(..width)?;
    (percent_decode_str(first).next() == Some(wanted)).then(|| &path[width..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(rows: &[(Option<&str>, &str)]) -> RouteTable {
        RouteTable::new(rows.iter().map(|&(host, path)| RouteRule {
            host: host.map(str::to_owned),
            path: path.to_owned(),
        }))
    }

    #[test]
    fn the_longest_prefix_wins_and_host_narrows() {
        let routes = table(&[
            (None, "/"),
            (None, "/media"),
            (None, "/media/raw/"),
            (Some("Books.Example"), "/media"),
            (Some("only.example"), "/x"),
        ]);
        let rows = [
            ("a", "/", Some((0, ""))),
            ("a", "/k", Some((0, "k"))),
            ("a", "//k", Some((0, "/k"))),
            ("a", "/mediathek", Some((0, "mediathek"))),
            ("a", "/media", Some((1, ""))),
            ("a", "/media/", Some((1, ""))),
            ("a", "/media/k%20l", Some((1, "k%20l"))),
            ("a", "/%6dedia%2Fk", Some((1, "k"))),
            ("a", "/media/raw", Some((1, "raw"))),
            ("a", "/media/raw/k", Some((2, "k"))),
            ("a", "/Media/k", Some((0, "Media/k"))),
            ("BOOKS.example:8080", "/media/k", Some((3, "k"))),
            ("books.example.", "/media/raw/k", Some((2, "k"))),
            ("only.example", "/x/y", Some((4, "y"))),
            ("other.example", "/x/y", Some((0, "x/y"))),
        ];
        for (host, path, expected) in rows {
            assert_eq!(routes.find(host, path), expected, "{host}{path}");
        }
        let bare = |path: &str| without_empty_segments(path);
        assert_eq!(bare("/a/b%2Fc/"), None);
        for (path, expected) in [
            ("//", "/"),
            ("//a", "/a"),
            ("/a///b//", "/a/b/"),
            ("/a/%2f%2Fb%2f", "/a/b/"),
            ("/a%2F/%20/b", "/a/%20/b"),
        ] {
            assert_eq!(bare(path).as_deref(), Some(expected), "{path}");
        }
        for path in [
            "//media/k",
            "/%2Fmedia/k",
            "///media/k",
            "/%2f%2fmedia",
            "/%2F%6dedia/k",
            "/media//raw/k",
            "/media/%2Fraw/k",
        ] {
            assert_eq!(routes.find("a", path), None, "{path}");
        }
        assert_eq!(routes.find("a", "/media//k"), Some((1, "/k")));
        assert_eq!(routes.find("a", "/media/raw//k"), Some((2, "/k")));
        assert_eq!(table(&[(None, "/a")]).find("h", "/b"), None);
        assert_eq!(table(&[]).find("h", "/"), None);
        assert_eq!(bare_host("[::1]:80"), "[::1]");
        assert_eq!(
            table(&[(None, "/ü")]).find("h", "/%C3%BC/k"),
            Some((0, "k"))
        );
    }

    #[test]
    fn what_begins_like_a_path_goes_to_these() {
        let routes = table(&[
            (None, "/"),
            (None, "/media"),
            (None, "/media/raw/"),
            (Some("a.example"), "/media"),
            (None, "/ü"),
            (Some("b.example"), "/media/"),
        ]);
        let rows = [
            ("", "/", vec![(2, ""), (1, ""), (4, ""), (0, "")]),
            ("a.example", "/", vec![(2, ""), (3, ""), (4, ""), (0, "")]),
            ("", "/media", vec![(2, ""), (1, ""), (0, "media")]),
            ("", "/media/", vec![(2, ""), (1, "")]),
            ("", "/media/ra", vec![(2, ""), (1, "ra")]),
            ("", "/media/raw/k%20", vec![(2, "k%20")]),
            ("", "/mediathek/x", vec![(0, "mediathek/x")]),
            ("", "/%C3%BC/k", vec![(4, "k")]),
            ("", "/%C3", vec![(4, ""), (0, "%C3")]),
            ("", "/x", vec![(0, "x")]),
            (
                "b.example",
                "/media",
                vec![(2, ""), (5, ""), (1, ""), (0, "media")],
            ),
        ];
        for (host, path, expected) in rows {
            assert_eq!(routes.routes_under(host, path), expected, "{host}{path}");
        }
        assert_eq!(table(&[(None, "/a")]).routes_under("", "/b"), []);
    }

    #[test]
    fn a_longer_prefix_is_known_whatever_its_host() {
        let routes = table(&[
            (None, "/"),
            (None, "/media/"),
            (Some("a.example"), "/media/raw"),
            (None, "/x"),
            (None, "/x/"),
            (Some("b.example"), "/xyz/"),
        ]);
        let found: Vec<_> = (0..7).map(|index| routes.has_longer(index)).collect();
        assert_eq!(found, [true, true, false, true, true, false, true]);
        assert!(!table(&[(None, "/"), (Some("a"), "/")]).has_longer(0));
    }

    proptest! {
        /// Without a longer prefix, the slash below a rule's own decides.
        #[test]
        fn paths_without_a_longer_prefix_stay_on_their_rule(
            rules in prop::collection::vec(("(/[ab]{1,2}){0,3}/?", prop::option::of("[hi]")), 1..6),
            below in "[ab/]{1,6}",
            rest in "[ab/]{0,6}",
            at in 0..6_usize,
        ) {
            let rule = |(path, host): &(String, Option<String>)| RouteRule {
                host: host.clone(),
                path: path.clone(),
            };
            let routes = RouteTable::new(rules.iter().map(rule));
            let (path, _) = &rules[at % rules.len()];
            let path = format!("{}/{below}", trimmed(path));
            if let Some((index, below)) = routes.find("h", &path)
                && !below.is_empty()
                && !routes.has_longer(index)
            {
                let route = path.strip_suffix(below).expect("its end");
                let other = format!("{route}{rest}");
                prop_assert_eq!(routes.find("h", &other), Some((index, &*rest)), "{} {}", path, other);
            }
        }

        /// A plain path is matched like an encoded one.
        #[test]
        fn a_plain_path_is_found_faster_and_alike(
            prefix in "(/[ab]{1,2}){0,3}/?",
            path in "[ab/]{0,8}",
        ) {
            prop_assert_eq!(rest_below_plain(&prefix, &path), rest_below(&prefix, &path));
        }

        /// A store that leaves empty segments out gives no object of another route.
        #[test]
        fn a_path_has_the_route_that_it_has_without_empty_segments(
            prefixes in prop::collection::vec("(/[ab]{1,2}){0,3}/?", 1..6),
            path in "/(/|%2[fF]|a|b|%61){0,8}",
        ) {
            let rule = |path: &String| RouteRule { host: None, path: path.clone() };
            let routes = RouteTable::new(prefixes.iter().map(rule));
            let mut bare = path.replace("%2F", "/").replace("%2f", "/");
            while bare.contains("//") {
                bare = bare.replace("//", "/");
            }
            if let Some((index, _)) = routes.find("h", &path) {
                prop_assert_eq!(routes.find("h", &bare).map(|(index, _)| index), Some(index));
            }
        }

        /// Any path with a given beginning has its route among those of the beginning.
        #[test]
        fn all_that_begins_like_a_path_is_among_these(
            prefixes in prop::collection::vec("(/[ab]{1,2}){0,3}/?", 1..6),
            path in "/[ab/]{0,6}",
            more in "[ab/]{0,6}",
        ) {
            let rule = |path: &String| RouteRule { host: None, path: path.clone() };
            let routes = RouteTable::new(prefixes.iter().map(rule));
            let covers = routes.routes_under("h", &path);
            let whole = format!("{path}{more}");
            if let Some((index, rest)) = routes.find("h", &whole) {
                prop_assert!(
                    covers.iter().any(|(at, prefix)| *at == index && rest.starts_with(prefix)),
                    "{whole} of {index}: {covers:?}"
                );
            }
        }

        /// Compares with a trial of every rule on the decoded path.
        #[test]
        fn agrees_with_trying_all(
            prefixes in prop::collection::vec("(/[ab]{1,2}){0,3}", 1..6),
            path in "(/[abc]{1,2}){1,5}",
            encode in prop::collection::vec(any::<bool>(), 20),
        ) {
            let routes = RouteTable::new(
                prefixes.iter().map(|p| RouteRule { host: None, path: format!("{p}/") }),
            );
            let spelled: String = path.bytes().zip(&encode).map(|(byte, encoded)| {
                if *encoded { format!("%{byte:02x}") } else { char::from(byte).to_string() }
            }).collect();
            prop_assume!(spelled.starts_with('/'));
            let best = prefixes.iter().enumerate()
                .filter(|(_, p)| path.starts_with(&format!("{p}/")))
                .max_by_key(|(i, p)| (p.len(), std::cmp::Reverse(*i)))
                .map(|(i, p)| (i, path[p.len() + 1..].to_owned()));
            let found = routes.find("h", &spelled).map(|(i, rest)| {
                (i, percent_decode_str(rest).decode_utf8_lossy().into_owned())
            });
            prop_assert_eq!(found, best);
        }
    }
}
