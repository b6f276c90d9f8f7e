//! The memory of an access: the links that it has verified. A link that does not admit a request by what is remembered is
//! judged as if it were new.

use std::ops::Range;

use http::Method;
use tidegate_plan::Timestamp;

use super::prefix::{self, DecodedPath, SignedPrefix};
use super::{Span, sigv4};
use crate::Request;

/// A verified link, remembered by its query, its segment or its cookie.
#[derive(Debug)]
pub(super) enum VerifiedLink {
    /// A presigned URL, by its query.
    Url {
        /// All that the signature covers beside the query.
        method: Method,
        host: Box<str>,
        path: Box<str>,
        /// The index of its key, and the times within which it holds.
        verified: (usize, Span),
    },
    /// A signed prefix, by the text that shows it. As a query that text is no presigned URL.
    Prefix {
        verified: SignedPrefix,
        /// Whether the text has no other fields, so that it may be a segment.
        is_segment: bool,
        /// Whether it is spelled without escapes, so that it may be a query, which is read as it stands.
        is_query: bool,
    },
}

/// A query that admits a request by the key of this index.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecalledLink {
    Url(usize),
    Prefix(usize),
}

impl VerifiedLink {
    /// Returns what is remembered of a presigned URL whose signature covers nothing but method, host, path and query; and
    /// its size.
    pub(super) fn url(request: &Request<'_>, verified: (usize, Span)) -> (Self, usize) {
        let learned = Self::Url {
            method: request.method.clone(),
            host: request.host.into(),
            path: request.path.into(),
            verified,
        };
        (learned, request.host.len() + request.path.len())
    }

    /// Returns the place of the signature in a `shown` signed prefix, what is remembered of it, and its size. `text` is
    /// what was shown, decoded. `None`: it is not remembered.
    pub(super) fn prefix(
        (shown, text): (&str, &str),
        verified: SignedPrefix,
    ) -> Option<(Range<usize>, (Self, usize))> {
        let (signature, is_segment) = prefix::signature_of(text)?;
        let begin = shown.find(signature)?;
        let is_query = shown == text;
        // A query with an escape says another thing as a segment or a cookie, which are decoded.
        let is_ambiguous = is_query && shown.contains('%');
        if is_ambiguous || sigv4::signature_in(shown).is_some() {
            return None;
        }
        let size = verified.prefix.len();
        let learned = Self::Prefix {
            verified,
            is_segment,
            is_query,
        };
        Some((begin..begin + signature.len(), (learned, size)))
    }

    /// Returns how a request with this query is admitted, if it is.
    pub(super) fn admits_by_query(
        &self,
        request: &Request<'_>,
        path: DecodedPath<'_>,
        now: Timestamp,
    ) -> Option<RecalledLink> {
        match self {
            Self::Url {
                method,
                host,
                path: own,
                verified: (key, span),
            } => {
                let same =
                    **own == *request.path && **host == *request.host && method == request.method;
                let holds = same && span.refusal(now).is_none();
                holds.then_some(RecalledLink::Url(*key))
            }
            Self::Prefix { is_query: true, .. } => {
                self.admits_by_prefix(path, now).map(RecalledLink::Prefix)
            }
            Self::Prefix { .. } => None,
        }
    }

    /// Returns the index of the key that admits a request with this segment, if it is admitted.
    pub(super) fn admits_by_segment(&self, path: DecodedPath<'_>, now: Timestamp) -> Option<usize> {
        match self {
            Self::Prefix {
                is_segment: true, ..
            } => self.admits_by_prefix(path, now),
            _ => None,
        }
    }

    /// Returns the index of the key that admits a request with this signed prefix, if it is admitted.
    pub(super) fn admits_by_prefix(&self, path: DecodedPath<'_>, now: Timestamp) -> Option<usize> {
        match self {
            Self::Prefix { verified, .. } => verified.judge(path, now).ok().map(|()| verified.key),
            Self::Url { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
