//! A bucket behind the S3 API, accessed through the AWS SDK.
//!
//! This module only translates: one [`Get`] or other call becomes one request, and its response
//! becomes an answer or an error. The decorators retry, keep deadlines and check answers. So the
//! SDK's own retries are off, and its timeouts are a mere backstop.
//!
//! Answers are read from their raw status and headers and not from the SDK's typed output. Its
//! model lacks 304, 412 and 416, and the object's own headers are passed on as they came.

mod answer;
mod client;
mod conditions;
mod failure;
mod page;
mod trace;
mod without_bytes;
mod write;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::EncodingType;
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use http_body_util::BodyDataStream;

use self::answer::{AnswerHead, Capture};
use self::conditions::KnownConditions;
use self::failure::FailureReader;
use super::settings::{Credentials, Settings};
use super::{
    Answer, Body, Condition, Content, Get, List, Listing, Origin, OriginError, OriginWrite,
    PageStart, Write, WriteOutcome,
};
use tidegate_plan::{Bucket, ObjectKey, OriginId, RangeSpec, Version};

pub use self::client::SetupError;

/// A bucket of an S3 store.
#[derive(Debug)]
pub struct S3 {
    client: Client,
    /// The same for requests with long bodies, which only `deadline` bounds.
    writer: Client,
    bucket: String,
    id: OriginId,
    place: Bucket,
    failures: FailureReader,
    /// Whether requests are unsigned.
    anonymous: bool,
    /// Whether the store was found to refuse uploads that name a checksum.
    names_no_sums: AtomicBool,
    /// Whether it compares what it deletes, and what a copy replaces.
    deletions: KnownConditions,
    copies: KnownConditions,
}

impl S3 {
    /// Prepares a client without a connection.
    ///
    /// # Errors
    /// The endpoint is no `http://` or `https://` URL.
    pub async fn new(settings: &Settings) -> Result<Self, SetupError> {
        Ok(Self {
            client: client::build(settings).await?,
            writer: client::build_patient(settings).await?,
            bucket: settings.bucket.clone(),
            id: settings.id(),
            place: settings.place(),
            failures: FailureReader {
                missing_is_403: settings.missing_is_403,
            },
            anonymous: matches!(settings.credentials, Credentials::Anonymous),
            names_no_sums: AtomicBool::new(false),
            deletions: KnownConditions::default(),
            copies: KnownConditions::default(),
        })
    }

    async fn fetch(&self, request: Get) -> Result<Answer, OriginError> {
        let capture = Capture::default();
        let mut get = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(request.key.as_str())
            .set_range(request.range.map(|range| format!("bytes={range}")));
        match request.condition {
            Condition::None => {}
            Condition::Match { etag, version_id } => {
                // `If-Match` compares strongly (RFC 9110, 13.1.1), so a weak tag never matches.
                // With weak tags only `checked` compares the answer.
                let strong = (!etag.is_weak()).then(|| etag.as_str().to_owned());
                get = get.set_if_match(strong).set_version_id(version_id);
            }
            Condition::NoneMatch(etag) => get = get.if_none_match(etag.as_str()),
        }
        let sent = get.customize().interceptor(capture.clone()).send().await;
        match sent {
            Ok(output) => content(&capture.head()?, output.body),
            Err(error) => match error.raw_response() {
                Some(raw) if raw.status().as_u16() == 304 => Ok(Answer::NotModified {
                    last_modified: AnswerHead::of(raw).last_modified(),
                }),
                _ => Err(self.failures.read(&error)),
            },
        }
    }

    /// Sends a HEAD. With `alone` no other request shows that the bucket exists, so a bare 404 is
    /// confirmed.
    async fn request_head(&self, key: &ObjectKey, alone: bool) -> Result<Version, OriginError> {
        let capture = Capture::default();
        let head = self.client.head_object().bucket(&self.bucket);
        let sent = head
            .key(key.as_str())
            .customize()
            .interceptor(capture.clone())
            .send()
            .await;
        match sent {
            Ok(_) => capture.head()?.whole_version(),
            Err(error) if !alone && self.failures.is_missing(&error) => Err(OriginError::NotFound),
            Err(error) if self.failures.is_unclear(&error) => self.confirm(key).await,
            Err(error) => Err(self.failures.read(&error)),
        }
    }

    async fn request_peek(&self, key: &ObjectKey) -> Result<Option<Version>, OriginError> {
        match self.request_head(key, false).await {
            Ok(version) => Ok(Some(version)),
            Err(OriginError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests one byte to learn the reason of a HEAD's refusal, which has no body; the GET's
    /// refusal has one.
    async fn confirm(&self, key: &ObjectKey) -> Result<Version, OriginError> {
        let request = Get {
            key: key.clone(),
            range: Some(RangeSpec::Bounded { first: 0, last: 0 }),
            condition: Condition::None,
            priority: super::Priority::Demand,
        };
        match self.fetch(request).await? {
            Answer::Content(content) => Ok(Arc::unwrap_or_clone(content.version)),
            Answer::NotModified { .. } => Err(OriginError::BadAnswer("304 to a plain GET")),
        }
    }

    async fn request_page(&self, request: List) -> Result<Listing, OriginError> {
        let mut list = self
            .client
            .list_objects_v2()
            .bucket(&self.bucket)
            .set_prefix((!request.prefix.is_empty()).then_some(request.prefix))
            .set_delimiter(request.delimiter.then(|| "/".to_owned()))
            .max_keys(i32::from(request.limit))
            // A key may hold characters that XML cannot.
            .encoding_type(EncodingType::Url);
        list = match request.after {
            Some(PageStart::Key(key)) => list.start_after(key),
            Some(PageStart::Token(token)) => list.continuation_token(token),
            None => list,
        };
        match list.send().await {
            Ok(output) => page::read(output),
            // Also with `missing_is_403`: this requests no object.
            Err(error) => Err(FailureReader::default().read(&error)),
        }
    }

    async fn request_bucket(&self) -> Result<(), OriginError> {
        match self.client.head_bucket().bucket(&self.bucket).send().await {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_response().map(|raw| raw.status().as_u16()) {
                Some(404) => Err(OriginError::NoSuchBucket),
                // A public bucket may serve objects and refuse all else.
                Some(403) if self.anonymous => Ok(()),
                // Also with `missing_is_403`: this requests no object. A 400 to a HEAD has no body that names the reason: an
                // expired token, or the wrong region (S3 API reference, `HeadBucket`).
                Some(400 | 401 | 403) => Err(OriginError::Forbidden),
                _ => Err(self.failures.read(&error)),
            },
        }
    }
}

/// Returns the bytes under way with the version and range of their head.
fn content(head: &AnswerHead, body: ByteStream) -> Result<Answer, OriginError> {
    let (version, range) = head.part_version()?;
    let frames = BodyDataStream::new(body.into_inner())
        .map(|frame| frame.map_err(|_| OriginError::Unavailable("connection lost")));
    let body: Body = Box::pin(frames);
    Ok(Answer::Content(Content {
        version: Arc::new(version),
        range,
        body,
    }))
}

impl Origin for S3 {
    fn id(&self) -> OriginId {
        self.id
    }

    fn bucket(&self) -> Bucket {
        self.place
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(self.fetch(request))
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        let key = key.clone();
        Box::pin(async move { self.request_head(&key, true).await })
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        let key = key.clone();
        Box::pin(async move { self.request_peek(&key).await })
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(self.request_page(request))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        Box::pin(self.request_bucket())
    }
}

impl OriginWrite for S3 {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(self.carry_out(write))
    }
}
