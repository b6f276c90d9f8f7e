//! The origin and profile with which a route or a mount reads.

use std::sync::Arc;

use arc_swap::ArcSwap;

use tidegate_origin::Origin;
use tidegate_plan::{ObjectId, ObjectKey, Profile};

/// An origin, and the rules for its objects here. Routes with the same origin share its cache
/// whatever their profiles.
#[derive(Debug)]
pub struct ReadContext {
    /// The bucket.
    pub origin: Arc<dyn Origin>,
    /// The rules; they can be exchanged at run time.
    pub profile: ArcSwap<Profile>,
}

impl ReadContext {
    /// Returns the object of this key in the bucket.
    #[must_use]
    pub fn object(&self, key: &ObjectKey) -> ObjectId {
        ObjectId {
            origin: self.origin.id(),
            key: key.clone(),
        }
    }
}
