//! The forms of the section Objects. Each works without a script.

use axum::response::Response;
use maud::{Markup, html};

use super::{PATH, View, address, prefix};
use crate::Console;
use crate::access::Admitted;
use crate::api::objects::{Folder, Name, PinState};
use crate::page::{Page, csrf_field, format};
use tidegate_admin::place::Place;

/// The limits of pins to choose from, in bytes.
const PIN_LIMITS: [u64; 5] = [100 << 20, 1 << 30, 10 << 30, 100 << 30, 1 << 40];

/// The limit that is chosen if the operator chooses none.
pub(super) const PIN_LIMIT: u64 = 10 << 30;

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
    /// Its own pin; one that covers more is not of this target.
    pin: Option<&'a PinState>,
}

impl View<'_> {
    /// Returns the shown folder as a target.
    pub(super) fn orders_for_folder<'a>(&'a self, folder: &'a Folder) -> Target<'a> {
        let is_own = |pin: &&PinState| pin.prefix == folder.prefix;
        Target {
            path: self.path,
            is_folder: true,
            pin: folder.pin.as_ref().filter(is_own),
        }
    }

    /// Returns a name in the folder as a target.
    pub(super) fn orders_for_name<'a>(
        &self,
        folder: &Folder,
        name: &'a Name,
        path: &'a str,
    ) -> Target<'a> {
        let is_own = |pin: &&PinState| pin.prefix == name.key(&folder.prefix);
        Target {
            path,
            is_folder: name.folder,
            pin: name.pin.as_ref().filter(is_own),
        }
    }

    /// Returns the orders for a target.
    pub(super) fn form(&self, target: &Target<'_>) -> Markup {
        html! {
            form.inline method="post" action=(PATH) {
                (csrf_field(self.csrf.unwrap_or_default()))
                input type="hidden" name="path" value=(target.path);
                input type="hidden" name="host" value=(self.host);
                input type="hidden" name="back" value=(self.path);
                button.small name="order" value="warm" { "Warm" @if target.is_folder { " this folder" } }
                button.small name="order" value="stale" { "Mark stale" }
                button.small name="order" value="purge" { "Purge" }
                (pin_buttons(target.pin))
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

fn pin_buttons(pin: Option<&PinState>) -> Markup {
    let chosen = pin.map_or(PIN_LIMIT, |pin| pin.limit);
    let mut limits = PIN_LIMITS.to_vec();
    if !limits.contains(&chosen) {
        limits.push(chosen);
        limits.sort_unstable();
    }
    html! {
        label {
            "Keep at most "
            select name="limit" {
                @for limit in limits { option value=(limit) selected[limit == chosen] { (format::bytes(limit)) } }
            }
        }
        button.small name="order" value="pin" { (if pin.is_some() { "Change the pin" } else { "Pin" }) }
        @if pin.is_some() { button.small name="order" value="unpin" { "Unpin" } }
    }
}

/// Asks whether a folder is to be purged: its bytes come from the bucket again.
pub(super) fn ask_first(
    console: &Console,
    admitted: &Admitted,
    place: &Place,
    back: &str,
) -> Response {
    let host = place.host.as_deref().unwrap_or_default();
    let csrf = admitted.session().map(|own| own.csrf.as_str());
    let covers_routes = place.host.is_none() && console.gateway.overview().routes.len() > 1;
    let content = html! {
        p { "Purge all that is cached below " (prefix(&place.path)) "?" }
        p.quiet {
            "Readers fetch it from the bucket again, also what is pinned. "
            @if covers_routes { "This covers each route and each host whose paths begin so. " }
            "“Mark stale” keeps the bytes, and has the bucket asked whether they are still right."
        }
        form.inline method="post" action=(PATH) {
            (csrf_field(csrf.unwrap_or_default()))
            input type="hidden" name="path" value=(place.path);
            input type="hidden" name="host" value=(host);
            input type="hidden" name="back" value=(back);
            input type="hidden" name="sure" value="yes";
            button name="order" value="purge" { "Purge" }
            a.button href=(address(back, host)) { "Leave it" }
        }
    };
    let page = Page {
        path: PATH,
        title: "Purge a folder",
        live: None,
        content,
    };
    page.render(console, admitted)
}
