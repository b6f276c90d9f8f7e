//! Questions to the bucket about a single name.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};

use super::answer::{Meaning, NameRequest};
use super::doubted::first_key;
use super::{Answer, Doubts, NameKind, NameRequestCause, of_listing, version_only};
use crate::open::records;
use crate::{Engine, Error, ReadContext};
use tidegate_origin::{List, Listing};
use tidegate_plan::{ObjectKey, Timestamp, folder};

impl Engine {
    /// Asks both questions concurrently, or those that remain.
    pub(super) async fn ask_by_name(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        asked: &NameRequest,
        doubts: Doubts,
    ) -> Result<Answer, Error> {
        let metrics = &self.core.metrics;
        metrics.asked_for_names(NameRequestCause::Name);
        let as_folder = self.prove(source, key.as_str(), asked);
        if doubts.was_folder {
            // It most likely still is a folder: then no other question is needed.
            match as_folder.await {
                Ok(true) => return Ok(self.since_asked(asked, NameKind::Folder, asked.ttl)),
                Ok(false) => return self.ask_as_file(source, key, asked, doubts.missing).await,
                Err(error) => return Err(error),
            }
        }
        let as_folder = pin!(as_folder);
        let as_file = pin!(async {
            match doubts.missing {
                true => Err(Error::NotFound),
                false => {
                    metrics.asked_for_names(NameRequestCause::Name);
                    self.open(source, key, version_only()).await
                }
            }
        });
        let (found, proven) = match select(as_folder, as_file).await {
            Either::Left((Ok(true), _)) => {
                return Ok(self.since_asked(asked, NameKind::Folder, asked.ttl));
            }
            Either::Left((proven, as_file)) => (as_file.await, proven),
            Either::Right((found, as_folder)) => (found, as_folder.await),
        };
        match (found, proven) {
            (_, Ok(true)) => Ok(self.since_asked(asked, NameKind::Folder, asked.ttl)),
            (Ok(object), _) => Ok(self.is_file(&object, key.as_str(), asked)),
            (Err(Error::NotFound), Ok(false)) => Ok(self.is_missing(key, asked)),
            (Err(Error::NotFound), Err(error)) | (Err(error), _) => Err(error),
        }
    }

    /// Asks for the object of a name that is no folder any more, unless that is `missing`.
    async fn ask_as_file(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        asked: &NameRequest,
        missing: bool,
    ) -> Result<Answer, Error> {
        if missing {
            return Ok(self.is_missing(key, asked));
        }
        self.core.metrics.asked_for_names(NameRequestCause::Name);
        match self.open(source, key, version_only()).await {
            Ok(object) => Ok(self.is_file(&object, key.as_str(), asked)),
            Err(Error::NotFound) => Ok(self.is_missing(key, asked)),
            Err(error) => Err(error),
        }
    }

    /// Returns whether any key continues `path` with a `/`.
    async fn prove(
        &self,
        source: &ReadContext,
        path: &str,
        asked: &NameRequest,
    ) -> Result<bool, Error> {
        let (origin, at, prefix) = (source.origin.clone(), self.core.now(), format!("{path}/"));
        let ask = async move { first_key(&origin, &prefix).await };
        let Some(proof) = self.core.run_on_origin_runtime(ask).await? else {
            return Ok(false);
        };
        self.note_shown(source, &proof.key, at);
        for folder in folder::folders_of(&proof.key) {
            let folder = folder.trim_end_matches('/');
            self.core.names.believe_folder(asked.origin, folder);
            self.core.names.put(asked, folder, Meaning::Folder);
        }
        Ok(true)
    }

    /// Requests a page of keys that is no part of a known folder. The keys on it are not missing.
    pub(super) async fn ask_listing(
        &self,
        source: &ReadContext,
        list: List,
    ) -> Result<Listing, Error> {
        let (origin, at) = (source.origin.clone(), self.core.now());
        let ask = async move { origin.list(list).await.map_err(of_listing) };
        let page = self.core.run_on_origin_runtime(ask).await?;
        for listed in &page.objects {
            self.note_shown(source, &listed.key, at);
        }
        Ok(page)
    }

    /// Records that a request of the time `at` has shown a key.
    fn note_shown(&self, source: &ReadContext, key: &str, at: Timestamp) {
        if let Ok(key) = ObjectKey::new(key) {
            records::drop_missing(&self.core, &source.object(&key), at);
        }
    }
}
