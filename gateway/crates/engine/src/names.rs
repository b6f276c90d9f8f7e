//! The meaning of a name: an object, a folder, or nothing. For frontends that have folders.
//!
//! A bucket has no folders: a folder is a prefix of keys. Two concurrent requests identify an unknown name: a HEAD for
//! an object of this key, and a listing of one key that continues it with a `/`. The listed key proves every folder on
//! its path.
//!
//! If it is cheaper, the parent is listed instead: it is known to fit on a page, or several of its names were
//! requested. The listing also tells which names are missing (ADR 0032).
//!
//! Answers are kept in a bounded table for the profile's `ttl` (`negative_ttl` for missing names). Listings fill it
//! too. A listing's facts about an object (size, ETag, time) answer questions about the name, but never become a
//! version, because they lack headers. If they contradict the known version, that is confirmed before its next use; if
//! they show the same one, they count as a confirmation.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Error, Object, OpenOptions, ReadContext};
use tidegate_cache::Entry;
use tidegate_origin::OriginError;
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ETag, ObjectKey, Timestamp, Version};

mod answer;
mod ask;
mod confirm;
mod doubted;
pub(crate) mod hidden;
mod listing;
mod own;
mod pages;
mod recording;
mod table;

use answer::{Meaning, NameRequest};
pub use hidden::HiddenFolder;
pub use own::NameEpoch;
pub(super) use pages::Listings;
pub(super) use table::Table;

/// The time for which a stale answer holds that replaces an origin's failure.
const STALE_ANSWER_TTL: Duration = Duration::from_secs(1);

/// The kind of a name: a file, a folder, or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameKind {
    /// An object.
    File(Facts),
    /// A prefix of other keys.
    Folder,
    /// Neither.
    Missing,
}

/// The facts known about an object that was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Length in bytes.
    pub size: u64,
    /// The time at which it was written: `mtime`.
    pub modified: Option<Timestamp>,
    /// The time at which it or its name was last changed: `ctime`.
    pub changed: Option<Timestamp>,
    /// Its mode, owner and set times; `None` if it is not known which ones it has.
    pub attributes: Option<Attributes>,
    /// Its validator, if known.
    pub etag: Option<ETag>,
    /// The version with its headers; a listing has none.
    pub version: Option<Arc<Version>>,
}

/// An answer, and the time for which it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The meaning of the name.
    pub entry: NameKind,
    /// The time for which it need not be asked again.
    pub fresh: Duration,
}

/// A page of the names in a folder.
#[derive(Debug, Clone)]
pub struct NamePage {
    /// Names, with their meaning when they were listed; never [`NameKind::Missing`]. [`Engine::known`] tells whether that
    /// still holds, and for how long.
    pub names: Vec<(String, NameKind)>,
    /// The start of the next page; `None` if there is none.
    pub next: Option<PagePosition>,
}

/// A position between two pages of a folder.
#[derive(Debug, Clone)]
pub struct PagePosition(listing::ReaderPosition);

/// The reason for a request about names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameRequestCause {
    /// A single name was unknown.
    Name,
    /// A known object may have changed.
    Confirm,
    /// A folder was read.
    Folder,
    /// The folders of one parent were read one after another.
    Tree,
    /// Several names in a folder were unknown, or one in a folder that takes no more requests.
    Names,
}

impl NameRequestCause {
    /// Returns the reason as a metric label.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Confirm => "confirm",
            Self::Folder => "folder",
            Self::Tree => "tree",
            Self::Names => "names",
        }
    }
}

/// The open questions about a name.
#[derive(Debug, Clone, Copy, Default)]
struct Doubts {
    /// A listing has just told of the object, but the caller wants its headers.
    listed: bool,
    /// The object does not exist; a folder may.
    missing: bool,
    /// A version is known, and a listing has passed the name since.
    passed: bool,
    /// The name was a folder when it was last asked.
    was_folder: bool,
}

impl Engine {
    /// Returns the meaning of `path`, a key without a slash at its end. `headers` requests an object's version with its
    /// headers.
    ///
    /// Sends no request if the name or its folder is known. Otherwise it sends at most a HEAD and a listing of one key,
    /// or lists the folder within the profile's limits. An object of a known version has that version's freshness. A
    /// path that is no valid key is missing, and so is one in a hidden folder. While the origin fails, a name's last meaning holds for the profile's
    /// `stale_if_error`.
    ///
    /// # Errors
    /// If the origin was needed and failed, and no stale answer was allowed.
    pub async fn look_up(
        &self,
        source: &Arc<ReadContext>,
        path: &str,
        headers: bool,
    ) -> Result<Answer, Error> {
        let Ok(key) = ObjectKey::new(path) else {
            let fresh = source.profile.load().negative_ttl;
            return Ok(answer_for(NameKind::Missing, fresh));
        };
        if self.core.is_hidden(source.origin.id(), path) {
            return Ok(answer_for(NameKind::Missing, Duration::ZERO));
        }
        let asked = self.name_request(source);
        let error = match self.find_meaning(source, path, key, &asked, headers).await {
            Err(error) if error.excuses_stale() => error,
            // The caller's subscribers have forgotten the name before this answer.
            Ok(found) if self.is_overtaken(&found, &asked, path) => {
                return Ok(answer_for(found.entry, Duration::ZERO));
            }
            answer => return answer,
        };
        self.last_known(source, path, headers).ok_or(error)
    }

