//! The section Streams.

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Form};
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::position;
use super::{Page, check_form, done, format};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::streams::{Stream, collect, stop_one};
use crate::section::Section;

/// The most streams that are shown; the API has all.
const MAX_SHOWN: usize = 200;

const PATH: &str = "/console/streams";

/// Answers `GET /console/streams`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Response {
    let content = html! {
        p.quiet {
            "Answers whose bytes are not all in memory, and files that programs read on mounts. "
            "The bar shows what was read, and what is ahead of the reader."
        }
        div #live { (live(&console)) }
    };
    let page = Page {
        path: PATH,
        title: "Streams",
        live: Some(Section::Streams),
        content,
    };
    page.render(&console, &admitted)
}

/// Renders the live part.
pub(crate) fn live(console: &Console) -> Markup {
    let streams = collect(console).streams;
    let left_out = streams.len().saturating_sub(MAX_SHOWN);
    let streams = shown(streams);
    html! {
        @if streams.is_empty() {
            p.empty { "No stream is under way." }
        } @else {
            @if left_out > 0 {
                p.quiet {
                    (left_out) " more are not shown. Those that wait for bytes are shown first, then those that have waited, "
                    "then the oldest. The API has all."
                }
            }
            table.cards {
                thead {
                    tr {
                        th scope="col" { "Object" }
                        th scope="col" { "Position" }
                        th.number scope="col" { "Rate" }
                        th.number scope="col" { "Ahead" }
                        th scope="col" { "Fed from" }
                        th.number scope="col" { "Stalls" }
                        th scope="col" { "Client" }
                        th scope="col" { span.hidden { "Stop" } }
                    }
                }
                tbody { @for stream in &streams { (row(stream)) } }
            }
        }
    }
}

/// Returns the streams that are shown, the oldest first: those that wait, those that have waited, and the oldest others.
fn shown(mut streams: Vec<Stream>) -> Vec<Stream> {
    streams.sort_by_key(|one| (!one.waiting, one.stalls == 0, one.id));
    streams.truncate(MAX_SHOWN);
    // A row keeps its place among the others, however its stream fares.
    streams.sort_by_key(|one| one.id);
    streams
}

fn row(stream: &Stream) -> Markup {
    let share = stream.position as f64 / stream.size.max(1) as f64;
    let words = format!(
        "{} of {}, {}",
        format::bytes(stream.position),
        format::bytes(stream.size),
        format::percent(share)
    );
    let tier = match stream.tier.as_str() {
        "memory" => "Memory",
        "disk" => "SSD",
        "origin" => "Bucket",
        _ => "Nothing yet",
    };
    html! {
        // With an id, so that the script never makes one stream's row another's.
        tr id={ "stream-" (stream.id) } {
            th scope="row" data-label="Object" {
                span.name { (stream.key) }
                span.quiet { (stream.origin.as_deref().unwrap_or("unknown bucket")) }
            }
            td data-label="Position" {
                (position(&words, stream.size, stream.position, stream.ahead))
                span.quiet { (words) }
            }
            td.number data-label="Rate" { (format::rate(stream.rate)) }
            td.number data-label="Ahead" {
                (format::bytes(stream.ahead))
                span.quiet { "window " (format::bytes(stream.window)) ", " (format::count(stream.in_flight as u64, "request")) }
            }
            td data-label="Fed from" {
                (tier)
                @if stream.waiting { span.badge.warn { "waits" } }
            }
            td.number data-label="Stalls" { (stream.stalls) }
            td data-label="Client" {
                (stream.client)
                span.quiet { (if stream.kind == "mount" { "mount" } else { "HTTP" }) ", " (format::duration(stream.age)) }
            }
            td {
                button.small form="act" name="stop" value=(stream.id) id={ "stop-" (stream.id) }
                    aria-label={ "Stop the stream of " (stream.key) " to " (stream.client) } { "Stop" }
            }
        }
    }
}

/// The form of the section.
#[derive(Deserialize)]
pub(crate) struct StopForm {
    csrf: String,
    stop: u64,
}

/// Answers `POST /console/streams`.
pub(crate) async fn act(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Form(form): Form<StopForm>,
) -> Response {
    let own = match check_form(&admitted, &form.csrf) {
        Ok(own) => own,
        Err(refusal) => return *refusal,
    };
    let stopped = stop_one(&console, form.stop);
    let result = stopped.map(|()| "The stream is stopped.".to_owned());
    done(&console, own.id, PATH, result.map_err(|error| error.error))
}

#[cfg(test)]
mod tests;
