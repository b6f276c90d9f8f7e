//! The console's view of the gateway, beside that of `admin`.

use std::fmt;

use futures_core::future::BoxFuture;
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;

/// The parts of the gateway that only the composition root knows.
pub trait Gateway: Send + Sync + 'static {
    /// Returns the configuration in force, as far as live parts show it. Waits for nothing, also not for a reload.
    fn overview(&self) -> Overview;

    /// Returns every key of the configuration in force. Waits for nothing.
    fn settings(&self) -> Vec<Setting>;

    /// Returns whether the admin listener speaks TLS now: cookies are sent over TLS alone then.
    fn has_tls(&self) -> bool;

    /// Measures memory, disks and buckets, and judges them. Each line of `progress` is one measurement. Measuring takes
    /// from what readers have. Dropping the future stops it.
    ///
    /// # Errors
    /// If nothing can be measured, in words.
    fn examine(
        &self,
        objects: Vec<String>,
        progress: mpsc::UnboundedSender<String>,
    ) -> BoxFuture<'_, Result<Verdict, String>>;
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
    /// The whole report, as `tidegate doctor` prints it.
    pub report: String,
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
