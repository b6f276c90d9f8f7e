//! The token that authorizes changes.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::is_same_secret;

/// The fewest characters of a configured token. Sixteen of `openssl rand -hex` are 64 bits, too many to guess over a
/// network.
pub const MIN_TOKEN: usize = 16;

/// The error of a configured token that is empty or shorter than [`MIN_TOKEN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "is shorter than {MIN_TOKEN} characters; `openssl rand -hex 24` makes one that cannot be guessed"
)]
pub struct ShortToken;

/// A secret that is compared and never printed.
#[derive(Clone)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// Creates a token that is long enough to be safe. White space around it is not part of it.
    ///
    /// # Errors
    /// The token is shorter than [`MIN_TOKEN`].
    pub fn from_setting(text: &str) -> Result<Self, ShortToken> {
        match text.trim().chars().count() {
            0..MIN_TOKEN => Err(ShortToken),
            _ => Self::new(text).ok_or(ShortToken),
        }
    }

    /// Creates a token of any length; `None` for an empty one, which would admit every client. White space around it is
    /// not part of it: a token file usually ends in a line break.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.as_bytes().into()))
    }

    /// Returns whether a request shows it as `Authorization: Bearer …`, the scheme in any case (RFC 6750, 2.1; RFC
    /// 9110, 11.1). The time of the comparison reveals only its length.
    #[must_use]
    pub fn is_shown_by(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, rest) = value.as_bytes().split_at_checked("bearer ".len())?;
            let bearer = scheme.eq_ignore_ascii_case(b"bearer ");
            bearer.then(|| rest.trim_ascii())
        });
        shown.is_some_and(|shown| self.equals(shown))
    }

    /// Returns whether the shown bytes are the token. The time of the comparison reveals only its length.
    #[must_use]
    pub fn equals(&self, shown: &[u8]) -> bool {
        is_same_secret(&self.0, shown)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        is_same_secret(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shown_whole_and_in_no_other_way() {
        let token = Token::new(" s3cret\n").expect("a token");
        assert!(Token::new(" \n").is_none());
        assert_eq!(Token::from_setting(" 123456789012345 \n"), Err(ShortToken));
        assert!(Token::from_setting("1234567890123456\n").is_ok());
        let rows = [
            ("Bearer s3cret", true),
            ("bearer  s3cret ", true),
            ("bEARER  s3cret ", true),
            ("Bearer s3cre", false),
            ("Bearer s3cres", false),
            ("Bearer ", false),
            ("Bearers3cret", false),
            ("Bear", false),
            ("Bearer s3cretx", false),
            ("Basic s3cret", false),
            ("s3cret", false),
            ("", false),
        ];
        for (value, shown) in rows {
            let value = value.parse().expect("a header value");
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
            assert_eq!(token.is_shown_by(&headers), shown, "{headers:?}");
        }
        assert!(!token.is_shown_by(&HeaderMap::new()));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
