//! `[[events]]`: the changes that a bucket reports.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Secret;
use tidegate_plan::Period;

mod fleet;
mod login;

pub use fleet::Fleet;
pub use login::NatsLogin;

/// The changes that a bucket reports, so that the cache need not ask for them.
///
/// A webhook is sent to `POST /events/NAME` on the admin listener.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "origin"]))]
pub struct Events {
    /// The name in the webhook's path and in metrics: lower-case letters, digits, `-` and `_`.
    #[schemars(extend("examples" = ["bucket"]))]
    pub name: String,
    /// The origin whose bucket reports; events of other buckets are ignored.
    #[schemars(extend("examples" = ["media"]))]
    pub origin: String,
    /// The way in which events come.
    pub kind: EventsKind,
    /// The token that a webhook shows as `Authorization: Bearer`; with `nats` the token for the servers.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "env": "EVENTS_TOKEN" }]))]
    pub token: Option<Secret>,
    /// Topics of AWS SNS, whose messages a webhook takes by their signature in place of the token.
    #[schemars(extend("examples" = [["arn:aws:sns:eu-west-1:123456789012:media"]]))]
    pub topics: Vec<String>,
    /// The NATS servers of one cluster; `tls://` in place of `nats://` demands TLS.
    #[schemars(extend("examples" = [["nats://127.0.0.1:4222"]]))]
    pub servers: Vec<String>,
    /// The subject on which the bucket publishes.
    #[schemars(extend("examples" = ["media-events"]))]
    pub subject: Option<String>,
    /// The JetStream stream that keeps the subject's messages; left out: a plain subscription.
    #[schemars(extend("examples" = ["MEDIA"]))]
    pub stream: Option<String>,
    /// The durable consumer of the stream, one for each gateway; left out: made of host name and `name`.
    #[schemars(extend("examples" = ["tidegate-1"]))]
    pub consumer: Option<String>,
    /// The credentials file of NATS, which holds a JWT and the seed of a key.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "file": "/etc/tidegate/nats.creds" }]))]
    pub credentials: Option<Secret>,
    /// The user for the NATS servers.
    #[schemars(extend("examples" = ["tidegate"]))]
    pub user: Option<String>,
    /// The password of `user`.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "env": "NATS_PASSWORD" }]))]
    pub password: Option<Secret>,
    /// The authorities that the NATS servers are checked against, as PEM; left out: those of the system.
    #[schemars(extend("examples" = ["/etc/tidegate/nats-ca.pem"]))]
    pub ca: Option<PathBuf>,
    /// An object that the gateway writes, whose event has to come back; left out: `ttl` stands.
    ///
    /// The object is `PREFIXheartbeat-NAME`. If its event stays away for `every` (`10s` if left out), `ttl` stands.
    #[schemars(extend("examples" = [{ "prefix": ".tidegate/", "every": "10s" }]))]
    pub heartbeat: Option<Heartbeat>,
}

/// The way in which events come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventsKind {
    /// By HTTP, to the admin listener.
    #[default]
    Webhook,
    /// By NATS.
    Nats,
}

/// The object whose event has to come back.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["prefix"]))]
pub struct Heartbeat {
    /// The beginning of its key.
    #[schemars(extend("examples" = [".tidegate/"]))]
    pub prefix: String,
    /// The time from one write to the next, and from a write to its event.
    pub every: Period,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            every: Period::secs(10),
        }
    }
}

impl Default for Events {
    /// Name and origin have to be given: empty stands for missing.
    fn default() -> Self {
        Self {
            name: String::new(),
            origin: String::new(),
            kind: EventsKind::Webhook,
            token: None,
            topics: Vec::new(),
            servers: Vec::new(),
            subject: None,
            stream: None,
            consumer: None,
            credentials: None,
            user: None,
            password: None,
            ca: None,
            heartbeat: None,
        }
    }
}
