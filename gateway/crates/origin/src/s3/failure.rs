//! The translation of a failed request to an error, named by the caller's possible reaction.
//!
//! Codes are those of the S3 API reference, "Error responses". The origin's texts may contain names and addresses, so
//! only the gateway's own words leave this module.

use std::time::SystemTime;

use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use super::answer::AnswerHead;
use crate::{OriginError, Phase};
use tidegate_plan::Timestamp;

/// The codes for a key that the store cannot have: S3's, and MinIO's. The last is for a part, between slashes or backslashes,
/// that is `.` or `..` beside blanks.
const REFUSED_KEY_CODES: [&str; 3] = [
    "KeyTooLongError",
    "XMinioInvalidObjectName",
    "XMinioInvalidResourceName",
];

/// The codes for headers that the store finds too large to be kept with an object, or to be sent at all.
const TOO_LARGE_HEADERS_CODES: [&str; 2] = ["MetadataTooLarge", "RequestHeaderSectionTooLarge"];

/// A reader of failures with this origin's settings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FailureReader {
    /// The value of `Settings::missing_is_403`.
    pub(super) missing_is_403: bool,
}

impl FailureReader {
    /// Returns whether a HEAD's refusal needs a GET for its meaning. It has no body. So a 404 may mean the object or
    /// the bucket, and a 403 a missing object or a bad key. A 400 may mean an expired token or a key that the store
    /// cannot have.
    pub(super) fn is_unclear<E>(self, error: &SdkError<E, HttpResponse>) -> bool {
        error.raw_response().is_some_and(|raw| {
            let status = raw.status().as_u16();
            status == 400
                || (status == 404 && !AnswerHead::of(raw).is_delete_marker())
                || (status == 403 && self.missing_is_403)
        })
    }

    /// Returns whether a HEAD's refusal means a missing object, provided that the bucket exists.
    pub(super) fn is_missing<E>(self, error: &SdkError<E, HttpResponse>) -> bool {
        let status = error.raw_response().map(|raw| raw.status().as_u16());
        status == Some(404) || (status == Some(403) && self.missing_is_403)
    }

    /// Returns the error of a failed request.
    pub(super) fn read<E: ProvideErrorMetadata + std::error::Error + 'static>(
        self,
        error: &SdkError<E, HttpResponse>,
    ) -> OriginError {
        if error.raw_response().is_none() {
            // The cause is known only here: an unknown host, an untrusted certificate.
            tracing::debug!(cause = %DisplayErrorContext(error), "no answer from the origin");
        }
        let code = match error {
            SdkError::ServiceError(refusal) => refusal.err().meta().code(),
            _ => None,
        };
        match (error, error.raw_response()) {
            (_, Some(raw)) => self.refusal(raw, code.unwrap_or_default()),
            (SdkError::DispatchFailure(failure), _) if failure.is_timeout() => {
                OriginError::Timeout(Phase::Connect)
            }
            (SdkError::DispatchFailure(failure), _) if failure.is_user() => {
                OriginError::BadAnswer("the request could not be sent")
            }
            (SdkError::TimeoutError(_), _) => OriginError::Timeout(Phase::FirstByte),
            // No request was sent, mostly because credentials were not available.
            (SdkError::ConstructionFailure(_), _) => OriginError::Forbidden,
            _ => OriginError::Unavailable("not reached"),
        }
    }

    fn refusal(self, raw: &HttpResponse, code: &str) -> OriginError {
        let head = AnswerHead::of(raw);
        if head.is_delete_marker() {
            return OriginError::NotFound;
        }
        match (raw.status().as_u16(), code) {
            // A key that the store cannot have names no object.
            (_, "NoSuchKey") => OriginError::NotFound,
            (_, code) if REFUSED_KEY_CODES.contains(&code) => OriginError::NotFound,
            (_, "NoSuchBucket" | "InvalidBucketName" | "PermanentRedirect")
            | (301 | 307 | 308, _) => OriginError::NoSuchBucket,
            (_, "NoSuchVersion") | (412, _) => OriginError::Changed,
            (_, "NoSuchUpload") => OriginError::NoSuchUpload,
            (_, "InvalidPart" | "InvalidPartOrder") => OriginError::InvalidPart,
            // MinIO has its own code if the checksum is in a header.
            (_, "BadDigest" | "XAmzContentChecksumMismatch" | "XAmzContentSHA256Mismatch") => {
                OriginError::Damaged
            }
            // Another write of the key or of the upload is under way.
            (409, _) => OriginError::Refused("another write is under way"),
            (429, _) => throttled(&head),
            // AWS sends `SlowDown`; MinIO distinguishes `SlowDownRead` and `SlowDownWrite`.
            (_, code) if code.starts_with("SlowDown") => throttled(&head),
            (503, _) if head.retry_after(Timestamp::default()).is_some() => throttled(&head),
            (403, "AccessDenied") if self.missing_is_403 => OriginError::NotFound,
            (401 | 403, _)
            | (400, "ExpiredToken" | "InvalidToken" | "AuthorizationHeaderMalformed") => {
                OriginError::Forbidden
            }
            (404, _) => OriginError::BadAnswer("404 without a reason"),
            (416, _) => OriginError::Unsatisfiable {
                size: head.size_of_unsatisfied().or_else(|| actual_size(raw)),
            },
            (408, _) | (400, "RequestTimeout") => OriginError::Refused("request timed out"),
            (501, _) | (400, "NotImplemented" | "InvalidArgument" | "InvalidRequest") => {
                OriginError::Unsupported
            }
            (500..=599, _) => OriginError::Unavailable("server error"),
            (200..=299, _) => OriginError::BadAnswer("a success that cannot be read"),
            _ => OriginError::BadAnswer("unexpected status"),
        }
    }
}

/// Returns the error of a failed write: that of a failed read, a refused key, headers or an object that are too large, or a full
/// store. The codes for the last are MinIO's for a drive and for a quota, and Ceph's for a quota; no other store's are known.
pub(super) fn of_write<E: ProvideErrorMetadata + std::error::Error + 'static>(
    error: &SdkError<E, HttpResponse>,
) -> OriginError {
    const STORAGE_FULL_CODES: [&str; 3] = [
        "XMinioStorageFull",
        "XMinioAdminBucketQuotaExceeded",
        "QuotaExceeded",
    ];
    let status = error.raw_response().map(|raw| raw.status().as_u16());
    let code = error.as_service_error().and_then(|it| it.meta().code());
    match code {
        _ if status == Some(507) => OriginError::StorageFull,
        Some(code) if STORAGE_FULL_CODES.contains(&code) => OriginError::StorageFull,
        Some(code) if REFUSED_KEY_CODES.contains(&code) => OriginError::KeyRefused,
        Some(code) if TOO_LARGE_HEADERS_CODES.contains(&code) => OriginError::HeadersTooLarge,
        // A 413 without it may be the limit of a proxy, which its operator can raise.
        Some("EntityTooLarge") => OriginError::ObjectTooLarge,
        _ => FailureReader::default().read(error),
    }
}

fn throttled(head: &AnswerHead) -> OriginError {
    OriginError::Throttled {
        retry_after: head.retry_after(SystemTime::now().into()),
    }
}

/// Returns the size in the body of a 416 (S3 API reference, `InvalidRange`).
fn actual_size(raw: &HttpResponse) -> Option<u64> {
    let text = std::str::from_utf8(raw.body().bytes()?).ok()?;
    let (_, rest) = text.split_once("<ActualObjectSize>")?;
    rest.split_once('<')?.0.parse().ok()
}
