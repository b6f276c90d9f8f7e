//! The section Settings: every key, and an edit of one.

use axum::extract::{Query, State};
use axum::response::Response;
use axum::{Extension, Form};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::{Page, check_form, csrf_field, done, with_code};
use crate::Console;
use crate::access::AdmissionKind;
use crate::gateway::{ChangeNeeds, Setting, SettingSource};
use crate::sessions::OwnSession;
use tidegate_admin::reload::{OverrideChange, ReloadError, ReloadReport};

const PATH: &str = "/console/settings";

/// The request of the page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SettingsQuery {
    /// The key that is edited.
    edit: Option<String>,
}

/// A value that was refused, and the reason.
struct RefusedValue<'a> {
    value: &'a str,
    errors: &'a str,
}

/// Answers `GET /console/settings`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Query(query): Query<SettingsQuery>,
) -> Response {
    show(&console, &admitted, query.edit.as_deref(), None).await
}

async fn show(
    console: &Console,
    admitted: &AdmissionKind,
    edit: Option<&str>,
    refused: Option<RefusedValue<'_>>,
) -> Response {
    let settings = console.gateway.settings();
    let csrf = admitted.session().map(OwnSession::csrf);
    let csrf = csrf.as_deref();
    let edited = edit.and_then(|key| find(&settings, key));
    let content = html! {
        p.quiet {
            "A change is kept as an override in the state folder, over the configuration file and under the environment. "
            "It is checked with the whole configuration first."
        }
        @if let Some(csrf) = csrf {
            form.inline method="post" action=(PATH) {
                (csrf_field(csrf))
                button name="action" value="reload" { "Read the configuration again" }
            }
            @if let Some(setting) = edited { (editor(setting, csrf, refused.as_ref())) }
            (any_key(csrf, edit.filter(|_| edited.is_none()), refused.as_ref()))
        }
        label.filter for="filter" { "Show keys with " input #filter type="search" data-filter="settings"; }
        div #settings { (sections(&settings, csrf.is_some())) }
    };
    let page = Page {
        path: PATH,
        title: "Settings",
        live: None,
        content,
    };
    page.render(console, admitted)
}

/// Returns the section of a key: `cache`, `route[/media/]`.
fn section(key: &str) -> &str {
    let end = key.rfind('.').unwrap_or(key.len());
    &key[..end]
}

fn sections(settings: &[Setting], may_edit: bool) -> Markup {
    let mut groups: Vec<(&str, Vec<&Setting>)> = Vec::new();
    for setting in settings {
        let name = section(&setting.name);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(setting),
            None => groups.push((name, vec![setting])),
        }
    }
    html! {
        @for (name, group) in &groups {
            section {
                h2 { (name) }
                table.cards {
                    thead {
                        tr {
                            th scope="col" { "Key" }
                            th scope="col" { "Value" }
                            th scope="col" { "From" }
                            th scope="col" { span.hidden { "Change" } }
                        }
                    }
                    tbody { @for setting in group { (row(setting, may_edit)) } }
                }
            }
        }
    }
}

fn row(setting: &Setting, may_edit: bool) -> Markup {
    let source = match setting.source {
        SettingSource::Default => "default",
        SettingSource::File => "file",
        SettingSource::Override => "override",
        SettingSource::Environment => "environment",
    };
    let edit = utf8_percent_encode(&setting.name, NON_ALPHANUMERIC);
    html! {
        tr data-key=(setting.key) {
            th scope="row" data-label="Key" {
                code { (setting.name) }
                span.quiet { (with_code(&setting.help)) }
            }
            td data-label="Value" { (value(setting)) }
            td data-label="From" {
                span.badge.accent[setting.source != SettingSource::Default] { (source) }
                @if let Some(place) = &setting.place { span.quiet { (place) } }
                @if setting.needs == ChangeNeeds::Restart { span.quiet { "a change needs a restart" } }
            }
            td {
                @if may_edit && setting.source != SettingSource::Environment {
                    a.button.small href={ (PATH) "?edit=" (edit) "#edit" } aria-label={ "Change " (setting.name) } {
                        "Change"
                    }
                }
            }
        }
    }
}

fn value(setting: &Setting) -> Markup {
    html! {
        @if setting.secret {
            span.quiet { @if setting.source == SettingSource::Default { "none" } @else { "a secret, not shown" } }
        } @else if let Some(value) = &setting.value {
            code.value { (value) }
        } @else {
            span.quiet { "none" }
        }
    }
}

