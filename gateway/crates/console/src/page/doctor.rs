//! The section Doctor: measurements of memory, disks and buckets, and their judgement as a picture.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Form};
use maud::{Markup, html};
use serde::Deserialize;
use tokio::sync::mpsc;

use super::chart::shares;
use super::{Page, check_form, csrf_field, done, format};
use crate::Console;
use crate::access::Admitted;
use crate::gateway::Verdict;
use crate::section::Section;
use tidegate_telemetry::locks::Recover as _;

const PATH: &str = "/console/doctor";

/// The measurements end after this time in any case.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Lines of progress that are kept.
const MAX_LINES: usize = 200;

/// The last run.
#[derive(Debug, Default)]
pub(crate) struct DoctorRun(Mutex<Run>);

#[derive(Debug, Clone, Default)]
struct Run {
    is_running: bool,
    lines: Vec<String>,
    result: Option<Result<Verdict, String>>,
}

impl DoctorRun {
    fn run(&self) -> MutexGuard<'_, Run> {
        self.0.lock().recover()
    }

    /// Begins a run; returns whether none was under way.
    fn begin(&self) -> bool {
        let mut run = self.run();
        if run.is_running {
            return false;
        }
        *run = Run {
            is_running: true,
            ..Run::default()
        };
        true
    }
}

/// Answers `GET /console/doctor`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<Admitted>,
) -> Response {
    let content = html! {
        p {
            "Measures memory, cache disks and buckets, and says which of them is the narrow one. "
            strong { "It takes from what readers have while it runs." }
            " A measurement of a bucket needs an object of at least 64 MiB; without one, only the time to its first byte "
            "is measured."
        }
        @if let Some(own) = admitted.session() {
            form method="post" action=(PATH) {
                (csrf_field(&own.csrf))
                label for="object" { "Path of an object to measure with" }
                input #object type="text" name="object" placeholder="/films/a.mkv" autocomplete="off";
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
    let run = console.doctor.run().clone();
    html! {
        @if run.is_running { p.verdict { span.dot.warn {} "It measures …" } }
        @if !run.lines.is_empty() && run.result.is_none() {
            ol.progress { @for line in &run.lines { li { (line) } } }
        }
        @match &run.result {
            None => {}
            Some(Err(error)) => { div.message.error { p { (error) } } }
            Some(Ok(verdict)) => { (self::verdict(console, verdict)) }
        }
    }
}

fn verdict(console: &Console, verdict: &Verdict) -> Markup {
    let most = verdict
        .stages
        .iter()
        .map(|one| one.rate)
        .fold(0.0, f64::max);
    let narrow = verdict
        .stages
        .iter()
        .find(|one| one.stage == verdict.narrowest);
    let history = console.sampler.history();
    let taken = history
        .hour
        .iter()
        .map(|point| point.figures.bytes_per_second)
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
        @if let Some(narrow) = narrow && narrow.rate > 0.0 && taken > 0.0 {
            p {
                "In the last hour readers took at most " (format::rate(taken)) ", "
                (format::percent(taken / narrow.rate)) " of what this stage yields."
            }
        }
        details { summary { "The whole report" } pre { (verdict.report) } }
    }
}

/// The form of the section.
#[derive(Deserialize)]
pub(crate) struct DoctorForm {
    csrf: String,
    object: String,
}

/// Answers `POST /console/doctor`.
pub(crate) async fn act(
    State(console): State<Console>,
    Extension(admitted): Extension<Admitted>,
    Form(form): Form<DoctorForm>,
) -> Response {
    let own = match check_form(&admitted, &form.csrf) {
        Ok(own) => own.id,
        Err(refusal) => return *refusal,
    };
    if !console.doctor.begin() {
        return done(&console, own, PATH, Err("It runs already.".to_owned()));
    }
    let objects = Some(form.object.trim().to_owned()).filter(|path| !path.is_empty());
    tokio::spawn(run(console.clone(), objects.into_iter().collect()));
    done(&console, own, PATH, Ok("It has begun.".to_owned()))
}

async fn run(console: Console, objects: Vec<String>) {
    let (tell, mut lines) = mpsc::unbounded_channel();
    let gateway = console.gateway.clone();
    let examine = async {
        tokio::select! {
            result = tokio::time::timeout(TIMEOUT, gateway.examine(objects, tell)) => {
                result.unwrap_or_else(|_| Err("it took longer than five minutes".to_owned()))
            }
            () = console.admin.draining.cancelled() => Err("the gateway stops".to_owned()),
        }
    };
    let listen = async {
        while let Some(line) = lines.recv().await {
            let mut run = console.doctor.run();
            if run.lines.len() < MAX_LINES {
                run.lines.push(line);
            }
        }
    };
    let (result, ()) = tokio::join!(examine, listen);
    let mut run = console.doctor.run();
    run.is_running = false;
    run.result = Some(result);
}
