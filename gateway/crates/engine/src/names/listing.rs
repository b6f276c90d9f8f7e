//! Folders page by page: for readers of a folder, and for programs that ask for several names in one.
//!
//! A page is requested once for all waiting callers. Pages that have arrived are in the table and answer there, also to
//! readers of the folder, until they are no longer fresh. A reader that began before continues from page to page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::answer::{
    Continuation, KnownNames, ListedFile, ListedPage, ListingCursor, Meaning, NameRequest,
    NamesHad, split,
};
use super::{Engine, Facts, NameKind, NamePage, NameRequestCause, PagePosition, of_listing};
use crate::Core;
use crate::{Error, ReadContext, records};
use tidegate_origin::list::MAX_PAGE_KEYS;
use tidegate_origin::{After, List, Listed, Listing};
use tidegate_plan::folder::{self, FolderEntry, is_listed, is_name};
use tidegate_plan::{ObjectId, ObjectKey, OriginId};
use tidegate_telemetry::locks::Recover as _;

/// The number of pages for which a reader waits for names in order before it reads past the table.
const MAX_EMPTY_PAGES: u32 = 4;

type PageResult = BoxFuture<'static, Result<Arc<ArrivedPage>, Error>>;

/// A page: its origin, prefix and position.
type PageKey = (OriginId, String, Option<After>);

/// Pages under way, kept alive by the callers that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<HashMap<PageKey, PendingPage>>);

#[derive(Debug)]
struct PendingPage {
    /// The epoch in which it was requested.
    epoch: u64,
    shared: WeakShared<PageResult>,
}

impl Listings {
    fn lock(&self) -> MutexGuard<'_, HashMap<PageKey, PendingPage>> {
        self.0.lock().recover()
    }
}

/// The content of a page that has arrived.
#[derive(Debug)]
struct ArrivedPage {
    names: Vec<(String, NameKind)>,
    /// The last name that the listing has reached; see [`ListingCursor::reached`].
    reached: String,
    next: Option<ListingCursor>,
}

/// The position at which a reader of a folder continues.
#[derive(Debug, Clone)]
pub(super) enum ReaderPosition {
    /// After a page, without the names that it got elsewhere.
    Page(ListingCursor, Option<NamesHad>),
    /// After names that were known.
    Known(NamesHad),
}

impl Engine {
    /// Returns a page of names in the folder of this prefix (empty, or with a `/` at its end). Sends one request, or
    /// none if all the names are known and fresh.
    ///
    /// # Errors
    /// If the origin failed.
    pub async fn list(
        &self,
        source: &ReadContext,
        prefix: &str,
        from: Option<PagePosition>,
    ) -> Result<NamePage, Error> {
        let (cursor, had) = match from.map(|place| place.0) {
            Some(ReaderPosition::Page(cursor, had))
                if !self.is_known_behind(source, prefix, &cursor) =>
            {
                (Some(cursor), had)
            }
            from => {
                let had = match from {
                    Some(ReaderPosition::Known(had)) => had,
                    Some(ReaderPosition::Page(cursor, had)) => {
                        had.unwrap_or_default().add(cursor.reached)
                    }
                    None => NamesHad::default(),
                };
                match self.list_known(source, prefix, &had).await? {
                    Some(page) => return Ok(page),
                    None => (position_after(prefix, &had), Some(had)),
                }
            }
        };
        let landed = self
            .page(source, prefix, cursor, NameRequestCause::Folder)
            .await?;
        let is_new = |name: &str| had.as_ref().is_none_or(|had| !had.has(name));
        let names = landed.names.iter().filter(|(name, _)| is_new(name));
        let names = names.cloned().collect();
        let next = landed.next.clone();
        let next = next.map(|next| PagePosition(ReaderPosition::Page(next, had)));
        Ok(NamePage { names, next })
    }

    /// Makes the next listing of this prefix's folder ask the bucket, whatever is known.
    pub fn list_anew(&self, source: &ReadContext, prefix: &str) {
        let folder = prefix.trim_end_matches('/');
        self.core.names.list_anew(source.origin.id(), folder);
    }

    /// Returns whether another reader has listed more than this position.
    fn is_known_behind(&self, source: &ReadContext, prefix: &str, cursor: &ListingCursor) -> bool {
        let (asked, folder) = (self.name_request(source), prefix.trim_end_matches('/'));
        self.core.names.is_known_behind(&asked, folder, cursor)
    }

