//! `[[hook]]`: URLs that are called when keys have changed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Secret;
use tidegate_plan::Period;

/// A URL that is called when keys of a bucket have changed, by events or through this gateway.
///
/// Changes are collected until none has come for `debounce`. A failed call is repeated; no reader waits for it. In `url`
/// and `body`, `{key}`, `{folder}`, `{bucket}`, `{event}` (created, removed or changed), `{path}` and `{count}` stand for
/// what changed, escaped for their place.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["url"]))]
pub struct Hook {
    /// The name in logs and metrics; left out: `hook-1` and so on.
    #[schemars(extend("examples" = ["audiobookshelf"]))]
    pub name: Option<String>,
    /// The changes that it is called for.
    pub on: Vec<HookEvent>,
    /// The origin whose keys it is called for; left out: all.
    #[schemars(extend("examples" = ["media"]))]
    pub origin: Option<String>,
    /// The beginning of the keys that it is called for.
    pub prefix: String,
    /// The URL. Secrets belong in `headers`.
    #[schemars(extend("examples" = ["http://127.0.0.1:13378/api/libraries/lib_1/scan"]))]
    pub url: String,
    /// The method.
    pub method: String,
    /// Headers of the request: text or secrets.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "X-Emby-Token": { "env": "JELLYFIN_KEY" } }]))]
    pub headers: BTreeMap<String, Secret>,
    /// A secret for `Authorization: Bearer`.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "file": "/etc/tidegate/audiobookshelf" }]))]
    pub bearer: Option<Secret>,
    /// The body; left out: none. JSON, unless `headers` has the `Content-Type` of a form.
    #[schemars(extend("examples" = ["{\"key\":\"{key}\"}"]))]
    pub body: Option<String>,
    /// The changes that one call reports.
    ///
    /// All of a `window`, those of a `folder`, or one `key`. Of several keys, `{key}` is their common folder; of a `folder` it is the folder. If more than 1,000 keys wait, one
    /// call reports their common folder.
    pub each: HookGrouping,
    /// The beginning of `{path}`, before the key: where the receiver has its files.
    #[schemars(extend("examples" = ["/mnt/media/"]))]
    pub path_prefix: Option<String>,
    /// The beginning of the key that `{path}` leaves out, as the `key_prefix` of a mount's route.
    pub strip_prefix: String,
    /// The time without a further change after which it is called.
    pub debounce: Period,
    /// The longest time that further changes put a call off.
    pub max_delay: Period,
    /// The longest time that one request takes.
    pub timeout: Period,
    /// The most retries of a call, after 1 s, 2 s, 4 s and so on.
    pub retries: u32,
}

impl Default for Hook {
    /// The URL has to be given: empty stands for missing.
    fn default() -> Self {
        Self {
            name: None,
            on: vec![HookEvent::Created, HookEvent::Removed],
            origin: None,
            prefix: String::new(),
            url: String::new(),
            method: "POST".to_owned(),
            headers: BTreeMap::new(),
            bearer: None,
            body: None,
            each: HookGrouping::Window,
            path_prefix: None,
            strip_prefix: String::new(),
            debounce: Period::secs(5),
            max_delay: Period::secs(60),
            timeout: Period::secs(10),
            retries: 5,
        }
    }
}

impl Hook {
    /// Returns the name of the hook at this place of the list.
    #[must_use]
    pub fn name_at(&self, index: usize) -> String {
        let name = self.name.clone();
        name.unwrap_or_else(|| format!("hook-{}", index + 1))
    }
}

/// A change that a hook is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookEvent {
    /// An object was created or replaced.
    Created,
    /// An object was removed.
    Removed,
}

/// The changes that one call reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookGrouping {
    /// All of a window.
    Window,
    /// Those of one folder.
    Folder,
    /// Those of one key.
    Key,
}
