//! The section Objects: the bucket by folder.

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::chart::{chunks, shares};
use super::preview::is_shown;
use super::{Page, csrf_field, failure, format};
use crate::Console;
use crate::access::Admitted;
use crate::api::objects::{Cached, Folder, FolderQuery, Name, collect};
use crate::gateway::RouteInfo;
use crate::section::Section;
use tidegate_plan::route::{RouteRule, RouteTable};

mod orders;

pub(crate) use orders::act;

const PATH: &str = "/console/objects";

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
    let rules = routes.iter().map(|route| RouteRule {
        host: route.host.clone(),
        path: route.path.clone(),
    });
    let view = View {
        path: &path,
        host: host.as_deref().unwrap_or_default(),
        csrf,
        table: &RouteTable::new(rules),
        routes: &routes,
    };
    let page = Page {
        path: PATH,
        title: "Objects",
        live: Some(Section::Objects),
        content: html! {
            div #live { (live(&console)) }
            (view.content(&folder))
        },
    };
    page.render(&console, &admitted)
}

/// Renders the live part: the orders to fetch objects that are under way, and the last one that is over.
pub(crate) fn live(console: &Console) -> Markup {
    let warms = console.warms.list();
    let last = warms.iter().find(|one| one.is_over);
    let under_way = warms.iter().filter(|one| !one.is_over);
    html! {
        @for one in under_way.chain(last) {
            @let share = (one.done + one.failed) as f64 / one.objects.max(1) as f64;
            @let words = format!(
                "{}: {} of {} objects, {} fetched",
                one.path, one.done, one.objects, format::bytes(one.fetched)
            );
            div.stage {
                p.quiet {
                    (words)
                    @if one.failed > 0 { span.badge.bad { (one.failed) " failed" } }
                    @if one.is_over { span.badge { "over" } }
                }
                (shares(&words, &[("memory", share)]))
            }
        }
    }
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
    /// The routes, to find that of a path.
    table: &'a RouteTable,
    /// The routes, in the order of the table.
    routes: &'a [RouteInfo],
}

/// Returns the address of the page of a folder.
fn address(path: &str, host: &str) -> String {
    let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    format!("{PATH}?path={}&host={}", encode(path), encode(host))
}

impl View<'_> {
    fn link(&self, path: &str) -> String {
        address(path, self.host)
    }

    fn content(&self, folder: &Folder) -> Markup {
        html! {
            @if self.routes.len() > 1 { (self.route_list()) }
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

    fn route_list(&self) -> Markup {
        html! {
            ul.routes {
                @for route in self.routes {
                    li {
                        a href=(address(&folder_of(&route.path), route.host.as_deref().unwrap_or_default())) {
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
                    @if let Some(route) = &name.route { span.badge { "route " (route) } }
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
                // Orders for what another route governs are given there.
                td { @if let (Some(path), None) = (&name.path, &name.route) { (self.orders(name, path)) } }
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
                } @else {
                    (self.link_buttons(path))
                }
            }
        }
    }

    /// Returns a button for each link to an object that can be made; none if its route is closed and has no key.
    fn link_buttons(&self, path: &str) -> Markup {
        let found = self.table.find(self.host, path);
        let Some(route) = found.and_then(|(index, _)| self.routes.get(index)) else {
            return Markup::default();
        };
        html! {
            @if route.access.is_none() {
                button.small name="order" value="link" { "Make a link" }
            } @else if !route.keys.is_empty() {
                label {
                    "Link for "
                    select name="life" {
                        @for (life, words) in orders::LIVES { option value=(life) { (words) } }
                    }
                }
                @for key in &route.keys {
                    button.small name="order" value={ "link " (key) } {
                        "Make a signed link" @if route.keys.len() > 1 { " with " (key) }
                    }
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
