//! The public listeners of a configuration that is reloaded: bound first, opened and closed when nothing can fail any more.

use std::sync::Arc;

use anyhow::Context as _;

use crate::app::settings::PUBLIC_SOCKET_MODE;
use tidegate_config::ListenAddress;
use tidegate_http::Control;
use tidegate_plan::Listen;
use tidegate_socket::Listener;
use tidegate_tls::{Side, Tls};

/// The public listeners of another configuration, bound and not yet served.
pub(super) struct PreparedListeners {
    kept: Vec<(Listen, bool)>,
    added: Vec<(Listen, Listener)>,
}

/// Binds what `wanted` has beside the open listeners. One whose TLS alone changes keeps its socket.
///
/// # Errors
/// Names the address that cannot be bound.
pub(super) async fn prepare(
    control: &Control,
    wanted: &[ListenAddress],
    tls: &Arc<Tls>,
) -> anyhow::Result<PreparedListeners> {
    let mut open = control.listeners();
    let mut prepared = PreparedListeners {
        kept: Vec::new(),
        added: Vec::new(),
    };
    let mut left = Vec::new();
    for one in wanted {
        let same = open
            .iter()
            .position(|(address, tls)| *address == one.address && *tls == one.tls);
        match same {
            Some(at) => prepared.kept.push(open.swap_remove(at)),
            None => left.push(one),
        }
    }
    for one in left {
        let duplicate = match open.iter().any(|(address, _)| *address == one.address) {
            true => control.duplicate(&one.address).transpose(),
            false => None,
        };
        let bound = match duplicate {
            Some(duplicate) => duplicate,
            None => Listener::bind(&one.address, PUBLIC_SOCKET_MODE).await,
        };
        let mut listener = bound.with_context(|| format!("cannot listen on {}", one.address))?;
        if one.tls {
            listener.set_tls(tls.acceptor(Side::Public));
        }
        prepared.added.push((one.address.clone(), listener));
    }
    Ok(prepared)
}

impl PreparedListeners {
    /// Opens and closes listeners.
    pub(super) async fn apply(self, control: &Control) {
        for (configured, listener) in &self.added {
            let address = listener.address().unwrap_or_else(|_| configured.clone());
            tracing::info!(tls = listener.has_tls(), %address, "serving");
        }
        let before = control.listeners();
        let closed = before.iter().filter(|one| !self.kept.contains(one));
        for (address, tls) in closed {
            tracing::info!(tls, %address, "no longer serving");
        }
        control.replace_listeners(self.kept, self.added).await;
    }
}
