//! Server-Sent Events: the live parts of a page, once a second.
//!
//! One task renders for all: each section that has a reader is rendered once a second, and sent to every reader of it if
//! it has changed. Rendering waits for nothing, so that no section holds up another. A reader gets the section at once as
//! it is when it comes. The task ends with the last reader. Readers are bounded in number; a slow one misses what is
//! between. Readers stay while the gateway drains, to see how far that is, and end when the admin listener stops.

use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::future::select_all;
use futures_util::stream::{self, StreamExt as _};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::Console;
use crate::access::AdmissionKind;
use crate::page;
use crate::section::{ALL, Section};
use tidegate_plan::Token;
use tidegate_telemetry::locks::Recover as _;

/// The most readers at once; the listener has 64 connections in all.
const MAX_READERS: usize = 32;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// The time after which a reader without an event gets a comment, which keeps proxies from ending the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The first line of every answer, in milliseconds: the listener ends each connection after some minutes, and the browser
/// comes back at once.
const RETRY: &str = "retry: 200\n\n";

/// The readers of live parts.
#[derive(Debug)]
pub(crate) struct LiveFeed {
    sections: [watch::Sender<String>; ALL.len()],
    /// Held while a reader comes and while the task decides whether it ends.
    task: Mutex<RenderTask>,
}

/// The task that renders, if there is one.
#[derive(Debug, Default)]
struct RenderTask(Option<JoinHandle<()>>);

/// One reader.
struct Reader {
    console: Console,
    /// Its sections.
    sections: Vec<(Section, watch::Receiver<String>)>,
    /// Its session, if it has one.
    session: Option<u64>,
    /// Cancelled when the session has ended.
    ended: CancellationToken,
    /// The admin token, if it has shown that.
    token: Option<Token>,
}

/// The request of a live part.
#[derive(Debug, Deserialize)]
pub(crate) struct LiveQuery {
    section: Section,
}

/// Renders the live part of a section.
fn render(section: Section, console: &Console) -> String {
    let markup = match section {
        Section::Now => page::now::live(console),
        Section::Streams => page::streams::live(console),
        Section::Objects => page::objects::live(console),
        Section::Tiers => page::tiers::live(console),
        Section::Writes => page::writes::live(console),
        Section::Events => page::events::live(console),
        Section::Doctor => page::doctor::live(console),
        Section::Charts => page::now::charts(console),
    };
    markup.into_string()
}

impl Default for LiveFeed {
    fn default() -> Self {
        Self {
            sections: std::array::from_fn(|_| watch::Sender::new(String::new())),
            task: Mutex::default(),
        }
    }
}

impl LiveFeed {
    fn sender(&self, section: Section) -> &watch::Sender<String> {
        &self.sections[section as usize]
    }

    /// Returns the number of readers.
    fn readers(&self) -> usize {
        let asked = ALL.iter().filter(|section| section.can_be_asked_for());
        asked
            .map(|section| self.sender(*section).receiver_count())
            .sum()
    }

    /// Sends a section to its readers if it has changed.
    fn publish(&self, section: Section, text: String) {
        self.sender(section).send_if_modified(|last| {
            let is_new = *last != text;
            if is_new {
                *last = text;
            }
            is_new
        });
    }
}

impl RenderTask {
    /// Begins the task unless it runs. A task that has panicked does not run.
    fn begin(&mut self, render: impl Future<Output = ()> + Send + 'static) {
        if self.0.as_ref().is_none_or(JoinHandle::is_finished) {
            self.0 = Some(tokio::spawn(render));
        }
    }
}

impl Console {
    /// Makes a reader of a section; `None`: there are too many.
    fn listen(&self, section: Section, admitted: &AdmissionKind) -> Option<Reader> {
        let mut task = self.live.task.lock().recover();
        if self.live.readers() >= MAX_READERS {
            return None;
        }
        let session = admitted.session().map(|own| own.id);
        let has_shown_token = *admitted == AdmissionKind::Token;
        let token = self.admin.token.in_force().filter(|_| has_shown_token);
        let sections = [section].into_iter().chain(section.beside());
        let with_receiver = |section| (section, self.live.sender(section).subscribe());
        let reader = Reader {
            console: self.clone(),
            sections: sections.map(with_receiver).collect(),
            session,
            ended: session.map_or_else(CancellationToken::new, |id| self.sessions.end_of(id)),
            token,
        };
        task.begin(self.clone().render_while_read());
        Some(reader)
    }

    /// Renders once a second for as long as there is a reader.
    async fn render_while_read(self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.stops_rendering() {
                return;
            }
            for section in ALL {
                if self.live.sender(section).receiver_count() > 0 {
                    self.live.publish(section, render(section, &self));
                }
            }
        }
    }

    /// Returns whether the task ends; the next reader begins another one then.
    fn stops_rendering(&self) -> bool {
        let mut task = self.live.task.lock().recover();
        let stops = self.stop.is_cancelled() || self.live.readers() == 0;
        if stops {
            task.0 = None;
        }
        stops
    }
}

impl Reader {
    /// Marks its sections as changed, as they are now.
    fn begin(&mut self) {
        for (section, receiver) in &mut self.sections {
            let text = render(*section, &self.console);
            self.console.live.publish(*section, text);
            receiver.mark_changed();
        }
    }

    /// Returns whether it may still read: its session lives, or the token that it has shown is in force. A session that was
    /// idle for too long ends here.
    fn may_read(&self) -> bool {
        let console = &self.console;
        let in_force = |token| console.admin.token.in_force().as_ref() == Some(token);
        let lives = self.session.is_none_or(|id| console.sessions.lives(id));
        lives && self.token.as_ref().is_none_or(in_force)
    }

    /// Returns the next event; `None`: its session, its token or the gateway ends.
    async fn next(&mut self) -> Option<String> {
        if !self.may_read() {
            return None;
        }
        let changed = self.sections.iter_mut().map(|(section, receiver)| {
            Box::pin(async {
                receiver.changed().await.ok()?;
                Some(event(*section, &receiver.borrow_and_update()))
            })
        });
        tokio::select! {
            biased;
            () = self.console.stop.cancelled() => None,
            () = self.ended.cancelled() => None,
            changed = timeout(KEEP_ALIVE, select_all(changed)) => match changed {
                Ok((event, ..)) => event,
                Err(_) => {
                    // Nothing has changed, or the task has panicked.
                    let mut task = self.console.live.task.lock().recover();
                    task.begin(self.console.clone().render_while_read());
                    Some(":\n\n".to_owned())
                }
            }
        }
    }
}

/// Answers `GET /console/live?section=now`.
pub(crate) async fn events(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Query(query): Query<LiveQuery>,
) -> Response {
    let Some(mut reader) = console.listen(query.section, &admitted) else {
        let body = "too many pages are open\n";
        return (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    };
    reader.begin();
    let parts = stream::unfold(reader, |mut reader| async {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    let first = stream::iter([Ok(RETRY.to_owned())]);
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    (
        headers,
        [("x-accel-buffering", "no")],
        Body::from_stream(first.chain(parts)),
    )
        .into_response()
}

/// Returns an event with this text. That of a section which cannot be asked for by itself has its name.
fn event(section: Section, text: &str) -> String {
    let mut event = String::with_capacity(text.len() + 32);
    if !section.can_be_asked_for() {
        event.push_str("event: ");
        event.push_str(section.name());
        event.push('\n');
    }
    // An empty text is one line too: without data there is no event.
    for line in text.split(['\n', '\r']) {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}

#[cfg(test)]
mod tests;
