//! Subscriptions to the events of buckets: from the configuration to receivers, with the engine as their sink.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, header};
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::fleet::FleetLink;
use crate::doctor::Origins;
use tidegate_admin::events::EventsError;
use tidegate_config::{Config, Environment, Events, EventsKind, Route, Secret};
use tidegate_engine::{Engine, EventCoverage, SubscriptionProof};
use tidegate_events::heartbeat::{self, HeartbeatError, HeartbeatWriter};
use tidegate_events::metrics::GapReason;
use tidegate_events::nats::{DurableSettings, NatsReceiver, NatsSettings};
use tidegate_events::sns::{self, Fetch, HttpsClient, SnsError, SnsMessage, SnsVerifier};
use tidegate_events::subscription::{DeliverError, HeartbeatSettings};
use tidegate_events::{ApplyError, EventLog, Metrics, Sink, Subscription, SubscriptionSettings};
use tidegate_hooks::Hooks;
use tidegate_origin::cause::run_for;
use tidegate_origin::{Cause, Guard, Origin, Payload};
use tidegate_plan::freshness::EventProof;
use tidegate_plan::{ETag, KeyChange, ObjectKey, OriginId, Timestamp, Token};

pub(super) mod fleet;
mod nats_auth;

/// The changes of one message that are applied at once.
const AT_ONCE: usize = 256;

/// The signed messages that are read and checked at once: their senders have shown no token.
const MAX_SIGNED_AT_ONCE: usize = 4;

/// A receiver may take this long to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The proof of each subscription, by its name. Routes read it, receivers write it.
#[derive(Debug, Clone, Default)]
pub(super) struct Proofs(HashMap<String, Arc<SubscriptionProof>>);

impl Proofs {
    /// Returns one for each subscription of a configuration.
    pub(super) fn of(config: &Config) -> Self {
        let all = config.events.iter();
        Self(
            all.map(|events| (events.name.clone(), Arc::default()))
                .collect(),
        )
    }

    /// Returns the coverage of a route, if it has events.
    pub(super) fn coverage(&self, route: &Route) -> anyhow::Result<Option<EventCoverage>> {
        let Some(name) = &route.events else {
            return Ok(None);
        };
        let subscription = self.0.get(name).cloned();
        let subscription = subscription.with_context(|| {
            format!(
                "the route `{}` has the new events `{name}`: that needs a restart",
                route.path
            )
        })?;
        Ok(Some(EventCoverage {
            subscription,
            max_age: route.events_max_age.into(),
        }))
    }
}

/// The engine and the hooks, as the sink of one bucket's changes.
struct ChangeSink {
    engine: Engine,
    hooks: Arc<Hooks>,
    fleet: Option<Arc<FleetLink>>,
    /// Whether the bucket reports to all gateways of a fleet.
    reaches_all: bool,
    /// The name of the origin.
    name: String,
    origin: OriginId,
    proof: Arc<SubscriptionProof>,
}

impl Sink for ChangeSink {
    fn apply(&self, changes: Vec<KeyChange>) -> BoxFuture<'_, Result<(), ApplyError>> {
        Box::pin(async move {
            stream::iter(&changes)
                .for_each_concurrent(AT_ONCE, |change| {
                    self.engine.apply_change(self.origin, change)
                })
                .await;
            match &self.fleet {
                None => self.hooks.changed(&self.name, &changes),
                Some(fleet) => {
                    let all = changes.iter();
                    all.for_each(|change| fleet.reported(change, self.reaches_all));
                }
            }
            Ok(())
        })
    }

    fn prove(&self, proof: EventProof) {
        self.proof.set(proof);
    }
}

/// A bucket that heartbeats are written to.
struct HeartbeatBucket(Arc<dyn Origin>);

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

/// A subscription that the admin listener feeds.
struct Webhook {
    subscription: Arc<Subscription>,
    token: Option<Token>,
    signed: Option<SnsVerifier>,
    signed_slots: Semaphore,
}

/// The subscriptions that the admin listener feeds, by name.
#[derive(Default)]
struct Webhooks(HashMap<String, Webhook>);

/// A subscription before it has begun.
struct Prepared {
    subscription: Arc<Subscription>,
    writer: Arc<dyn HeartbeatWriter>,
    nats: Option<NatsReceiver>,
}

