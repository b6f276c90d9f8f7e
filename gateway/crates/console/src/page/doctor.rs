//! The section Doctor: measurements of memory, disks and buckets, and their judgement as a picture.

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Form};
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::shares;
use super::settings::{self, save};
use super::{Page, check_form, csrf_field, done, format, throughput};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::doctor::{BucketUse, collect, start};
use crate::gateway::{ConnectionRate, DoctorOrder, Suggestion, Verdict};
use crate::section::Section;

const PATH: &str = "/console/doctor";

/// Answers `GET /console/doctor`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Response {
    let content = html! {
        p {
            "Measures buckets, the network to them, cache disks, memory and this browser, and says which of them is the "
            "narrow one. "
            strong { "It takes from what readers have while it runs." }
            " A measurement of a bucket needs an object of at least 64 MiB; without one, only the time to its first byte "
            "is measured."
        }
        @if let Some(own) = admitted.session() {
            form method="post" action=(PATH) data-measure=(throughput::PATH) {
                (csrf_field(&own.csrf()))
                input type="hidden" name="client";
                label for="objects" { "Paths of objects to measure with, one for each bucket" }
                input #objects type="text" name="objects" placeholder="/films/a.mkv /books/b.m4b" autocomplete="off";
                label for="host" { "Host, if routes name hosts" }
                input #host type="text" name="host" autocomplete="off";
                button { "Start" }
            }
        }
        div #live { (live(&console)) }
    };
    let page = Page {
        path: PATH,
        title: "Doctor",
        live: Some(Section::Doctor),
        content,
    };
    page.render(&console, &admitted)
}

/// Renders the live part.
pub(crate) fn live(console: &Console) -> Markup {
    let run = collect(console);
    html! {
        @if run.running { p.verdict { span.dot.warn {} "It measures …" } }
        @if run.running && !run.lines.is_empty() {
            ol.progress { @for line in &run.lines { li { (line) } } }
        }
        @if let Some(error) = &run.error { div.message.error { p { (error) } } }
        @if let Some(verdict) = &run.verdict {
            (self::verdict(verdict, run.efficiency.as_ref()))
            (suggestions(verdict, &run.applied))
        }
    }
}

fn verdict(verdict: &Verdict, efficiency: Option<&BucketUse>) -> Markup {
    let most = verdict
        .stages
        .iter()
        .map(|one| one.rate)
        .fold(0.0, f64::max);
    html! {
        h2 { "The narrow one: " (verdict.narrowest) }
        @for stage in &verdict.stages {
            @let is_narrow = stage.stage == verdict.narrowest;
            @let words = format!("{}: {}", stage.stage, format::rate(stage.rate));
            div.stage {
                p { (words) @if is_narrow { span.badge.warn { "narrow" } } }
                (shares(&words, &[(if is_narrow { "origin" } else { "memory" }, (stage.rate / most.max(1.0)).max(0.004))]))
            }
        }
        (efficiency_words(verdict, efficiency))
        @for one in &verdict.connections { (connection(one)) }
        ul.quiet { @for part in &verdict.not_measured { li { "Not measured: " (part) } } }
        // The keyboard scrolls what has the focus.
        details { summary { "The whole report" } pre tabindex="0" role="region" aria-label="The whole report" { (verdict.report) } }
    }
}

/// Renders what the buckets sent, against what they can give.
fn efficiency_words(verdict: &Verdict, efficiency: Option<&BucketUse>) -> Markup {
    html! {
        @match efficiency {
            Some(used) => {
                @let words = format!("{} of {}", format::rate(used.taken), format::rate(used.possible));
                div.stage {
                    p { "Efficiency: " strong { (format::percent(used.share)) } }
                    (shares(&words, &[("origin", used.share)]))
                }
                p {
                    "In the busiest 10 s of the last hour, which ended at " (format::time(used.time))
                    " UTC, the buckets sent " (format::rate(used.taken)) " of the "
                    (format::rate(used.possible)) " that they can give. "
                    @if used.stalls == 0 { "No reader waited for more than 100 ms in them." }
                    @else { (waits(used.stalls)) }
                }
            }
            None if verdict.buckets_rate.is_none() => p {
                "The efficiency is not known: it needs a measurement of each bucket, with an object."
            },
            None => p { "The efficiency is not known: the buckets have sent nothing in the last hour." },
        }
    }
}

