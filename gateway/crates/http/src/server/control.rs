//! The control of a server that runs: listeners come and go, and the settings are exchanged.

use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::live_settings::LiveSettings;
use crate::settings::Settings;
use tidegate_plan::Listen;
use tidegate_socket::Listener;
use tidegate_telemetry::locks::Recover as _;

/// The control of a frontend that serves.
#[derive(Debug)]
pub struct Control {
    settings: LiveSettings,
    open: Mutex<Vec<OpenListener>>,
    changes: UnboundedSender<Change>,
}

/// A listener that is served.
#[derive(Debug)]
struct OpenListener {
    /// The address in the configuration, which may leave the port to the system.
    address: Listen,
    tls: bool,
    listener: Weak<Listener>,
    /// Ends it.
    stop: CancellationToken,
    /// Cancelled when its socket is closed.
    closed: CancellationToken,
}

/// The changes that a [`Control`] makes, for the frontend that it controls.
#[derive(Debug)]
pub struct Changes(UnboundedReceiver<Change>);

/// One change.
#[derive(Debug)]
pub(super) enum Change {
    /// A listener is to be served.
    Opened(OpenedListener),
    /// The settings have been exchanged.
    Settings,
}

/// A listener to be served until it is stopped.
#[derive(Debug)]
pub(super) struct OpenedListener {
    // The first field, so that the socket is closed before that is told.
    pub(super) listener: Arc<Listener>,
    pub(super) stop: CancellationToken,
    _closed: DropGuard,
}

impl Changes {
    /// Returns those that open these listeners, which stay to the end.
    pub(crate) fn fixed(listeners: Vec<Listener>) -> Self {
        let (sender, receiver) = unbounded_channel();
        for listener in listeners {
            let opened = OpenedListener {
                listener: Arc::new(listener),
                stop: CancellationToken::new(),
                _closed: CancellationToken::new().drop_guard(),
            };
            // The receiver is there.
            let _ = sender.send(Change::Opened(opened));
        }
        Self(receiver)
    }

    /// Waits for the next change; `None`: there will be no more.
    pub(super) async fn next(&mut self) -> Option<Change> {
        self.0.recv().await
    }
}

impl Control {
    /// Returns the control of a frontend with these settings and listeners, each with its address in the configuration,
    /// and the changes for [`Frontend::serve_controlled`](crate::Frontend::serve_controlled).
    #[must_use]
    pub fn new(settings: Settings, listeners: Vec<(Listen, Listener)>) -> (Arc<Self>, Changes) {
        let (changes, receiver) = unbounded_channel();
        let control = Self {
            settings: settings.into(),
            open: Mutex::default(),
            changes,
        };
        for (address, listener) in listeners {
            control.open(address, listener);
        }
        (Arc::new(control), Changes(receiver))
    }

    /// Returns the settings in force, for the frontend.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.settings.clone()
    }

    /// Returns the time that answers in flight may take to finish.
    #[must_use]
    pub fn drain(&self) -> Duration {
        self.settings.load().settings.drain
    }

    /// Puts other settings in force: for connections from now on, and for requests as far as they are about requests.
    pub fn replace_settings(&self, settings: Settings) {
        if self.settings.load().settings != settings {
            self.settings.replace(settings);
            // A server that has ended needs none.
            let _ = self.changes.send(Change::Settings);
        }
    }

    /// Returns the addresses of the open listeners as the configuration has them, and whether each has TLS.
    #[must_use]
    pub fn listeners(&self) -> Vec<(Listen, bool)> {
        let open = self.open.lock().recover();
        open.iter()
            .map(|one| (one.address.clone(), one.tls))
            .collect()
    }

    /// Returns a listener without TLS on the socket of the open one with this address, so that connections that wait in
    /// the kernel's queue are not lost. `None`: there is none.
    ///
    /// # Errors
    /// Those of the system.
    pub fn duplicate(&self, address: &Listen) -> io::Result<Option<Listener>> {
        let open = self.open.lock().recover();
        let same = open.iter().find(|one| one.address == *address);
        let same = same.and_then(|one| one.listener.upgrade());
        same.map(|listener| listener.duplicate()).transpose()
    }

    /// Opens listeners, and closes those that are not to be `kept`; returns when their sockets are closed. Their
    /// connections end as at the end of the process: answers in flight may finish.
    pub async fn replace_listeners(
        &self,
        mut kept: Vec<(Listen, bool)>,
        added: Vec<(Listen, Listener)>,
    ) {
        let closed = {
            let mut open = self.open.lock().recover();
            let goes = |one: &mut OpenListener| {
                let found = kept
                    .iter()
                    .position(|(address, tls)| *address == one.address && *tls == one.tls);
                found.map(|at| kept.swap_remove(at)).is_none()
            };
            open.extract_if(.., goes).collect::<Vec<_>>()
        };
        for (address, listener) in added {
            self.open(address, listener);
        }
        for one in closed {
            one.stop.cancel();
            one.closed.cancelled().await;
        }
    }

    fn open(&self, address: Listen, listener: Listener) {
        let (stop, closed) = (CancellationToken::new(), CancellationToken::new());
        let opened = OpenedListener {
            listener: Arc::new(listener),
            stop: stop.clone(),
            _closed: closed.clone().drop_guard(),
        };
        let open = OpenListener {
            address,
            tls: opened.listener.has_tls(),
            listener: Arc::downgrade(&opened.listener),
            stop,
            closed,
        };
        self.open.lock().recover().push(open);
        // A server that has ended needs none: the socket is closed at once.
        let _ = self.changes.send(Change::Opened(opened));
    }
}
