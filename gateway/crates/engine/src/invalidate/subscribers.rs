//! Subscribers to invalidations: they cache something of their own, as a mount's kernel does. They are told of purges,
//! and of each other's changes.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use futures_util::future::{BoxFuture, join_all};

use crate::{Core, Engine};
use tidegate_plan::tags::Tag;
use tidegate_plan::{ETag, ObjectKey, OriginId};
use tidegate_telemetry::locks::Recover as _;

/// The objects of a bucket that a purge or a change covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One key.
    Key(ObjectKey),
    /// Every key with this prefix.
    Prefix(Arc<str>),
    /// Every object that has this tag. Only versions have tags, and a subscriber that does not know them takes every
    /// object for covered whose version is not fresh now ([`Engine::holds_fresh`]).
    Tag(Tag),
}

impl Scope {
    /// Returns whether a key may be covered.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        match self {
            Self::Key(one) => one.as_str() == key,
            Self::Prefix(prefix) => key.starts_with(&**prefix),
            Self::Tag(_) => true,
        }
    }
}

/// The kind of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PurgeKind {
    /// Nothing cached before is served afterwards.
    #[default]
    Hard,
    /// Cached versions become stale.
    Soft,
}

/// A folder of which every object has been copied to a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenamedFolder {
    /// The name of this rename: each has another one.
    pub id: String,
    /// The prefix of its old keys, which ends in `/`.
    pub from: String,
    /// The prefix of its new keys, which ends in `/`.
    pub to: String,
    /// Its objects.
    pub objects: Vec<RenamedObject>,
    /// Whether an earlier process began the rename: its subscribers may have had this report.
    pub is_resumed: bool,
}

/// An object of a renamed folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenamedObject {
    /// Its keys without the folder's prefixes.
    pub rest: String,
    /// The tag of the copied version under the old key, if that is known.
    pub etag: Option<ETag>,
}

/// A subscriber to purges. A purge returns when all subscribers are done, so a slow one delays it.
pub trait InvalidationSubscriber: Send + Sync + fmt::Debug {
    /// Reports a purge of the bucket's keys in `scope`.
    fn purged<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()>;

    /// Reports a soft purge: what the subscriber caches must be confirmed before its next use.
    fn softened<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()> {
        self.purged(origin, scope)
    }

    /// Reports that a folder has another name. The copies are not shown until this returns, so it must not wait for a
    /// kernel, which may hold the folder until the rename is answered.
    fn renamed<'a>(&'a self, _origin: OriginId, _folder: &'a RenamedFolder) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The subscribers that still live.
#[derive(Debug, Default)]
pub(crate) struct InvalidationSubscribers(Mutex<Vec<Weak<dyn InvalidationSubscriber>>>);

impl InvalidationSubscribers {
    fn all_live(&self) -> Vec<Arc<dyn InvalidationSubscriber>> {
        let mut all = self.0.lock().recover();
        all.retain(|one| one.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Engine {
    /// Tells `subscriber` of every purge from now on.
    pub fn subscribe(&self, subscriber: Weak<dyn InvalidationSubscriber>) {
        let subscribers = &self.core.subscribers.0;
        let mut all = subscribers.lock().recover();
        all.push(subscriber);
    }

    /// Tells all subscribers except `who` of a change that `who` made, like a purge. Does not wait for them: one's
    /// kernel may hold a folder until another's has released its own.
    pub fn report_change(&self, who: &dyn InvalidationSubscriber, origin: OriginId, scope: Scope) {
        let mut others = self.core.subscribers.all_live();
        others.retain(|one| !std::ptr::addr_eq(Arc::as_ptr(one), std::ptr::from_ref(who)));
        if others.is_empty() {
            return;
        }
        self.core.spawn(async move {
            join_all(others.iter().map(|one| one.purged(origin, &scope))).await;
        });
    }
}

impl Core {
    /// Tells all subscribers of a purge under one identity.
    pub async fn report_purge(&self, origin: OriginId, scope: &Scope) {
        let subscribers = self.subscribers.all_live();
        join_all(subscribers.iter().map(|one| one.purged(origin, scope))).await;
    }

    /// Tells all subscribers of a renamed folder, under every identity of its bucket: one after the other, the latest
    /// first, so that a table which mounts share comes after them.
    pub async fn report_rename(&self, origin: OriginId, folder: &RenamedFolder) {
        let subscribers = self.subscribers.all_live();
        for origin in self.identities_of(origin) {
            for one in subscribers.iter().rev() {
                one.renamed(origin, folder).await;
            }
        }
    }

    /// Tells all subscribers of a purge of a kind under one identity.
    pub(super) async fn report_purge_of(&self, origin: OriginId, scope: &Scope, kind: PurgeKind) {
        match kind {
            PurgeKind::Hard => self.report_purge(origin, scope).await,
            PurgeKind::Soft => {
                let subscribers = self.subscribers.all_live();
                join_all(subscribers.iter().map(|one| one.softened(origin, scope))).await;
            }
        }
    }
}
