//! Messages of AWS SNS over HTTP. SNS sends no token: each message is signed, and names the certificate.
//!
//! A message counts only if its topic is listed, its certificate comes from the SNS host of the topic's region, and the
//! signature fits (SNS developer guide, "Verifying the signatures of Amazon SNS messages"). A confirmation of a
//! subscription is answered by fetching its URL, which lies on the same host. Nothing else is ever fetched, and a certificate
//! no more often than [`certificates`] allows, whatever forged messages name.

use std::fmt;
use std::sync::Arc;

use base64_simd::STANDARD;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use serde::Deserialize;

mod address;
mod certificates;
mod https;
mod signature;

pub use address::AwsUrl;
pub use https::HttpsClient;

use certificates::Certificates;
use signature::Certificate;

/// The longest message, in bytes: SNS sends 256 KiB, which JSON may escape.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Fetches documents of AWS over HTTPS.
pub trait Fetch: Send + Sync + 'static {
    /// Fetches a document of at most 64 KiB in bounded time; the answer must be 200. Follows no redirects.
    fn fetch<'a>(&'a self, url: &'a AwsUrl) -> BoxFuture<'a, Result<Bytes, FetchError>>;
}

/// The reason why a document could not be fetched, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(pub String);

/// The reason why a message does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnsError {
    /// It is no message of SNS.
    #[error("this is no message of SNS")]
    Unreadable,
    /// Its topic is not listed.
    #[error("the topic is not one of `topics`")]
    Topic,
    /// Its URLs are not those of the topic's SNS host.
    #[error("a URL does not lead to the SNS host of the topic's region")]
    Url,
    /// The signature does not fit, or its version is not known.
    #[error("the signature does not fit")]
    Signature,
    /// A document could not be fetched. The message may be sent again.
    #[error("cannot fetch from SNS: {0}")]
    Fetch(FetchError),
}

impl From<FetchError> for SnsError {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

/// The content of a message that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnsMessage {
    /// The text that was published: events of a bucket.
    Notification(String),
    /// The subscription was confirmed.
    Confirmed,
    /// The subscription was ended by another.
    Ended,
}

/// A message, as SNS sends it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Envelope {
    #[serde(rename = "Type")]
    kind: String,
    message_id: String,
    topic_arn: String,
    message: String,
    timestamp: String,
    signature_version: String,
    signature: String,
    #[serde(rename = "SigningCertURL")]
    signing_cert_url: String,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default, rename = "SubscribeURL")]
    subscribe_url: Option<String>,
}

/// Checks messages, for the topics of one subscription.
pub struct SnsVerifier {
    topics: Vec<String>,
    fetch: Arc<dyn Fetch>,
    certificates: Certificates,
}

impl fmt::Debug for SnsVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnsVerifier")
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

impl SnsVerifier {
    /// Creates one for these topics, by their ARNs.
    #[must_use]
    pub fn new(topics: Vec<String>, fetch: Arc<dyn Fetch>) -> Self {
        Self {
            topics,
            fetch,
            certificates: Certificates::default(),
        }
    }

    /// Checks a message of at most [`MAX_MESSAGE`] bytes, and confirms a subscription.
    ///
    /// # Errors
    /// The message does not count.
    pub async fn verify(&self, message: &[u8]) -> Result<SnsMessage, SnsError> {
        let envelope: Envelope =
            serde_json::from_slice(message).map_err(|_| SnsError::Unreadable)?;
        if !self.topics.contains(&envelope.topic_arn) {
            return Err(SnsError::Topic);
        }
        let on_host = |url: &str| AwsUrl::of_topic(url, &envelope.topic_arn).ok_or(SnsError::Url);
        let certificate = on_host(&envelope.signing_cert_url)?;
        let certificate = self.certificate(certificate).await?;
        let signed = envelope.signed_text().ok_or(SnsError::Unreadable)?;
        let signature = STANDARD
            .decode_to_vec(envelope.signature.as_bytes())
            .map_err(|_| SnsError::Signature)?;
        if !certificate.fits(&envelope.signature_version, signed.as_bytes(), &signature) {
            return Err(SnsError::Signature);
        }
        match &*envelope.kind {
            "Notification" => Ok(SnsMessage::Notification(envelope.message)),
            "SubscriptionConfirmation" => {
                let url = envelope.subscribe_url.as_deref().unwrap_or_default();
                self.fetch.fetch(&on_host(url)?).await?;
                Ok(SnsMessage::Confirmed)
            }
            _ => Ok(SnsMessage::Ended),
        }
    }

    async fn certificate(&self, url: AwsUrl) -> Result<Arc<Certificate>, SnsError> {
        match url.is_certificate() {
            true => self.certificates.get(url, &*self.fetch).await,
            false => Err(SnsError::Url),
        }
    }
}

impl Envelope {
    /// Returns the text that the signature covers; `None` for a type that is not known, or without a part that it covers.
    fn signed_text(&self) -> Option<String> {
        let subject = self.subject.as_deref().map(|text| ("Subject", text));
        let parts = match &*self.kind {
            "Notification" => [
                Some(("Message", &*self.message)),
                Some(("MessageId", &self.message_id)),
                subject,
                Some(("Timestamp", &self.timestamp)),
                Some(("TopicArn", &self.topic_arn)),
                Some(("Type", &self.kind)),
                None,
            ],
            "SubscriptionConfirmation" | "UnsubscribeConfirmation" => [
                Some(("Message", &*self.message)),
                Some(("MessageId", &self.message_id)),
                Some(("SubscribeURL", self.subscribe_url.as_deref()?)),
                Some(("Timestamp", &self.timestamp)),
                Some(("Token", self.token.as_deref()?)),
                Some(("TopicArn", &self.topic_arn)),
                Some(("Type", &self.kind)),
            ],
            _ => return None,
        };
        let lines = parts.into_iter().flatten();
        Some(lines.fold(String::new(), |text, (name, value)| {
            text + name + "\n" + value + "\n"
        }))
    }
}

#[cfg(test)]
mod tests;
