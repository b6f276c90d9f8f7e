//! Hotlink rules, as nginx's `valid_referers` (`ngx_http_referer_module`): the pages that may embed objects.
//!
//! A browser that sends `Sec-Fetch-Site` (Fetch Metadata Request Headers, 2.3) decides for its own site: `same-origin`
//! and `same-site` hold without a `Referer`. A request that it calls `cross-site` needs a listed one: a page that hides
//! itself is not the same as a client without a page. No rule here stops a client that lies about its headers.

use http::HeaderMap;
use http::HeaderName;
use http::header::REFERER;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The error of a text that is no rule of [`Referers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "is no host such as example.org, *.example.org, .example.org or example.*, with or without a path such as /galleries/, nor `none`, `blocked` or `server_names`"
)]
pub struct WrongReferer;

/// The referers that hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Referers {
    none: bool,
    blocked: bool,
    server_names: bool,
    sites: Vec<Site>,
}

/// The pages of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Site {
    name: Name,
    /// The beginning of their path and query; empty: all pages.
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// `example.org`
    Exact(String),
    /// `*.example.org`, kept as `.example.org`: a host that ends so.
    Below(String),
    /// `.example.org`: the host itself, and those below it.
    With(String),
    /// `example.*`, kept as `example.`: a host that begins so.
    Begins(String),
}

impl Referers {
    /// Reads the rules: `none` (no `Referer`), `blocked` (a `Referer` that a proxy has emptied of its URL), `server_names`
    /// (the hosts of [`Referers::with_server_names`]), or hosts, with `*` as the first or last label, and with or without the
    /// beginning of a path.
    ///
    /// # Errors
    /// The index of the first rule that is none.
    pub fn new<'t>(
        rules: impl IntoIterator<Item = &'t str>,
    ) -> Result<Self, (usize, WrongReferer)> {
        let mut referers = Self::default();
        for (index, rule) in rules.into_iter().enumerate() {
            match rule {
                "none" => referers.none = true,
                "blocked" => referers.blocked = true,
                "server_names" => referers.server_names = true,
                rule => referers
                    .sites
                    .push(site(rule).ok_or((index, WrongReferer))?),
            }
        }
        Ok(referers)
    }

    /// Lets `server_names`, if it is among the rules, stand for these hosts.
    #[must_use]
    pub fn with_server_names<'t>(mut self, hosts: impl IntoIterator<Item = &'t str>) -> Self {
        if self.server_names {
            let site = |host: &str| Site {
                name: Name::Exact(host.to_ascii_lowercase()),
                path: String::new(),
            };
            self.sites.extend(hosts.into_iter().map(site));
        }
        self
    }

    /// Returns whether the headers of a request hold.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> bool {
        let site = headers.get(FETCH_SITE).map(|value| value.as_bytes());
        if matches!(site, Some(b"same-origin" | b"same-site")) {
            return true;
        }
        let mut lines = headers.get_all(REFERER).iter();
        let Some(referer) = lines.next() else {
            return self.none && site != Some(b"cross-site");
        };
        if lines.next().is_some() {
            return false;
        }
        match referer.to_str().ok().map(page_of) {
            Some(Some((host, path))) => self
                .sites
                .iter()
                .any(|site| site.name.is(host) && path.starts_with(&site.path)),
            _ => self.blocked,
        }
    }
}

/// Reads the pattern of a host, and the beginning of a path behind it.
fn site(rule: &str) -> Option<Site> {
    let (host, path) = rule.split_at(rule.find('/').unwrap_or(rule.len()));
    // No `Referer` has a fragment, and no other character than these.
    let fits = path.bytes().all(|byte| byte.is_ascii_graphic()) && !path.contains('#');
    let path = path.to_owned();
    name(host).filter(|_| fits).map(|name| Site { name, path })
}

/// Reads the pattern of a host.
fn name(rule: &str) -> Option<Name> {
    let rule = rule.to_ascii_lowercase();
    let is_host = |text: &str| {
        let label = |label: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            !label.is_empty() && label.chars().all(fits)
        };
        text.split('.').all(label)
    };
    let (host, name) = if let Some(rest) = rule.strip_prefix("*.") {
        (rest, Name::Below(format!(".{rest}")))
    } else if let Some(rest) = rule.strip_prefix('.') {
        (rest, Name::With(format!(".{rest}")))
    } else if let Some(rest) = rule.strip_suffix(".*") {
        (rest, Name::Begins(format!("{rest}.")))
    } else {
        (rule.as_str(), Name::Exact(rule.clone()))
    };
    is_host(host).then_some(name)
}

impl Name {
    fn is(&self, host: &str) -> bool {
        let ends = |end: &str| {
            let at = host.len().checked_sub(end.len());
            at.is_some_and(|at| {
                at > 0 && host.as_bytes()[at..].eq_ignore_ascii_case(end.as_bytes())
            })
        };
        match self {
            Self::Exact(own) => host.eq_ignore_ascii_case(own),
            Self::Below(end) => ends(end),
            Self::With(end) => ends(end) || host.eq_ignore_ascii_case(&end[1..]),
            Self::Begins(begin) => {
                let first = host.as_bytes().get(..begin.len());
                host.len() > begin.len()
                    && first.is_some_and(|first| first.eq_ignore_ascii_case(begin.as_bytes()))
            }
        }
    }
}

/// Returns the host of an `http` or `https` URL, without user, port and the root's dot, and its path and query. `None`: it is
/// no such URL.
fn page_of(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.find(']') {
        // An address of IPv6, and perhaps its port.
        Some(end)
            if host.starts_with('[')
                && matches!(host.as_bytes().get(end + 1), None | Some(b':')) =>
        {
            &host[..=end]
        }
        Some(_) => return None,
        None => host.split(':').next().unwrap_or_default(),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then_some((host, path))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn admits(rules: &[&str], headers: &[(&str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            map.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let referers = Referers::new(rules.iter().copied()).expect("rules");
        referers.admit(&map)
    }

    #[test]
    fn hosts_are_as_in_nginx() {
        let rows = [
            ("example.org", "https://example.org/a", true),
            ("example.org", "http://EXAMPLE.org:8080?x", true),
            ("EXAMPLE.org", "https://example.org", true),
            ("example.org", "https://example.org./", true),
            ("example.org", "https://www.example.org/", false),
            ("example.org", "https://example.org.evil.example/", false),
            ("example.org", "https://evil.example/example.org", false),
            ("example.org", "https://example.org@evil.example/", false),
            ("example.org", "https://evil.example\\@example.org/", false),
            ("*.example.org", "https://[::1].example.org/", false),
            ("*.example.org", "https://x]:80.example.org/", false),
            ("*.example.org", "https://[::1]:80.example.org/", false),
            ("*.example.org", "https://www.example.org/", true),
            ("*.example.org", "https://a.b.example.org/", true),
            ("*.example.org", "https://example.org/", false),
            ("*.example.org", "https://evilexample.org/", false),
            (".example.org", "https://example.org/", true),
            (".example.org", "https://www.example.org/", true),
            (".example.org", "https://evilexample.org/", false),
            ("example.*", "https://example.org/", true),
            ("example.*", "https://example.co.uk/", true),
            ("example.*", "https://example/", false),
            ("example.*", "https://examples.org/", false),
            ("example.org", "ftp://example.org/", false),
            ("example.org", "https://", false),
            ("example.org", "https://[::1]:80/", false),
            ("example.org", "", false),
            ("example.org/", "https://example.org/", true),
            ("example.org/", "https://example.org", false),
            ("example.org/g/", "https://example.org/g/1?x", true),
            ("EXAMPLE.org/g/", "http://example.org:8080/g/", true),
            ("example.org/g/", "https://example.org/G/1", false),
            ("example.org/g/", "https://example.org/gold", false),
            ("example.org/g", "https://example.org/gold", true),
            ("example.org/g/", "https://example.org/h/g/", false),
            ("example.org/g/", "https://example.org/?/g/", false),
            ("example.org/g/", "https://www.example.org/g/", false),
            ("*.example.org/g/", "https://www.example.org/g/1", true),
            ("example.org/p?id=", "https://example.org/p?id=7", true),
        ];
        for (rule, referer, expected) in rows {
            assert_eq!(
                admits(&[rule], &[("referer", referer)]),
                expected,
                "{rule} {referer}"
            );
        }
    }

    #[test]
    fn none_and_blocked_say_what_counts_without_a_host() {
        let site = |value| ("sec-fetch-site", value);
        let page = ("referer", "https://example.org/");
        let rows = [
            (&["none"][..], vec![], true),
            (&["blocked"], vec![], false),
            (&["blocked"], vec![("referer", "XXXX")], true),
            (&["blocked"], vec![("referer", "")], true),
            (&["none"], vec![("referer", "XXXX")], false),
            (&["none", "blocked"], vec![page], false),
            (&["example.org"], vec![], false),
            (&["example.org"], vec![page], true),
            (&["example.org"], vec![page, page], false),
            (&["none"], vec![site("none")], true),
            (&["none"], vec![site("cross-site")], false),
            (
                &["none", "example.org"],
                vec![site("cross-site"), page],
                true,
            ),
            (&["example.org"], vec![site("same-origin")], true),
            (&["example.org"], vec![site("same-site")], true),
            (&["example.org"], vec![site("same-site, x")], false),
            (&[], vec![page], false),
        ];
        for (rules, headers, expected) in rows {
            assert_eq!(admits(rules, &headers), expected, "{rules:?} {headers:?}");
        }
    }

    #[test]
    fn server_names_are_the_hosts_that_are_given() {
        let hosts = ["example.org", "Example.COM"];
        for (rules, referer, expected) in [
            (&["server_names"][..], "https://example.org/a", true),
            (&["server_names"], "https://EXAMPLE.com:8080/", true),
            (&["server_names"], "https://www.example.org/", false),
            (&["server_names"], "https://server_names/", false),
            (&["none"], "https://example.org/", false),
        ] {
            let referers = Referers::new(rules.iter().copied()).expect("rules");
            let referers = referers.with_server_names(hosts);
            let value = HeaderValue::from_static(referer);
            let headers = HeaderMap::from_iter([(REFERER, value)]);
            assert_eq!(referers.admit(&headers), expected, "{rules:?} {referer}");
        }
        let without = Referers::new(["server_names"]).expect("rules");
        let value = HeaderValue::from_static("https://example.org/");
        assert!(!without.admit(&HeaderMap::from_iter([(REFERER, value)])));
    }

    #[test]
    fn a_rule_that_is_none_is_named() {
        for bad in [
            "",
            "*",
            ".",
            "*.",
            "a..b",
            "a.*.b",
            "*.a.*",
            "https://a",
            "/b",
            "a/b c",
            "a/ü",
            "a/b#c",
            "~a",
            "a:80",
        ] {
            assert_eq!(
                Referers::new(["none", bad]),
                Err((1, WrongReferer)),
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_referer_is_judged(referer in "[ -~]{0,60}") {
            let _ = admits(&["example.org", ".a", "*.b", "c.*", "d/e", "none"], &[("referer", &referer)]);
        }
    }
}