    /// Returns whether an answer was overtaken by a change since its request. A folder stays one while it has any key.
    fn is_overtaken(&self, found: &Answer, asked: &NameRequest, path: &str) -> bool {
        let names = &self.core.names;
        match found.entry {
            NameKind::Folder => names.is_unknown(asked.origin, path),
            NameKind::File(_) | NameKind::Missing => !names.is_current(asked, path),
        }
    }

    /// Returns what [`Engine::look_up`] answers while the origin fails: the last meaning of `path`, for the profile's
    /// `stale_if_error`. Sends no request.
    #[must_use]
    pub fn last_known(&self, source: &ReadContext, path: &str, headers: bool) -> Option<Answer> {
        let asked = self.name_request(source);
        let entry = match self.core.names.stale_meaning(&asked, path)? {
            Meaning::Folder => NameKind::Folder,
            Meaning::File(facts) if !headers => NameKind::File(facts),
            Meaning::Missing => NameKind::Missing,
            Meaning::File(_) | Meaning::Unknown => return None,
        };
        Some(answer_for(entry, STALE_ANSWER_TTL))
    }

    /// Returns the meaning of `path` if it is known and fresh; sends no request.
    #[must_use]
    pub fn known(&self, source: &ReadContext, path: &str) -> Option<Answer> {
        let seen = self.core.names.get(&self.name_request(source), path)?;
        let entry = match seen.meaning {
            Meaning::Folder => NameKind::Folder,
            // A reader that opened it since may have found another version.
            _ if let Some(found) = self.opened_since(source, path, seen.since) => {
                return Some(found);
            }
            Meaning::File(facts) => NameKind::File(facts),
            Meaning::Missing | Meaning::Unknown => NameKind::Missing,
        };
        Some(answer_for(entry, seen.left))
    }

    async fn find_meaning(
        &self,
        source: &Arc<ReadContext>,
        path: &str,
        key: ObjectKey,
        asked: &NameRequest,
        headers: bool,
    ) -> Result<Answer, Error> {
        let mut doubts = match self.known_answer(source, path, &key, asked, headers).await {
            Ok(answer) => return Ok(answer),
            Err(doubts) => doubts,
        };
        let object = !doubts.missing && self.knows_version(source, &key);
        let by_name = if object || doubts.was_folder { 1 } else { 2 };
        if !doubts.listed && self.list_for(source, path, by_name).await? {
            doubts = match self.known_answer(source, path, &key, asked, headers).await {
                Ok(answer) => return Ok(answer),
                Err(doubts) => doubts,
            };
        }
        // Known to be an object that may be stale: only the object is asked for.
        if !doubts.missing && (doubts.listed || self.knows_version(source, &key)) {
            self.core.metrics.asked_for_names(NameRequestCause::Confirm);
            let how = OpenOptions {
                revalidate: doubts.passed,
                ..version_only()
            };
            match self.open(source, &key, how).await {
                Ok(object) => return Ok(self.is_file(&object, path, asked)),
                Err(Error::NotFound) => doubts.missing = true,
                Err(error) => return Err(error),
            }
        }
        self.ask_by_name(source, &key, asked, doubts).await
    }

