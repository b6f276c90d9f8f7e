//! The pages: HTML that is rendered on the server.
//!
//! A page loads one style and one script, both from here, and its policy allows nothing else. Its live part is the
//! element `live`, which the script replaces as the server sends it. A live part is the same for every reader, so it has
//! no form of its own: its buttons belong to the form `act` before it, which holds the session's CSRF token. A reader
//! without a session has no such form, and the style hides the buttons.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{DOCTYPE, Markup, html};

use crate::Console;
use crate::access::{AdmissionKind, login_address};
use crate::api::ApiError;
use crate::section::Section;
use crate::sessions::{Message, OwnSession};

pub(crate) mod assets;
pub(crate) mod chart;
pub(crate) mod doctor;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod login;
pub(crate) mod now;
pub(crate) mod objects;
pub(crate) mod preview;
pub(crate) mod settings;
pub(crate) mod streams;
pub(crate) mod throughput;
pub(crate) mod tiers;
pub(crate) mod writes;

/// The policy of every page: nothing from elsewhere, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The sections, in the order of the navigation.
const SECTIONS: [(&str, &str); 8] = [
    ("/", "Now"),
    ("/console/streams", "Streams"),
    ("/console/objects", "Objects"),
    ("/console/tiers", "Tiers and origins"),
    ("/console/writes", "Writes"),
    ("/console/events", "Events"),
    ("/console/settings", "Settings"),
    ("/console/doctor", "Doctor"),
];

/// A page of a section.
pub(crate) struct Page<'a> {
    /// The path of the section.
    pub(crate) path: &'a str,
    /// The title.
    pub(crate) title: &'a str,
    /// The live part that the script asks for.
    pub(crate) live: Option<Section>,
    /// The content.
    pub(crate) content: Markup,
}

impl Page<'_> {
    /// Renders the page for a reader.
    pub(crate) fn render(self, console: &Console, admitted: &AdmissionKind) -> Response {
        let own = admitted.session();
        let message = own.and_then(|own| console.sessions.take_message(own.id));
        let csrf = own.map(OwnSession::csrf).unwrap_or_default();
        let nav = html! {
            nav aria-label="Sections" {
                ul {
                    @for (path, name) in SECTIONS {
                        li { a href=(path) aria-current=[(path == self.path).then_some("page")] { (name) } }
                    }
                }
            }
            @if own.is_some() {
                form.session method="post" action="/console/logout" {
                    (csrf_field(&csrf))
                    a href="/console/sessions" { "Sessions" }
                    button type="submit" { "Log out" }
                }
            } @else {
                a.session href=(login_address(self.path)) { "Log in" }
            }
        };
        let live = self.live.map(Section::name);
        let main = html! {
            @if let Some(message) = message { (message_box(&message)) }
            h1 { (self.title) }
            @if self.live.is_some() && own.is_some() {
                form #act method="post" action=(self.path) { (csrf_field(&csrf)) }
            }
            (self.content)
        };
        document(self.title, nav, main, live)
    }
}

/// Returns a whole document with the headers of every page.
pub(crate) fn document(title: &str, nav: Markup, main: Markup, live: Option<&str>) -> Response {
    let version = assets::version();
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Tidegate" }
                link rel="icon" href="/console/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href={ "/console/console.css?v=" (version) };
                script type="module" src={ "/console/console.js?v=" (version) } {}
            }
            body data-live=[live] {
                a.skip href="#main" { "To the content" }
                header {
                    a.brand href="/" { "Tidegate" }
                    (nav)
                }
                main #main tabindex="-1" { (main) }
                p #connection role="status" {}
            }
        }
    };
    (page_headers(), text.into_string()).into_response()
}

fn page_headers() -> HeaderMap {
    let plain = |name: HeaderName, value: &'static str| (name, HeaderValue::from_static(value));
    HeaderMap::from_iter([
        plain(CONTENT_TYPE, "text/html; charset=utf-8"),
        plain(CONTENT_SECURITY_POLICY, POLICY),
        plain(REFERRER_POLICY, "same-origin"),
        plain(CACHE_CONTROL, "no-store"),
    ])
}

