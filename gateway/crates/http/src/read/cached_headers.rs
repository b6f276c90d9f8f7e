//! The headers that all answers of one version on one route share, made once.
//!
//! A hot object's answer then costs a copy of them (their values are counted references), see
//! [`AnswerHeaders`]. They are kept by the address of their version, which they hold alive,
//! so that an address never means another version.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPIRES,
    LAST_MODIFIED, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::answer_headers::AnswerHeaders;
use super::private::make_private;
use crate::reply::{cors, vary};
use crate::settings::RouteSettings;
use tidegate_engine::variant;
use tidegate_plan::attributes::{ATIME_HEADER, GID_HEADER, LINK_HEADER, MODE_HEADER, UID_HEADER};
use tidegate_plan::media_type::{self, GuessTypes};
use tidegate_plan::{Coding, ObjectKey, Version};

/// The codings of the engine, best first.
pub(crate) const ENGINE_CODINGS: [Coding; 2] = [Coding::Brotli, Coding::Gzip];

/// Versions whose headers are kept for one route: enough for the objects in use at one time, not for all. Each takes
/// some 2 KiB, and a hot one 2 KiB more for each thread that answers with it.
const HEADER_CACHE_SLOTS: usize = 1024;

/// The smallest object worth compressing: below, it fits one packet either way.
const MIN_COMPRESSED_SIZE: u64 = 512;

/// The metadata of mounts that no answer has: readers of a site are not told the numbers of its users.
const HIDDEN_HEADERS: [HeaderName; 5] = [
    MODE_HEADER,
    UID_HEADER,
    GID_HEADER,
    ATIME_HEADER,
    LINK_HEADER,
];

/// The headers that all answers of one version share.
#[derive(Debug)]
pub(crate) struct CachedHeaders {
    /// For 200; for 206 the range is yet to be set.
    pub(crate) full: AnswerHeaders,
    /// For 304 (RFC 9110, 15.4.5).
    pub(crate) not_modified: AnswerHeaders,
    /// The ETags of the variants that the engine makes, in the order of [`ENGINE_CODINGS`]; `None` if it makes none.
    variant_tags: Option<[HeaderValue; 2]>,
    /// Whether it is text that may be sent in a coding.
    pub(crate) encodable: bool,
    /// Whether the engine may encode it, so that answers vary.
    pub(crate) compressible: bool,
}

impl CachedHeaders {
    pub(crate) fn new(version: &Version, key: &ObjectKey, route: &RouteSettings) -> Self {
        let mut full = HeaderMap::with_capacity(16);
        full.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let shown = version.headers.iter();
        for (name, value) in shown.filter(|(name, _)| !HIDDEN_HEADERS.contains(name)) {
            full.append(name, value.clone());
        }
        if let Some(kind) = content_type(version, key, route.guess_types) {
            full.insert(CONTENT_TYPE, kind);
        }
        if let Some(own) = &route.cache_control {
            full.insert(CACHE_CONTROL, own.clone());
            full.remove(EXPIRES);
        }
        if route.is_private() {
            make_private(&mut full);
        }
        for (name, value) in &route.headers {
            full.insert(name, value.clone());
        }
        // The headers above must not replace those that the protocol depends on.
        full.insert(ETAG, header_value(version.etag.as_str()));
        full.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if let Some(time) = version.last_modified {
            let date = httpdate::fmt_http_date(time.into());
            full.insert(LAST_MODIFIED, header_value(&date));
        }
        let encodable = is_encodable(&full);
        let sizes = MIN_COMPRESSED_SIZE..=variant::MAX_ENCODED_SIZE;
        let compressible = encodable && route.compress && sizes.contains(&version.size);
        if compressible || encodable && !route.precompressed.is_empty() {
            vary::add(&mut full, "Accept-Encoding");
        }
        if let Some(cors) = &route.cors {
            cors::add_vary(cors, &mut full);
        }
        full.insert(CONTENT_LENGTH, version.size.into());
        let with_age = route.cache_control.is_none();
        let tag = |coding| header_value(version.etag.variant(coding).as_str());
        Self {
            not_modified: AnswerHeaders::new(headers_of_not_modified(&full, route), with_age),
            variant_tags: compressible.then(|| ENGINE_CODINGS.map(tag)),
            full: AnswerHeaders::new(full, with_age),
            encodable,
            compressible,
        }
    }

    /// Returns the ETag of the variant in `coding`; the object's own if there is none.
    pub(crate) fn tag(&self, coding: Coding) -> &HeaderValue {
        let at = ENGINE_CODINGS.iter().position(|own| *own == coding);
        let tag = self
            .variant_tags
            .as_ref()
            .zip(at)
            .map(|(tags, at)| &tags[at]);
        tag.unwrap_or_else(|| &self.full.base()[ETAG])
    }

