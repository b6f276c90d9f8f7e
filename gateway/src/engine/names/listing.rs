//! Folders page by page: for readers of a folder, and for programs that ask for several names in one.
//!
//! A page is asked for once, however many wait for it. What has come is in the table, and answers there until
//! it is no longer fresh, for readers of the folder too. A reader that began before goes on from page to page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::table::{Asked, Cursor, KnownNames, Landing, Meaning, Then, Told, split};
use super::{Cause, Engine, Entry, Facts, Page, Place, of_listing};
use crate::engine::core::Core;
use crate::engine::{Error, Source, resolve};
use crate::origin::list::PAGE;
use crate::origin::{After, List, Listed, Listing};
use crate::plan::folder::{self, Child, is_name, is_told};
use crate::plan::{ObjectId, ObjectKey, OriginId};

/// So many pages a reader waits for names that come in order, before it reads past the table.
const BLIND: u32 = 4;

type Asking = BoxFuture<'static, Result<Arc<Landed>, Error>>;

/// Which page: of an origin, below a prefix, behind a place.
type Question = (OriginId, String, Option<After>);

/// Pages on their way, kept alive by the callers that wait for them.
#[derive(Debug, Default)]
pub(in crate::engine) struct Listings(Mutex<HashMap<Question, UnderWay>>);

#[derive(Debug)]
struct UnderWay {
    /// When it was asked for.
    epoch: u64,
    shared: WeakShared<Asking>,
}

impl Listings {
    fn lock(&self) -> MutexGuard<'_, HashMap<Question, UnderWay>> {
        self.0
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

/// What came on a page.
#[derive(Debug)]
struct Landed {
    names: Vec<(String, Entry)>,
    /// How far the listing has come; see [`Cursor::reached`].
    reached: String,
    next: Option<Cursor>,
}

/// Where a reader of a folder goes on.
#[derive(Debug, Clone)]
pub(super) enum At {
    /// Behind a page; but for what it has had elsewhere.
    Page(Cursor, Option<Had>),
    /// Behind names that were known.
    Known(Had),
}

/// The names that a reader has had.
#[derive(Debug, Clone, Default)]
pub(super) struct Had {
    /// All of them up to this one, itself included.
    pub(super) up_to: Arc<str>,
    /// Those that a listing has told which has come so far.
    pub(super) told: String,
}

impl Had {
    /// Those, and what a listing has told that has come so far.
    fn and(mut self, told: String) -> Self {
        self.told = self.told.max(told);
        self
    }

    pub(super) fn has(&self, name: &str) -> bool {
        *name <= *self.up_to || is_told(&self.told, name)
    }
}

impl Engine {
    /// Names in the folder of this prefix (empty, or with the `/` that it ends with), a page's worth
    /// at a time. One request at most; none where all of them are known and fresh.
    ///
    /// # Errors
    /// When the origin failed.
    pub async fn list(
        &self,
        source: &Source,
        prefix: &str,
        from: Option<Place>,
    ) -> Result<Page, Error> {
        let (cursor, had) = match from.map(|place| place.0) {
            Some(At::Page(cursor, had)) if !self.is_known_behind(source, prefix, &cursor) => {
                (Some(cursor), had)
            }
            from => {
                let had = match from {
                    Some(At::Known(had)) => had,
                    Some(At::Page(cursor, had)) => had.unwrap_or_default().and(cursor.reached),
                    None => Had::default(),
                };
                match self.list_known(source, prefix, &had).await? {
                    Some(page) => return Ok(page),
                    None => (behind(prefix, &had), Some(had)),
                }
            }
        };
        let landed = self.page(source, prefix, cursor, Cause::Folder).await?;
        let is_new = |name: &str| had.as_ref().is_none_or(|had| !had.has(name));
        let names = landed.names.iter().filter(|(name, _)| is_new(name));
        let names = names.cloned().collect();
        let next = landed.next.clone();
        let next = next.map(|next| Place(At::Page(next, had)));
        Ok(Page { names, next })
    }

