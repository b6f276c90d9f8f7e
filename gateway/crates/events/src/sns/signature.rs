//! Signatures of SNS: RSA over SHA-1 (version 1) or SHA-256 (version 2), by the key of a certificate.

use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use webpki::EndEntityCert;
use webpki::ring::RSA_PKCS1_2048_8192_SHA256;

/// A certificate whose form was checked. Its chain is not: the host that sent it has proven itself by TLS.
#[derive(Debug)]
pub(super) struct Certificate(CertificateDer<'static>);

impl Certificate {
    /// Reads the first certificate of a PEM document.
    pub(super) fn read(pem: &[u8]) -> Option<Self> {
        let certificate = CertificateDer::from_pem_slice(pem).ok()?.into_owned();
        EndEntityCert::try_from(&certificate).ok()?;
        Some(Self(certificate))
    }

    /// Returns whether a signature of a message is by its key. `version` is the one that SNS names.
    pub(super) fn fits(&self, version: &str, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn SignatureVerificationAlgorithm = match version {
            "1" => &RsaSha1,
            "2" => RSA_PKCS1_2048_8192_SHA256,
            _ => return false,
        };
        let certificate = EndEntityCert::try_from(&self.0);
        certificate.is_ok_and(|certificate| {
            let verified = certificate.verify_signature(algorithm, message, signature);
            verified.is_ok()
        })
    }
}

/// RSA over SHA-1, which SNS uses unless the topic says otherwise, and TLS does not allow any more.
#[derive(Debug)]
struct RsaSha1;

impl SignatureVerificationAlgorithm for RsaSha1 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, public_key)
            .verify(message, signature)
            .map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        // `sha1WithRSAEncryption` (RFC 8017, A.2.4), which the library does not name. A certificate's own signature is not
        // checked with it.
        AlgorithmIdentifier::from_slice(&[
            0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05, 0x05, 0x00,
        ])
    }
}