/// All subscriptions of a gateway.
pub(super) struct BucketEvents {
    webhooks: Arc<Webhooks>,
    prepared: Vec<Prepared>,
}

/// The receivers and heartbeats under way.
#[derive(Debug)]
pub(super) struct RunningEvents {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl BucketEvents {
    /// Makes the subscriptions of a configuration, and registers their metrics. None has begun.
    pub(super) fn new(
        config: &Config,
        env: &Environment,
        (engine, hooks, fleet): (&Engine, &Arc<Hooks>, Option<Arc<FleetLink>>),
        (origins, proofs, log): (&Origins, &Proofs, &Arc<EventLog>),
        registry: &mut Registry,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::default();
        metrics.register(registry);
        let mut webhooks = Webhooks::default();
        let mut prepared = Vec::new();
        for events in &config.events {
            let of = || format!("events `{}`", events.name);
            let origin = origins
                .get(&events.origin)
                .context("the origin of events was checked")?;
            let sink = ChangeSink {
                engine: engine.clone(),
                hooks: hooks.clone(),
                fleet: fleet.clone(),
                reaches_all: events.kind == EventsKind::Nats,
                name: events.origin.clone(),
                origin: origin.id(),
                proof: proofs.0.get(&events.name).cloned().unwrap_or_default(),
            };
            let subscription = subscription(config, events, sink, &metrics)?;
            let subscription = Arc::new(subscription.with_log(log.clone()));
            let nats = match events.kind {
                EventsKind::Nats => {
                    let settings = nats_settings(events, env).with_context(of)?;
                    Some(NatsReceiver::new(settings, subscription.clone()).with_context(of)?)
                }
                EventsKind::Webhook => {
                    let webhook = webhook(events, env, subscription.clone()).with_context(of)?;
                    webhooks.0.insert(events.name.clone(), webhook);
                    None
                }
            };
            prepared.push(Prepared {
                subscription,
                writer: Arc::new(HeartbeatBucket(origin.clone())),
                nats,
            });
        }
        Ok(Self {
            webhooks: Arc::new(webhooks),
            prepared,
        })
    }

    /// Returns those that the admin listener feeds.
    pub(super) fn webhooks(&self) -> Arc<dyn tidegate_admin::events::Events> {
        self.webhooks.clone()
    }

    /// Begins to receive and to write heartbeats.
    pub(super) fn start(self) -> RunningEvents {
        let running = RunningEvents {
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        for one in self.prepared {
            let (tasks, stop) = (&running.tasks, &running.stop);
            tasks.spawn(heartbeat::run(one.subscription, one.writer, stop.clone()));
            if let Some(nats) = one.nats {
                tasks.spawn(nats.run(stop.clone()));
            }
        }
        running.tasks.close();
        running
    }
}

impl RunningEvents {
    /// Ends the receivers and heartbeats, within 5 s.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        if timeout(STOP_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("a receiver of events has not ended in time");
        }
    }
}

fn subscription(
    config: &Config,
    events: &Events,
    sink: ChangeSink,
    metrics: &Metrics,
) -> anyhow::Result<Subscription> {
    let bucket = config.origin.iter().find(|one| one.name == events.origin);
    let heartbeat = events.heartbeat.as_ref().map(|heartbeat| {
        let key = heartbeat::key(&heartbeat.prefix, &events.name);
        anyhow::Ok(HeartbeatSettings {
            key: key.context("the heartbeat's key was checked")?,
            every: heartbeat.every.into(),
        })
    });
    let settings = SubscriptionSettings {
        name: events.name.clone(),
        bucket: bucket
            .context("the origin of events was checked")?
            .bucket
            .clone(),
        heartbeat: heartbeat.transpose()?,
        has_connection: events.kind == EventsKind::Nats,
    };
    let clock = Arc::new(|| Timestamp::from(SystemTime::now()));
    let sink = Arc::new(sink);
    Ok(Subscription::new(settings, sink, clock, metrics))
}

