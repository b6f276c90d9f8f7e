//! An issuer of JWTs. It shares no code with the gateway, which verifies them.

use std::time::{SystemTime, UNIX_EPOCH};

use base64_simd::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

/// The time for which a token holds unless its claims say otherwise, in seconds.
const LIFETIME: u64 = 3600;

/// An issuer with a key for EdDSA.
pub(super) struct Issuer(Ed25519KeyPair);

impl Issuer {
    /// Makes one with a key of its own.
    pub(super) fn new() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("random bytes");
        Self(Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("a key"))
    }

    /// Returns the key that verifies, as a JWK set (RFC 7517).
    pub(super) fn key_set(&self) -> String {
        let public = encode(self.0.public_key().as_ref());
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": public });
        json!({ "keys": [key] }).to_string()
    }

    /// Returns a token with these claims.
    pub(super) fn token(&self, claims: Value) -> String {
        let sign = |message: &[u8]| self.0.sign(message).as_ref().to_vec();
        signed("EdDSA", claims, sign)
    }
}

/// Returns a token that is signed with a shared secret.
pub(super) fn shared_token(secret: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let sign = |message: &[u8]| hmac::sign(&key, message).as_ref().to_vec();
    signed("HS256", json!({}), sign)
}

/// Returns the time, in seconds since 1970.
pub(super) fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.expect("after 1970").as_secs()
}

fn signed(algorithm: &str, mut claims: Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let claims = claims.as_object_mut().expect("an object");
    claims
        .entry("exp")
        .or_insert_with(|| (now() + LIFETIME).into());
    let head = json!({ "alg": algorithm }).to_string();
    let claims = Value::Object(std::mem::take(claims)).to_string();
    let message = format!("{}.{}", encode(head.as_bytes()), encode(claims.as_bytes()));
    let signature = encode(&sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode_to_string(bytes)
}
