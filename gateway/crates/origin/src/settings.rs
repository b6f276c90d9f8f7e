//! The settings of an origin: its bucket, its credentials, and its deadlines and limits.

use std::fmt;
use std::time::Duration;

use tidegate_plan::retry::{Backoff, Retry};
use tidegate_plan::{Bucket, OriginId};

/// All settings of an origin. Each field but `name` and `bucket` has a default.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The name under which routes refer to it, and its metrics' label.
    pub name: String,
    /// The bucket.
    pub bucket: String,
    /// The store's endpoint (`http://` or `https://`); `None` means AWS.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// Whether the bucket is in the path (`host/bucket/key`), as MinIO and most other stores than AWS require, or in
    /// the host's name (`bucket.host/key`).
    pub path_style: bool,
    /// The credentials of requests.
    pub credentials: Credentials,
    /// The name of these credentials' visibility; origins of one bucket share cached objects if they have the same
    /// name.
    pub identity: Option<String>,
    /// Whether a refusal (403 `AccessDenied`) means that the object is missing. AWS answers so to clients that may not
    /// list the bucket.
    pub missing_is_403: bool,
    /// The longest duration of each wait.
    pub deadlines: Deadlines,
    /// The rules for retries of a request.
    pub retry: Retry,
    /// The most requests that run at once.
    pub max_requests: usize,
    /// The most requests that wait for a slot; more are refused as throttled.
    pub max_queue: usize,
    /// The conditions under which the origin counts as down.
    pub breaker: Trip,
}

impl Settings {
    /// Returns the defaults for `bucket`, known as `name`.
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

    /// Returns the bucket. AWS bucket names are unique across regions, so the region is not part of it.
    #[must_use]
    pub fn place(&self) -> Bucket {
        Bucket::new(self.endpoint.as_deref(), &self.bucket)
    }

    /// Returns the identity under which the bucket's objects are cached.
    #[must_use]
    pub fn id(&self) -> OriginId {
        self.place().identity_for(self.identity.as_deref())
    }
}

/// The credentials of requests. `Debug` prints no secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// No credentials: requests are unsigned.
    Anonymous,
    /// A key.
    Static {
        /// The key's public half.
        access_key_id: String,
        /// The key's secret half.
        secret_access_key: String,
        /// The token that comes with temporary keys.
        session_token: Option<String>,
    },
    /// The credentials of the usual AWS chain: environment, profile, web identity, container, instance.
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

/// The longest duration of each wait for an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// The time to establish a connection, TLS included.
    pub connect: Duration,
    /// The time from the request to its answer's head, connecting included.
    pub first_byte: Duration,
    /// The time between two pieces of a body, while a reader waits for the next one.
    pub stall: Duration,
    /// The total wait for one request, from its start to the end of its body. A reader's time between two pieces does
    /// not count.
    pub total: Duration,
    /// The wait for a slot among `max_requests`.
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

/// The conditions that open the breaker, and its pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trip {
    /// The number of failures in a row.
    pub failures: u32,
    /// The shortest time that they must span. Parallel requests that break at the same moment are one incident, which a
    /// retry usually cures.
    pub span: Duration,
    /// The pause before one request may try the origin again.
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
