//! The forms of the section Objects. Each works without a script.

use axum::response::Response;
use maud::{Markup, html};

use super::{PATH, View, address, prefix};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::objects::{Folder, Name, PinState};
use crate::page::{self, csrf_field, format};
use tidegate_admin::place::Place;

/// The limits of pins to choose from, in bytes.
const PIN_LIMITS: [u64; 5] = [100 << 20, 1 << 30, 10 << 30, 100 << 30, 1 << 40];

/// The limit that is chosen at first.
const PIN_LIMIT: u64 = 10 << 30;

/// The lives of links to choose from, in seconds and in words.
const LIVES: [(u64, &str); 4] = [
    (86_400, "a day"),
    (3_600, "an hour"),
    (604_800, "a week"),
    (2_592_000, "30 days"),
];

/// The target of a form.
pub(super) struct Target<'a> {
    path: &'a str,
    is_folder: bool,
    /// Whether it has a pin of its own; one that covers more is not of this target.
    is_pinned: bool,
}

impl View<'_> {
    /// Returns the shown folder as a target.
    pub(super) fn orders_for_folder(&self, folder: &Folder) -> Target<'_> {
        let is_own = |pin: &PinState| pin.prefix == folder.prefix;
        Target {
            path: self.path,
            is_folder: true,
            is_pinned: folder.pin.as_ref().is_some_and(is_own),
        }
    }

    /// Returns a name in the folder as a target.
    pub(super) fn orders_for_name<'a>(
        &self,
        folder: &Folder,
        name: &Name,
        path: &'a str,
    ) -> Target<'a> {
        let is_own = |pin: &PinState| pin.prefix == name.key(&folder.prefix);
        Target {
            path,
            is_folder: name.folder,
            is_pinned: name.pin.as_ref().is_some_and(is_own),
        }
    }

    /// Returns the orders for a target.
    pub(super) fn form(&self, target: &Target<'_>) -> Markup {
        html! {
            form.inline method="post" action=(PATH) {
                (csrf_field(self.csrf.unwrap_or_default()))
                (place_fields(target.path, self.host, self.path))
                button.small name="order" value="warm" { "Warm" @if target.is_folder { " this folder" } }
                button.small name="order" value="stale" { "Mark stale" }
                button.small name="order" value="purge" { "Purge" }
                button.small name="order" value="pin" { (if target.is_pinned { "Change the pin" } else { "Pin" }) }
                @if target.is_pinned { button.small name="order" value="unpin" { "Unpin" } }
                @if !target.is_folder { (self.link_buttons(target.path)) }
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
                        @for (life, words) in LIVES { option value=(life) { (words) } }
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

/// Returns the fields that name an order's target, and the folder that is shown again.
fn place_fields(path: &str, host: &str, back: &str) -> Markup {
    html! {
        input type="hidden" name="path" value=(path);
        input type="hidden" name="host" value=(host);
        input type="hidden" name="back" value=(back);
    }
}

/// A question before an order is carried out.
pub(super) struct FolderQuestion<'a> {
    pub(super) console: &'a Console,
    pub(super) admitted: &'a AdmissionKind,
    pub(super) place: &'a Place,
    /// The path of the folder that is shown again.
    pub(super) back: &'a str,
}

impl FolderQuestion<'_> {
    /// Asks whether a folder is to be purged: its bytes come from the bucket again.
    pub(super) fn purge(&self) -> Response {
        let has_routes = self.console.gateway.overview().routes.len() > 1;
        let words = html! {
            p { "Purge all that is cached below " (prefix(&self.place.path)) "?" }
            p.quiet {
                "Readers fetch it from the bucket again, also what is pinned. "
                @if has_routes {
                    "This covers each route "
                    @match self.place.host.as_deref() {
                        None => "and each host",
                        Some("") => "without a host",
                        Some(host) => { "of " (host) }
                    }
                    " whose paths begin so. "
                }
                "“Mark stale” keeps the bytes, and has the bucket asked whether they are still right."
            }
        };
        let fields = html! {
            input type="hidden" name="sure" value="yes";
            button name="order" value="purge" { "Purge" }
        };
        self.ask("Purge a folder", &words, &fields)
    }

    /// Asks for the limit of a pin on the keys of a prefix; `limit` is that of the present one.
    pub(super) fn pin(&self, keys: &str, limit: Option<u64>) -> Response {
        let chosen = limit.unwrap_or(PIN_LIMIT);
        let mut limits = PIN_LIMITS.to_vec();
        if !limits.contains(&chosen) {
            limits.push(chosen);
            limits.sort_unstable();
        }
        let words = html! {
            p { "Objects whose key begins with " (prefix(keys)) " are kept on disk, up to a limit." }
            @if let Some(limit) = limit { p.quiet { "The limit is " (format::bytes(limit)) " now." } }
        };
        let fields = html! {
            label {
                "Keep at most "
                select name="limit" {
                    @for limit in limits {
                        option value=(limit) selected[limit == chosen] { (format::bytes(limit)) }
                    }
                }
            }
            button name="order" value="pin" { "Pin" }
        };
        self.ask("Pin", &words, &fields)
    }

    fn ask(&self, title: &str, words: &Markup, fields: &Markup) -> Response {
        let Self {
            console,
            admitted,
            place,
            back,
        } = self;
        let host = place.host.as_deref().unwrap_or_default();
        let fields = html! {
            (place_fields(&place.path, host, back))
            (fields)
        };
        let question = page::Question {
            path: PATH,
            title,
            words,
            fields: &fields,
            leave: &address(back, host),
        };
        question.ask(console, admitted)
    }
}
