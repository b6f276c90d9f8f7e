//! Hooks in paused time, with a receiver that records.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::Full;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::client::{Outcome, Transport};
use crate::{CallGrouping, HookSettings, Hooks, PreparedHooks};
use tidegate_plan::template::Template;
use tidegate_plan::{ChangeKind, FolderChange, KeyChange, ObjectKey};

mod endings;

const SECOND: Duration = Duration::from_secs(1);

/// Longer than anything that a hook does.
const LONG: Duration = Duration::from_secs(10_000);

/// Returns the settings of a hook for all changes.
pub(crate) fn settings(name: &str) -> HookSettings {
    HookSettings {
        name: name.to_owned(),
        on: vec![ChangeKind::Created, ChangeKind::Removed],
        origin: None,
        prefix: String::new(),
        each: CallGrouping::Key,
        debounce: 5 * SECOND,
        max_delay: 60 * SECOND,
        timeout: 10 * SECOND,
        retries: 2,
        method: Method::POST,
        url: Template::parse("http://r/{key}").expect("a template"),
        headers: HeaderMap::new(),
        body: None,
        path_prefix: String::new(),
        strip_prefix: String::new(),
    }
}

/// A receiver that answers in turn, then with 200; `Timeout` takes its time.
#[derive(Debug)]
struct Receiver {
    begun: Instant,
    answers: Mutex<VecDeque<Outcome>>,
    then: Outcome,
    seen: Mutex<Vec<(Duration, String)>>,
}

impl Receiver {
    fn new(answers: &[Outcome], then: Outcome) -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            answers: Mutex::new(answers.iter().copied().collect()),
            then,
            seen: Mutex::default(),
        })
    }

    /// Returns the paths of the requests, and the seconds at which they came.
    fn seen(&self) -> Vec<(u64, String)> {
        let seen = self.seen.lock().expect("requests");
        let seen = seen.iter();
        seen.map(|(at, path)| (at.as_secs(), path.clone()))
            .collect()
    }

    fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|(_, path)| path).collect()
    }
}

impl Transport for Receiver {
    fn send(&self, request: Request<Full<Bytes>>, limit: Duration) -> BoxFuture<'_, Outcome> {
        let path = request.uri().path().to_owned();
        let mut seen = self.seen.lock().expect("requests");
        seen.push((self.begun.elapsed(), path));
        let next = self.answers.lock().expect("answers").pop_front();
        let answer = next.unwrap_or(self.then);
        Box::pin(async move {
            if answer == Outcome::Timeout {
                sleep(limit).await;
            }
            answer
        })
    }
}

fn prepared(receiver: &Arc<Receiver>, settings: Vec<HookSettings>) -> PreparedHooks {
    let aliases = [("media", "media"), ("media-2", "media"), ("other", "other")];
    let aliases = aliases.map(|(name, alias)| (name.to_owned(), Arc::from(alias)));
    PreparedHooks {
        settings,
        aliases: HashMap::from(aliases),
        transport: receiver.clone(),
    }
}

fn hooks(receiver: &Arc<Receiver>, settings: Vec<HookSettings>) -> Hooks {
    Hooks::start(prepared(receiver, settings), &Handle::current())
}

pub(crate) fn change(key: &str, kind: ChangeKind) -> KeyChange {
    KeyChange::of("b", &ObjectKey::new(key).expect("a key"), kind)
}

fn created(key: &str) -> [KeyChange; 1] {
    [change(key, ChangeKind::Created)]
}

fn metrics(hooks: &Hooks) -> String {
    let (mut registry, mut text) = (Registry::default(), String::new());
    hooks.register(&mut registry);
    encode(&mut text, &registry).expect("text");
    text
}

fn metric(hooks: &Hooks, words: &[&str]) -> u64 {
    let text = metrics(hooks);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter(|line| words.iter().all(|word| line.contains(word)));
    let value = |line: &str| {
        line.rsplit_once(' ')
            .and_then(|(_, n)| n.parse::<u64>().ok())
    };
    lines.filter_map(value).sum()
}

const OK: Outcome = Outcome::Done;
const FAILED: Outcome = Outcome::Failed(StatusCode::INTERNAL_SERVER_ERROR);

