//! Subscriptions to the events of buckets: from the configuration to receivers, with the engine as their sink.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::join_all;
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::sink::Heartbeats;
use self::source::{NewSource, RunningSource, SourceSettings};
use self::webhook::Webhooks;
use crate::doctor::Origins;
use tidegate_config::{Config, Environment};
use tidegate_events::Metrics;
use tidegate_telemetry::locks::Recover as _;

#[cfg(test)]
mod dropped;
pub(super) mod fleet;
mod nats_auth;
mod proofs;
mod sink;
pub(super) mod source;
mod webhook;

pub(super) use self::proofs::Proofs;
pub(super) use self::sink::ChangeReceivers;

/// A receiver may take this long to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// All subscriptions of a gateway.
pub(super) struct BucketEvents {
    receivers: ChangeReceivers,
    metrics: Metrics,
    webhooks: Arc<Webhooks>,
    heartbeats: Heartbeats,
    /// The subscriptions that have begun.
    sources: Mutex<Vec<Arc<RunningSource>>>,
    /// Stops all subscriptions, also those that a late reload begins.
    stop: CancellationToken,
}

/// The subscriptions of another configuration, not in force yet. Dropped, it leaves no metrics of those that are new.
pub(super) struct PreparedEvents {
    sources: Vec<Arc<RunningSource>>,
    /// The subscriptions among them that have not begun.
    new: Vec<NewSource>,
    /// The subscriptions in force.
    present: Vec<Arc<RunningSource>>,
    metrics: Metrics,
}

impl fmt::Debug for BucketEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketEvents").finish_non_exhaustive()
    }
}

impl BucketEvents {
    /// Makes an empty set of subscriptions, and registers their metrics.
    pub(super) fn new(receivers: ChangeReceivers, registry: &mut Registry) -> Self {
        let metrics = Metrics::default();
        metrics.register(registry);
        Self {
            receivers,
            metrics,
            webhooks: Arc::default(),
            heartbeats: Heartbeats::default(),
            sources: Mutex::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Returns the webhooks, which the admin listener feeds.
    pub(super) fn webhooks(&self) -> Arc<dyn tidegate_admin::events::Events> {
        self.webhooks.clone()
    }

    /// Makes the subscriptions of a configuration. One with the settings, secrets and bucket of before stays as it is, the
    /// others are to begin.
    pub(super) fn prepare(
        &self,
        config: &Config,
        env: &Environment,
        (origins, proofs): (&Origins, &Proofs),
    ) -> anyhow::Result<PreparedEvents> {
        let mut prepared = PreparedEvents {
            sources: Vec::new(),
            new: Vec::new(),
            present: self.sources().clone(),
            metrics: self.metrics.clone(),
        };
        for section in &config.events {
            let of = || format!("events `{}`", section.name);
            let settings = SourceSettings::read(config, section, env, origins).with_context(of)?;
            let mut present = prepared.present.iter();
            if let Some(kept) = present.find(|source| source.settings == settings) {
                prepared.sources.push(kept.clone());
                continue;
            }
            let proof = proofs.get(&section.name).unwrap_or_default();
            let reached = (&self.receivers, &self.heartbeats);
            let own = (&self.metrics, self.stop.child_token());
            let new = NewSource::new(settings, origins, (proof, reached), own).with_context(of)?;
            prepared.sources.push(new.source.clone());
            prepared.new.push(new);
        }
        Ok(prepared)
    }

    /// Puts prepared subscriptions in force. Those that have gone or changed prove nothing from now on; after they have
    /// ended, within 5 s, the new ones begin.
    pub(super) async fn apply(&self, mut prepared: PreparedEvents) {
        let new = std::mem::take(&mut prepared.new);
        let sources = std::mem::take(&mut prepared.sources);
        let old = std::mem::replace(&mut *self.sources(), sources.clone());
        let stays = |old: &Arc<RunningSource>| sources.iter().any(|new| Arc::ptr_eq(old, new));
        let gone: Vec<_> = old.into_iter().filter(|old| !stays(old)).collect();
        gone.iter().for_each(|source| source.end());
        let fed = sources.iter().filter_map(|source| {
            let webhook = source.webhook.clone()?;
            Some((source.settings.name().to_owned(), webhook))
        });
        self.webhooks.replace(fed.collect());
        let heartbeats = sources.iter().map(|source| source.settings.heartbeat());
        self.heartbeats.replace(heartbeats.flatten().collect());
        wait_for(&gone).await;
        forget_all(&self.metrics, &gone, &sources);
        new.into_iter().for_each(NewSource::begin);
    }

    /// Ends all receivers and heartbeats, within 5 s.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        let all = std::mem::take(&mut *self.sources());
        all.iter().for_each(|source| source.end());
        wait_for(&all).await;
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Arc<RunningSource>>> {
        self.sources.lock().recover()
    }
}

impl Drop for PreparedEvents {
    fn drop(&mut self) {
        let new = self.new.iter().map(|new| &new.source);
        forget_all(&self.metrics, new, &self.present);
    }
}

/// Removes the metrics of subscriptions whose names none of the others has.
fn forget_all<'a>(
    metrics: &Metrics,
    gone: impl IntoIterator<Item = &'a Arc<RunningSource>>,
    others: &[Arc<RunningSource>],
) {
    for name in gone.into_iter().map(|source| source.settings.name()) {
        if !others.iter().any(|source| source.settings.name() == name) {
            metrics.forget(name);
        }
    }
}

/// Waits until ended subscriptions receive nothing more, 5 s at most.
async fn wait_for(sources: &[Arc<RunningSource>]) {
    let ended = join_all(sources.iter().map(|source| source.ended()));
    if timeout(STOP_TIMEOUT, ended).await.is_err() {
        tracing::warn!("a receiver of events has not ended in time");
    }
}