fn webhook(
    events: &Events,
    env: &Environment,
    subscription: Arc<Subscription>,
) -> anyhow::Result<Webhook> {
    let token = resolved(events.token.as_ref(), env)?;
    let token = token.as_deref().map(Token::from_setting);
    let signed = match events.topics.is_empty() {
        true => None,
        false => {
            let client: Arc<dyn Fetch> = Arc::new(HttpsClient::new()?);
            Some(SnsVerifier::new(events.topics.clone(), client))
        }
    };
    Ok(Webhook {
        subscription,
        token: token.transpose().context("`token`")?,
        signed,
        signed_slots: Semaphore::new(MAX_SIGNED_AT_ONCE),
    })
}

fn resolved(secret: Option<&Secret>, env: &Environment) -> anyhow::Result<Option<String>> {
    Ok(secret.map(|secret| secret.resolve(env)).transpose()?)
}

fn nats_settings(events: &Events, env: &Environment) -> anyhow::Result<NatsSettings> {
    let login = events.login();
    let auth = nats_auth::read(login, env)?;
    let consumer = || events.consumer.clone().unwrap_or_else(|| consumer(events));
    Ok(NatsSettings {
        servers: events.servers.clone(),
        subject: events.subject.clone().context("`subject` was checked")?,
        durable: events.stream.clone().map(|stream| DurableSettings {
            stream,
            consumer: consumer(),
        }),
        auth,
        authorities: login.ca.map(Into::into),
    })
}

/// Returns the name of this gateway's consumer, of the characters that NATS allows.
fn consumer(events: &Events) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let fits = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '-' => c,
        _ => '_',
    };
    let machine: String = machine.trim().chars().map(fits).collect();
    format!("tidegate-{machine}-{}", events.name)
}

impl Webhooks {
    fn of(&self, name: &str) -> Result<&Webhook, EventsError> {
        let unknown = || EventsError::Forbidden("no such subscription".to_owned());
        self.0.get(name).ok_or_else(unknown)
    }
}

impl tidegate_admin::events::Events for Webhooks {
    fn token(&self, name: &str) -> Option<&Token> {
        self.0.get(name)?.token.as_ref()
    }

    fn max_signed(&self, name: &str) -> Option<usize> {
        let signed = self.0.get(name)?.signed.as_ref();
        signed.map(|_| sns::MAX_MESSAGE)
    }

    fn deliver<'a>(
        &'a self,
        name: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), EventsError>> {
        Box::pin(async move { self.of(name)?.deliver(&message).await })
    }

    fn deliver_signed<'a>(
        &'a self,
        name: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), EventsError>> {
        Box::pin(async move { self.of(name)?.deliver_signed(&message).await })
    }

    fn missed(&self, name: &str) {
        if let Some(webhook) = self.0.get(name) {
            webhook.subscription.gap(GapReason::Unreadable);
        }
    }
}

impl Webhook {
    async fn deliver(&self, message: &[u8]) -> Result<(), EventsError> {
        let delivered = self.subscription.deliver(message).await;
        delivered.map_err(|error| {
            let name = &*self.subscription.settings().name;
            tracing::warn!(subscription = name, %error, "an event was not taken");
            match error {
                DeliverError::Unreadable(error) => EventsError::Unreadable(error.to_string()),
                DeliverError::NotApplied(_) => EventsError::NotApplied(error.to_string()),
            }
        })
    }

    async fn deliver_signed(&self, message: &[u8]) -> Result<(), EventsError> {
        let Some(signed) = &self.signed else {
            return Err(EventsError::Forbidden("this takes no SNS".to_owned()));
        };
        let Ok(_slot) = self.signed_slots.try_acquire() else {
            let busy = "too many messages at once".to_owned();
            return Err(EventsError::NotApplied(busy));
        };
        let name = &*self.subscription.settings().name;
        match signed.verify(message).await {
            Ok(SnsMessage::Notification(text)) => self.deliver(text.as_bytes()).await,
            Ok(SnsMessage::Confirmed) => {
                tracing::info!(subscription = name, "the subscription of SNS is confirmed");
                Ok(())
            }
            Ok(SnsMessage::Ended) => {
                tracing::warn!(subscription = name, "the subscription of SNS has ended");
                self.subscription.gap(GapReason::Connection);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(subscription = name, %error, "a message of SNS was refused");
                Err(match error {
                    SnsError::Fetch(_) => EventsError::NotApplied(error.to_string()),
                    _ => EventsError::Forbidden(error.to_string()),
                })
            }
        }
    }
}
