//! The section Tiers and origins.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::chart::shares;
use super::{Page, format};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::origins::{OriginState, collect as collect_origins};
use crate::api::tiers::{DiskTier, Tiers, collect};
use crate::section::Section;
use tidegate_plan::DiskState;

/// Answers `GET /console/tiers`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Response {
    let page = Page {
        path: "/console/tiers",
        title: "Tiers and origins",
        live: Some(Section::Tiers),
        content: html! { div #live { (live(&console)) } },
    };
    page.render(&console, &admitted)
}

/// Renders the live part.
pub(crate) fn live(console: &Console) -> Markup {
    let tiers = collect(console);
    let origins = collect_origins(console).origins;
    html! {
        h2 { "Memory" }
        (memory(&tiers))
        h2 { "Disks" }
        @if tiers.disks.is_empty() {
            p.empty { "No cache disk is configured: what memory evicts comes from the bucket again." }
        }
        @for disk in &tiers.disks { (self::disk(disk)) }
        h2 { "Origins" }
        @for origin in &origins { (self::origin(origin)) }
    }
}

fn fill(name: &str, class: &str, used: u64, capacity: u64) -> Markup {
    let share = used as f64 / capacity.max(1) as f64;
    let words = format!(
        "{}: {} of {}",
        name,
        format::bytes(used),
        format::bytes(capacity)
    );
    html! {
        (shares(&words, &[(class, share)]))
        p.quiet { (words) ", " (format::percent(share)) }
    }
}

/// Renders a name and a value, unless the value is unknown.
fn fact(name: &str, value: Option<String>) -> Markup {
    html! { @if let Some(value) = value { div { dt { (name) } dd { (value) } } } }
}

fn memory(tiers: &Tiers) -> Markup {
    let memory = &tiers.memory;
    html! {
        section.card {
            (fill("In use", "memory", memory.used, memory.capacity))
            dl.facts {
                (fact("Found", memory.hit_share.map(format::percent)))
                (fact("Evictions", Some(format!("{}/s", format::number(memory.evictions_per_second)))))
                (fact("Age at eviction", memory.eviction_age.map(format::duration)))
                (fact("Budget of fetches", Some(format!("{} of {}", format::bytes(tiers.budget.lent),
                    format::bytes(tiers.budget.capacity)))))
            }
        }
    }
}

fn disk(disk: &DiskTier) -> Markup {
    let tone = match disk.state {
        DiskState::Up => "good",
        DiskState::Loading | DiskState::Slow | DiskState::Full | DiskState::Off => "warn",
        DiskState::Demoted | DiskState::Closed => "bad",
    };
    html! {
        section.card {
            h3 { (disk.path) span.badge.(tone) { (disk.state.name()) } }
            p {
                (disk.words)
                @if let Some(since) = disk.since { " Since " (format::time(since)) " UTC." }
                @if let Some(why) = &disk.why { " " (why) "." }
            }
            @if let Some(used) = disk.used { (fill("In use", "disk", used, disk.capacity)) }
            dl.facts {
                (fact("Found", disk.hit_share.map(format::percent)))
                (fact("Read time", disk.read_time.map(format::duration)))
                (fact("Written", Some(format::rate(disk.written_per_second))))
                (fact("Written since the start", Some(format::bytes(disk.written))))
                (fact("Write amplification", disk.write_amplification.map(format::number)))
                (fact("Evictions", Some(format!("{}/s", format::number(disk.evictions_per_second)))))
                (fact("Age at eviction", disk.eviction_age.map(format::duration)))
                (fact("Free on its file system", disk.free.map(format::bytes)))
                (fact("Pinned", disk.pinned.map(format::bytes)))
                (fact("Waits to be written", disk.queued.map(format::bytes)))
                (fact("Chunks", disk.chunks.map(format::grouped)))
                (fact("Unsound reads", (disk.faults > 0).then(|| format::grouped(disk.faults))))
            }
        }
    }
}

fn origin(origin: &OriginState) -> Markup {
    let first = origin.first_byte.as_ref();
    html! {
        section.card {
            h3 {
                (origin.name)
                @if origin.breaker_open { span.badge.bad { "down" } } @else { span.badge.good { "answers" } }
            }
            p.quiet { "Bucket " (origin.bucket) " at " (origin.endpoint.as_deref().unwrap_or("AWS")) }
            @if origin.breaker_open {
                p { "It does not answer, and is left alone for a while. What is cached is still served." }
            }
            dl.facts {
                (fact("First byte", first.map(|times| format::duration(times.p50))))
                (fact("99 of 100 within", first.map(|times| format::duration(times.p99))))
                (fact("Requests", Some(format!("{}/s", format::number(origin.requests_per_second)))))
                (fact("Received", Some(format::rate(origin.received_per_second))))
                (fact("Under way", Some(format!("{}, {} wait", origin.running, origin.queued))))
                (fact("Tried again", Some(format::grouped(origin.retries))))
                (fact("Received since the start", Some(format::bytes(origin.received))))
                (fact("Sent since the start", Some(format::bytes(origin.sent))))
                (fact("Cost since the start", origin.cost.map(|cost| format!("{cost:.4}"))))
            }
            @if !origin.requests.is_empty() {
                details {
                    summary { "Requests by kind" }
                    table {
                        thead { tr { th scope="col" { "Kind" } th scope="col" { "Results since the start" } } }
                        tbody {
                            @for one in &origin.requests {
                                tr {
                                    th scope="row" { (one.kind) }
                                    td {
                                        @for (nth, (result, count)) in one.results.iter().enumerate() {
                                            @if nth > 0 { ", " }
                                            (result.replace('_', " ")) " " (format::grouped(*count))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
