//! The task under a paused clock, with a directory of its own.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tidegate_telemetry::locks::Recover as _;
use tidegate_tls::{Challenges, PreparedCertificates, TlsSettings};
use time::OffsetDateTime;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::*;
use crate::failure::{Failure, FailureKind};

mod clock;

const NAME: &str = "media.example.org";
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// The time of day at which each test begins.
const BEGIN: u64 = 1_800_000_000;

/// The answer of the directory to one order.
#[derive(Debug, Clone)]
enum Answer {
    /// A certificate for this name.
    For(&'static str),
    Refused,
    Limited(Option<Duration>),
    Never,
    /// A certificate, after which nothing can be removed here.
    Obstructed(PathBuf),
}

/// A directory that gives these answers, and after them certificates.
#[derive(Debug)]
struct FakeDirectory {
    begin: Instant,
    answers: Mutex<VecDeque<Answer>>,
    /// The times of orders since the beginning.
    orders: Mutex<Vec<Duration>>,
}

impl Directory for FakeDirectory {
    fn issue<'a>(
        &'a self,
        name: &'a str,
        _: &'a Arc<Challenges>,
    ) -> BoxFuture<'a, Result<String, Failure>> {
        let now = self.begin.elapsed();
        self.orders.lock().recover().push(now);
        let answer = self.answers.lock().recover().pop_front();
        let failure = |kind, asked| Failure {
            kind,
            asked,
            ..Failure::new("the tests say so")
        };
        match answer {
            None => std::future::ready(Ok(pem(name, now))).boxed(),
            Some(Answer::For(name)) => std::future::ready(Ok(pem(name, now))).boxed(),
            Some(Answer::Obstructed(path)) => {
                std::fs::remove_file(&path).expect("the note of a failure is there");
                std::fs::create_dir(&path).expect("made");
                std::future::ready(Ok(pem(name, now))).boxed()
            }
            Some(Answer::Never) => std::future::pending().boxed(),
            Some(Answer::Refused) => {
                std::future::ready(Err(failure(FailureKind::Refused, None))).boxed()
            }
            Some(Answer::Limited(asked)) => {
                std::future::ready(Err(failure(FailureKind::Limited, asked))).boxed()
            }
        }
    }
}

/// Returns a certificate that begins `since` the beginning, and its key.
fn pem(name: &str, since: Duration) -> String {
    let at =
        |seconds: u64| OffsetDateTime::from_unix_timestamp(seconds.cast_signed()).expect("a time");
    let begin = BEGIN + since.as_secs();
    let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
    params.not_before = at(begin);
    params.not_after = at(begin + LIFETIME.as_secs());
    let key = KeyPair::generate().expect("a key");
    let signed = params.self_signed(&key).expect("signed");
    format!("{}{}", signed.pem(), key.serialize_pem())
}

/// A folder, and what the task needs.
struct World {
    folder: TempDir,
    directory: Arc<FakeDirectory>,
    tls: Arc<Tls>,
    metrics: Metrics,
    /// The seconds by which the time of day is ahead.
    ahead: Arc<AtomicU64>,
}

impl World {
    fn new(answers: &[Answer]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = TlsSettings {
            certificates: settings(&folder, "a").certificates(),
            client_ca: None,
        };
        let prepared =
            PreparedCertificates::read(settings, &Arc::default()).expect("nothing to read");
        Self {
            folder,
            directory: Arc::new(FakeDirectory {
                begin: Instant::now(),
                answers: Mutex::new(answers.iter().cloned().collect()),
                orders: Mutex::default(),
            }),
            tls: Tls::new(prepared),
            metrics: Metrics::default(),
            ahead: Arc::default(),
        }
    }

    fn set_clock(&self, ahead: Duration) {
        self.ahead.store(ahead.as_secs(), Ordering::Relaxed);
    }

    fn prepared(&self, contact: &str) -> PreparedAcme {
        PreparedAcme {
            settings: settings(&self.folder, contact),
            directory: self.directory.clone(),
        }
    }

