//! `GET /api/v1/writes`, and `POST /api/v1/writes`: an operator's decision on a refused draft.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use futures_util::future::{join, join_all};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

use super::ApiError;
use crate::Console;
use crate::sampler::unix_time;
use tidegate_plan::{ObjectId, ObjectKey, Timestamp, Version};
use tidegate_telemetry::locks::Recover as _;
use tidegate_write::{PendingWrite, PossibleChoices, RefusedChoice, ResolveError, Stage, Writers};

/// The time for which the bucket's version of a refused object is not asked for again.
const REUSE: Duration = Duration::from_secs(30);

/// Refused objects whose version in the bucket is asked for at a time.
const MAX_ASKED: usize = 16;

/// The time that the bucket has to answer for all of them, side by side.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);

/// Objects that are written through mounts and are not in the bucket yet.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Writes {
    /// The spool; `null` if no mount is writable.
    pub spool: Option<SpoolState>,
    /// The drafts, by key.
    pub drafts: Vec<Draft>,
}

/// The fill of the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpoolState {
    /// The bytes in it.
    pub used: u64,
    /// The most bytes that it may take.
    pub size: u64,
}

/// An object that is not in the bucket yet.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Draft {
    /// The id of the draft, for a decision on it. It stays the same while the object is not in the bucket.
    pub id: String,
    /// The name of the origin; `null` if no configured origin has that bucket any more.
    pub origin: Option<String>,
    /// The key.
    pub key: String,
    /// `open` (a program has it open), `sending`, `waiting` (it will be tried again) or `refused`.
    pub stage: String,
    /// The error of the last try.
    pub trouble: Option<String>,
    /// Its size, in bytes.
    pub size: u64,
    /// Bytes of it in the spool.
    pub spooled: u64,
    /// Bytes of it that the bucket has already, in parts.
    pub sent: u64,
    /// The time until the next try, in seconds, if it waits for one.
    pub next_try: Option<f64>,
    /// The time of its last write, in seconds since 1970.
    pub modified: f64,
    /// The entity tag of the version that it began with; `null`: it began empty.
    pub base: Option<String>,
    /// Whether the bucket was asked for its version of a refused object; `false` also of another object.
    pub asked: bool,
    /// The version in the bucket, of a refused object; `null`: the bucket was not asked yet, or it does not answer.
    pub theirs: Option<TheirVersion>,
    /// The choices that can be carried out on a refused object, as far as it is known; none on another one.
    pub choices: Vec<Choice>,
}

/// The version that another writer has brought into the bucket.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TheirVersion {
    /// Whether the object is there at all.
    pub exists: bool,
    /// Its entity tag.
    pub etag: Option<String>,
    /// Its size, in bytes.
    pub size: Option<u64>,
    /// The time of its last change, in seconds since 1970.
    pub modified: Option<f64>,
}

/// A decision on a refused draft.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The id of the draft.
    pub id: String,
    /// The choice.
    pub choice: Choice,
}

/// The choice between two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// The draft replaces the version in the bucket. It needs all its bytes.
    Ours,
    /// The draft is discarded. This is always possible.
    Theirs,
    /// The draft becomes a new object beside the one in the bucket. It needs all its bytes, and none may have left the
    /// spool.
    Aside,
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DecisionResult {
    /// The key of the object that the draft has become; `null`: it was discarded.
    pub key: Option<String>,
}

/// The answers about a refused object: `None` where the bucket or the draft gave none in time.
#[derive(Debug, Clone, Default, PartialEq)]
struct RefusedVersions {
    theirs: Option<TheirVersion>,
    possible: Option<PossibleChoices>,
}

/// The answers about refused objects that the console has asked for lately.
#[derive(Debug, Default)]
pub(crate) struct KnownVersions {
    known: Mutex<HashMap<ObjectId, (Instant, RefusedVersions)>>,
    /// Held while the bucket is asked: a second caller waits for the first, and finds its answers.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl KnownVersions {
    /// Returns the last answers about an object; `None`: it was not asked for yet.
    fn of(&self, id: &ObjectId) -> Option<RefusedVersions> {
        let known = self.known.lock().recover();
        known.get(id).map(|(_, answers)| answers.clone())
    }

    /// Has an object asked for anew.
    fn forget(&self, id: &ObjectId) {
        self.known.lock().recover().remove(id);
    }

