//! `[fleet]`: gateways that tell each other of purges, pins and writes.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Secret;

/// Gateways in front of the same buckets: a purge, a pin and a write through one reach all.
///
/// A bucket is known by its name, so that gateways may reach it at different endpoints.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fleet {
    /// The NATS servers of one cluster; `tls://` in place of `nats://` demands TLS. Left out: it is alone.
    #[schemars(extend("examples" = [["nats://127.0.0.1:4222"]]))]
    pub nats: Vec<String>,
    /// The subject of the fleet's messages. Only its gateways may publish there: a message can purge all.
    pub subject: String,
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
    /// The token for the NATS servers.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "env": "NATS_TOKEN" }]))]
    pub token: Option<Secret>,
    /// The authorities that the NATS servers are checked against, as PEM; left out: those of the system.
    #[schemars(extend("examples" = ["/etc/tidegate/nats-ca.pem"]))]
    pub ca: Option<PathBuf>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            nats: Vec::new(),
            subject: "tidegate".to_owned(),
            credentials: None,
            user: None,
            password: None,
            token: None,
            ca: None,
        }
    }
}
