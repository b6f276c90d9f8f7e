//! Routes: their names, duplicates among them, and their additions to answers.

use percent_encoding::percent_decode_str;

use http::{HeaderName, HeaderValue, Uri};

use super::super::problem::{KeyPath, suggestion};
use super::super::{Config, Cors, ListenAddress, Origin, Route};
use super::{Check, profiles};
use tidegate_plan::ObjectKey;
use tidegate_plan::key::{encode_path, has_dot_segment};
use tidegate_plan::route::{RouteRule, RouteTable};

/// Headers that describe an answer; one that is added by a route would make it wrong.
const ANSWER_HEADERS: [&str; 17] = [
    "accept-ranges",
    "age",
    "cache-control",
    "cache-status",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "server-timing",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
];

impl Check<'_, '_> {
    pub(super) fn routes(&mut self, config: &Config) {
        if config.route.is_empty() && config.origin.len() > 1 {
            let message = "is missing: with several origins, say which URLs are whose";
            self.error(&KeyPath::default().key("route"), message);
        }
        for (index, route) in config.route.iter().enumerate() {
            let path = KeyPath::nth("route", index);
            self.names(config, &path, route);
            self.alike(config, &path, index);
            self.target(&path, route);
            self.answer(&path, route);
            self.writing(&path, route);
            self.unsigned(config, &path, route);
            self.in_the_clear(&path, route, &config.http.listen.0);
        }
        self.past_accesses(config);
    }

    fn names(&mut self, config: &Config, path: &KeyPath, route: &Route) {
        let origins = || config.origin.iter().map(|origin| origin.name.as_str());
        let known = origins().any(|name| name == route.origin);
        if !known && self.document.has(&path.key("origin")) && !route.origin.is_empty() {
            let hint = suggestion(&route.origin, origins());
            let message = format!("there is no origin `{}`{hint}", route.origin);
            self.error(&path.key("origin"), message);
        }
        if !profiles::names(config).any(|name| name == route.profile) {
            let hint = suggestion(&route.profile, profiles::names(config));
            let message = format!("there is no profile `{}`{hint}", route.profile);
            self.error(&path.key("profile"), message);
        }
    }

    /// Reports routes that match the same. Hosts are compared without regard to case (RFC 9110, 4.2.3).
    fn alike(&mut self, config: &Config, path: &KeyPath, index: usize) {
        let of = |route: &Route| {
            let host = route.host.as_ref().map(|host| host.to_ascii_lowercase());
            (host, route.path.trim_end_matches('/').to_owned())
        };
        let route = &config.route[index];
        let first = config.route[..index]
            .iter()
            .position(|one| of(one) == of(route));
        let Some(first) = first else { return };
        let host = route
            .host
            .as_ref()
            .map_or(String::new(), |host| format!(" for host `{host}`"));
        let message = format!("the same path{host} as `route[{first}]`: `{}`", route.path);
        self.error(&path.key("path"), message);
    }

    fn target(&mut self, path: &KeyPath, route: &Route) {
        let text = &route.path;
        let plain = |c: char| !c.is_control() && !"?#\\".contains(c);
        if !text.starts_with('/') {
            self.error(
                &path.key("path"),
                format!("`{text}` does not begin with `/`"),
            );
        } else if !text.chars().all(plain) || has_dot_segment(text) {
            self.error(
                &path.key("path"),
                format!("`{}` is no path", text.escape_debug()),
            );
        } else if text.contains("//") {
            let message = format!("`{}` has an empty segment", text.escape_debug());
            self.error(&path.key("path"), message);
        } else if percent_decode_str(text).count() != text.len() {
            let message = format!("`{text}` is percent-encoded; write it decoded");
            self.error(&path.key("path"), message);
        }
        if let Some(host) = &route.host {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-._[]".contains(c);
            let ipv6 = host.starts_with('[');
            if host.is_empty() || !host.chars().all(|c| fits(c) || (ipv6 && c == ':')) {
                let message = format!(
                    "`{}` is no host name; leave out scheme and port",
                    host.escape_debug()
                );
                self.error(&path.key("host"), message);
            }
        }
        let prefix = &route.key_prefix;
        if !prefix.is_empty() && !prefix.ends_with('/') {
            let message = format!(
                "`{0}` does not end in `/`: `{1}` is the key `{0}x`, and whatever begins with `{0}` can be read",
                prefix.escape_debug(),
                format_args!("{}/x", route.path.trim_end_matches('/'))
            );
            self.warn(&path.key("key_prefix"), message);
        }
        let keys = [
            ("key_prefix", Some(&route.key_prefix)),
            ("index", route.index.as_ref()),
        ];
        for (key, text) in keys {
            let Some(text) = text.filter(|text| key == "index" || !text.is_empty()) else {
                continue;
            };
            // A key may begin with the prefix and go on, so the prefix alone need not be one.
            let whole = if key == "index" {
                text.clone()
            } else {
                format!("{text}x")
            };
            if let Err(why) = ObjectKey::new(&whole) {
                self.error(&path.key(key), why.to_string());
            }
        }
    }