    /// Returns the refused objects to ask for now: first those never asked for, then those asked for longest ago.
    fn due(&self, mut refused: Vec<ObjectId>) -> Vec<ObjectId> {
        let known = self.known.lock().recover();
        let asked = |id: &ObjectId| known.get(id).map(|(asked, _)| *asked);
        refused.retain(|id| asked(id).is_none_or(|asked| asked.elapsed() >= REUSE));
        refused.sort_by_key(asked);
        refused.truncate(MAX_ASKED);
        refused
    }

    /// Asks for the refused objects that are due, side by side, within 3 s; a slow answer makes no other less known. One
    /// without an answer is left alone for a while. Of one that is not refused while it is asked for, as it is tried again,
    /// nothing is kept. Forgets objects that are refused no more.
    async fn ask<T, P>(&self, refused: Vec<ObjectId>, ask: impl Fn(ObjectId) -> (T, P))
    where
        T: Future<Output = Result<TheirVersion, ResolveError>>,
        P: Future<Output = Result<PossibleChoices, ResolveError>>,
    {
        let still: HashSet<ObjectId> = refused.iter().cloned().collect();
        let asked = self.due(refused).into_iter().map(|id| {
            let (theirs, possible) = ask(id.clone());
            let answers = join(timeout(ASK_TIMEOUT, theirs), timeout(ASK_TIMEOUT, possible));
            async {
                let (theirs, possible) = match answers.await {
                    (Ok(Err(ResolveError::NotRefused)), _)
                    | (_, Ok(Err(ResolveError::NotRefused))) => return None,
                    (theirs, possible) => (theirs.ok(), possible.ok()),
                };
                let known = RefusedVersions {
                    theirs: theirs.and_then(Result::ok),
                    possible: possible.and_then(Result::ok),
                };
                Some((id, known))
            }
        });
        let answers = join_all(asked).await;
        let mut known = self.known.lock().recover();
        known.retain(|id, _| still.contains(id));
        known.extend(
            answers
                .into_iter()
                .flatten()
                .map(|(id, known)| (id, (Instant::now(), known))),
        );
    }
}

impl RefusedVersions {
    /// Returns the choices to offer: one of which nothing is known is tried.
    fn choices(&self) -> Vec<Choice> {
        let possible = self.possible.unwrap_or(PossibleChoices {
            keep_ours: true,
            save_aside: true,
        });
        let all = [
            (Choice::Ours, possible.keep_ours),
            (Choice::Theirs, true),
            (Choice::Aside, possible.save_aside),
        ];
        let offered = all.into_iter().filter(|(_, is_possible)| *is_possible);
        offered.map(|(choice, _)| choice).collect()
    }
}

impl TheirVersion {
    fn of(version: Option<&Version>) -> Self {
        let modified = version.and_then(|version| version.last_modified);
        Self {
            exists: version.is_some(),
            etag: version.map(|version| version.etag.as_str().to_owned()),
            size: version.map(|version| version.size),
            modified: modified.map(Timestamp::as_secs_f64),
        }
    }
}

/// Returns the refused objects, by key.
fn refused(writers: &Writers) -> Vec<ObjectId> {
    let pending = writers.pending().into_iter();
    let refused = pending.filter(|one| one.stage == Stage::Refused);
    refused.map(|one| one.id).collect()
}

/// Asks the bucket for the versions of at most 16 refused objects, and which choices they have. Waits at most 3 s, and as
/// long again for a caller that asks already.
pub(crate) async fn ask(console: &Console) {
    if let Some(writers) = &console.admin.writers {
        let _asking = console.versions.asking.lock().await;
        ask_for(console, writers, refused(writers)).await;
    }
}

/// Asks the bucket as [`ask`] does, in the background. Does nothing while another caller asks.
pub(crate) fn ask_meanwhile(console: &Console) {
    let Some(writers) = &console.admin.writers else {
        return;
    };
    let refused = refused(writers);
    if console.versions.due(refused.clone()).is_empty() {
        return;
    }
    if let Ok(asking) = console.versions.asking.clone().try_lock_owned() {
        let (console, writers) = (console.clone(), writers.clone());
        tokio::spawn(async move {
            let _asking = asking;
            ask_for(&console, &writers, refused).await;
        });
    }
}

async fn ask_for(console: &Console, writers: &Writers, refused: Vec<ObjectId>) {
    let ask = |id: ObjectId| {
        let other = id.clone();
        let theirs = async move {
            let version = writers.theirs(&id).await?;
            Ok(TheirVersion::of(version.as_ref()))
        };
        let possible = async move { writers.possible_choices(&other).await };
        (theirs, possible)
    };
    console.versions.ask(refused, ask).await;
}

