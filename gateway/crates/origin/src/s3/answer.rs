//! The translation of an answer's head to a version and a range.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeDeserializationInterceptorContextMut, BeforeDeserializationInterceptorContextRef,
};
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::OriginError;
use tidegate_plan::version::is_stored_header;
use tidegate_plan::{ByteRange, ETag, Timestamp, Version, retry};

/// A copy of the raw head of one request's answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Capture(Arc<OnceLock<AnswerHead>>);

impl Capture {
    /// Returns the head of the received answer.
    pub(super) fn head(&self) -> Result<AnswerHead, OriginError> {
        self.0
            .get()
            .cloned()
            .ok_or(OriginError::BadAnswer("no head"))
    }

    /// Returns the time of the store's answer, by the store's clock.
    pub(super) fn answered(&self) -> Option<Timestamp> {
        let date = self.0.get()?.text(DATE)?;
        httpdate::parse_http_date(date).ok().map(Timestamp::from)
    }
}

#[dyn_dispatch_hint]
impl Intercept for Capture {
    fn name(&self) -> &'static str {
        "capture the answer's head"
    }

    // Runs before the SDK's own hooks, one of which removes an `Expires` that is no date.
    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let _ = self.0.set(AnswerHead::of(context.response()));
        Ok(())
    }

    // The SDK refuses an answer if a value of an object's own header is no text, or stands twice. So it gets none of them.
    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.response_mut().headers_mut();
        let names = headers
            .iter_bytes()
            .filter_map(|(name, _)| HeaderName::try_from(name).ok());
        let stored: Vec<_> = names.filter(is_stored_header).collect();
        for name in stored {
            headers.remove(name);
        }
        Ok(())
    }
}

/// Status and headers of an answer.
#[derive(Debug, Clone)]
pub(super) struct AnswerHead {
    status: u16,
    headers: HeaderMap,
}

