//! The admin listener of a process, which a reload may exchange. A request that has begun is answered through the listener
//! that it came by, also the one that asked for the reload.

use std::io;
use std::sync::{Arc, Mutex, Weak};

use axum::Router;
use tidegate_plan::Listen;
use tidegate_socket::Listener;
use tidegate_telemetry::locks::Recover as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::serve;

/// The control of the admin listener.
#[derive(Debug)]
pub struct AdminControl {
    present: Mutex<CurrentListener>,
    next: mpsc::UnboundedSender<Arc<Listener>>,
}

/// The listener that is served.
#[derive(Debug)]
struct CurrentListener {
    /// The address in the configuration, and whether it speaks TLS.
    address: Listen,
    has_tls: bool,
    listener: Weak<Listener>,
}

/// The listeners that are served one after the other, for [`serve_controlled`].
#[derive(Debug)]
pub struct AdminListeners(mpsc::UnboundedReceiver<Arc<Listener>>);

impl AdminControl {
    /// Makes the control of a listener, whose address in the configuration this is.
    #[must_use]
    pub fn new(address: Listen, listener: Listener) -> (Self, AdminListeners) {
        let (next, listeners) = mpsc::unbounded_channel();
        let control = Self {
            present: Mutex::new(CurrentListener {
                address: address.clone(),
                has_tls: listener.has_tls(),
                listener: Weak::new(),
            }),
            next,
        };
        control.replace(address, listener);
        (control, AdminListeners(listeners))
    }

    /// Returns whether the listener has this address in the configuration, and speaks TLS if `has_tls` says so.
    #[must_use]
    pub fn is_at(&self, address: &Listen, has_tls: bool) -> bool {
        let present = self.present.lock().recover();
        present.address == *address && present.has_tls == has_tls
    }

    /// Returns whether the listener speaks TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.present.lock().recover().has_tls
    }

    /// Returns another listener on the same socket, without TLS, if the listener has this address in the configuration.
    ///
    /// # Errors
    /// Those of the system.
    pub fn duplicate(&self, address: &Listen) -> io::Result<Option<Listener>> {
        let present = self.present.lock().recover();
        let same = present.listener.upgrade();
        let same = same.filter(|_| present.address == *address);
        same.map(|listener| listener.duplicate()).transpose()
    }

    /// Serves another listener. The one before accepts nothing more; its answers in flight may finish within 5 s.
    pub fn replace(&self, address: Listen, listener: Listener) {
        let listener = Arc::new(listener);
        let mut present = self.present.lock().recover();
        *present = CurrentListener {
            address,
            has_tls: listener.has_tls(),
            listener: Arc::downgrade(&listener),
        };
        // After the end of the process there is nothing to serve.
        let _ = self.next.send(listener);
    }
}

/// Answers with `router` on each listener until the next one comes, or `stop` is cancelled; returns when the last connection
/// has ended, at most 5 s later.
pub async fn serve_controlled(
    mut listeners: AdminListeners,
    router: Router,
    stop: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let mut present = stop.child_token();
    while let Some(Some(listener)) = stop.run_until_cancelled(listeners.0.recv()).await {
        let next = stop.child_token();
        tasks.spawn(serve(listener, router.clone(), next.clone()));
        std::mem::replace(&mut present, next).cancel();
    }
    stop.cancelled().await;
    tasks.close();
    tasks.wait().await;
}