    /// Returns names that a reader has not had, from the table and from a listing that another reader has begun.
    /// `None`: not all of the folder is known, or the next names in order are still far.
    async fn list_known(
        &self,
        source: &ReadContext,
        prefix: &str,
        had: &NamesHad,
    ) -> Result<Option<NamePage>, Error> {
        for _ in 0..MAX_EMPTY_PAGES {
            let asked = self.name_request(source);
            let known = self
                .core
                .names
                .names(&asked, prefix, had, MAX_PAGE_KEYS.into());
            let Some(KnownNames { names, then }) = known else {
                return Ok(None);
            };
            let last = names.last().map(|(name, _)| Arc::from(name.as_str()));
            let next = match (then, last) {
                (Continuation::End, _) => None,
                (_, Some(up_to)) => {
                    let told = had.told.clone();
                    Some(PagePosition(ReaderPosition::Known(NamesHad {
                        up_to,
                        told,
                    })))
                }
                (Continuation::More, None) => return Ok(None),
                (Continuation::Page(cursor), None) => {
                    self.page(source, prefix, Some(cursor), NameRequestCause::Folder)
                        .await?;
                    continue;
                }
            };
            return Ok(Some(NamePage { names, next }));
        }
        Ok(None)
    }

    /// Lists the folder of a path until the listing has passed the path, if that is worthwhile. `by_name` is the number
    /// of requests that the path costs otherwise. Returns whether the listing has passed it.
    ///
    /// # Errors
    /// If the origin failed in a way that a stale answer excuses.
    pub(super) async fn list_for(
        &self,
        source: &ReadContext,
        path: &str,
        by_name: u32,
    ) -> Result<bool, Error> {
        let (asked, names) = (self.name_request(source), &self.core.names);
        let bound = source.profile.load().list_pages;
        if !names.is_worth_listing(&asked, path, by_name, bound) {
            return Ok(false);
        }
        let (folder, name) = split(path);
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let mut cursor = names.listing_position(&asked, path);
        while cursor.as_ref().map_or(0, |cursor| cursor.number) < bound {
            let page = self
                .page(source, &prefix, cursor, NameRequestCause::Names)
                .await;
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    names.stop_listing(&asked, folder);
                    return match error.excuses_stale() {
                        true => Err(error),
                        // A request for the name itself may still succeed.
                        false => Ok(false),
                    };
                }
            };
            cursor = page.next.clone();
            if cursor.is_none() || is_listed(&page.reached, name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a page of a folder; joins one under way unless a change here has made it old.
    async fn page(
        &self,
        source: &ReadContext,
        prefix: &str,
        from: Option<ListingCursor>,
        cause: NameRequestCause,
    ) -> Result<Arc<ArrivedPage>, Error> {
        let shared = self.ask_page(source, prefix, from, cause);
        shared.await
    }

    fn ask_page(
        &self,
        source: &ReadContext,
        prefix: &str,
        from: Option<ListingCursor>,
        cause: NameRequestCause,
    ) -> Shared<PageResult> {
        let core = &self.core;
        let (origin, folder) = (source.origin.id(), prefix.trim_end_matches('/'));
        let after = from.as_ref().map(|from| from.after.clone());
        let question = (origin, prefix.to_owned(), after.clone());
        // Dropped after the lock is released: it may be the last handle, whose drop takes the lock.
        let known;
        let mut under_way = core.listings.lock();
        let asking = under_way.get(&question);
        known = asking.and_then(|asking| Some((asking.epoch, asking.shared.upgrade()?)));
        if let Some((epoch, shared)) = &known
            && !core.names.is_changed_since(origin, folder, *epoch)
        {
            return shared.clone();
        }
        let began = from
            .is_none()
            .then(|| core.names.begin_listing(origin, folder));
        let mut asked = self.name_request(source);
        asked.epoch = began.unwrap_or(asked.epoch);
        core.metrics.asked_for_names(cause);
        let list = List {
            prefix: prefix.to_owned(),
            delimiter: true,
            after,
            limit: MAX_PAGE_KEYS,
        };
        let turn = PendingPageGuard {
            core: core.clone(),
            question: question.clone(),
            epoch: asked.epoch,
        };
        let origin = source.origin.clone();
        let run = async move {
            let page = origin.list(list).await.map_err(of_listing)?;
            let landed = record_page(&turn.core, &asked, &turn.question.1, from, page);
            Ok(Arc::new(landed))
        };
        let core = self.core.clone();
        let run = async move { core.run_on_origin_runtime(run).await };
        let shared = run.boxed().shared();
        let weak = shared
            .downgrade()
            .expect("it has not been polled to its end");
        let asking = PendingPage {
            epoch: asked.epoch,
            shared: weak,
        };
        under_way.insert(question, asking);
        shared
    }
}

/// A page's place in the table of pages under way; removed when it has arrived or no caller waits.
struct PendingPageGuard {
    core: Arc<Core>,
    question: PageKey,
    epoch: u64,
}

impl Drop for PendingPageGuard {
    fn drop(&mut self) {
        let mut under_way = self.core.listings.lock();
        if under_way
            .get(&self.question)
            .is_some_and(|it| it.epoch == self.epoch)
        {
            under_way.remove(&self.question);
        }
    }
}

/// Returns the listing of a folder from after a name, which other callers do not share. `None`: from its beginning.
fn position_after(prefix: &str, had: &NamesHad) -> Option<ListingCursor> {
    (!had.up_to.is_empty()).then(|| ListingCursor {
        epoch: 0,
        number: 0,
        after: After::Key(format!("{prefix}{}", had.up_to)),
        reached: had.up_to.to_string(),
        held: folder::FolderNames::default(),
    })
}

/// Records the names of a page.
fn record_page(
    core: &Core,
    asked: &NameRequest,
    prefix: &str,
    from: Option<ListingCursor>,
    page: Listing,
) -> ArrivedPage {
    for listed in &page.objects {
        doubt(core, listed, asked);
    }
    let (epoch, number, before, mut held) = match from {
        Some(from) => (from.epoch, from.number, from.reached, from.held),
        None => (
            asked.epoch,
            0,
            String::new(),
            folder::FolderNames::default(),
        ),
    };
    let below = |key: &str| key.get(prefix.len()..).unwrap_or_default().to_owned();
    let object = page.objects.last().map(|it| below(&it.key));
    let folder = page.folders.last().map(|it| below(it));
    let reached = object.max(folder).unwrap_or(before);
    let odd = is_odd(prefix, &page);
    let something = !page.objects.is_empty() || !page.folders.is_empty();
    let objects = page.objects.into_iter().map(|mut listed| {
        let key = std::mem::take(&mut listed.key);
        let file = listed_file(core, asked.origin, &key, listed);
        (key, file)
    });
    let found = held.page(prefix, objects, page.folders, page.next.is_none());
    let next = page.next.map(|after| ListingCursor {
        epoch,
        number: number + 1,
        after,
        reached: reached.clone(),
        held,
    });
    let path = prefix.trim_end_matches('/');
    if something {
        record_folders(core, asked, prefix);
    }
    let names = found.iter().map(|(name, child)| match child {
        FolderEntry::File(told) => (name.clone(), Meaning::File(told.facts.clone()), told.stored),
        FolderEntry::Folder => (name.clone(), Meaning::Folder, None),
    });
    let landing = ListedPage {
        folder: path,
        epoch,
        number,
        names: names.collect(),
        odd,
        next: next.clone(),
    };
    core.names.record_page(asked, landing);
    let names = found.into_iter().map(|(name, child)| match child {
        FolderEntry::File(told) => (name, NameKind::File(told.facts)),
        FolderEntry::Folder => (name, NameKind::Folder),
    });
    ArrivedPage {
        names: names.collect(),
        reached,
        next,
    }
}

/// Records the folders on the way to a listed key.
fn record_folders(core: &Core, asked: &NameRequest, prefix: &str) {
    for folder in folder::folders_of(prefix) {
        let folder = folder.trim_end_matches('/');
        core.names.put(asked, folder, Meaning::Folder);
    }
}

/// Returns whether a page has keys that are no valid names.
fn is_odd(prefix: &str, page: &Listing) -> bool {
    let below = |key: &str| key.get(prefix.len()..).unwrap_or_default().to_owned();
    let object = |it: &Listed| below(&it.key);
    let folder = |it: &String| below(it).trim_end_matches('/').to_owned();
    let mut objects = page
        .objects
        .iter()
        .map(object)
        .filter(|name| !name.is_empty());
    let mut folders = page.folders.iter().map(folder);
    objects.any(|name| !is_name(&name)) || folders.any(|name| !is_name(&name))
}

/// Converts a listed object to its facts.
fn listed_file(core: &Core, origin: OriginId, key: &str, listed: Listed) -> ListedFile {
    let (etag, stored) = (listed.etag, listed.last_modified);
    let (modified, changed) = core.times.times_of((origin, key), etag.as_ref(), stored);
    ListedFile {
        facts: Facts {
            size: listed.size,
            modified,
            changed,
            etag,
            version: None,
        },
        stored,
    }
}

/// Doubts a known version that a younger listing contradicts.
fn doubt(core: &Core, listed: &Listed, asked: &NameRequest) {
    let (Some(etag), Ok(key)) = (&listed.etag, ObjectKey::new(&listed.key)) else {
        return;
    };
    let id = ObjectId {
        origin: asked.origin,
        key,
    };
    records::doubt(core, &id, |record| {
        record.confirmed < asked.at && !record.version.etag.weak_eq(etag)
    });
}