impl AnswerHead {
    pub(super) fn of(response: &HttpResponse) -> Self {
        // RFC 9110, 5.5: a value may have bytes that are no text.
        let pairs = response.headers().iter_bytes();
        let pairs = pairs.filter_map(|(name, value)| {
            Some((
                HeaderName::try_from(name).ok()?,
                HeaderValue::from_bytes(value).ok()?,
            ))
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        Self {
            status: response.status().as_u16(),
            headers,
        }
    }

    fn text(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns `Last-Modified` if it is a date.
    pub(super) fn last_modified(&self) -> Option<Timestamp> {
        let date = self.text(LAST_MODIFIED)?;
        httpdate::parse_http_date(date).ok().map(Timestamp::from)
    }

    /// Returns the pause that the origin requests, in seconds or until a date (RFC 9110, 10.2.3).
    pub(super) fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        retry::retry_after(&self.headers, now)
    }

    /// Returns the object's size from a 416: `Content-Range: bytes */N`.
    pub(super) fn size_of_unsatisfied(&self) -> Option<u64> {
        let size = self.text(CONTENT_RANGE)?.strip_prefix("bytes */")?;
        number(size)
    }

    /// Returns whether the answer is about a delete marker, the version of a deleted object.
    pub(super) fn is_delete_marker(&self) -> bool {
        self.text("x-amz-delete-marker") == Some("true")
    }

    /// Returns the version from an answer to a HEAD.
    pub(super) fn whole_version(&self) -> Result<Version, OriginError> {
        self.version(self.length()?)
    }

    /// Returns the version and the range of the answer's body.
    pub(super) fn part_version(&self) -> Result<(Version, ByteRange), OriginError> {
        match self.status {
            200 => {
                let size = self.length()?;
                Ok((self.version(size)?, ByteRange::new(0, size)))
            }
            206 => {
                let (range, size) = self.content_range()?;
                Ok((self.version(size)?, range))
            }
            _ => Err(OriginError::BadAnswer("a success without content")),
        }
    }

    fn length(&self) -> Result<u64, OriginError> {
        self.text(CONTENT_LENGTH)
            .and_then(number)
            .ok_or(OriginError::BadAnswer("no length"))
    }

    /// Returns `Content-Range` of a 206 (RFC 9110, 14.4) after a comparison with `Content-Length`.
    fn content_range(&self) -> Result<(ByteRange, u64), OriginError> {
        let text = self.text(CONTENT_RANGE);
        let (range, size) = text
            .and_then(read_content_range)
            .ok_or(OriginError::BadAnswer("206 without a valid Content-Range"))?;
        match self.text(CONTENT_LENGTH) {
            Some(length) if number(length) != Some(range.len()) => Err(OriginError::BadAnswer(
                "Content-Length contradicts Content-Range",
            )),
            _ => Ok((range, size)),
        }
    }

    fn version(&self, size: u64) -> Result<Version, OriginError> {
        let etag = self.text(ETAG).and_then(ETag::parse);
        Ok(Version {
            etag: etag.ok_or(OriginError::BadAnswer("no ETag"))?,
            size,
            last_modified: self.last_modified(),
            // Objects written before a bucket kept versions have the id "null", and so have those
            // written while it keeps none. That id names no version.
            version_id: self
                .text("x-amz-version-id")
                .filter(|id| *id != "null" && !id.is_empty())
                .map(str::to_owned),
            headers: self.forwarded_headers(),
        })
    }

    fn forwarded_headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        self.headers
            .iter()
            .filter(|(name, value)| {
                // Some stores keep the framing of an upload as if it were a coding.
                is_stored_header(name) && !(*name == CONTENT_ENCODING && *value == "aws-chunked")
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// Parses digits only: `parse` alone would also accept a sign.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Reads `bytes first-last/size`. MinIO answers a suffix of an empty object with `bytes 0--1/0`, an
/// empty range.
fn read_content_range(text: &str) -> Option<(ByteRange, u64)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    if (range, size) == ("0--1", "0") {
        return Some((ByteRange::new(0, 0), 0));
    }
    let (first, last) = range.split_once('-')?;
    let (first, last, size) = (number(first)?, number(last)?, number(size)?);
    (first <= last && last < size).then(|| (ByteRange::new(first, last + 1), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, headers: &[(&'static str, &'static str)]) -> AnswerHead {
        let pairs = headers.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        AnswerHead {
            status,
            headers: pairs.collect(),
        }
    }

    #[test]
    fn reads_content_ranges_and_refuses_contradictions() {
        let good = [
            ("bytes 0-0/1", (0, 1, 1)),
            ("bytes 5-9/20", (5, 10, 20)),
            ("bytes 0--1/0", (0, 0, 0)),
        ];
        for (text, (start, end, size)) in good {
            let read = read_content_range(text);
            assert_eq!(read, Some((ByteRange::new(start, end), size)), "{text}");
        }
        for bad in [
            "",
            "bytes",
            "bytes */5",
            "bytes 0-4/*",
            "bytes 0-5/5",
            "bytes 3-2/5",
            "bytes +0-1/5",
            "items 0-1/5",
            "bytes 0--1/5",
            "bytes 0-18446744073709551615/18446744073709551615",
        ] {
            assert_eq!(read_content_range(bad), None, "{bad}");
        }
    }

    #[test]
    fn takes_the_objects_own_headers_only() {
        let head = head(
            206,
            &[
                ("etag", "\"e\""),
                ("content-range", "bytes 0-1/9"),
                ("content-length", "2"),
                ("content-type", "image/png"),
                ("content-encoding", "aws-chunked"),
                ("x-amz-meta-mood", "calm"),
                ("x-amz-request-id", "secret"),
                ("server", "MinIO"),
                ("x-amz-version-id", "null"),
                ("last-modified", "Thu, 01 Jan 1970 00:00:10 GMT"),
            ],
        );
        let (version, range) = head.part_version().expect("a good answer");
        assert_eq!((range, version.size), (ByteRange::new(0, 2), 9));
        let names: Vec<_> = version
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["content-type", "x-amz-meta-mood"]);
        assert_eq!(version.version_id, None);
        assert_eq!(version.last_modified, Some(Timestamp(10_000)));
    }

    #[test]
    fn a_head_that_contradicts_itself_is_refused() {
        let etag = ("etag", "\"e\"");
        let rows = [
            (
                206,
                vec![
                    etag,
                    ("content-range", "bytes 0-1/9"),
                    ("content-length", "3"),
                ],
            ),
            (206, vec![etag, ("content-length", "3")]),
            (
                206,
                vec![("content-range", "bytes 0-1/9"), ("content-length", "2")],
            ),
            (200, vec![etag]),
            (204, vec![etag, ("content-length", "0")]),
        ];
        for (status, headers) in rows {
            let read = head(status, &headers).part_version();
            assert!(
                matches!(read, Err(OriginError::BadAnswer(_))),
                "{headers:?}"
            );
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Timestamp(5_000);
        let rows = [
            ("7", Some(7)),
            ("Thu, 01 Jan 1970 00:00:10 GMT", Some(5)),
            ("Thu, 01 Jan 1970 00:00:01 GMT", Some(0)),
            ("soon", None),
        ];
        for (text, seconds) in rows {
            let read = head(503, &[("retry-after", text)]).retry_after(now);
            assert_eq!(read, seconds.map(Duration::from_secs), "{text}");
        }
    }
}
