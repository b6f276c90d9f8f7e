//! Signed prefixes: `expires=SECONDS&key=ID&prefix=BASE64URL&signature=HEX`.
//!
//! The signature is HMAC-SHA256, with the key's secret, of `SECONDS`, `ID` and the prefix itself with a line feed between
//! them. The text stands in the path as the first segment below the route, in the cookie `tidegate`, or in the query.
//! A relative link keeps the segment and the cookie, so that one signature opens a folder.

use std::borrow::Cow;

use hmac::Mac;
use percent_encoding::percent_decode_str;
use tidegate_plan::{Timestamp, hex, is_same_secret};

use super::{SigningKey, Span};
use crate::header_text::{cookies, unquoted, value_of};
use crate::{Refusal, Request};

/// The beginning of a segment that may be a signature. No encoder escapes a letter.
const BEGIN: &str = "expires";

/// The cookie's name.
const COOKIE: &str = "tidegate";

/// The most cookies of a request that are looked at.
const MAX_COOKIES: usize = 8;

/// The four fields of a signed prefix.
#[derive(Debug, Clone, Copy)]
struct Fields<'t> {
    expires: &'t str,
    key: &'t str,
    prefix: &'t str,
    signature: &'t str,
}

impl<'t> Fields<'t> {
    /// Finds the fields in a query. `None`: one of them is missing or doubled, or there is another field and `strict`
    /// asks for none.
    fn read(text: &'t str, strict: bool) -> Option<Self> {
        let mut found: [Option<&str>; 4] = [None; 4];
        for field in text.split('&') {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let names = ["expires", "key", "prefix", "signature"];
            match names.iter().position(|own| *own == name) {
                Some(at) if found[at].is_none() => found[at] = Some(value),
                None if !strict => {}
                _ => return None,
            }
        }
        let [expires, key, prefix, signature] = found;
        Some(Self {
            expires: expires?,
            key: key?,
            prefix: prefix?,
            signature: signature?,
        })
    }
}

/// The path of a request without its signature.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodedPath<'r> {
    /// The whole path, and its end below the route.
    path: &'r str,
    end: &'r str,
    /// The same end without a signature.
    below: &'r str,
}

impl<'r> DecodedPath<'r> {
    /// Returns the path of a request whose rest below the route, without a signature, is `below`.
    pub(crate) fn new(request: &Request<'r>, below: &'r str) -> Self {
        Self {
            path: request.path,
            end: request.below,
            below,
        }
    }

    /// Returns the path in two parts that are still percent-encoded: up to the route, and below it.
    fn parts(self) -> (&'r str, &'r str) {
        let route = self.path.strip_suffix(self.end);
        (route.unwrap_or_default(), self.below)
    }

    /// Returns whether a prefix that ends in `/` covers the path, or another one is the path.
    pub(crate) fn is_under(self, prefix: &[u8]) -> bool {
        let (route, below) = self.parts();
        let (first, second) = (route.as_bytes(), below.as_bytes());
        let (own, more) = prefix.split_at(prefix.len().min(first.len()));
        // Most paths are spelled without escapes, and are compared as they stand.
        if first.starts_with(own) && second.starts_with(more) && !prefix.contains(&b'%') {
            let is_whole = prefix.len() == first.len() + second.len();
            return prefix.ends_with(b"/") || is_whole;
        }
        let mut path = percent_decode_str(route).chain(percent_decode_str(below));
        let begins = prefix.iter().all(|byte| path.next() == Some(*byte));
        begins && (prefix.ends_with(b"/") || path.next().is_none())
    }
}

/// A signed prefix that a request shows.
#[derive(Debug)]
pub(crate) enum PresentedPrefix<'r> {
    /// It is remembered, and admits the request by the key of this index.
    Admitted(usize),
    /// It stands in a cookie, perhaps percent-encoded.
    Cookie(&'r str),
    /// It stands in the path or the query, and has the four fields.
    Text {
        /// As it was shown.
        raw: &'r str,
        /// Decoded, in the path.
        text: Cow<'r, str>,
    },
}

/// A signed prefix whose signature is right.
#[derive(Debug)]
pub(super) struct SignedPrefix {
    /// The index of its key.
    pub(super) key: usize,
    pub(super) span: Span,
    /// The beginning of the paths that it opens, written out.
    pub(super) prefix: Box<[u8]>,
}

impl SignedPrefix {
    /// Decides whether it opens a path now.
    pub(super) fn judge(&self, path: DecodedPath<'_>, now: Timestamp) -> Result<(), Refusal> {
        match self.span.refusal(now) {
            Some(refusal) => Err(refusal),
            None if path.is_under(&self.prefix) => Ok(()),
            None => Err(Refusal::Prefix),
        }
    }
}