    /// Starts the task, as a process does.
    fn start(&self) -> (Acme, JoinHandle<()>) {
        let begin = self.directory.begin;
        let (present, settings) = watch::channel(Some(self.prepared("a")));
        let metrics = self.metrics.clone();
        let ahead = self.ahead.clone();
        let worker = Worker {
            tls: self.tls.clone(),
            metrics: metrics.clone(),
            clock: Arc::new(move || {
                let seconds = BEGIN + ahead.load(Ordering::Relaxed);
                SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + begin.elapsed()
            }),
        };
        (
            Acme { present, metrics },
            tokio::spawn(worker.run(settings)),
        )
    }

    fn orders(&self) -> Vec<Duration> {
        self.directory.orders.lock().recover().clone()
    }

    /// Returns how long after the beginning the certificate ends that is shown.
    fn shown_end(&self) -> Option<u64> {
        let mut registry = Registry::default();
        self.tls.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        let line = text.lines().find(|line| line.contains(NAME))?;
        let end: u64 = line.rsplit(' ').next()?.parse().ok()?;
        end.checked_sub(BEGIN)
    }
}

fn settings(folder: &TempDir, contact: &str) -> AcmeSettings {
    AcmeSettings {
        directory: "https://ca.example/directory".to_owned(),
        directory_ca: None,
        external_account: None,
        contact: vec![contact.to_owned()],
        names: vec![NAME.to_owned()],
        folder: folder.path().join("acme"),
    }
}

