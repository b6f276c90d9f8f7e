//! Answers from a closed draft that is not in the bucket yet: whole, without validators and not cacheable, for no
//! version of it has an ETag so far.

use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_LENGTH, ETAG, EXPIRES, IF_MATCH, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::CachedHeaders;
use super::private::make_private;
use crate::Frontend;
use crate::body::Content;
use crate::body::delivery::Delivery;
use crate::cache_status::CACHE_STATUS;
use crate::reply::Reply;
use crate::request::ObjectRequest;
use crate::request_error::RequestError;
use tidegate_engine::Error;
use tidegate_plan::{ByteRange, ETag, Version};
use tidegate_write::{ClosedDraft, UnreadableDraft};

/// Its cache status: neither `hit` nor `fwd` (RFC 9211), because the cache was not used.
const DRAFT_CACHE_STATUS: HeaderValue = HeaderValue::from_static("tidegate; detail=draft");

impl Frontend {
    /// Returns the answer out of a draft; `None` if the draft has changed: the object decides.
    pub(super) async fn answer_draft(
        &self,
        request: &ObjectRequest<'_>,
        draft: ClosedDraft,
    ) -> Option<Result<Reply, RequestError>> {
        // It has no ETag to match; `*` matches any version.
        let if_match = request.parts.headers.get(IF_MATCH);
        if if_match.is_some_and(|tags| tags != "*") {
            return Some(Err(RequestError::Precondition));
        }
        let headers = headers(request, &draft);
        let range = ByteRange::new(0, draft.size());
        let content = if request.parts.method == Method::HEAD || range.is_empty() {
            Content::Nothing
        } else {
            match Delivery::single(&draft, range, &self.client_memory).await {
                Ok(content) => content,
                Err(Error::Changed) => return None,
                Err(error) => return Some(Err(error.into())),
            }
        };
        Some(Ok(Reply::new(StatusCode::OK, headers, content)))
    }

    /// Returns the answer out of the version that a draft is published as, once it is. The bucket has no other version, and
    /// bytes of the draft have left the spool.
    pub(super) async fn answer_published(
        &self,
        request: &ObjectRequest<'_>,
        draft: UnreadableDraft,
    ) -> Result<Reply, RequestError> {
        match draft.wait_for_publish().await {
            true => self.answer_version(request).await,
            // The object exists, so it is not missing.
            false => Err(Error::Unavailable.into()),
        }
    }
}

/// Returns the headers that its object will have, except those about a version.
fn headers(request: &ObjectRequest<'_>, draft: &ClosedDraft) -> HeaderMap {
    let version = Version {
        etag: ETag::parse("draft").expect("a tag"),
        size: draft.size(),
        last_modified: None,
        version_id: None,
        headers: draft.headers().clone(),
    };
    let own = CachedHeaders::new(&version, &request.key, &request.route.settings);
    let mut headers = own.full.base().clone();
    for name in [ETAG, LAST_MODIFIED, EXPIRES, AGE, VARY] {
        headers.remove(name);
    }
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if request.route.settings.is_private() {
        make_private(&mut headers);
    }
    headers.insert(CONTENT_LENGTH, draft.size().into());
    headers.insert(CACHE_STATUS, DRAFT_CACHE_STATUS);
    headers
}
