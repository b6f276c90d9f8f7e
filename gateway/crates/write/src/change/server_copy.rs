//! Copies of objects that the store makes by itself.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::change::change_mark::change_key;
use crate::{Drafts, MAX_DRAFT_STREAMS, WriteError};
use tidegate_engine::ReadContext;
use tidegate_origin::write::Headers;
use tidegate_origin::{CopySource, Guard, OriginError, PartSums, Written};
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
) -> Result<Written, WriteError> {
    inner.check_journals(new).await?;
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
    let bytes = COPY_PART_BYTES.min(most);
    let step = usize::try_from(bytes).unwrap_or(usize::MAX);
    let pieces = (1_u32..).zip((0..version.size).step_by(step));
    let parts = pieces.map(|(number, start)| {
        let range = ByteRange::new(start, version.size.min(start + bytes));
        let (whole, upload) = (whole.clone(), &upload);
        async move {
            let tag = origin.copy_part(upload, number, whole, range).await?;
            moved();
            Ok::<_, OriginError>((number, tag))
        }
    });
    let parts = stream::iter(parts).buffered(MAX_DRAFT_STREAMS);
    let parts: Result<Vec<_>, _> = parts.try_collect().await;
    let guard = match from == to {
        true => Guard::Same(version.etag.clone()),
        false => guard,
    };
    let written = match parts {
        Ok(parts) => {
            let complete = origin.complete(&upload, parts, guard);
            change_key(&inner.core, (new, ChangeKind::Created), complete).await
        }
        Err(error) => Err(error),
    };
    if written.is_err() {
        // Otherwise a lifecycle rule would have to remove it.
        let _ = origin.abort(&upload).await;
    }
    Ok(written?)
}
