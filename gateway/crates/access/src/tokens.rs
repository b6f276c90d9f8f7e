//! Tokens: `Authorization: Bearer`, or the password of `Authorization: Basic`.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tidegate_plan::{Timestamp, Token};

use crate::{Finding, Refusal};

/// The longest `Authorization` that is decoded, in bytes.
const MAX_CREDENTIALS: usize = 4096;

/// A token that admits requests.
#[derive(Debug)]
pub struct NamedToken {
    /// The name of its holder, for logs and limits.
    pub name: String,
    /// The secret.
    pub token: Token,
    /// The time from which it admits no more requests.
    pub expires: Option<Timestamp>,
}

/// The tokens of an access.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<NamedToken>);

impl Tokens {
    pub(crate) fn new(tokens: Vec<NamedToken>) -> Self {
        Self(tokens)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares the shown credentials with every token, in a time that does not depend on which of them is right.
    pub(crate) fn check(&self, headers: &HeaderMap, now: Timestamp) -> Finding<'_> {
        if self.is_empty() {
            return Finding::Absent;
        }
        let mut lines = headers.get_all(AUTHORIZATION).iter();
        let Some(line) = lines.next() else {
            return Finding::Absent;
        };
        // RFC 9110, 11.6.2: it is one field. With two, another reader of the request might believe the other one.
        let shown = match lines.next() {
            None => credentials(line.as_bytes()),
            Some(_) => None,
        };
        let Some(shown) = shown else {
            return Finding::Refuses(Refusal::Token);
        };
        let mut found: Option<&NamedToken> = None;
        for one in &self.0 {
            if one.token.equals(&shown) {
                found = Some(one);
            }
        }
        match found {
            None => Finding::Refuses(Refusal::Token),
            Some(one) if one.expires.is_some_and(|end| now >= end) => {
                Finding::Refuses(Refusal::Expired)
            }
            Some(one) => Finding::Admits(&one.name),
        }
    }
}

/// Returns the token of RFC 6750, 2.1, or the password of RFC 7617, 2, whose user name means nothing.
fn credentials(line: &[u8]) -> Option<Cow<'_, [u8]>> {
    if line.len() > MAX_CREDENTIALS {
        return None;
    }
    let scheme = |name: &str| {
        let (scheme, rest) = line.split_at_checked(name.len())?;
        let fits = scheme.eq_ignore_ascii_case(name.as_bytes());
        fits.then(|| rest.trim_ascii())
    };
    if let Some(token) = scheme("bearer ") {
        return Some(token.into());
    }
    let decoded = base64_simd::STANDARD
        .decode_to_vec(scheme("basic ")?)
        .ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec().into())
}

#[cfg(test)]
mod tests;
