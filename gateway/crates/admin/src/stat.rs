//! `GET /stat?path=/a%20b.jpg&host=media.example`: the cached bytes of an object. No origin is asked.
//!
//! The path is taken as it stands, as in `POST /purge`; an `&` in it is sent as `%26`. Without `host` the answer has
//! one entry for each object that the path leads to for some host. Of a very large object only the first chunks are
//! examined; `bytes.unseen` is the size of the rest.

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Admin;
use super::ask;
use super::pending;
use super::place::{self, LocatedObject};
use tidegate_engine::Stat;
use tidegate_engine::stat::VersionStat;

/// Answers `GET /stat`.
pub(super) async fn stat(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let asked = ask::values(query.as_deref().unwrap_or_default(), ["path", "host"]);
    let place = match asked.and_then(|[path, host]| place::read(path, host)) {
        Ok(place) => place,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let located = match admin.locate.objects(&place) {
        Ok(located) => located,
        Err(error) => return error.into_response(),
    };
    let mut objects = Vec::with_capacity(located.len());
    for object in located {
        let stat = admin.engine.stat(&object.source, &object.key).await;
        objects.push(shown(&admin, &object, stat));
    }
    ask::json(&json!({ "objects": objects }))
}

fn shown(admin: &Admin, object: &LocatedObject, stat: Option<Stat>) -> Value {
    let mut value = json!({
        "key": object.key.as_str(),
        "origin": object.origin,
        "host": object.host,
        "known": stat.is_some(),
        "missing": matches!(stat, Some(Stat::Missing { .. })),
        "note": admin.engine.loaded().err(),
        "pending": pending::of(admin, object),
    });
    let more = match stat {
        None => return value,
        Some(Stat::Missing { age, left }) => json!({
            "age": age.as_secs_f64(),
            "missing_for": left.as_secs_f64(),
        }),
        Some(Stat::Present(present)) => of_version(&present),
    };
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

fn of_version(present: &VersionStat) -> Value {
    let version = &present.version;
    let modified = version
        .last_modified
        .map(|time| httpdate::fmt_http_date(time.into()));
    let cached = match (present.absent, version.size - present.unseen) {
        (0, _) if present.unseen == 0 => "whole",
        (absent, seen) if absent == seen && present.unseen == 0 => "no",
        _ => "partly",
    };
    let ranges: Vec<Value> = present
        .runs
        .iter()
        .map(|run| {
            json!({
                "start": run.range.start,
                "end": run.range.end,
                "memory": run.held.memory,
                "disk": run.held.disk,
                "pinned": run.held.pinned,
            })
        })
        .collect();
    json!({
        "version": {
            "etag": version.etag.as_str(),
            "size": version.size,
            "last_modified": modified,
            "content_type": version.header(&header::CONTENT_TYPE),
            "version_id": version.version_id,
        },
        "age": present.age.as_secs_f64(),
        "state": present.freshness.name(),
        "freshness": present.freshness.to_string(),
        "cached": cached,
        "bytes": {
            "memory": present.in_memory,
            "disk": present.on_disk,
            "absent": present.absent,
            "pinned": present.pinned,
            "unseen": present.unseen,
        },
        "ranges": ranges,
        "ranges_left_off": present.left_off,
    })
}

#[cfg(test)]
mod tests;
