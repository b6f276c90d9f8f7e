//! Server-Sent Events: the live part of a page, once a second.
//!
//! One task renders for all: each section that has a reader is rendered once a second, and sent to every reader of it if
//! it has changed. The task ends with the last reader. Readers are bounded in number; a slow one misses what is between.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::Console;
use crate::page;
use crate::section::{ALL, Section};

/// The most readers at once; the listener has 64 connections in all.
const MAX_READERS: usize = 32;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// The readers of live parts.
#[derive(Debug)]
pub(crate) struct Live {
    sections: [watch::Sender<String>; ALL.len()],
    readers: AtomicUsize,
    runs: AtomicBool,
}

/// The place of one reader.
struct Place(Console);

/// The request of a live part.
#[derive(Debug, Deserialize)]
pub(crate) struct LiveQuery {
    section: Section,
}

/// Renders the live part of a section.
async fn render(section: Section, console: &Console) -> String {
    let markup = match section {
        Section::Now => page::now::live(console),
        Section::Streams => page::streams::live(console),
        Section::Tiers => page::tiers::live(console),
        Section::Writes => page::writes::live(console),
        Section::Events => page::events::live(console),
        Section::Doctor => page::doctor::live(console),
    };
    markup.into_string()
}

impl Default for Live {
    fn default() -> Self {
        Self {
            sections: std::array::from_fn(|_| watch::Sender::new(String::new())),
            readers: AtomicUsize::new(0),
            runs: AtomicBool::new(false),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.live.readers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Console {
    /// Takes a place among the readers; `None`: there are too many.
    fn listen(&self) -> Option<Place> {
        let readers = &self.live.readers;
        if readers.fetch_add(1, Ordering::AcqRel) >= MAX_READERS {
            readers.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let place = Place(self.clone());
        if !self.live.runs.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().render_while_read());
        }
        Some(place)
    }

    /// Renders once a second for as long as there is a reader.
    async fn render_while_read(self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.admin.draining.is_cancelled() || self.live.readers.load(Ordering::Acquire) == 0
            {
                self.live.runs.store(false, Ordering::Release);
                // A reader that came just now has seen the task as running.
                let missed = self.live.readers.load(Ordering::Acquire) > 0;
                if self.admin.draining.is_cancelled()
                    || !missed
                    || self.live.runs.swap(true, Ordering::AcqRel)
                {
                    return;
                }
            }
            for (section, sender) in ALL.iter().zip(&self.live.sections) {
                if sender.receiver_count() > 0 {
                    let text = render(*section, &self).await;
                    sender.send_if_modified(|last| {
                        let is_new = *last != text;
                        if is_new {
                            *last = text;
                        }
                        is_new
                    });
                }
            }
        }
    }
}

/// Answers `GET /console/live?section=now`.
pub(crate) async fn events(
    State(console): State<Console>,
    Query(query): Query<LiveQuery>,
) -> Response {
    let Some(place) = console.listen() else {
        let body = "too many pages are open\n";
        return (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    };
    let draining = console.admin.draining.clone();
    let at = ALL
        .iter()
        .position(|section| *section == query.section)
        .unwrap_or(0);
    let mut receiver = console.live.sections[at].subscribe();
    receiver.mark_unchanged();
    let state = (receiver, place, draining);
    let parts = stream::unfold(state, |(mut receiver, place, draining)| async move {
        let changed = tokio::time::timeout(Duration::from_secs(15), receiver.changed());
        let event = match draining.run_until_cancelled(changed).await? {
            Ok(Ok(())) => event(&receiver.borrow_and_update()),
            Ok(Err(_)) => return None,
            // A comment keeps proxies from ending the connection.
            Err(_) => ":\n\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(event), (receiver, place, draining)))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    (
        headers,
        [("x-accel-buffering", "no")],
        Body::from_stream(parts),
    )
        .into_response()
}

/// Returns an event with this text.
fn event(text: &str) -> String {
    let mut event = String::with_capacity(text.len() + 16);
    for line in text.lines() {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}
