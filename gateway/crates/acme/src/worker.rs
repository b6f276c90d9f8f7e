//! The task: one order at a time, each at its time.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::directory::Directory;
use crate::failure::{Failure, FailureKind};
use crate::files::{Failures, Files, certificate_of, failures_of};
use crate::metrics::Metrics;
use crate::schedule::{
    longest_wait, next_renewal, noted_delay, polite_delay, renewal, retry_delay,
};
use crate::{Clock, PreparedAcme};
use tidegate_telemetry::random::draw;
use tidegate_tls::{IssuedCertificate, Tls};

/// The time of one order, with all its requests and waits.
const ORDER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The time after which files are read again that the disk has not given.
const READ_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The longest sleep: after it the time of day is looked at again, which may have been set.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

/// The beginning of the year 10000, since 1970. Later times have no date of HTTP.
const END_OF_DATES: Duration = Duration::from_secs(253_402_300_800);

/// The settings that were put in force last.
type SettingsReceiver = watch::Receiver<Option<PreparedAcme>>;

/// The parts of the task.
pub(crate) struct Worker {
    pub(crate) tls: Arc<Tls>,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
}

/// A name, and when its certificate is ordered.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    /// The time of day of the order.
    due: SystemTime,
    /// The same by the clock that is never set. The earlier one counts: a time of day that was wrong stops no order.
    latest: Instant,
    /// The attempts that have failed since the last certificate.
    failures: u32,
    /// The time when the certificate ends that is there.
    end: Option<SystemTime>,
    /// Whether the disk has not told what is there: then its files are read again at that time, and nothing is ordered.
    is_unread: bool,
}

impl Entry {
    /// Makes the entry of a name for which the disk does not answer.
    fn unread(name: &str, now: SystemTime) -> Self {
        Self {
            name: name.to_owned(),
            due: now + READ_RETRY_DELAY,
            latest: Instant::now() + READ_RETRY_DELAY,
            failures: 0,
            end: None,
            is_unread: true,
        }
    }

    /// Returns how long the order is waited for.
    fn left(&self, now: SystemTime) -> Duration {
        let by_day = self.due.duration_since(now).unwrap_or_default();
        by_day.min(self.latest.saturating_duration_since(Instant::now()))
    }
}

