//! `GET /list` and `POST /warm`: the objects below a path, and their prefetch. The command `tidegate warm` uses both.
//!
//! - `GET /list?path=/films/&host=…&after=…&limit=1000`: a page of the bucket's keys below a route's path, one request
//!   to the origin, as `{"objects": [{"path", "size"}], "unreachable": 0, "after": …}`. `after` is the value from the
//!   page before, percent-encoded; `unreachable` counts keys that no request can get through this route.
//! - `POST /warm {"paths": ["/a", "/b"], "host": …, "rate": "50MB", "concurrency": 4}`: answers with lines of JSON
//!   while it goes on. There is one with `done` for each path, in the order in which they end: `{"path", "done": true,
//!   "size", "fetched", "cached", "left_out"}`, or `{"path", "done": true, "error"}`. In between come lines for paths
//!   that take long: `{"path", "fetched"}` with the bytes so far.
//!
//! A request ends after four minutes at the latest, before the connection does. The client asks again for the paths
//! without an answer; objects that are cached by then are skipped. It also stops when its client leaves, or the gateway
//! drains. Both endpoints ask for the token, for they make the origin work.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Admin;
use super::ask::{self, Refusal};
use super::cache::some_size;
use super::place::{self, Place};
use tidegate_engine::Error;
use tidegate_engine::warm::{WarmResult, Warmer};

/// The longest body: a thousand of the longest paths.
pub(super) const MAX_BODY: usize = 4 << 20;

/// The longest path: a key of the greatest length, percent-encoded, below a long route.
const MAX_PATH: usize = 8 << 10;

/// The time that one request may take; the listener's connections end after five minutes.
const WARM_TIMEOUT: Duration = Duration::from_secs(240);

/// Objects at a time: the default, and the maximum.
const DEFAULT_CONCURRENCY: usize = 4;
const MAX_CONCURRENCY: usize = 64;

/// Lines that wait for a slow client.
const MAX_QUEUED_LINES: usize = 64;

/// Objects on one page: the default, and the maximum.
const MAX_PAGE: u16 = 1000;

/// The body of `POST /warm`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmRequest {
    /// The paths of the objects.
    pub paths: Vec<String>,
    /// The host whose objects are meant.
    pub host: Option<String>,
    /// The most bytes a second.
    #[serde(default, deserialize_with = "some_size")]
    pub rate: Option<u64>,
    /// Objects at a time.
    pub concurrency: Option<usize>,
}

impl WarmRequest {
    /// Reads it from JSON.
    ///
    /// # Errors
    /// It is no request to warm objects.
    pub fn from_json(body: &[u8]) -> Result<Self, String> {
        let wanted: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        for path in &wanted.paths {
            place::checked(path)?;
            if path.len() > MAX_PATH {
                return Err(format!("no path has more than {MAX_PATH} bytes"));
            }
        }
        match (wanted.rate, wanted.concurrency) {
            (Some(0), _) => Err("rate must be more than nothing".to_owned()),
            (_, Some(n)) if n == 0 || n > MAX_CONCURRENCY => Err(format!(
                "concurrency is a number from 1 to {MAX_CONCURRENCY}"
            )),
            _ => Ok(wanted),
        }
    }
}

/// Answers `GET /list`.
pub(super) async fn list(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    match page(&admin, query.as_deref().unwrap_or_default()).await {
        Ok(answer) | Err(answer) => answer,
    }
}

