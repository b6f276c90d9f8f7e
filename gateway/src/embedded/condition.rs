//! The conditions of a conditional or ranged GET or HEAD, and those of a copy on its source, decided as in S3 (RFC 9110,
//! 13.2.2, 14.2).

use std::fs::Metadata;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, header};
use s3s::dto::{
    CopyObjectInput, ETag, ETagCondition, GetObjectInput, HeadObjectInput, Range, Timestamp,
};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

/// The conditions of one request.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    if_match: Option<ETagCondition>,
    if_unmodified_since: Option<Timestamp>,
    if_none_match: Option<ETagCondition>,
    if_modified_since: Option<Timestamp>,
}

/// The result of the conditions for an object that exists.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The request is carried out.
    Proceed,
    /// 304: the client has it already.
    NotModified,
    /// 412: the object is not the one that the client expects.
    Failed,
}

impl Conditions {
    /// Returns the answer that ends the copy, if the conditions on its source do not hold: 412 for each.
    pub(super) fn check_source(&self, etag: Option<&ETag>, file: &Metadata) -> S3Result<()> {
        match self.check(etag, file) {
            Err(error) if *error.code() == S3ErrorCode::NotModified => {
                Err(s3_error!(PreconditionFailed))
            }
            result => result,
        }
    }

    /// Returns the answer that ends the request, if the conditions do not hold.
    pub(super) fn check(&self, etag: Option<&ETag>, file: &Metadata) -> S3Result<()> {
        let etag = etag.ok_or_else(|| s3_error!(InternalError, "an object without an ETag"))?;
        let modified = whole_seconds(file.modified().map_err(S3Error::internal_error)?);
        match self.judge(etag, &Timestamp::from(modified)) {
            Verdict::Proceed => Ok(()),
            Verdict::Failed => Err(s3_error!(PreconditionFailed)),
            Verdict::NotModified => {
                let mut headers = HeaderMap::new();
                let tag = etag.to_http_header().map_err(S3Error::internal_error)?;
                headers.insert(header::ETAG, tag);
                let date = httpdate::fmt_http_date(modified);
                headers.insert(header::LAST_MODIFIED, value(&date)?);
                let mut answer = s3_error!(NotModified);
                answer.set_headers(headers);
                Err(answer)
            }
        }
    }

    /// Evaluates the conditions. `modified` is in whole seconds, like the dates that it is compared with.
    fn judge(&self, etag: &ETag, modified: &Timestamp) -> Verdict {
        let failed = match (&self.if_match, &self.if_unmodified_since) {
            (Some(ETagCondition::ETag(wanted)), _) => !wanted.strong_cmp(etag),
            (Some(ETagCondition::Any), _) | (None, None) => false,
            (None, Some(date)) => modified > date,
        };
        if failed {
            return Verdict::Failed;
        }
        let at_hand = match (&self.if_none_match, &self.if_modified_since) {
            (Some(ETagCondition::ETag(held)), _) => held.weak_cmp(etag),
            (Some(ETagCondition::Any), _) => true,
            (None, Some(date)) => modified <= date,
            (None, None) => false,
        };
        if at_hand {
            Verdict::NotModified
        } else {
            Verdict::Proceed
        }
    }
}

/// Returns the bytes of a range in an object of `size` bytes; for an empty object none, as in S3.
pub(super) fn satisfy(range: Range, size: u64) -> Option<Range> {
    let bytes = range.check(size).ok().filter(|bytes| !bytes.is_empty())?;
    Some(Range::Int {
        first: bytes.start,
        last: Some(bytes.end - 1),
    })
}

/// Returns 416 with the size that RFC 9110, 14.4 requires.
pub(super) fn unsatisfiable(size: u64) -> S3Error {
    let mut error = s3_error!(InvalidRange);
    if let Ok(size) = value(&format!("bytes */{size}")) {
        error.set_headers(HeaderMap::from_iter([(header::CONTENT_RANGE, size)]));
    }
    error
}

fn value(text: &str) -> S3Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(S3Error::internal_error)
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

impl From<&CopyObjectInput> for Conditions {
    /// Takes the conditions on the source.
    fn from(input: &CopyObjectInput) -> Self {
        Self {
            if_match: input.copy_source_if_match.clone(),
            if_unmodified_since: input.copy_source_if_unmodified_since.clone(),
            if_none_match: input.copy_source_if_none_match.clone(),
            if_modified_since: input.copy_source_if_modified_since.clone(),
        }
    }
}

impl From<&GetObjectInput> for Conditions {
    fn from(input: &GetObjectInput) -> Self {
        Self {
            if_match: input.if_match.clone(),
            if_unmodified_since: input.if_unmodified_since.clone(),
            if_none_match: input.if_none_match.clone(),
            if_modified_since: input.if_modified_since.clone(),
        }
    }
}

impl From<&HeadObjectInput> for Conditions {
    fn from(input: &HeadObjectInput) -> Self {
        Self {
            if_match: input.if_match.clone(),
            if_unmodified_since: input.if_unmodified_since.clone(),
            if_none_match: input.if_none_match.clone(),
            if_modified_since: input.if_modified_since.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