/// Splits the path below a route after its first segment, if that may be a signature.
pub(super) fn first_segment(below: &str) -> Option<(&str, &str)> {
    let begins = below.starts_with(BEGIN);
    begins.then(|| below.split_once('/').unwrap_or((below, "")))
}

/// Decodes a segment that is a signature.
pub(super) fn read_segment(segment: &str) -> Option<Cow<'_, str>> {
    decode(segment).filter(|text| Fields::read(text, true).is_some())
}

/// Returns the signature of a decoded text, and whether there are no other fields.
pub(super) fn signature_of(text: &str) -> Option<(&str, bool)> {
    let fields = Fields::read(text, false)?;
    Some((fields.signature, text.split('&').count() == 4))
}

/// Returns a path without the segments that look like a signature, for the log.
///
/// A segment is judged as it is decoded, since [`Access::check`](crate::Access::check) admits other spellings too. It goes
/// whole, with an encoded slash in it, and also where it is malformed.
#[must_use]
pub fn without_signature(path: &str) -> Cow<'_, str> {
    let is_signature = |segment: &&str| {
        let text = percent_decode_str(segment).decode_utf8_lossy();
        text.contains(BEGIN) && text.contains("signature")
    };
    if !path.split('/').any(|segment| is_signature(&segment)) {
        return Cow::Borrowed(path);
    }
    let rest: Vec<_> = path.split('/').filter(|one| !is_signature(one)).collect();
    Cow::Owned(rest.join("/"))
}

/// Calls `judge` with each signed prefix that a request shows, until it returns true: the one in the path, in the query,
/// and in the cookies. `by_query` is the index of the key by which the query is known to admit the request.
pub(super) fn shown<'r>(
    segment: Option<PresentedPrefix<'r>>,
    by_query: Option<usize>,
    request: &Request<'r>,
    mut judge: impl FnMut(PresentedPrefix<'_>) -> bool,
) {
    if segment.is_some_and(&mut judge) {
        return;
    }
    let has_fields = |query: &&str| Fields::read(query, false).is_some();
    let query = match by_query {
        Some(key) => Some(PresentedPrefix::Admitted(key)),
        None => request
            .query
            .filter(has_fields)
            .map(|raw| PresentedPrefix::Text {
                raw,
                text: raw.into(),
            }),
    };
    if query.is_some_and(&mut judge) {
        return;
    }
    let values = cookies(request.headers).filter_map(|pair| value_of(pair, COOKIE));
    // Some libraries quote a value, others encode it.
    let values = values.filter_map(|value| std::str::from_utf8(unquoted(value)).ok());
    let _ = values
        .take(MAX_COOKIES)
        .map(PresentedPrefix::Cookie)
        .any(judge);
}

/// Decodes a segment or a cookie. `None`: it is no text.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

/// Verifies a signed prefix. It looks neither at the time nor at the path.
pub(super) fn verify(keys: &[SigningKey], shown: &str, skew: u64) -> Result<SignedPrefix, Refusal> {
    let fields = Fields::read(shown, false).ok_or(Refusal::Signature)?;
    let key = keys.iter().position(|key| key.id == fields.key);
    let key = key.ok_or(Refusal::Key)?;
    let prefix = base64_simd::URL_SAFE_NO_PAD
        .decode_to_vec(fields.prefix)
        .map_err(|_| Refusal::Signature)?;
    let right = signature(&keys[key], fields.expires, &prefix);
    if !is_same_secret(right.as_bytes(), fields.signature.as_bytes()) {
        return Err(Refusal::Signature);
    }
    let expires = fields.expires.parse().map_err(|_| Refusal::Signature)?;
    Ok(SignedPrefix {
        key,
        span: Span::new(0, expires, skew),
        prefix: prefix.into(),
    })
}

/// Writes a signed prefix.
pub(super) fn sign(key: &SigningKey, prefix: &str, expires: u64) -> String {
    let signature = signature(key, &expires.to_string(), prefix.as_bytes());
    let encoded = base64_simd::URL_SAFE_NO_PAD.encode_to_string(prefix);
    format!(
        "expires={expires}&key={}&prefix={encoded}&signature={signature}",
        key.id
    )
}

fn signature(key: &SigningKey, expires: &str, prefix: &[u8]) -> String {
    let mut mac = key.prefix.clone();
    // Neither of the first two can hold a line feed that would move the others: the second is a known id.
    for part in [expires.as_bytes(), b"\n", key.id.as_bytes(), b"\n", prefix] {
        mac.update(part);
    }
    hex(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests;
