//! The settings in force, which may be exchanged while the frontend serves.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioTimer;

use super::streams::StreamExecutor;
use crate::settings::Settings;

/// The smallest buffer that hyper takes.
const MIN_HEADER_BUFFER: usize = 8192;

/// The settings in force. A connection keeps the time limits and buffers that it began with; all else is of each request.
#[derive(Clone)]
pub struct LiveSettings(Arc<ArcSwap<ActiveSettings>>);

/// The settings of one moment.
pub(crate) struct ActiveSettings {
    pub(crate) settings: Settings,
    pub(super) protocols: Protocols,
}

/// The parameters of the protocols, which all connections share.
pub(super) struct Protocols {
    pub(super) http1: http1::Builder,
    pub(super) http2: http2::Builder<StreamExecutor>,
}

impl fmt::Debug for LiveSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().settings.fmt(f)
    }
}

impl From<Settings> for LiveSettings {
    fn from(settings: Settings) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(ActiveSettings::new(
            settings,
        ))))
    }
}

impl LiveSettings {
    /// Returns the settings of this moment.
    pub(crate) fn load(&self) -> Guard<Arc<ActiveSettings>> {
        self.0.load()
    }

    /// Returns the settings of this moment, to keep.
    pub(super) fn load_full(&self) -> Arc<ActiveSettings> {
        self.0.load_full()
    }

    /// Puts other settings in force.
    pub(super) fn replace(&self, settings: Settings) {
        self.0.store(Arc::new(ActiveSettings::new(settings)));
    }
}

impl ActiveSettings {
    fn new(settings: Settings) -> Self {
        Self {
            protocols: Protocols::new(&settings),
            settings,
        }
    }
}

impl Protocols {
    fn new(settings: &Settings) -> Self {
        let max_header = settings.max_header_bytes.max(MIN_HEADER_BUFFER);
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            // The watchdog sees slow heads, and costs no timer a request.
            .header_read_timeout(None)
            .max_buf_size(max_header);
        let mut http2 = http2::Builder::new(StreamExecutor);
        http2
            .max_header_list_size(u32::try_from(max_header).unwrap_or(u32::MAX))
            .max_concurrent_streams(128)
            .max_send_buf_size(max_header);
        Self { http1, http2 }
    }
}
