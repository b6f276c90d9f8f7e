//! The cryptography of the crate `jsonwebtoken`, by ring.
//!
//! The crate brings backends of its own on aws-lc and on RustCrypto, whose `rsa` has an open advisory
//! (RUSTSEC-2023-0071). The gateway's TLS is on ring already. Nothing here signs.

use std::fmt;
use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier::new(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring the backend of this process, once.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    // Another backend could be here only if a test had installed one; it would verify as well.
    ONCE.call_once(|| {
        let _ = PROVIDER.install_default();
    });
}

/// A key in the form that ring takes.
enum RingKey {
    Shared(hmac::Key),
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Point(&'static dyn VerificationAlgorithm, Vec<u8>),
}

/// A verifier of one algorithm with one key.
struct RingVerifier {
    algorithm: Algorithm,
    key: RingKey,
}

impl RingVerifier {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, Error> {
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let key = match (algorithm, key.kind()) {
            (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => {
                RingKey::Shared(hmac::Key::new(hmac::HMAC_SHA256, secret))
            }
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => RingKey::Rsa {
                modulus: n.clone(),
                exponent: e.clone(),
            },
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
                RingKey::Point(&ECDSA_P256_SHA256_FIXED, point.clone())
            }
            (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(point)) => {
                RingKey::Point(&ED25519, point.clone())
            }
            _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
        };
        Ok(Self { algorithm, key })
    }
}

impl fmt::Debug for RingVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RingVerifier")
            .field(&self.algorithm)
            .finish()
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match &self.key {
            RingKey::Shared(key) => hmac::verify(key, message, signed),
            RingKey::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signed)
            }
            RingKey::Point(algorithm, point) => {
                UnparsedPublicKey::new(*algorithm, point).verify(message, signed)
            }
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
