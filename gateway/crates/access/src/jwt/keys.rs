//! The keys that verify JWTs: a shared secret, or a JWK set (RFC 7517).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::Deserialize;

use super::provider;
use tidegate_telemetry::locks::Recover as _;

/// The fewest bytes of a shared secret (RFC 7518, 3.2).
pub const MIN_JWT_SECRET: usize = 32;

/// The generation where no keys are in force. No set has it.
const NO_KEYS: u64 = u64::MAX;

/// The most keys of a set.
const MAX_KEYS: usize = 64;

/// The error of keys that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwtKeysError {
    /// The text is no JWK set.
    #[error("is no JWK set (RFC 7517): a JSON object with the list `keys`")]
    Format,
    /// The set has no key that can be used.
    #[error("has no key for RS256, ES256, EdDSA or, in a file, HS256")]
    Empty,
    /// The set has too many keys.
    #[error("has more than {MAX_KEYS} keys")]
    TooMany,
    /// The shared secret is shorter than [`MIN_JWT_SECRET`].
    #[error(
        "is shorter than {MIN_JWT_SECRET} characters; `openssl rand -hex 32` makes one that cannot be guessed"
    )]
    Short,
}

/// A key of one algorithm. `Debug` shows its id and algorithm alone.
#[derive(Clone)]
struct JwtKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JwtKey")
            .field(&self.id)
            .field(&self.algorithm)
            .finish()
    }
}

/// The keys of a set that can be used. A key has one algorithm, whatever a token names.
#[derive(Debug, Clone)]
pub struct KeySet {
    keys: Vec<JwtKey>,
    /// Differs between all sets of the process.
    pub(super) generation: u64,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    fn new(keys: Vec<JwtKey>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        provider::install();
        Self {
            keys,
            generation: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Makes the set of a shared secret, for HS256. White space around it is not part of it.
    ///
    /// # Errors
    /// [`JwtKeysError::Short`].
    pub fn shared(secret: &str) -> Result<Self, JwtKeysError> {
        let secret = secret.trim().as_bytes();
        if secret.len() < MIN_JWT_SECRET {
            return Err(JwtKeysError::Short);
        }
        Ok(Self::new(vec![JwtKey {
            id: None,
            algorithm: Algorithm::HS256,
            key: DecodingKey::from_secret(secret),
        }]))
    }

    /// Reads a JWK set. Keys of other kinds, sizes and uses are left out (RFC 7517, 5). Shared keys count only if the
    /// text is `secret`: a set that is published has none.
    ///
    /// # Errors
    /// The text is no set, or has no key that can be used, or too many.
    pub fn from_jwks(text: &[u8], secret: bool) -> Result<Self, JwtKeysError> {
        let document: Document = serde_json::from_slice(text).map_err(|_| JwtKeysError::Format)?;
        if document.keys.len() > MAX_KEYS {
            return Err(JwtKeysError::TooMany);
        }
        let keys = document.keys.into_iter();
        let keys: Vec<_> = keys.filter_map(|key| read_key(key, secret)).collect();
        match keys.is_empty() {
            true => Err(JwtKeysError::Empty),
            false => Ok(Self::new(keys)),
        }
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns whether a key has this id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// Returns the keys that may have signed a token of this algorithm and key id. Where one of the two has no id, the
    /// other's does not count.
    pub(super) fn candidates<'k>(
        &'k self,
        algorithm: Algorithm,
        id: Option<&'k str>,
    ) -> impl Iterator<Item = &'k DecodingKey> {
        let fits = move |key: &&JwtKey| {
            let same = |own: &String| id.is_none_or(|id| id == own);
            key.algorithm == algorithm && key.id.as_ref().is_none_or(same)
        };
        self.keys.iter().filter(fits).map(|key| &key.key)
    }
}

/// Returns the key of a JWK that may verify signatures.
fn read_key(value: serde_json::Value, secret: bool) -> Option<JwtKey> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let common = &jwk.common;
    let is_for_signatures = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
        && common
            .key_operations
            .as_ref()
            .is_none_or(|all| all.contains(&KeyOperations::Verify));
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            Algorithm::ES256
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            Algorithm::EdDSA
        }
        AlgorithmParameters::OctetKey(_) if secret => Algorithm::HS256,
        _ => return None,
    };
    let is_named = |own: KeyAlgorithm| own == KeyAlgorithm::from(algorithm);
    if !is_for_signatures || !common.key_algorithm.is_none_or(is_named) {
        return None;
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    let fits = match (algorithm, key.kind()) {
        (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, .. }) => {
            (256..=1024).contains(&n.len())
        }
        (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => point.len() == 65,
        (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(point)) => point.len() == 32,
        (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => secret.len() >= MIN_JWT_SECRET,
        _ => false,
    };
    fits.then(|| JwtKey {
        id: jwk.common.key_id.clone(),
        algorithm,
        key,
    })
}

/// The keys in force, which are exchanged while requests are judged.
#[derive(Debug)]
pub struct JwtKeys {
    parts: Mutex<KeyParts>,
    /// All of them.
    set: ArcSwapOption<KeySet>,
    /// The generation of `set`; [`NO_KEYS`] without one.
    generation: AtomicU64,
    can_refresh: bool,
}

#[derive(Debug, Default)]
struct KeyParts {
    fixed: Option<KeySet>,
    loaded: Option<KeySet>,
}

impl JwtKeys {
    /// Keeps the keys `fixed`, and no others yet. If `can_refresh`, a token that names an unknown key is no refusal yet:
    /// [`Verdict::Undecided`](crate::Verdict::Undecided).
    #[must_use]
    pub fn new(fixed: Option<KeySet>, can_refresh: bool) -> Self {
        let keys = Self {
            parts: Mutex::default(),
            set: ArcSwapOption::empty(),
            generation: AtomicU64::new(NO_KEYS),
            can_refresh,
        };
        keys.replace_fixed(fixed);
        keys
    }

    /// Puts other keys in force beside the fixed ones. What older keys have verified is verified anew.
    pub fn replace(&self, loaded: Option<KeySet>) {
        self.change(|parts| parts.loaded = loaded);
    }

    /// Puts other fixed keys in force, as [`JwtKeys::replace`] does for those beside them.
    pub fn replace_fixed(&self, fixed: Option<KeySet>) {
        self.change(|parts| parts.fixed = fixed);
    }

    fn change(&self, change: impl FnOnce(&mut KeyParts)) {
        let mut parts = self.parts.lock().recover();
        change(&mut parts);
        let sets = parts.fixed.iter().chain(&parts.loaded);
        let keys: Vec<_> = sets.flat_map(|set| set.keys.iter().cloned()).collect();
        let set = (!keys.is_empty()).then(|| Arc::new(KeySet::new(keys)));
        let generation = set.as_ref().map_or(NO_KEYS, |set| set.generation);
        // First, so that nothing that the keys before have verified counts once these are in force.
        self.generation.store(generation, Ordering::Release);
        self.set.store(set);
    }

    /// Returns the number of keys in force.
    #[must_use]
    pub fn len(&self) -> usize {
        self.set.load().as_ref().map_or(0, |set| set.len())
    }

    /// Returns whether no key is in force.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn can_refresh(&self) -> bool {
        self.can_refresh
    }

    /// Returns the generation of the keys in force. What others have verified does not count.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn load(&self) -> arc_swap::Guard<Option<Arc<KeySet>>> {
        self.set.load()
    }
}

#[cfg(test)]
mod tests;