/// Returns the field that proves that a form is of this session.
pub(crate) fn csrf_field(csrf: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(csrf); }
}

/// Renders a text: what stands between backticks is code.
pub(crate) fn with_code(text: &str) -> Markup {
    let pieces: Vec<_> = text.split('`').collect();
    html! {
        @for (nth, piece) in pieces.iter().enumerate() {
            @if nth % 2 == 0 {
                (piece)
            } @else if nth + 1 < pieces.len() {
                code { (piece) }
            } @else {
                // Nothing closes it.
                "`" (piece)
            }
        }
    }
}

fn message_box(message: &Message) -> Markup {
    let role = if message.is_error { "alert" } else { "status" };
    html! {
        div.message.error[message.is_error] role=(role) {
            p { (with_code(&message.text)) }
            @if let Some(text) = &message.copy {
                div.copy {
                    input #copied type="text" readonly value=(text) aria-label="Link" spellcheck="false";
                    button type="button" data-copy="copied" { "Copy" }
                }
            }
        }
    }
}

/// Returns a page that says why there is no other one, with ways to go on and the status of the failure.
pub(crate) fn failure(
    console: &Console,
    admitted: &AdmissionKind,
    path: &str,
    error: &ApiError,
    ways: &Markup,
) -> Response {
    let content = html! {
        div.message.error role="alert" { p { (with_code(&error.error)) } }
        (ways)
    };
    let page = Page {
        path,
        title: "It did not work",
        live: None,
        content,
    };
    let mut answer = page.render(console, admitted);
    *answer.status_mut() = error.status();
    answer
}

/// A question before an order is carried out: a page of its own, which needs no script.
pub(crate) struct Question<'a> {
    /// The path of the section, which takes the answer.
    pub(crate) path: &'a str,
    pub(crate) title: &'a str,
    pub(crate) words: &'a Markup,
    /// The fields and buttons of the answer.
    pub(crate) fields: &'a Markup,
    /// The address that leads back without an answer.
    pub(crate) leave: &'a str,
}

impl Question<'_> {
    pub(crate) fn ask(&self, console: &Console, admitted: &AdmissionKind) -> Response {
        let csrf = admitted.session().map(OwnSession::csrf);
        let content = html! {
            (self.words)
            form.inline method="post" action=(self.path) {
                (csrf_field(&csrf.unwrap_or_default()))
                (self.fields)
                a.button href=(self.leave) { "Leave it" }
            }
        };
        let page = Page {
            path: self.path,
            title: self.title,
            live: None,
            content,
        };
        page.render(console, admitted)
    }
}

/// Checks that a form is of the session that sends it.
pub(crate) fn check_form<'a>(
    admitted: &'a AdmissionKind,
    csrf: &str,
) -> Result<&'a crate::sessions::OwnSession, Box<Response>> {
    match admitted.session() {
        Some(own) if own.is_shown(csrf) => Ok(own),
        _ => {
            let body = "this form is not of your session: load the page again\n";
            Err(Box::new((StatusCode::FORBIDDEN, body).into_response()))
        }
    }
}

/// Leaves the result of a change for the next page, and leads there.
pub(crate) fn done(
    console: &Console,
    session: u64,
    to: &str,
    result: Result<String, String>,
) -> Response {
    let is_error = result.is_err();
    let (Ok(text) | Err(text)) = result;
    let message = Message {
        text,
        is_error,
        copy: None,
    };
    say(console, session, to, message)
}

/// Leaves a message for the next page, and leads there.
pub(crate) fn say(console: &Console, session: u64, to: &str, message: Message) -> Response {
    console.sessions.leave_message(session, message);
    Redirect::to(to).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code() {
        for (text, html) in [
            ("plain", "plain"),
            ("`a<b` is no size", "<code>a&lt;b</code> is no size"),
            ("say `x` or `y`", "say <code>x</code> or <code>y</code>"),
            ("one ` alone", "one ` alone"),
        ] {
            assert_eq!(with_code(text).into_string(), html);
        }
    }
}
