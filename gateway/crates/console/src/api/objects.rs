//! `GET /api/v1/objects`: a page of a folder of the bucket, as a mount shows it, with what is cached of each object.
//!
//! A page costs at most one request to the bucket. Positions between pages are kept in memory under a random number, the
//! token; a token that is no longer known begins anew.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::ApiError;
use crate::Console;
use crate::warms::WarmState;
use tidegate_admin::pins::Pin;
use tidegate_admin::place::{LocatedPrefix, Place, PlaceError};
use tidegate_engine::names::{NameKind, PagePosition};
use tidegate_engine::stat::{Stat, VersionStat};
use tidegate_plan::{ObjectKey, Timestamp};
use tidegate_telemetry::locks::Recover as _;

mod drafts;
mod runs;

pub use runs::Run;
use runs::joined;

/// Names on a page: the default, and the maximum.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

/// Positions that are kept: the oldest makes room.
const MAX_POSITIONS: usize = 64;

/// Objects that are looked at at a time.
const AT_ONCE: usize = 16;

/// The requested page of a folder.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FolderQuery {
    /// The folder as a path of the public listener, percent-encoded, with a `/` at its end.
    pub path: String,
    /// The host of the route; empty: that of routes without one. If left out, the path must be the same folder for each.
    pub host: Option<String>,
    /// The token from the page before.
    pub page: Option<String>,
    /// The names on the page, from 1 to 500; 50 if left out.
    pub limit: Option<usize>,
}

/// A page of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Folder {
    /// The name of the origin.
    pub origin: String,
    /// The prefix of the keys in the folder.
    pub prefix: String,
    /// The pin that covers all of the folder: the one with the longest prefix.
    pub pin: Option<PinState>,
    /// The names on the page.
    pub names: Vec<Name>,
    /// The token of the next page; `null` on the last one.
    pub next: Option<String>,
    /// A part of the cache that is not loaded yet: bytes that are not found may still be there.
    pub note: Option<String>,
}

/// A name in a folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct Name {
    /// The name, without the folder.
    pub name: String,
    /// The path of the public listener, percent-encoded; a folder's ends with `/`. `null`: no request can get it.
    pub path: Option<String>,
    /// The path of another route that governs the path of this folder: what is there is that route's.
    pub route: Option<String>,
    /// Whether it is a folder.
    pub folder: bool,
    /// The size in bytes, of an object.
    pub size: Option<u64>,
    /// The time of its last change, in seconds since 1970.
    pub modified: Option<f64>,
    /// The entity tag of the version in the bucket, as the folder was listed.
    pub etag: Option<String>,
    /// The pin that covers it: the one with the longest prefix.
    pub pin: Option<PinState>,
    /// Its cached chunks; `null` if nothing is known of it.
    pub cached: Option<CacheState>,
    /// The state of a draft that is not in the bucket yet: see `writes`.
    pub draft: Option<String>,
}

/// A pin. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PinState {
    /// The prefix of the keys that it covers.
    pub prefix: String,
    /// The bytes that it may keep on disk.
    pub limit: u64,
    /// The bytes that it keeps there.
    pub used: u64,
}

/// The cached state of an object.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CacheState {
    /// The entity tag of the version.
    pub etag: String,
    /// The bucket's own id of the version, if the bucket keeps versions.
    pub version_id: Option<String>,
    /// The media type.
    pub content_type: Option<String>,
    /// Whether it is fresh: one word.
    pub state: String,
    /// The same in a sentence.
    pub freshness: String,
    /// The time since the bucket confirmed it, in seconds.
    pub age: f64,
    /// Bytes in memory.
    pub memory: u64,
    /// Bytes on disk; some of them may be in memory as well.
    pub disk: u64,
    /// Bytes in no tier.
    pub absent: u64,
    /// Bytes on disk that a pin keeps.
    pub pinned: u64,
    /// The object in runs of bytes in the same tiers, in order. If there are more than 200, neighbours are joined: a joined
    /// run has the tiers of its longer part.
    pub runs: Vec<Run>,
    /// The number of runs at the end that are left out, of an object with more than 10,000.
    pub runs_left_off: u64,
}

