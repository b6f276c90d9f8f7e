//! The headers of answers that are alike but for the cache's part in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use http::header::AGE;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::cache_status::{CACHE_STATUS, CachedPart, cache_status};
use tidegate_engine::OpenOutcome;
use tidegate_telemetry::sharded::ThreadShards;

/// The headers of answers that are alike but for `Cache-Status` and `Age`. Those of a hit change once a second, and are
/// kept for as long. A thread keeps its own copy of those that are used often: a value is a counted reference, and
/// processors that count the same ones wait for each other.
#[derive(Debug)]
pub(crate) struct AnswerHeaders {
    base: HeaderMap,
    /// Whether they state the version's age.
    with_age: bool,
    hit: ArcSwapOption<HitHeaders>,
    own_hit: ThreadShards<ArcSwapOption<HitHeaders>>,
}

/// The headers of a hit within one second.
#[derive(Debug)]
struct HitHeaders {
    age: u64,
    ttl: i64,
    headers: HeaderMap,
    /// The answers that have had them from all threads' copy.
    uses: AtomicU32,
}

impl HitHeaders {
    fn is_of(&self, outcome: &OpenOutcome) -> bool {
        (self.age, self.ttl) == (outcome.age.as_secs(), outcome.ttl_secs())
    }
}

/// The answers of one second after which a thread makes a copy of its own: for fewer it would not pay.
const MANY_USES: u32 = 16;

impl AnswerHeaders {
    /// Makes those that add to `base`. `with_age` says whether `Age` is among them: a lifetime that counts from the
    /// answer on is not the version's (RFC 9111, 4.2.3).
    pub(crate) fn new(mut base: HeaderMap, with_age: bool) -> Self {
        // Their entries exist from the start, so that a copy need not grow.
        base.insert(CACHE_STATUS, HeaderValue::from_static(""));
        if with_age {
            base.insert(AGE, HeaderValue::from(0));
        }
        Self {
            base,
            with_age,
            hit: ArcSwapOption::empty(),
            own_hit: ThreadShards::default(),
        }
    }

    /// Returns the headers without the cache's part.
    pub(crate) fn base(&self) -> &HeaderMap {
        &self.base
    }

    /// Returns whether the answers state the version's age.
    pub(crate) fn with_age(&self) -> bool {
        self.with_age
    }

    /// Returns the headers of an answer whose version was found as `outcome` says, and whose bytes were cached as
    /// `cached` says.
    pub(crate) fn of(&self, outcome: &OpenOutcome, cached: CachedPart) -> HeaderMap {
        if outcome.forward.is_some() || cached != CachedPart::All {
            return self.render(outcome, cached);
        }
        let own = self.own_hit.own();
        if let Some(known) = own.load().as_ref().filter(|known| known.is_of(outcome)) {
            return known.headers.clone();
        }
        if let Some(known) = self
            .hit
            .load()
            .as_ref()
            .filter(|known| known.is_of(outcome))
        {
            if known.uses.fetch_add(1, Relaxed) >= MANY_USES {
                own.store(Some(kept(outcome, copied(&known.headers))));
            }
            return known.headers.clone();
        }
        let headers = self.render(outcome, cached);
        self.hit.store(Some(kept(outcome, headers.clone())));
        headers
    }

    fn render(&self, outcome: &OpenOutcome, cached: CachedPart) -> HeaderMap {
        let mut headers = self.base.clone();
        headers.insert(CACHE_STATUS, cache_status(outcome, cached));
        if self.with_age && (outcome.forward.is_none() || !outcome.age.is_zero()) {
            headers.insert(AGE, outcome.age.as_secs().into());
        } else {
            headers.remove(AGE);
        }
        headers
    }
}

fn kept(outcome: &OpenOutcome, headers: HeaderMap) -> Arc<HitHeaders> {
    Arc::new(HitHeaders {
        age: outcome.age.as_secs(),
        ttl: outcome.ttl_secs(),
        headers,
        uses: AtomicU32::new(0),
    })
}

/// Copies headers with their bytes: a clone would share these.
fn copied(headers: &HeaderMap) -> HeaderMap {
    let mut copies = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let copy = HeaderName::from_bytes(name.as_str().as_bytes()).expect("it is a name");
        let mut bytes = HeaderValue::from_bytes(value.as_bytes()).expect("it is a value");
        bytes.set_sensitive(value.is_sensitive());
        copies.append(copy, bytes);
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_headers_in_memory_of_its_own() {
        let mut headers = HeaderMap::new();
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).expect("text");
        headers.insert(AGE, HeaderValue::from(7));
        let own = HeaderName::from_bytes(b"x-own").expect("a name");
        headers.append(own.clone(), value("one"));
        headers.append(own.clone(), value("caf\u{e9}"));
        let copy = copied(&headers);
        assert_eq!(copy, headers);
        for (old, new) in headers.get_all(&own).iter().zip(copy.get_all(&own)) {
            assert_ne!(old.as_bytes().as_ptr(), new.as_bytes().as_ptr());
        }
    }
}
