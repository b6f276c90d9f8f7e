//! `[[origin]]`: a bucket behind the gateway.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Secret;
use tidegate_plan::Period;

/// A bucket behind the gateway.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "bucket"]))]
pub struct Origin {
    /// What routes call it. What is cached belongs to endpoint, bucket and `identity`, not to this name.
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
    /// Left out: the usual AWS chain (environment, profile, instance role).
    #[schemars(extend("examples" = ["minioadmin"]))]
    pub access_key_id: Option<String>,
    /// Belongs to `access_key_id`.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "env": "MINIO_SECRET" }]))]
    pub secret_access_key: Option<Secret>,
    /// Belongs to temporary keys.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "env": "AWS_SESSION_TOKEN" }]))]
    pub session_token: Option<Secret>,
    /// Requests are not signed: for public buckets.
    pub anonymous: bool,
    /// Name of what these credentials may see. Origins of one bucket share what is cached only under one name.
    #[schemars(extend("examples" = ["public"]))]
    pub identity: Option<String>,
    /// How long a connection may take to stand, TLS included.
    pub connect_timeout: Period,
    /// How long the first byte of an answer may take.
    pub first_byte_timeout: Period,
    /// How long the next bytes of an answer may take.
    pub stall_timeout: Period,
    /// How long one request may take, its retries included.
    pub total_timeout: Period,
    /// How often a request that failed is made again; a broken body goes on from its last byte.
    pub retries: u32,
    /// Requests at once; what a reader waits for goes before what is fetched ahead.
    pub max_requests: u32,
    /// 403 means missing: for credentials that may not list the bucket, where AWS does not say 404.
    pub missing_is_403: bool,
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
        }
    }
}
