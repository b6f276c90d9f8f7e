//! `POST /purge`: removes one path, or everything below one.
//!
//! The path is one of the public listener, as it stands in a URL: percent-encoded, from the first `/`, without the
//! query. It leads where a request for it would. It comes in the query (`?path=/a%20b.jpg&prefix=true`) or as JSON
//! (`{"path": "/a%20b.jpg", "prefix": true}`). `host` narrows it to the objects that requests to one host get.
//!
//! In the query the path is taken as it stands and not form-decoded, so that one can paste it from a URL and `+` stays
//! `+`. A client that encodes its parameters sends `%2F` first, which is refused rather than misread: such a client
//! sends JSON.

use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::Admin;
use super::ask::{self, Refusal};
use super::place::{self, PlaceError};

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

/// Answers `POST /purge`.
pub(super) async fn purge(
    State(admin): State<Admin>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let purge = match read(query.as_deref().unwrap_or_default(), request).await {
        Ok(purge) => purge,
        Err((status, why)) => return (status, format!("{why}\n")).into_response(),
    };
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
async fn read(query: &str, request: Request) -> Result<Purge, Refusal> {
    let body = ask::body(request).await?;
    let purge = match (query.is_empty(), body.is_empty()) {
        (false, true) => from_query(query),
        (true, false) => serde_json::from_slice(&body).map_err(|error| error.to_string()),
        _ => Err("say what to purge, in the query or as JSON".to_owned()),
    };
    purge
        .and_then(checked)
        .map_err(|why| (StatusCode::BAD_REQUEST, why))
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
