//! Answers from a closed draft that is not in the bucket yet: whole, without validators and not cacheable, for no
//! version of it has an ETag so far.

use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_LENGTH, ETAG, EXPIRES, IF_MATCH, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::Frontend;
use super::block::Block;
use super::body::Content;
use super::delivery::Delivery;
use super::handler::Asked;
use super::reply::Reply;
use super::rescue::Cause;
use super::status::CACHE_STATUS;
use tidegate_engine::Error;
use tidegate_plan::{ByteRange, ETag, Version};
use tidegate_write::ClosedDraft;

/// Its cache status: neither `hit` nor `fwd` (RFC 9211), because the cache was not used.
const DRAFT: HeaderValue = HeaderValue::from_static("tidegate; detail=draft");

impl Frontend {
    /// Returns the answer out of a draft; `None` if the draft has changed: the object decides.
    pub(super) async fn drafted(
        &self,
        asked: &Asked<'_>,
        draft: ClosedDraft,
    ) -> Option<Result<Reply, Cause>> {
        // It has no ETag to match; `*` matches any version.
        let wanted = asked.parts.headers.get(IF_MATCH);
        if wanted.is_some_and(|wanted| wanted != "*") {
            return Some(Err(Cause::Precondition));
        }
        let headers = headers(asked, &draft);
        let range = ByteRange::new(0, draft.size());
        let content = if asked.parts.method == Method::HEAD || range.is_empty() {
            Content::Nothing
        } else {
            let mut reader = draft.read_at(range);
            match reader.prime().await {
                Ok(()) => {}
                Err(Error::Changed) => return None,
                Err(error) => return Some(Err(error.into())),
            }
            let delivery = Delivery::single(draft, reader, range, self.allowance.clone());
            Content::Draft(delivery.into())
        };
        Some(Ok(Reply::new(StatusCode::OK, headers, content)))
    }
}

/// Returns the headers that its object will have, except those about a version.
fn headers(asked: &Asked<'_>, draft: &ClosedDraft) -> HeaderMap {
    let version = Version {
        etag: ETag::parse("draft").expect("a tag"),
        size: draft.size(),
        last_modified: None,
        version_id: None,
        headers: draft.headers().clone(),
    };
    let mut headers = Block::new(&version, &asked.key, &asked.route.settings).full;
    for name in [ETAG, LAST_MODIFIED, EXPIRES, AGE, VARY] {
        headers.remove(name);
    }
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_LENGTH, draft.size().into());
    headers.insert(CACHE_STATUS, DRAFT);
    headers
}