fn editor(setting: &Setting, csrf: &str, refused: Option<&RefusedValue<'_>>) -> Markup {
    let shown = refused.map_or(setting.value.as_deref().unwrap_or_default(), |one| {
        one.value
    });
    let described = if refused.is_some() {
        "edit-errors edit-help"
    } else {
        "edit-help"
    };
    html! {
        section.card #edit {
            h2 { "Change " code { (setting.name) } }
            p #edit-help {
                (with_code(&setting.help)) " " span.quiet {
                    "Kind of value: " (setting.kind)
                    @if let Some(default) = &setting.default { ", by default " code { (default) } } "."
                }
            }
            form method="post" action=(PATH) {
                (csrf_field(csrf))
                input type="hidden" name="key" value=(setting.name);
                label for="edit-value" { "Value" }
                @if setting.choices.is_empty() {
                    input #edit-value type=(if setting.secret { "password" } else { "text" }) name="value"
                        value=(shown) autocomplete="off" spellcheck="false"
                        aria-describedby=(described) aria-invalid=[refused.map(|_| "true")];
                } @else {
                    select #edit-value name="value" aria-describedby=(described) aria-invalid=[refused.map(|_| "true")] {
                        @if !setting.choices.iter().any(|choice| choice == shown) { option value="" selected { "–" } }
                        @for choice in &setting.choices {
                            option value=(choice) selected[choice == shown] { (choice) }
                        }
                    }
                }
                @if let Some(refused) = refused {
                    div #edit-errors { (errors(refused)) }
                }
                div.choices {
                    button name="action" value="set" { "Save" }
                    @if let (SettingSource::Override, Some(written)) = (setting.source, &setting.place) {
                        button name="unset" value=(written) { "Undo the override" }
                    }
                    a.button href=(PATH) { "Leave it" }
                }
            }
        }
    }
}

/// Renders a form for a key that is not listed, as that of an entry which does not exist yet; `tried` is one that was refused.
fn any_key(csrf: &str, tried: Option<&str>, refused: Option<&RefusedValue<'_>>) -> Markup {
    let refused = refused.filter(|_| tried.is_some());
    html! {
        details open[tried.is_some()] {
            summary { "Set a key that is not listed" }
            form method="post" action=(PATH) {
                (csrf_field(csrf))
                label for="any-key" { "Key" }
                input #any-key type="text" name="key" value=(tried.unwrap_or_default()) placeholder="profile.films.ttl"
                    autocomplete="off" spellcheck="false";
                label for="any-value" { "Value" }
                input #any-value type="text" name="value" value=(refused.map_or("", |one| one.value))
                    autocomplete="off" spellcheck="false" aria-describedby="any-errors";
                div #any-errors {
                    @if let Some(refused) = refused { (errors(refused)) }
                }
                button name="action" value="set" { "Save" }
            }
        }
    }
}

fn errors(refused: &RefusedValue<'_>) -> Markup {
    html! {
        div role="alert" {
            ul.errors { @for line in refused.errors.lines() { li { (with_code(line)) } } }
        }
    }
}

/// The form of the section.
#[derive(Deserialize)]
pub(crate) struct SettingForm {
    csrf: String,
    action: Option<String>,
    key: Option<String>,
    value: Option<String>,
    /// The key of an override that is undone, as it is written.
    unset: Option<String>,
}

/// Answers `POST /console/settings`.
pub(crate) async fn act(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Form(form): Form<SettingForm>,
) -> Response {
    let own = match check_form(&admitted, &form.csrf) {
        Ok(own) => own.id,
        Err(refusal) => return *refusal,
    };
    if let Some(written) = form.unset {
        let undone = save(&console, &written, None).await;
        let said = undone.map(|report| words(&report));
        return done(&console, own, PATH, said.map_err(|error| error.to_string()));
    }
    let key = form.key.unwrap_or_default();
    let action = form.action.unwrap_or_default();
    let result = match action.as_str() {
        "reload" => console.admin.reload.clone().reload().await,
        "set" => save(&console, &key, form.value.clone()).await,
        _ => return done(&console, own, PATH, Err("This is not known.".to_owned())),
    };
    match result {
        Ok(report) => done(&console, own, PATH, Ok(words(&report))),
        Err(error) if action == "set" => {
            let (value, errors) = (form.value.unwrap_or_default(), error.to_string());
            // A secret does not come back into the page, nor does what may be one.
            let settings = console.gateway.settings();
            let is_open = find(&settings, &key).is_some_and(|one| !one.secret);
            let refused = RefusedValue {
                value: if is_open { &value } else { "" },
                errors: &errors,
            };
            show(&console, &admitted, Some(&key), Some(refused)).await
        }
        Err(error) => done(&console, own, PATH, Err(error.to_string())),
    }
}

/// Returns the setting of this name or key.
fn find<'s>(settings: &'s [Setting], key: &str) -> Option<&'s Setting> {
    settings
        .iter()
        .find(|one| one.name == key || one.key == key)
}

/// Saves an override, or undoes it.
pub(super) async fn save(
    console: &Console,
    key: &str,
    value: Option<String>,
) -> Result<ReloadReport, ReloadError> {
    let key = key.to_owned();
    console
        .admin
        .set_override(OverrideChange { key, value })
        .await
}

/// Says what a reload has done.
pub(super) fn words(report: &ReloadReport) -> String {
    let list = |keys: &[String]| keys.join(", ");
    match (report.changed.is_empty(), report.needs_restart.is_empty()) {
        (true, true) => "The configuration is as it was.".to_owned(),
        (false, true) => format!("In force now: {}.", list(&report.changed)),
        (true, false) => format!("After a restart: {}.", list(&report.needs_restart)),
        (false, false) => format!(
            "In force now: {}. After a restart: {}.",
            list(&report.changed),
            list(&report.needs_restart)
        ),
    }
}
