//! The requests of a part to the origin.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::part::Part;
use super::version_fetches::VersionFetches;
use tidegate_origin::{Answer, Body, Condition, Get, OriginError, Priority};
use tidegate_plan::{ByteRange, ETag, RangeSpec};

/// A request for the bytes of a part.
#[derive(Debug, Clone)]
pub(crate) struct PartRequest {
    pub(crate) fetches: Arc<VersionFetches>,
    pub(crate) part: Arc<Part>,
    /// The bytes of the part that are still to come.
    pub(crate) missing: ByteRange,
}

impl PartRequest {
    /// Returns the body of an answer that has these bytes of this version.
    ///
    /// # Errors
    /// [`OriginError::Changed`] if they are of another version under the same tag.
    pub(crate) fn body_of(&self, answer: Answer, range: ByteRange) -> Result<Body, OriginError> {
        match answer {
            Answer::Content(content)
                if !self.fetches.version.can_have_bytes_of(&content.version) =>
            {
                Err(OriginError::Changed)
            }
            Answer::Content(content) if content.range == range => Ok(content.body),
            _ => Err(OriginError::BadAnswer("another range than asked for")),
        }
    }

    /// Builds the request for a range of exactly this version, or of its latest copy onto itself.
    pub(crate) fn get(&self, range: ByteRange, priority: Priority) -> Get {
        self.get_if(self.latest(), range, priority)
    }

    /// Builds the requests to send after one with `refused` was refused: the object may have been copied onto itself just
    /// then, or another writer may have put this version back. If the bucket has lost the version of this id, another
    /// version may have its tag.
    pub(crate) async fn get_again(
        &self,
        refused: &Condition,
        range: ByteRange,
        priority: Priority,
    ) -> Vec<Get> {
        let fetches = &self.fetches;
        fetches.core.self_copy_ended(&fetches.id).await;
        let etag = &fetches.version.etag;
        let any = Condition::Match {
            etag: etag.clone(),
            version_id: None,
        };
        let mut others = vec![self.latest(), self.exactly(etag.clone()), any];
        others.dedup();
        others.retain(|other| other != refused);
        let again = others.into_iter();
        again
            .map(|condition| self.get_if(condition, range, priority))
            .collect()
    }

    fn get_if(&self, condition: Condition, range: ByteRange, priority: Priority) -> Get {
        self.fetches.core.metrics.parts.inc();
        Get {
            key: self.fetches.id.key.clone(),
            range: Some(RangeSpec::Bounded {
                first: range.start,
                last: range.end - 1,
            }),
            condition,
            priority,
        }
    }

    /// Returns the condition on the latest version with the bytes of this one. A bucket that keeps versions has this one.
    fn latest(&self) -> Condition {
        let (core, version) = (&self.fetches.core, &self.fetches.version);
        self.exactly(match version.version_id {
            Some(_) => version.etag.clone(),
            None => core.latest_copy(&self.fetches.id, &version.etag),
        })
    }

    fn exactly(&self, etag: ETag) -> Condition {
        Condition::Match {
            etag,
            version_id: self.fetches.version.version_id.clone(),
        }
    }
}

/// Sends the requests for parts.
pub(crate) trait Request: Send + Sync {
    /// Sends a request for the missing bytes of a part.
    fn send<'a>(
        &'a self,
        request: &'a PartRequest,
        get: Get,
    ) -> BoxFuture<'a, Result<Answer, OriginError>>;

    /// Returns the body of an answer with the missing bytes of a part.
    fn body(&self, request: PartRequest, body: Body) -> Body;
}

/// Sends one request, and takes its body.
pub(crate) struct PlainRequest;

impl Request for PlainRequest {
    fn send<'a>(
        &'a self,
        request: &'a PartRequest,
        get: Get,
    ) -> BoxFuture<'a, Result<Answer, OriginError>> {
        let fetches = &request.fetches;
        let send = async move {
            let sent = Instant::now();
            let answer = fetches.origin.get(get).await;
            if answer.is_ok() {
                fetches.rate.record_first_byte(sent.elapsed());
            }
            answer
        };
        send.boxed()
    }

    fn body(&self, _: PartRequest, body: Body) -> Body {
        body
    }
}
