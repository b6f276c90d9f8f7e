//! The durable mark of a key that is about to be changed in the bucket.
//!
//! A process that is killed while the bucket carries out a write does not know the outcome. The
//! mark outlives it: the next process finds no recorded version of a marked key, and asks the
//! bucket. So neither the old object nor a deleted one is served afterwards, not even while the
//! bucket is down.

use futures_util::future::try_join_all;

use tidegate_engine::Core;
use tidegate_engine::records;
use tidegate_origin::{MARK_REFUSED, OriginError};
use tidegate_plan::{ChangeKind, ObjectId};

/// Sends a request that changes a key in the bucket, once the key is marked under every identity of
/// the bucket. Reports the change to the engine's observer, unless the answer proves that there is none.
///
/// # Errors
/// The request's, or [`MARK_REFUSED`] if it was not sent.
pub(crate) async fn change_key<T>(
    core: &Core,
    (id, kind): (&ObjectId, ChangeKind),
    request: impl Future<Output = Result<T, OriginError>>,
) -> Result<T, OriginError> {
    let ids = core.everywhere(id);
    let marked: Vec<_> = ids.iter().map(|id| core.meta.begin_change(id)).collect();
    let _change = MarkedChange { core, ids: &ids };
    if let Err(error) = try_join_all(marked).await {
        tracing::debug!(%error, "a write is refused");
        return Err(MARK_REFUSED);
    }
    let answer = request.await;
    let is_certain = |error: &OriginError| error.proves_undone() || !error.leaves_doubt();
    if !answer.as_ref().is_err_and(is_certain) {
        core.report_change_of(id, kind);
    }
    answer
}

/// A change under way. It ends also when its writer is cancelled.
struct MarkedChange<'a> {
    core: &'a Core,
    ids: &'a [ObjectId],
}

impl Drop for MarkedChange<'_> {
    fn drop(&mut self) {
        // First, so that no answer from before the change is recorded after it.
        records::supersede(self.core, |other| self.ids.contains(other));
        for id in self.ids {
            self.core.meta.end_change(id);
        }
    }
}
