//! JSON Web Tokens (RFC 7519) that are signed with HS256, RS256, ES256 or EdDSA.
//!
//! A token stands in `Authorization: Bearer`, in a cookie, or in the query. The crate `jsonwebtoken` reads its head and
//! verifies it with ring; the claims are read and compared here, by the time of the request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonwebtoken::Algorithm;
use tidegate_plan::Timestamp;

use crate::header_text::{cookies, fields, unquoted, value_of};
use crate::memo::Memo;
use crate::signed::{DecodedPath, Span};
use crate::{Refusal, Request};

mod claims;
mod keys;
mod provider;

use claims::Claims;
pub use keys::{JwtKeys, JwtKeysError, KeySet, MIN_JWT_SECRET};

/// The longest token that is read, in bytes.
const MAX_TOKEN: usize = 8192;

/// The most signatures that are verified for a request: tokens that name no key are tried with several.
const MAX_TRIES: usize = 8;

/// The most cookies and parameters of the name that are looked at.
const MAX_SHOWN: usize = 4;

/// The most bytes of a subject that names the client for limits.
const MAX_SUBJECT: usize = 256;

/// The rules for tokens.
#[derive(Debug)]
pub struct JwtRules {
    /// The keys that verify them.
    pub keys: Arc<JwtKeys>,
    /// The issuer that a token must name; `None`: any.
    pub issuer: Option<String>,
    /// The audience that a token must name; `None`: it must name none.
    pub audience: Option<String>,
    /// The claim that lists the prefixes of the paths that a token opens; `None`: it opens all.
    pub prefixes: Option<String>,
    /// The cookie in which a token may stand.
    pub cookie: Option<String>,
    /// The parameter of the query in which a token may stand.
    pub query: Option<String>,
    /// The most that the clock of the issuer may differ from ours.
    pub skew: Duration,
}

/// The finding on the tokens of a request.
#[derive(Debug)]
pub(crate) enum JwtFinding {
    /// The request shows none.
    Absent,
    /// One of them admits the request, for the client of this name.
    Admits(Option<String>),
    /// None of them does.
    Refuses(Refusal),
    /// One of them names a key that newer keys may have.
    Unknown(Refusal),
}

/// A token, cut before its signature.
#[derive(Clone, Copy)]
struct SplitToken<'t> {
    whole: &'t str,
    message: &'t str,
    signature: &'t str,
}

impl<'t> SplitToken<'t> {
    /// Cuts an ASCII text that has the form of a token.
    fn new(text: &'t str) -> Option<Self> {
        let (message, signature) = text.rsplit_once('.')?;
        let fits = text.len() <= MAX_TOKEN && message.bytes().filter(|b| *b == b'.').count() == 1;
        fits.then_some(Self {
            whole: text,
            message,
            signature,
        })
    }
}

/// The part of a request that the claims of a token are compared with.
#[derive(Clone, Copy)]
pub(crate) struct TokenUse<'r> {
    pub(crate) path: DecodedPath<'r>,
    pub(crate) now: Timestamp,
    /// Whether the caller needs the subject.
    pub(crate) wants_name: bool,
}

/// The claims of a verified token.
struct VerifiedToken {
    span: Span,
    subject: Option<String>,
    prefixes: Option<Vec<String>>,
    /// Of the keys that have verified it. It counts for no others.
    generation: u64,
}

impl VerifiedToken {
    /// Decides whether the token admits a request for this path now.
    fn judge(&self, asked: TokenUse<'_>) -> JwtFinding {
        if let Some(refusal) = self.span.refusal(asked.now) {
            return JwtFinding::Refuses(refusal);
        }
        let is_under = |prefix: &String| asked.path.is_under(prefix.as_bytes());
        match &self.prefixes {
            Some(prefixes) if !prefixes.iter().any(is_under) => {
                JwtFinding::Refuses(Refusal::Prefix)
            }
            _ if !asked.wants_name => JwtFinding::Admits(None),
            _ => JwtFinding::Admits(self.subject.clone()),
        }
    }
}

impl fmt::Debug for VerifiedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VerifiedToken").field(&self.span).finish()
    }
}

/// The rules, and the tokens that were verified by them.
#[derive(Debug)]
pub(crate) struct Jwt {
    rules: JwtRules,
    memo: Memo<VerifiedToken>,
}

impl Jwt {
    pub(crate) fn new(rules: JwtRules) -> Self {
        Self {
            rules,
            memo: Memo::new(true),
        }
    }

    /// Looks for a token that admits the request: in `Authorization`, the cookies and the query.
    pub(crate) fn check(&self, request: &Request<'_>, asked: TokenUse<'_>) -> JwtFinding {
        let mut best = JwtFinding::Absent;
        let mut tries = MAX_TRIES;
        shown(&self.rules, request, |token| {
            let found = self.judge(token, asked, &mut tries);
            let admits = matches!(found, JwtFinding::Admits(_));
            let is_better =
                matches!(best, JwtFinding::Absent) || (matches!(found, JwtFinding::Unknown(_)));
            if admits || is_better {
                best = found;
            }
            admits
        });
        best
    }

    fn judge(&self, shown: &[u8], asked: TokenUse<'_>, tries: &mut usize) -> JwtFinding {
        let generation = self.rules.keys.generation();
        let known = self.memo.recall(shown, |verified| {
            (verified.generation == generation).then(|| verified.judge(asked))
        });
        match known.flatten() {
            Some(finding) => finding,
            None => self.judge_new(shown, asked, tries),
        }
    }

