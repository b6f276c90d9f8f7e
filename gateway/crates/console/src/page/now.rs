//! The section Now.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, PreEscaped, html};

use super::chart::{Line, shares};
use super::{Page, format};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::now::{GatewayStatus, collect};
use crate::figures::{Figures, Quantiles};
use crate::history::{History, Point, RecentCause};
use crate::section::Section;
use tidegate_telemetry::locks::Recover as _;

/// The charts that were drawn last, and the history that they show.
#[derive(Debug, Default)]
pub(crate) struct DrawnCharts(Mutex<Option<(Arc<History>, String)>>);

/// Answers `GET /`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Response {
    let page = Page {
        path: "/",
        title: "Now",
        live: Some(Section::Now),
        content: html! {
            div #live { (live(&console)) }
            div #charts { (charts(&console)) }
        },
    };
    page.render(&console, &admitted)
}

/// Renders the live part.
pub(crate) fn live(console: &Console) -> Markup {
    let now = collect(console);
    html! {
        (verdict(&now))
        (tiles(&now))
        (tiers(&now.figures))
        (failures(&now))
        p.quiet {
            "Tidegate " (now.version) ", up for " (format::duration(now.uptime)) ", "
            (format::bytes(now.memory)) " of memory. Figures are of the last " (format::duration(now.period)) "."
        }
    }
}

/// Renders the charts. They are drawn anew when the history has changed, every 10 s.
pub(crate) fn charts(console: &Console) -> Markup {
    let history = console.sampler.history();
    let mut drawn = console.charts.0.lock().recover();
    let text = match drawn.as_ref() {
        Some((of, text)) if Arc::ptr_eq(of, &history) => text.clone(),
        _ => {
            let text = draw(&history).into_string();
            *drawn = Some((history, text.clone()));
            text
        }
    };
    PreEscaped(text)
}

/// Draws the charts up to the last point.
fn draw(history: &History) -> Markup {
    let last = history.hour.back().into_iter().chain(history.day.back());
    let end = last.map(|point| point.time).fold(0.0, f64::max);
    html! {
        h2 { "The last hour, from left to right" }
        (lines(&history.hour, 3600.0, 25.0, end))
        h2 { "The last day, from left to right" }
        (lines(&history.day, 86_400.0, 700.0, end))
    }
}

/// Says first whether all is well.
fn verdict(now: &GatewayStatus) -> Markup {
    let missing = now.missing.as_deref();
    let is_well = missing == Some(&[]) && now.notes.is_empty() && now.figures.errors == 0;
    html! {
        @if is_well {
            p.verdict { span.dot.good {} "All is well." }
        } @else {
            div.verdict {
                @if missing.is_none() {
                    p {
                        span.dot {}
                        "Whether all is well is being looked at"
                        @if let Some(age) = now.checked { "; the last check was " (format::ago(age)) }
                        " …"
                    }
                }
                @for line in missing.into_iter().flatten() { p { span.dot.bad {} (line) } }
                @for note in &now.notes { p { span.dot.bad {} (note) } }
                @if now.figures.errors > 0 {
                    p { span.dot.warn {} (format::count(now.figures.errors, "failure")) " in the last "
                        (format::duration(now.period)) "; see below." }
                }
            }
        }
        // The index of a disk is missing until it is loaded.
        @for work in now.work.iter().filter(|work| !missing.is_some_and(|all| all.contains(work))) {
            p { span.dot.warn {} (work) }
        }
    }
}

fn tile(name: &str, value: &str, more: &str) -> Markup {
    html! { div.tile { dt { (name) } dd { (value) } @if !more.is_empty() { dd.more { (more) } } } }
}

/// Names the two slower quantiles.
fn tail(times: Option<&Quantiles>) -> String {
    times.map_or(String::new(), |times| {
        let (p90, p99) = (format::duration(times.p90), format::duration(times.p99));
        format!("9 of 10 within {p90}, 99 of 100 within {p99}")
    })
}

fn median(times: Option<&Quantiles>) -> String {
    times.map_or("–".to_owned(), |times| format::duration(times.p50))
}

