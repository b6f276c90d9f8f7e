//! The engine and the hooks as the sink of a bucket's changes, and the bucket that heartbeats are written to.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, header};

use super::fleet::FleetLink;
use tidegate_engine::{Engine, SubscriptionProof};
use tidegate_events::heartbeat::{HeartbeatError, HeartbeatWriter};
use tidegate_events::{ApplyError, EventLog, Sink};
use tidegate_hooks::Hooks;
use tidegate_origin::cause::run_for;
use tidegate_origin::{Cause, Guard, Origin, Payload};
use tidegate_plan::freshness::EventProof;
use tidegate_plan::{ETag, KeyChange, ObjectKey, OriginId};

/// The changes of one message that are applied at once.
const AT_ONCE: usize = 256;

/// The parts that every change reaches.
#[derive(Clone)]
pub(in crate::app) struct ChangeReceivers {
    pub(in crate::app) engine: Engine,
    pub(in crate::app) hooks: Arc<Hooks>,
    pub(in crate::app) fleet: Option<Arc<FleetLink>>,
    pub(in crate::app) log: Arc<EventLog>,
}

/// The engine and the hooks, as the sink of one bucket's changes.
pub(super) struct ChangeSink {
    pub(super) receivers: ChangeReceivers,
    /// Whether the bucket reports to all gateways of a fleet.
    pub(super) reaches_all: bool,
    /// The name of the origin.
    pub(super) name: String,
    /// The name of the bucket.
    pub(super) bucket: String,
    pub(super) origin: OriginId,
    pub(super) proof: Arc<SubscriptionProof>,
    pub(super) heartbeats: Heartbeats,
}

/// The objects that the subscriptions in force write as heartbeats, each with the name of its bucket. A reload exchanges
/// them.
#[derive(Clone, Default)]
pub(super) struct Heartbeats(Arc<ArcSwap<HashSet<(String, ObjectKey)>>>);

impl Heartbeats {
    pub(super) fn replace(&self, objects: HashSet<(String, ObjectKey)>) {
        self.0.store(Arc::new(objects));
    }
}

impl Sink for ChangeSink {
    fn apply(&self, changes: Vec<KeyChange>) -> BoxFuture<'_, Result<(), ApplyError>> {
        let ChangeReceivers {
            engine,
            hooks,
            fleet,
            log: _,
        } = &self.receivers;
        Box::pin(async move {
            stream::iter(&changes)
                .for_each_concurrent(AT_ONCE, |change| engine.apply_change(self.origin, change))
                .await;
            match fleet {
                None => hooks.changed(&self.name, &changes),
                Some(fleet) => {
                    let all = changes.iter();
                    all.for_each(|change| fleet.reported(change, self.reaches_all));
                }
            }
            Ok(())
        })
    }

    fn is_heartbeat(&self, key: &ObjectKey) -> bool {
        let object = (self.bucket.clone(), key.clone());
        self.heartbeats.0.load().contains(&object)
    }

    fn renewed(&self, change: KeyChange) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let engine = &self.receivers.engine;
            engine.apply_change(self.origin, &change).await;
        })
    }

    fn prove(&self, proof: EventProof) {
        self.proof.set(proof);
    }
}

/// A bucket that heartbeats are written to.
pub(super) struct HeartbeatBucket(pub(super) Arc<dyn Origin>);

impl HeartbeatWriter for HeartbeatBucket {
    fn write<'a>(
        &'a self,
        key: &'a ObjectKey,
        body: Bytes,
    ) -> BoxFuture<'a, Result<ETag, HeartbeatError>> {
        let text = HeaderValue::from_static("text/plain");
        let headers = vec![(header::CONTENT_TYPE, text)];
        let payload = Payload::pieces(vec![body]);
        Box::pin(async move {
            let put = self.0.writing().put(key, headers, payload, Guard::None);
            let written = run_for(Cause::Heartbeat, put).await;
            written
                .map(|written| written.etag)
                .map_err(|error| HeartbeatError(error.to_string()))
        })
    }
}
