//! Signed links: presigned URLs of AWS Signature Version 4, and signed prefixes. Both use the same keys.

use std::fmt;
use std::time::Duration;

use hmac::{Hmac, KeyInit};
use http::Method;
use sha2::Sha256;
use tidegate_plan::Timestamp;

use crate::{Finding, Refusal, Request};

mod prefix;
mod recall;
mod sigv4;

use crate::memo::Memo;
pub use prefix::without_signature;
pub(crate) use prefix::{DecodedPath, PresentedPrefix};
use recall::{RecalledLink, VerifiedLink};

/// The fewest bytes of a key's secret.
pub const MIN_SECRET: usize = 16;

/// The longest life of a presigned URL (AWS, "Authenticating Requests: Using Query Parameters", `X-Amz-Expires`).
pub const MAX_PRESIGNED: Duration = Duration::from_secs(604_800);

/// The longest id of a key, in bytes.
const MAX_ID: usize = 128;

type HmacSha256 = Hmac<Sha256>;

/// The error of a key that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The id is empty, too long, or has other characters than letters, digits, `-`, `_` and `.`.
    #[error("is no id of a key: up to {MAX_ID} letters, digits, `-`, `_` and `.`")]
    Id,
    /// The secret is shorter than [`MIN_SECRET`].
    #[error(
        "is shorter than {MIN_SECRET} characters; `openssl rand -hex 32` makes one that cannot be guessed"
    )]
    Short,
}

/// A key that signs links and verifies them. `Debug` shows its id alone.
#[derive(Clone)]
pub struct SigningKey {
    id: String,
    /// `AWS4` and the secret: the first key of SigV4's chain.
    aws4: Vec<u8>,
    /// The MAC of prefixes, keyed and empty.
    prefix: HmacSha256,
}

impl SigningKey {
    /// Makes a key of its id and secret. White space around the secret is not part of it, as in a
    /// [`Token`](tidegate_plan::Token).
    ///
    /// # Errors
    /// The id has other characters than its alphabet, or the secret is too short.
    pub fn new(id: &str, secret: &str) -> Result<Self, KeyError> {
        Self::check_id(id)?;
        let secret = secret.trim();
        if secret.len() < MIN_SECRET {
            return Err(KeyError::Short);
        }
        Ok(Self {
            id: id.to_owned(),
            aws4: [b"AWS4", secret.as_bytes()].concat(),
            prefix: keyed(secret.as_bytes()),
        })
    }

    /// Checks the id of a key.
    ///
    /// # Errors
    /// [`KeyError::Id`].
    pub fn check_id(id: &str) -> Result<(), KeyError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match (1..=MAX_ID).contains(&id.len()) && id.chars().all(fits) {
            true => Ok(()),
            false => Err(KeyError::Id),
        }
    }

    /// Returns the key's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Signs a prefix of paths, written out and not percent-encoded, until `expires`, in seconds since 1970. A prefix
    /// that ends in `/` opens all paths below it, each other one opens the path that it is.
    ///
    /// The result is at once a path segment, the value of the cookie `tidegate`, and a query.
    #[must_use]
    pub fn sign_prefix(&self, prefix: &str, expires: u64) -> String {
        prefix::sign(self, prefix, expires)
    }

    /// Returns the query of a presigned URL for `path` (percent-encoded) at `host` (with its port, if that is not the
    /// scheme's own), signed at `now` for `life`. `life` is cut to whole seconds from 1 to [`MAX_PRESIGNED`].
    #[must_use]
    pub fn presign(
        &self,
        method: &Method,
        (host, path): (&str, &str),
        now: Timestamp,
        life: Duration,
    ) -> String {
        let life = life.as_secs().clamp(1, MAX_PRESIGNED.as_secs());
        sigv4::presign(self, method, (host, path), now.secs(), life)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.id).finish()
    }
}

/// Returns an HMAC with this key.
fn keyed(key: &[u8]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes a key of any length (RFC 2104, 2)")
}

/// The times within which a signature holds, in seconds since 1970: from the first, before the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span(u64, u64);

impl Span {
    /// Returns the span of a signature, widened at both ends by the difference that clocks may have.
    pub(crate) fn new(begin: u64, end: u64, skew: u64) -> Self {
        Self(begin.saturating_sub(skew), end.saturating_add(skew))
    }

    /// Returns why the signature does not hold now, if it does not.
    pub(crate) fn refusal(self, now: Timestamp) -> Option<Refusal> {
        match now.secs() {
            now if now < self.0 => Some(Refusal::Early),
            now if now >= self.1 => Some(Refusal::Expired),
            _ => None,
        }
    }
}

/// The keys of an access, and the links that it has verified.
#[derive(Debug)]
pub(crate) struct SignedLinks {
    keys: Vec<SigningKey>,
    /// In seconds.
    skew: u64,
    memo: Memo<VerifiedLink>,
}

