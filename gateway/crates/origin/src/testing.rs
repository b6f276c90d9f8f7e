//! Shared helpers for the decorators' tests.

use bytes::Bytes;
use futures_util::StreamExt;

use super::{Answer, Body, Condition, Content, Get, Origin, OriginError, Priority};
use tidegate_plan::{ETag, ObjectKey, RangeSpec};

pub(super) fn key(text: &str) -> ObjectKey {
    ObjectKey::new(text).expect("a valid key")
}

/// Creates a GET that a reader waits for.
pub(super) fn get(range: Option<RangeSpec>) -> Get {
    Get {
        key: key("k"),
        range,
        condition: Condition::None,
        priority: Priority::Demand,
    }
}

pub(super) fn bounded(first: u64, last: u64) -> Option<RangeSpec> {
    Some(RangeSpec::Bounded { first, last })
}

pub(super) fn matching(etag: &ETag) -> Condition {
    Condition::Match {
        etag: etag.clone(),
        version_id: None,
    }
}

/// Returns bytes whose values depend on their positions.
pub(super) fn sample(length: usize) -> Bytes {
    (0..length).map(|n| (n * 7 + n / 251) as u8).collect()
}

pub(super) async fn content(origin: &dyn Origin, get: Get) -> Result<Content, OriginError> {
    match origin.get(get).await? {
        Answer::Content(content) => Ok(content),
        Answer::NotModified { .. } => panic!("304 where content was expected"),
    }
}

/// Returns all good bytes and the final error, if any.
pub(super) async fn drain(mut body: Body) -> (Vec<u8>, Option<OriginError>) {
    let mut bytes = Vec::new();
    while let Some(item) = body.next().await {
        match item {
            Ok(frame) => bytes.extend_from_slice(&frame),
            Err(error) => {
                assert!(body.next().await.is_none(), "nothing follows an error");
                return (bytes, Some(error));
            }
        }
    }
    (bytes, None)
}
