//! Waits of readers for bytes, for the metrics and the registry of streams.
//!
//! A reader that finds its bytes in memory has none, and pays nothing for them.

use std::sync::Arc;

use tokio::time::Instant;

use super::object_state::ObjectState;
use super::streams::{Stream, is_gap};
use crate::Core;
use crate::fetch::options::FetchOptions;
use tidegate_plan::Client;
use tidegate_telemetry::trace::{self, Kind, Span};

/// The frontends whose readers wait: mounts, and listeners.
pub(crate) const FRONTENDS: [&str; 2] = ["fuse", "http"];

/// A wait of a reader for its next bytes; counted when it ends, also if it ends with the reader.
#[derive(Debug)]
pub(crate) struct Wait {
    pinned: Arc<ObjectState>,
    since: Instant,
    is_forgotten: bool,
    /// The stream that the reader reports to.
    stream: Option<Arc<Stream>>,
    /// The same wait in the reader's trace.
    _span: Option<Span>,
}

impl Wait {
    /// Begins a wait.
    pub(crate) fn begin(pinned: &Arc<ObjectState>, stream: Option<&Arc<Stream>>) -> Self {
        let mut wait = Self {
            pinned: pinned.clone(),
            since: Instant::now(),
            is_forgotten: false,
            stream: None,
            _span: trace::span("wait", Kind::Internal),
        };
        if let Some(stream) = stream {
            wait.report_to(stream);
        }
        wait
    }

    /// Shows the wait in a stream.
    pub(crate) fn report_to(&mut self, stream: &Arc<Stream>) {
        stream.begin_wait(self.since);
        self.stream = Some(stream.clone());
    }

    /// Ends the wait without counting it.
    pub(crate) fn forget(mut self) {
        self.is_forgotten = true;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let (metrics, waited) = (&self.pinned.core.metrics, self.since.elapsed());
        let is_gap = is_gap(waited) && !self.is_forgotten;
        if let Some(stream) = &self.stream {
            stream.end_wait(is_gap);
        }
        let frontend = frontend(self.pinned.options);
        let Some(frontend) = frontend.filter(|_| !self.is_forgotten) else {
            return;
        };
        let labels = (frontend, self.pinned.options.profile);
        metrics.waited(labels, waited);
        if is_gap {
            metrics.gap(labels);
        }
    }
}

/// Runs `open`, which asks the bucket for a version and perhaps its first bytes, and counts its time as a wait of the
/// reader.
pub(crate) async fn while_opening<T>(
    core: &Core,
    options: FetchOptions,
    open: impl Future<Output = T>,
) -> T {
    let since = Instant::now();
    let opened = open.await;
    if let Some(frontend) = frontend(options) {
        let labels = (frontend, options.profile);
        core.metrics.waited(labels, since.elapsed());
    }
    opened
}

/// Returns the label of the frontend that reads; `None` if no reader waits.
fn frontend(options: FetchOptions) -> Option<&'static str> {
    let [fuse, http] = FRONTENDS;
    match options.client {
        _ if options.quiet => None,
        Client::Warm => None,
        Client::Own => Some(fuse),
        Client::V4(_) | Client::V6(_) | Client::Local => Some(http),
    }
}
