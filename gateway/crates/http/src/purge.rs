//! `PURGE`, as plugins of WordPress send it to Varnish and to nginx's `ngx_cache_purge`: for clients of
//! `http.purge_networks` alone.
//!
//! The path is purged as the admin listener purges it: durably, with what lies beside it in other codings. With
//! `X-Purge-Method: regex` a path that ends in `.*` means everything that begins with it; it is the one expression that
//! those plugins send.
//!
//! `xkey`, `xkey-purge`, `xkey-softpurge` and `Surrogate-Key` name tags, as the libraries for Varnish's `xkey` and for
//! Fastly send them; the path does not count then. `X-Purge-Method: soft` and `Fastly-Soft-Purge: 1` make stale.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::body::Content;
use crate::body::pieces::Pieces;
use crate::client_address::ClientAddress;
use crate::reply::Reply;
use crate::request::host;
use crate::request_error::RequestError;
use crate::routes::RouteSet;
use crate::{Frontend, check_target};
use tidegate_access::without_signature;
use tidegate_engine::{PurgeKind, ReadContext, Scope};
use tidegate_plan::tags::Tag;
use tidegate_telemetry::locks::Recover as _;
use tidegate_telemetry::trace::{self, Kind};

/// The method.
pub(crate) const PURGE: &str = "PURGE";

mod headers;

use headers::is_soft;
pub use headers::{PurgeHeaderError, PurgeTarget, purge_target};

/// A purge in a bucket.
type Target = (Arc<ReadContext>, Scope);

impl Frontend {
    /// Returns whether `PURGE` is a method here.
    pub(crate) fn takes_purge(&self, method: &Method) -> bool {
        method.as_str() == PURGE && !self.settings.load().settings.purge_networks.is_empty()
    }

    /// Answers one `PURGE`. The purge is durable before the answer.
    pub(crate) async fn purge(
        &self,
        parts: &Parts,
        address: ClientAddress,
        max_uri_bytes: usize,
    ) -> Reply {
        let purged = match check_target(parts, max_uri_bytes) {
            Ok(()) => self.purge_path(parts, address).await,
            Err(error) => return Reply::error(&error, Duration::ZERO, &parts.method),
        };
        match purged {
            Ok(purged) => {
                let path = without_signature(parts.uri.path());
                tracing::info!(%path, purged, client = address.counted.map(tracing::field::display), "purged");
                done(purged)
            }
            Err(error) => {
                self.log_refusal(parts, address, &error);
                Reply::error(&error, Duration::ZERO, &parts.method)
            }
        }
    }

    /// Logs a purge that was refused; of those of addresses that may not purge, which are anyone's, a few.
    fn log_refusal(&self, parts: &Parts, address: ClientAddress, error: &RequestError) {
        let count = match error {
            RequestError::PurgeRefused => {
                let mut rate = self.purge_refusals.lock().recover();
                rate.record(self.started.elapsed())
            }
            _ => Some(1),
        };
        if let Some(count) = count {
            let path = without_signature(parts.uri.path());
            tracing::warn!(%path, client = address.counted.map(tracing::field::display), ?error, count, "purge refused");
        }
    }

    /// Purges, and returns the number of keys and prefixes in buckets.
    async fn purge_path(
        &self,
        parts: &Parts,
        address: ClientAddress,
    ) -> Result<usize, RequestError> {
        let client = address.admitting(&parts.headers);
        let is_obeyed = |client| {
            let in_force = self.settings.load();
            let mut networks = in_force.settings.purge_networks.iter();
            networks.any(|own| own.contains(client))
        };
        if !client.is_some_and(is_obeyed) {
            return Err(RequestError::PurgeRefused);
        }
        let routes = self.routes.load();
        let (host, path) = (host(parts)?, parts.uri.path());
        let (targets, kind) = wanted(&routes, host, path, &parts.headers)?;
        let mut span = trace::span("purge", Kind::Internal);
        let purges = targets.iter().map(|(source, target)| async {
            let done = self.engine.purge(source, target, kind).await;
            done.map_err(|_| RequestError::PurgeLost)
        });
        if let Some(span) = &mut span {
            span.set("tidegate.targets", targets.len() as u64);
        }
        let done = trace::within(span.as_ref(), try_join_all(purges)).await;
        if let (Some(span), Err(_)) = (&mut span, &done) {
            span.fail();
        }
        Ok(done?.len())
    }
}

/// Returns the purges that a request means: of the tags that it names, else of its path.
fn wanted(
    routes: &RouteSet,
    host: &str,
    path: &str,
    headers: &HeaderMap,
) -> Result<(Vec<Target>, PurgeKind), RequestError> {
    let kind = match is_soft(headers) {
        true => PurgeKind::Soft,
        false => PurgeKind::Hard,
    };
    let target = purge_target(headers, path);
    let targets = match target.map_err(|error| RequestError::Refused(error.0))? {
        PurgeTarget::Tags(tags) => of_tags(routes, host, &tags)?,
        PurgeTarget::Prefix(prefix) => prefixes(routes, host, prefix)?,
        PurgeTarget::Path(path) => keys(routes, host, path)?,
    };
    Ok((targets, kind))
}

/// Returns the keys that requests for a path get.
fn keys(routes: &RouteSet, host: &str, path: &str) -> Result<Vec<Target>, RequestError> {
    let (route, below) = routes.find(host, path).ok_or(RequestError::NoRoute)?;
    let key = route.settings.key(below)?;
    let mut all: Vec<_> = route.settings.siblings(&key).collect();
    all.push(key);
    let all = all.into_iter();
    Ok(all
        .map(|key| (route.source.clone(), Scope::Key(key)))
        .collect())
}

/// Returns the prefixes of the keys that requests get whose paths begin with this one.
fn prefixes(routes: &RouteSet, host: &str, path: &str) -> Result<Vec<Target>, RequestError> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (route, rest) in routes.under(host, path) {
        let prefix = route.settings.prefix(rest)?;
        if seen.insert((route.source.origin.id(), prefix.clone())) {
            found.push((route.source.clone(), Scope::Prefix(prefix.into())));
        }
    }
    match found.is_empty() {
        true => Err(RequestError::NoRoute),
        false => Ok(found),
    }
}

/// Returns the tags in each bucket of the host's routes.
fn of_tags(
    routes: &RouteSet,
    host: &str,
    tags: &BTreeSet<Tag>,
) -> Result<Vec<Target>, RequestError> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (route, _) in routes.under(host, "/") {
        if seen.insert(route.source.origin.id()) {
            let own = tags.iter().cloned().map(Scope::Tag);
            found.extend(own.map(|target| (route.source.clone(), target)));
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