/// Returns the objects that are not in the bucket yet, with the versions in it that are known.
pub(crate) fn collect(console: &Console) -> Writes {
    let Some(writers) = &console.admin.writers else {
        return Writes {
            spool: None,
            drafts: Vec::new(),
        };
    };
    let (used, size) = writers.spooled();
    let drafts = writers.pending().into_iter().map(|pending| {
        let known = console.versions.of(&pending.id);
        let known = known.filter(|_| pending.stage == Stage::Refused);
        draft(console, pending, known)
    });
    Writes {
        spool: Some(SpoolState { used, size }),
        drafts: drafts.collect(),
    }
}

fn draft(console: &Console, pending: PendingWrite, known: Option<RefusedVersions>) -> Draft {
    let is_refused = pending.stage == Stage::Refused;
    let choices = || known.clone().unwrap_or_default().choices();
    Draft {
        id: draft_id(&pending.id),
        origin: console.admin.locate.origin(pending.id.origin),
        key: pending.id.key.as_str().to_owned(),
        stage: pending.stage.as_str().to_owned(),
        trouble: pending.trouble.map(|error| error.to_string()),
        size: pending.size,
        spooled: pending.spooled,
        sent: pending.sent,
        next_try: pending.next_try.map(|wait| wait.as_secs_f64()),
        modified: pending.modified.as_secs_f64(),
        base: pending.base.map(|base| base.etag.as_str().to_owned()),
        asked: known.is_some(),
        choices: if is_refused { choices() } else { Vec::new() },
        theirs: known.and_then(|known| known.theirs),
    }
}

/// Returns the id of the draft of an object: the bucket's number and the key, so that it needs no configured origin.
fn draft_id(id: &ObjectId) -> String {
    format!("{:016x}/{}", id.origin.0, id.key.as_str())
}

/// Carries out a decision.
pub(crate) async fn decide(
    console: &Console,
    decision: Decision,
) -> Result<DecisionResult, ApiError> {
    let none = || ApiError::missing("no draft of this object was refused");
    let writers = console.admin.writers.as_ref().ok_or_else(none)?;
    let mut pending = writers.pending().into_iter();
    let found = pending.find(|one| draft_id(&one.id) == decision.id);
    let found = found.ok_or_else(none)?;
    let key = found.id.key.as_str();
    let (choice, key) = match decision.choice {
        Choice::Ours => (RefusedChoice::KeepOurs, Some(key.to_owned())),
        Choice::Theirs => (RefusedChoice::KeepTheirs, None),
        Choice::Aside => {
            let aside = aside_name(key, unix_time() as u64);
            let key = ObjectKey::new(&aside).map_err(ApiError::bad)?;
            (RefusedChoice::SaveAside(key), Some(aside))
        }
    };
    tracing::info!(key = found.id.key.as_str(), choice = ?decision.choice, "a decision on a refused draft");
    let resolved = writers.resolve(&found.id, choice).await;
    // The next page is to say what is left.
    console.versions.forget(&found.id);
    match resolved {
        Ok(()) => Ok(DecisionResult { key }),
        Err(ResolveError::NotRefused) => Err(none()),
        Err(error) => Err(ApiError::new(StatusCode::CONFLICT, error)),
    }
}

/// Returns the key beside another one: `a/report (saved 1790000000).odt`.
fn aside_name(key: &str, time: u64) -> String {
    let (folder, name) = key
        .rsplit_once('/')
        .map_or(("", key), |(folder, name)| (folder, name));
    let slash = if folder.len() < key.len() && key.contains('/') {
        "/"
    } else {
        ""
    };
    let (stem, extension) = match name.rfind('.').filter(|at| *at > 0) {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    format!("{folder}{slash}{stem} (saved {time}){extension}")
}

/// Answers `GET /api/v1/writes`.
#[utoipa::path(
    get,
    path = "/api/v1/writes",
    operation_id = "list_writes",
    responses((status = 200, body = Writes))
)]
pub(crate) async fn list(State(console): State<Console>) -> Json<Writes> {
    ask(&console).await;
    Json(collect(&console))
}

/// Answers `POST /api/v1/writes`.
#[utoipa::path(
    post,
    path = "/api/v1/writes",
    operation_id = "decide_write",
    request_body = Decision,
    responses((status = 200, body = DecisionResult), (status = 404, body = ApiError), (status = 409, body = ApiError))
)]
pub(crate) async fn resolve(
    State(console): State<Console>,
    Json(decision): Json<Decision>,
) -> Result<Json<DecisionResult>, ApiError> {
    decide(&console, decision).await.map(Json)
}

#[cfg(test)]
mod tests;
