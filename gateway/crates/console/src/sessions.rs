//! The sessions of browsers: made by the admin token, kept in memory, bounded in number and time.
//!
//! A session's cookie is a random value of which only a hash is kept. Each session has a CSRF token of its own, which
//! every change has to show. A restart ends all sessions, and so does another admin token.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Serialize;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use utoipa::ToSchema;

use crate::sampler::unix_time;
use tidegate_admin::auth::AdminToken;
use tidegate_plan::{Token, hex};
use tidegate_telemetry::locks::Recover as _;

/// The name of the cookie.
pub(crate) const COOKIE_NAME: &str = "tidegate-session";

/// The most cookies of that name that are looked at.
const MAX_COOKIES: usize = 8;

/// Bytes of a cookie, and of a CSRF token.
const SECRET_BYTES: usize = 32;
/// The most sessions at once; the one that was idle longest makes room.
const MAX_SESSIONS: usize = 32;

/// A session ends after this time without a request, and after that time in any case.
const MAX_IDLE: Duration = Duration::from_secs(8 * 3600);
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// A session, for an operator.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionInfo {
    /// Its number.
    pub id: u64,
    /// The browser, as it calls itself.
    pub browser: String,
    /// The time of the login, in seconds since 1970.
    pub began: f64,
    /// The time since its last request, in seconds.
    pub idle: f64,
    /// Whether it is the session of this request.
    pub own: bool,
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// The token with which sessions are opened.
    token: AdminToken,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    all: Vec<Session>,
}

struct Session {
    id: u64,
    hash: Vec<u8>,
    csrf: CsrfToken,
    /// The admin token with which it was opened: another one ends it.
    opened_with: Token,
    browser: String,
    began: Instant,
    began_at: f64,
    used: Instant,
    /// The message for the next page.
    message: Option<Message>,
    /// Cancelled when the session is removed.
    ended: DropGuard,
}

/// A message on the next page of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// A text that a reader can copy.
    pub(crate) copy: Option<String>,
}

/// The session of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnSession {
    pub(crate) id: u64,
    token: CsrfToken,
}

/// The CSRF token of a session. Each page shows it in another form, so that the length of a compressed page does not tell
/// it (BREACH): random bytes, and the token combined with them (XOR).
#[derive(Clone, PartialEq, Eq)]
struct CsrfToken([u8; SECRET_BYTES]);

impl CsrfToken {
    fn masked(&self) -> String {
        // A system without random numbers has no sessions.
        let mask = random().unwrap_or([0; SECRET_BYTES]);
        hex(&mask) + &hex(&self.combined(&mask))
    }

    /// Returns whether a text is one of its forms.
    fn is_shown(&self, text: &str) -> bool {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.unwrap_or_default();
        let Some((mask, combined)) = bytes.split_first_chunk::<SECRET_BYTES>() else {
            return false;
        };
        self.combined(mask).ct_eq(combined).into()
    }

    fn combined(&self, mask: &[u8; SECRET_BYTES]) -> [u8; SECRET_BYTES] {
        std::array::from_fn(|nth| self.0[nth] ^ mask[nth])
    }
}

impl std::fmt::Debug for CsrfToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CsrfToken")
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Table {
    fn by_cookie(&mut self, headers: &HeaderMap) -> Option<&mut Session> {
        let hashes: Vec<_> = cookies(headers).take(MAX_COOKIES).map(hash).collect();
        let is_it = |one: &&mut Session| {
            let is_one_of = |hash: &Vec<u8>| bool::from(one.hash.ct_eq(hash));
            hashes.iter().any(is_one_of)
        };
        self.all.iter_mut().find(is_it)
    }
}

impl Session {
    fn own(&self) -> OwnSession {
        OwnSession {
            id: self.id,
            token: self.csrf.clone(),
        }
    }
}