    /// Returns a fresh answer for a name, or else the questions that remain open.
    async fn known_answer(
        &self,
        source: &Arc<ReadContext>,
        path: &str,
        key: &ObjectKey,
        asked: &NameRequest,
        headers: bool,
    ) -> Result<Answer, Doubts> {
        let names = &self.core.names;
        // A name that was opened since is not missing any more.
        let seen = names.get(asked, path).filter(|seen| {
            !seen.meaning.is_missing() || self.opened_since(source, path, seen.since).is_none()
        });
        match seen.as_ref().map(|seen| (&seen.meaning, seen.left)) {
            Some((Meaning::Folder, fresh)) => {
                return Ok(self.since_asked(asked, NameKind::Folder, fresh));
            }
            Some((Meaning::Missing, fresh)) => {
                let fresh = fresh.min(asked.negative_ttl);
                return Ok(self.since_asked(asked, NameKind::Missing, fresh));
            }
            _ => {}
        }
        let found = self.open(source, key, cached_only()).await;
        let passed = names.passed_at(asked.origin, path);
        // The store sets the time of an object put over HTTP, and the answer to the PUT lacks it.
        let lacks_time = |object: &Object| object.facts().modified.is_none();
        let is_passed = |object: &Object| {
            passed.is_some_and(|at| object.confirmed() < at) || lacks_time(object)
        };
        let (missing, passed) = match &found {
            Ok(object) if object.outcome.ttl_ms > 0 && !is_passed(object) => {
                let found = NameRequest {
                    at: object.confirmed(),
                    ..*asked
                };
                return Ok(match seen {
                    Some(_) => file_answer(object),
                    None => self.is_file(object, path, &found),
                });
            }
            Ok(object) => (false, is_passed(object)),
            Err(error) => (*error == Error::NotFound, false),
        };
        // A listing requested later takes precedence.
        let seen_at = seen.as_ref().map(|seen| seen.since);
        let missing = missing && !self.was_missing_before(source, key, seen_at);
        let stale = || names.stale_meaning(asked, path);
        match seen.map(|seen| (seen.meaning, seen.left)) {
            // A reader that opened it since may have found that it is gone.
            Some((Meaning::File(facts), fresh)) if !headers && !missing => {
                Ok(self.since_asked(asked, NameKind::File(facts), fresh))
            }
            seen => Err(Doubts {
                listed: seen.is_some(),
                missing,
                passed,
                was_folder: matches!(stale(), Some(Meaning::Folder)),
            }),
        }
    }

    /// Returns whether an object was found missing before that time.
    fn was_missing_before(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
        at: Option<Timestamp>,
    ) -> bool {
        match self.core.meta.peek(&source.object(key)) {
            Some(Entry::Missing { since }) => at.is_some_and(|at| since < at),
            _ => false,
        }
    }

    /// Returns whether a version of the key is known, however old.
    fn knows_version(&self, source: &ReadContext, key: &ObjectKey) -> bool {
        let id = source.object(key);
        matches!(self.core.meta.peek(&id), Some(Entry::Present(_)))
    }

    /// Records a name as an object, so that readers of its folder see it.
    fn is_file(&self, object: &Object, path: &str, asked: &NameRequest) -> Answer {
        let answer = file_answer(object);
        if !answer.fresh.is_zero() {
            let facts = Facts {
                version: None,
                ..object.facts()
            };
            self.core.names.put(asked, path, Meaning::File(facts));
        }
        answer
    }

    /// Records a name as missing.
    fn is_missing(&self, key: &ObjectKey, asked: &NameRequest) -> Answer {
        let names = &self.core.names;
        names.put(asked, key.as_str(), Meaning::Missing);
        self.since_asked(asked, NameKind::Missing, asked.negative_ttl)
    }

    fn name_request(&self, source: &ReadContext) -> NameRequest {
        let profile = source.profile.load();
        NameRequest {
            origin: source.origin.id(),
            epoch: self.core.names.epoch(),
            at: self.core.now(),
            ttl: profile.ttl,
            negative_ttl: profile.negative_ttl,
            stale_if_error: profile.stale_if_error,
            events: source.event_span(),
        }
    }

    /// Returns an answer that was fresh for `fresh` when the name was asked for, with what is left of that time.
    fn since_asked(&self, asked: &NameRequest, entry: NameKind, fresh: Duration) -> Answer {
        let took = self.core.now().since(asked.at);
        answer_for(entry, fresh.saturating_sub(took))
    }
}

/// Opens without a request.
fn cached_only() -> OpenOptions {
    OpenOptions {
        only_if_cached: true,
        ..OpenOptions::default()
    }
}

/// Opens for the version alone; the listing beside it shows that the bucket exists.
fn version_only() -> OpenOptions {
    OpenOptions {
        bare: true,
        ..OpenOptions::default()
    }
}

fn answer_for(entry: NameKind, fresh: Duration) -> Answer {
    Answer { entry, fresh }
}

fn file_answer(object: &Object) -> Answer {
    let left = u64::try_from(object.outcome.ttl_ms).unwrap_or(0);
    Answer {
        entry: NameKind::File(object.facts()),
        fresh: Duration::from_millis(left),
    }
}

/// Converts a listing's failure: a listing cannot be missing.
pub fn of_listing(error: OriginError) -> Error {
    match error {
        OriginError::NotFound => Error::BadOrigin("a listing that does not exist"),
        error => error.into(),
    }
}
