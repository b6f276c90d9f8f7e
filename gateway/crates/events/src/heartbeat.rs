//! The heartbeat: an object that is written each `every`, whose event has to come back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use ring::rand::{SecureRandom as _, SystemRandom};
use tidegate_plan::{ETag, ObjectKey};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::subscription::{HeartbeatSettings, Subscription};

/// The checks for missing heartbeats in each `every`.
const CHECKS: u32 = 20;

/// The shortest and the longest time between two checks.
const MIN_CHECK: Duration = Duration::from_millis(10);
const MAX_CHECK: Duration = Duration::from_secs(1);

/// The bucket of a subscription, to write one object to.
pub trait HeartbeatWriter: Send + Sync + 'static {
    /// Writes the object in one request, within bounded time; returns its ETag.
    fn write<'a>(
        &'a self,
        key: &'a ObjectKey,
        body: Bytes,
    ) -> BoxFuture<'a, Result<ETag, HeartbeatError>>;
}

/// The reason why a heartbeat was not written, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HeartbeatError(pub String);

/// Returns the object of a subscription below `prefix`.
///
/// Gateways of one bucket share it: each knows its own by the ETag, since no two bodies are equal.
#[must_use]
pub fn key(prefix: &str, subscription: &str) -> Option<ObjectKey> {
    ObjectKey::new(&format!("{prefix}heartbeat-{subscription}")).ok()
}

/// Writes heartbeats and looks for missing ones, until `stop` is cancelled. Returns at once if the subscription has none.
pub async fn run(
    subscription: Arc<Subscription>,
    writer: Arc<dyn HeartbeatWriter>,
    stop: CancellationToken,
) {
    let Some(heartbeat) = subscription.settings().heartbeat.clone() else {
        return;
    };
    let writing = write(&subscription, &*writer, &heartbeat);
    let checking = check(&subscription, heartbeat.every);
    tokio::select! {
        () = stop.cancelled() => {}
        () = writing => {}
        () = checking => {}
    }
}

async fn write(
    subscription: &Subscription,
    writer: &dyn HeartbeatWriter,
    heartbeat: &HeartbeatSettings,
) {
    let random = SystemRandom::new();
    let mut ticks = interval(heartbeat.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_failed = false;
    loop {
        ticks.tick().await;
        let began = subscription.now();
        let written = match body(&random, &subscription.settings().name, began.0) {
            Some(body) => writer.write(&heartbeat.key, body).await,
            None => Err(HeartbeatError("no random numbers".to_owned())),
        };
        match written {
            Ok(etag) => {
                subscription.heartbeat_written(began, etag);
                has_failed = false;
            }
            Err(error) => {
                subscription.heartbeat_failed();
                if !has_failed {
                    let name = &*subscription.settings().name;
                    tracing::warn!(subscription = name, %error, "cannot write the heartbeat: ttl stands");
                }
                has_failed = true;
            }
        }
    }
}

/// Returns a body that no other heartbeat has: its ETag names it. `None` without random numbers.
fn body(random: &SystemRandom, name: &str, time: u64) -> Option<Bytes> {
    let mut nonce = [0; 16];
    random.fill(&mut nonce).ok()?;
    let nonce = u128::from_be_bytes(nonce);
    Some(format!("tidegate {name} {time} {nonce:032x}\n").into())
}

async fn check(subscription: &Subscription, every: Duration) {
    let mut ticks = interval((every / CHECKS).clamp(MIN_CHECK, MAX_CHECK));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        subscription.tick();
    }
}
