//! `[admin]`: the private listener.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{ListenOn, Secret};
use tidegate_plan::Listen;

/// The private listener: health, metrics, purge. Never on the public listener.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// Address and port, or `unix:/path`; `{ address = "…", tls = true }` encrypts. Keep it from the public.
    pub listen: ListenOn,
    /// Hosts that it answers to beside addresses, `localhost` and the machine's own name.
    #[schemars(extend("examples" = [["ops.example.org"]]))]
    pub hosts: Vec<String>,
    /// The token that a change must show; left out: changes are refused.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "file": "/etc/tidegate/token" }]))]
    pub token: Option<Secret>,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: Listen::Tcp(([127, 0, 0, 1], 8081).into()).into(),
            hosts: Vec::new(),
            token: None,
        }
    }
}