impl SignedLinks {
    pub(crate) fn new(keys: Vec<SigningKey>, skew: Duration) -> Self {
        Self {
            memo: Memo::new(!keys.is_empty()),
            keys,
            skew: skew.as_secs(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Splits the path below a route into its signature and the rest. Without a signature the rest is all of it.
    pub(crate) fn split_segment<'r>(
        &self,
        request: &Request<'r>,
        now: Timestamp,
    ) -> (Option<PresentedPrefix<'r>>, &'r str) {
        let Some((raw, rest)) = prefix::first_segment(request.below) else {
            return (None, request.below);
        };
        let path = DecodedPath::new(request, rest);
        let recalled = self
            .memo
            .recall(raw.as_bytes(), |known| known.admits_by_segment(path, now));
        match recalled.flatten() {
            Some(key) => (Some(PresentedPrefix::Admitted(key)), rest),
            None => match prefix::read_segment(raw) {
                Some(text) => (Some(PresentedPrefix::Text { raw, text }), rest),
                None => (None, request.below),
            },
        }
    }

    /// Looks for a signature that admits the request: a presigned URL, then a signed prefix in the path, the query and
    /// the cookies. `segment` and `below` are what [`Self::split_segment`] made of the path below the route.
    pub(crate) fn check(
        &self,
        request: &Request<'_>,
        (segment, below): (Option<PresentedPrefix<'_>>, &str),
        now: Timestamp,
    ) -> Finding<'_> {
        if self.is_empty() {
            return Finding::Absent;
        }
        let path = DecodedPath::new(request, below);
        // A presigned URL signs all of its path. It opens nothing behind a segment that is taken off.
        let is_whole = below.len() == request.below.len();
        let recalled = request.query.and_then(|query| {
            let judge = |known: &VerifiedLink| known.admits_by_query(request, path, now);
            self.memo.recall(query.as_bytes(), judge).flatten()
        });
        let (mut best, by_query) = match recalled {
            Some(RecalledLink::Url(key)) if is_whole => return self.admits(key),
            // It was no presigned URL when it was verified.
            Some(RecalledLink::Prefix(key)) => (Finding::Absent, Some(key)),
            None if is_whole => (self.check_presigned(request, now), None),
            Some(RecalledLink::Url(_)) | None => (Finding::Absent, None),
        };
        if matches!(best, Finding::Admits(_)) {
            return best;
        }
        prefix::shown(segment, by_query, request, |shown| {
            let found = self.check_prefix(shown, path, now);
            let admits = matches!(found, Finding::Admits(_));
            if admits || matches!(best, Finding::Absent) {
                best = found;
            }
            admits
        });
        best
    }

    fn admits(&self, key: usize) -> Finding<'_> {
        Finding::Admits(self.keys[key].id())
    }

    fn check_presigned(&self, request: &Request<'_>, now: Timestamp) -> Finding<'_> {
        let signed = request
            .query
            .and_then(|query| Some((query, sigv4::signature_in(query)?)));
        let Some((query, proof)) = signed else {
            return Finding::Absent;
        };
        let verified = match sigv4::verify(&self.keys, request, self.skew) {
            Ok(verified) => verified,
            Err(reason) => return Finding::Refuses(reason),
        };
        if let Some(reason) = verified.span.refusal(now) {
            return Finding::Refuses(reason);
        }
        if verified.signs_host_alone {
            let learned = VerifiedLink::url(request, (verified.key, verified.span));
            self.memo.remember(query.as_bytes(), proof, learned);
        }
        self.admits(verified.key)
    }

    fn check_prefix(
        &self,
        shown: PresentedPrefix<'_>,
        path: DecodedPath<'_>,
        now: Timestamp,
    ) -> Finding<'_> {
        let (raw, text) = match shown {
            PresentedPrefix::Admitted(key) => return self.admits(key),
            PresentedPrefix::Cookie(raw) => (raw, None),
            PresentedPrefix::Text { raw, text } => (raw, Some(text)),
        };
        let known = self
            .memo
            .recall(raw.as_bytes(), |known| known.admits_by_prefix(path, now));
        if let Some(key) = known.flatten() {
            return self.admits(key);
        }
        let Some(text) = text.or_else(|| prefix::decode(raw)) else {
            return Finding::Absent;
        };
        let verified = prefix::verify(&self.keys, &text, self.skew);
        let judged = verified.and_then(|verified| {
            verified.judge(path, now)?;
            Ok(verified)
        });
        match judged {
            Err(reason) => Finding::Refuses(reason),
            Ok(verified) => {
                let key = verified.key;
                if let Some((proof, learned)) = VerifiedLink::prefix((raw, &text), verified) {
                    self.memo.remember(raw.as_bytes(), proof, learned);
                }
                self.admits(key)
            }
        }
    }
}
