//! The section Events: subscriptions, hooks and the fleet.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::{Page, format};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::connections::{
    Fleet, Hook, Subscription, collect_events, collect_fleet, collect_hooks,
};
use crate::gateway::LastEvent;
use crate::section::Section;

/// Last events that are shown; the API has more.
const MAX_SHOWN: usize = 50;

/// Answers `GET /console/events`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Response {
    let page = Page {
        path: "/console/events",
        title: "Events, hooks and fleet",
        live: Some(Section::Events),
        content: html! { div #live { (live(&console)) } },
    };
    page.render(&console, &admitted)
}

/// Renders the live part.
pub(crate) fn live(console: &Console) -> Markup {
    let overview = console.gateway.overview();
    let events = collect_events(console, &overview);
    let hooks = collect_hooks(console, &overview).hooks;
    let fleet = collect_fleet(console, &overview);
    html! {
        h2 { "Events of buckets" }
        @if events.subscriptions.is_empty() {
            p.empty { "No bucket reports its changes: what is cached is fresh for its ttl." }
        }
        @for one in &events.subscriptions { (subscription(one)) }
        @if !events.last.is_empty() { (last(&events.last)) }
        h2 { "Hooks" }
        @if hooks.is_empty() { p.empty { "No program is called when keys change." } }
        @for one in &hooks { (hook(one)) }
        h2 { "Fleet" }
        (self::fleet(&fleet))
    }
}

fn counts(name: &str, counts: &BTreeMap<String, u64>) -> Markup {
    html! {
        @if !counts.is_empty() {
            div {
                dt { (name) }
                dd {
                    @for (nth, (what, count)) in counts.iter().enumerate() {
                        @if nth > 0 { ", " }
                        (what) " " (format::grouped(*count))
                    }
                }
            }
        }
    }
}

fn subscription(one: &Subscription) -> Markup {
    html! {
        section.card {
            h3 {
                (one.name)
                @if one.alive { span.badge.good { "alive" } } @else { span.badge.warn { "not proven" } }
            }
            p {
                "By " (one.kind) ", for the origin " (one.origin) ". "
                @if one.alive { "Its heartbeats come back, so no change can have been missed." }
                @else { "A change may be missed, so what is cached is fresh for its ttl only." }
            }
            dl.facts {
                @if let Some(lag) = one.lag {
                    div { dt { "Lag" } dd { (format::duration(lag.p50)) ", 99 of 100 within " (format::duration(lag.p99)) } }
                }
                (counts("Events", &one.events))
                (counts("Gaps", &one.gaps))
            }
        }
    }
}

/// Renders the last events. What each did stands in words.
fn last(events: &[LastEvent]) -> Markup {
    let words = |result: &str| match result {
        "applied" => "in force here",
        "duplicate" => "had come before",
        "late" => "older than what is known",
        _ => "could not be applied",
    };
    html! {
        h3 { "Last events" }
        table.cards {
            thead {
                tr {
                    th scope="col" { "Key" }
                    th scope="col" { "Change" }
                    th scope="col" { "Result" }
                    th scope="col" { "Source" }
                    th scope="col" { "Time (UTC)" }
                }
            }
            tbody {
                @for event in events.iter().take(MAX_SHOWN) {
                    tr {
                        th scope="row" data-label="Key" { span.name { (event.key) } }
                        td data-label="Change" { (event.kind) }
                        td data-label="Result" {
                            (words(&event.result))
                            @if event.result == "failed" { span.badge.bad { "failed" } }
                            @if let Some(lag) = event.lag { span.quiet { "after " (format::duration(lag)) } }
                        }
                        td data-label="Source" { (event.source) }
                        td data-label="Time (UTC)" { (format::time(event.time)) }
                    }
                }
            }
        }
    }
}

fn hook(one: &Hook) -> Markup {
    html! {
        section.card {
            h3 { (one.name) @if one.pending > 0 { span.badge.warn { (one.pending) " wait" } } }
            p.quiet {
                "For keys " @if one.prefix.is_empty() { "of any name" } @else { "that begin with " (one.prefix) }
                @if let Some(origin) = &one.origin { " of " (origin) }
            }
            dl.facts {
                (counts("Calls", &one.calls))
                (counts("Given up", &one.dropped))
            }
        }
    }
}

fn fleet(fleet: &Fleet) -> Markup {
    html! {
        @if !fleet.configured {
            p.empty { "This gateway works alone." }
        } @else {
            section.card {
                h3 {
                    (format::count(fleet.gateways.len() as u64, "other gateway"))
                    @if fleet.connected { span.badge.good { "connected" } } @else { span.badge.bad { "not connected" } }
                }
                @for gateway in &fleet.gateways {
                    p {
                        (gateway.name.as_deref().unwrap_or("a gateway without a name")) " "
                        span.quiet { code { (gateway.id) } ", heard " (format::ago(gateway.heard)) }
                    }
                }
                dl.facts {
                    @if let Some(lag) = fleet.lag { div { dt { "Lag" } dd { (format::duration(lag.p50)) } } }
                    (counts("Sent", &fleet.sent))
                    (counts("Received", &fleet.received))
                    (counts("Doubts", &fleet.doubts))
                }
            }
        }
    }
}