fn tiles(now: &GatewayStatus) -> Markup {
    let figures = &now.figures;
    let (first, waits) = (figures.first_byte.as_ref(), figures.waits.as_ref());
    let operations = figures.mount_operations_per_second;
    let amplification = figures.amplification.map_or_else(String::new, |ratio| {
        format!("{} bytes for each byte read", format::number(ratio))
    });
    let hits = figures.hit_share.map_or("–".to_owned(), |share| {
        format::percent(share.memory + share.disk)
    });
    html! {
        dl.tiles {
            (tile("Requests", &format!("{}/s", format::number(figures.requests_per_second)),
                &format!("{} under way, {}", now.requests_in_flight, format::count(now.connections, "connection"))))
            @if operations > 0.0 || now.open_files > 0 {
                (tile("On mounts", &format!("{}/s", format::number(operations)), "requests of the kernel"))
            }
            (tile("To readers", &format::rate(figures.bytes_per_second),
                &format!("{}, {}", format::count(now.streams, "stream"), format::count(now.open_files, "open file"))))
            (tile("From buckets", &format::rate(figures.fetched_bytes_per_second),
                &amplification))
            (tile("From the cache", &hits, "of the bytes that readers took in the last hour"))
            (tile("First byte", &median(first), &tail(first)))
            (tile("Waits for bytes", &median(waits), &tail(waits)))
            (tile("Stalls", &format::grouped(figures.stalls), "waits over 100 ms"))
            (tile("Ended by the client", &format::grouped(figures.ended_by_client), "seeks, closed players; no failures"))
        }
    }
}

fn tiers(figures: &Figures) -> Markup {
    let Some(share) = figures.hit_share else {
        return html! {};
    };
    let words = [
        ("memory", "Memory", share.memory),
        ("disk", "SSD", share.disk),
        ("origin", "Bucket", share.origin),
    ];
    let label: Vec<_> = words
        .iter()
        .map(|(_, name, share)| format!("{name} {}", format::percent(*share)))
        .collect();
    let pieces: Vec<_> = words
        .iter()
        .map(|(class, _, share)| (*class, *share))
        .collect();
    html! {
        h2 { "Where the bytes of the last hour came from" }
        (shares(&label.join(", "), &pieces))
        ul.legend {
            @for (class, name, share) in words {
                li { span.key.(class) {} (name) " " (format::percent(share)) }
            }
        }
    }
}

/// Shows the failures of the last hour; those of the day where there were others before it.
fn failures(now: &GatewayStatus) -> Markup {
    let (hour, day) = (&now.errors_of_last_hour, &now.errors_of_last_day);
    let of = |all: &[RecentCause]| all.iter().map(|one| one.count).sum::<u64>();
    html! {
        (causes("Failures of the last hour", hour, now.time))
        @if of(day) > of(hour) { (causes("Failures of the last day", day, now.time)) }
    }
}

fn causes(title: &str, causes: &[RecentCause], now: f64) -> Markup {
    html! {
        @if !causes.is_empty() {
            h2 { (title) }
            table {
                thead {
                    tr {
                        th scope="col" { "Cause" }
                        th.number scope="col" { "Number" }
                        th.number scope="col" { "The last one" }
                    }
                }
                tbody {
                    @for one in causes.iter().take(20) {
                        tr {
                            td { (one.cause) }
                            td.number { (format::grouped(one.count)) }
                            td.number { (format::ago(now - one.last)) }
                        }
                    }
                }
            }
        }
    }
}

/// A chart: its name, the value of a point, and the words of a value.
type Chart = (&'static str, fn(&Figures) -> Option<f64>, fn(f64) -> String);

/// The charts of a time.
const CHARTS: [Chart; 11] = [
    (
        "Requests",
        |figures| Some(figures.requests_per_second),
        per_second,
    ),
    (
        "To readers",
        |figures| Some(figures.bytes_per_second),
        format::rate,
    ),
    (
        "From buckets",
        |figures| Some(figures.fetched_bytes_per_second),
        format::rate,
    ),
    (
        "From the cache",
        |figures| figures.hit_share.map(|share| share.memory + share.disk),
        format::percent,
    ),
    (
        "From memory",
        |figures| figures.hit_share.map(|share| share.memory),
        format::percent,
    ),
    (
        "Bytes fetched for each byte read",
        |figures| figures.amplification,
        format::number,
    ),
    (
        "First byte (median)",
        |figures| figures.first_byte.map(|times| times.p50),
        format::duration,
    ),
    (
        "First byte (9 of 10)",
        |figures| figures.first_byte.map(|times| times.p90),
        format::duration,
    ),
    (
        "First byte (99 of 100)",
        |figures| figures.first_byte.map(|times| times.p99),
        format::duration,
    ),
    (
        "Stalls",
        |figures| Some(figures.stalls as f64),
        format::number,
    ),
    (
        "Failures",
        |figures| Some(figures.errors as f64),
        format::number,
    ),
];

fn per_second(value: f64) -> String {
    format!("{}/s", format::number(value))
}

fn lines(points: &VecDeque<Point>, span: f64, gap: f64, end: f64) -> Markup {
    if points.is_empty() {
        return html! { p.quiet { "Nothing has been measured yet." } };
    }
    let lines = CHARTS.map(|(name, value, words)| Line {
        name,
        points: points
            .iter()
            .filter_map(|point| Some((point.time, value(&point.figures)?)))
            .collect(),
        span,
        end,
        words,
    });
    html! { div.charts { @for line in &lines { (line.draw(gap)) } } }
}
