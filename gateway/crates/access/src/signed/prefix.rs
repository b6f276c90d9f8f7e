//! Signed prefixes: `expires=SECONDS&key=ID&prefix=BASE64URL&signature=HEX`.
//!
//! The signature is HMAC-SHA256, with the key's secret, of `SECONDS`, `ID` and the prefix itself with a line feed between
//! them. The text stands in the path as the first segment below the route, in the cookie `tidegate`, or in the query.
//! A relative link keeps the segment and the cookie, so that one signature opens a folder.

use std::borrow::Cow;

use hmac::Mac;
use http::header::COOKIE;
use percent_encoding::percent_decode_str;
use subtle::ConstantTimeEq as _;
use tidegate_plan::{Timestamp, hex};

use super::{SigningKey, Span};
use crate::{Refusal, Request};

/// The beginning of a segment that may be a signature. No encoder escapes a letter.
const BEGIN: &str = "expires";

/// The cookie's name, with its equals sign.
const COOKIE_BEGIN: &str = "tidegate=";

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

/// The path of a request without its signature, in two parts that are still percent-encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodedPath<'r>(&'r str, &'r str);

impl<'r> DecodedPath<'r> {
    /// Returns the path of a request whose rest below the route, without a signature, is `below`.
    pub(crate) fn new(request: &Request<'r>, below: &'r str) -> Self {
        let route = request.path.strip_suffix(request.below);
        Self(route.unwrap_or_default(), below)
    }

    /// Returns whether a prefix that ends in `/` covers the path, or another one is the path.
    pub(crate) fn is_under(self, prefix: &[u8]) -> bool {
        let mut path = percent_decode_str(self.0).chain(percent_decode_str(self.1));
        let begins = prefix.iter().all(|byte| path.next() == Some(*byte));
        begins && (prefix.ends_with(b"/") || path.next().is_none())
    }
}

/// Splits the path below a route into its signature, decoded, and the rest. Without a signature the rest is all of it.
pub(crate) fn split_segment(below: &str) -> (Option<Cow<'_, str>>, &str) {
    if !below.starts_with(BEGIN) {
        return (None, below);
    }
    let (segment, rest) = below.split_once('/').unwrap_or((below, ""));
    match decode(segment) {
        Some(text) if Fields::read(&text, true).is_some() => (Some(text), rest),
        _ => (None, below),
    }
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

/// Calls `judge` with each signed prefix that a request shows, decoded, until it returns true: the one in the path, in
/// the query, and in the cookies.
pub(super) fn shown(
    segment: Option<Cow<'_, str>>,
    request: &Request<'_>,
    mut judge: impl FnMut(&str) -> bool,
) {
    if segment.is_some_and(|text| judge(&text)) {
        return;
    }
    if let Some(query) = request.query
        && Fields::read(query, false).is_some()
        && judge(query)
    {
        return;
    }
    let lines = request.headers.get_all(COOKIE).iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    let values = pairs.filter_map(|pair| pair.trim().strip_prefix(COOKIE_BEGIN));
    for value in values.take(MAX_COOKIES) {
        // Some libraries quote a value, others encode it.
        if let Some(text) = decode(value.trim_matches('"'))
            && judge(&text)
        {
            return;
        }
    }
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

/// Returns the key that has signed the prefix, if the signature is right, holds now, and is for this path.
pub(super) fn verify<'k>(
    keys: &'k [SigningKey],
    shown: &str,
    path: DecodedPath<'_>,
    (now, skew): (Timestamp, u64),
) -> Result<&'k SigningKey, Refusal> {
    let fields = Fields::read(shown, false).ok_or(Refusal::Signature)?;
    let key = keys.iter().find(|key| key.id == fields.key);
    let key = key.ok_or(Refusal::Key)?;
    let prefix = base64_simd::URL_SAFE_NO_PAD
        .decode_to_vec(fields.prefix)
        .map_err(|_| Refusal::Signature)?;
    let right = signature(key, fields.expires, &prefix);
    if !bool::from(right.as_bytes().ct_eq(fields.signature.as_bytes())) {
        return Err(Refusal::Signature);
    }
    let expires = fields.expires.parse().map_err(|_| Refusal::Signature)?;
    if let Some(refusal) = Span::new(0, expires, skew).refusal(now) {
        return Err(refusal);
    }
    match path.is_under(&prefix) {
        true => Ok(key),
        false => Err(Refusal::Prefix),
    }
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
