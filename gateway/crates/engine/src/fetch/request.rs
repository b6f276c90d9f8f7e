//! The requests of a part to the origin.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::part::Part;
use super::version_fetches::VersionFetches;
use tidegate_origin::{Answer, Body, Condition, Get, OriginError, Priority};
use tidegate_plan::{ByteRange, RangeSpec};

/// A request for the bytes of a part.
#[derive(Debug, Clone)]
pub(crate) struct PartRequest {
    pub(crate) fetches: Arc<VersionFetches>,
    pub(crate) part: Arc<Part>,
    /// The bytes of the part that are still to come.
    pub(crate) missing: ByteRange,
}

impl PartRequest {
    /// Builds the request for a range of exactly this version.
    pub(crate) fn get(&self, range: ByteRange, priority: Priority) -> Get {
        self.fetches.core.metrics.parts.inc();
        let version = &self.fetches.version;
        Get {
            key: self.fetches.id.key.clone(),
            range: Some(RangeSpec::Bounded {
                first: range.start,
                last: range.end - 1,
            }),
            condition: Condition::Match {
                etag: version.etag.clone(),
                version_id: version.version_id.clone(),
            },
            priority,
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
pub(crate) struct Plain;

impl Request for Plain {
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
