//! `POST /purge`: removes one path, or everything below one; or many at once.
//!
//! The path is one of the public listener, as it stands in a URL: percent-encoded, from the first `/`, without the
//! query. It leads where a request for it would. It comes in the query (`?path=/a%20b.jpg&prefix=true`) or as JSON
//! (`{"path": "/a%20b.jpg", "prefix": true}`). `host` narrows it to the objects that requests to one host get.
//!
//! In the query the path is taken as it stands and not form-decoded, so that one can paste it from a URL and `+` stays
//! `+`. A client that encodes its parameters sends `%2F` first, which is refused rather than misread: such a client
//! sends JSON.
//!
//! `{"paths": ["/a", "/b"], "prefixes": ["/c/"], "tags": ["post-17"], "host": …}` purges up to 10,000 at once, and so does
//! `{"keys": ["a b.jpg"], "origin": …}`, which names objects as their bucket does, without `origin` in each bucket. All are
//! resolved before the first is purged: a path that no object can have (400) purges nothing. The answer comes when all are
//! durable: `{"purged": 4, "known": 1, "no_route": []}` counts keys, prefixes and tags in buckets, then the keys of which
//! anything was known, and names the paths that lead nowhere. It may be sent again.
//!
//! `"soft": true` makes stale what is otherwise removed.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::consume_budget;

use super::Admin;
use super::ask::{self, Refusal};
use super::place::{self, PlaceError};
use tidegate_engine::{PurgeKind, ReadContext, Scope};
use tidegate_plan::ObjectKey;
use tidegate_plan::tags::Tag;

/// The longest body: ten thousand paths of keys of 1,024 bytes, each of them percent-encoded.
pub(super) const MAX_BODY: usize = 32 << 20;

/// The most paths, prefixes, tags and keys of one request.
const MAX_PURGES: usize = 10_000;

/// The purges that wait for the state's disk at once: it takes them together.
const AT_ONCE: usize = 1024;

/// A requested purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// The objects that it covers.
    pub extent: PurgeExtent,
    /// The host whose objects are covered; left out: all hosts.
    pub host: Option<String>,
    /// Whether they are removed or made stale.
    pub kind: PurgeKind,
}

/// The objects that a requested purge covers. A path is a URL path of the public listener, percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeExtent {
    /// The object of one path.
    Path(String),
    /// Every object whose path begins so.
    Prefix(String),
    /// Every object that has the tag, in the buckets of the host's routes.
    Tag(Tag),
    /// The object of this key, in the bucket of the origin of this name; left out: in each bucket that routes lead to.
    Key(ObjectKey, Option<String>),
}

/// A purge in a bucket.
pub type PurgeTarget = (Arc<ReadContext>, Scope);

/// A purge whose objects are found.
#[derive(Debug, Clone)]
pub struct ResolvedPurge {
    /// As it was requested.
    pub purge: Purge,
    /// The purges in buckets that it means.
    pub targets: Vec<PurgeTarget>,
}

/// The result of a purge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PurgeResult {
    /// The keys, prefixes and tags in buckets.
    pub names: Vec<String>,
    /// The number of keys of which anything was known: a version, that they are missing, or a name on a mount.
    pub known: usize,
}

impl Purge {
    /// Returns the path, the prefix, the tag or the key.
    fn name(&self) -> &str {
        match &self.extent {
            PurgeExtent::Path(path) | PurgeExtent::Prefix(path) => path,
            PurgeExtent::Tag(tag) => tag.as_str(),
            PurgeExtent::Key(key, _) => key.as_str(),
        }
    }
}

/// The reason why a purge removed nothing, or not everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PurgeError {
    /// The path leads nowhere.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It could not be made durable: it may or may not hold after a restart. Purge again.
    #[error("{0}")]
    NotDurable(String),
}

/// The purges of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeRequests {
    /// A single one.
    One(Purge),
    /// A batch.
    Many(Vec<Purge>),
}

/// One purge, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PurgeItem {
    path: String,
    #[serde(default)]
    prefix: bool,
    host: Option<String>,
    #[serde(default)]
    soft: bool,
}

/// The purges of one request, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    prefixes: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    keys: Vec<String>,
    host: Option<String>,
    origin: Option<String>,
    #[serde(default)]
    soft: bool,
}

impl PurgeItem {
    fn purge(self) -> Result<Purge, String> {
        Ok(Purge {
            extent: extent(self.path, self.prefix)?,
            host: self.host,
            kind: kind(self.soft),
        })
    }
}

impl Batch {
    fn purges(self) -> Result<Vec<Purge>, String> {
        let of_hosts = self.paths.len() + self.prefixes.len() + self.tags.len();
        let count = of_hosts + self.keys.len();
        if !(1..=MAX_PURGES).contains(&count) {
            let most = MAX_PURGES;
            return Err(format!(
                "{count} paths, prefixes, tags and keys: say from 1 to {most}"
            ));
        }
        if self.host.is_some() && of_hosts == 0 {
            return Err("keys have no host: name an `origin`".to_owned());
        }
        if self.origin.is_some() && self.keys.is_empty() {
            return Err("`origin` narrows keys, and there are none".to_owned());
        }
        let (host, origin, kind) = (self.host, self.origin, kind(self.soft));
        let paths = self.paths.into_iter().map(|path| extent(path, false));
        let prefixes = self.prefixes.into_iter().map(|path| extent(path, true));
        let tags = self.tags.iter().map(|tag| match Tag::new(tag) {
            Ok(tag) => Ok(PurgeExtent::Tag(tag)),
            Err(error) => Err(error.to_string()),
        });
        let purge = |extent| Purge {
            extent,
            host: host.clone(),
            kind,
        };
        let extents = paths.chain(prefixes).chain(tags);
        let of_hosts = extents.map(|extent| extent.map(purge));
        let keys = self.keys.iter().map(|key| {
            let named = ObjectKey::new(key).map(|key| Purge {
                extent: PurgeExtent::Key(key, origin.clone()),
                host: None,
                kind,
            });
            named.map_err(|error| format!("{}: {error}", key.escape_debug()))
        });
        of_hosts.chain(keys).collect()
    }
}

