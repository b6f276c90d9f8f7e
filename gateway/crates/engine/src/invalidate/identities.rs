//! The identities of one bucket: a change through one of them must reach all others.
//!
//! Objects are cached separately for each identity (`plan::bucket`). A purge, a write or a deletion concerns the
//! bucket, and so all its identities.

use std::collections::HashMap;
use std::sync::Arc;

use super::subscribers::Scope;
use crate::Core;
use crate::open::records;
use tidegate_origin::Origin;
use tidegate_plan::{ObjectId, OriginId};

/// The identities of the configured origins, by bucket.
#[derive(Debug)]
pub(crate) struct Identities(HashMap<OriginId, Arc<[OriginId]>>);

impl Identities {
    pub(crate) fn of(origins: &[(String, Arc<dyn Origin>)]) -> Self {
        let origins = || origins.iter().map(|(_, origin)| origin);
        let of_one = |origin: &Arc<dyn Origin>| {
            let same = origins().filter(|other| other.bucket() == origin.bucket());
            let mut all: Vec<_> = same.map(|other| other.id()).collect();
            all.sort();
            all.dedup();
            (origin.id(), all.into())
        };
        Self(origins().map(of_one).collect())
    }

    /// Returns every identity of the bucket to which this one belongs, itself included.
    pub(crate) fn all(&self, id: OriginId) -> Vec<OriginId> {
        self.0.get(&id).map_or_else(|| vec![id], |all| all.to_vec())
    }
}

impl Core {
    /// Returns every identity of the bucket to which this one belongs, itself included.
    pub fn identities_of(&self, id: OriginId) -> Vec<OriginId> {
        self.identities.all(id)
    }

    /// Returns the object under every identity of its bucket, its own included.
    pub fn everywhere(&self, id: &ObjectId) -> Vec<ObjectId> {
        let same = |origin| ObjectId {
            origin,
            key: id.key.clone(),
        };
        self.identities
            .all(id.origin)
            .into_iter()
            .map(same)
            .collect()
    }

    /// Returns the object under the first identity of its bucket.
    pub fn of_bucket(&self, id: &ObjectId) -> ObjectId {
        let first = self.everywhere(id).into_iter().min();
        first.unwrap_or_else(|| id.clone())
    }

    /// Forgets the object under every identity: nothing begun before brings an old version back.
    pub fn forget(&self, id: &ObjectId) {
        for id in &self.everywhere(id) {
            self.forget_one(id);
        }
    }

    /// Like [`Core::forget`], but only under the other identities, which it returns.
    pub fn forget_others(&self, id: &ObjectId) -> Vec<ObjectId> {
        let mut others = self.everywhere(id);
        others.retain(|other| other.origin != id.origin);
        others.iter().for_each(|other| self.forget_one(other));
        others
    }

    /// Like [`Core::forget_others`]; also tells their subscribers, without waiting for them.
    pub fn forget_elsewhere(self: &Arc<Self>, id: &ObjectId) {
        for other in self.forget_others(id) {
            let core = self.clone();
            let told = async move {
                core.report_purge(other.origin, &Scope::Key(other.key))
                    .await
            };
            self.spawn(told);
        }
    }

    fn forget_one(&self, id: &ObjectId) {
        records::put(self, id, None);
        self.names.forget_key(id.origin, id.key.as_str());
    }
}
