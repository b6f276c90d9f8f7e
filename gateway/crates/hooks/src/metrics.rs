//! Metrics of hooks.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::client::Outcome;
use tidegate_telemetry::names;

type Labels<const N: usize> = [(&'static str, Arc<str>); N];

/// Metrics of all hooks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    calls: Family<Labels<2>, Counter>,
    dropped: Family<Labels<2>, Counter>,
    widened: Family<Labels<1>, Counter>,
    pending: Family<Labels<1>, Gauge>,
}

/// The reason for which changes were not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// All tries of the call failed, or the receiver refused it.
    Failed,
    /// An earlier call of the same window had no answer.
    Silent,
    /// The gateway stopped.
    Stopped,
}

impl DropReason {
    const ALL: [Self; 3] = [Self::Failed, Self::Silent, Self::Stopped];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Silent => "silent",
            Self::Stopped => "stopped",
        }
    }
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        names::HOOK_REQUESTS.register(registry, self.calls.clone());
        names::HOOK_DROPPED.register(registry, self.dropped.clone());
        names::HOOK_WIDENED.register(registry, self.widened.clone());
        names::HOOK_PENDING.register(registry, self.pending.clone());
    }

    pub(crate) fn of(&self, hook: &str) -> HookMetrics {
        let hook: Arc<str> = hook.into();
        // They begin at 0, so that the first one counts as a rise.
        for reason in DropReason::ALL {
            let labels = [("hook", hook.clone()), ("reason", reason.label().into())];
            let _ = self.dropped.get_or_create(&labels);
        }
        HookMetrics {
            all: self.clone(),
            hook,
        }
    }
}

/// Metrics of one hook, which are shown while there is the hook.
#[derive(Debug)]
pub(crate) struct HookMetrics {
    all: Metrics,
    hook: Arc<str>,
}

impl Drop for HookMetrics {
    fn drop(&mut self) {
        for result in Outcome::LABELS {
            let labels = [("hook", self.hook.clone()), ("result", result.into())];
            self.all.calls.remove(&labels);
        }
        for reason in DropReason::ALL.map(DropReason::label) {
            let labels = [("hook", self.hook.clone()), ("reason", reason.into())];
            self.all.dropped.remove(&labels);
        }
        let labels = [("hook", self.hook.clone())];
        self.all.widened.remove(&labels);
        self.all.pending.remove(&labels);
    }
}

impl HookMetrics {
    pub(crate) fn answered(&self, outcome: Outcome) {
        let labels = [
            ("hook", self.hook.clone()),
            ("result", outcome.label().into()),
        ];
        self.all.calls.get_or_create(&labels).inc();
    }

    pub(crate) fn dropped(&self, reason: DropReason, calls: u64) {
        let labels = [
            ("hook", self.hook.clone()),
            ("reason", reason.label().into()),
        ];
        self.all.dropped.get_or_create(&labels).inc_by(calls);
    }

    pub(crate) fn widened(&self) {
        let labels = [("hook", self.hook.clone())];
        self.all.widened.get_or_create(&labels).inc();
    }

    pub(crate) fn pending(&self, changes: u64) {
        let labels = [("hook", self.hook.clone())];
        let changes = i64::try_from(changes).unwrap_or(i64::MAX);
        self.all.pending.get_or_create(&labels).set(changes);
    }
}