    /// Warns of tokens that cross a network in the clear: an eavesdropper could write from then on.
    fn in_the_clear(&mut self, path: &KeyPath, route: &Route, listen: &[ListenAddress]) {
        let exposed = listen.iter().find(|one| one.is_in_the_clear());
        if let Some(address) = exposed.filter(|_| route.writable) {
            let message = format!(
                "the token crosses the network unencrypted: `http.listen` names {address}; \
                 say `tls = true` there, or listen on loopback behind a proxy with TLS"
            );
            self.warn(&path.key("writable"), message);
        }
    }

    /// Checks that a writable route has a token; a token alone makes no route writable.
    fn writing(&mut self, path: &KeyPath, route: &Route) {
        if route.writable && route.write_token.is_none() {
            let message = "needs a `write_token`: without one every client could write";
            self.error(&path.key("writable"), message);
        }
        if !route.writable && route.write_token.is_some() {
            let message = "does nothing while `writable` is false";
            self.warn(&path.key("write_token"), message);
        }
        self.token(&path.key("write_token"), route.write_token.as_ref());
    }

    /// Warns of unsigned writes: a bucket that takes them takes them from every client, past each token.
    fn unsigned(&mut self, config: &Config, path: &KeyPath, route: &Route) {
        let of_route = |one: &&Origin| one.name == route.origin;
        let origin = config.origin.iter().find(of_route);
        if route.writable && origin.is_some_and(|origin| origin.anonymous) {
            let message = "its origin is anonymous: the bucket refuses what is not signed, or takes it from all";
            self.warn(&path.key("writable"), message);
        }
    }

    /// Warns of open routes by which the objects of closed ones can be read.
    fn past_accesses(&mut self, config: &Config) {
        let rule = |route: &Route| RouteRule {
            host: route.host.clone(),
            path: route.path.clone(),
        };
        let table = RouteTable::new(config.route.iter().map(rule));
        let all = || config.route.iter().enumerate();
        for (index, open) in all().filter(|(_, one)| one.access.is_none()) {
            for (_, closed) in all().filter(|(_, one)| one.access.is_some()) {
                let Some(rest) = closed.key_prefix.strip_prefix(&open.key_prefix) else {
                    continue;
                };
                let url = format!("{}/{rest}", open.path.trim_end_matches('/'));
                let encoded = encode_path(&url).to_string();
                let found = table.find(open.host.as_deref().unwrap_or_default(), &encoded);
                let is_own = found.is_some_and(|(found, _)| found == index);
                if is_own && is_same_bucket(config, open, closed) {
                    let message = format!(
                        "opens what `{}` protects: its objects lie below {} as well; give one of them another `key_prefix` or bucket, or this one an `access`",
                        closed.path.escape_debug(),
                        url.escape_debug(),
                    );
                    self.warn(&KeyPath::nth("route", index).key("path"), message);
                }
            }
        }
    }

    fn answer(&mut self, path: &KeyPath, route: &Route) {
        if let Some(value) = &route.cache_control
            && (value.is_empty() || HeaderValue::from_str(value).is_err())
        {
            self.error(&path.key("cache_control"), "is no value of a header");
        }
        for (name, value) in &route.headers {
            let path = path.key("headers").key(name);
            let lower = name.to_ascii_lowercase();
            if HeaderName::from_bytes(name.as_bytes()).is_err() {
                self.error(
                    &path,
                    format!("`{}` is no name of a header", name.escape_debug()),
                );
            } else if lower == "cache-control" {
                self.error(&path, "use the route's `cache_control` instead");
            } else if lower.starts_with("access-control-") {
                self.error(&path, "use the route's `cors` instead");
            } else if ANSWER_HEADERS.contains(&lower.as_str()) {
                self.error(
                    &path,
                    "says what the answer is, and is set by the gateway alone",
                );
            } else if HeaderValue::from_str(value).is_err() {
                self.error(&path, "is no value of a header");
            }
        }
        if let Some(cors) = &route.cors {
            self.cors(&path.key("cors"), cors);
        }
    }

    fn cors(&mut self, path: &KeyPath, cors: &Cors) {
        let path = path.key("origins");
        if cors.origins.is_empty() && self.document.has(&path) {
            self.error(&path, "is empty; leave `cors` out to allow none");
        }
        for (index, site) in cors.origins.iter().enumerate() {
            if site == "*" && cors.origins.len() > 1 {
                self.error(
                    &path.index(index),
                    "`*` stands for all; leave out the others",
                );
            } else if site != "*" && !is_site(site) {
                let message = format!(
                    "`{}` is no site such as https://example.org",
                    site.escape_debug()
                );
                self.error(&path.index(index), message);
            }
        }
    }
}

/// Returns whether two routes lead to one bucket.
fn is_same_bucket(config: &Config, one: &Route, other: &Route) -> bool {
    let bucket = |route: &Route| {
        let found = config.origin.iter().find(|own| own.name == route.origin);
        found.map(|origin| (&origin.endpoint, &origin.bucket))
    };
    one.origin == other.origin || (bucket(one).is_some() && bucket(one) == bucket(other))
}

/// Returns whether a text is scheme, host, and perhaps a port, as a browser sends them in `Origin` (RFC 6454, 6.2).
pub(super) fn is_site(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else {
        return false;
    };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return false;
    };
    format!("{scheme}://{authority}") == text && text == text.to_ascii_lowercase()
}
