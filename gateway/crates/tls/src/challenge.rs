//! Answers to the challenges of an authority (TLS-ALPN-01, RFC 8737): a certificate of our own that is shown to the clients
//! of one protocol, which carries no requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use crate::TlsError;
use tidegate_telemetry::locks::Recover as _;

/// The protocol of an authority that looks whether a name leads here.
pub(crate) const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// The certificates that answer challenges, by name.
#[derive(Debug, Default)]
pub struct Challenges(Mutex<HashMap<String, Arc<CertifiedKey>>>);

/// The answer to one challenge, which is shown for as long as this is kept.
#[derive(Debug)]
pub struct ChallengeAnswer {
    challenges: Arc<Challenges>,
    name: String,
}

impl Drop for ChallengeAnswer {
    fn drop(&mut self) {
        self.challenges.lock().remove(&self.name);
    }
}

impl Challenges {
    /// Answers the challenge for a name with a certificate and its key.
    ///
    /// # Errors
    /// If the key cannot be used.
    pub fn answer(
        self: &Arc<Self>,
        name: &str,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<ChallengeAnswer, TlsError> {
        let key = ring::default_provider()
            .key_provider
            .load_private_key(key)?;
        let certified = CertifiedKey::new(vec![certificate], key);
        let name = name.to_ascii_lowercase();
        self.lock().insert(name.clone(), Arc::new(certified));
        Ok(ChallengeAnswer {
            challenges: self.clone(),
            name,
        })
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.lock().get(&name.to_ascii_lowercase()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<CertifiedKey>>> {
        // Each change is one insertion or removal.
        self.0.lock().recover()
    }
}

/// Returns whether a client speaks the protocol of challenges, and no other.
pub(crate) fn is_challenge(hello: &ClientHello<'_>) -> bool {
    let mut protocols = hello.alpn().into_iter().flatten();
    protocols.next() == Some(ACME_PROTOCOL) && protocols.next().is_none()
}