/// The positions between pages.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    kept: Mutex<VecDeque<(u64, Position)>>,
    random: RandomState,
}

/// The rest of a folder.
#[derive(Debug, Clone)]
struct Position {
    folder: (String, String),
    names: Arc<[(String, NameKind)]>,
    from: usize,
    next: Option<PagePosition>,
    /// The drafts that the first page has beyond the listed names: the rest leaves them out.
    added: Arc<[String]>,
}

impl Pages {
    fn keep(&self, position: Position) -> String {
        let mut kept = self.kept.lock().recover();
        let last = kept.back().map_or(0, |(token, _)| *token);
        let token = self
            .random
            .hash_one((last, kept.len(), &position.folder, position.from));
        if kept.len() >= MAX_POSITIONS {
            kept.pop_front();
        }
        kept.push_back((token, position));
        format!("{token:016x}")
    }

    fn find(&self, token: &str, folder: &(String, String)) -> Option<Position> {
        let token = u64::from_str_radix(token, 16).ok()?;
        let kept = self.kept.lock().recover();
        let (_, position) = kept.iter().find(|(known, _)| *known == token)?;
        (position.folder == *folder).then(|| position.clone())
    }
}

impl From<PlaceError> for ApiError {
    fn from(error: PlaceError) -> Self {
        Self::new(error.status(), error)
    }
}

/// Returns a page of a folder.
pub(crate) async fn collect(console: &Console, query: FolderQuery) -> Result<Folder, ApiError> {
    if !query.path.starts_with('/') || !query.path.ends_with('/') {
        return Err(ApiError::bad("a folder's path begins and ends with `/`"));
    }
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::bad(format!(
            "limit is a number from 1 to {MAX_LIMIT}"
        )));
    }
    let place = Place {
        path: query.path,
        host: query.host,
    };
    let below = console.admin.locate.below(&place)?;
    let token = query.page.filter(|token| !token.is_empty());
    let position = position(console, &below, token.as_deref()).await?;
    let here = &position.names[position.from..];
    let (page, rest) = here.split_at(limit.min(here.len()));
    let (from, has_more) = (position.from + page.len(), !rest.is_empty());
    let mut page = page.to_vec();
    let drafts = drafts::of_folder(console, &below);
    let added = match token {
        None => drafts::add(&mut page, &drafts).into(),
        Some(_) => {
            drafts::leave_out(&mut page, &position.added);
            position.added.clone()
        }
    };
    let next = (has_more || position.next.is_some()).then(|| {
        console.pages.keep(Position {
            from,
            added,
            ..position.clone()
        })
    });
    let names = stream::iter(page)
        .map(|(name, kind)| one(console, &below, name, kind))
        .buffered(AT_ONCE);
    let mut names: Vec<Name> = names.collect().await;
    drafts::mark(&mut names, &drafts);
    let pins = console.admin.pins.list();
    let pin = |key: &str| covering(&pins, &below.origin, key);
    for name in &mut names {
        name.pin = pin(&name.key(&below.prefix));
    }
    Ok(Folder {
        pin: pin(&below.prefix),
        names,
        next,
        note: console.admin.engine.loaded().err(),
        origin: below.origin,
        prefix: below.prefix,
    })
}

/// Returns the position of a token, with names to show, or the folder's begin.
async fn position(
    console: &Console,
    below: &LocatedPrefix,
    token: Option<&str>,
) -> Result<Position, ApiError> {
    let folder = (below.origin.clone(), below.prefix.clone());
    let known = token.map(|token| {
        let found = console.pages.find(token, &folder);
        found.ok_or_else(|| {
            ApiError::new(StatusCode::GONE, "this page is no longer known: begin anew")
        })
    });
    let (from, added) = match known.transpose()? {
        Some(position) if position.from < position.names.len() => return Ok(position),
        Some(position) => (position.next, position.added),
        None => (None, Arc::from([])),
    };
    let listed = console
        .admin
        .engine
        .list(&below.source, &below.prefix, from)
        .await?;
    Ok(Position {
        folder,
        names: listed.names.into(),
        from: 0,
        next: listed.next,
        added,
    })
}

