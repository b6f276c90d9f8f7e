//! The headers that all answers of one version on one route share, made once.
//!
//! A hot object's answer then costs a copy of the block (its values are counted references) and the
//! three headers that differ. Blocks are kept by the address of their version, which they hold
//! alive, so that an address never means another version.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    EXPIRES, LAST_MODIFIED, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::compress::OWN;
use super::settings::RouteSettings;
use super::status::CACHE_STATUS;
use tidegate_engine::variant;
use tidegate_plan::media_type::{self, GuessTypes};
use tidegate_plan::{Coding, ObjectKey, Version};

/// Blocks kept of one route: enough for the objects in use at one time, not for all. About 1 KiB each.
const SLOTS: usize = 1024;

/// The smallest object worth compressing: below, it fits one packet either way.
const COMPRESS_FROM: u64 = 512;

/// The headers that all answers of one version share.
#[derive(Debug)]
pub(super) struct Block {
    /// For 200 and 206; `Content-Length`, `Cache-Status` and `Age` are yet to be set.
    pub(super) full: HeaderMap,
    /// For 304 (RFC 9110, 15.4.5).
    pub(super) bare: HeaderMap,
    /// The ETags of the variants that the engine makes, in the order of [`OWN`]; `None` if it makes none.
    pub(super) tags: Option<[HeaderValue; 2]>,
    /// Whether it is text that may be sent in a coding.
    pub(super) encodable: bool,
    /// Whether the engine may encode it, so that answers vary.
    pub(super) compressible: bool,
}

impl Block {
    pub(super) fn new(version: &Version, key: &ObjectKey, route: &RouteSettings) -> Self {
        let mut full = HeaderMap::with_capacity(16);
        full.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        for (name, value) in &version.headers {
            full.append(name, value.clone());
        }
        if let Some(kind) = content_type(version, key, route.guess_types) {
            full.insert(CONTENT_TYPE, kind);
        }
        if let Some(own) = &route.cache_control {
            full.insert(CACHE_CONTROL, own.clone());
            full.remove(EXPIRES);
        }
        for (name, value) in &route.headers {
            full.insert(name, value.clone());
        }
        // The headers above must not replace those that the protocol depends on.
        let tag = value(version.etag.as_str());
        full.insert(ETAG, tag);
        full.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if let Some(time) = version.last_modified {
            full.insert(LAST_MODIFIED, value(&httpdate::fmt_http_date(time.into())));
        }
        let encodable = is_encodable(&full);
        let sizes = COMPRESS_FROM..=variant::MAX_ENCODED_SIZE;
        let compressible = encodable && route.compress && sizes.contains(&version.size);
        if compressible || encodable && !route.precompressed.is_empty() {
            full.append(VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        // These differ from answer to answer. Their entries exist already, so that a copy need not grow.
        full.insert(CONTENT_LENGTH, version.size.into());
        full.insert(CACHE_STATUS, HeaderValue::from_static(""));
        full.insert(AGE, HeaderValue::from(0));
        let tag = |coding| value(version.etag.variant(coding).as_str());
        Self {
            bare: for_not_modified(&full, route),
            tags: compressible.then(|| OWN.map(tag)),
            full,
            encodable,
            compressible,
        }
    }

    /// Returns the ETag of the variant in `coding`; the object's own if there is none.
    pub(super) fn tag(&self, coding: Coding) -> &HeaderValue {
        let at = OWN.iter().position(|own| *own == coding);
        let tag = self.tags.as_ref().zip(at).map(|(tags, at)| &tags[at]);
        tag.unwrap_or_else(|| &self.full[ETAG])
    }
}

/// Makes a header value of an entity tag or a date, which came as one.
pub(super) fn value(text: &str) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).expect("tags and dates have no control characters")
}

fn for_not_modified(full: &HeaderMap, route: &RouteSettings) -> HeaderMap {
    let mut bare = HeaderMap::with_capacity(8);
    let own = route.headers.iter().map(|(name, _)| name);
    for name in [ETAG, LAST_MODIFIED, CACHE_CONTROL, EXPIRES, VARY]
        .iter()
        .chain(own)
    {
        if !bare.contains_key(name) {
            for value in full.get_all(name) {
                bare.append(name, value.clone());
            }
        }
    }
    bare
}

/// Returns the content type to answer with, if it differs from the object's own (`None`: it does not). An object with a
/// type of its own keeps it. One without, or with one of the two octet-streams, gets the type that `rule` allows to
/// guess from the key's ending.
fn content_type(version: &Version, key: &ObjectKey, rule: GuessTypes) -> Option<HeaderValue> {
    let own = version.header(&CONTENT_TYPE).map_or("", essence);
    if !media_type::says_nothing(own) {
        return None;
    }
    let guess = mime_guess::from_path(key.as_str()).first_raw();
    match guess.filter(|kind| rule.allows(kind)) {
        Some(guess) => Some(HeaderValue::from_static(guess)),
        // Without a type, a client would guess for itself.
        None if own.is_empty() => Some(HeaderValue::from_static("application/octet-stream")),
        None => None,
    }
}

fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

/// Returns whether it is text that is not encoded yet and not marked `no-transform` (RFC 9110, 7.7).
fn is_encodable(headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let forbidden = |value: &str| value.to_ascii_lowercase().contains("no-transform");
    !headers.contains_key(CONTENT_ENCODING)
        && !text(&CACHE_CONTROL).is_some_and(forbidden)
        && text(&CONTENT_TYPE).is_some_and(|kind| is_text(essence(kind)))
}

fn is_text(kind: &str) -> bool {
    const OTHERS: [&str; 9] = [
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/wasm",
        "application/x-javascript",
        "application/xml",
        "application/vnd.apple.mpegurl",
        "application/x-mpegurl",
        "image/svg+xml",
    ];
    let kind = kind.to_ascii_lowercase();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || OTHERS.contains(&kind.as_str())
}

/// The blocks of one route.
#[derive(Debug)]
pub(super) struct Blocks {
    slots: Box<[ArcSwapOption<Slot>]>,
}

#[derive(Debug)]
struct Slot {
    version: Arc<Version>,
    block: Arc<Block>,
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| ArcSwapOption::empty()).collect(),
        }
    }

    /// Returns the block of `version`, which is a version of `key`.
    pub(super) fn get(
        &self,
        version: &Arc<Version>,
        key: &ObjectKey,
        route: &RouteSettings,
    ) -> Arc<Block> {
        let slot = &self.slots[place(version)];
        if let Some(kept) = &*slot.load()
            && Arc::ptr_eq(&kept.version, version)
        {
            return kept.block.clone();
        }
        let block = Arc::new(Block::new(version, key, route));
        slot.store(Some(Arc::new(Slot {
            version: version.clone(),
            block: block.clone(),
        })));
        block
    }
}

/// Spreads addresses, whose low bits are alike, over the slots.
fn place(version: &Arc<Version>) -> usize {
    let address = Arc::as_ptr(version).addr();
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize) >> (usize::BITS - 10)
}

#[cfg(test)]
#[path = "block/tests.rs"]
mod tests;
