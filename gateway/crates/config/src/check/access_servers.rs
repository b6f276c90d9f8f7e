//! The parts of an access that others decide on: the keys of JWTs, and the server of `auth_request`.

use super::super::Secret;
use super::super::problem::KeyPath;
use super::super::section::{AuthRequest, Jwt};
use super::Check;
use super::access::MAX_SKEW;
use tidegate_access::{JwtKeysError, MIN_JWT_SECRET};
use tidegate_plan::Period;

/// A URL that is right, for messages.
const SAMPLE: &str = "http://127.0.0.1:9090/auth";

/// The least and the longest time between two fetches of a key set.
const REFRESH: [Period; 2] = [Period::secs(10), Period::secs(86_400)];

/// The longest time that a server of `auth_request` may take.
const MAX_TIMEOUT: Period = Period::secs(60);

/// The most answers of a server that can be kept.
const MAX_ENTRIES: u32 = 1 << 20;

impl Check<'_, '_> {
    pub(super) fn jwt(&mut self, path: &KeyPath, jwt: &Jwt) {
        if jwt.jwks.is_none() && jwt.secret.is_none() {
            self.error(path, "needs keys: `jwks`, or `secret`");
        }
        if let Some(Secret::Literal(text)) = &jwt.secret
            && text.trim().len() < MIN_JWT_SECRET
        {
            self.error(&path.key("secret"), JwtKeysError::Short.to_string());
        }
        if let Some(jwks) = &jwt.jwks {
            let path = path.key("jwks");
            if jwks.is_empty() {
                self.error(&path, "is empty");
            } else if jwt.is_fetched() {
                let harm = "other keys could be put in their place";
                self.url(&path, jwks, SAMPLE, harm);
            }
        }
        let texts = [
            ("issuer", jwt.issuer.as_deref()),
            ("audience", jwt.audience.as_deref()),
            ("prefixes", jwt.prefixes.as_deref()),
            ("cookie", jwt.cookie.as_deref()),
        ];
        for (key, text) in texts {
            if text == Some("") {
                self.error(&path.key(key), "is empty");
            }
        }
        for (key, name) in [
            ("cookie", jwt.cookie.as_deref().unwrap_or_default()),
            ("query", jwt.query.as_str()),
        ] {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if !name.chars().all(fits) {
                let message = "has other characters than letters, digits, `-`, `_` and `.`";
                self.error(&path.key(key), message);
            }
        }
        if jwt.skew > MAX_SKEW {
            self.error(&path.key("skew"), format!("must be at most {MAX_SKEW}"));
        }
        let [least, most] = REFRESH;
        if jwt.refresh < least || jwt.refresh > most {
            let message = format!("must be between {least} and {most}");
            self.error(&path.key("refresh"), message);
        }
        if jwt.is_fetched() && (jwt.issuer.is_none() || jwt.audience.is_none()) {
            let message = "has no `issuer` or no `audience`: tokens that these keys have signed for others are admitted";
            self.warn(path, message);
        }
    }

    pub(super) fn auth_request(&mut self, path: &KeyPath, server: &AuthRequest) {
        let harm = "it is sent the credentials of clients";
        self.url(path, &server.url, SAMPLE, harm);
        if server.timeout.is_zero() || server.timeout > MAX_TIMEOUT {
            let message = format!("`timeout` must be between 1ms and {MAX_TIMEOUT}");
            self.error(path, message);
        }
        if server.entries > MAX_ENTRIES {
            let message = format!("`entries` must be at most {MAX_ENTRIES}");
            self.error(path, message);
        }
    }
}
