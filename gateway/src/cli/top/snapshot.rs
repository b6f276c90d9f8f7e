//! One look at the gateway: the answers of its admin listener.

use std::cell::RefCell;

use anyhow::Context as _;
use http::Method;
use serde_json::{Value, json};

use super::super::client::{AdminRequest, Client, run};
use super::walk::FolderPage;
use tidegate_config::{Config, Environment};

/// The parts of a look, as the paths below `/api/v1/` name them.
const PARTS: [&str; 13] = [
    "now", "streams", "tiers", "origins", "writes", "events", "hooks", "fleet", "warms", "history",
    "doctor", "routes", "settings",
];

/// The parts that are large, or seldom change, and the number of looks that use one answer of them.
const SLOW_PARTS: [&str; 4] = ["history", "doctor", "routes", "settings"];
const SLOW_TURN: u32 = 5;

/// A gateway to look at.
#[derive(Debug)]
pub(super) struct SnapshotSource<'a> {
    client: Client<'a>,
    /// The looks so far, and the slow parts of the last one.
    before: RefCell<(u32, Value)>,
}

impl<'a> SnapshotSource<'a> {
    /// Returns the gateway of this configuration. Its token is shown if there is one.
    pub(super) fn new(config: &'a Config, env: &Environment) -> anyhow::Result<Self> {
        let client = match config.admin.token {
            Some(_) => Client::with_token(config, env, "watch the gateway", "watched")?,
            None => Client::new(config, "watch the gateway"),
        };
        let before = RefCell::new((0, json!({})));
        Ok(Self { client, before })
    }

    /// Takes a look. A part that the gateway does not answer is an object with the reason, `error`.
    ///
    /// # Errors
    /// The gateway does not answer, or not with what it should, when it is asked for the first part.
    pub(super) fn take(&self) -> anyhow::Result<Snapshot> {
        run(async {
            let (turn, mut parts) = self.before.take();
            for part in PARTS {
                if SLOW_PARTS.contains(&part) && turn % SLOW_TURN != 0 {
                    continue;
                }
                parts[part] = match self.ask(format!("/api/v1/{part}")).await {
                    Err(error) if part == PARTS[0] => return Err(error),
                    answer => or_reason(answer),
                };
            }
            let slow = SLOW_PARTS.map(|part| (part.to_owned(), parts[part].clone()));
            *self.before.borrow_mut() = (turn + 1, Value::Object(slow.into_iter().collect()));
            Ok(Snapshot(parts))
        })
    }

    /// Asks for a page of a folder, which may cost a request to the bucket. If it cannot be had, the part has the reason,
    /// `error`.
    pub(super) fn folder(&self, page: &FolderPage) -> Value {
        or_reason(run(self.ask(page.target())))
    }

    async fn ask(&self, target: String) -> anyhow::Result<Value> {
        let body = self.client.send(AdminRequest {
            method: Method::GET,
            target,
            body: None,
        });
        let body = body.await.map_err(advised)?;
        serde_json::from_str(&body).context("the gateway answers no JSON")
    }
}

fn or_reason(answer: anyhow::Result<Value>) -> Value {
    answer.unwrap_or_else(|error| json!({ "error": format!("{error:#}") }))
}

/// Adds to the refusal of a gateway what can be done about it.
fn advised(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    let advice = match text.as_str() {
        text if text.contains(" 401 ") => "its token must be `admin.token` of this configuration",
        text if text.contains(" 404 ") => "its `admin.console` is off, or it is an older version",
        _ => return error,
    };
    anyhow::anyhow!("{text}; {advice}")
}

/// One look at the gateway.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Snapshot(Value);

impl Snapshot {
    /// Returns it as JSON: an object of the answers, by their names.
    pub(super) fn json(&self) -> &Value {
        &self.0
    }

    /// Returns a part.
    pub(super) fn part(&self, name: &str) -> &Value {
        &self.0[name]
    }

    /// Puts a page of a folder into the look.
    pub(super) fn set_folder(&mut self, folder: Value) {
        self.0["objects"] = folder;
    }

    #[cfg(test)]
    pub(super) fn of(parts: Value) -> Self {
        Self(parts)
    }
}
