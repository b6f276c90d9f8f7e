//! `[admin]`: the private listener.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ListenAddress, Secret};
use tidegate_plan::Listen;

/// The private listener: health, metrics, purge, console. Never on the public listener.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// Address and port, or `unix:/path`; `{ address = "…", tls = true }` encrypts. Keep it from the public.
    pub listen: ListenAddress,
    /// Hosts that it answers to beside addresses, `localhost` and the machine's own name.
    #[schemars(extend("examples" = [["ops.example.org"]]))]
    pub hosts: Vec<String>,
    /// The token that a change must show; left out: changes are refused.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "file": "$CREDENTIALS_DIRECTORY/token" }]))]
    pub token: Option<Secret>,
    /// The page at `/`, and `/api/v1`: off, after a login, or read by all who reach it.
    ///
    /// `read` shows names of objects, also of private routes, and addresses of clients to all who reach the
    /// listener; bytes of objects and every change ask for the token.
    pub console: ConsoleAccess,
}

/// The readers of the console.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConsoleAccess {
    /// There is no console, and no `/api/v1`.
    Off,
    /// Clients that show the token.
    #[default]
    Login,
    /// All who reach the listener; they see names of objects.
    Read,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: Listen::Tcp(([127, 0, 0, 1], 8081).into()).into(),
            hosts: Vec::new(),
            token: None,
            console: ConsoleAccess::default(),
        }
    }
}
