//! Presigned URLs of AWS Signature Version 4, as S3 takes them (Amazon S3 API Reference, "Authenticating Requests: Using
//! Query Parameters (AWS Signature Version 4)"): payload `UNSIGNED-PAYLOAD`, the path encoded once and not normalized.
//!
//! Region and service are those of the scope that the link names; a link for any of them is good.

use std::borrow::Cow;
use std::ops::Range;

use hmac::Mac;
use http::{HeaderName, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use sha2::{Digest, Sha256};

use super::{MAX_PRESIGNED, SigningKey, Span, keyed};
use crate::date::{format_basic, parse_basic};
use crate::{Refusal, Request};
use tidegate_plan::{hex, is_same_secret};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SIGNATURE: &str = "X-Amz-Signature=";
const TERMINATOR: &str = "aws4_request";

/// The most parameters of a query that is verified.
const MAX_PARAMETERS: usize = 64;

/// The most headers that a signature may cover.
const MAX_HEADERS: usize = 32;

/// The characters that AWS does not encode in a query: RFC 3986, 2.3.
const UNRESERVED_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The characters that AWS does not encode in a path.
const IN_PATH: &AsciiSet = &UNRESERVED_CHARACTERS.remove(b'/');

/// The name and value of a parameter, decoded.
type Parameter<'q> = (Cow<'q, [u8]>, Cow<'q, [u8]>);

/// A presigned URL whose signature is right.
#[derive(Debug)]
pub(super) struct VerifiedUrl {
    /// The index of its key.
    pub(super) key: usize,
    pub(super) span: Span,
    /// Whether it covers no header but the host.
    pub(super) signs_host_alone: bool,
}

/// The scope of a signature: day, region and service.
#[derive(Debug, Clone, Copy)]
struct Scope<'q> {
    day: &'q str,
    region: &'q str,
    service: &'q str,
}

/// The parameters of a presigned URL.
#[derive(Debug)]
struct PresignedUrl<'q> {
    id: Cow<'q, str>,
    time: Cow<'q, str>,
    seconds: u64,
    signed_headers: Cow<'q, str>,
    signature: Cow<'q, str>,
    credential: Cow<'q, str>,
    /// All parameters but the signature, decoded.
    parameters: Vec<Parameter<'q>>,
}

/// Returns the place of a query's last signature. `None`: it has none, and is not presigned.
pub(super) fn signature_in(query: &str) -> Option<Range<usize>> {
    let at = query.rfind(SIGNATURE)?;
    if at > 0 && !query[..at].ends_with('&') {
        return None;
    }
    let begin = at + SIGNATURE.len();
    let len = query[begin..].find('&').unwrap_or(query.len() - begin);
    Some(begin..begin + len)
}

/// Verifies the signature of a presigned request. It does not look at the time.
pub(super) fn verify(
    keys: &[SigningKey],
    request: &Request<'_>,
    skew: u64,
) -> Result<VerifiedUrl, Refusal> {
    let query = request.query.unwrap_or_default();
    let presigned = PresignedUrl::read(query).ok_or(Refusal::Signature)?;
    let scope = Scope::read(&presigned.credential).ok_or(Refusal::Signature)?;
    let begin = parse_basic(&presigned.time).ok_or(Refusal::Signature)?;
    if !presigned.time.starts_with(scope.day) || scope.day.len() != 8 {
        return Err(Refusal::Signature);
    }
    let key = keys.iter().position(|key| key.id == presigned.id);
    let key = key.ok_or(Refusal::Key)?;
    let headers =
        canonical_headers(request, &presigned.signed_headers).ok_or(Refusal::Signature)?;
    let canonical = canonical_request(
        request.method,
        request.path,
        &canonical_query(&presigned.parameters),
        (&headers, &presigned.signed_headers),
    );
    let right = signature(&keys[key], &presigned.time, scope, &canonical);
    if !is_same_secret(right.as_bytes(), presigned.signature.as_bytes()) {
        return Err(Refusal::Signature);
    }
    Ok(VerifiedUrl {
        key,
        span: Span::new(begin, begin + presigned.seconds, skew),
        signs_host_alone: presigned.signed_headers == "host",
    })
}

/// Returns the query of a presigned URL.
pub(super) fn presign(
    key: &SigningKey,
    method: &Method,
    (host, path): (&str, &str),
    now: u64,
    seconds: u64,
) -> String {
    let time = format_basic(now);
    let scope = Scope {
        day: &time[..8],
        region: "us-east-1",
        service: "s3",
    };
    let credential = [&key.id, scope.day, scope.region, scope.service, TERMINATOR].join("/");
    let seconds = seconds.to_string();
    let parameter = |name: &'static str, value: &str| {
        (
            Cow::Borrowed(name.as_bytes()),
            Cow::Owned(value.as_bytes().to_vec()),
        )
    };
    let query = canonical_query(&[
        parameter("X-Amz-Algorithm", ALGORITHM),
        parameter("X-Amz-Credential", &credential),
        parameter("X-Amz-Date", &time),
        parameter("X-Amz-Expires", &seconds),
        parameter("X-Amz-SignedHeaders", "host"),
    ]);
    let headers = format!("host:{}\n", host.to_ascii_lowercase());
    let canonical = canonical_request(method, path, &query, (&headers, "host"));
    let signature = signature(key, &time, scope, &canonical);
    format!("{query}&{SIGNATURE}{signature}")
}

