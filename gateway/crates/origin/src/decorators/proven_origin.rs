//! Remembers when the bucket last proved that it takes requests with these credentials.
//!
//! A success proves it, and so does an error that a store returns only once it has accepted the request's signature and
//! found the bucket. A request that found the origin down, refused or without the bucket takes the proof away.

use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use tokio::time::Instant;

use crate::{
    Answer, Get, List, Listing, Origin, OriginError, OriginWrite, Phase, Write, WriteOutcome,
};
use tidegate_plan::{Bucket, ObjectKey, OriginId, Version};
use tidegate_telemetry::locks::Recover as _;

/// An origin that knows the time of its last good answer.
#[derive(Debug)]
pub(crate) struct ProvenOrigin {
    inner: Arc<dyn Origin>,
    /// Whether [`OriginError::NotFound`] may be the refusal of these credentials.
    missing_is_403: bool,
    last: Mutex<Option<Instant>>,
}

impl ProvenOrigin {
    /// Observes the answers of `inner`. `missing_is_403` is the setting of that name.
    pub(crate) fn new(inner: Arc<dyn Origin>, missing_is_403: bool) -> Self {
        Self {
            inner,
            missing_is_403,
            last: Mutex::new(None),
        }
    }

    /// Sends a request and records what its answer proves. `proves` judges a success.
    async fn observe<T>(
        &self,
        ask: impl Future<Output = Result<T, OriginError>>,
        proves: fn(&T) -> bool,
    ) -> Result<T, OriginError> {
        let result = ask.await;
        let proof = match &result {
            Ok(answer) => proves(answer).then_some(true),
            Err(error) => self.proof_of(error),
        };
        if let Some(holds) = proof {
            *self.last.lock().recover() = holds.then(Instant::now);
        }
        result
    }

    /// Returns whether an error proves that the bucket takes requests, or that it does not; `None`: neither.
    fn proof_of(&self, error: &OriginError) -> Option<bool> {
        match error {
            OriginError::NotFound => (!self.missing_is_403).then_some(true),
            OriginError::Changed | OriginError::Unsatisfiable { .. } => Some(true),
            OriginError::Timeout(Phase::Queue) => None,
            OriginError::Unavailable(_)
            | OriginError::Timeout(_)
            | OriginError::Forbidden
            | OriginError::NoSuchBucket => Some(false),
            _ => None,
        }
    }
}

impl Origin for ProvenOrigin {
    fn id(&self) -> OriginId {
        self.inner.id()
    }

    fn bucket(&self) -> Bucket {
        self.inner.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(self.observe(self.inner.get(request), |_| true))
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        Box::pin(self.observe(self.inner.head(key), |_| true))
    }

    /// A bare 404 may also mean that there is no such bucket: it proves nothing.
    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        Box::pin(self.observe(self.inner.peek(key), Option::is_some))
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(self.observe(self.inner.list(request), |_| true))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        Box::pin(self.observe(self.inner.probe(), |()| true))
    }

    fn last_proof(&self) -> Option<Instant> {
        *self.last.lock().recover()
    }
}

impl OriginWrite for ProvenOrigin {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(self.observe(self.inner.write(write), |_| true))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;
    use crate::fake::{FakeOrigin, Fault};
    use crate::testing::{get, key};

    const GONE: OriginError = OriginError::Unavailable("not reached");

    fn setup(missing_is_403: bool) -> (FakeOrigin, ProvenOrigin) {
        let fake = FakeOrigin::new();
        fake.put("k", "bytes");
        let proven = ProvenOrigin::new(Arc::new(fake.clone()), missing_is_403);
        (fake, proven)
    }

    #[tokio::test(start_paused = true)]
    async fn every_kind_of_request_proves_that_the_bucket_answers() {
        let (_, proven) = setup(false);
        assert_eq!(proven.last_proof(), None);
        let list = List {
            prefix: String::new(),
            delimiter: false,
            after: None,
            limit: 1,
        };
        for kind in ["get", "head", "peek", "list", "probe", "write"] {
            advance(Duration::from_secs(1)).await;
            match kind {
                "get" => drop(proven.get(get(None)).await.expect("bytes")),
                "head" => drop(proven.head(&key("k")).await.expect("a version")),
                "peek" => drop(proven.peek(&key("k")).await.expect("a version")),
                "list" => drop(proven.list(list.clone()).await.expect("a page")),
                "probe" => proven.probe().await.expect("an answer"),
                _ => drop(proven.write(removal()).await.expect("written")),
            }
            assert_eq!(proven.last_proof(), Some(Instant::now()), "{kind}");
        }
        // HEAD's bare 404 is also the answer for a missing bucket.
        advance(Duration::from_secs(1)).await;
        assert_eq!(proven.peek(&key("none")).await, Ok(None));
        assert_ne!(proven.last_proof(), Some(Instant::now()));
    }

    fn removal() -> Write {
        Write::Delete {
            key: key("other"),
            version_id: None,
            guard: crate::Guard::None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_proves_it_only_after_the_credentials_were_accepted() {
        let outside = OriginError::Unsatisfiable { size: None };
        let slow = OriginError::Throttled { retry_after: None };
        for (error, missing_is_403, proof) in [
            (OriginError::NotFound, false, Some(true)),
            (OriginError::NotFound, true, None),
            (OriginError::Changed, false, Some(true)),
            (outside, false, Some(true)),
            (slow, false, None),
            (OriginError::Timeout(Phase::Queue), false, None),
            (OriginError::BadAnswer("another"), false, None),
            (OriginError::Unsupported, false, None),
            (GONE, false, Some(false)),
            (OriginError::Timeout(Phase::FirstByte), false, Some(false)),
            (OriginError::Forbidden, false, Some(false)),
            (OriginError::NoSuchBucket, false, Some(false)),
        ] {
            let (fake, proven) = setup(missing_is_403);
            proven.probe().await.expect("an answer");
            let before = proven.last_proof();
            advance(Duration::from_secs(1)).await;
            fake.fail_next([Fault::Refuse(error.clone())]);
            assert_eq!(proven.get(get(None)).await.err(), Some(error.clone()));
            let expected = match proof {
                Some(true) => Some(Instant::now()),
                Some(false) => None,
                None => before,
            };
            assert_eq!(proven.last_proof(), expected, "{error}");
        }
    }
}