/// Asserts that a pause is between half of `most` and all of it, after `before`. Times in files are rounded to a second.
fn assert_paused(found: Duration, before: Duration, most: Duration) {
    let second = Duration::from_secs(1);
    let range = before + most / 2 - second..=before + most + second;
    assert!(range.contains(&found), "{found:?} is not in {range:?}");
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_ordered_at_once_and_renewed_at_two_thirds() {
    let world = World::new(&[]);
    let _running = world.start();
    sleep(MINUTE).await;
    assert_eq!(world.shown_end(), Some(LIFETIME.as_secs()));
    sleep(130 * DAY).await;
    let orders = world.orders();
    assert_eq!(orders.len(), 3, "{orders:?}");
    for (order, days) in orders.iter().zip([0, 60, 120]) {
        assert!(order.abs_diff(days * DAY) < MINUTE, "{orders:?}");
    }
    assert!(world.shown_end() > Some((209 * DAY).as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_failing_directory_leaves_the_certificate_and_is_asked_ever_more_rarely() {
    let world = World::new(&[]);
    let _running = world.start();
    sleep(MINUTE).await;
    let failures = [
        Answer::Refused,
        Answer::Never,
        Answer::For("other.example"),
        Answer::Refused,
    ];
    world.directory.answers.lock().recover().extend(failures);
    sleep(61 * DAY).await;
    let orders = world.orders();
    assert_eq!(orders.len(), 6, "{orders:?}");
    // The second attempt took its five minutes.
    for (at, before, most) in [(1, 0, 10), (2, 5, 20), (3, 0, 40), (4, 0, 80)] {
        let found = orders[at + 1] - orders[at];
        assert_paused(found, before * MINUTE, most * MINUTE);
    }
    let end = world.shown_end().expect("one is shown");
    assert!(end > (149 * DAY).as_secs(), "{end}");
    let files = Files::new(&settings(&world.folder, "a"));
    assert_eq!(files.read_failures(NAME).expect("the disk answers"), None);
    let mut registry = Registry::default();
    world.metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
    for (result, count) in [("issued", 2), ("refused", 2), ("failed", 2), ("limited", 0)] {
        let line = format!("acme_orders_total{{result=\"{result}\"}} {count}");
        assert!(text.contains(&line), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_directory_fails_the_old_certificate_is_shown() {
    let world = World::new(&[]);
    let _running = world.start();
    sleep(MINUTE).await;
    let always = (0..1000).map(|_| Answer::Refused);
    world.directory.answers.lock().recover().extend(always);
    sleep(100 * DAY).await;
    // It has ended by now, and is shown still: the client decides.
    assert_eq!(world.shown_end(), Some(LIFETIME.as_secs()));
    let orders = world.orders().len();
    // Half of them would be one in twelve hours, all of them one in six.
    assert!((95..135).contains(&orders), "{orders}: one in nine hours");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_asks_for_time_gets_it() {
    let asked = Answer::Limited(Some(120 * MINUTE));
    let world = World::new(&[asked, Answer::Limited(None)]);
    let _running = world.start();
    sleep(DAY).await;
    let orders = world.orders();
    assert_eq!(orders.len(), 3, "{orders:?}");
    assert!(orders[1] - orders[0] >= 120 * MINUTE, "{orders:?}");
    assert!(orders[2] - orders[1] >= 60 * MINUTE, "{orders:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_started_again_does_not_begin_with_an_order() {
    let world = World::new(&[Answer::Refused, Answer::Never]);
    for _ in 0..40 {
        let (_acme, task) = world.start();
        sleep(MINUTE).await;
        task.abort();
    }
    let orders = world.orders();
    // The second one was cut off in the middle of its order, which counts as a failure.
    assert_eq!(orders.len(), 3, "{orders:?}");
    assert_paused(orders[1] - orders[0], Duration::ZERO, 10 * MINUTE);
    assert_paused(orders[2] - orders[1], Duration::ZERO, 20 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn other_settings_are_tried_at_once_and_the_same_ones_change_nothing() {
    let world = World::new(&[Answer::Refused]);
    let (acme, _task) = world.start();
    sleep(MINUTE).await;
    acme.replace(Some(world.prepared("a")));
    sleep(MINUTE).await;
    assert_eq!(world.orders().len(), 1);
    acme.replace(Some(world.prepared("b")));
    sleep(MINUTE).await;
    assert_eq!(world.orders().len(), 2);
    assert!(world.shown_end().is_some());
    // The certificate that is there stays in force, also without any settings.
    acme.replace(None);
    sleep(80 * DAY).await;
    acme.replace(Some(world.prepared("b")));
    sleep(MINUTE).await;
    assert_eq!(world.orders().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_settings_bring_the_next_order_a_new_directory() {
    let world = World::new(&[Answer::Refused]);
    let (acme, _task) = world.start();
    sleep(MINUTE).await;
    let other = World::new(&[]);
    let renewed = PreparedAcme {
        directory: other.directory.clone(),
        ..world.prepared("a")
    };
    acme.replace(Some(renewed));
    sleep(20 * MINUTE).await;
    assert_eq!((world.orders().len(), other.orders().len()), (1, 1));
    // The attempt that had failed was not forgotten.
    assert!(other.orders()[0] >= 4 * MINUTE, "{:?}", other.orders());
    assert!(world.shown_end().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_note_that_stays_is_no_failure() {
    let world = World::new(&[]);
    let files = Files::new(&settings(&world.folder, "a"));
    let note = files.certificate(NAME).with_extension("retry");
    let obstructed = Answer::Obstructed(note.clone());
    world
        .directory
        .answers
        .lock()
        .recover()
        .push_back(obstructed);
    let _running = world.start();
    sleep(DAY).await;
    assert!(note.is_dir());
    assert_eq!(world.shown_end(), Some(LIFETIME.as_secs()));
    assert_eq!(world.orders().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_cannot_be_read_is_not_ordered_anew() {
    let world = World::new(&[]);
    let (_acme, task) = world.start();
    sleep(MINUTE).await;
    task.abort();
    let path = Files::new(&settings(&world.folder, "a")).certificate(NAME);
    for path in [path.clone(), path.with_extension("retry")] {
        let aside = path.with_extension("aside");
        let was_there = std::fs::rename(&path, &aside).is_ok();
        std::fs::create_dir(&path).expect("made");
        let (_acme, task) = world.start();
        sleep(DAY).await;
        assert_eq!(world.orders().len(), 1, "{path:?}");
        std::fs::remove_dir(&path).expect("removed");
        if was_there {
            std::fs::rename(&aside, &path).expect("back");
        }
        // The disk answers again: the certificate is renewed at its time.
        sleep(DAY).await;
        assert_eq!(world.orders().len(), 1, "{path:?}");
        task.abort();
    }
    let _running = world.start();
    sleep(60 * DAY).await;
    assert_eq!(world.orders().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_is_not_ordered() {
    let world = World::new(&[]);
    std::fs::write(world.folder.path().join("acme"), "no folder").expect("written");
    let _running = world.start();
    sleep(DAY).await;
    assert_eq!(world.orders(), Vec::<Duration>::new());
}
