//! One subscription: from its section of the configuration to its tasks.

use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::nats_auth;
use super::sink::{ChangeReceivers, ChangeSink, HeartbeatBucket, Heartbeats};
use super::webhook::Webhook;
use crate::app::process::machine::machine_name;
use crate::doctor::Origins;
use tidegate_config::{Config, Environment, Events, EventsKind};
use tidegate_engine::SubscriptionProof;
use tidegate_events::heartbeat;
use tidegate_events::nats::{self, DurableSettings, NatsReceiver, NatsSettings};
use tidegate_events::subscription::HeartbeatSettings;
use tidegate_events::{Metrics, Subscription, SubscriptionSettings};
use tidegate_origin::Origin;
use tidegate_plan::{ObjectKey, OriginId};

/// The settings of a subscription, with its secrets. A reload keeps a subscription whose settings stay equal.
#[derive(PartialEq)]
pub(super) struct SourceSettings {
    section: Events,
    origin: OriginId,
    /// The name of the bucket in its events.
    bucket: String,
    transport: Transport,
}

/// The transport of the events.
#[derive(PartialEq)]
enum Transport {
    Webhook { token: Option<String> },
    Nats(Box<NatsSettings>),
}

/// A subscription, and its tasks once it has begun.
pub(super) struct RunningSource {
    pub(super) settings: SourceSettings,
    pub(super) webhook: Option<Arc<Webhook>>,
    subscription: Arc<Subscription>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A subscription that has not begun.
pub(super) struct NewSource {
    pub(super) source: Arc<RunningSource>,
    bucket: HeartbeatBucket,
    nats: Option<NatsReceiver>,
}

impl SourceSettings {
    /// Reads the secrets of a section.
    pub(super) fn read(
        config: &Config,
        section: &Events,
        env: &Environment,
        origins: &Origins,
    ) -> anyhow::Result<Self> {
        let bucket = config.origin.iter().find(|one| one.name == section.origin);
        let transport = match section.kind {
            EventsKind::Nats => Transport::Nats(Box::new(nats_settings(section, env)?)),
            EventsKind::Webhook => Transport::Webhook {
                token: webhook_token(section, env)?,
            },
        };
        Ok(Self {
            section: section.clone(),
            origin: origin_of(section, origins)?.id(),
            bucket: bucket
                .context("the origin of events was checked")?
                .bucket
                .clone(),
            transport,
        })
    }

    /// Returns the name of the subscription.
    pub(super) fn name(&self) -> &str {
        &self.section.name
    }

    /// Returns the object that it writes as a heartbeat, with the name of its bucket.
    pub(super) fn heartbeat(&self) -> Option<(String, ObjectKey)> {
        let prefix = &self.section.heartbeat.as_ref()?.prefix;
        Some((self.bucket.clone(), heartbeat::key(prefix, self.name())?))
    }
}

impl NewSource {
    /// Makes a subscription, which publishes its proof through `proof`.
    pub(super) fn new(
        settings: SourceSettings,
        origins: &Origins,
        (proof, (receivers, heartbeats)): (Arc<SubscriptionProof>, (&ChangeReceivers, &Heartbeats)),
        (metrics, stop): (&Metrics, CancellationToken),
    ) -> anyhow::Result<Self> {
        let section = &settings.section;
        let sink = ChangeSink {
            receivers: receivers.clone(),
            reaches_all: section.kind == EventsKind::Nats,
            name: section.origin.clone(),
            bucket: settings.bucket.clone(),
            origin: settings.origin,
            proof,
            heartbeats: heartbeats.clone(),
        };
        let bucket = HeartbeatBucket(origin_of(section, origins)?.clone());
        let subscription = subscription(&settings, sink, metrics)?.with_log(receivers.log.clone());
        let subscription = Arc::new(subscription);
        let (mut webhook, mut nats) = (None, None);
        match &settings.transport {
            Transport::Webhook { token } => {
                let made = Webhook::new(token.as_deref(), &section.topics, subscription.clone());
                webhook = Some(Arc::new(made?));
            }
            Transport::Nats(settings) => {
                nats = Some(NatsReceiver::new(
                    NatsSettings::clone(settings),
                    subscription.clone(),
                )?);
            }
        }
        Ok(Self {
            source: Arc::new(RunningSource {
                settings,
                webhook,
                subscription,
                tasks: TaskTracker::new(),
                stop,
            }),
            bucket,
            nats,
        })
    }

    /// Starts its tasks: they receive events and write heartbeats.
    pub(super) fn begin(self) {
        let Self {
            source,
            bucket,
            nats,
        } = self;
        let (tasks, stop) = (&source.tasks, &source.stop);
        let heartbeats = source.subscription.clone();
        tasks.spawn(heartbeat::run(heartbeats, Arc::new(bucket), stop.clone()));
        if let Some(nats) = nats {
            tasks.spawn(nats.run(stop.clone()));
        }
        tasks.close();
    }
}

impl RunningSource {
    /// Ends the subscription: it proves nothing from now on. Tells its tasks to end, and does not wait for them.
    pub(super) fn end(&self) {
        self.subscription.end();
        self.stop.cancel();
    }

    /// Waits until its tasks have ended.
    pub(super) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn origin_of<'a>(section: &Events, origins: &'a Origins) -> anyhow::Result<&'a Arc<dyn Origin>> {
    let origin = origins.get(&section.origin);
    origin.context("the origin of events was checked")
}

fn subscription(
    settings: &SourceSettings,
    sink: ChangeSink,
    metrics: &Metrics,
) -> anyhow::Result<Subscription> {
    let section = &settings.section;
    let heartbeat = section.heartbeat.as_ref().map(|heartbeat| {
        let object = settings.heartbeat();
        let (_, key) = object.context("the heartbeat's key was checked")?;
        anyhow::Ok(HeartbeatSettings {
            key,
            every: heartbeat.every.into(),
        })
    });
    let settings = SubscriptionSettings {
        name: section.name.clone(),
        bucket: settings.bucket.clone(),
        heartbeat: heartbeat.transpose()?,
        has_connection: section.kind == EventsKind::Nats,
    };
    // What it proves is compared with the times at which the engine has confirmed.
    let engine = sink.receivers.engine.clone();
    let clock = Arc::new(move || engine.now());
    Ok(Subscription::new(settings, Arc::new(sink), clock, metrics))
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

/// Checks the secrets of a section, and how its servers are reached. Connects to none.
pub(in crate::app) fn check(section: &Events, env: &Environment) -> anyhow::Result<()> {
    let checked = match section.kind {
        EventsKind::Webhook => webhook_token(section, env).map(drop),
        EventsKind::Nats => nats_settings(section, env).and_then(|settings| {
            let NatsSettings {
                servers,
                auth,
                authorities,
                ..
            } = settings;
            Ok(nats::check(&servers, auth, authorities.as_ref())?)
        }),
    };
    checked.with_context(|| format!("events `{}`", section.name))
}

fn webhook_token(section: &Events, env: &Environment) -> anyhow::Result<Option<String>> {
    let token = section.token.as_ref().map(|token| token.resolve(env));
    Ok(token.transpose()?)
}

/// Returns the name of this gateway's consumer, of the characters that NATS allows.
fn consumer(events: &Events) -> String {
    let fits = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '-' => c,
        _ => '_',
    };
    let machine = machine_name().unwrap_or_default();
    let machine: String = machine.chars().map(fits).collect();
    format!("tidegate-{machine}-{}", events.name)
}
