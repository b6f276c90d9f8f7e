//! This process's own changes to names, which it sees at once.

use std::collections::HashSet;

use super::answer::{Meaning, NameRequest};
use super::recording::doubt_passed;
use super::{Engine, Facts, NameRequestCause, of_listing};
use crate::Core;
use crate::open::records;
use crate::{Error, ReadContext};
use tidegate_origin::List;
use tidegate_origin::list::EmptyPages;
use tidegate_plan::{ObjectId, ObjectKey, OriginId};

impl Core {
    /// Records an object that was just written; if the bucket has reported another version meanwhile, forgets the name.
    pub fn name_written(&self, id: &ObjectId, facts: Facts) {
        match records::is_doubted(self, id) {
            true => self.names.forget_key(id.origin, id.key.as_str()),
            false => self.name(id, Meaning::File(facts)),
        }
    }

    /// Records that the object was just removed, and that there is no folder of its name.
    pub(crate) fn name_removed(&self, id: &ObjectId) {
        self.name(id, Meaning::Missing);
        if let Some(folder) = id.key.as_str().strip_suffix('/') {
            self.doubt_folder(id.origin, folder);
        }
    }

    /// Records that an object was just removed; other identities forget its name. A name that was not known as a file's may
    /// be a folder's, and is forgotten. Returns the folders that may be gone with it: they are forgotten as well.
    pub fn object_removed(&self, id: &ObjectId) -> Vec<ObjectId> {
        let key = id.key.as_str();
        if self.names.is_file(id.origin, key) {
            self.forget_others(id);
            self.record_removed(id);
        } else {
            self.forget(id);
        }
        let forget = |id: ObjectId| self.names.forget_emptied(id.origin, key);
        let emptied: HashSet<_> = self.everywhere(id).into_iter().flat_map(forget).collect();
        let folder = |key: String| {
            let key = ObjectKey::new(&key).ok()?;
            Some(ObjectId {
                origin: id.origin,
                key,
            })
        };
        emptied.into_iter().filter_map(folder).collect()
    }

    /// Records a folder that was just created, with nothing in it.
    pub fn folder_made(&self, id: &ObjectId) {
        let path = id.key.as_str().trim_end_matches('/');
        let now = self.now();
        for (origin, path) in self.names.record_made_folder(id.origin, path, now) {
            doubt_passed(self, origin, &path, now);
        }
    }

    /// Records that a folder is there whose creation was recorded earlier; its contents stay known.
    pub fn folder_confirmed(&self, id: &ObjectId) {
        let path = id.key.as_str().trim_end_matches('/');
        self.names.record_folder(id.origin, path, self.now());
    }

    /// Records a folder that exists since just now.
    pub fn folder_written(&self, id: &ObjectId) {
        self.name(id, Meaning::Folder);
    }

    /// Records that a folder was just removed, with everything in it.
    pub fn folder_removed(&self, origin: OriginId, path: &str) {
        self.names
            .record_change(origin, path, Meaning::Missing, self.now());
        self.doubt_folder(origin, path);
    }

    /// Has listings under every identity looked at more closely that show this folder, which was just removed.
    fn doubt_folder(&self, origin: OriginId, path: &str) {
        for origin in self.identities.all(origin) {
            self.names.doubt_folder(origin, path);
        }
    }

    /// Forgets everything known of a name, for the bucket may have changed it.
    pub fn forget_name(&self, origin: OriginId, path: &str) {
        self.names.forget_key(origin, path);
    }

    fn name(&self, id: &ObjectId, meaning: Meaning) {
        let path = id.key.as_str().trim_end_matches('/');
        self.names
            .record_change(id.origin, path, meaning, self.now());
    }
}

/// A point in the order of changes of names. It tells whether a look-up that began then is overtaken.
#[derive(Debug, Clone, Copy)]
pub struct NameEpoch(u64);

impl Engine {
    /// Returns the present point in the order of changes.
    #[must_use]
    pub fn name_epoch(&self) -> NameEpoch {
        NameEpoch(self.core.names.epoch())
    }

    /// Records this process's change of facts that a look-up has found, which began at `since`. Returns `false`, and
    /// records nothing, if the name was changed or found otherwise since.
    pub fn change_facts(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
        facts: Facts,
        since: NameEpoch,
    ) -> bool {
        let (core, id) = (&self.core, source.object(key));
        let asked = NameRequest {
            epoch: since.0,
            ..self.name_request(source)
        };
        let meaning = Meaning::File(facts);
        let is_recorded = core
            .names
            .record_change_of_found(&asked, key.as_str(), meaning);
        if is_recorded && records::is_doubted(core, &id) {
            core.names.forget_key(id.origin, key.as_str());
        }
        is_recorded
    }

    /// Returns whether the object is known to be missing, without a request.
    pub fn is_known_missing(&self, source: &ReadContext, key: &ObjectKey) -> bool {
        let seen = self
            .core
            .names
            .get(&self.name_request(source), key.as_str());
        let missing = seen.filter(|seen| seen.meaning.is_missing());
        missing.is_some_and(|seen| {
            let found = self.opened_since(source, key.as_str(), seen.since);
            found.is_none()
        })
    }

    /// Returns whether a name continues the stem of a file that this process has newly made within the `ttl`: its program is
    /// likely to make that name, too.
    #[must_use]
    pub fn continues_own_name(&self, source: &ReadContext, path: &str) -> bool {
        let asked = self.name_request(source);
        self.core.names.continues_own(&asked, path)
    }

    /// Returns whether only the folder's own key begins with `prefix`, which ends in `/`, and has no bytes. Sends no
    /// request if the whole folder is known, otherwise one, or more if a page is short and not the last one.
    ///
    /// # Errors
    /// If the origin failed.
    pub async fn is_empty(&self, source: &ReadContext, prefix: &str) -> Result<bool, Error> {
        if let Some(known) = self.core.names.is_empty(&self.name_request(source), prefix) {
            return Ok(known);
        }
        let (mut after, mut empty) = (None, EmptyPages::default());
        loop {
            let list = List {
                prefix: prefix.to_owned(),
                delimiter: false,
                after,
                limit: 2,
            };
            self.core.metrics.asked_for_names(NameRequestCause::Name);
            let page = self.ask_listing(source, list).await?;
            if page
                .objects
                .iter()
                .any(|one| one.key != prefix || one.size > 0)
            {
                return Ok(false);
            }
            after = empty.next(&page).map_err(of_listing)?;
            if after.is_none() {
                return Ok(true);
            }
        }
    }
}