impl Sessions {
    /// Returns no sessions, which are opened with `token`.
    pub(crate) fn new(token: AdminToken) -> Self {
        Self {
            token,
            table: Mutex::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        let mut table = self.table.lock().recover();
        let token = self.token.in_force();
        let lives = |one: &Session| {
            let is_young = one.used.elapsed() < MAX_IDLE && one.began.elapsed() < MAX_AGE;
            is_young && token.as_ref() == Some(&one.opened_with)
        };
        table.all.retain(lives);
        table
    }

    /// Begins a session for a browser that has shown this token; returns the value of its cookie. `None`: the system has
    /// no random numbers.
    pub(crate) fn begin(&self, browser: &str, opened_with: Token) -> Option<String> {
        let (cookie, csrf) = (hex(&random()?), CsrfToken(random()?));
        let mut table = self.table();
        table.last += 1;
        if table.all.len() >= MAX_SESSIONS {
            let idlest = (0..table.all.len()).min_by_key(|nth| table.all[*nth].used);
            idlest.map(|nth| table.all.remove(nth));
        }
        let session = Session {
            id: table.last,
            hash: hash(&cookie),
            csrf,
            opened_with,
            browser: browser
                .chars()
                .filter(|c| !c.is_control())
                .take(120)
                .collect(),
            began: Instant::now(),
            began_at: unix_time(),
            used: Instant::now(),
            message: None,
            ended: CancellationToken::new().drop_guard(),
        };
        table.all.push(session);
        Some(cookie)
    }

    /// Returns the session whose cookie a request shows, and counts that as its use.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<OwnSession> {
        self.table().by_cookie(headers).map(|found| {
            found.used = Instant::now();
            found.own()
        })
    }

    /// Returns the session whose cookie a request shows. Does not count as its use.
    pub(crate) fn look_up(&self, headers: &HeaderMap) -> Option<OwnSession> {
        self.table().by_cookie(headers).map(|found| found.own())
    }

    /// Returns whether a session lives. Ends it if it was idle for too long, is too old, or was opened with another token
    /// than that in force.
    pub(crate) fn lives(&self, id: u64) -> bool {
        self.table().all.iter().any(|one| one.id == id)
    }

    /// Returns a token that is cancelled when a session ends; it is cancelled already if there is no such session.
    pub(crate) fn end_of(&self, id: u64) -> CancellationToken {
        let table = self.table();
        let found = table.all.iter().find(|one| one.id == id);
        found.map_or_else(cancelled, |one| one.ended.token().clone())
    }

    /// Ends a session; returns whether there was one.
    pub(crate) fn end(&self, id: u64) -> bool {
        let mut table = self.table();
        let before = table.all.len();
        table.all.retain(|one| one.id != id);
        let has_ended = table.all.len() < before;
        if has_ended {
            tracing::info!(id, "a session of the console was ended");
        }
        has_ended
    }

    /// Returns all sessions, the latest first.
    pub(crate) fn list(&self, own: Option<u64>) -> Vec<SessionInfo> {
        let table = self.table();
        let info = |one: &Session| SessionInfo {
            id: one.id,
            browser: one.browser.clone(),
            began: one.began_at,
            idle: one.used.elapsed().as_secs_f64(),
            own: own == Some(one.id),
        };
        table.all.iter().rev().map(info).collect()
    }

    /// Leaves a message for the next page of a session.
    pub(crate) fn leave_message(&self, id: u64, message: Message) {
        let mut table = self.table();
        if let Some(found) = table.all.iter_mut().find(|one| one.id == id) {
            found.message = Some(message);
        }
    }

    /// Takes the message for a page of a session.
    pub(crate) fn take_message(&self, id: u64) -> Option<Message> {
        let mut table = self.table();
        let found = table.all.iter_mut().find(|one| one.id == id)?;
        found.message.take()
    }
}

impl OwnSession {
    /// Returns the session's CSRF token, for one page.
    pub(crate) fn csrf(&self) -> String {
        self.token.masked()
    }

    /// Returns whether a change shows the session's CSRF token.
    pub(crate) fn is_shown(&self, csrf: &str) -> bool {
        self.token.is_shown(csrf)
    }
}

/// Returns the session's cookies of a request. There are several if a page on another port of this host has set one of the
/// same name, which must not hide ours.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(COOKIE).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';'));
    let named = pairs.filter_map(|pair| pair.trim().split_once('='));
    named.filter_map(|(name, value)| (name == COOKIE_NAME).then_some(value))
}

/// Returns a token that is cancelled.
fn cancelled() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

fn hash(cookie: &str) -> Vec<u8> {
    digest(&SHA256, cookie.as_bytes()).as_ref().to_vec()
}