    /// Returns the headers of a precompressed object in the place of its original: its own, with the original's type.
    pub(crate) fn in_place_of(&self, original: &Self, coding: Coding) -> Self {
        let [mut full, mut not_modified] =
            [&self.full, &self.not_modified].map(|it| it.base().clone());
        match original.full.base().get(CONTENT_TYPE) {
            Some(kind) => full.insert(CONTENT_TYPE, kind.clone()),
            None => full.remove(CONTENT_TYPE),
        };
        full.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        full.remove(ACCEPT_RANGES);
        for headers in [&mut full, &mut not_modified] {
            vary::add(headers, "Accept-Encoding");
        }
        Self {
            full: AnswerHeaders::new(full, self.full.with_age()),
            not_modified: AnswerHeaders::new(not_modified, self.not_modified.with_age()),
            variant_tags: None,
            encodable: false,
            compressible: false,
        }
    }
}

/// Makes a header value of an entity tag or a date, which came as one.
pub(crate) fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).expect("tags and dates have no control characters")
}

fn headers_of_not_modified(full: &HeaderMap, route: &RouteSettings) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    let own = route.headers.iter().map(|(name, _)| name);
    for name in [ETAG, LAST_MODIFIED, CACHE_CONTROL, EXPIRES, VARY]
        .iter()
        .chain(own)
    {
        if !headers.contains_key(name) {
            for value in full.get_all(name) {
                headers.append(name, value.clone());
            }
        }
    }
    headers
}

/// Returns the content type to answer with, if it differs from the object's own (`None`: it does not). An object with a
/// type of its own keeps it. One without, or with one of the two octet-streams, gets the type that `rule` allows to
/// guess from the key's ending.
fn content_type(version: &Version, key: &ObjectKey, rule: GuessTypes) -> Option<HeaderValue> {
    let own = version.values(&CONTENT_TYPE).next().map_or("", essence);
    if !media_type::is_uninformative(own) {
        return None;
    }
    let guess = media_type::of_name(key.as_str());
    match guess.filter(|kind| rule.allows(kind)) {
        Some(guess) => Some(HeaderValue::from_static(guess)),
        // Without a type, a client would guess for itself.
        None if own.is_empty() => Some(HeaderValue::from_static("application/octet-stream")),
        None => None,
    }
}

/// Returns a type without its parameters, which may have bytes that are no text.
fn essence(kind: &HeaderValue) -> &str {
    let kind = kind.as_bytes().split(|byte| *byte == b';').next();
    let kind = kind.and_then(|kind| std::str::from_utf8(kind).ok());
    kind.unwrap_or_default().trim()
}

/// Returns whether it is text that is not encoded yet and not marked `no-transform` (RFC 9110, 7.7).
fn is_encodable(headers: &HeaderMap) -> bool {
    let forbids = |line: &HeaderValue| {
        let line = line.as_bytes().to_ascii_lowercase();
        String::from_utf8_lossy(&line).contains("no-transform")
    };
    !headers.contains_key(CONTENT_ENCODING)
        && !headers.get_all(CACHE_CONTROL).iter().any(forbids)
        && headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| is_text(essence(kind)))
}

fn is_text(kind: &str) -> bool {
    const OTHER_TEXT_TYPES: [&str; 12] = [
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/wasm",
        "application/x-javascript",
        "application/xml",
        "application/vnd.apple.mpegurl",
        "application/x-mpegurl",
        "application/x-subrip",
        "audio/mpegurl",
        "audio/x-mpegurl",
        "image/svg+xml",
    ];
    let kind = kind.to_ascii_lowercase();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || OTHER_TEXT_TYPES.contains(&kind.as_str())
}

/// The headers of one route's answers, by version.
#[derive(Debug)]
pub(crate) struct HeaderCache {
    slots: Box<[ArcSwapOption<CacheEntry>]>,
}

#[derive(Debug)]
struct CacheEntry {
    version: Arc<Version>,
    headers: Arc<CachedHeaders>,
}

impl HeaderCache {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..HEADER_CACHE_SLOTS)
                .map(|_| ArcSwapOption::empty())
                .collect(),
        }
    }

    /// Returns the headers of `version`, which is a version of `key`.
    pub(crate) fn get(
        &self,
        version: &Arc<Version>,
        key: &ObjectKey,
        route: &RouteSettings,
    ) -> Arc<CachedHeaders> {
        let slot = &self.slots[slot_of(version)];
        if let Some(entry) = &*slot.load()
            && Arc::ptr_eq(&entry.version, version)
        {
            return entry.headers.clone();
        }
        let headers = Arc::new(CachedHeaders::new(version, key, route));
        slot.store(Some(Arc::new(CacheEntry {
            version: version.clone(),
            headers: headers.clone(),
        })));
        headers
    }
}

/// Spreads addresses, whose low bits are alike, over the slots.
fn slot_of(version: &Arc<Version>) -> usize {
    let address = Arc::as_ptr(version).addr();
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize) >> (usize::BITS - 10)
}

#[cfg(test)]
mod tests;