    /// The next listing of the folder of this prefix asks the bucket, whatever is known.
    pub fn list_anew(&self, source: &Source, prefix: &str) {
        let folder = prefix.trim_end_matches('/');
        self.core.names.list_anew(source.origin.id(), folder);
    }

    /// Whether another reader has had more of a listing than this place of it.
    fn is_known_behind(&self, source: &Source, prefix: &str, cursor: &Cursor) -> bool {
        let (asked, folder) = (self.asked(source), prefix.trim_end_matches('/'));
        self.core.names.is_known_behind(&asked, folder, cursor)
    }

    /// Names that a reader has not had, from the table, and from a listing that another reader has begun;
    /// `None`: not all of the folder is known, or names that come in order are still far.
    async fn list_known(
        &self,
        source: &Source,
        prefix: &str,
        had: &Had,
    ) -> Result<Option<Page>, Error> {
        for _ in 0..BLIND {
            let asked = self.asked(source);
            let known = self.core.names.names(&asked, prefix, had, PAGE.into());
            let Some(KnownNames { names, then }) = known else {
                return Ok(None);
            };
            let last = names.last().map(|(name, _)| Arc::from(name.as_str()));
            let next = match (then, last) {
                (Then::End, _) => None,
                (_, Some(up_to)) => {
                    let told = had.told.clone();
                    Some(Place(At::Known(Had { up_to, told })))
                }
                (Then::More, None) => return Ok(None),
                (Then::Page(cursor), None) => {
                    self.page(source, prefix, Some(cursor), Cause::Folder)
                        .await?;
                    continue;
                }
            };
            return Ok(Some(Page { names, next }));
        }
        Ok(None)
    }

