//! The login at NATS servers, which `[[events]]` and `[fleet]` have in keys of the same names.

use std::path::Path;

use super::{Events, Fleet};
use crate::Secret;

/// The keys of a section that say how the gateway logs in at NATS servers, and how it verifies them.
#[derive(Debug, Clone, Copy)]
pub struct NatsLogin<'c> {
    /// The content of a credentials file.
    pub credentials: Option<&'c Secret>,
    /// The user.
    pub user: Option<&'c str>,
    /// The password of the user.
    pub password: Option<&'c Secret>,
    /// The token.
    pub token: Option<&'c Secret>,
    /// The file with the authorities that the servers are checked against; `None`: those of the system.
    pub ca: Option<&'c Path>,
}

impl NatsLogin<'_> {
    /// The names of its keys.
    pub(crate) const KEYS: [&'static str; 5] = ["credentials", "user", "password", "token", "ca"];
}

impl Events {
    /// Returns the login at the NATS servers.
    #[must_use]
    pub fn login(&self) -> NatsLogin<'_> {
        NatsLogin {
            credentials: self.credentials.as_ref(),
            user: self.user.as_deref(),
            password: self.password.as_ref(),
            token: self.token.as_ref(),
            ca: self.ca.as_deref(),
        }
    }
}

impl Fleet {
    /// Returns the login at the NATS servers.
    #[must_use]
    pub fn login(&self) -> NatsLogin<'_> {
        NatsLogin {
            credentials: self.credentials.as_ref(),
            user: self.user.as_deref(),
            password: self.password.as_ref(),
            token: self.token.as_ref(),
            ca: self.ca.as_deref(),
        }
    }
}
