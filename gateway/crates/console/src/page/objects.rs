//! The section Objects: the bucket by folder.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use axum::{Extension, Form};
use futures_util::StreamExt as _;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::chart::chunks;
use super::preview::is_shown;
use super::{Page, check_form, csrf_field, done, failure, format};
use crate::Console;
use crate::access::Admitted;
use crate::api::objects::{Cached, Folder, FolderQuery, Name, collect};
use crate::gateway::RouteInfo;
use tidegate_admin::place::Place;
use tidegate_admin::{Purge, PurgeExtent};
use tidegate_engine::warm::Warmer;
use tidegate_engine::{PurgeKind, ReadContext};
use tidegate_plan::ObjectKey;

const PATH: &str = "/console/objects";

/// Objects that are warmed at a time.
const WARM_AT_ONCE: usize = 4;

/// Objects that one order of the page warms; the command `tidegate warm` has no such bound.
const MAX_WARMED: usize = 1000;

/// The bytes that a pin of the page keeps at most.
const PIN_LIMIT: u64 = 10 << 30;

/// The request of the page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ObjectsQuery {
    path: Option<String>,
    host: Option<String>,
    page: Option<String>,
}

/// Answers `GET /console/objects`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<Admitted>,
    Query(query): Query<ObjectsQuery>,
) -> Response {
    let routes = console.gateway.overview().routes;
    let first = || {
        routes
            .first()
            .map_or_else(|| "/".to_owned(), |route| folder_of(&route.path))
    };
    let path = query.path.unwrap_or_else(first);
    let host = query.host.filter(|host| !host.is_empty());
    let asked = FolderQuery {
        path: path.clone(),
        host: host.clone(),
        page: query.page,
        limit: None,
    };
    let folder = match collect(&console, asked).await {
        Ok(folder) => folder,
        Err(error) => return failure(&console, &admitted, PATH, &error),
    };
    let csrf = admitted.session().map(|own| own.csrf.as_str());
    let view = View {
        path: &path,
        host: host.as_deref().unwrap_or_default(),
        csrf,
    };
    let page = Page {
        path: PATH,
        title: "Objects",
        live: None,
        content: view.content(&folder, &routes),
    };
    page.render(&console, &admitted)
}

fn folder_of(path: &str) -> String {
    match path.ends_with('/') {
        true => path.to_owned(),
        false => format!("{path}/"),
    }
}

/// The folder that is shown.
struct View<'a> {
    path: &'a str,
    host: &'a str,
    csrf: Option<&'a str>,
}