    /// Lists the folder of a path until the path is told, if that is worth it; `by_name`: the requests that the
    /// path costs else. Says whether the path is told.
    ///
    /// # Errors
    /// When the origin failed in a way that a stale answer excuses.
    pub(super) async fn list_for(
        &self,
        source: &Source,
        path: &str,
        by_name: u32,
    ) -> Result<bool, Error> {
        let (asked, names) = (self.asked(source), &self.core.names);
        let bound = source.profile.load().list_pages;
        if !names.is_worth_listing(&asked, path, by_name, bound) {
            return Ok(false);
        }
        let (folder, name) = split(path);
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let mut cursor = names.reached(&asked, path);
        while cursor.as_ref().map_or(0, |cursor| cursor.number) < bound {
            let page = self.page(source, &prefix, cursor, Cause::Names).await;
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    names.gives_up(&asked, folder);
                    return match error.excuses_stale() {
                        true => Err(error),
                        // It may still say what the name is.
                        false => Ok(false),
                    };
                }
            };
            cursor = page.next.clone();
            if cursor.is_none() || is_told(&page.reached, name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A page of a folder; of one that is on its way already, and not made old by a change here, that one.
    async fn page(
        &self,
        source: &Source,
        prefix: &str,
        from: Option<Cursor>,
        cause: Cause,
    ) -> Result<Arc<Landed>, Error> {
        let shared = self.ask_page(source, prefix, from, cause);
        shared.await
    }

    fn ask_page(
        &self,
        source: &Source,
        prefix: &str,
        from: Option<Cursor>,
        cause: Cause,
    ) -> Shared<Asking> {
        let core = &self.core;
        let (origin, folder) = (source.origin.id(), prefix.trim_end_matches('/'));
        let after = from.as_ref().map(|from| from.after.clone());
        let question = (origin, prefix.to_owned(), after.clone());
        // Dropped after the lock is released: it may be the last one, whose end takes the lock.
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
        let mut asked = self.asked(source);
        asked.epoch = began.unwrap_or(asked.epoch);
        core.metrics.asked_for_names(cause);
        let list = List {
            prefix: prefix.to_owned(),
            delimiter: true,
            after,
            limit: PAGE,
        };
        let turn = Turn {
            core: core.clone(),
            question: question.clone(),
            epoch: asked.epoch,
        };
        let origin = source.origin.clone();
        let run = async move {
            let page = origin.list(list).await.map_err(of_listing)?;
            let landed = land(&turn.core, &asked, &turn.question.1, from, page);
            Ok(Arc::new(landed))
        };
        let core = self.core.clone();
        let run = async move { core.carry_out(run).await };
        let shared = run.boxed().shared();
        let weak = shared
            .downgrade()
            .expect("it has not been polled to its end");
        let asking = UnderWay {
            epoch: asked.epoch,
            shared: weak,
        };
        under_way.insert(question, asking);
        shared
    }
}

/// A page's turn in the table of those on their way; given up when it has come or no caller waits.
struct Turn {
    core: Arc<Core>,
    question: Question,
    epoch: u64,
}

impl Drop for Turn {
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

/// The listing of a folder from behind a name on; no other caller is told it. `None`: from its beginning.
fn behind(prefix: &str, had: &Had) -> Option<Cursor> {
    (!had.up_to.is_empty()).then(|| Cursor {
        epoch: 0,
        number: 0,
        after: After::Key(format!("{prefix}{}", had.up_to)),
        reached: had.up_to.to_string(),
        held: folder::Names::default(),
    })
}

/// Remembers what a page tells.
fn land(core: &Core, asked: &Asked, prefix: &str, from: Option<Cursor>, page: Listing) -> Landed {
    for listed in &page.objects {
        doubt(core, listed, asked);
    }
    let (epoch, number, before, mut held) = match from {
        Some(from) => (from.epoch, from.number, from.reached, from.held),
        None => (asked.epoch, 0, String::new(), folder::Names::default()),
    };
    let below = |key: &str| key.get(prefix.len()..).unwrap_or_default().to_owned();
    let object = page.objects.last().map(|it| below(&it.key));
    let folder = page.folders.last().map(|it| below(it));
    let reached = object.max(folder).unwrap_or(before);
    let odd = is_odd(prefix, &page);
    let something = !page.objects.is_empty() || !page.folders.is_empty();
    let objects = page.objects.into_iter().map(|mut listed| {
        let key = std::mem::take(&mut listed.key);
        let told = told(core, asked.origin, &key, listed);
        (key, told)
    });
    let found = held.page(prefix, objects, page.folders, page.next.is_none());
    let next = page.next.map(|after| Cursor {
        epoch,
        number: number + 1,
        after,
        reached: reached.clone(),
        held,
    });
    let path = prefix.trim_end_matches('/');
    if something {
        // There are keys below it.
        for folder in folder::folders_of(prefix) {
            let folder = folder.trim_end_matches('/');
            core.names.put(asked, folder, Meaning::Folder);
        }
    }
    let names = found.iter().map(|(name, child)| match child {
        Child::File(told) => (name.clone(), Meaning::File(told.facts.clone()), told.stored),
        Child::Folder => (name.clone(), Meaning::Folder, None),
    });
    let landing = Landing {
        folder: path,
        epoch,
        number,
        names: names.collect(),
        odd,
        next: next.clone(),
    };
    core.names.land(asked, landing);
    let names = found.into_iter().map(|(name, child)| match child {
        Child::File(told) => (name, Entry::File(told.facts)),
        Child::Folder => (name, Entry::Folder),
    });
    Landed {
        names: names.collect(),
        reached,
        next,
    }
}

/// Whether there are keys on a page that are no names.
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

/// What a listing tells of an object.
fn told(core: &Core, origin: OriginId, key: &str, listed: Listed) -> Told {
    let (etag, stored) = (listed.etag, listed.last_modified);
    let (modified, changed) = core.times.told((origin, key), etag.as_ref(), stored);
    Told {
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

/// A version at hand that a younger listing contradicts must be confirmed.
fn doubt(core: &Core, listed: &Listed, asked: &Asked) {
    let (Some(etag), Ok(key)) = (&listed.etag, ObjectKey::new(&listed.key)) else {
        return;
    };
    let id = ObjectId {
        origin: asked.origin,
        key,
    };
    resolve::doubt(core, &id, |record| {
        record.confirmed < asked.at && !record.version.etag.weak_eq(etag)
    });
}
