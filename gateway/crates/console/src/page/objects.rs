//! The section Objects: the bucket by folder.

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::chart::shares;
use super::{Page, failure, format, with_code};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::objects::{Folder, FolderQuery, collect};
use crate::gateway::RouteInfo;
use crate::section::Section;
use crate::sessions::OwnSession;
use tidegate_plan::route::{RouteRule, RouteTable};

mod forms;
mod orders;
mod row;

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
    Extension(admitted): Extension<AdmissionKind>,
    Query(query): Query<ObjectsQuery>,
) -> Response {
    let routes = console.gateway.overview().routes;
    let rules = routes.iter().map(|route| RouteRule {
        host: route.host.clone(),
        path: route.path.clone(),
    });
    let table = RouteTable::new(rules);
    // An empty host is that of routes without one.
    let first = routes.first();
    let first_path = || first.map_or_else(|| "/".to_owned(), |route| folder_of(&route.path));
    let (path, host) = match query.path {
        Some(path) => {
            let host = query
                .host
                .unwrap_or_else(|| host_of(&table, &routes, &path));
            (path, host)
        }
        None => (
            first_path(),
            first
                .and_then(|route| route.host.clone())
                .unwrap_or_default(),
        ),
    };
    let asked = FolderQuery {
        path: path.clone(),
        host: Some(host.clone()),
        page: query.page,
        limit: None,
    };
    let folder = match collect(&console, asked).await {
        Ok(folder) => folder,
        Err(error) => {
            let is_gone = error.status() == StatusCode::GONE;
            let ways = html! {
                @if is_gone { p { a.button href=(address(&path, &host)) { "Begin the folder anew" } } }
                (route_list(&routes))
            };
            return failure(&console, &admitted, PATH, &error, &ways);
        }
    };
    let csrf = admitted.session().map(OwnSession::csrf);
    let view = View {
        path: &path,
        host: &host,
        csrf: csrf.as_deref(),
        table: &table,
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
                "{}: {} of {}, {} fetched",
                one.path, one.done, format::count(one.objects, "object"), format::bytes(one.fetched)
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

/// Returns the host that a path belongs to: none if a route without one has it, or else that of the first route that does.
fn host_of(table: &RouteTable, routes: &[RouteInfo], path: &str) -> String {
    let hosts = routes.iter().filter_map(|route| route.host.as_deref());
    let mut hosts = std::iter::once("").chain(hosts);
    let found = hosts.find(|host| table.find(host, path).is_some());
    found.unwrap_or_default().to_owned()
}

fn route_list(routes: &[RouteInfo]) -> Markup {
    html! {
        ul.routes {
            @for route in routes {
                li {
                    a href=(address(&folder_of(&route.path), route.host.as_deref().unwrap_or_default())) {
                        (route.host.as_deref().unwrap_or_default()) (route.path)
                    }
                }
            }
        }
    }
}

/// Renders a prefix of keys.
fn prefix(prefix: &str) -> Markup {
    html! { code { (if prefix.is_empty() { "/" } else { prefix }) } }
}

impl View<'_> {
    fn link(&self, path: &str) -> String {
        address(path, self.host)
    }

    fn content(&self, folder: &Folder) -> Markup {
        html! {
            @if self.routes.len() > 1 { (route_list(self.routes)) }
            nav aria-label="Folders" { ol.crumbs { (self.crumbs()) } }
            p.quiet { "Origin " (folder.origin) ", keys below " (prefix(&folder.prefix)) }
            @if let Some(note) = &folder.note { p.message { (with_code(note)) } }
            @if let Some(pin) = &folder.pin {
                p {
                    "Pinned: " (format::bytes(pin.used)) " of at most " (format::bytes(pin.limit)) " on disk."
                    @if pin.prefix != folder.prefix { " The pin is that of " (prefix(&pin.prefix)) "." }
                }
            }
            @if self.csrf.is_some() { (self.form(&self.orders_for_folder(folder))) }
            @if folder.names.is_empty() {
                p.empty { "Nothing is here." }
            } @else {
                table.cards {
                    thead {
                        tr {
                            th scope="col" { "Name" }
                            th.number scope="col" { "Size" }
                            th scope="col" { "Cached" }
                            th scope="col" { "Version" }
                            th scope="col" { span.hidden { "Orders" } }
                        }
                    }
                    tbody { @for name in &folder.names { (self.row(folder, name)) } }
                }
                ul.legend {
                    li { span.key.memory {} "Memory" }
                    li { span.key.disk {} "SSD" }
                    li { span.key.pinned {} "Pinned" }
                    li { span.key {} "Bucket only" }
                }
            }
            @if let Some(next) = &folder.next {
                p { a.button href={ (self.link(self.path)) "&page=" (next) } { "Next page" } }
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
}
