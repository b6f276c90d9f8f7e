//! The events of buckets: what a store reports of its changes, by webhook and by NATS, as the changes of keys.
//!
//! | module | does |
//! | --- | --- |
//! | [`record`] | reads events in the forms of MinIO, AWS and Ceph |
//! | [`order`] | tells duplicates, and events that come after a later one of their key |
//! | [`liveness`] | judges since when no change can have been missed |
//! | [`subscription`] | one subscription: takes messages from any transport, applies them, and counts |
//! | [`heartbeat`] | writes an object whose event has to come back |
//! | [`log`] | keeps the last events, for an operator |
//! | [`fleet`] | tells other gateways of purges, pins and writes, and knows when a message is missing |
//! | [`nats`] | the transport by NATS, with and without a stream |
//! | [`sns`] | checks messages of AWS SNS, which come with a signature in place of a token |
//!
//! The crate knows neither engine nor listener: it sees the traits [`Sink`] and [`heartbeat::HeartbeatWriter`], and the
//! webhook's listener hands it the body of a request.

use futures_core::future::BoxFuture;
use tidegate_plan::freshness::EventProof;
use tidegate_plan::{KeyChange, ObjectKey};

pub mod fleet;
pub mod heartbeat;
pub mod liveness;
pub mod log;
pub mod metrics;
pub mod nats;
pub mod order;
pub mod record;
pub mod sns;
pub mod subscription;

pub use log::EventLog;
pub use metrics::Metrics;
pub use subscription::{Subscription, SubscriptionSettings};

/// The receiver of the changes of one bucket.
pub trait Sink: Send + Sync + 'static {
    /// Applies changes; returns when they hold. Changes may come twice, and those of a key in any order.
    ///
    /// # Errors
    /// At least one change may not hold, or not after a restart.
    fn apply(&self, changes: Vec<KeyChange>) -> BoxFuture<'_, Result<(), ApplyError>>;

    /// Returns whether a subscription of the bucket, this one or another, writes this object as its heartbeat. It changes
    /// all the time, and no hook is called for it.
    fn is_heartbeat(&self, key: &ObjectKey) -> bool;

    /// Applies the event of a heartbeat's object.
    fn renewed(&self, change: KeyChange) -> BoxFuture<'_, ()>;

    /// Takes what the subscription proves from now on: since when every change has been applied, and until when that
    /// holds. [`EventProof::NONE`]: changes may have been missed until now.
    fn prove(&self, proof: EventProof);
}

/// The reason why changes were not applied, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplyError(pub String);
