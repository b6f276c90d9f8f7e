//! Presigned URLs that were verified, so that a repeated one costs a comparison.
//!
//! A player asks for one URL many times. An entry holds all that the signature covers: method, host, path and query. The
//! signature itself is compared in constant time. The table is direct-mapped: its size is bounded, and an entry goes when
//! another one needs its slot.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::Method;
use subtle::ConstantTimeEq as _;

use super::Span;
use super::sigv4::SplitQuery;
use crate::Request;

/// The URLs that are remembered at most.
const SLOTS: usize = 1024;

/// The longest URL that is remembered, in bytes: the table takes 2 MiB at most.
const MAX_BYTES: usize = 2048;

/// The table.
#[derive(Debug)]
pub(super) struct Memo {
    slots: Box<[ArcSwapOption<Entry>]>,
    hasher: RandomState,
}

/// A verified URL.
#[derive(Debug)]
struct Entry {
    method: Method,
    host: Box<str>,
    path: Box<str>,
    before: Box<str>,
    signature: Box<str>,
    after: Box<str>,
    /// The index of its key, and the times within which it holds.
    verified: (usize, Span),
}

impl Memo {
    /// Returns an empty table; one that is not `used` has no slots.
    pub(super) fn new(used: bool) -> Self {
        let slots = if used { SLOTS } else { 0 };
        Self {
            slots: (0..slots).map(|_| ArcSwapOption::empty()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Returns the key and the times of a URL whose signature was verified.
    pub(super) fn find(
        &self,
        request: &Request<'_>,
        query: &SplitQuery<'_>,
    ) -> Option<(usize, Span)> {
        let slot = self.slot(request, query)?;
        let entry = slot.load();
        let entry = entry.as_ref()?;
        let same = *entry.path == *request.path
            && *entry.before == *query.before
            && *entry.after == *query.after
            && *entry.host == *request.host
            && entry.method == *request.method;
        let signed = || entry.signature.as_bytes().ct_eq(query.signature.as_bytes());
        (same && bool::from(signed())).then_some(entry.verified)
    }

    /// Remembers a URL whose signature covers nothing but method, host, path and query.
    pub(super) fn remember(
        &self,
        request: &Request<'_>,
        query: &SplitQuery<'_>,
        verified: (usize, Span),
    ) {
        let parts = [request.host, request.path, query.before, query.after];
        if parts.iter().map(|part| part.len()).sum::<usize>() > MAX_BYTES {
            return;
        }
        let Some(slot) = self.slot(request, query) else {
            return;
        };
        slot.store(Some(Arc::new(Entry {
            method: request.method.clone(),
            host: request.host.into(),
            path: request.path.into(),
            before: query.before.into(),
            signature: query.signature.into(),
            after: query.after.into(),
            verified,
        })));
    }

    /// Returns the slot of a URL. It does not depend on the signature, which nothing but a constant-time comparison may
    /// look at.
    fn slot(&self, request: &Request<'_>, query: &SplitQuery<'_>) -> Option<&ArcSwapOption<Entry>> {
        let hash = self
            .hasher
            .hash_one((request.path, query.before, query.after));
        let slot = usize::try_from(hash % SLOTS as u64).ok()?;
        self.slots.get(slot)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::super::sigv4::split_signature;
    use super::*;

    fn check(
        memo: &Memo,
        (method, host, path, query): (Method, &str, &str, &str),
        remember: bool,
    ) -> bool {
        let headers = HeaderMap::new();
        let request = Request {
            method: &method,
            host,
            path,
            below: "",
            query: Some(query),
            headers: &headers,
            address: None,
            certificate: &[],
        };
        let split = split_signature(query).expect("a signature");
        if remember {
            memo.remember(&request, &split, (3, Span(0, 1)));
        }
        memo.find(&request, &split).is_some_and(|(key, _)| key == 3)
    }

    #[test]
    fn a_url_is_found_whole_and_in_no_other_form() {
        let memo = Memo::new(true);
        let query = "a=1&X-Amz-Signature=ab&b=2";
        assert!(!check(&memo, (Method::GET, "h", "/p", query), false));
        assert!(check(&memo, (Method::GET, "h", "/p", query), true));
        assert!(check(&memo, (Method::GET, "h", "/p", query), false));
        for other in [
            (Method::HEAD, "h", "/p", query),
            (Method::GET, "g", "/p", query),
            (Method::GET, "h", "/q", query),
            (Method::GET, "h", "/p", "a=1&X-Amz-Signature=ac&b=2"),
            (Method::GET, "h", "/p", "a=1&X-Amz-Signature=a&b=2"),
            (Method::GET, "h", "/p", "a=2&X-Amz-Signature=ab&b=2"),
            (Method::GET, "h", "/p", "a=1&X-Amz-Signature=ab&b=3"),
            (Method::GET, "h", "/p", "a=1&b=2&X-Amz-Signature=ab"),
        ] {
            assert!(!check(&memo, other.clone(), false), "{other:?}");
        }
    }

    #[test]
    fn its_size_is_bounded() {
        let memo = Memo::new(true);
        let long = format!("/{}", "p".repeat(MAX_BYTES));
        assert!(!check(
            &memo,
            (Method::GET, "h", &long, "X-Amz-Signature=ab"),
            true
        ));
        let path = |nth: usize| format!("/{nth}");
        for nth in 0..10 * SLOTS {
            assert!(check(
                &memo,
                (Method::GET, "h", &path(nth), "X-Amz-Signature=ab"),
                true
            ));
        }
        let kept = (0..10 * SLOTS)
            .filter(|nth| {
                check(
                    &memo,
                    (Method::GET, "h", &path(*nth), "X-Amz-Signature=ab"),
                    false,
                )
            })
            .count();
        assert!(kept <= SLOTS && kept > SLOTS / 2, "{kept}");
        let unused = Memo::new(false);
        assert!(!check(
            &unused,
            (Method::GET, "h", "/p", "X-Amz-Signature=ab"),
            true
        ));
    }
}