impl<'q> PresignedUrl<'q> {
    /// Reads the parameters. `None`: one of them is missing, doubled or malformed, or there are too many.
    fn read(query: &'q str) -> Option<Self> {
        let [
            mut algorithm,
            mut credential,
            mut time,
            mut seconds,
            mut headers,
            mut signature,
        ] = [const { None }; 6];
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name: Cow<'q, [u8]> = percent_decode_str(name).into();
            let value: Cow<'q, [u8]> = percent_decode_str(value).into();
            let slot = match &*name {
                b"X-Amz-Algorithm" => Some(&mut algorithm),
                b"X-Amz-Credential" => Some(&mut credential),
                b"X-Amz-Date" => Some(&mut time),
                b"X-Amz-Expires" => Some(&mut seconds),
                b"X-Amz-SignedHeaders" => Some(&mut headers),
                b"X-Amz-Signature" => Some(&mut signature),
                _ => None,
            };
            let is_signature = &*name == b"X-Amz-Signature";
            if let Some(slot) = slot
                && slot.replace(text(value.clone())?).is_some()
            {
                return None;
            }
            if !is_signature {
                parameters.push((name, value));
            }
            if parameters.len() > MAX_PARAMETERS {
                return None;
            }
        }
        let credential = credential?;
        let id = match &credential {
            Cow::Borrowed(text) => Cow::Borrowed(text.split('/').next()?),
            Cow::Owned(text) => Cow::Owned(text.split('/').next()?.to_owned()),
        };
        (algorithm? == ALGORITHM).then_some(())?;
        Some(Self {
            id,
            time: time?,
            seconds: read_seconds(&seconds?)?,
            signed_headers: headers?,
            signature: signature?,
            credential,
            parameters,
        })
    }
}

impl<'q> Scope<'q> {
    /// Reads `ID/DAY/REGION/SERVICE/aws4_request`.
    fn read(credential: &'q str) -> Option<Self> {
        let mut parts = credential.split('/').skip(1);
        let [day, region, service, end] =
            [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let ends = end == TERMINATOR && parts.next().is_none();
        ends.then_some(Self {
            day,
            region,
            service,
        })
    }
}

fn text(bytes: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

/// Reads a life in whole seconds, from 1 to [`MAX_PRESIGNED`].
fn read_seconds(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = digits.then(|| text.parse().ok()).flatten()?;
    (1..=MAX_PRESIGNED.as_secs())
        .contains(&seconds)
        .then_some(seconds)
}

fn canonical_request(
    method: &Method,
    path: &str,
    query: &str,
    (headers, names): (&str, &str),
) -> String {
    let decoded: Cow<'_, [u8]> = percent_decode_str(path).into();
    let path = percent_encode(&decoded, IN_PATH);
    format!("{method}\n{path}\n{query}\n{headers}\n{names}\nUNSIGNED-PAYLOAD")
}

/// Writes parameters in their one spelling and order.
fn canonical_query(parameters: &[Parameter<'_>]) -> String {
    let encode = |text: &[u8]| percent_encode(text, UNRESERVED_CHARACTERS).to_string();
    let mut pairs: Vec<_> = parameters
        .iter()
        .map(|(name, value)| (encode(name), encode(value)))
        .collect();
    pairs.sort();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// Writes the signed headers, a line each, the host in lower case: it has no case (RFC 3986, 3.2.2), and signers write it
/// so. `None`: they are not in order, one of them is missing in the request, or the host is not among them.
fn canonical_headers(request: &Request<'_>, names: &str) -> Option<String> {
    let mut lines = String::new();
    let mut last = "";
    let mut has_host = false;
    for (count, name) in names.split(';').enumerate() {
        if count >= MAX_HEADERS || name <= last || name.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        last = name;
        lines.push_str(name);
        lines.push(':');
        if name == "host" {
            has_host = true;
            lines.push_str(&request.host.to_ascii_lowercase());
        } else {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let mut values = request.headers.get_all(name).iter().peekable();
            values.peek()?;
            for (nth, value) in values.enumerate() {
                let words: Vec<_> = value.to_str().ok()?.split_ascii_whitespace().collect();
                lines.push_str(if nth > 0 { "," } else { "" });
                lines.push_str(&words.join(" "));
            }
        }
        lines.push('\n');
    }
    has_host.then_some(lines)
}

/// Returns the signature of a canonical request, as lower-case digits.
fn signature(key: &SigningKey, time: &str, scope: Scope<'_>, canonical: &str) -> String {
    let mac = |key: &[u8], text: &str| {
        let mut mac = keyed(key);
        mac.update(text.as_bytes());
        mac.finalize().into_bytes()
    };
    let Scope {
        day,
        region,
        service,
    } = scope;
    let day_key = mac(&key.aws4, day);
    let signing_key = mac(&mac(&mac(&day_key, region), service), TERMINATOR);
    let hash = hex(&Sha256::digest(canonical));
    let text = format!("{ALGORITHM}\n{time}\n{day}/{region}/{service}/{TERMINATOR}\n{hash}");
    hex(&mac(&signing_key, &text))
}

#[cfg(test)]
mod tests;
