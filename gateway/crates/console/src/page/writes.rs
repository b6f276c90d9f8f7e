//! The section Writes.

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Form};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Deserialize;

use super::chart::shares;
use super::{Page, Question, check_form, done, format};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::writes::{Choice, Decision, Draft, Writes, ask, ask_meanwhile, collect, decide};
use crate::section::Section;

const PATH: &str = "/console/writes";

/// Drafts that are shown; the API has all.
const MAX_SHOWN: usize = 200;

/// The choices, with their words in the form and on the page.
const BUTTONS: [(Choice, &str, &str); 3] = [
    (Choice::Ours, "ours", "Keep ours"),
    (Choice::Theirs, "theirs", "Keep theirs"),
    (Choice::Aside, "aside", "Save ours aside"),
];

/// Answers `GET /console/writes`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Response {
    ask(&console).await;
    let page = Page {
        path: PATH,
        title: "Writes",
        live: Some(Section::Writes),
        content: html! { div #live { (show(collect(&console))) } },
    };
    page.render(&console, &admitted)
}

/// Renders the live part. The bucket is asked meanwhile for what is not known.
pub(crate) fn live(console: &Console) -> Markup {
    ask_meanwhile(console);
    show(collect(console))
}

fn show(writes: Writes) -> Markup {
    let Some(spool) = writes.spool else {
        return html! { p.empty { "No mount is writable." } };
    };
    let (refused, rest): (Vec<_>, Vec<_>) = writes
        .drafts
        .iter()
        .partition(|draft| draft.stage == "refused");
    let share = spool.used as f64 / spool.size.max(1) as f64;
    let words = format!(
        "Spool: {} of {}",
        format::bytes(spool.used),
        format::bytes(spool.size)
    );
    html! {
        (shares(&words, &[("disk", share)]))
        p.quiet { (words) ", " (format::percent(share)) }
        @if !refused.is_empty() {
            h2 { "Refused" }
            p {
                "The bucket did not take these objects, most often because another writer changed them meanwhile. "
                "What was written here stays in the spool until you decide."
            }
            @for draft in refused.iter().take(MAX_SHOWN) { (self::refused(draft)) }
            (not_shown(refused.len()))
        }
        h2 { "On their way" }
        @if rest.is_empty() {
            p.empty { @if refused.is_empty() { "Everything that was written is in the bucket." } @else { "Nothing else is on its way." } }
        } @else {
            table.cards {
                thead {
                    tr {
                        th scope="col" { "Object" }
                        th scope="col" { "State" }
                        th scope="col" { "Sent" }
                        th.number scope="col" { "In the spool" }
                    }
                }
                tbody { @for draft in rest.iter().take(MAX_SHOWN) { (row(draft)) } }
            }
            (not_shown(rest.len()))
        }
    }
}

/// Says how many drafts are there beyond those that are shown.
fn not_shown(all: usize) -> Markup {
    html! {
        @if all > MAX_SHOWN { p.quiet { (all - MAX_SHOWN) " more are not shown." } }
    }
}

fn row(draft: &Draft) -> Markup {
    let state = match draft.stage.as_str() {
        "open" => "A program has it open",
        "sending" => "Is being sent",
        _ => "Will be tried again",
    };
    let share = draft.sent as f64 / draft.size.max(1) as f64;
    let words = format!(
        "{} of {}",
        format::bytes(draft.sent),
        format::bytes(draft.size)
    );
    html! {
        tr {
            th scope="row" data-label="Object" {
                span.name { (draft.key) }
                span.quiet { (draft.origin.as_deref().unwrap_or("unknown bucket")) }
            }
            td data-label="State" {
                (state)
                @if let Some(wait) = draft.next_try { " in " (format::duration(wait)) }
                @if let Some(trouble) = &draft.trouble { span.quiet { (trouble) } }
            }
            td data-label="Sent" { (shares(&words, &[("read", share)])) span.quiet { (words) } }
            td.number data-label="In the spool" { (format::bytes(draft.spooled)) }
        }
    }
}

