//! `GET /api/v1/events`, `/hooks` and `/fleet`: the connections to buckets, receivers and other gateways.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Console;
use crate::exposition::{Samples, label};
use crate::figures::Quantiles;
use crate::gateway::{FleetPeer, HookInfo, LastEvent, Overview, SubscriptionInfo};

/// The subscriptions to events of buckets.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct EventList {
    /// The subscriptions, in the order of the configuration.
    pub subscriptions: Vec<Subscription>,
    /// The last events of all subscriptions and of the fleet, the latest first; at most 200.
    pub last: Vec<LastEvent>,
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// The name of its origin.
    pub origin: String,
    /// Its kind: `webhook` or `nats`.
    pub kind: String,
    /// Whether heartbeats come back, so that no change can have been missed.
    pub alive: bool,
    /// The time from a change until its event was applied, since the start; `null` if none was.
    pub lag: Option<Quantiles>,
    /// Events by result, since the start.
    pub events: BTreeMap<String, u64>,
    /// Times at which a change may have been missed, by reason, since the start.
    pub gaps: BTreeMap<String, u64>,
}

/// The hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct HookList {
    /// The hooks, in the order of the configuration.
    pub hooks: Vec<Hook>,
}

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Hook {
    /// Its name.
    pub name: String,
    /// The origin whose changes it is called for; `null`: all.
    pub origin: Option<String>,
    /// The prefix of the keys.
    pub prefix: String,
    /// Changed keys that wait for their call.
    pub pending: u64,
    /// Calls by result, since the start.
    pub calls: BTreeMap<String, u64>,
    /// Calls that were given up, by reason, since the start.
    pub dropped: BTreeMap<String, u64>,
}

/// The fleet that this gateway belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Fleet {
    /// Whether a fleet is configured.
    pub configured: bool,
    /// Whether its NATS is connected.
    pub connected: bool,
    /// Other gateways that were heard of in the last 5 s.
    pub peers: u64,
    /// These gateways, in the order of their names.
    pub gateways: Vec<FleetPeer>,
    /// The time from a change at one gateway until it was applied here; `null` if none was.
    pub lag: Option<Quantiles>,
    /// Messages sent by kind, since the start.
    pub sent: BTreeMap<String, u64>,
    /// Messages received by result, since the start.
    pub received: BTreeMap<String, u64>,
    /// Times at which messages may have been missed, by reason, since the start.
    pub doubts: BTreeMap<String, u64>,
}

/// Returns the sums of a metric by one of its labels.
fn by(samples: &Samples, name: &str, having: &[(&str, &str)], key: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (labels, count) in samples.series(name, having) {
        *sums.entry(label(labels, key).to_owned()).or_default() += count as u64;
    }
    sums.retain(|_, sum| *sum > 0);
    sums
}

/// Returns the subscriptions.
pub(crate) fn collect_events(console: &Console, overview: &Overview) -> EventList {
    let present = console.sampler.present();
    let samples = &present.after.samples;
    let subscription = |info: &SubscriptionInfo| {
        let having = [("subscription", info.name.as_str())];
        Subscription {
            alive: samples.sum("bucket_events_alive", &having) > 0.0,
            lag: Quantiles::of(samples, "bucket_event_lag_seconds", &having, None),
            events: by(samples, "bucket_events_total", &having, "result"),
            gaps: by(samples, "bucket_events_gaps_total", &having, "reason"),
            origin: info.origin.clone(),
            kind: info.kind.clone(),
            name: info.name.clone(),
        }
    };
    EventList {
        subscriptions: overview.subscriptions.iter().map(subscription).collect(),
        last: console.gateway.last_events(),
    }
}

/// Returns the hooks.
pub(crate) fn collect_hooks(console: &Console, overview: &Overview) -> HookList {
    let present = console.sampler.present();
    let samples = &present.after.samples;
    let hook = |info: &HookInfo| {
        let having = [("hook", info.name.as_str())];
        Hook {
            pending: samples.count("hook_pending_changes", &having),
            calls: by(samples, "hook_requests_total", &having, "result"),
            dropped: by(samples, "hook_dropped_calls_total", &having, "reason"),
            origin: info.origin.clone(),
            prefix: info.prefix.clone(),
            name: info.name.clone(),
        }
    };
    HookList {
        hooks: overview.hooks.iter().map(hook).collect(),
    }
}

/// Returns the state of the fleet.
pub(crate) fn collect_fleet(console: &Console, overview: &Overview) -> Fleet {
    let present = console.sampler.present();
    let samples = &present.after.samples;
    Fleet {
        configured: overview.is_in_fleet,
        connected: samples.sum("fleet_connected", &[]) > 0.0,
        peers: samples.count("fleet_peers", &[]),
        gateways: console.gateway.fleet_peers(),
        lag: Quantiles::of(samples, "fleet_lag_seconds", &[], None),
        sent: by(samples, "fleet_sent_total", &[], "kind"),
        received: by(samples, "fleet_received_total", &[], "result"),
        doubts: by(samples, "fleet_doubts_total", &[], "reason"),
    }
}

/// Answers `GET /api/v1/events`.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    operation_id = "list_events",
    responses((status = 200, body = EventList))
)]
pub(crate) async fn events(State(console): State<Console>) -> Json<EventList> {
    Json(collect_events(&console, &console.gateway.overview()))
}

/// Answers `GET /api/v1/hooks`.
#[utoipa::path(
    get,
    path = "/api/v1/hooks",
    operation_id = "list_hooks",
    responses((status = 200, body = HookList))
)]
pub(crate) async fn hooks(State(console): State<Console>) -> Json<HookList> {
    Json(collect_hooks(&console, &console.gateway.overview()))
}

/// Answers `GET /api/v1/fleet`.
#[utoipa::path(
    get,
    path = "/api/v1/fleet",
    operation_id = "get_fleet",
    responses((status = 200, body = Fleet))
)]
pub(crate) async fn fleet(State(console): State<Console>) -> Json<Fleet> {
    Json(collect_fleet(&console, &console.gateway.overview()))
}
