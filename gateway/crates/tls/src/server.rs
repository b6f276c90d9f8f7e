//! The settings of rustls that are made of the certificates of one moment.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use crate::certificate::{Certificate, Slot, read_chain};
use crate::challenge::{ACME_PROTOCOL, Challenges};
use crate::files::FileStamp;
use crate::names::NameTable;
use crate::{Side, TlsError, TlsSettings};

/// The versions: older ones have known weaknesses, and are not in rustls at all.
static VERSIONS: [&rustls::SupportedProtocolVersion; 2] =
    [&rustls::version::TLS13, &rustls::version::TLS12];

/// The certificates of one moment, and what listeners show of them.
#[derive(Debug)]
pub(crate) struct Server {
    settings: TlsSettings,
    /// In the order of the settings.
    slots: Vec<Slot>,
    challenges: Arc<Challenges>,
    client_ca: Option<ClientCa>,
    /// Seals the sessions that clients may resume. It stays as long as the authority for clients: a resumed session
    /// shows a certificate that is not verified again.
    tickets: Arc<dyn ProducesTickets>,
    public: Arc<ServerConfig>,
    admin: Arc<ServerConfig>,
}

/// The authority for clients.
#[derive(Debug, Clone)]
struct ClientCa {
    path: PathBuf,
    stamp: Option<FileStamp>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The result of reading a file again: its path.
pub(crate) type RefreshResult = Result<PathBuf, TlsError>;

impl Server {
    /// Reads all files.
    pub(crate) fn read(
        settings: TlsSettings,
        challenges: &Arc<Challenges>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let slots = settings.certificates.iter();
        let slots = slots.map(|files| Slot::read(files, &provider));
        let slots = slots.collect::<Result<_, _>>()?;
        let client_ca = settings.client_ca.as_ref();
        let client_ca = client_ca.map(|path| ClientCa::read(path.clone(), &provider));
        let tickets = ring::Ticketer::new()?;
        let read = (slots, challenges.clone());
        Self::new(settings, read, client_ca.transpose()?, tickets)
    }

    fn new(
        settings: TlsSettings,
        (slots, challenges): (Vec<Slot>, Arc<Challenges>),
        client_ca: Option<ClientCa>,
        tickets: Arc<dyn ProducesTickets>,
    ) -> Result<Self, TlsError> {
        let read = slots.iter().filter_map(|slot| slot.certificate.as_ref());
        let names = Arc::new(NameTable::new(read, challenges.clone()));
        let config = |verifier: Option<Arc<dyn ClientCertVerifier>>, protocols: &[&[u8]]| {
            let provider = Arc::new(ring::default_provider());
            let builder = ServerConfig::builder_with_provider(provider);
            let builder = builder.with_protocol_versions(&VERSIONS)?;
            let builder = match verifier {
                Some(verifier) => builder.with_client_cert_verifier(verifier),
                None => builder.with_no_client_auth(),
            };
            let mut config = builder.with_cert_resolver(names.clone());
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            config.ticketer = tickets.clone();
            Ok::<_, TlsError>(Arc::new(config))
        };
        let verifier = client_ca.as_ref().map(|ca| ca.verifier.clone());
        Ok(Self {
            public: config(verifier, &[b"h2", b"http/1.1", ACME_PROTOCOL])?,
            admin: config(None, &[b"http/1.1"])?,
            settings,
            slots,
            challenges,
            client_ca,
            tickets,
        })
    }

    pub(crate) fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// Returns whether there is no file to look at.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.client_ca.is_none()
    }

    /// Returns the certificates that are there, with the paths of their files.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = (&PathBuf, &Certificate)> {
        let slots = self.slots.iter();
        slots.filter_map(|slot| Some((&slot.files.certificate, slot.certificate.as_ref()?)))
    }

    /// Returns the answers to challenges, which outlive a server.
    pub(crate) fn challenges(&self) -> &Arc<Challenges> {
        &self.challenges
    }

    /// Returns the settings for the listeners of a side.
    pub(crate) fn config(&self, side: Side) -> Arc<ServerConfig> {
        match side {
            Side::Public => self.public.clone(),
            Side::Admin => self.admin.clone(),
        }
    }

    /// Reads the files again that have changed. Returns what is in force with them, if there is any change, and the
    /// result of each. Those that the operating system could not read are read again by the next call.
    pub(crate) fn refresh(&self) -> (Option<Self>, Vec<RefreshResult>) {
        let provider = Arc::new(ring::default_provider());
        let mut results = Vec::new();
        let slots = self.slots.iter().map(|old| {
            let (slot, result) = old.refresh(&provider);
            results.extend(result);
            slot
        });
        let slots: Vec<_> = slots.collect();
        let mut tickets = self.tickets.clone();
        let client_ca = self.client_ca.as_ref().map(|old| {
            let stamp = FileStamp::of(&old.path);
            if stamp == old.stamp {
                return old.clone();
            }
            let read = ClientCa::read(old.path.clone(), &provider);
            let read = read.and_then(|new| Ok((new, ring::Ticketer::new()?)));
            let (result, kept) = match read {
                Ok((new, fresh)) => {
                    tickets = fresh;
                    (Ok(old.path.clone()), new)
                }
                Err(error) => {
                    let mut kept = old.clone();
                    if !error.may_pass() {
                        kept.stamp = stamp;
                    }
                    (Err(error), kept)
                }
            };
            results.push(result);
            kept
        });
        let may_pass = |result: &RefreshResult| result.as_ref().is_err_and(TlsError::may_pass);
        if results.iter().all(may_pass) {
            return (None, results);
        }
        let read = (slots, self.challenges.clone());
        let server = Self::new(self.settings.clone(), read, client_ca, tickets);
        match server {
            Ok(server) => (Some(server), results),
            Err(error) => (None, vec![Err(error)]),
        }
    }
}

impl ClientCa {
    fn read(path: PathBuf, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let stamp = FileStamp::of(&path);
        let mut roots = RootCertStore::empty();
        for certificate in read_chain(&path)? {
            let added = roots.add(certificate);
            added.map_err(|_| TlsError::ClientCa(path.clone()))?;
        }
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        // A client without a certificate is served as well: an access may admit it in another way.
        let verifier = builder.allow_unauthenticated().build();
        let verifier = verifier.map_err(|_| TlsError::ClientCa(path.clone()))?;
        Ok(Self {
            path,
            stamp,
            verifier,
        })
    }
}
