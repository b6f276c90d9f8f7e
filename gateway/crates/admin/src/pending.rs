//! `GET /pending`: objects written through mounts that are not in the bucket yet, as JSON.
//!
//! `stage` is the state of an object: `open` (a program has it open), `sending`, `waiting` (it will be tried again),
//! `refused` (another writer changed the object; an operator has to decide). Sizes are in bytes. `left_alone` counts the
//! drafts in the spool that this build cannot read.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::Admin;
use super::ask;
use super::place::LocatedObject;
use tidegate_write::PendingWrite;

/// Answers `GET /pending`.
pub(super) async fn list(State(admin): State<Admin>) -> Response {
    let Some(writers) = &admin.writers else {
        return ask::json(&json!({ "spool": null, "pending": [] }));
    };
    let (used, size) = writers.spooled();
    let pending = writers.pending();
    let pending = pending.iter().map(|one| {
        json!({
            "origin": admin.locate.origin(one.id.origin),
            "key": one.id.key.as_str(),
            "size": one.size,
            "spooled": one.spooled,
            "stage": one.stage.as_str(),
            "trouble": one.trouble.as_ref().map(ToString::to_string),
        })
    });
    ask::json(&json!({
        "spool": { "used": used, "size": size, "left_alone": writers.left_alone() },
        "pending": pending.collect::<Vec<_>>(),
    }))
}

/// Returns the pending state of one object; `null` if nothing of it is pending.
pub(super) fn of(admin: &Admin, object: &LocatedObject) -> Value {
    let id = object.source.object(&object.key);
    let pending = admin.writers.iter().flat_map(|writers| writers.pending());
    let found: Option<PendingWrite> = pending.into_iter().find(|one| one.id == id);
    found.map_or(Value::Null, |one| {
        json!({
            "size": one.size,
            "stage": one.stage.as_str(),
            "trouble": one.trouble.as_ref().map(ToString::to_string),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, running};
    use super::*;

    #[tokio::test]
    async fn without_a_writable_mount_nothing_is_pending() {
        let parts = running(None);
        let (status, body) = asked(&parts.admin, "GET /pending", None, "").await;
        assert_eq!(status, 200, "{body}");
        let said: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(said, json!({ "pending": [], "spool": null }));
    }
}
