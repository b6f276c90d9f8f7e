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
//! `{"paths": ["/a", "/b"], "prefixes": ["/c/"], "host": …}` purges up to 10,000 at once. All are checked before the first is
//! purged, and the answer comes when all are durable: `{"purged": 3, "no_route": []}` counts keys and prefixes in buckets,
//! and names the paths that lead nowhere. It may be sent again.

use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;

use super::Admin;
use super::ask::{self, Refusal};
use super::place::{self, PlaceError};

/// The longest body: ten thousand paths of ordinary length.
pub(super) const MAX_BODY: usize = 8 << 20;

/// The most paths and prefixes of one request.
const MAX_PURGES: usize = 10_000;

/// The purges that wait for the state's disk at once: it takes them together.
const AT_ONCE: usize = 1024;

/// A requested purge.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// A URL path of the public listener, percent-encoded.
    pub path: String,
    /// Whether to remove everything that starts with the path, too.
    #[serde(default)]
    pub prefix: bool,
    /// The host whose objects are removed; left out: all hosts.
    #[serde(default)]
    pub host: Option<String>,
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
enum Wanted {
    One(Purge),
    Many(Vec<Purge>),
}

/// The purges of one request, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    prefixes: Vec<String>,
    host: Option<String>,
}

impl Batch {
    fn purges(self) -> Result<Vec<Purge>, String> {
        let count = self.paths.len() + self.prefixes.len();
        if !(1..=MAX_PURGES).contains(&count) {
            return Err(format!("{count} paths: say from 1 to {MAX_PURGES}"));
        }
        let host = self.host;
        let purge = |prefix: bool| {
            let host = host.clone();
            move |path| Purge {
                path,
                prefix,
                host: host.clone(),
            }
        };
        let paths = self.paths.into_iter().map(purge(false));
        let prefixes = self.prefixes.into_iter().map(purge(true));
        paths.chain(prefixes).map(checked).collect()
    }
}

/// Answers `POST /purge`.
pub(super) async fn purge(
    State(admin): State<Admin>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    match read(query.as_deref().unwrap_or_default(), request).await {
        Ok(Wanted::One(purge)) => purge_one(&admin, purge).await,
        Ok(Wanted::Many(purges)) => purge_many(&admin, purges).await,
        Err((status, why)) => (status, format!("{why}\n")).into_response(),
    }
}

/// Purges all of them, each as if it came alone.
async fn purge_many(admin: &Admin, purges: Vec<Purge>) -> Response {
    let count = purges.len();
    let all = purges.into_iter().map(|purge| {
        let control = admin.control.clone();
        async move {
            let done = control.purge(&purge).await;
            (purge, done)
        }
    });
    let mut all = stream::iter(all).buffer_unordered(AT_ONCE);
    let (mut purged, mut no_route) = (0, Vec::new());
    while let Some((purge, done)) = all.next().await {
        match done {
            Ok(names) => purged += names.len(),
            Err(PurgeError::Place(PlaceError::NoRoute)) => no_route.push(purge.path),
            Err(error) => return refusal(&purge, &error),
        }
    }
    tracing::info!(count, purged, "purged");
    ask::json(&json!({ "purged": purged, "no_route": no_route }))
}

async fn purge_one(admin: &Admin, purge: Purge) -> Response {
    match admin.control.purge(&purge).await {
        Ok(purged) => {
            tracing::info!(path = ?purge.path, prefix = purge.prefix, "purged");
            ask::json(&serde_json::json!({ "purged": purged }))
        }
        Err(error) => refusal(&purge, &error),
    }
}

fn refusal(purge: &Purge, error: &PurgeError) -> Response {
    let status = match error {
        PurgeError::Place(error) => error.status(),
        PurgeError::NotDurable(_) => {
            tracing::error!(path = ?purge.path, prefix = purge.prefix, %error, "purge failed");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    (status, format!("{error}\n")).into_response()
}

/// Reads the purge from the request's query or else from its body, never from both.
async fn read(query: &str, request: Request) -> Result<Wanted, Refusal> {
    let body = ask::body(request).await?;
    let wanted = match (query.is_empty(), body.is_empty()) {
        (false, true) => from_query(query).and_then(checked).map(Wanted::One),
        (true, false) => from_json(&body),
        _ => Err("say what to purge, in the query or as JSON".to_owned()),
    };
    wanted.map_err(|why| (StatusCode::BAD_REQUEST, why))
}

/// Reads one purge, or a batch if the object has a list.
fn from_json(body: &[u8]) -> Result<Wanted, String> {
    let wrong = |error: serde_json::Error| error.to_string();
    let value: serde_json::Value = serde_json::from_slice(body).map_err(wrong)?;
    if ["paths", "prefixes"]
        .iter()
        .any(|list| value.get(list).is_some())
    {
        let batch: Batch = serde_json::from_value(value).map_err(wrong)?;
        return batch.purges().map(Wanted::Many);
    }
    let purge = serde_json::from_value(value).map_err(wrong)?;
    checked(purge).map(Wanted::One)
}

fn checked(purge: Purge) -> Result<Purge, String> {
    place::checked(&purge.path)?;
    Ok(purge)
}

fn from_query(query: &str) -> Result<Purge, String> {
    let [path, prefix, host] = ask::values(query, ["path", "prefix", "host"])?;
    Ok(Purge {
        path: path.ok_or("path is missing")?.to_owned(),
        prefix: match prefix {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err("prefix is true or false".to_owned()),
        },
        host: host.map(ask::host).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_query_is_taken_as_it_stands() {
        let rows = [
            ("path=/a%20b+c.jpg", "/a%20b+c.jpg", false),
            ("prefix=true&path=/a/", "/a/", true),
            ("path=/a=b&prefix=false", "/a=b", false),
        ];
        for (query, path, prefix) in rows {
            let purge = from_query(query).expect(query);
            assert_eq!((purge.path.as_str(), purge.prefix), (path, prefix));
        }
    }

    #[test]
    fn a_batch_is_bounded_and_checked_whole() {
        let read = |text: &str| from_json(text.as_bytes());
        let many = |text: &str| match read(text) {
            Ok(Wanted::Many(purges)) => purges.len(),
            _ => 0,
        };
        assert_eq!(many(r#"{"paths": ["/a", "/b"], "prefixes": ["/c/"]}"#), 3);
        for bad in [
            r#"{"paths": []}"#,
            r#"{"paths": ["/a", "b"]}"#,
            r#"{"paths": ["/a"], "prefix": true}"#,
            r#"{"prefixes": "/a"}"#,
            r#"{"path": "/a", "paths": ["/b"]}"#,
            "[]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let count = |count| json!({ "paths": vec!["/a"; count] }).to_string();
        assert_eq!(many(&count(MAX_PURGES)), MAX_PURGES);
        assert!(read(&count(MAX_PURGES + 1)).is_err());
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        let bad = [
            "prefix=true",
            "path=/a&path=/b",
            "path=/a&recursive=true",
            "path=/a&prefix=yes",
            "path=/a&host=%ff",
            "path=%2Fa",
            "path=a",
            "path=/a?ver=6.4",
        ];
        for query in bad {
            assert!(from_query(query).and_then(checked).is_err(), "{query}");
        }
    }
}
