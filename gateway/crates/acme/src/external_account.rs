//! The account that the operator has with an authority already, to which the gateway's own is bound (RFC 8555, 7.3.4).

use std::fmt;

use instant_acme::ExternalAccountKey;

/// An account that the authority has made for the operator.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    key_id: String,
    key: Vec<u8>,
}

/// The key of an external account cannot be read. It is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key is no base64url text, as the authority shows it")]
pub struct ExternalKeyError;

impl ExternalAccount {
    /// Makes one of its number, and its key in base64url, with or without padding.
    ///
    /// # Errors
    /// The key is empty, or no base64url.
    pub fn new(key_id: &str, key: &str) -> Result<Self, ExternalKeyError> {
        let key = key.trim().trim_end_matches('=');
        let decoded = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(key);
        let decoded = decoded.ok().filter(|key| !key.is_empty());
        Ok(Self {
            key_id: key_id.to_owned(),
            key: decoded.ok_or(ExternalKeyError)?,
        })
    }

    /// Returns its number.
    pub(crate) fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Returns the key that signs the request for an account.
    pub(crate) fn signer(&self) -> ExternalAccountKey {
        ExternalAccountKey::new(self.key_id.clone(), &self.key)
    }
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExternalAccount")
            .field(&self.key_id)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_and_never_shown() {
        for text in [
            "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajV",
            " c2VjcmV0LWtleQ==\n",
            "-_-_",
        ] {
            let account = ExternalAccount::new("kid-1", text).expect("a key");
            assert_eq!(format!("{account:?}"), "ExternalAccount(\"kid-1\")");
        }
        for wrong in ["", "=", "a+b/", "a b", "\u{e9}"] {
            let error = ExternalAccount::new("kid-1", wrong);
            assert_eq!(error, Err(ExternalKeyError), "{wrong}");
        }
        let of = |key: &str| ExternalAccount::new("kid-1", key);
        assert!(of("AAAA") == of("AAAA") && of("AAAA") != of("AAAB"));
    }
}
