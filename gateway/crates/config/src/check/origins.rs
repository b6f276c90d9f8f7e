//! Buckets: names, addresses, credentials, deadlines.

use std::net::IpAddr;

use http::Uri;

use super::super::Origin;
use super::super::problem::KeyPath;
use super::Check;
use tidegate_plan::{Bucket, Period};

impl Check<'_, '_> {
    pub(super) fn origins(&mut self, origins: &[Origin]) {
        for (index, origin) in origins.iter().enumerate() {
            let path = KeyPath::nth("origin", index);
            for (key, value) in [("name", &origin.name), ("bucket", &origin.bucket)] {
                if value.is_empty() && self.document.has(&path.key(key)) {
                    self.error(&path.key(key), "is empty");
                }
            }
            let first = origins[..index]
                .iter()
                .position(|one| one.name == origin.name);
            if let Some(first) = first.filter(|_| !origin.name.is_empty()) {
                let message = format!("`{}` is already the name of `origin[{first}]`", origin.name);
                self.error(&path.key("name"), message);
            }
            self.shared(&path, origins, index);
            self.address(&path, origin);
            self.credentials(&path, origin);
            self.deadlines(&path, origin);
            self.prices(&path, origin);
        }
    }

    /// Checks that each price is a number that counts.
    fn prices(&mut self, path: &KeyPath, origin: &Origin) {
        let all = [
            ("price_get", origin.price_get),
            ("price_put", origin.price_put),
            ("price_received", origin.price_received),
            ("price_sent", origin.price_sent),
        ];
        for (key, price) in all {
            if !(price.is_finite() && price >= 0.0) {
                self.error(&path.key(key), "must be a number from 0 on");
            }
        }
    }

    /// Refuses origins of one bucket that would share cached objects without a declared `identity`.
    fn shared(&mut self, path: &KeyPath, origins: &[Origin], index: usize) {
        let origin = &origins[index];
        if origin.identity.as_deref() == Some("") {
            self.error(&path.key("identity"), "is empty");
        }
        let bucket = |one: &Origin| Bucket::new(one.endpoint.as_deref(), &one.bucket);
        let same = |one: &Origin| {
            !one.bucket.is_empty()
                && bucket(one) == bucket(origin)
                && one.identity == origin.identity
        };
        let Some(first) = origins[..index].iter().position(same) else {
            return;
        };
        if origin.identity.is_none() {
            let message = format!(
                "is the bucket of `origin[{first}]` as well, and neither has an `identity`: what one may see would \
                 be given out through the other; name what each may see, alike only where that is the same"
            );
            self.error(&path.key("bucket"), message);
        } else if origins[first].anonymous != origin.anonymous {
            let message = format!(
                "is that of `origin[{first}]`, and one of both is anonymous: whatever the other may see is given out \
                 through it"
            );
            self.warn(&path.key("identity"), message);
        }
    }

    fn address(&mut self, path: &KeyPath, origin: &Origin) {
        if let Some(endpoint) = &origin.endpoint
            && let Err(why) = endpoint_of(endpoint)
        {
            self.error(
                &path.key("endpoint"),
                format!("`{}` {why}", without_user(endpoint)),
            );
        }
        if let Some(endpoint) = &origin.endpoint
            && is_in_the_clear(endpoint)
        {
            let message = "is not encrypted, and not on this machine: objects can be read and changed on their \
                           way; use https://";
            self.warn(&path.key("endpoint"), message);
        }
        if origin.region.is_empty() {
            self.error(&path.key("region"), "is empty");
        }
        // S3 user guide, "Bucket naming rules"; other stores also take capitals and underscores.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if !origin.bucket.bytes().all(fits) {
            let message = "a bucket's name has letters, digits, `.`, `-` and `_` only; \
                           what begins the keys belongs into a route's `key_prefix`";
            self.error(&path.key("bucket"), message);
        }
    }

    fn credentials(&mut self, path: &KeyPath, origin: &Origin) {
        let keys = [
            ("access_key_id", origin.access_key_id.is_some()),
            ("secret_access_key", origin.secret_access_key.is_some()),
            ("session_token", origin.session_token.is_some()),
        ];
        if origin.anonymous {
            for (key, _) in keys.iter().filter(|(_, given)| *given) {
                self.error(
                    &path.key(key),
                    "contradicts `anonymous`, which signs nothing",
                );
            }
            return;
        }
        let [(_, id), (_, secret), (_, token)] = keys;
        if id && !secret {
            self.error(
                &path.key("access_key_id"),
                "needs `secret_access_key` beside it",
            );
        }
        if secret && !id {
            self.error(
                &path.key("secret_access_key"),
                "needs `access_key_id` beside it",
            );
        }
        if token && !id && !secret {
            self.error(
                &path.key("session_token"),
                "needs `access_key_id` beside it",
            );
        }
        if origin.access_key_id.as_deref() == Some("") {
            self.error(&path.key("access_key_id"), "is empty");
        }
    }

    fn deadlines(&mut self, path: &KeyPath, origin: &Origin) {
        let parts = [
            ("connect_timeout", origin.connect_timeout),
            ("first_byte_timeout", origin.first_byte_timeout),
            ("stall_timeout", origin.stall_timeout),
        ];
        for (key, period) in parts {
            self.not_zero(&path.key(key), period);
            if period > origin.total_timeout && origin.total_timeout > Period::default() {
                let message = format!(
                    "`{period}` is longer than `total_timeout` ({})",
                    origin.total_timeout
                );
                self.error(&path.key(key), message);
            }
        }
        self.not_zero(&path.key("total_timeout"), origin.total_timeout);
        self.at_least(&path.key("max_requests"), origin.max_requests, 1);
        if origin.retries > 10 {
            self.error(&path.key("retries"), "must be at most 10");
        }
    }
}

/// Returns whether a text is the URL of a service: scheme and host, with nothing behind them.
fn endpoint_of(text: &str) -> Result<(), &'static str> {
    const NO_URL: &str = "is no URL such as http://127.0.0.1:9000";
    let uri: Uri = text.parse().map_err(|_| NO_URL)?;
    let authority = uri.authority().ok_or(NO_URL)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("is neither http:// nor https://");
    }
    if authority.as_str().contains('@') {
        return Err("has credentials in it; use `access_key_id` and `secret_access_key`");
    }
    let has_port = authority.as_str() != authority.host();
    if has_port && authority.port_u16().is_none_or(|port| port == 0) {
        return Err("has no port from 1 to 65535");
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("has a path; the bucket belongs into `bucket`");
    }
    Ok(())
}

/// Returns whether a URL is `http://` to another machine. Names count as other machines, except those of loopback
/// (RFC 6761, 6.3).
pub(super) fn is_in_the_clear(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => {
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    };
    uri.scheme_str() == Some("http") && !loopback
}

/// Returns the text without the part before an `@`, which may hold a password.
fn without_user(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://[secret]@{host}"),
        (None, Some((_, host))) => format!("[secret]@{host}"),
        _ => text.to_owned(),
    }
}
