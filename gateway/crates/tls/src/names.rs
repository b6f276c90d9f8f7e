//! The certificate for the name that a client asks for (SNI, RFC 6066).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::Certificate;
use crate::challenge::{Challenges, is_challenge};

/// The certificates by the names that they are for.
pub(crate) struct NameTable {
    /// In the order of the configuration: the first that the client can use is taken.
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// Those for clients that name no server, or one that is not known.
    others: Vec<Arc<CertifiedKey>>,
    challenges: Arc<Challenges>,
}

impl fmt::Debug for NameTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl NameTable {
    pub(crate) fn new<'c>(
        certificates: impl Iterator<Item = &'c Certificate> + Clone,
        challenges: Arc<Challenges>,
    ) -> Self {
        let mut by_name: HashMap<String, Vec<_>> = HashMap::new();
        for certificate in certificates.clone() {
            for name in &certificate.names {
                let same = by_name.entry(name.clone()).or_default();
                same.push(certificate.certified.clone());
            }
        }
        let others = certificates.map(|one| one.certified.clone());
        Self {
            by_name,
            others: others.collect(),
            challenges,
        }
    }

    /// Returns the certificates for a name: those that have it, else those with a `*` in place of its first label, else
    /// all.
    fn find(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let name = name.map(str::to_ascii_lowercase);
        let own = name.as_ref().and_then(|name| self.by_name.get(name));
        let wild = || {
            let (_, rest) = name.as_ref()?.split_once('.')?;
            self.by_name.get(&format!("*.{rest}"))
        };
        own.or_else(wild).unwrap_or(&self.others)
    }
}

impl ResolvesServerCert for NameTable {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // An authority looks whether the name leads here (RFC 8737, 3). It asks for nothing else.
        if is_challenge(&hello) {
            return self.challenges.find(hello.server_name()?);
        }
        let schemes = hello.signature_schemes();
        let found = self.find(hello.server_name());
        let usable = |one: &&Arc<CertifiedKey>| one.key.choose_scheme(schemes).is_some();
        // With one that the client cannot use, it is told so: there is no agreement.
        found.iter().find(usable).or(found.first()).cloned()
    }
}