#[tokio::test(start_paused = true)]
async fn a_call_comes_once_the_changes_have_settled() {
    let receiver = Receiver::new(&[], OK);
    let hooks = hooks(&receiver, vec![settings("h")]);
    for _ in 0..3 {
        hooks.changed("media", &created("a"));
        sleep(3 * SECOND).await;
    }
    assert_eq!(metric(&hooks, &["pending"]), 1);
    sleep(LONG).await;
    assert_eq!(receiver.seen(), [(11, "/a".to_owned())]);
    assert_eq!(metric(&hooks, &["pending"]), 0);
    assert_eq!(metric(&hooks, &["requests", "done"]), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_without_end_put_a_call_off_for_a_bounded_time() {
    let receiver = Receiver::new(&[], OK);
    let hooks = hooks(&receiver, vec![settings("h")]);
    for _ in 0..40 {
        hooks.changed("media", &created("a"));
        sleep(Duration::from_millis(3500)).await;
    }
    let times: Vec<_> = receiver.seen().into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [60, 123], "a minute after the first of each window");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_two_sources_report_is_called_for_once() {
    let receiver = Receiver::new(&[], OK);
    let hooks = hooks(&receiver, vec![settings("h")]);
    hooks.changed("media", &created("a"));
    sleep(SECOND).await;
    hooks.changed("media-2", &created("a"));
    hooks.changed("other", &created("a"));
    sleep(LONG).await;
    assert_eq!(receiver.paths(), ["/a", "/a"], "one for each bucket");
}

#[tokio::test(start_paused = true)]
async fn only_what_a_hook_covers_is_called_for() {
    let receiver = Receiver::new(&[], OK);
    let mut hook = settings("h");
    hook.origin = Some("media-2".to_owned());
    hook.prefix = "books/".to_owned();
    hook.on = vec![ChangeKind::Removed];
    let hooks = hooks(&receiver, vec![hook]);
    hooks.changed("media", &created("books/a"));
    hooks.changed("media", &[change("films/a", ChangeKind::Removed)]);
    hooks.changed("other", &[change("books/b", ChangeKind::Removed)]);
    sleep(LONG).await;
    assert!(receiver.seen().is_empty());
    hooks.changed("media", &[change("books/c", ChangeKind::Removed)]);
    sleep(LONG).await;
    assert_eq!(receiver.paths(), ["/books/c"]);
}

#[tokio::test(start_paused = true)]
async fn a_folder_of_changes_is_called_for_as_far_as_the_hook_covers_it() {
    let receiver = Receiver::new(&[], OK);
    let mut hook = settings("h");
    hook.prefix = "books/new".to_owned();
    hook.on = vec![ChangeKind::Removed];
    let hooks = hooks(&receiver, vec![hook]);
    let below = |folder: &str, kinds: &[ChangeKind]| FolderChange {
        bucket: "media".to_owned(),
        folder: folder.to_owned(),
        kinds: kinds.to_vec(),
        count: 3,
    };
    let both = [ChangeKind::Created, ChangeKind::Removed];
    hooks.changed_below("media", &below("films/", &both));
    hooks.changed_below("media", &below("", &both[..1]));
    sleep(LONG).await;
    assert!(receiver.seen().is_empty());
    for folder in ["", "books/newer/a/"] {
        hooks.changed_below("media", &below(folder, &both));
        sleep(LONG).await;
    }
    assert_eq!(receiver.paths(), ["/books/", "/books/newer/a/"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_puts_off_only_calls_for_what_it_covers() {
    let receiver = Receiver::new(&[], OK);
    let mut hook = settings("h");
    hook.prefix = "books/".to_owned();
    let hooks = hooks(&receiver, vec![hook]);
    let delay = |key| hooks.max_delay("media", &created(key)[0]);
    assert_eq!(delay("books/a"), Some(60 * SECOND));
    assert_eq!([delay("films/a"), delay("books/.tidegate/a")], [None; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_repeated_after_growing_pauses() {
    let receiver = Receiver::new(&[FAILED, Outcome::Timeout], OK);
    let hooks = hooks(&receiver, vec![settings("h")]);
    hooks.changed("media", &created("a"));
    sleep(LONG).await;
    let seen = receiver.seen.lock().expect("requests");
    let times: Vec<_> = seen.iter().map(|(at, _)| *at).collect();
    assert_eq!(times.len(), 3, "{times:?}");
    let pauses = [times[1] - times[0], times[2] - times[1] - 10 * SECOND];
    for (pause, whole) in pauses.into_iter().zip([SECOND, 2 * SECOND]) {
        // Timers count whole milliseconds.
        let least = (whole / 2).saturating_sub(Duration::from_millis(2));
        let most = whole + Duration::from_millis(2);
        assert!(pause >= least && pause <= most, "{pauses:?}");
    }
    assert_eq!(metric(&hooks, &["dropped"]), 0);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_down_is_called_again_for_the_next_change() {
    let receiver = Receiver::new(&[Outcome::Unreachable; 3], OK);
    let hooks = hooks(&receiver, vec![settings("h")]);
    for key in ["a", "b", "c"] {
        hooks.changed("media", &created(key));
    }
    sleep(LONG).await;
    assert_eq!(receiver.paths(), ["/a"; 3], "the others were dropped");
    assert_eq!(metric(&hooks, &["dropped", "failed"]), 1);
    assert_eq!(metric(&hooks, &["dropped", "silent"]), 2);
    hooks.changed("media", &created("d"));
    sleep(LONG).await;
    assert_eq!(receiver.paths()[3..], ["/d"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_or_sent_elsewhere_is_not_repeated() {
    let refused = [
        Outcome::Refused(StatusCode::UNAUTHORIZED),
        Outcome::Redirected(StatusCode::FOUND),
    ];
    let receiver = Receiver::new(&refused, OK);
    let hooks = hooks(&receiver, vec![settings("h")]);
    for key in ["a", "b", "c"] {
        hooks.changed("media", &created(key));
    }
    sleep(LONG).await;
    assert_eq!(receiver.paths(), ["/a", "/b", "/c"]);
    assert_eq!(metric(&hooks, &["dropped", "failed"]), 2);
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_call_wait_within_bounds() {
    let receiver = Receiver::new(&[Outcome::Timeout, FAILED], OK);
    let hooks = hooks(&receiver, vec![settings("h")]);
    hooks.changed("media", &created("a"));
    sleep(6 * SECOND).await;
    for number in 0..5000 {
        hooks.changed("media", &created(&format!("x/y/{number}")));
    }
    assert_eq!(metric(&hooks, &["pending"]), 5000);
    assert_eq!(metric(&hooks, &["widened"]), 1);
    sleep(LONG).await;
    assert_eq!(receiver.paths(), ["/a", "/a", "/a", "/x/y/"]);
}

#[tokio::test(start_paused = true)]
async fn one_hook_does_not_wait_for_another() {
    let receiver = Receiver::new(&[Outcome::Timeout], OK);
    let mut slow = settings("slow");
    slow.debounce = SECOND;
    let hooks = hooks(&receiver, vec![slow, settings("h")]);
    hooks.changed("media", &created("a"));
    sleep(LONG).await;
    let times: Vec<_> = receiver.seen().into_iter().map(|(at, _)| at).collect();
    assert_eq!(times[..2], [1, 5], "{times:?}");
}