fn refused(draft: &Draft) -> Markup {
    let origin = draft.origin.as_deref();
    // Encoded, because browsers send each line feed of a value as two characters.
    let id = utf8_percent_encode(&draft.id, NON_ALPHANUMERIC).to_string();
    let value = |choice: &str| format!("{choice} {id}");
    let label = |what: &str| format!("{what} of {}", draft.key);
    html! {
        // With an id, so that the script never makes one draft's buttons another's.
        section.card id={ "draft-" (id) } {
            h3 { (draft.key) span.badge.bad { "refused" } }
            @if origin.is_none() { p.quiet { "Its bucket is that of no configured origin any more." } }
            @if let Some(trouble) = &draft.trouble { p.quiet { (trouble) } }
            div.versions {
                div {
                    h4 { "Ours" }
                    p { (format::bytes(draft.size)) ", written " (format::time(draft.modified)) " UTC" }
                }
                div {
                    h4 { "Theirs" }
                    (theirs(draft))
                }
            }
            (missing(draft))
            div.choices {
                @for (choice, name, words) in BUTTONS {
                    @if draft.choices.contains(&choice) {
                        button form="act" name="decide" value=(value(name)) aria-label=(label(words)) { (words) }
                    }
                }
            }
        }
    }
}

/// Says why a choice is not offered.
fn missing(draft: &Draft) -> Markup {
    let has = |choice| draft.choices.contains(&choice);
    html! {
        @if !has(Choice::Ours) {
            p {
                "Bytes of ours cannot be read now: the spool, the caches and the bucket do not have them. "
                "It can only be discarded. If the bucket has the earlier version again, the other choices come back."
            }
        } @else if !has(Choice::Aside) {
            p { "Parts of ours are in the bucket already, and not in the spool: they can become this object, and no other." }
        }
    }
}

fn theirs(draft: &Draft) -> Markup {
    let Some(theirs) = &draft.theirs else {
        return html! {
            p { @if draft.asked { "The bucket does not say." } @else { "The bucket is not asked yet." } }
        };
    };
    html! {
        @if !theirs.exists {
            p { "The object was removed." }
        } @else {
            p {
                (theirs.size.map_or_else(String::new, format::bytes))
                @if let Some(modified) = theirs.modified { ", written " (format::time(modified)) " UTC" }
            }
        }
    }
}

/// The form of the section.
#[derive(Deserialize)]
pub(crate) struct DecideForm {
    csrf: String,
    /// The choice and the percent-encoded id of the draft, with a space between.
    decide: String,
    /// Sent by the page that asks whether ours is to be discarded.
    sure: Option<String>,
}

fn read(text: &str) -> Option<Decision> {
    let (named, id) = text.split_once(' ')?;
    let (choice, ..) = BUTTONS.into_iter().find(|(_, name, _)| *name == named)?;
    let id = percent_decode_str(id).decode_utf8().ok()?.into_owned();
    Some(Decision { id, choice })
}

/// Answers `POST /console/writes`.
pub(crate) async fn act(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Form(form): Form<DecideForm>,
) -> Response {
    let own = match check_form(&admitted, &form.csrf) {
        Ok(own) => own,
        Err(refusal) => return *refusal,
    };
    let result = match read(&form.decide) {
        Some(decision) if decision.choice == Choice::Theirs && form.sure.is_none() => {
            return question(&console, &admitted, &decision, &form.decide);
        }
        None => Err("this choice is not known".to_owned()),
        Some(decision) => {
            let choice = decision.choice;
            let decided = decide(&console, decision).await;
            decided
                .map(|decided| match (choice, decided.key) {
                    (Choice::Theirs, _) => "The draft is discarded.".to_owned(),
                    (_, key) => format!("It is in the bucket as {}.", key.unwrap_or_default()),
                })
                .map_err(|error| error.error)
        }
    };
    done(&console, own.id, PATH, result)
}

/// Asks whether what was written here is to be discarded.
fn question(
    console: &Console,
    admitted: &AdmissionKind,
    decision: &Decision,
    decide: &str,
) -> Response {
    let key = decision.id.split_once('/').map(|(_, key)| key);
    let words = html! {
        p { "Discard what was written here as " code { (key.unwrap_or_default()) } ", and keep what the bucket has?" }
        p.quiet { "The bytes of ours are gone then. “Save ours aside” keeps both." }
    };
    let fields = html! {
        input type="hidden" name="sure" value="yes";
        button name="decide" value=(decide) { "Discard ours" }
    };
    let question = Question {
        path: PATH,
        title: "Keep theirs",
        words: &words,
        fields: &fields,
        leave: PATH,
    };
    question.ask(console, admitted)
}

#[cfg(test)]
mod tests;
