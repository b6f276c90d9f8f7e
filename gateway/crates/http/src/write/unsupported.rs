//! Requests that mean something else than a PUT or DELETE here would do.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, TRAILER, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Version};

use crate::request_error::RequestError;

/// S3's subresources of an object, by their names in a query.
const S3_SUBRESOURCES: [&str; 8] = [
    "acl",
    "legal-hold",
    "partNumber",
    "retention",
    "tagging",
    "uploadId",
    "uploads",
    "versionId",
];

/// Refuses a request that is not a PUT or DELETE of the whole object as it is.
///
/// # Errors
/// [`RequestError::Refused`] or [`RequestError::Framing`], with the reason.
pub(crate) fn check(parts: &Parts) -> Result<(), RequestError> {
    let headers = &parts.headers;
    let mut arguments = parts.uri.query().unwrap_or_default().split('&');
    let name = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    if arguments.any(|argument| S3_SUBRESOURCES.contains(&name(argument).as_str())) {
        return Err(RequestError::Refused(
            "only an object is put or deleted, not its parts, versions or tags",
        ));
    }
    if headers.contains_key("x-amz-copy-source") {
        return Err(RequestError::Refused("nothing is copied here"));
    }
    if parts.method != Method::PUT {
        return Ok(());
    }
    check_framing(parts)?;
    // RFC 9110, 14.5: a part of an object must not be taken for all of it.
    if headers.contains_key(CONTENT_RANGE) {
        return Err(RequestError::Refused("an object is put as a whole"));
    }
    let mut trailers =
        list_members(headers, TRAILER.as_str()).chain(list_members(headers, "x-amz-trailer"));
    if trailers.any(|name| is_digest(&name)) {
        return Err(RequestError::Refused(
            "a digest must stand in the head, not in a trailer",
        ));
    }
    // S3's own chunks, with signatures between them.
    if list_members(headers, CONTENT_ENCODING.as_str()).any(|name| name == "aws-chunked") {
        return Err(RequestError::Refused("aws-chunked is not taken apart here"));
    }
    Ok(())
}

/// Refuses a body whose end or whose bytes the gateway would not know.
fn check_framing(parts: &Parts) -> Result<(), RequestError> {
    let headers = &parts.headers;
    if headers.contains_key(TRANSFER_ENCODING) {
        let codings = list_members(headers, TRANSFER_ENCODING.as_str());
        // RFC 9112, 6.1: another coding is not taken off.
        return match codings.eq(["chunked"]) {
            true => Ok(()),
            false => Err(RequestError::Framing(
                StatusCode::NOT_IMPLEMENTED,
                "no transfer coding is known but chunked",
            )),
        };
    }
    // RFC 9112, 6.3: there is no body then. A client that meant to send one would empty the object.
    match parts.version < Version::HTTP_2 && !headers.contains_key(CONTENT_LENGTH) {
        true => Err(RequestError::Framing(
            StatusCode::LENGTH_REQUIRED,
            "the length is missing",
        )),
        false => Ok(()),
    }
}

/// Returns the members of a list header, which may be spread over several lines.
fn list_members<'a>(headers: &'a HeaderMap, list: &str) -> impl Iterator<Item = String> + use<'a> {
    let lines = headers.get_all(list).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
}

/// Returns whether a header is one of the digests that are checked.
fn is_digest(name: &str) -> bool {
    matches!(name, "content-md5" | "content-digest" | "repr-digest")
        || name.starts_with("x-amz-checksum-")
}
