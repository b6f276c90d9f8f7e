//! Looks into the folders of a page that may have no key.

use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;

use super::answer::NameRequest;
use super::{NameRequestCause, of_listing};
use crate::{Core, Error};
use tidegate_origin::list::EmptyPages;
use tidegate_origin::{List, ListedObject, Listing, Origin};

/// The most folders of a page that are looked into. Further ones are believed.
const MAX_LOOKS: usize = 64;

/// The most looks of a page at once.
const MAX_CONCURRENT_LOOKS: usize = 8;

/// The longest time for the looks of a page: a store may walk through all that was removed.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Removes the folders from a page that are doubted, and in which no key is. A look costs a listing of one key, and counts
/// for the `negative_ttl`. If it fails or takes too long, the folder is believed.
pub(super) async fn drop_empty_folders(
    core: &Core,
    origin: &Arc<dyn Origin>,
    asked: &NameRequest,
    page: &mut Listing,
) {
    let doubted = core.names.doubted_folders(asked, &page.folders);
    let (empty, unknown): (Vec<_>, Vec<_>) = doubted.into_iter().partition(|it| it.is_empty);
    let mut empty: HashSet<_> = empty.into_iter().map(|it| it.prefix).collect();
    let looks = unknown.into_iter().take(MAX_LOOKS).map(|it| async {
        let asked = NameRequest {
            epoch: core.names.epoch(),
            at: core.now(),
            ..*asked
        };
        core.metrics.asked_for_names(NameRequestCause::Name);
        let is_empty = first_key(origin, &it.prefix).await.ok()?.is_none();
        core.names.note_look(&asked, &it.prefix, is_empty);
        is_empty.then_some(it.prefix)
    });
    let looks = stream::iter(looks).buffer_unordered(MAX_CONCURRENT_LOOKS);
    let looks = looks.for_each(|found| {
        empty.extend(found);
        ready(())
    });
    let _ = timeout(LOOK_TIMEOUT, looks).await;
    if !empty.is_empty() {
        page.folders.retain(|prefix| !empty.contains(prefix));
    }
}

/// Returns the first key that begins with a prefix. A page may be empty and not the last one.
pub(super) async fn first_key(
    origin: &Arc<dyn Origin>,
    prefix: &str,
) -> Result<Option<ListedObject>, Error> {
    let (mut after, mut empty) = (None, EmptyPages::default());
    loop {
        let list = List {
            prefix: prefix.to_owned(),
            delimiter: false,
            after,
            limit: 1,
        };
        let mut page = origin.list(list).await.map_err(of_listing)?;
        if let Some(first) = page.objects.pop() {
            return Ok(Some(first));
        }
        after = empty.next(&page).map_err(of_listing)?;
        if after.is_none() {
            return Ok(None);
        }
    }
}
