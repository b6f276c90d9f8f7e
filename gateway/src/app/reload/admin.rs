//! The admin listener of a configuration that is reloaded: bound first, served when nothing can fail any more.

use std::sync::Arc;

use anyhow::Context as _;

use crate::app::settings::{self, ADMIN_SOCKET_MODE};
use tidegate_admin::AdminControl;
use tidegate_admin::auth::AdminToken;
use tidegate_config::{Config, Environment, ListenAddress};
use tidegate_plan::{Listen, Token};
use tidegate_socket::Listener;
use tidegate_tls::{Side, Tls};

/// The admin listener, and the token that changes through it must show.
#[derive(Debug)]
pub(in crate::app) struct LiveAdmin {
    pub(in crate::app) control: AdminControl,
    pub(in crate::app) token: AdminToken,
}

/// The admin listener of another configuration.
pub(super) struct PreparedAdmin {
    /// `None`: it stays.
    listener: Option<(Listen, Listener)>,
    token: Option<Token>,
}

impl LiveAdmin {
    /// Binds the listener if it changes, and reads the token. A listener whose TLS alone changes keeps its socket.
    ///
    /// # Errors
    /// Names the address that cannot be bound, or says what is wrong with the token.
    pub(super) async fn prepare(
        &self,
        config: &Config,
        env: &Environment,
        tls: &Arc<Tls>,
    ) -> anyhow::Result<PreparedAdmin> {
        Ok(PreparedAdmin {
            token: settings::admin_token(config, env)?,
            listener: self.listener(&config.admin.listen, tls).await?,
        })
    }

    async fn listener(
        &self,
        wanted: &ListenAddress,
        tls: &Arc<Tls>,
    ) -> anyhow::Result<Option<(Listen, Listener)>> {
        let ListenAddress {
            address,
            tls: has_tls,
        } = wanted;
        if self.control.is_at(address, *has_tls) {
            return Ok(None);
        }
        let bound = match self.control.duplicate(address).transpose() {
            Some(duplicate) => duplicate,
            None => Listener::bind(address, ADMIN_SOCKET_MODE).await,
        };
        let mut listener = bound.with_context(|| format!("cannot listen on {address}"))?;
        if *has_tls {
            listener.set_tls(tls.acceptor(Side::Admin));
        }
        Ok(Some((address.clone(), listener)))
    }

    /// Puts another one in force.
    pub(super) fn apply(&self, prepared: PreparedAdmin) {
        if prepared.token != self.token.in_force() {
            tracing::info!("the admin token has changed; sessions of the console end");
            self.token.replace(prepared.token);
        }
        if let Some((address, listener)) = prepared.listener {
            tracing::info!(tls = listener.has_tls(), %address, "admin listener");
            self.control.replace(address, listener);
        }
    }
}
