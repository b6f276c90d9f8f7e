//! The login, the logout, and the list of sessions.

use axum::extract::{Query, State};
use axum::http::header::{SET_COOKIE, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Extension, Form};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Page, check_form, csrf_field, document, done, format};
use crate::Console;
use crate::access::{AdmissionKind, LOGIN_PATH, own_page};
use crate::sessions::{COOKIE_NAME, OwnSession};

const SESSIONS: &str = "/console/sessions";

/// The request of the login.
#[derive(Deserialize)]
pub(crate) struct LoginQuery {
    /// The page that the login leads to.
    to: Option<String>,
}

/// Answers `GET /console/login`.
pub(crate) async fn page(
    State(console): State<Console>,
    Query(query): Query<LoginQuery>,
) -> Response {
    form(&console, target(query.to.as_deref()), None)
}

/// Returns the page that a login leads to.
fn target(to: Option<&str>) -> &str {
    to.and_then(own_page).unwrap_or("/")
}

fn form(console: &Console, to: &str, error: Option<&str>) -> Response {
    let main = html! {
        h1 { "Log in" }
        @if let Some(error) = error { div.message.error role="alert" { p { (error) } } }
        @if console.admin.token.in_force().is_none() {
            p {
                "No admin token is configured, so there is nothing to log in with. Set " code { "admin.token" }
                " in the configuration, and reload it."
            }
        } @else {
            form.login method="post" action=(LOGIN_PATH) {
                input type="hidden" name="to" value=(to);
                label for="token" { "Admin token" }
                input #token type="password" name="token" autocomplete="current-password" required autofocus;
                button type="submit" { "Log in" }
            }
            p.quiet { "The token that " code { "admin.token" } " of the configuration names." }
        }
    };
    let mut page = document("Log in", html! {}, main, None);
    if error.is_some() {
        *page.status_mut() = StatusCode::UNAUTHORIZED;
    }
    page
}

/// The form of the login.
#[derive(Deserialize)]
pub(crate) struct LoginForm {
    token: String,
    /// The page that the login leads to.
    to: Option<String>,
}

/// Answers `POST /console/login`. A wrong token is delayed as everywhere on this listener.
pub(crate) async fn log_in(
    State(console): State<Console>,
    headers: HeaderMap,
    Form(form): Form<LoginForm>,
) -> Response {
    let to = target(form.to.as_deref());
    let shown = form.token.trim().as_bytes();
    let token = console.admin.token.in_force();
    let Some(token) = token.filter(|token| token.equals(shown)) else {
        return match console.guesses.slow_down(LOGIN_PATH).await {
            true => self::form(&console, to, Some("This is not the admin token.")),
            false => {
                let body = "too many wrong tokens\n";
                (StatusCode::TOO_MANY_REQUESTS, body).into_response()
            }
        };
    };
    let browser = headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let begun = console.sessions.begin(browser.unwrap_or("unknown"), token);
    let Some(cookie) = begun else {
        let body = "the system has no random numbers\n";
        return (StatusCode::INTERNAL_SERVER_ERROR, body).into_response();
    };
    tracing::info!("a session of the console began");
    let cookie = set_cookie(&console, &cookie, 7 * 24 * 3600);
    ([(SET_COOKIE, cookie)], Redirect::to(to)).into_response()
}

/// Returns the header that sets the cookie, for so many seconds.
fn set_cookie(console: &Console, value: &str, seconds: u32) -> HeaderValue {
    let secure = if console.gateway.has_tls() {
        "; Secure"
    } else {
        ""
    };
    let text = format!(
        "{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
    );
    HeaderValue::try_from(text).expect("hexadecimal digits are a valid header value")
}

/// A form that has nothing but the proof of its session.
#[derive(Deserialize)]
pub(crate) struct BareForm {
    csrf: String,
}

/// Answers `POST /console/logout`.
pub(crate) async fn log_out(
    State(console): State<Console>,
    headers: HeaderMap,
    Form(form): Form<BareForm>,
) -> Response {
    match console.sessions.find(&headers) {
        Some(own) if own.is_shown(&form.csrf) => {
            console.sessions.end(own.id);
            let cookie = set_cookie(&console, "", 0);
            ([(SET_COOKIE, cookie)], Redirect::to(LOGIN_PATH)).into_response()
        }
        _ => Redirect::to(LOGIN_PATH).into_response(),
    }
}

/// Answers `GET /console/sessions`.
pub(crate) async fn sessions(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Response {
    let own = admitted.session();
    let csrf = own.map(OwnSession::csrf);
    let list = console.sessions.list(own.map(|own| own.id));
    let row = |one: &crate::sessions::SessionInfo| -> Markup {
        html! {
            tr {
                td data-label="Browser" { (one.browser) @if one.own { span.badge.good { "this one" } } }
                td data-label="Began" { (format::time(one.began)) " UTC" }
                td data-label="Idle" { (format::duration(one.idle)) }
                @if let Some(csrf) = &csrf {
                    td {
                        form method="post" action=(SESSIONS) {
                            (csrf_field(csrf))
                            button.small name="end" value=(one.id) aria-label={ "End the session of " (one.browser) } {
                                "End"
                            }
                        }
                    }
                }
            }
        }
    };
    let content = html! {
        p.quiet { "A session ends after 8 hours without a request, after 7 days, with another admin token, and with the process. A "
            "page that is left open does not keep it." }
        table.cards {
            thead {
                tr {
                    th scope="col" { "Browser" }
                    th scope="col" { "Began" }
                    th scope="col" { "Idle" }
                    @if csrf.is_some() { th scope="col" { span.hidden { "End" } } }
                }
            }
            tbody { @for one in &list { (row(one)) } }
        }
    };
    let page = Page {
        path: SESSIONS,
        title: "Sessions",
        live: None,
        content,
    };
    page.render(&console, &admitted)
}

/// The form that ends a session.
#[derive(Deserialize)]
pub(crate) struct EndForm {
    csrf: String,
    end: u64,
}

/// Answers `POST /console/sessions`.
pub(crate) async fn end(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Form(form): Form<EndForm>,
) -> Response {
    let own = match check_form(&admitted, &form.csrf) {
        Ok(own) => own,
        Err(refusal) => return *refusal,
    };
    let result = match console.sessions.end(form.end) {
        true => Ok("The session has ended.".to_owned()),
        false => Err("There is no such session.".to_owned()),
    };
    done(&console, own.id, SESSIONS, result)
}
