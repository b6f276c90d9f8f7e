//! Copies of objects that the store makes by itself.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt as _, stream};

use crate::abort::PendingUpload;
use crate::change::change_mark::change_key;
use crate::change::known_markers::forget_marker;
use crate::{Drafts, MAX_DRAFT_STREAMS, WriteError};
use tidegate_engine::ReadContext;
use tidegate_origin::write::Headers;
use tidegate_origin::{CopySource, Guard, OriginError, PartSums, WrittenVersion};
use tidegate_plan::{ByteRange, ChangeKind, ObjectId, ObjectKey, Version};

/// Bytes that one request copies of an object too large for one.
const COPY_PART_BYTES: u64 = 1 << 30;

/// Copies a version on the server, in parts if it is too large for one request. `guard` is the condition on the new key.
/// With `headers` the copy has those in place of the version's. A copy onto itself in parts replaces that version and no other. Calls `moved` with each part
/// that is copied.
pub(crate) async fn copy(
    inner: &Drafts,
    source: &ReadContext,
    (version, headers): (&Version, Option<Headers>),
    from: &ObjectKey,
    (new, guard): (&ObjectId, Guard),
    moved: &(dyn Fn() + Sync),
) -> Result<WrittenVersion, WriteError> {
    inner.check_journals(new).await?;
    forget_marker(inner, new);
    let (origin, to) = (source.origin.writing(), &new.key);
    let whole = CopySource {
        key: from.clone(),
        etag: version.etag.clone(),
    };
    let most = inner.settings.max_copy;
    if version.size <= most {
        let copied = change_key(
            &inner.core,
            (new, ChangeKind::Created),
            origin.copy(whole, (to, guard), headers),
        );
        return Ok(copied.await?);
    }
    let headers = headers.unwrap_or_else(|| version.headers.clone());
    let upload = origin.begin(to, headers, PartSums::Crc64).await?;
    let pending = PendingUpload::new(&inner.core, &source.origin, upload.clone());
    let bytes = COPY_PART_BYTES.min(most);
    let step = usize::try_from(bytes).unwrap_or(usize::MAX);
    let failed = AtomicBool::new(false);
    let pieces = (1_u32..).zip((0..version.size).step_by(step));
    let parts = pieces.map(|(number, start)| {
        let range = ByteRange::new(start, version.size.min(start + bytes));
        let (whole, upload, failed) = (whole.clone(), &upload, &failed);
        async move {
            if failed.load(Ordering::Relaxed) {
                return None;
            }
            let copied = origin.copy_part(upload, number, whole, range).await;
            failed.fetch_or(copied.is_err(), Ordering::Relaxed);
            moved();
            Some(copied.map(|tag| (number, tag)))
        }
    });
    // Those that were begun run to their end: a part that arrives after the abort would stay.
    let parts = stream::iter(parts).buffered(MAX_DRAFT_STREAMS);
    let parts: Vec<Result<_, _>> = parts.filter_map(ready).collect().await;
    let parts: Result<Vec<_>, OriginError> = parts.into_iter().collect();
    let guard = match from == to {
        true => Guard::Same(version.etag.clone()),
        false => guard,
    };
    let complete = origin.complete(&upload, parts?, guard);
    let written = change_key(&inner.core, (new, ChangeKind::Created), complete).await?;
    pending.completed();
    Ok(written)
}
