//! `[[origin]]`: a bucket behind the gateway.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Secret;
use tidegate_plan::Period;

/// A bucket behind the gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "bucket"]))]
pub struct Origin {
    /// The name in routes. Cached objects belong to endpoint, bucket and `identity`, not to this name.
    #[schemars(extend("examples" = ["media"]))]
    pub name: String,
    /// The bucket.
    #[schemars(extend("examples" = ["media"]))]
    pub bucket: String,
    /// URL of the S3 service; left out: AWS.
    #[schemars(extend("examples" = ["http://127.0.0.1:9000"]))]
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// The bucket stands in the path (MinIO, most others), not in the host name (AWS).
    pub path_style: bool,
    /// The ID of an access key; left out: the usual AWS chain (environment, profile, instance role).
    #[schemars(extend("examples" = ["minioadmin"]))]
    pub access_key_id: Option<String>,
    /// The secret of `access_key_id`.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "env": "MINIO_SECRET" }]))]
    pub secret_access_key: Option<Secret>,
    /// The token of temporary keys.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "env": "AWS_SESSION_TOKEN" }]))]
    pub session_token: Option<Secret>,
    /// Requests are not signed: for public buckets.
    pub anonymous: bool,
    /// The name of these credentials' rights. Origins of one bucket share cached objects only under one name.
    #[schemars(extend("examples" = ["public"]))]
    pub identity: Option<String>,
    /// The time for a connection to stand, TLS included.
    pub connect_timeout: Period,
    /// The time for the first byte of an answer.
    pub first_byte_timeout: Period,
    /// The time for the next bytes of an answer.
    pub stall_timeout: Period,
    /// The time for one request, its retries included.
    pub total_timeout: Period,
    /// The number of retries of a failed request; a broken body goes on from its last byte.
    pub retries: u32,
    /// Requests at once; those that a reader waits for go before read-ahead.
    pub max_requests: u32,
    /// 403 means missing: for credentials that may not list the bucket, for which AWS does not say 404.
    pub missing_is_403: bool,
    /// The price of 1,000 GET and HEAD requests, in any currency: the console computes a cost.
    pub price_get: f64,
    /// The price of 1,000 PUT, POST, COPY and LIST requests.
    pub price_put: f64,
    /// The price of 1 GB received from the bucket.
    pub price_received: f64,
    /// The price of 1 GB sent to the bucket.
    pub price_sent: f64,
}

impl Default for Origin {
    /// Name and bucket have to be given: empty stands for missing.
    fn default() -> Self {
        Self {
            name: String::new(),
            bucket: String::new(),
            endpoint: None,
            region: "us-east-1".into(),
            path_style: false,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
            anonymous: false,
            identity: None,
            connect_timeout: Period::secs(3),
            first_byte_timeout: Period::secs(10),
            stall_timeout: Period::secs(10),
            total_timeout: Period::secs(300),
            retries: 2,
            max_requests: 128,
            missing_is_403: false,
            price_get: 0.0,
            price_put: 0.0,
            price_received: 0.0,
            price_sent: 0.0,
        }
    }
}
