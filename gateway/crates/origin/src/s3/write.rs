//! Writes through the SDK: one request each, checked on arrival.
//!
//! Every body has a checksum in a signed header and is itself unsigned, because a second hash would cost more than the
//! transfer. Tests against MinIO (RELEASE.2025-09-07) showed:
//!
//! - Put, complete, copy and copy part honour `If-Match`, `If-None-Match` and `x-amz-copy-source-if-match` (412; 404
//!   `NoSuchKey` if `If-Match` finds no object). A refused completion leaves the upload unchanged.
//! - A part's checksum is verified even if the upload was begun without one. An upload that was begun *with* one
//!   accepts no copied parts and no list without it. So only uploads that need neither are begun with one
//!   ([`PartSums`]).
//! - A second completion is 404 `NoSuchUpload`; an old tag of a part that was sent again is 400 `InvalidPart`.
//! - `DELETE` ignores `If-Match`, which AWS honours; and uploads are listed by their exact key only.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::UNIX_EPOCH;

use aws_sdk_s3::primitives::{ByteStream, DateTime, SdkBody};
use aws_sdk_s3::types::{self, ChecksumAlgorithm, CompletedMultipartUpload, MetadataDirective};
use bytes::Bytes;
use futures_core::Stream;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::S3;
use super::answer::Capture;
use super::failure;
use crate::write::Headers;
use crate::{
    Body, CompletedPart, CopySource, Guard, OriginError, PartSums, Payload, Upload, Write,
    WriteOutcome, WrittenVersion,
};
use tidegate_plan::version::stored_text;
use tidegate_plan::{ETag, ObjectKey};
use tidegate_telemetry::locks::Recover as _;

/// The characters to escape in the header of a copy's source: all but those of a path.
const COPY_SOURCE_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Sets an object's headers on a request that takes them.
macro_rules! with_headers {
    ($request:expr, $headers:expr) => {{
        let mut request = $request;
        for (name, value) in $headers {
            let text = stored_text(value);
            if let Some(name) = name.as_str().strip_prefix("x-amz-meta-") {
                request = request.metadata(name, text);
                continue;
            }
            request = match *name {
                CONTENT_TYPE => request.content_type(text),
                CONTENT_ENCODING => request.content_encoding(text),
                CONTENT_DISPOSITION => request.content_disposition(text),
                CONTENT_LANGUAGE => request.content_language(text),
                CACHE_CONTROL => request.cache_control(text),
                // RFC 9111, 5.3: a value that is no date, such as "0", is a time in the past.
                EXPIRES => {
                    let date = httpdate::parse_http_date(&text).unwrap_or(UNIX_EPOCH);
                    request.expires(DateTime::from(date))
                }
                _ => request,
            };
        }
        request
    }};
}

impl S3 {
    pub(super) async fn carry_out(&self, write: Write) -> Result<WriteOutcome, OriginError> {
        match write {
            Write::Put {
                key,
                headers,
                payload,
                guard,
            } => self.put(key, &headers, &payload, guard).await,
            Write::Begin { key, headers, sums } => self.begin(key, &headers, sums).await,
            Write::Part {
                upload,
                number,
                payload,
            } => self.part(upload, number, &payload).await,
            Write::CopyPart {
                upload,
                number,
                source,
                range,
            } => self.copy_part(upload, number, &source, range).await,
            Write::Complete {
                upload,
                parts,
                guard,
            } => self.complete(upload, parts, guard).await,
            Write::Abort(upload) => self.abort(upload).await,
            Write::Uploads(key) => self.uploads(key).await,
            Write::Copy {
                source,
                key,
                headers,
                guard,
            } => self.copy(&source, (key, &guard), headers).await,
            Write::Delete {
                key,
                version_id,
                guard,
            } => self.delete(&key, version_id, &guard).await,
        }
    }

    async fn put(
        &self,
        key: ObjectKey,
        headers: &Headers,
        payload: &Payload,
        guard: Guard,
    ) -> Result<WriteOutcome, OriginError> {
        let put = with_headers!(self.writer.put_object(), headers)
            .bucket(&self.bucket)
            .key(key.as_str())
            .set_if_match(if_match(&guard))
            .set_if_none_match(if_none_match(&guard))
            .checksum_crc32_c(encode_sum(payload.sums().crc32c.to_be_bytes()))
            .content_length(length(payload)?)
            .body(body(payload));
        let capture = Capture::default();
        let put = put.customize().disable_payload_signing();
        match put.interceptor(capture.clone()).send().await {
            Ok(output) => written(output.e_tag, output.version_id, &capture),
            Err(error) => Err(of_guard(&guard, failure::of_write(&error))),
        }
    }

