//! The admin listener of a configuration that is reloaded: bound first, served when nothing can fail any more.

use std::sync::Arc;

use anyhow::Context as _;

use crate::app::settings::ADMIN_SOCKET_MODE;
use tidegate_admin::AdminControl;
use tidegate_config::ListenOn;
use tidegate_plan::Listen;
use tidegate_socket::Listener;
use tidegate_tls::{Side, Tls};

/// The admin listener of another configuration; `None`: it stays.
pub(super) struct PreparedAdmin(Option<(Listen, Listener)>);

/// Binds the admin listener if it changes. One whose TLS alone changes keeps its socket.
///
/// # Errors
/// Names the address that cannot be bound.
pub(super) async fn prepare(
    control: &AdminControl,
    wanted: &ListenOn,
    tls: &Arc<Tls>,
) -> anyhow::Result<PreparedAdmin> {
    let ListenOn {
        address,
        tls: has_tls,
    } = wanted;
    if control.is_at(address, *has_tls) {
        return Ok(PreparedAdmin(None));
    }
    let bound = match control.duplicate(address).transpose() {
        Some(duplicate) => duplicate,
        None => Listener::bind(address, ADMIN_SOCKET_MODE).await,
    };
    let mut listener = bound.with_context(|| format!("cannot listen on {address}"))?;
    if *has_tls {
        listener.set_tls(tls.acceptor(Side::Admin));
    }
    Ok(PreparedAdmin(Some((address.clone(), listener))))
}

impl PreparedAdmin {
    /// Serves it in place of the one before.
    pub(super) fn apply(self, control: &AdminControl) {
        let Some((address, listener)) = self.0 else {
            return;
        };
        tracing::info!(tls = listener.has_tls(), %address, "admin listener");
        control.replace(address, listener);
    }
}
