//! The console's view of the gateway, beside that of `admin`.

use std::fmt;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::ToSchema;

/// The parts of the gateway that only the composition root knows.
pub trait Gateway: Send + Sync + 'static {
    /// Returns the configuration in force, as far as live parts show it. Waits for nothing, also not for a reload.
    fn overview(&self) -> Overview;

    /// Returns every key of the configuration in force. Waits for nothing.
    fn settings(&self) -> Vec<Setting>;

    /// Returns the last events of buckets and of the fleet, the latest first; a bounded number. Waits for nothing.
    fn last_events(&self) -> Vec<LastEvent>;

    /// Returns the other gateways of the fleet that are there, in the order of their names. Waits for nothing.
    fn fleet_peers(&self) -> Vec<FleetPeer>;

    /// Returns whether the admin listener speaks TLS now: cookies are sent over TLS alone then.
    fn has_tls(&self) -> bool;

    /// Makes a link to a path of the public listener: signed if its route has keys, plain if its route is open to all.
    ///
    /// # Errors
    /// If no route has the path, or its route is closed and has no key of this id, in words. The words show no secret.
    fn link(&self, wanted: LinkRequest) -> BoxFuture<'_, Result<Link, String>>;

    /// Measures memory, disks, networks and buckets, and judges them. Each line of `progress` is one measurement. Measuring
    /// takes from what readers have. Dropping the future stops it.
    ///
    /// # Errors
    /// If nothing can be measured, in words.
    fn examine(
        &self,
        order: DoctorOrder,
        progress: mpsc::UnboundedSender<String>,
    ) -> BoxFuture<'_, Result<Verdict, String>>;
}

/// A measurement that is ordered.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DoctorOrder {
    /// The paths of objects to measure their buckets with, percent-encoded; they should have at least 64 MiB.
    #[serde(default)]
    pub objects: Vec<String>,
    /// The host that these paths belong to, if routes name hosts.
    pub host: Option<String>,
    /// The rate at which a client took bytes from the gateway, in bytes a second, if it measured one.
    pub client: Option<f64>,
}

/// A link that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRequest {
    /// The path, percent-encoded, from the first `/`, without a query.
    pub path: String,
    /// The host of the request that the link is for, if its route names one; `None`: that of `http.public_url`.
    pub host: Option<String>,
    /// The id of the key; `None`: the only one.
    pub key: Option<String>,
    /// The time that a signed link works for.
    pub life: Duration,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Link {
    /// The URL; without `http.public_url` only the path and its signature.
    pub url: String,
    /// The id of the key that signed it; `null`: its route is open to all.
    pub key: Option<String>,
    /// The end of a signed link, in seconds since 1970.
    pub expires: Option<f64>,
}

/// The configuration in force.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// The origins.
    pub origins: Vec<OriginInfo>,
    /// The routes, in the order of the configuration.
    pub routes: Vec<RouteInfo>,
    /// The subscriptions to events of buckets.
    pub subscriptions: Vec<SubscriptionInfo>,
    /// The hooks.
    pub hooks: Vec<HookInfo>,
    /// Whether this gateway is one of a fleet.
    pub is_in_fleet: bool,
}

/// One key of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Setting {
    /// The key: `route[0].path`.
    pub key: String,
    /// The key as an override names it, by the entry's own name if it has one: `route[/media/].path`.
    pub name: String,
    /// Its description.
    pub help: String,
    /// The kind of its value, for a person.
    pub kind: String,
    /// The words that it allows; empty: any value of its kind.
    pub choices: Vec<String>,
    /// Its default, if it has one.
    pub default: Option<String>,
    /// Its value; `null` if it has none, or is a secret.
    pub value: Option<String>,
    /// Whether it is a secret, whose value is never shown.
    pub secret: bool,
    /// The place that wrote its value.
    pub source: SettingSource,
    /// The file and line, the variable, or the key of the override.
    pub place: Option<String>,
    /// The step that puts a change of it in force.
    pub needs: ChangeNeeds,
}

/// The place that wrote a value; each one goes before those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SettingSource {
    /// No place did: the default holds.
    Default,
    /// The configuration file.
    File,
    /// An override, set while the gateway ran.
    Override,
    /// An environment variable.
    Environment,
}