/// Returns random bytes.
fn random() -> Option<[u8; SECRET_BYTES]> {
    let mut bytes = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(cookie: &str) -> HeaderMap {
        let line = format!("other=1; {COOKIE_NAME}=of-another-port; {COOKIE_NAME}={cookie}");
        HeaderMap::from_iter([(COOKIE, line.parse().expect("a value"))])
    }

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    /// Returns no sessions, which are opened with the token `s3cret`.
    fn sessions() -> Sessions {
        Sessions::new(AdminToken::new(Some(token("s3cret"))))
    }

    fn begin(sessions: &Sessions, browser: &str) -> String {
        let cookie = sessions.begin(browser, token("s3cret"));
        cookie.expect("random numbers")
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_with_the_token_that_opened_it() {
        let sessions = sessions();
        let cookie = begin(&sessions, "");
        let own = sessions.look_up(&shows(&cookie)).expect("it is there");
        let ended = sessions.end_of(own.id);
        sessions.token.replace(Some(token("s3cret")));
        assert!(sessions.lives(own.id), "the same token");
        sessions.token.replace(Some(token("other")));
        assert!(!sessions.lives(own.id) && ended.is_cancelled());
        assert!(sessions.find(&shows(&cookie)).is_none());
        let late = begin(&sessions, "");
        assert!(sessions.find(&shows(&late)).is_none(), "its login was late");
        let cookie = sessions.begin("", token("other")).expect("random numbers");
        assert!(sessions.find(&shows(&cookie)).is_some());
        sessions.token.replace(None);
        assert_eq!(sessions.list(None), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_lasts_while_it_is_used() {
        let sessions = sessions();
        let cookie = begin(&sessions, "Firefox\n");
        let own = sessions.find(&shows(&cookie)).expect("it is there");
        let csrf = own.csrf();
        assert!(own.is_shown(&csrf) && !own.is_shown("") && !own.is_shown(&cookie));
        let other = sessions.find(&shows(&cookie)).expect("it is there");
        let again = other.csrf();
        assert!(csrf != again && own.is_shown(&again) && other.is_shown(&csrf));
        for wrong in [
            "0".repeat(128),
            again[2..].to_owned(),
            format!("{csrf}00"),
            "é".repeat(64),
        ] {
            assert!(!own.is_shown(&wrong), "{wrong}");
        }
        assert!(sessions.find(&shows("other")).is_none());
        assert!(sessions.find(&HeaderMap::new()).is_none());
        assert_eq!(sessions.list(Some(own.id))[0].browser, "Firefox");
        for round in 1..=21 {
            tokio::time::advance(MAX_IDLE - Duration::from_secs(1)).await;
            let found = sessions.find(&shows(&cookie));
            assert_eq!(found.map(|found| found.id), Some(own.id), "{round}");
            assert_eq!(sessions.list(None).len(), 1);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(sessions.list(None).len(), 0);
        assert!(
            sessions.find(&shows(&cookie)).is_none(),
            "seven days are over"
        );
        let cookie = begin(&sessions, "");
        tokio::time::advance(MAX_IDLE).await;
        assert!(sessions.find(&shows(&cookie)).is_none(), "it was idle");
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded_and_can_be_ended() {
        let sessions = sessions();
        let first = begin(&sessions, "");
        let second = begin(&sessions, "");
        for _ in 2..=MAX_SESSIONS {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(sessions.find(&shows(&first)).is_some());
            begin(&sessions, "");
        }
        assert_eq!(sessions.list(None).len(), MAX_SESSIONS);
        assert!(
            sessions.find(&shows(&second)).is_none(),
            "it was idle longest"
        );
        let own = sessions.find(&shows(&first)).expect("it was used");
        assert!(sessions.end(own.id) && !sessions.end(own.id));
        assert!(sessions.find(&shows(&first)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_at_a_session_does_not_keep_it() {
        let sessions = sessions();
        let cookie = begin(&sessions, "");
        let own = sessions.look_up(&shows(&cookie)).expect("it is there");
        let ended = sessions.end_of(own.id);
        for _ in 0..7 {
            tokio::time::advance(MAX_IDLE / 8).await;
            assert!(sessions.look_up(&shows(&cookie)).is_some() && sessions.lives(own.id));
        }
        assert!(!ended.is_cancelled());
        tokio::time::advance(MAX_IDLE / 8).await;
        assert!(!sessions.lives(own.id) && ended.is_cancelled());
        assert!(sessions.look_up(&shows(&cookie)).is_none());
        assert!(sessions.end_of(own.id).is_cancelled(), "it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_told_once() {
        let sessions = sessions();
        let cookie = begin(&sessions, "");
        let id = sessions.find(&shows(&cookie)).expect("there").id;
        let message = Message {
            text: "done".to_owned(),
            is_error: false,
            copy: None,
        };
        sessions.leave_message(id, message.clone());
        assert_eq!(sessions.take_message(id), Some(message));
        assert_eq!(sessions.take_message(id), None);
    }
}
