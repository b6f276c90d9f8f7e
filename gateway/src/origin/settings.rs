//! What an origin is told: where its bucket is, who asks, and how long it may take.

use std::fmt;
use std::time::Duration;

use crate::plan::retry::{Backoff, Retry};
use crate::plan::{Bucket, OriginId};

/// Everything an origin needs to know. Each field has a default but `name` and `bucket`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name under which routes refer to it, and its metrics' label.
    pub name: String,
    /// The bucket.
    pub bucket: String,
    /// Where the store listens (`http://` or `https://`); left out: AWS.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// Whether the bucket stands in the path (`host/bucket/key`), as MinIO and most stores that
    /// are not AWS want it, or in the host's name (`bucket.host/key`).
    pub path_style: bool,
    /// Who asks.
    pub credentials: Credentials,
    /// The name of what these credentials may see; origins of one bucket share what is cached if they have
    /// the same one.
    pub identity: Option<String>,
    /// Whether a refusal (403 `AccessDenied`) means that the object is missing, as AWS says it
    /// to those who may not list the bucket.
    pub missing_is_403: bool,
    /// How long each wait may take.
    pub deadlines: Deadlines,
    /// When a request is tried again.
    pub retry: Retry,
    /// How many requests run at once.
    pub max_requests: usize,
    /// How many more may wait for a place; others are told to come back later.
    pub max_queue: usize,
    /// When the origin counts as down.
    pub breaker: Trip,
}

impl Settings {
    /// Defaults for `bucket`, known as `name`.
    #[must_use]
    pub fn new(name: &str, bucket: &str) -> Self {
        Self {
            name: name.to_owned(),
            bucket: bucket.to_owned(),
            endpoint: None,
            region: "us-east-1".to_owned(),
            path_style: false,
            credentials: Credentials::Chain,
            identity: None,
            missing_is_403: false,
            deadlines: Deadlines::default(),
            retry: Retry::default(),
            max_requests: 128,
            max_queue: 1024,
            breaker: Trip::default(),
        }
    }

    /// The bucket. Names of buckets at AWS are unique across regions, so that the region is no part of it.
    #[must_use]
    pub fn place(&self) -> Bucket {
        Bucket::new(self.endpoint.as_deref(), &self.bucket)
    }

    /// The identity under which the bucket's objects are cached.
    #[must_use]
    pub fn id(&self) -> OriginId {
        self.place().seen_by(self.identity.as_deref())
    }
}

/// Who asks. `Debug` shows no secret.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Nobody: requests are not signed.
    Anonymous,
    /// The holder of a key.
    Static {
        /// The key's public half.
        access_key_id: String,
        /// The key's secret half.
        secret_access_key: String,
        /// The token that comes with temporary keys.
        session_token: Option<String>,
    },
    /// Whoever the usual AWS chain names: environment, profile, web identity, container, instance.
    #[default]
    Chain,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Static { access_key_id, .. } => f
                .debug_struct("Static")
                .field("access_key_id", access_key_id)
                .finish_non_exhaustive(),
            Self::Chain => f.write_str("Chain"),
        }
    }
}

/// How long each wait for an origin may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Establishing a connection, TLS included.
    pub connect: Duration,
    /// From the request to its answer's head, connecting included.
    pub first_byte: Duration,
    /// Between two pieces of a body, while somebody waits for the next one.
    pub stall: Duration,
    /// All waiting for one request, from its start to the end of its body. Time that a reader
    /// takes between two pieces does not count.
    pub total: Duration,
    /// Waiting for a place among `max_requests`.
    pub queue: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            first_byte: Duration::from_secs(10),
            stall: Duration::from_secs(10),
            total: Duration::from_secs(300),
            queue: Duration::from_secs(10),
        }
    }
}

/// When the breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trip {
    /// Failures in a row.
    pub failures: u32,
    /// The time they must span at least: requests that run side by side and break at the same
    /// moment are one incident, which a retry usually cures.
    pub span: Duration,
    /// The pause until one request is let through to look again.
    pub pause: Backoff,
}

impl Default for Trip {
    fn default() -> Self {
        Self {
            failures: 5,
            span: Duration::from_secs(1),
            pause: Backoff {
                base: Duration::from_secs(1),
                cap: Duration::from_secs(30),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let mut settings = Settings::new("media", "bucket");
        settings.credentials = Credentials::Static {
            access_key_id: "id".to_owned(),
            secret_access_key: "s3cr3t".to_owned(),
            session_token: Some("t0k3n".to_owned()),
        };
        let shown = format!("{settings:?}");
        assert!(
            !shown.contains("s3cr3t") && !shown.contains("t0k3n"),
            "{shown}"
        );
    }
}
