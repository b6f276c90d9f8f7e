//! The answers about names that the table and the listings exchange.

use std::sync::Arc;
use std::time::Duration;

use super::{Facts, NameKind};
use crate::read_context::EventSpan;
use tidegate_origin::PageStart;
use tidegate_plan::folder::{self, is_listed};
use tidegate_plan::{OriginId, Timestamp};

/// The meaning of a name in the table.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    /// An object, as told by a listing.
    File(Facts),
    Folder,
    Missing,
    /// It was changed here with an unknown result: it is asked for by itself.
    Unknown,
}

impl Meaning {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// Returns the entry for frontends, if the name exists.
    pub(super) fn entry(&self) -> Option<NameKind> {
        match self {
            Self::File(facts) => Some(NameKind::File(facts.clone())),
            Self::Folder => Some(NameKind::Folder),
            Self::Missing | Self::Unknown => None,
        }
    }
}

/// The time and the rules of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameRequest {
    pub(super) origin: OriginId,
    /// An answer from an epoch before a purge is not recorded after it.
    pub(super) epoch: u64,
    pub(super) at: Timestamp,
    pub(super) ttl: Duration,
    pub(super) negative_ttl: Duration,
    pub(super) stale_if_error: Duration,
    /// The events that confirm answers, at the time of the request.
    pub(super) events: EventSpan,
}

impl NameRequest {
    /// Returns the age of an answer from `since`: the time since the bucket or its events confirmed it.
    pub(super) fn age(&self, since: Timestamp) -> Duration {
        self.at.since(self.events.confirms(since, self.at))
    }
}

/// A position between two pages of a folder's listing.
#[derive(Debug, Clone)]
pub(super) struct ListingCursor {
    /// The epoch that the listing began; 0 if it began in the middle, so that others cannot use it.
    pub(super) epoch: u64,
    /// The number of the page after it, from 0.
    pub(super) number: u32,
    pub(super) after: PageStart,
    /// The last key or folder so far, without the folder's own prefix.
    pub(super) reached: String,
    /// Files whose name a folder may still take.
    pub(super) held: folder::FolderNames<ListedFile>,
}

/// A listing's facts about an object.
#[derive(Debug, Clone)]
pub(super) struct ListedFile {
    pub(super) facts: Facts,
    /// The time at which it was written, according to the bucket.
    pub(super) stored: Option<Timestamp>,
    /// The request of its page. Held back, it is told with a later one.
    pub(super) asked: NameRequest,
}

/// A name of a page.
#[derive(Debug)]
pub(super) struct ListedName {
    pub(super) name: String,
    pub(super) meaning: Meaning,
    /// See [`ListedFile`].
    pub(super) stored: Option<Timestamp>,
    pub(super) asked: NameRequest,
}

/// A page that has arrived.
#[derive(Debug)]
pub(super) struct ListedPage<'a> {
    /// The folder, without a slash at its end.
    pub(super) folder: &'a str,
    /// The epoch that its listing began; see [`ListingCursor::epoch`].
    pub(super) epoch: u64,
    pub(super) number: u32,
    pub(super) names: Vec<ListedName>,
    pub(super) odd: bool,
    /// The position after it; `None` if it is the last page.
    pub(super) next: Option<ListingCursor>,
}

/// The content of a page that has arrived, for its readers.
#[derive(Debug, Default)]
pub(super) struct ArrivedPage {
    pub(super) names: Vec<(String, NameKind)>,
    /// The last name that the listing has reached; see [`ListingCursor::reached`].
    pub(super) reached: String,
    pub(super) next: Option<ListingCursor>,
}

/// Known names of a folder, and what follows them.
#[derive(Debug)]
pub(super) struct KnownNames {
    pub(super) names: Vec<(String, NameKind)>,
    pub(super) then: Continuation,
}

/// The continuation after known names.
#[derive(Debug)]
pub(super) enum Continuation {
    /// Nothing.
    End,
    /// More known names.
    More,
    /// The names on this page.
    Page(ListingCursor),
}

/// The names that a reader has had.
#[derive(Debug, Clone, Default)]
pub(super) struct ListingProgress {
    /// All names up to this one, itself included.
    pub(super) up_to: Arc<str>,
    /// The reach of a listing: the reader has also had all names told up to there.
    pub(super) told: String,
}

impl ListingProgress {
    /// Returns whether the reader has had no names yet.
    pub(super) fn is_none(&self) -> bool {
        self.up_to.is_empty() && self.told.is_empty()
    }

    /// Adds the names told by a listing that has reached `told`.
    pub(super) fn add(mut self, told: String) -> Self {
        self.told = self.told.max(told);
        self
    }

    pub(super) fn has(&self, name: &str) -> bool {
        *name <= *self.up_to || is_listed(&self.told, name)
    }
}

/// Returns the prefix of the folder in which the folder of this prefix lies.
pub(super) fn parent_prefix(prefix: &str) -> &str {
    let path = prefix.trim_end_matches('/');
    &prefix[..path.rfind('/').map_or(0, |at| at + 1)]
}

/// Splits a path into its folder and the name in it.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
