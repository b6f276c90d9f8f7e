//! What a name means: an object, a folder, or nothing. For frontends that have folders.
//!
//! A bucket has none: a folder is what keys begin with. To find out what one unknown name is, two
//! questions suffice, asked side by side: is there an object of this key (a HEAD), and is there a key
//! that goes on behind it with a `/` (a listing of one key)? A parent is never listed to find a
//! name. What the listing returns proves every folder on its path.
//!
//! What was found is kept in a bounded table for as long as the profile's `ttl` (`negative_ttl` for
//! what is missing). The listing of a folder fills it too. What a listing says of an object (size,
//! ETag, time) answers questions about the name, and never becomes a version: headers are missing.
//! Where it contradicts the version at hand, that one is confirmed before it is used again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::{Engine, Error, Object, Open, Source, resolve};
use crate::origin::list::PAGE;
use crate::origin::{After, List, Listed, Listing, OriginError};
use crate::plan::folder::{self, Child};
use crate::plan::{ETag, ObjectKey, Timestamp, Version};
use crate::store::Entry as Known;

mod own;
mod table;

pub(super) use table::Table;
use table::{Asked, Meaning};

/// How long a stale answer holds that is given because the origin fails.
const GIVEN: Duration = Duration::from_secs(1);

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An object.
    File(Facts),
    /// The beginning of other keys.
    Folder,
    /// Neither.
    Missing,
}

/// What is known of an object without its being opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Length in bytes.
    pub size: u64,
    /// When it was written: `mtime`.
    pub modified: Option<Timestamp>,
    /// When it, or its name, was last changed: `ctime`.
    pub changed: Option<Timestamp>,
    /// Its validator, where it is known.
    pub etag: Option<ETag>,
    /// The version with its headers; a listing tells none.
    pub version: Option<Arc<Version>>,
}

/// An answer, and for how long it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What the name means.
    pub entry: Entry,
    /// For how long that need not be asked again.
    pub fresh: Duration,
}

/// Some of the names in a folder.
#[derive(Debug, Clone)]
pub struct Page {
    /// Names, with what each meant when it was listed; [`Entry::Missing`] is none of them. For how long
    /// that holds, and whether it still does, [`Engine::known`] says.
    pub names: Vec<(String, Entry)>,
    /// Where the next page begins; `None`: there is none.
    pub next: Option<Place>,
}

/// A place between two pages of a folder.
#[derive(Debug, Clone)]
pub struct Place {
    after: After,
    names: folder::Names<Facts>,
}

impl Engine {
    /// What `path` means, a key without a slash at its end. `headers`: of an object the version is
    /// wanted, with its headers.
    ///
    /// Costs nothing where the name is known; else a HEAD and a listing of one key at most. The
    /// freshness of an object of a known version is that version's. A path that is no key is
    /// missing. While the origin fails, what a name meant holds for the profile's `stale_if_error`.
    ///
    /// # Errors
    /// When the origin was needed and failed, and no stale answer was allowed.
    pub async fn look_up(
        &self,
        source: &Arc<Source>,
        path: &str,
        headers: bool,
    ) -> Result<Answer, Error> {
        let Ok(key) = ObjectKey::new(path) else {
            return Ok(self.answer(source, Entry::Missing));
        };
        let asked = self.asked(source);
        let error = match self.find_out(source, path, key, &asked, headers).await {
            Err(error) if error.excuses_stale() => error,
            // Who was told of that has forgotten the name before this answer. A folder stays one as long as there
            // is anything in it.
            Ok(found) if found.entry != Entry::Folder && !self.core.names.holds(&asked, path) => {
                return Ok(lasting(found.entry, Duration::ZERO));
            }
            answer => return answer,
        };
        match self.core.names.stale(&asked, path) {
            Some(Meaning::Folder) => Ok(lasting(Entry::Folder, GIVEN)),
            Some(Meaning::File(facts)) if !headers => Ok(lasting(Entry::File(facts), GIVEN)),
            _ => Err(error),
        }
    }