    /// Begins an upload. A store that refuses to have a checksum named (501, as R2 has answered, or 400) is not asked
    /// for that again.
    async fn begin(
        &self,
        key: ObjectKey,
        headers: &Headers,
        sums: PartSums,
    ) -> Result<WriteOutcome, OriginError> {
        let sums = match self.names_no_sums.load(Ordering::Relaxed) {
            true => PartSums::Crc64,
            false => sums,
        };
        let (id, sums) = match (self.begin_with(&key, headers, sums).await, sums) {
            (Err(OriginError::Unsupported), PartSums::Crc32c) => {
                let sums = PartSums::Crc64;
                let id = self.begin_with(&key, headers, sums).await?;
                tracing::info!(bucket = self.bucket, "the store has no checksum named");
                self.names_no_sums.store(true, Ordering::Relaxed);
                (id, sums)
            }
            (begun, sums) => (begun?, sums),
        };
        Ok(WriteOutcome::Upload(Upload { key, id, sums }))
    }

    async fn begin_with(
        &self,
        key: &ObjectKey,
        headers: &Headers,
        sums: PartSums,
    ) -> Result<String, OriginError> {
        let named = match sums {
            PartSums::Crc64 => None,
            PartSums::Crc32c => Some(ChecksumAlgorithm::Crc32C),
        };
        let begin = with_headers!(self.writer.create_multipart_upload(), headers)
            .bucket(&self.bucket)
            .key(key.as_str())
            .set_checksum_algorithm(named);
        let sent = begin.send().await;
        let output = sent.map_err(|error| failure::of_write(&error))?;
        let id = output.upload_id.filter(|id| !id.is_empty());
        id.ok_or(OriginError::BadAnswer("no upload id"))
    }

    async fn part(
        &self,
        upload: Upload,
        number: u32,
        payload: &Payload,
    ) -> Result<WriteOutcome, OriginError> {
        let (sums, is_named) = (payload.sums(), upload.sums == PartSums::Crc32c);
        let part = self
            .writer
            .upload_part()
            .bucket(&self.bucket)
            .key(upload.key.as_str())
            .upload_id(upload.id)
            .part_number(part_number(number)?)
            .set_checksum_crc64_nvme((!is_named).then(|| encode_sum(sums.crc64.to_be_bytes())))
            .set_checksum_crc32_c(is_named.then(|| encode_sum(sums.crc32c.to_be_bytes())))
            .content_length(length(payload)?)
            .body(body(payload));
        match part.customize().disable_payload_signing().send().await {
            Ok(output) => Ok(WriteOutcome::Part(tag(output.e_tag)?)),
            Err(error) => Err(failure::of_write(&error)),
        }
    }

    async fn complete(
        &self,
        upload: Upload,
        parts: Vec<CompletedPart>,
        guard: Guard,
    ) -> Result<WriteOutcome, OriginError> {
        let mut list = CompletedMultipartUpload::builder();
        for part in parts {
            let listed = types::CompletedPart::builder()
                .part_number(part_number(part.number)?)
                .e_tag(part.etag.as_str())
                .set_checksum_crc32_c(part.crc32c.map(|sum| encode_sum(sum.to_be_bytes())));
            list = list.parts(listed.build());
        }
        let complete = self
            .writer
            .complete_multipart_upload()
            .bucket(&self.bucket)
            .key(upload.key.as_str())
            .upload_id(upload.id)
            .set_if_match(if_match(&guard))
            .set_if_none_match(if_none_match(&guard))
            .multipart_upload(list.build());
        let capture = Capture::default();
        let complete = complete.customize().interceptor(capture.clone());
        match complete.send().await {
            Ok(output) => written(output.e_tag, output.version_id, &capture),
            Err(error) => Err(of_guard(&guard, failure::of_write(&error))),
        }
    }

    async fn abort(&self, upload: Upload) -> Result<WriteOutcome, OriginError> {
        let abort = self.writer.abort_multipart_upload().bucket(&self.bucket);
        let abort = abort.key(upload.key.as_str()).upload_id(upload.id);
        match abort.send().await.map_err(|e| failure::of_write(&e)) {
            Ok(_) | Err(OriginError::NoSuchUpload) => Ok(WriteOutcome::Done),
            Err(error) => Err(error),
        }
    }

    async fn uploads(&self, key: ObjectKey) -> Result<WriteOutcome, OriginError> {
        let list = self.writer.list_multipart_uploads().bucket(&self.bucket);
        let sent = list.prefix(key.as_str()).send().await;
        let output = sent.map_err(|error| failure::of_write(&error))?;
        let of_key = output.uploads.unwrap_or_default().into_iter();
        let of_key = of_key.filter(|upload| upload.key.as_deref() == Some(key.as_str()));
        let uploads = of_key.filter_map(|upload| upload.upload_id);
        let upload = |id| Upload {
            key: key.clone(),
            id,
            sums: PartSums::default(),
        };
        Ok(WriteOutcome::Uploads(uploads.map(upload).collect()))
    }

