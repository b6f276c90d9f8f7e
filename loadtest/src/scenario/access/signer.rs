//! The issuer of the credentials. It shares no code with the gateway, which verifies them.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use aws_sdk_s3::presigning::PresigningConfig;
use base64_simd::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::json;

use super::KEY;
use super::ways::SIGNING_KEY;
use crate::bucket;

/// The bytes of the shared secret.
const SECRET_BYTES: usize = 32;

/// An algorithm of JWTs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    pub(super) const ALL: [Self; 4] = [Self::Hs256, Self::Rs256, Self::Es256, Self::EdDsa];

    /// Returns its name (RFC 7518, 3.1; RFC 8037, 3.1), which is also the id of its key.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// The keys of one run.
pub(super) struct Signer {
    random: SystemRandom,
    secret: [u8; SECRET_BYTES],
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

impl Signer {
    /// Makes keys. That of RSA comes from `openssl`.
    pub(super) fn new() -> Result<Self> {
        let random = SystemRandom::new();
        let refused = |error| anyhow!("no key: {error}");
        let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ec = EcdsaKeyPair::generate_pkcs8(curve, &random).map_err(|_| anyhow!("no key"))?;
        let ed = Ed25519KeyPair::generate_pkcs8(&random).map_err(|_| anyhow!("no key"))?;
        let secret = ring::rand::generate(&random).map_err(|_| anyhow!("no random bytes"))?;
        Ok(Self {
            rsa: RsaKeyPair::from_der(&rsa_key()?).map_err(refused)?,
            ec: EcdsaKeyPair::from_pkcs8(curve, ec.as_ref(), &random).map_err(refused)?,
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).map_err(refused)?,
            secret: secret.expose(),
            random,
        })
    }

    /// Returns the keys that verify, as a JWK set (RFC 7517).
    pub(super) fn key_set(&self) -> String {
        let point = self.ec.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let rsa = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let keys = json!({ "keys": [
            { "kty": "oct", "kid": "HS256", "k": encode(&self.secret) },
            {
                "kty": "RSA",
                "kid": "RS256",
                "n": encode(&rsa.n),
                "e": encode(&rsa.e),
            },
            { "kty": "EC", "crv": "P-256", "kid": "ES256", "x": encode(x), "y": encode(y) },
            {
                "kty": "OKP",
                "crv": "Ed25519",
                "kid": "EdDSA",
                "x": encode(self.ed.public_key().as_ref()),
            },
        ]});
        keys.to_string()
    }

    /// Returns a JWT of this subject, signed by the key of an algorithm.
    pub(super) fn jwt(&self, algorithm: Algorithm, subject: &str, expires: u64) -> Result<String> {
        let name = algorithm.name();
        let head = json!({ "alg": name, "kid": name }).to_string();
        let claims = json!({
            "iss": "https://id.example",
            "aud": "media",
            "sub": subject,
            "exp": expires,
        });
        let claims = claims.to_string();
        let message = format!("{}.{}", encode(head.as_bytes()), encode(claims.as_bytes()));
        let signature = self.sign(algorithm, message.as_bytes())?;
        Ok(format!("{message}.{}", encode(&signature)))
    }

    fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Result<Vec<u8>> {
        let refused = |_| anyhow!("{} does not sign", algorithm.name());
        Ok(match algorithm {
            Algorithm::Hs256 => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
                hmac::sign(&key, message).as_ref().to_vec()
            }
            Algorithm::Rs256 => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                let signed =
                    self.rsa
                        .sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature);
                signed.map_err(refused)?;
                signature
            }
            Algorithm::Es256 => {
                let signed = self.ec.sign(&self.random, message).map_err(refused)?;
                signed.as_ref().to_vec()
            }
            Algorithm::EdDsa => self.ed.sign(message).as_ref().to_vec(),
        })
    }

    /// Returns a signed prefix (`docs/HTTP.md`).
    pub(super) fn prefix(&self, prefix: &str, expires: u64) -> String {
        let (id, secret) = SIGNING_KEY;
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = hmac::sign(&key, format!("{expires}\n{id}\n{prefix}").as_bytes());
        let digits: String = signature
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let prefix = encode(prefix.as_bytes());
        format!("expires={expires}&key={id}&prefix={prefix}&signature={digits}")
    }

    /// Returns the target of a URL that the AWS SDK has presigned: the route is its bucket.
    pub(super) async fn url(&self, addr: SocketAddr, life: Duration) -> Result<String> {
        let get = bucket::client(addr, SIGNING_KEY).get_object();
        let signed = get.bucket("signed").key(KEY);
        let signed = signed.presigned(PresigningConfig::expires_in(life)?).await;
        let url = signed.context("the SDK signs nothing")?.uri().to_owned();
        let target = url.strip_prefix(&format!("http://{addr}"));
        Ok(target.context("a URL of the gateway")?.to_owned())
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode_to_string(bytes)
}

/// Returns a key of 2,048 bits (PKCS #1).
fn rsa_key() -> Result<Vec<u8>> {
    let mut command = Command::new("openssl");
    command.args(["genrsa", "-traditional", "2048"]);
    let output = command.stderr(Stdio::null()).output();
    let output = output.context("openssl is missing")?;
    ensure!(output.status.success(), "openssl made no key");
    let text = String::from_utf8(output.stdout)?;
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let key = STANDARD.decode_to_vec(lines.collect::<String>());
    key.context("openssl wrote no PEM")
}