async fn page(admin: &Admin, query: &str) -> Result<Response, Response> {
    let bad = |why: String| (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response();
    let [path, host, after, limit] =
        ask::values(query, ["path", "host", "after", "limit"]).map_err(bad)?;
    let place = place::read(path, host).map_err(bad)?;
    let after = after.map(|after| percent_decode_str(after).decode_utf8());
    let after = after
        .transpose()
        .map_err(|_| bad("after is not text".to_owned()))?;
    let limit = match limit.map(str::parse) {
        None => MAX_PAGE,
        Some(Ok(limit)) if (1..=MAX_PAGE).contains(&limit) => limit,
        Some(_) => return Err(bad(format!("limit is a number from 1 to {MAX_PAGE}"))),
    };
    let below = admin
        .locate
        .below(&place)
        .map_err(IntoResponse::into_response)?;
    let listed = admin
        .engine
        .keys(&below.source, &below.prefix, after.as_deref(), limit)
        .await;
    let listed = listed.map_err(|error| failed(&error))?;
    let all = listed.objects.len();
    let objects: Vec<Value> = listed
        .objects
        .iter()
        .filter_map(|(key, size)| {
            let path = admin.locate.path(&below, key)?;
            Some(json!({ "path": path, "size": size }))
        })
        .collect();
    Ok(ask::json(&json!({
        "unreachable": all - objects.len(),
        "objects": objects,
        "after": listed.after,
    })))
}

fn failed(error: &Error) -> Response {
    let status = match error {
        Error::Forbidden | Error::BadOrigin(_) => StatusCode::BAD_GATEWAY,
        Error::Timeout => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{error}\n")).into_response()
}

/// Answers `POST /warm`.
pub(super) async fn warm(State(admin): State<Admin>, request: Request) -> Response {
    let wanted = match read(request).await {
        Ok(wanted) => wanted,
        Err((status, why)) => return (status, format!("{why}\n")).into_response(),
    };
    let (tell, lines) = mpsc::channel::<Bytes>(MAX_QUEUED_LINES);
    tokio::spawn(async move {
        tokio::select! {
            () = carry_out(&admin, wanted, &tell) => {}
            () = tell.closed() => {}
            () = admin.draining.cancelled() => {}
            () = tokio::time::sleep(WARM_TIMEOUT) => {}
        }
    });
    let lines = stream::unfold(lines, |mut lines| async {
        let line = lines.recv().await?;
        Some((Ok::<_, Infallible>(line), lines))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(lines)).into_response()
}

async fn read(request: Request) -> Result<WarmRequest, Refusal> {
    let body = ask::body(request).await?;
    WarmRequest::from_json(&body).map_err(|why| (StatusCode::BAD_REQUEST, why))
}

type ProgressSender = mpsc::Sender<Bytes>;

async fn carry_out(admin: &Admin, wanted: WarmRequest, tell: &ProgressSender) {
    let warmer = Warmer::new(admin.engine.clone(), wanted.rate);
    let at_a_time = wanted.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
    let places = wanted.paths.into_iter().map(|path| Place {
        path,
        host: wanted.host.clone(),
    });
    stream::iter(places)
        .for_each_concurrent(at_a_time, |place| one(admin, &warmer, place, tell))
        .await;
}

/// Warms the objects that a path leads to, and reports the result.
async fn one(admin: &Admin, warmer: &Warmer, place: Place, tell: &ProgressSender) {
    let mut said = json!({ "path": place.path, "done": true });
    let more = match admin.locate.objects(&place) {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(objects) => {
            let fetched = AtomicU64::new(0);
            let heard = |bytes: u64| {
                let fetched = fetched.fetch_add(bytes, Ordering::Relaxed) + bytes;
                // A slow reader misses some of these.
                let _ = tell.try_send(line(&json!({ "path": place.path, "fetched": fetched })));
            };
            let mut sum = WarmResult::default();
            let mut failed = None;
            for object in objects {
                match warmer.warm(&object.source, &object.key, &heard).await {
                    Ok(warmed) => sum = add(sum, warmed),
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                Some(error) => json!({ "error": error.to_string() }),
                None => json!({
                    "size": sum.size,
                    "fetched": sum.fetched,
                    "cached": sum.cached,
                    "left_out": sum.left_out,
                }),
            }
        }
    };
    if let (Some(said), Value::Object(more)) = (said.as_object_mut(), more) {
        said.extend(more);
    }
    // If this fails, the client has left, and the whole request ends.
    let _ = tell.send(line(&said)).await;
}

fn add(a: WarmResult, b: WarmResult) -> WarmResult {
    WarmResult {
        size: a.size + b.size,
        fetched: a.fetched + b.fetched,
        cached: a.cached + b.cached,
        left_out: a.left_out + b.left_out,
    }
}

fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

#[cfg(test)]
mod tests;
