//! Who may change something: whoever knows the token.

use std::fmt;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::Admin;

/// The admin token. Never printed.
pub struct Token(Box<[u8]>);

impl Token {
    /// A token as configured; `None` for an empty one, which would let everybody in. White space
    /// around it is not part of it: a file that holds one usually ends in a line break.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.as_bytes().into()))
    }

    /// Whether `shown` is this token. The time it takes tells nothing but its length.
    fn is(&self, shown: &[u8]) -> bool {
        self.0.ct_eq(shown).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Lets a request pass that shows the token. 403 while there is none to show, 401 (RFC 9110,
/// 15.5.2) where it is missing or wrong; the body of a refused request is not read.
pub(super) async fn require_token(
    State(admin): State<Admin>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = &admin.token else {
        let body = "no admin token is configured: nothing can be changed here\n";
        return (StatusCode::FORBIDDEN, body).into_response();
    };
    if bearer(request.headers()).is_some_and(|shown| token.is(shown)) {
        return next.run(request).await;
    }
    tracing::warn!(
        path = request.uri().path(),
        "admin request without the right token"
    );
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"tidegate\"")];
    let body = "this needs the admin token\n";
    (StatusCode::UNAUTHORIZED, challenge, body).into_response()
}

/// The credentials of the `Bearer` scheme, whose name is case-insensitive (RFC 6750, 2.1;
/// RFC 9110, 11.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, rest) = value.split_at_checked("bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_token_is_none() {
        assert!(Token::new(" \n").is_none());
        let token = Token::new("s3cret\n").expect("a token");
        assert!(token.is(b"s3cret"));
        assert!(!token.is(b"s3cres"));
        assert!(!token.is(b""));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn reads_the_scheme_in_any_case() {
        let read = |value: &str| {
            let value = value.parse().expect("a header value");
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            bearer(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(read("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(read("bEARER  abc "), Some(b"abc".to_vec()));
        for bad in ["Basic abc", "Bearerabc", "Bear", ""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