impl Worker {
    /// Keeps the certificates of the settings in force, until their sender is gone.
    pub(crate) async fn run(self, mut settings: SettingsReceiver) {
        let mut is_first = true;
        loop {
            let present = settings.borrow_and_update().clone();
            let latest = settings.clone();
            let keep = async {
                match present {
                    Some(present) => self.keep(&present, &latest, is_first).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = keep => return,
                changed = settings.changed() => if changed.is_err() {
                    return;
                },
            }
            // Other settings may have mended what had failed.
            is_first = false;
        }
    }

    /// Orders each certificate when its time has come. It does not end by itself.
    async fn keep(&self, present: &PreparedAcme, latest: &SettingsReceiver, counts_failures: bool) {
        let files = Files::new(&present.settings);
        let mut entries = Vec::new();
        for name in &present.settings.names {
            entries.push(self.entry(&files, name, counts_failures).await);
        }
        loop {
            let now = (self.clock)();
            // Of several whose time has come, the one that has waited longest.
            let first = |entry: &&mut Entry| (entry.left(now), entry.due);
            let Some(next) = entries.iter_mut().min_by_key(first) else {
                return pending().await;
            };
            let left = next.left(now);
            if left.is_zero() && next.is_unread {
                *next = self.entry(&files, &next.name, counts_failures).await;
            } else if left.is_zero() {
                let directory = directory(present, latest);
                self.order(&*directory, &files, next).await;
            } else {
                sleep(left.min(MAX_SLEEP)).await;
            }
        }
    }

    /// Returns when a certificate is ordered: when the one that is there is due, but not before failures allow it.
    async fn entry(&self, files: &Files, name: &str, counts_failures: bool) -> Entry {
        let (own, named) = (files.clone(), name.to_owned());
        let read = spawn_blocking(move || {
            io::Result::Ok((own.read_issued(&named)?, own.read_failures(&named)?))
        });
        let read = read.await.map_err(io::Error::other).flatten();
        let (issued, failures) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(name, %error, "the certificate cannot be read, and none is ordered until then");
                return Entry::unread(name, (self.clock)());
            }
        };
        let issued = issued.filter(|issued| is_for(issued, name));
        let failures = failures.filter(|_| counts_failures);
        let now = (self.clock)();
        let due = issued.as_ref().and_then(renewal).unwrap_or(now);
        let longest = issued.as_ref().and_then(longest_wait).unwrap_or_default();
        let wait = due.duration_since(now).unwrap_or_default().min(longest);
        let earliest = failures.map_or(now, Failures::next);
        let count = failures.map_or(0, |failures| failures.count);
        let wait = wait.max(noted_delay(earliest, now, retry_delay(count, draw())));
        let entry = Entry {
            name: name.to_owned(),
            due: due.max(earliest),
            latest: Instant::now() + wait,
            failures: count,
            end: issued.as_ref().and_then(end_of),
            is_unread: false,
        };
        let (at, end) = (date(Some(now + entry.left(now))), date(entry.end));
        tracing::info!(name, at, end, "the next order of a certificate");
        entry
    }

    /// Orders one certificate, and sets the time of the next order.
    async fn order(&self, directory: &dyn Directory, files: &Files, entry: &mut Entry) {
        let own_delay = retry_delay(entry.failures.saturating_add(1), draw());
        let issued = self.attempt(directory, files, entry, own_delay).await;
        self.metrics
            .count(issued.as_ref().err().map(|one| one.kind));
        let now = (self.clock)();
        let failure = match issued {
            Ok((issued, due)) => {
                entry.failures = 0;
                (entry.due, entry.end) = (due, end_of(&issued));
                entry.latest = Instant::now() + longest_wait(&issued).unwrap_or_default();
                let name = &*entry.name;
                let (end, renewal) = (date(entry.end), date(Some(due)));
                tracing::info!(name, end, renewal, "certificate issued and shown");
                return;
            }
            Err(failure) => failure,
        };
        let is_limited = failure.kind == FailureKind::Limited;
        let delay = polite_delay(own_delay, is_limited, failure.asked);
        entry.failures = entry.failures.saturating_add(1);
        (entry.due, entry.latest) = (now + delay, Instant::now() + delay);
        report(entry, &failure, now);
        let kept = Failures::new(entry.failures, entry.due);
        if delay > own_delay
            && let Err(failure) = write_failures(files, &entry.name, kept).await
        {
            tracing::warn!(name = entry.name, reason = %failure, "a restart may ask the authority too early");
        }
    }

    /// Makes one attempt. Returns the certificate that is shown now, and when it is renewed.
    async fn attempt(
        &self,
        directory: &dyn Directory,
        files: &Files,
        entry: &Entry,
        delay: Duration,
    ) -> Result<(IssuedCertificate, SystemTime), Failure> {
        let name = &*entry.name;
        // First the note of a failure: a process that dies in an order does not begin with another one, and what cannot be
        // written is not ordered.
        let now = (self.clock)();
        let failures = Failures::new(entry.failures.saturating_add(1), now + delay);
        write_failures(files, name, failures).await?;
        let challenges = self.tls.challenges();
        let issue = directory.issue(name, &challenges);
        let pem = timeout(ORDER_TIMEOUT, issue).await;
        let pem = pem.map_err(|_| Failure::new("the order took too long"))??;
        let issued = IssuedCertificate::parse(&files.certificate(name), pem.as_bytes());
        let issued = issued.map_err(Failure::new)?;
        if !is_for(&issued, name) {
            return Err(Failure::new("the certificate is for another name"));
        }
        let due = next_renewal(&issued, (self.clock)());
        let due = due.ok_or_else(|| Failure::new("the certificate has no lifetime"))?;
        let (own, named, tls) = (files.clone(), name.to_owned(), self.tls.clone());
        let written = spawn_blocking(move || {
            own.write(&certificate_of(&named), pem.as_bytes())?;
            tls.refresh();
            // The certificate is there and shown, also if this fails.
            if let Err(error) = own.remove(&failures_of(&named)) {
                tracing::warn!(name = named, %error, "the note of a failed order stays");
            }
            io::Result::Ok(())
        });
        written
            .await
            .map_err(Failure::new)?
            .map_err(|error| Failure::new(format!("the certificate cannot be kept: {error}")))?;
        Ok((issued, due))
    }
}

/// Returns the directory that the next order asks: the latest one of the same settings, whose authorities were read last.
fn directory(present: &PreparedAcme, latest: &SettingsReceiver) -> Arc<dyn Directory> {
    let latest = latest.borrow();
    let same = latest
        .as_ref()
        .filter(|one| one.settings == present.settings);
    same.unwrap_or(present).directory.clone()
}

/// Logs a failure: as an error if no certificate holds.
fn report(entry: &Entry, failure: &Failure, now: SystemTime) {
    let Entry { name, failures, .. } = entry;
    let (next, end) = (date(Some(entry.due)), date(entry.end));
    let (reason, hint) = (&*failure.reason, failure.hint);
    match entry.end.is_some_and(|end| end > now) {
        true => tracing::warn!(
            name,
            reason,
            hint,
            failures,
            next,
            end,
            "no new certificate: the one that is there stays"
        ),
        false => tracing::error!(
            name,
            reason,
            hint,
            failures,
            next,
            end,
            "no certificate that holds: clients of this name are refused or warned"
        ),
    }
}

async fn write_failures(files: &Files, name: &str, failures: Failures) -> Result<(), Failure> {
    let (files, name) = (files.clone(), name.to_owned());
    let written = spawn_blocking(move || files.write_failures(&name, failures)).await;
    let failed = |error| {
        Failure::new(format!(
            "the folder of `tls.acme` cannot be written: {error}"
        ))
    };
    written.map_err(Failure::new)?.map_err(failed)
}

fn is_for(issued: &IssuedCertificate, name: &str) -> bool {
    issued.names.iter().any(|one| one == name)
}

fn end_of(issued: &IssuedCertificate) -> Option<SystemTime> {
    let end = u64::try_from(issued.end).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(end))
}

/// Returns a time for the log; `none` if there is none.
fn date(time: Option<SystemTime>) -> String {
    let Some(time) = time else {
        return "none".to_owned();
    };
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    match since.is_ok_and(|since| since < END_OF_DATES) {
        true => httpdate::fmt_http_date(time),
        false => "not within the years 1970 to 9999".to_owned(),
    }
}