    /// What `path` means, as far as that is known and fresh. Costs nothing.
    #[must_use]
    pub fn known(&self, source: &Source, path: &str) -> Option<Answer> {
        let (meaning, fresh) = self.core.names.get(&self.asked(source), path)?;
        let entry = match meaning {
            Meaning::File(facts) => Entry::File(facts),
            Meaning::Folder => Entry::Folder,
            Meaning::Missing => Entry::Missing,
        };
        Some(lasting(entry, fresh))
    }

    async fn find_out(
        &self,
        source: &Arc<Source>,
        path: &str,
        key: ObjectKey,
        asked: &Asked,
        headers: bool,
    ) -> Result<Answer, Error> {
        // Of an object that was found since, by whoever opened it, it is not missing any more.
        let seen = self.core.names.get(asked, path);
        let seen = seen.filter(|(it, _)| !it.is_missing() || !self.knows(source, &key));
        match &seen {
            Some((Meaning::Folder, fresh)) => return Ok(lasting(Entry::Folder, *fresh)),
            Some((Meaning::Missing, fresh)) => return Ok(lasting(Entry::Missing, *fresh)),
            Some(_) => {}
            None => {
                // All of a folder is known that this process made; but for what is at hand.
                let made = self.core.names.is_missing(asked, path);
                if let Some(left) = made.filter(|_| !self.knows(source, &key)) {
                    let fresh = left.min(asked.negative_ttl);
                    return Ok(lasting(Entry::Missing, fresh));
                }
            }
        }
        let at_hand = Open {
            only_if_cached: true,
            ..Open::default()
        };
        let mut missing = match self.open(source, &key, at_hand).await {
            Ok(object) if object.outcome.ttl_ms > 0 => return Ok(file(&object)),
            found => matches!(found, Err(Error::NotFound)),
        };
        let listed = match seen {
            // Who opened it since may have found out that it is gone.
            Some((Meaning::File(facts), fresh)) if !headers && !missing => {
                return Ok(lasting(Entry::File(facts), fresh));
            }
            seen => seen.is_some(),
        };
        // Known to be an object, and perhaps stale: that is asked, and no more.
        if !missing && (listed || self.knows(source, &key)) {
            match self.open(source, &key, bare()).await {
                Ok(object) => return Ok(file(&object)),
                Err(Error::NotFound) => missing = true,
                Err(error) => return Err(error),
            }
        }
        self.ask_both(source, &key, asked, missing).await
    }

    /// Whether a version of the key is remembered, however old.
    fn knows(&self, source: &Source, key: &ObjectKey) -> bool {
        let id = source.object(key);
        matches!(self.core.meta.peek(&id), Some(Known::Present(_)))
    }

    /// Both questions side by side, or only the second.
    async fn ask_both(
        &self,
        source: &Arc<Source>,
        key: &ObjectKey,
        asked: &Asked,
        missing: bool,
    ) -> Result<Answer, Error> {
        let as_file = pin!(async {
            match missing {
                true => Err(Error::NotFound),
                false => self.open(source, key, bare()).await,
            }
        });
        let as_folder = pin!(self.prove(source, key.as_str(), asked));
        let (found, proven) = match select(as_folder, as_file).await {
            Either::Left((Ok(true), _)) => return Ok(self.answer(source, Entry::Folder)),
            Either::Left((proven, as_file)) => (as_file.await, proven),
            Either::Right((found, as_folder)) => (found, as_folder.await),
        };
        match (found, proven) {
            (_, Ok(true)) => Ok(self.answer(source, Entry::Folder)),
            (Ok(object), _) => Ok(file(&object)),
            (Err(Error::NotFound), Ok(false)) => {
                let names = &self.core.names;
                names.put(asked, key.as_str(), Meaning::Missing);
                Ok(self.answer(source, Entry::Missing))
            }
            (Err(Error::NotFound), Err(error)) | (Err(error), _) => Err(error),
        }
    }

    /// Whether keys go on behind `path` with a `/`. A page may be empty and not the last one.
    async fn prove(&self, source: &Source, path: &str, asked: &Asked) -> Result<bool, Error> {
        let mut after = None;
        let proof = loop {
            let list = List {
                prefix: format!("{path}/"),
                delimiter: false,
                after,
                limit: 1,
            };
            let mut page = self.page(source, list).await?;
            match (page.objects.pop(), page.next) {
                (Some(proof), _) => break proof,
                (None, Some(next)) => after = Some(next),
                (None, None) => return Ok(false),
            }
        };
        for folder in folder::folders_of(&proof.key) {
            let folder = folder.trim_end_matches('/');
            self.core.names.put(asked, folder, Meaning::Folder);
        }
        Ok(true)
    }