fn extent(path: String, prefix: bool) -> Result<PurgeExtent, String> {
    place::checked(&path)?;
    Ok(match prefix {
        true => PurgeExtent::Prefix(path),
        false => PurgeExtent::Path(path),
    })
}

fn kind(soft: bool) -> PurgeKind {
    match soft {
        true => PurgeKind::Soft,
        false => PurgeKind::Hard,
    }
}

/// Answers `POST /purge`.
pub(super) async fn purge(
    State(admin): State<Admin>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    match read(query.as_deref().unwrap_or_default(), request).await {
        Ok(PurgeRequests::One(purge)) => purge_one(&admin, purge).await,
        Ok(PurgeRequests::Many(purges)) => purge_many(&admin, purges).await,
        Err((status, why)) => (status, format!("{why}\n")).into_response(),
    }
}

/// Purges all of them, each as if it came alone, unless a path is one that no object can have.
async fn purge_many(admin: &Admin, purges: Vec<Purge>) -> Response {
    let count = purges.len();
    let (mut resolved, mut no_route) = (Vec::new(), Vec::new());
    for purge in purges {
        match admin.control.resolve(&purge) {
            Ok(one) => resolved.push(one),
            Err(PlaceError::NoRoute) => no_route.push(purge.name().to_owned()),
            Err(error) => {
                let why = format!("{}: {error}\n", purge.name().escape_debug());
                return (error.status(), why).into_response();
            }
        }
        // Ten thousand paths for many hosts are work for a while.
        consume_budget().await;
    }
    let all = resolved.into_iter().map(|one| {
        let control = admin.control.clone();
        async move {
            let done = control.purge(&one).await;
            (one.purge, done)
        }
    });
    let mut all = stream::iter(all).buffer_unordered(AT_ONCE);
    let (mut purged, mut known) = (0, 0);
    while let Some((purge, done)) = all.next().await {
        match done {
            Ok(done) => {
                purged += done.names.len();
                known += done.known;
            }
            Err(error) => return refusal(&purge, &error),
        }
    }
    tracing::info!(count, purged, known, "purged");
    ask::json(&json!({ "known": known, "no_route": no_route, "purged": purged }))
}

impl Admin {
    /// Purges the objects that `purge` names, and logs it. Durable when it returns.
    ///
    /// # Errors
    /// Those of [`Control::resolve`](super::Control::resolve) and [`Control::purge`](super::Control::purge).
    pub async fn purge(&self, purge: &Purge) -> Result<PurgeResult, PurgeError> {
        let resolved = self.control.resolve(purge)?;
        let purged = self.control.purge(&resolved).await?;
        tracing::info!(extent = ?purge.extent, kind = ?purge.kind, "purged");
        Ok(purged)
    }
}

async fn purge_one(admin: &Admin, purge: Purge) -> Response {
    match admin.purge(&purge).await {
        Ok(purged) => ask::json(&json!({ "known": purged.known, "purged": purged.names })),
        Err(error) => refusal(&purge, &error),
    }
}

fn refusal(purge: &Purge, error: &PurgeError) -> Response {
    let status = match error {
        PurgeError::Place(error) => error.status(),
        PurgeError::NotDurable(_) => {
            tracing::error!(extent = ?purge.extent, %error, "purge failed");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    (status, format!("{error}\n")).into_response()
}

/// Reads the purge from the request's query or else from its body, never from both.
async fn read(query: &str, request: Request) -> Result<PurgeRequests, Refusal> {
    let body = ask::body(request).await?;
    let wanted = match (query.is_empty(), body.is_empty()) {
        (false, true) => from_query(query).map(PurgeRequests::One),
        (true, false) => from_json(&body),
        _ => Err("say what to purge, in the query or as JSON".to_owned()),
    };
    wanted.map_err(|why| (StatusCode::BAD_REQUEST, why))
}

/// Reads one purge, or a batch if the object has a list.
///
/// # Errors
/// It is no purge, or names a field twice.
pub fn from_json(body: &[u8]) -> Result<PurgeRequests, String> {
    let wrong = |error: serde_json::Error| error.to_string();
    let fields: HashMap<String, IgnoredAny> = serde_json::from_slice(body).map_err(wrong)?;
    let has = |list: &&str| fields.contains_key(*list);
    // Each is read from the text, in which a field that is named twice is seen.
    if ["paths", "prefixes", "tags", "keys"].iter().any(has) {
        let batch: Batch = serde_json::from_slice(body).map_err(wrong)?;
        return batch.purges().map(PurgeRequests::Many);
    }
    let one: PurgeItem = serde_json::from_slice(body).map_err(wrong)?;
    one.purge().map(PurgeRequests::One)
}

fn from_query(query: &str) -> Result<Purge, String> {
    let [path, prefix, host, soft] = ask::values(query, ["path", "prefix", "host", "soft"])?;
    let flag = |name: &str, value: Option<&str>| match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(format!("{name} is true or false")),
    };
    let one = PurgeItem {
        path: path.ok_or("path is missing")?.to_owned(),
        prefix: flag("prefix", prefix)?,
        host: host.map(ask::host).transpose()?,
        soft: flag("soft", soft)?,
    };
    one.purge()
}

#[cfg(test)]
mod tests;