    /// Judges a token that is not remembered, or was verified by other keys.
    #[cold]
    fn judge_new(&self, shown: &[u8], asked: TokenUse<'_>, tries: &mut usize) -> JwtFinding {
        let set = self.rules.keys.load();
        let text = std::str::from_utf8(shown)
            .ok()
            .filter(|text| text.is_ascii());
        let Some(text) = text else {
            return JwtFinding::Absent;
        };
        let Some(token) = SplitToken::new(text) else {
            return JwtFinding::Refuses(Refusal::Token);
        };
        let can_refresh = self.rules.keys.can_refresh();
        let Some(set) = &*set else {
            return match can_refresh {
                true => JwtFinding::Unknown(Refusal::Keys),
                false => JwtFinding::Refuses(Refusal::Keys),
            };
        };
        let verified = match self.verify(set, &token, tries) {
            Ok(verified) => verified,
            Err(Refusal::Key) if can_refresh => return JwtFinding::Unknown(Refusal::Key),
            Err(refusal) => return JwtFinding::Refuses(refusal),
        };
        let finding = verified.judge(asked);
        if verified.span.refusal(asked.now).is_none() {
            let proof = token.message.len() + 1..text.len();
            self.memo.remember(shown, proof, (verified, 0));
        }
        finding
    }

    /// Verifies a token by these keys, whatever the time, as far as there are `tries` left.
    ///
    /// [`Refusal::Key`]: it names a key that the set does not have.
    fn verify(
        &self,
        set: &KeySet,
        token: &SplitToken<'_>,
        tries: &mut usize,
    ) -> Result<VerifiedToken, Refusal> {
        let header = jsonwebtoken::decode_header(token.whole).map_err(|_| Refusal::Signature)?;
        let algorithm = header.alg;
        let is_ours = matches!(
            algorithm,
            Algorithm::HS256 | Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA
        );
        // RFC 7515, 4.1.11: an extension that must be understood, and is not.
        if !is_ours || header.crit.is_some() {
            return Err(Refusal::Signature);
        }
        let id = header.kid.as_deref();
        let mut candidates = set.candidates(algorithm, id).peekable();
        if candidates.peek().is_none() {
            return Err(match id {
                Some(id) if !set.has_id(id) => Refusal::Key,
                _ => Refusal::Signature,
            });
        }
        let message = token.message.as_bytes();
        let signs = |key| {
            jsonwebtoken::crypto::verify(token.signature, message, key, algorithm).unwrap_or(false)
        };
        let mut left = candidates.take(*tries).inspect(|_| *tries -= 1);
        if !left.any(signs) {
            return Err(Refusal::Signature);
        }
        self.read(token, set.generation)
    }

    /// Reads the claims of a token whose signature is right, and compares them with the rules.
    fn read(&self, token: &SplitToken<'_>, generation: u64) -> Result<VerifiedToken, Refusal> {
        let payload = token.message.split_once('.').map(|(_, payload)| payload);
        let payload = payload.and_then(|payload| {
            let decoded = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(payload);
            decoded.ok()
        });
        let rules = &self.rules;
        let claims = payload.and_then(|payload| Claims::read(&payload, rules.prefixes.as_deref()));
        let claims = claims.ok_or(Refusal::Claims)?;
        let issued = rules.issuer.is_none() || claims.issuer == rules.issuer;
        // RFC 7519, 4.1.3: a token for others is refused by a reader that has no name as well.
        let meant = match (&claims.audience, &rules.audience) {
            (None, None) => true,
            (Some(all), Some(own)) => all.0.contains(own),
            _ => false,
        };
        let listed = rules.prefixes.is_none() || claims.prefixes.is_some();
        let Some(expires) = claims.expires.filter(|_| issued && meant && listed) else {
            return Err(Refusal::Claims);
        };
        let begin = claims.not_before.map_or(0, |time| time.0);
        let subject = claims.subject.filter(|name| name.len() <= MAX_SUBJECT);
        Ok(VerifiedToken {
            span: Span::new(begin, expires.0, rules.skew.as_secs()),
            subject,
            prefixes: claims.prefixes.map(|all| all.0),
            generation,
        })
    }
}

/// Calls `judge` with each token that a request shows, until it returns true.
fn shown(rules: &JwtRules, request: &Request<'_>, mut judge: impl FnMut(&[u8]) -> bool) {
    if bearer(request.headers).is_some_and(&mut judge) {
        return;
    }
    if let Some(name) = &rules.cookie {
        let named = cookies(request.headers).filter_map(|pair| value_of(pair, name));
        if named.take(MAX_SHOWN).any(|value| judge(unquoted(value))) {
            return;
        }
    }
    if let (Some(name), Some(query)) = (&rules.query, request.query) {
        let pairs = fields(query.as_bytes(), b'&');
        let named = pairs.filter_map(|pair| value_of(pair, name));
        let _ = named.take(MAX_SHOWN).any(judge);
    }
}

/// Returns the credentials of `Authorization: Bearer`. Of several lines, none can be believed: the text is empty then.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let line = lines.next()?;
    if lines.next().is_some() {
        return Some(b"");
    }
    let line = line.as_bytes();
    let space = line.iter().position(|byte| *byte == b' ')?;
    let scheme = &line[..space];
    scheme
        .eq_ignore_ascii_case(b"bearer")
        .then(|| line[space..].trim_ascii())
}

#[cfg(test)]
mod tests;