fn waits(stalls: u64) -> String {
    let times = if stalls == 1 { "time" } else { "times" };
    format!(
        "Readers waited {} {times} in them for more than 100 ms.",
        format::grouped(stalls)
    )
}

fn connection(one: &ConnectionRate) -> Markup {
    html! {
        p {
            "One connection to " (one.origin) " brings " (format::rate(one.one)) ", "
            (format::percent(one.one / one.best.max(1.0))) " of the " (format::rate(one.best))
            " that " (one.connections) " or more bring."
        }
    }
}

/// Renders what is to be set, with a button for each key.
fn suggestions(verdict: &Verdict, applied: &[String]) -> Markup {
    html! {
        h2 { "What to set" }
        @if verdict.suggestions.is_empty() {
            p.empty { "No key of the configuration should have another value." }
        } @else {
            table.cards {
                thead {
                    tr {
                        th scope="col" { "Key" }
                        th scope="col" { "Value" }
                        th scope="col" { "Reason" }
                        th scope="col" { span.hidden { "Apply" } }
                    }
                }
                tbody { @for one in &verdict.suggestions { (suggestion(one, applied.contains(&one.key))) } }
            }
        }
    }
}

fn suggestion(one: &Suggestion, is_applied: bool) -> Markup {
    html! {
        tr {
            th scope="row" data-label="Key" { code { (one.key) } }
            td data-label="Value" { code { (one.value) } span.quiet { "was " (one.present) } }
            td data-label="Reason" { (one.why) }
            td {
                @if is_applied {
                    span.badge.good { "saved" }
                } @else {
                    button.small form="act" name="apply" value=(one.key)
                        aria-label={ "Apply " (one.value) " to " (one.key) } { "Apply" }
                }
            }
        }
    }
}

/// The form of the section.
#[derive(Deserialize)]
pub(crate) struct DoctorForm {
    csrf: String,
    /// The paths of the objects to measure with, with white space between them.
    objects: Option<String>,
    host: Option<String>,
    /// The rate at which the browser took bytes, in bytes a second; empty if it runs no scripts.
    client: Option<String>,
    /// The key whose suggestion is applied, in place of a measurement.
    apply: Option<String>,
}

/// Answers `POST /console/doctor`.
pub(crate) async fn act(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Form(form): Form<DoctorForm>,
) -> Response {
    let own = match check_form(&admitted, &form.csrf) {
        Ok(own) => own.id,
        Err(refusal) => return *refusal,
    };
    if let Some(key) = form.apply {
        let applied = apply(&console, &key).await;
        return done(&console, own, PATH, applied);
    }
    let objects = form.objects.unwrap_or_default();
    let client: Option<f64> = form.client.and_then(|rate| rate.parse().ok());
    let order = DoctorOrder {
        objects: objects.split_whitespace().map(str::to_owned).collect(),
        host: form.host.filter(|host| !host.is_empty()),
        client: client.filter(|rate| rate.is_finite() && *rate > 0.0),
    };
    let begun = match start(&console, order) {
        true => Ok("It has begun.".to_owned()),
        false => Err("It runs already.".to_owned()),
    };
    done(&console, own, PATH, begun)
}

/// Saves what the last run suggests for a key, as the section Settings does.
async fn apply(console: &Console, key: &str) -> Result<String, String> {
    let found = console.doctor.suggestion(key);
    let found = found.ok_or("The last measurement suggests nothing for this key.")?;
    let saved = save(console, key, Some(found.value)).await;
    let report = saved.map_err(|error| error.to_string())?;
    console.doctor.set_applied(key);
    Ok(settings::words(&report))
}
