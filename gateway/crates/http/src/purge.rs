//! `PURGE`, as plugins of WordPress send it to Varnish and to nginx's `ngx_cache_purge`: for clients of
//! `http.purge_networks` alone.
//!
//! The path is purged as the admin listener purges it: durably, with what lies beside it in other codings. With
//! `X-Purge-Method: regex` a path that ends in `.*` means everything that begins with it; it is the one expression that
//! those plugins send.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::Frontend;
use crate::body::Content;
use crate::body::pieces::Pieces;
use crate::client_address::ClientAddress;
use crate::reply::Reply;
use crate::request::host;
use crate::request_error::RequestError;
use crate::routes::RouteSet;
use tidegate_access::without_signature;
use tidegate_engine::ReadContext;
use tidegate_plan::ObjectKey;

const PURGE_METHOD: HeaderName = HeaderName::from_static("x-purge-method");

/// The end of a path that means everything that begins with what is before it.
const ANYTHING: &str = ".*";

/// The keys or prefixes to purge, each in its bucket.
type Purged<T> = Vec<(Arc<ReadContext>, T)>;

impl Frontend {
    /// Returns whether `PURGE` is a method here.
    pub(crate) fn takes_purge(&self, method: &Method) -> bool {
        !self.settings.purge_networks.is_empty() && method.as_str() == "PURGE"
    }

    /// Answers one `PURGE`. The purge is durable before the answer.
    pub(crate) async fn purge(&self, parts: &Parts, address: ClientAddress) -> Reply {
        let path = without_signature(parts.uri.path());
        match self.purge_path(parts, address).await {
            Ok(purged) => {
                tracing::info!(%path, purged, client = ?address.counted, "purged");
                done(purged)
            }
            Err(error) => {
                tracing::warn!(%path, client = ?address.counted, ?error, "purge refused");
                Reply::error(&error, Duration::ZERO, &parts.method)
            }
        }
    }

    /// Purges, and returns the number of keys and prefixes in buckets.
    async fn purge_path(
        &self,
        parts: &Parts,
        address: ClientAddress,
    ) -> Result<usize, RequestError> {
        let client = address.admitting(&parts.headers);
        let networks = &self.settings.purge_networks;
        if !client.is_some_and(|client| networks.iter().any(|own| own.contains(client))) {
            return Err(RequestError::PurgeRefused);
        }
        let routes = self.routes.load();
        let (host, path) = (host(parts)?, parts.uri.path());
        match wanted_prefix(&parts.headers, path)? {
            Some(prefix) => {
                let prefixes = prefixes(&routes, host, prefix)?;
                let purges = prefixes.iter().map(|(source, prefix)| async {
                    let done = self.engine.purge_prefix(source, prefix).await;
                    done.map_err(|_| RequestError::PurgeLost)
                });
                Ok(try_join_all(purges).await?.len())
            }
            None => {
                let keys = keys(&routes, host, path)?;
                let purges = keys.iter().map(|(source, key)| async {
                    let done = self.engine.purge_key(source, key).await;
                    done.map_err(|_| RequestError::PurgeLost)
                });
                Ok(try_join_all(purges).await?.len())
            }
        }
    }
}

/// Returns the prefix that a request purges; `None` if it purges one path.
fn wanted_prefix<'p>(headers: &HeaderMap, path: &'p str) -> Result<Option<&'p str>, RequestError> {
    let is_regex = headers
        .get(&PURGE_METHOD)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"regex"));
    if !is_regex {
        return Ok(None);
    }
    match path.strip_suffix(ANYTHING) {
        Some(prefix) if !prefix.contains(ANYTHING) => Ok(Some(prefix)),
        _ => Err(RequestError::Refused(
            "of expressions, only a path that ends in .* is purged",
        )),
    }
}

/// Returns the keys that requests for a path get.
fn keys(routes: &RouteSet, host: &str, path: &str) -> Result<Purged<ObjectKey>, RequestError> {
    let (route, below) = routes.find(host, path).ok_or(RequestError::NoRoute)?;
    let key = route.settings.key(below)?;
    let mut all: Vec<_> = route.settings.siblings(&key).collect();
    all.push(key);
    let all = all.into_iter();
    Ok(all.map(|key| (route.source.clone(), key)).collect())
}

/// Returns the prefixes of the keys that requests get whose paths begin with this one.
fn prefixes(routes: &RouteSet, host: &str, path: &str) -> Result<Purged<String>, RequestError> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (route, rest) in routes.under(host, path) {
        let prefix = route.settings.prefix(rest)?;
        if seen.insert((route.source.origin.id(), prefix.clone())) {
            found.push((route.source.clone(), prefix));
        }
    }
    match found.is_empty() {
        true => Err(RequestError::NoRoute),
        false => Ok(found),
    }
}

fn done(purged: usize) -> Reply {
    let text = format!("purged {purged}\n");
    let mut headers = HeaderMap::new();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_LENGTH, text.len().into());
    let content = Content::Ready(Pieces::from(bytes::Bytes::from(text)));
    Reply::new(StatusCode::OK, headers, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_path_is_an_expression() {
        let regex = |path| {
            let headers = [(PURGE_METHOD, HeaderValue::from_static("Regex"))];
            wanted_prefix(&headers.into_iter().collect(), path)
        };
        assert_eq!(regex("/.*"), Ok(Some("/")));
        assert_eq!(regex("/wp-content/.*"), Ok(Some("/wp-content/")));
        for path in ["/", "/a", "/.*/b", "/.*/.*", "/(a|b).*x"] {
            assert!(
                matches!(regex(path), Err(RequestError::Refused(_))),
                "{path}"
            );
        }
        let plain = wanted_prefix(&HeaderMap::new(), "/.*");
        assert_eq!(plain, Ok(None), "a name may be spelled so");
    }
}
