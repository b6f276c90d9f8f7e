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
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

mod client;
mod metrics;
mod settings;
#[cfg(test)]
mod tests;
mod window_changes;
mod worker;

pub use settings::HookSettings;
pub use window_changes::CallGrouping;

use client::{HttpClient, Transport};
use metrics::{DropReason, Metrics};
use tidegate_outbound::{ClientError, Roots};
use tidegate_plan::{FolderChange, KeyChange};
use tidegate_telemetry::locks::Recover as _;
use worker::Hook;

/// The hooks of a process. They may be exchanged while it runs.
pub struct Hooks {
    present: Mutex<Arc<HookSet>>,
    metrics: Metrics,
    runtime: Handle,
    stop: CancellationToken,
    running: Mutex<Vec<RunningHook>>,
}

/// The hooks of one moment.
#[derive(Debug)]
struct HookSet {
    hooks: Vec<Arc<Hook>>,
    /// The first name of each origin's bucket: several origins may have one bucket.
    aliases: HashMap<String, Arc<str>>,
}

/// A hook and its task.
struct RunningHook {
    hook: Arc<Hook>,
    task: JoinHandle<()>,
}

/// Hooks that can be started, or take the place of others.
#[derive(Debug)]
pub struct PreparedHooks {
    settings: Vec<HookSettings>,
    aliases: HashMap<String, Arc<str>>,
    transport: Arc<dyn Transport>,
}

impl PreparedHooks {
    /// Prepares hooks. `aliases` has, for each origin, the first name of its bucket. It may read the system's certificates.
    ///
    /// # Errors
    /// A hook needs TLS, and the system has no certificates.
    pub fn new(
        settings: Vec<HookSettings>,
        aliases: HashMap<String, Arc<str>>,
    ) -> Result<Self, ClientError> {
        let heads = settings.iter().map(|hook| hook.url.head());
        let schemes = heads.filter_map(|head| Some(head.split_once("://")?.0));
        let client = HttpClient::new(Roots::for_schemes(schemes))?;
        Ok(Self {
            settings,
            aliases,
            transport: Arc::new(client),
        })
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("hooks", &self.load().hooks.len())
            .finish_non_exhaustive()
    }
}

impl Hooks {
    /// Starts a task for each hook on a runtime.
    #[must_use]
    pub fn start(prepared: PreparedHooks, runtime: &Handle) -> Self {
        let none = HookSet {
            hooks: Vec::new(),
            aliases: HashMap::new(),
        };
        let hooks = Self {
            present: Mutex::new(Arc::new(none)),
            metrics: Metrics::default(),
            runtime: runtime.clone(),
            stop: CancellationToken::new(),
            running: Mutex::default(),
        };
        hooks.replace(prepared);
        hooks
    }

    /// Puts other hooks in the place of these. One whose name stays keeps the changes that wait for their call, and calls
    /// by its new settings from the next call on. The calls of one that has gone are dropped, and logged.
    pub fn replace(&self, prepared: PreparedHooks) {
        let mut running = self.running.lock().recover();
        let mut old = std::mem::take(&mut *running);
        for settings in prepared.settings {
            let transport = prepared.transport.clone();
            let same = old
                .iter()
                .position(|one| one.hook.name == settings.name)
                .map(|at| old.swap_remove(at));
            running.push(match same {
                Some(kept) => {
                    kept.hook.replace(settings, transport);
                    kept
                }
                None => self.run(settings, transport),
            });
        }
        let set = HookSet {
            hooks: running.iter().map(|one| one.hook.clone()).collect(),
            aliases: prepared.aliases,
        };
        *self.present.lock().recover() = Arc::new(set);
        for gone in old {
            gone.task.abort();
            gone.hook.drop_calls(None);
        }
    }

    fn run(&self, settings: HookSettings, transport: Arc<dyn Transport>) -> RunningHook {
        let metrics = self.metrics.of(&settings.name);
        let hook = Hook::new(settings, transport, metrics, self.stop.clone());
        let hook = Arc::new(hook);
        RunningHook {
            task: self.runtime.spawn(hook.clone().run()),
            hook,
        }
    }

    fn load(&self) -> Arc<HookSet> {
        self.present.lock().recover().clone()
    }

    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.load().hooks.is_empty()
    }

    /// Reports changes of an origin's keys. Returns at once; the calls follow.
    pub fn changed(&self, origin: &str, changes: &[KeyChange]) {
        let present = self.load();
        let bucket = present.bucket(origin);
        for (hook, _) in present.of(&bucket) {
            hook.add(&bucket, changes);
        }
    }

    /// Reports changes of an origin's keys of which no more is known than their folder. Returns at once; the calls follow.
    pub fn changed_below(&self, origin: &str, changes: &FolderChange) {
        let present = self.load();
        let bucket = present.bucket(origin);
        for (hook, _) in present.of(&bucket) {
            hook.add_folder(&bucket, changes);
        }
    }

    /// Returns the longest time for which a hook puts off a call for a change of an origin's key. `None`: no hook is
    /// called for it.
    #[must_use]
    pub fn max_delay(&self, origin: &str, change: &KeyChange) -> Option<Duration> {
        let present = self.load();
        let bucket = present.bucket(origin);
        let hooks = present.of(&bucket).map(|(_, settings)| settings);
        let covers = |hook: &Arc<HookSettings>| hook.covers(change.kind, change.key.as_str());
        hooks.filter(covers).map(|hook| hook.max_delay).max()
    }

    /// Sends the changes that wait, each call once, within a time. What is left then is dropped, and logged.
    pub async fn stop(&self, within: Duration) {
        self.stop.cancel();
        let mut running = std::mem::take(&mut *self.running.lock().recover());
        let tasks = join_all(running.iter_mut().map(|one| &mut one.task));
        if tokio::time::timeout(within, tasks).await.is_ok() {
            return;
        }
        running.iter().for_each(|one| one.task.abort());
        for one in &running {
            one.hook.drop_calls(Some(DropReason::Stopped));
        }
    }
}

impl HookSet {
    /// Returns the hooks that are called for a bucket, with their settings.
    fn of(&self, bucket: &str) -> impl Iterator<Item = (&Hook, Arc<HookSettings>)> {
        let all = self.hooks.iter().map(|hook| (&**hook, hook.settings()));
        all.filter(move |(_, settings)| {
            let named = settings.origin.as_deref();
            named.is_none_or(|named| *self.bucket(named) == *bucket)
        })
    }

    /// Returns the name that stands for an origin's bucket.
    fn bucket(&self, origin: &str) -> Arc<str> {
        let alias = self.aliases.get(origin).cloned();
        alias.unwrap_or_else(|| origin.into())
    }
}