    /// Names in the folder of this prefix (empty, or with the `/` that it ends with), a page's worth
    /// at a time. One request.
    ///
    /// # Errors
    /// When the origin failed.
    pub async fn list(
        &self,
        source: &Source,
        prefix: &str,
        from: Option<Place>,
    ) -> Result<Page, Error> {
        let asked = self.asked(source);
        let (after, mut names) = match from {
            Some(place) => (Some(place.after), place.names),
            None => (None, folder::Names::default()),
        };
        let list = List {
            prefix: prefix.to_owned(),
            delimiter: true,
            after,
            limit: PAGE,
        };
        let page = self.page(source, list).await?;
        for listed in &page.objects {
            self.doubt(source, listed, asked.at);
        }
        let objects = page.objects.into_iter();
        let objects = objects.map(|mut listed| {
            let key = std::mem::take(&mut listed.key);
            let facts = self.listed(source, &key, listed);
            (key, facts)
        });
        let found = names.page(prefix, objects, page.folders, page.next.is_none());
        let names_of_page = found.into_iter().map(|(name, child)| {
            let (meaning, entry) = match child {
                Child::File(facts) => (Meaning::File(facts.clone()), Entry::File(facts)),
                Child::Folder => (Meaning::Folder, Entry::Folder),
            };
            self.core
                .names
                .put_listed(&asked, &format!("{prefix}{name}"), meaning);
            (name, entry)
        });
        Ok(Page {
            names: names_of_page.collect(),
            next: page.next.map(|after| Place { after, names }),
        })
    }

    /// What a listing tells of an object.
    fn listed(&self, source: &Source, key: &str, listed: Listed) -> Facts {
        let place = (source.origin.id(), key);
        let (etag, stored) = (listed.etag, listed.last_modified);
        let (modified, changed) = self.core.times.told(place, etag.as_ref(), stored);
        Facts {
            size: listed.size,
            modified,
            changed,
            etag,
            version: None,
        }
    }

    async fn page(&self, source: &Source, list: List) -> Result<Listing, Error> {
        let origin = source.origin.clone();
        let ask = async move { origin.list(list).await.map_err(of_listing) };
        self.core.carry_out(ask).await
    }

    /// A version at hand that a younger listing contradicts must be confirmed.
    fn doubt(&self, source: &Source, listed: &Listed, asked: Timestamp) {
        let (Some(etag), Ok(key)) = (&listed.etag, ObjectKey::new(&listed.key)) else {
            return;
        };
        resolve::doubt(&self.core, &source.object(&key), |record| {
            record.confirmed < asked && !record.version.etag.weak_eq(etag)
        });
    }

    fn asked(&self, source: &Source) -> Asked {
        let profile = source.profile.load();
        Asked {
            origin: source.origin.id(),
            epoch: self.core.names.epoch(),
            at: self.core.now(),
            ttl: profile.ttl,
            negative_ttl: profile.negative_ttl,
            stale_if_error: profile.stale_if_error,
        }
    }

    fn answer(&self, source: &Source, entry: Entry) -> Answer {
        let profile = source.profile.load();
        let fresh = match entry {
            Entry::Missing => profile.negative_ttl,
            _ => profile.ttl,
        };
        Answer { entry, fresh }
    }
}

/// For the version alone; the listing beside it shows that there is a bucket.
fn bare() -> Open {
    Open {
        bare: true,
        ..Open::default()
    }
}

fn lasting(entry: Entry, fresh: Duration) -> Answer {
    Answer { entry, fresh }
}

fn file(object: &Object) -> Answer {
    let left = u64::try_from(object.outcome.ttl_ms).unwrap_or(0);
    Answer {
        entry: Entry::File(object.facts()),
        fresh: Duration::from_millis(left),
    }
}

/// No listing is missing.
fn of_listing(error: OriginError) -> Error {
    match error {
        OriginError::NotFound => Error::BadOrigin("a listing that does not exist"),
        error => error.into(),
    }
}
