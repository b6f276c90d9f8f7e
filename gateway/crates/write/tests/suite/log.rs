//! The lines of the log about drafts that wait for the bucket.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tidegate_write::Stage;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Subscriber, set_default};
use tracing::{Event, Level, Metadata};

use crate::support::engine::{pass, secs};
use crate::support::spool::{Desk, Terms, down, until};

/// The closed objects of these tests.
const OBJECTS: usize = 100;

/// The lines from INFO on that the test's thread logs, one event each.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// Collects the lines of this thread until the guard is dropped.
    fn collect() -> (Self, DefaultGuard) {
        let lines = Self::default();
        (lines.clone(), set_default(lines))
    }

    /// Returns the lines with a text.
    fn with(&self, text: &str) -> Vec<String> {
        let lines = self.0.lock().expect("lines");
        lines
            .iter()
            .filter(|it| it.contains(text))
            .cloned()
            .collect()
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().expect("lines").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One line as it is put together.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

/// Closes the objects while the bucket is down.
async fn close_all(desk: &Desk) {
    desk.bucket().set_faults([down()]);
    for number in 0..OBJECTS {
        let bytes = format!("content {number}").into();
        desk.write(&format!("object-{number}"), &bytes).await;
    }
}

const WAITS: &str = "not in the bucket yet";
const ENDED: &str = "no closed object waits for the bucket any more";

/// Ten minutes without the bucket are some 1,400 failed tries.
#[tokio::test(start_paused = true)]
async fn an_outage_is_a_line_a_minute_with_the_number_of_objects() {
    let (lines, _collected) = Lines::collect();
    let desk = Desk::new(Terms::background());
    close_all(&desk).await;
    for _ in 0..600 {
        pass(secs(1)).await;
    }
    let waits = lines.with(WAITS);
    assert!((2..=11).contains(&waits.len()), "{waits:#?}");
    let last = waits.last().expect("a line");
    let waiting = format!("waiting={OBJECTS}");
    assert!(
        last.starts_with("WARN") && last.contains(&waiting),
        "{last}"
    );
    assert!(last.contains("error=the origin is unavailable"), "{last}");
    assert_eq!(lines.with(ENDED), Vec::<String>::new());

    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    until(|| !lines.with(ENDED).is_empty()).await;
    let ended = lines.with(ENDED);
    assert!(
        ended.len() == 1 && ended[0].starts_with("INFO"),
        "{ended:?}"
    );
    assert_eq!(lines.with(WAITS).len(), waits.len());
    assert_eq!(desk.object("object-7"), Some("content 7".into()));
}

/// A refusal needs a decision about each object. An outage does not hide it.
#[tokio::test(start_paused = true)]
async fn each_refused_object_has_a_line_of_its_own() {
    let (lines, _collected) = Lines::collect();
    let desk = Desk::new(Terms::background());
    for number in 0..OBJECTS {
        desk.bucket().put(&format!("object-{number}"), "before");
    }
    let mut writers = Vec::new();
    for number in 0..OBJECTS {
        writers.push(desk.change(&format!("object-{number}")).await);
    }
    desk.bucket().set_faults([down()]);
    for writer in writers {
        writer.write_at(0, "ours".into()).await.expect("written");
        writer.commit(desk.commit).await.expect("promised");
    }
    pass(secs(5)).await;
    for number in 0..OBJECTS {
        desk.bucket().put(&format!("object-{number}"), "theirs");
    }
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    let pending = desk.writers.pending();
    let is_refused = pending.iter().all(|it| it.stage == Stage::Refused);
    assert!(is_refused && pending.len() == OBJECTS);
    let refused = lines.with("a closed object was refused; it stays in the spool");
    for number in 0..OBJECTS {
        let key = format!("key=\"object-{number}\"");
        let of_key = refused.iter().filter(|it| it.contains(&key));
        assert_eq!(of_key.count(), 1, "{key}: {refused:#?}");
    }
}
