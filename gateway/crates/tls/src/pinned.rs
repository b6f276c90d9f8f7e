//! A client of a listener whose certificate is known: the commands ask the gateway of the same configuration.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::TlsError;
use crate::certificate::read_chain;

/// The server shows a certificate that is in none of the files.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("it shows another certificate")]
pub struct OtherCertificate;

/// Accepts the servers that show one of these certificates, and have its key. Names, authorities and times do not matter.
#[derive(Debug)]
struct PinnedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

/// Shakes hands with a server that must show the first certificate of one of the `files`.
///
/// # Errors
/// If a file cannot be read, or the server shows another certificate ([`OtherCertificate`]).
pub async fn connect<S>(stream: S, files: &[PathBuf]) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let wrong = |error: TlsError| io::Error::other(error.to_string());
    let mut certificates = Vec::new();
    for path in files {
        certificates.extend(read_chain(path).map_err(wrong)?.into_iter().take(1));
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(&[&version::TLS13, &version::TLS12]);
    let builder = builder.map_err(io::Error::other)?;
    let verifier = PinnedCertificates {
        certificates,
        provider,
    };
    let config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // An address is not sent as a name, so the server shows the certificate that it has for all.
    let name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
    let connector = TlsConnector::from(Arc::new(config));
    let connected = connector.connect(name, stream).await;
    connected.map_err(|error| match is_other_certificate(&error) {
        true => io::Error::other(OtherCertificate),
        false => error,
    })
}

/// Returns whether the verifier here has ended a handshake.
fn is_other_certificate(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    let other = CertificateError::ApplicationVerificationFailure;
    matches!(error, Some(Error::InvalidCertificate(why)) if *why == other)
}

impl ServerCertVerifier for PinnedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.certificates.iter().any(|own| own == end_entity) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