    /// Copies an object, without the condition on the copy's key if the store does not know it.
    async fn copy(
        &self,
        source: &CopySource,
        (key, guard): (ObjectKey, &Guard),
        headers: Option<Headers>,
    ) -> Result<WriteOutcome, OriginError> {
        if *guard == Guard::None || !self.copies.are_sent() {
            return self.copy_if(source, (&key, &Guard::None), headers).await;
        }
        match self.copy_if(source, (&key, guard), headers.clone()).await {
            Err(OriginError::Unsupported) => {
                let copied = self.copy_if(source, (&key, &Guard::None), headers).await?;
                self.copies.note_refused(&self.bucket, "copies");
                Ok(copied)
            }
            copied => {
                if copied.is_ok() {
                    self.copies.note_compared();
                }
                copied
            }
        }
    }

    async fn copy_if(
        &self,
        source: &CopySource,
        (key, guard): (&ObjectKey, &Guard),
        headers: Option<Headers>,
    ) -> Result<WriteOutcome, OriginError> {
        let directive = match &headers {
            Some(_) => MetadataDirective::Replace,
            None => MetadataDirective::Copy,
        };
        let headers = headers.unwrap_or_default();
        let copy = with_headers!(self.writer.copy_object(), &headers)
            .bucket(&self.bucket)
            .key(key.as_str())
            .copy_source(self.source(source))
            .copy_source_if_match(source.etag.as_str())
            .set_if_match(if_match(guard))
            .set_if_none_match(if_none_match(guard))
            .metadata_directive(directive);
        let capture = Capture::default();
        match copy.customize().interceptor(capture.clone()).send().await {
            Ok(output) => {
                let etag = output.copy_object_result.and_then(|result| result.e_tag);
                written(etag, output.version_id, &capture)
            }
            Err(error) => Err(of_source(failure::of_write(&error))),
        }
    }

    pub(super) fn source(&self, source: &CopySource) -> String {
        let key = utf8_percent_encode(source.key.as_str(), COPY_SOURCE_ESCAPES);
        format!("{}/{key}", self.bucket)
    }
}

pub(super) fn if_match(guard: &Guard) -> Option<String> {
    match guard {
        Guard::Same(etag) => Some(etag.as_str().to_owned()),
        Guard::None | Guard::Absent => None,
    }
}

fn if_none_match(guard: &Guard) -> Option<String> {
    (*guard == Guard::Absent).then(|| "*".to_owned())
}

/// Maps a missing object to `Changed` if the guard names a version.
fn of_guard(guard: &Guard, error: OriginError) -> OriginError {
    match (guard, error) {
        (Guard::Same(_), OriginError::NotFound) => OriginError::Changed,
        // 409: another write of the key is under way.
        (_, error) => error,
    }
}

pub(super) fn of_source(error: OriginError) -> OriginError {
    match error {
        OriginError::NotFound => OriginError::Changed,
        error => error,
    }
}

pub(super) fn tag(etag: Option<String>) -> Result<ETag, OriginError> {
    let etag = etag.as_deref().and_then(ETag::parse);
    etag.ok_or(OriginError::BadAnswer("no ETag"))
}

fn written(
    etag: Option<String>,
    version_id: Option<String>,
    answer: &Capture,
) -> Result<WriteOutcome, OriginError> {
    Ok(WriteOutcome::Object(WrittenVersion {
        etag: tag(etag)?,
        version_id: version_id.filter(|id| id != "null" && !id.is_empty()),
        answered: answer.answered(),
    }))
}

/// Encodes a checksum for S3: big-endian, in base64.
fn encode_sum(sum: impl AsRef<[u8]>) -> String {
    base64_simd::STANDARD.encode_to_string(sum)
}

fn length(payload: &Payload) -> Result<i64, OriginError> {
    i64::try_from(payload.len()).map_err(|_| OriginError::BadAnswer("a payload without bounds"))
}

pub(super) fn part_number(number: u32) -> Result<i32, OriginError> {
    i32::try_from(number).map_err(|_| OriginError::BadAnswer("no part has this number"))
}

fn body(payload: &Payload) -> ByteStream {
    ByteStream::new(SdkBody::from_body_1_x(UploadBody {
        frames: Mutex::new(payload.open()),
        left: payload.len(),
    }))
}

/// A payload as a body for hyper. Its pieces are sent without a copy.
struct UploadBody {
    /// The lock is never taken: it only makes the body `Sync`, which the SDK requires.
    frames: Mutex<Body>,
    left: u64,
}

impl HttpBody for UploadBody {
    type Data = Bytes;
    type Error = OriginError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OriginError>>> {
        let this = &mut *self;
        let frames = this.frames.get_mut().recover();
        let item = std::task::ready!(Stream::poll_next(frames.as_mut(), cx));
        if let Some(Ok(piece)) = &item {
            this.left = this.left.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(item.map(|item| item.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
