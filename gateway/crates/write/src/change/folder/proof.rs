//! The proof that an object under a new key is the copy of the one under the old key.
//!
//! Another program may have put it there since, with the same length and the same headers. A copy need not have
//! the tag of its source: that of an upload in parts, or of an encrypted object, differs. So it is a copy if it has the
//! length and the headers, and either the tag or, byte for byte, the same content.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{Item, map_deleted};
use crate::WriteError;
use crate::publish::complete::alike;
use tidegate_engine::ReadContext;
use tidegate_origin::{Answer, Body, Condition, Get, Origin, OriginError, Priority};
use tidegate_plan::{ETag, ObjectKey, Version};
use tidegate_telemetry::locks::Recover as _;

/// The proofs of one rename.
#[derive(Debug, Default)]
pub(super) struct CopyProofs {
    /// Whether an earlier process or attempt may have made copies. Without one, an object under a new key is another
    /// program's.
    pub(super) has_earlier: bool,
    /// The tags of copies whose bytes were compared, so that another attempt does not read them again.
    known: Mutex<HashMap<ObjectKey, ETag>>,
}

impl CopyProofs {
    /// Returns the proofs of a rename that an earlier process has begun.
    pub(super) fn of_earlier() -> Self {
        Self {
            has_earlier: true,
            ..Self::default()
        }
    }

    /// Returns the tag of an item's copy. The object under the new key has `size` bytes.
    ///
    /// # Errors
    /// [`WriteError::Changed`] if the object there is no copy.
    pub(super) async fn of(
        &self,
        source: &ReadContext,
        item: &Item,
        size: u64,
    ) -> Result<ETag, WriteError> {
        if size != item.version.size {
            return Err(WriteError::Changed);
        }
        let origin = &*source.origin;
        let copy = origin.head(&item.new.key).await.map_err(map_deleted)?;
        let mut old = origin.head(&item.old.key).await.map_err(map_deleted)?;
        let mut has_headers = alike(&old.headers, &copy.headers);
        if let Some(change) = &item.waiting {
            change.attributes.store(&mut old.headers);
            has_headers |= alike(&old.headers, &copy.headers);
        }
        let is_old = old.etag.strong_eq(&item.version.etag) && old.size == item.version.size;
        if !has_headers || !is_old || copy.size != old.size {
            return Err(WriteError::Changed);
        }
        let is_known = || self.known.lock().recover().get(&item.new.key) == Some(&copy.etag);
        if !copy.etag.strong_eq(&old.etag) && !is_known() {
            let versions = [(&item.old.key, &old), (&item.new.key, &copy)];
            if !same_bytes(origin, versions).await.map_err(map_deleted)? {
                return Err(WriteError::Changed);
            }
            let mut known = self.known.lock().recover();
            known.insert(item.new.key.clone(), copy.etag.clone());
        }
        Ok(copy.etag)
    }
}

/// Reads two versions of one length, and returns whether they have the same bytes.
async fn same_bytes(
    origin: &dyn Origin,
    [one, other]: [(&ObjectKey, &Version); 2],
) -> Result<bool, OriginError> {
    if one.1.size == 0 {
        return Ok(true);
    }
    let (mut one, mut other) =
        futures_util::try_join!(body_of(origin, one), body_of(origin, other))?;
    let (mut left, mut right) = (Bytes::new(), Bytes::new());
    loop {
        if left.is_empty() {
            left = next_of(&mut one).await?;
        }
        if right.is_empty() {
            right = next_of(&mut other).await?;
        }
        let both = left.len().min(right.len());
        if both == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        if left.split_to(both) != right.split_to(both) {
            return Ok(false);
        }
    }
}

async fn body_of(
    origin: &dyn Origin,
    (key, version): (&ObjectKey, &Version),
) -> Result<Body, OriginError> {
    let get = Get {
        key: key.clone(),
        range: None,
        condition: Condition::Match {
            etag: version.etag.clone(),
            version_id: version.version_id.clone(),
        },
        priority: Priority::Ahead,
    };
    match origin.get(get).await? {
        Answer::Content(content) => Ok(content.body),
        Answer::NotModified { .. } => Err(OriginError::Changed),
    }
}

/// Returns the next bytes; none at the end.
async fn next_of(body: &mut Body) -> Result<Bytes, OriginError> {
    while let Some(bytes) = body.next().await.transpose()? {
        if !bytes.is_empty() {
            return Ok(bytes);
        }
    }
    Ok(Bytes::new())
}