impl View<'_> {
    fn link(&self, path: &str) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        format!("{PATH}?path={}&host={}", encode(path), encode(self.host))
    }

    fn content(&self, folder: &Folder, routes: &[RouteInfo]) -> Markup {
        html! {
            @if routes.len() > 1 { (self.routes(routes)) }
            nav aria-label="Folders" { ol.crumbs { (self.crumbs()) } }
            p.quiet { "Origin " (folder.origin) ", keys below " code { (if folder.prefix.is_empty() { "/" } else { &folder.prefix }) } }
            @if let Some(note) = &folder.note { p.message { (note) } }
            @if self.csrf.is_some() { (self.form(self.path, true)) }
            @if folder.names.is_empty() {
                p.empty { "Nothing is here." }
            } @else {
                table.cards {
                    thead {
                        tr {
                            th scope="col" { "Name" }
                            th.number scope="col" { "Size" }
                            th scope="col" { "Cached" }
                            th scope="col" { "Freshness" }
                            th scope="col" { span.hidden { "Orders" } }
                        }
                    }
                    tbody { @for name in &folder.names { (self.row(name)) } }
                }
                ul.legend {
                    li { span.key.memory {} "Memory" }
                    li { span.key.disk {} "SSD" }
                    li { span.key {} "Bucket only" }
                }
            }
            @if let Some(next) = &folder.next {
                p { a.button href={ (self.link(self.path)) "&page=" (next) } { "Next page" } }
            }
        }
    }

    fn routes(&self, routes: &[RouteInfo]) -> Markup {
        html! {
            ul.routes {
                @for route in routes {
                    li {
                        a href={ (PATH) "?path=" (utf8_percent_encode(&folder_of(&route.path), NON_ALPHANUMERIC))
                            "&host=" (utf8_percent_encode(route.host.as_deref().unwrap_or_default(), NON_ALPHANUMERIC)) } {
                            (route.host.as_deref().unwrap_or_default()) (route.path)
                        }
                    }
                }
            }
        }
    }

    fn crumbs(&self) -> Markup {
        let mut at = 0;
        let mut steps = Vec::new();
        for (end, _) in self.path.match_indices('/') {
            steps.push((&self.path[..=end], &self.path[at..end]));
            at = end + 1;
        }
        html! {
            @for (path, name) in steps {
                li { a href=(self.link(path)) { (if name.is_empty() { "/" } else { name }) } }
            }
        }
    }

    fn row(&self, name: &Name) -> Markup {
        html! {
            tr {
                th scope="row" data-label="Name" {
                    @match (&name.path, name.folder) {
                        (Some(path), true) => { a.name href=(self.link(path)) { (name.name) "/" } }
                        _ => { span.name { (name.name) } }
                    }
                    @if let Some(draft) = &name.draft { span.badge.warn { "draft: " (draft) } }
                    @if let Some(modified) = name.modified { span.quiet { (format::time(modified)) " UTC" } }
                }
                td.number data-label="Size" { @if let Some(size) = name.size { (format::bytes(size)) } }
                td data-label="Cached" { @if !name.folder { (cached(name)) } }
                td data-label="Freshness" {
                    @if let Some(cached) = &name.cached {
                        (cached.state)
                        span.quiet { "confirmed " (format::duration(cached.age)) " ago" }
                        @if cached.pinned > 0 { span.badge { "pinned" } }
                    }
                }
                td { @if let Some(path) = &name.path { (self.orders(name, path)) } }
            }
        }
    }

    fn orders(&self, name: &Name, path: &str) -> Markup {
        let kind = name
            .cached
            .as_ref()
            .and_then(|cached| cached.content_type.as_deref());
        html! {
            @if self.csrf.is_some() {
                @if !name.folder && is_shown(kind) {
                    a.button.small href={ "/console/preview?path=" (utf8_percent_encode(path, NON_ALPHANUMERIC))
                        "&host=" (utf8_percent_encode(self.host, NON_ALPHANUMERIC)) }
                        aria-label={ "Preview " (name.name) } { "Preview" }
                }
                details.orders {
                    summary aria-label={ "Orders for " (name.name) } { "Orders" }
                    (self.form(path, name.folder))
                }
            }
        }
    }

    /// Returns the orders for a path. Pins are for folders.
    fn form(&self, path: &str, is_folder: bool) -> Markup {
        html! {
            form.inline method="post" action=(PATH) {
                (csrf_field(self.csrf.unwrap_or_default()))
                input type="hidden" name="path" value=(path);
                input type="hidden" name="host" value=(self.host);
                input type="hidden" name="back" value=(self.path);
                button.small name="order" value="warm" { "Warm" @if is_folder { " this folder" } }
                button.small name="order" value="stale" { "Mark stale" }
                button.small name="order" value="purge" { "Purge" }
                @if is_folder {
                    button.small name="order" value="pin" { "Pin" }
                    button.small name="order" value="unpin" { "Unpin" }
                }
            }
        }
    }
}

fn cached(name: &Name) -> Markup {
    let none = |words: &str| html! { (chunks(words, 1, &[])) span.quiet { (words) } };
    let Some(cached) = &name.cached else {
        return none("nothing is known of it");
    };
    let size = name.size.unwrap_or_default();
    let words = words(cached, size);
    html! { (chunks(&words, size, &cached.runs)) span.quiet { (words) } }
}

fn words(cached: &Cached, size: u64) -> String {
    match (cached.memory, cached.disk, cached.absent) {
        (_, _, absent) if absent >= size && size > 0 => "not cached".to_owned(),
        (memory, 0, 0) => format!("whole: {} in memory", format::bytes(memory)),
        (memory, disk, 0) => format!(
            "whole: {} in memory, {} on SSD",
            format::bytes(memory),
            format::bytes(disk)
        ),
        (memory, disk, absent) => format!(
            "{} in memory, {} on SSD, {} not",
            format::bytes(memory),
            format::bytes(disk),
            format::bytes(absent)
        ),
    }
}

/// The form of the section.
#[derive(Deserialize)]
pub(crate) struct OrderForm {
    csrf: String,
    path: String,
    host: Option<String>,
    back: Option<String>,
    order: String,
}

