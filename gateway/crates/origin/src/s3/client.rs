//! The SDK's client, configured to send each request once and to make no checks of its own.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    Builder, Credentials as Key, RequestChecksumCalculation, ResponseChecksumValidation,
    SharedCredentialsProvider, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use http::Uri;

use super::trace::TraceInterceptor;
use crate::settings::{Credentials, Deadlines, Settings};

/// The time by which the SDK's deadlines exceed the gateway's own.
const SDK_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);

/// The error of a client that cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The endpoint is not an absolute URL with a supported scheme.
    #[error("the endpoint `{0}` is no http:// or https:// URL of a host")]
    Endpoint(String),
}

/// Creates a client for the bucket that `settings` describe.
pub(super) async fn build(settings: &Settings) -> Result<Client, SetupError> {
    build_over(http_client(), settings, timeouts(settings.deadlines)).await
}

/// Does the same for long requests: only the connection has a deadline here.
pub(super) async fn build_patient(settings: &Settings) -> Result<Client, SetupError> {
    let connect = settings.deadlines.connect;
    let timeouts = TimeoutConfig::builder().connect_timeout(connect).build();
    build_over(http_client(), settings, timeouts).await
}

async fn build_over(
    http: SharedHttpClient,
    settings: &Settings,
    timeouts: TimeoutConfig,
) -> Result<Client, SetupError> {
    let mut config = Builder::new()
        .behavior_version(behavior())
        .region(Region::new(settings.region.clone()))
        .force_path_style(settings.path_style)
        .http_client(http.clone())
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .interceptor(TraceInterceptor)
        // It counts a reader's pauses as the origin's; `deadline` does not.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        // Stores that are not AWS refuse the trailing checksums that the SDK adds by default.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        // A ranged GET's bytes cannot be compared with a checksum of the whole object.
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(endpoint) = &settings.endpoint {
        config = config.endpoint_url(check_endpoint(endpoint)?);
    }
    Ok(Client::from_conf(
        sign(config, settings, http).await.build(),
    ))
}

/// Returns one pinned version, so that an update of the SDK cannot change defaults silently.
fn behavior() -> BehaviorVersion {
    BehaviorVersion::v2026_01_12()
}

/// Creates one pool of connections per origin, with TLS through ring.
fn http_client() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https()
}

fn timeouts(deadlines: Deadlines) -> TimeoutConfig {
    let head = deadlines.first_byte + SDK_TIMEOUT_MARGIN;
    TimeoutConfig::builder()
        .connect_timeout(deadlines.connect)
        .read_timeout(head)
        .operation_attempt_timeout(head)
        .operation_timeout(head)
        .build()
}

fn check_endpoint(endpoint: &str) -> Result<&str, SetupError> {
    let uri: Option<Uri> = endpoint.parse().ok();
    let ok = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
    });
    ok.then_some(endpoint)
        .ok_or_else(|| SetupError::Endpoint(endpoint.to_owned()))
}

async fn sign(config: Builder, settings: &Settings, http: SharedHttpClient) -> Builder {
    match &settings.credentials {
        Credentials::Anonymous => config.allow_no_auth(),
        Credentials::Static {
            access_key_id,
            secret_access_key,
            session_token,
        } => config.credentials_provider(SharedCredentialsProvider::new(Key::new(
            access_key_id,
            secret_access_key,
            session_token.clone(),
            None,
            "configuration",
        ))),
        Credentials::Chain => {
            let chain = aws_config::defaults(behavior())
                .region(Region::new(settings.region.clone()))
                .http_client(http)
                .load()
                .await;
            match chain.credentials_provider() {
                Some(provider) => config.credentials_provider(provider),
                None => config,
            }
        }
    }
}

#[cfg(test)]
mod tests;
