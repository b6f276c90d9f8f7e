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
mod tests {
    use http::HeaderValue;

    use super::*;

    fn tokens() -> Tokens {
        let one = |name: &str, secret: &str, expires| NamedToken {
            name: name.to_owned(),
            token: Token::new(secret).expect("a token"),
            expires,
        };
        let end = Some(Timestamp::from_secs(1000));
        Tokens::new(vec![
            one("alice", "secret-a", None),
            one("bob", "secret:b", end),
        ])
    }

    fn found(tokens: &Tokens, lines: &[&str], now: i64) -> Result<String, Option<Refusal>> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(AUTHORIZATION, HeaderValue::from_str(line).expect("a value"));
        }
        match tokens.check(&headers, Timestamp::from_secs(now)) {
            Finding::Admits(name) => Ok(name.to_owned()),
            Finding::Refuses(reason) => Err(Some(reason)),
            Finding::Absent => Err(None),
        }
    }

    #[test]
    fn a_token_is_shown_as_bearer_or_as_password() {
        let basic = |text: &str| format!("Basic {}", base64_simd::STANDARD.encode_to_string(text));
        let wrong = Err(Some(Refusal::Token));
        let rows = [
            ("Bearer secret-a".to_owned(), Ok("alice".to_owned())),
            ("bEARER  secret-a ".to_owned(), Ok("alice".to_owned())),
            ("Bearer secret:b".to_owned(), Ok("bob".to_owned())),
            (basic("anybody:secret-a"), Ok("alice".to_owned())),
            (basic(":secret:b"), Ok("bob".to_owned())),
            (basic("secret-a"), wrong.clone()),
            (basic("secret-a:"), wrong.clone()),
            (basic(""), wrong.clone()),
            ("Bearer secret-".to_owned(), wrong.clone()),
            ("Bearer ".to_owned(), wrong.clone()),
            ("Basic %%%".to_owned(), wrong.clone()),
            ("Digest secret-a".to_owned(), wrong.clone()),
            (format!("Bearer {}", "x".repeat(100_000)), wrong.clone()),
            (String::new(), wrong.clone()),
        ];
        for (line, expected) in rows {
            assert_eq!(found(&tokens(), &[&line], 0), expected, "{line:.40}");
        }
        assert_eq!(found(&tokens(), &[], 0), Err(None));
        let twice = ["Bearer secret-a", "Bearer secret-a"];
        assert_eq!(found(&tokens(), &twice, 0), wrong);
        let none = Tokens::new(vec![]);
        assert_eq!(found(&none, &["Bearer x"], 0), Err(None));
    }

    #[test]
    fn a_token_ends_at_its_time_and_only_its_holder_learns_of_it() {
        let tokens = tokens();
        let bob = "Bearer secret:b";
        assert_eq!(found(&tokens, &[bob], 999), Ok("bob".to_owned()));
        for now in [1000, i64::MAX] {
            assert_eq!(found(&tokens, &[bob], now), Err(Some(Refusal::Expired)));
            let wrong = found(&tokens, &["Bearer secret:c"], now);
            assert_eq!(wrong, Err(Some(Refusal::Token)));
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let shown = format!("{:?}", tokens());
        assert!(
            shown.contains("alice") && !shown.contains("secret"),
            "{shown}"
        );
    }
}
