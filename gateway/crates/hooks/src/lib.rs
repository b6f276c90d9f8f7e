//! Hooks: URLs that are called when keys of a bucket have changed.
//!
//! Changes come from bucket events and from writes through this process ([`Hooks::changed`]). Each hook keeps those that
//! it covers, a key once, and calls its receiver when no further change has come for its `debounce`, but no later than
//! `max_delay` after the first. A change that both sources report within that time is called for once.
//!
//! Everything is bounded: the keys that wait (then their common folder waits instead), the calls at once (one a hook), the
//! time and the tries of a call, and the bytes of an answer. A receiver that is down costs that much, and no reader waits
//! for it. ADR 0044 has the reasons.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

mod client;
mod metrics;
mod pending;
mod settings;
#[cfg(test)]
mod tests;
mod worker;

pub use pending::Each;
pub use settings::HookSettings;

use client::{HttpClient, Transport};
use metrics::{DropReason, Metrics};
use tidegate_plan::KeyChange;
use tidegate_telemetry::locks::Recover as _;
use worker::Hook;

/// The error of hooks that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The TLS library has no protocol version.
    #[error("TLS cannot be set up")]
    Tls,
    /// The system has no certificates to check receivers with.
    #[error("cannot read the system's certificates: {0}")]
    Roots(std::io::Error),
}

/// The hooks of a process.
pub struct Hooks {
    hooks: Vec<Arc<Hook>>,
    /// The first name of each origin's bucket: several origins may have one bucket.
    aliases: HashMap<String, Arc<str>>,
    metrics: Metrics,
    stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("hooks", &self.hooks.len())
            .finish_non_exhaustive()
    }
}

impl Hooks {
    /// Starts a task for each hook on a runtime. `aliases` has, for each origin, the first name of its bucket.
    ///
    /// # Errors
    /// A hook needs TLS, and the system has no certificates.
    pub fn start(
        settings: Vec<HookSettings>,
        aliases: HashMap<String, Arc<str>>,
        runtime: &Handle,
    ) -> Result<Self, HookError> {
        let is_tls = |hook: &HookSettings| hook.url.head().starts_with("https://");
        let client = HttpClient::new(settings.iter().any(is_tls))?;
        Ok(Self::over(Arc::new(client), settings, aliases, runtime))
    }

    fn over(
        transport: Arc<dyn Transport>,
        settings: Vec<HookSettings>,
        aliases: HashMap<String, Arc<str>>,
        runtime: &Handle,
    ) -> Self {
        let (metrics, stop) = (Metrics::default(), CancellationToken::new());
        let hook = |settings: HookSettings| {
            Arc::new(Hook {
                metrics: metrics.of(&settings.name),
                settings,
                transport: transport.clone(),
                stop: stop.clone(),
                pending: Mutex::default(),
                wake: Notify::new(),
                unsent: 0.into(),
            })
        };
        let hooks: Vec<_> = settings.into_iter().map(hook).collect();
        let tasks = hooks.iter().cloned().map(|hook| runtime.spawn(hook.run()));
        let tasks = Mutex::new(tasks.collect());
        Self {
            hooks,
            aliases,
            metrics,
            stop,
            tasks,
        }
    }

    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Reports changes of an origin's keys. Returns at once; the calls follow.
    pub fn changed(&self, origin: &str, changes: &[KeyChange]) {
        let bucket = self.bucket(origin);
        for hook in &self.hooks {
            let named = hook.settings.origin.as_deref();
            if named.is_none_or(|named| self.bucket(named) == bucket) {
                hook.add(&bucket, changes);
            }
        }
    }

    /// Returns the name that stands for an origin's bucket.
    fn bucket(&self, origin: &str) -> Arc<str> {
        let alias = self.aliases.get(origin).cloned();
        alias.unwrap_or_else(|| origin.into())
    }

    /// Sends the changes that wait, each call once, within a time. What is left then is dropped, and logged.
    pub async fn stop(&self, within: Duration) {
        self.stop.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().recover());
        if tokio::time::timeout(within, join_all(&mut tasks))
            .await
            .is_ok()
        {
            return;
        }
        tasks.iter().for_each(JoinHandle::abort);
        for hook in &self.hooks {
            let waiting = hook.pending.lock().recover().take(hook.settings.each);
            let unsent = hook.unsent.load(std::sync::atomic::Ordering::Relaxed);
            let calls = unsent + waiting.len() as u64;
            if calls > 0 {
                hook.metrics.dropped(DropReason::Stopped, calls);
                let hook = hook.settings.name.as_str();
                tracing::warn!(hook, calls, "a hook's calls were dropped at the end");
            }
        }
    }
}