/// Answers `POST /console/objects`.
pub(crate) async fn act(
    State(console): State<Console>,
    Extension(admitted): Extension<Admitted>,
    Form(form): Form<OrderForm>,
) -> Response {
    let own = match check_form(&admitted, &form.csrf) {
        Ok(own) => own.id,
        Err(refusal) => return *refusal,
    };
    let host = form.host.filter(|host| !host.is_empty());
    let view = View {
        path: &form.path,
        host: host.as_deref().unwrap_or_default(),
        csrf: None,
    };
    let back = view.link(form.back.as_deref().unwrap_or("/"));
    let place = Place {
        path: form.path.clone(),
        host: host.clone(),
    };
    let result = match form.order.as_str() {
        "purge" => purge(&console, place, PurgeKind::Hard).await,
        "stale" => purge(&console, place, PurgeKind::Soft).await,
        "warm" => warm(&console, place).await,
        "pin" => pin(&console, place, true).await,
        "unpin" => pin(&console, place, false).await,
        _ => Err("This is not known.".to_owned()),
    };
    done(&console, own, &back, result)
}

async fn purge(console: &Console, place: Place, kind: PurgeKind) -> Result<String, String> {
    let is_folder = place.path.ends_with('/');
    let purge = Purge {
        extent: match is_folder {
            true => PurgeExtent::Prefix(place.path),
            false => PurgeExtent::Path(place.path),
        },
        host: place.host,
        kind,
    };
    let purged = console
        .admin
        .control
        .purge(&purge)
        .await
        .map_err(|error| error.to_string())?;
    tracing::info!(extent = ?purge.extent, ?kind, "purged");
    let names = purged.names.join(", ");
    Ok(match kind {
        PurgeKind::Hard => format!("Purged: {names}."),
        PurgeKind::Soft => format!("Stale now: {names}."),
    })
}

async fn pin(console: &Console, place: Place, keep: bool) -> Result<String, String> {
    let below = console
        .admin
        .locate
        .below(&place)
        .map_err(|error| error.to_string())?;
    if !keep {
        let unpinned = console.admin.pins.unpin(&below).await;
        unpinned.map_err(|error| error.to_string())?;
        tracing::info!(origin = %below.origin, prefix = ?below.prefix, "unpinned");
        return Ok("It is pinned no more.".to_owned());
    }
    let note = console.admin.pins.pin(&below, PIN_LIMIT).await;
    let note = note.map_err(|error| error.to_string())?;
    tracing::info!(origin = %below.origin, prefix = ?below.prefix, limit = PIN_LIMIT, "pinned");
    let words = format!("Up to {} of it stay on disk.", format::bytes(PIN_LIMIT));
    Ok(match note {
        Some(note) => format!("{words} {note}"),
        None => words,
    })
}

/// Warms an object, or the first objects below a folder, in the background.
async fn warm(console: &Console, place: Place) -> Result<String, String> {
    let admin = console.admin.clone();
    let mut objects = Vec::new();
    if place.path.ends_with('/') {
        let below = admin
            .locate
            .below(&place)
            .map_err(|error| error.to_string())?;
        let listed = admin
            .engine
            .keys(&below.source, &below.prefix, None, MAX_WARMED as u16)
            .await;
        let listed = listed.map_err(|error| error.to_string())?;
        let keys = listed
            .objects
            .iter()
            .filter_map(|(key, _)| ObjectKey::new(key).ok());
        objects.extend(keys.map(|key| (below.source.clone(), key)));
    } else {
        let located = admin
            .locate
            .objects(&place)
            .map_err(|error| error.to_string())?;
        objects.extend(located.into_iter().map(|one| (one.source, one.key)));
    }
    let count = objects.len();
    tokio::spawn(async move {
        let warmer = Arc::new(Warmer::new(admin.engine.clone(), None));
        let one = |(source, key)| warm_one(warmer.clone(), source, key);
        let warm = futures_util::stream::iter(objects).for_each_concurrent(WARM_AT_ONCE, one);
        let _ = admin.draining.run_until_cancelled(warm).await;
    });
    Ok(format!("{count} objects are being fetched."))
}

async fn warm_one(warmer: Arc<Warmer>, source: Arc<ReadContext>, key: ObjectKey) {
    let quiet = |_: u64| {};
    if let Err(error) = warmer.warm(&source, &key, &quiet).await {
        tracing::warn!(%error, key = key.as_str(), "an object was not warmed");
    }
}