impl Name {
    /// Returns its key in the folder of this prefix; that of a folder ends with `/`.
    pub(crate) fn key(&self, prefix: &str) -> String {
        let slash = if self.folder { "/" } else { "" };
        format!("{prefix}{}{slash}", self.name)
    }
}

/// Returns the pin of an origin that covers a key, or all keys of a prefix.
fn covering(pins: &[Pin], origin: &str, key: &str) -> Option<PinState> {
    let covers = |pin: &&Pin| pin.origin.as_deref() == Some(origin) && key.starts_with(&pin.prefix);
    let longest = pins.iter().filter(covers);
    let longest = longest.max_by_key(|pin| pin.prefix.len())?;
    Some(PinState {
        prefix: longest.prefix.clone(),
        limit: longest.limit,
        used: longest.used,
    })
}

/// Describes one name.
async fn one(console: &Console, below: &LocatedPrefix, name: String, kind: NameKind) -> Name {
    let mut shown = Name {
        folder: kind == NameKind::Folder,
        name,
        ..Name::default()
    };
    if let NameKind::File(facts) = kind {
        shown.size = Some(facts.size);
        shown.modified = facts.modified.map(Timestamp::as_secs_f64);
        shown.etag = facts.etag.map(|etag| etag.as_str().to_owned());
    }
    let key = shown.key(&below.prefix);
    let locate = &console.admin.locate;
    if shown.folder {
        if let Some(found) = locate.folder_path(below, &key) {
            (shown.path, shown.route) = (Some(found.path), found.governed_by);
        }
        return shown;
    }
    shown.path = locate.path(below, &key);
    if let Ok(key) = ObjectKey::new(&key)
        && let Some(Stat::Present(present)) = console.admin.engine.stat(&below.source, &key).await
    {
        shown.size = Some(present.version.size);
        shown.cached = Some(cached(&present));
    }
    shown
}

fn cached(present: &VersionStat) -> CacheState {
    let content_type = present.version.header(&axum::http::header::CONTENT_TYPE);
    let runs = present.runs.iter().map(|run| Run {
        start: run.range.start,
        end: run.range.end,
        memory: run.held.memory,
        disk: run.held.disk,
        pinned: run.held.pinned,
    });
    CacheState {
        etag: present.version.etag.as_str().to_owned(),
        version_id: present.version.version_id.clone(),
        content_type: content_type.map(str::to_owned),
        state: present.freshness.name().to_owned(),
        freshness: present.freshness.to_string(),
        age: present.age.as_secs_f64(),
        memory: present.in_memory,
        disk: present.on_disk,
        absent: present.absent,
        pinned: present.pinned,
        runs: joined(runs.collect()),
        runs_left_off: present.left_off as u64,
    }
}

/// The orders of the page to fetch objects.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WarmList {
    /// The last orders, the latest first; at most eight.
    pub warms: Vec<WarmState>,
}

/// Answers `GET /api/v1/warms`.
#[utoipa::path(
    get,
    path = "/api/v1/warms",
    operation_id = "list_warms",
    responses((status = 200, body = WarmList))
)]
pub(crate) async fn warms(State(console): State<Console>) -> Json<WarmList> {
    Json(WarmList {
        warms: console.warms.list(),
    })
}

/// Answers `GET /api/v1/objects`.
#[utoipa::path(
    get,
    path = "/api/v1/objects",
    operation_id = "list_objects",
    params(FolderQuery),
    responses((status = 200, body = Folder), (status = 404, body = ApiError), (status = 410, body = ApiError))
)]
pub(crate) async fn list(
    State(console): State<Console>,
    Query(query): Query<FolderQuery>,
) -> Result<Json<Folder>, ApiError> {
    collect(&console, query).await.map(Json)
}