/// The step that puts a change of a key in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeNeeds {
    /// A reload; an override brings one.
    Reload,
    /// A restart.
    Restart,
}

/// An origin of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginInfo {
    /// Its name.
    pub name: String,
    /// Its bucket.
    pub bucket: String,
    /// Its endpoint; `None`: AWS.
    pub endpoint: Option<String>,
    /// Its prices, if they are configured.
    pub prices: Option<Prices>,
}

/// The prices of an origin, in any currency; 0: it is free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// 1,000 GET and HEAD requests.
    pub get: f64,
    /// 1,000 PUT, POST, COPY and LIST requests.
    pub put: f64,
    /// 1 GB received.
    pub received: f64,
    /// 1 GB sent.
    pub sent: f64,
}

/// A route of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RouteInfo {
    /// The host that it is for, if it names one.
    pub host: Option<String>,
    /// Its path.
    pub path: String,
    /// The name of its origin.
    pub origin: String,
    /// The name of its profile.
    pub profile: String,
    /// The name of its access, if it is not open to all.
    pub access: Option<String>,
    /// The ids of the keys that sign links to it.
    pub keys: Vec<String>,
}

/// A subscription of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionInfo {
    /// Its name.
    pub name: String,
    /// The name of its origin.
    pub origin: String,
    /// Its kind: `webhook`, `nats`.
    pub kind: String,
}

/// An event of a bucket, or a message of another gateway.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct LastEvent {
    /// The time at which it was dealt with, in seconds since 1970.
    pub time: f64,
    /// The name of the subscription, or `fleet`.
    pub source: String,
    /// The kind of the change: `created`, `removed`; of the fleet also `purged`, `marked stale`, `pinned`, `unpinned`.
    pub kind: String,
    /// The key. A prefix ends in `*`, and a tag begins with `tag `.
    pub key: String,
    /// Its result: `applied`, `duplicate`, `late` or `failed`.
    pub result: String,
    /// The time from the change until it was dealt with, in seconds, if the event says when the key changed.
    pub lag: Option<f64>,
}

/// Another gateway of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FleetPeer {
    /// Its number, which is random for each process.
    pub id: String,
    /// The name of its machine; `null`: it says none.
    pub name: Option<String>,
    /// The time since its last message, in seconds.
    pub heard: f64,
}

/// A hook of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInfo {
    /// Its name.
    pub name: String,
    /// The origin whose changes it is called for; `None`: all.
    pub origin: Option<String>,
    /// The prefix of the keys.
    pub prefix: String,
}

/// The judgement of the measurements. Rates are in bytes a second.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Verdict {
    /// The stages from the bucket to the client, with their rates.
    pub stages: Vec<StageRate>,
    /// The narrowest stage, in words.
    pub narrowest: String,
    /// The rate that the buckets can give together; `null` unless each one was measured.
    pub buckets_rate: Option<f64>,
    /// The connections to each bucket that was measured.
    pub connections: Vec<ConnectionRate>,
    /// The parts of the way that were not measured, in words.
    pub not_measured: Vec<String>,
    /// The whole report, as `tidegate doctor` prints it.
    pub report: String,
    /// The keys of the configuration that should have another value.
    pub suggestions: Vec<Suggestion>,
}

/// The rate of one connection to a bucket, against that of as many as bring most.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ConnectionRate {
    /// The name of the origin.
    pub origin: String,
    /// The rate of one connection.
    pub one: f64,
    /// The rate of as many as bring most.
    pub best: f64,
    /// The fewest connections that bring nearly that; at least 2.
    pub connections: u32,
}

/// A key that should have another value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Suggestion {
    /// The key: `cache.budget`.
    pub key: String,
    /// The value that the measurements speak for.
    pub value: String,
    /// The value that was in force when it was measured.
    pub present: String,
    /// The reason, in a sentence.
    pub why: String,
}

/// The rate of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct StageRate {
    /// The stage, in words.
    pub stage: String,
    /// Its rate, in bytes a second.
    pub rate: f64,
}

impl fmt::Debug for dyn Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateway")
    }
}
