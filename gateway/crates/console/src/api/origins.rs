//! `GET /api/v1/origins`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::tiers::rate;
use crate::Console;
use crate::exposition::{Samples, label};
use crate::figures::Quantiles;
use crate::gateway::{OriginInfo, Prices};
use crate::sampler::CurrentFigures;

/// The bytes of a gigabyte, as stores charge it.
const GIGABYTE: f64 = 1e9;

/// The origins.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct OriginList {
    /// The origins, in the order of the configuration.
    pub origins: Vec<OriginState>,
}

/// The state of an origin.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct OriginState {
    /// Its name.
    pub name: String,
    /// Its bucket.
    pub bucket: String,
    /// Its endpoint; `null`: AWS.
    pub endpoint: Option<String>,
    /// Whether it is known to be down and is left alone for a while.
    pub breaker_open: bool,
    /// The time to the head of an answer in the period; `null` if there was none.
    pub first_byte: Option<Quantiles>,
    /// Requests, a second.
    pub requests_per_second: f64,
    /// Bytes received, a second.
    pub received_per_second: f64,
    /// Requests under way.
    pub running: u64,
    /// Requests that wait for their turn.
    pub queued: u64,
    /// Requests tried again since the start.
    pub retries: u64,
    /// Requests by kind and result, since the start.
    pub requests: Vec<RequestCount>,
    /// Bytes received since the start.
    pub received: u64,
    /// Bytes sent since the start.
    pub sent: u64,
    /// The cost of all that since the start, by the prices of the configuration; `null` without prices.
    pub cost: Option<f64>,
}

/// The requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RequestCount {
    /// The kind of the request.
    pub kind: String,
    /// Its results, with the number of each.
    pub results: BTreeMap<String, u64>,
}

/// Returns the state of the origins.
pub(crate) fn collect(console: &Console) -> OriginList {
    let present = console.sampler.present();
    let overview = console.gateway.overview();
    let origins = overview.origins.into_iter();
    OriginList {
        origins: origins.map(|origin| state(&present, origin)).collect(),
    }
}

fn state(present: &CurrentFigures, origin: OriginInfo) -> OriginState {
    let name = origin.name.as_str();
    let having = [("origin", name)];
    let samples = &present.after.samples;
    let requests = requests(samples, name);
    let received = samples.count("origin_received_bytes_total", &having);
    let sent = samples.count("origin_sent_bytes_total", &having);
    let cost = origin
        .prices
        .map(|prices| cost(&prices, &requests, (received, sent)));
    let before = Some(&present.before.samples);
    OriginState {
        breaker_open: samples.sum("origin_breaker_open", &having) > 0.0,
        first_byte: Quantiles::of(samples, "origin_first_byte_seconds", &having, before),
        requests_per_second: rate(present, "origin_requests_total", &having),
        received_per_second: rate(present, "origin_received_bytes_total", &having),
        running: samples.count("origin_requests_running", &having),
        queued: samples.count("origin_requests_queued", &having),
        retries: samples.count("origin_retries_total", &having),
        name: origin.name,
        bucket: origin.bucket,
        endpoint: origin.endpoint,
        requests,
        received,
        sent,
        cost,
    }
}

fn requests(samples: &Samples, origin: &str) -> Vec<RequestCount> {
    let mut kinds: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (labels, count) in samples.series("origin_requests_total", &[("origin", origin)]) {
        let results = kinds.entry(label(labels, "kind").to_owned()).or_default();
        *results
            .entry(label(labels, "result").to_owned())
            .or_default() += count as u64;
    }
    let count = |(kind, results)| RequestCount { kind, results };
    kinds.into_iter().map(count).collect()
}

/// Returns the cost of requests and of bytes received and sent. A probe is a HEAD of the bucket. Deletions cost nothing at any store that we know.
fn cost(prices: &Prices, requests: &[RequestCount], (received, sent): (u64, u64)) -> f64 {
    let of = |one: &RequestCount| {
        let count = one.results.values().sum::<u64>() as f64 / 1000.0;
        match one.kind.as_str() {
            "get" | "head" | "probe" => count * prices.get,
            "delete" | "abort" => 0.0,
            _ => count * prices.put,
        }
    };
    let bytes = received as f64 * prices.received + sent as f64 * prices.sent;
    requests.iter().map(of).sum::<f64>() + bytes / GIGABYTE
}

/// Answers `GET /api/v1/origins`.
#[utoipa::path(
    get,
    path = "/api/v1/origins",
    operation_id = "list_origins",
    responses((status = 200, body = OriginList))
)]
pub(crate) async fn list(State(console): State<Console>) -> Json<OriginList> {
    Json(collect(&console))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_follows_the_prices() {
        let samples = Samples::parse(
            "tidegate_origin_requests_total{origin=\"o\",kind=\"get\",result=\"ok\"} 1500\n\
             tidegate_origin_requests_total{origin=\"o\",kind=\"get\",result=\"timeout\"} 300\n\
             tidegate_origin_requests_total{origin=\"o\",kind=\"probe\",result=\"ok\"} 200\n\
             tidegate_origin_requests_total{origin=\"o\",kind=\"list\",result=\"ok\"} 1000\n\
             tidegate_origin_requests_total{origin=\"o\",kind=\"delete\",result=\"ok\"} 1000\n\
             tidegate_origin_requests_total{origin=\"p\",kind=\"get\",result=\"ok\"} 9000\n",
        );
        let prices = Prices {
            get: 0.5,
            put: 5.0,
            received: 0.25,
            sent: 0.0,
        };
        let cost = cost(&prices, &requests(&samples, "o"), (2_000_000_000, 1));
        assert!((cost - 6.5).abs() < 1e-9, "{cost}");
    }
}
