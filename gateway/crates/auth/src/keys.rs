//! The keys of JWTs, out of a file or from a URL: loaded at the start, and again when they change.
//!
//! A file has to be a key set when a configuration comes into force, and is looked at every few seconds. A URL is fetched
//! now and then, and once for a token that names an unknown key: at most every [`MIN_INTERVAL`], whatever clients send. If
//! keys cannot be had, those before them stay for [`MAX_AGE`].

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use http::header::{ACCEPT, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use crate::client::{ClientError, client_for};
use crate::metrics::Metrics;
use tidegate_access::{JwtKeys, KeySet};
use tidegate_outbound::Client;

/// The most bytes of a key set.
const MAX_BYTES: usize = 256 << 10;

/// The time that a fetch may take, to its last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The least time between two fetches, and the time after which one that has failed is repeated.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// The time between two looks at a file.
const FILE_INTERVAL: Duration = Duration::from_secs(5);

/// The time that keys count for without a confirmation.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// The place where a key set lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksLocation {
    /// A file.
    File(PathBuf),
    /// A URL, which is fetched again after this time.
    Url(Uri, Duration),
}

/// A key set that is kept up to date for as long as this is kept.
#[derive(Debug)]
pub struct KeySource {
    loader: Arc<Loader>,
    /// Runs once keys were put in force.
    task: OnceLock<JoinHandle<()>>,
}

/// The keys that a source has next, which are not in force yet.
#[derive(Debug, Clone)]
pub struct PreparedKeys {
    fixed: Option<KeySet>,
    /// The set out of the source's file, if it has one.
    file: Option<FileKeys>,
}

/// The text of a file that is a key set.
#[derive(Debug, Clone)]
pub struct FileKeys {
    text: Vec<u8>,
    /// The file's time and size before it was read.
    seen: Option<(SystemTime, u64)>,
}

/// The error of a file that is no key set. It has no part of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The file is not there, or cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The file is there, and is no key set.
    #[error("{0}")]
    Invalid(String),
}

impl Drop for KeySource {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl FileKeys {
    /// Reads a key set.
    ///
    /// # Errors
    /// The file cannot be read, or is no key set.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let seen = stamp(path);
        let text = read_file(path)?;
        match KeySet::from_jwks(&text, true) {
            Ok(_) => Ok(Self { text, seen }),
            Err(error) => {
                let message = format!("{}: {error}", path.display());
                Err(KeyFileError::Invalid(message))
            }
        }
    }
}

impl KeySource {
    /// Returns the source of the access of this name. It has no keys, fetches none and counts nothing before
    /// [`KeySource::apply`].
    ///
    /// # Errors
    /// The URL can never be fetched.
    pub fn new(
        access: &str,
        location: JwksLocation,
        metrics: &Metrics,
    ) -> Result<Self, ClientError> {
        let client = match &location {
            JwksLocation::File(_) => None,
            JwksLocation::Url(uri, _) => Some(client_for(uri)?),
        };
        let loader = Loader {
            access: access.into(),
            keys: Arc::new(JwtKeys::new(None, client.is_some())),
            client,
            location,
            metrics: metrics.clone(),
            shown: OnceLock::new(),
            state: Arc::default(),
        };
        Ok(Self {
            loader: Arc::new(loader),
            task: OnceLock::new(),
        })
    }

    /// Returns whether its keys come from there.
    #[must_use]
    pub fn is_at(&self, location: &JwksLocation) -> bool {
        self.loader.location == *location
    }

    /// Reads its file, if it has one; `fixed` are to be in force beside the set. Changes nothing.
    ///
    /// # Errors
    /// The file cannot be read, or is no key set.
    pub fn prepare(&self, fixed: Option<KeySet>) -> Result<PreparedKeys, KeyFileError> {
        let file = match &self.loader.location {
            JwksLocation::File(path) => Some(FileKeys::read(path)?),
            JwksLocation::Url(..) => None,
        };
        Ok(PreparedKeys { fixed, file })
    }

    /// Puts prepared keys in force, and keeps them up to date from now on. A set that was fetched stays. One that cannot be
    /// fetched is no error: it is logged and counted.
    pub fn apply(&self, prepared: PreparedKeys) {
        let loader = &self.loader;
        loader.keys.replace_fixed(prepared.fixed);
        loader.shown.get_or_init(|| {
            let [loaded, failed] = loader.metrics.loads(&loader.access);
            ShownKeys {
                keys: loader.metrics.keys(&loader.access),
                loaded,
                failed,
            }
        });
        // A file that is being read again just now needs not be taken.
        if let (Some(file), Ok(mut state)) = (prepared.file, loader.state.try_lock()) {
            state.seen = file.seen;
            loader.take(&mut state, Ok(file.text));
        }
        loader.show_count();
        self.task.get_or_init(|| tokio::spawn(loader.clone().run()));
    }

    /// Returns the keys in force.
    #[must_use]
    pub fn keys(&self) -> Arc<JwtKeys> {
        self.loader.keys.clone()
    }

    /// Fetches the keys from their URL, unless that was done a short time ago. Requests at the same time wait for one
    /// fetch; a client that leaves does not end it.
    pub async fn refresh(&self) {
        let fetch = async {
            let mut state = self.loader.state.clone().lock_owned().await;
            if state.was_tried_lately() {
                return;
            }
            let loader = self.loader.clone();
            let fetch = tokio::spawn(async move { loader.fetch(&mut state).await });
            let _ = fetch.await;
        };
        let _ = timeout(FETCH_TIMEOUT, fetch).await;
    }
}

/// The outcome of the last attempts.
#[derive(Debug, Default)]
struct KeySourceState {
    tried: Option<Instant>,
    loaded: Option<Instant>,
    /// The text of the set in force.
    text: Vec<u8>,
    /// The file's time and size when it was read.
    seen: Option<(SystemTime, u64)>,
    /// The last failure, which is logged once.
    failure: Option<String>,
}

#[derive(Debug)]
struct Loader {
    access: Arc<str>,
    location: JwksLocation,
    client: Option<Client>,
    keys: Arc<JwtKeys>,
    metrics: Metrics,
    /// Its metrics, once its keys are in force. They are made once: a fetch may end after a reload has removed them.
    shown: OnceLock<ShownKeys>,
    /// Held during a fetch.
    state: Arc<Mutex<KeySourceState>>,
}

/// The metrics of a source.
#[derive(Debug)]
struct ShownKeys {
    /// The number of its keys.
    keys: Gauge,
    loaded: Counter,
    failed: Counter,
}

impl KeySourceState {
    fn was_tried_lately(&self) -> bool {
        self.tried.is_some_and(|at| at.elapsed() < MIN_INTERVAL)
    }
}

impl Loader {
    /// Keeps the keys up to date, for ever.
    async fn run(self: Arc<Self>) {
        loop {
            let pause = match &self.location {
                JwksLocation::File(path) => {
                    sleep(FILE_INTERVAL).await;
                    self.look(path).await;
                    continue;
                }
                JwksLocation::Url(_, refresh) => {
                    let mut state = self.state.lock().await;
                    self.fetch(&mut state).await;
                    match state.failure {
                        None => *refresh,
                        Some(_) => MIN_INTERVAL.min(*refresh),
                    }
                }
            };
            sleep(pause).await;
        }
    }

    /// Reads the file if it has changed, or could not be read the last time. A file that stays confirms its keys.
    async fn look(&self, path: &Path) {
        let mut state = self.state.lock().await;
        let (file, seen) = (path.to_owned(), state.seen);
        let has_failed = state.failure.is_some();
        let read = spawn_blocking(move || {
            let now = stamp(&file);
            (has_failed || now.is_none() || now != seen).then(|| (now, read_file(&file)))
        });
        match read.await {
            Ok(Some((now, read))) => {
                state.seen = now;
                self.take(&mut state, read.map_err(|error| error.to_string()));
            }
            Ok(None) => state.loaded = Some(Instant::now()),
            Err(_) => {}
        }
    }

    /// Fetches the set from its URL, unless that was tried a short time ago.
    async fn fetch(&self, state: &mut KeySourceState) {
        let (JwksLocation::Url(uri, _), Some(client)) = (&self.location, &self.client) else {
            return;
        };
        if state.was_tried_lately() {
            return;
        }
        state.tried = Some(Instant::now());
        let fetched = fetch(client, uri).await;
        self.take(state, fetched);
    }

    /// Puts what was loaded in force, if it is a key set.
    fn take(&self, state: &mut KeySourceState, text: Result<Vec<u8>, String>) {
        let is_file = matches!(self.location, JwksLocation::File(_));
        let loaded = text.and_then(|text| {
            if text == state.text && !text.is_empty() {
                return Ok(());
            }
            let set = KeySet::from_jwks(&text, is_file).map_err(|error| error.to_string())?;
            tracing::info!(
                access = &*self.access,
                keys = set.len(),
                "keys of JWTs loaded"
            );
            self.keys.replace(Some(set));
            state.text = text;
            Ok(())
        });
        if let Some(shown) = self.shown.get() {
            match loaded {
                Ok(()) => shown.loaded.inc(),
                Err(_) => shown.failed.inc(),
            };
        }
        match loaded {
            Ok(()) => {
                state.loaded = Some(Instant::now());
                state.failure = None;
            }
            Err(error) => self.fail(state, error),
        }
        self.show_count();
    }

    /// Shows how many keys are in force.
    fn show_count(&self) {
        if let Some(shown) = self.shown.get() {
            shown
                .keys
                .set(i64::try_from(self.keys.len()).unwrap_or(i64::MAX));
        }
    }

    /// Logs a failure, and takes keys out of force that were not confirmed for too long.
    fn fail(&self, state: &mut KeySourceState, error: String) {
        let is_old = |at: Instant| at.elapsed() >= MAX_AGE;
        if !state.text.is_empty() && state.loaded.is_none_or(is_old) {
            self.keys.replace(None);
            state.text.clear();
        }
        if state.failure.as_ref() != Some(&error) {
            let (access, keys) = (&*self.access, self.keys.len());
            match keys {
                0 => tracing::error!(access, error, "no keys of JWTs: `jwt` admits no request"),
                _ => tracing::warn!(access, error, keys, "keys of JWTs were not loaded again"),
            }
            state.failure = Some(error);
        }
    }
}

async fn fetch(client: &Client, uri: &Uri) -> Result<Vec<u8>, String> {
    let request = Request::get(uri.clone())
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "tidegate")
        .body(Full::default())
        .map_err(|error| error.to_string())?;
    let answer = client.fetch(request, FETCH_TIMEOUT, MAX_BYTES).await;
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status() != StatusCode::OK {
        return Err(format!("the answer was {}", answer.status().as_u16()));
    }
    Ok(answer.into_body().to_vec())
}

/// Returns the time and size of a regular file.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

/// Reads a key set. A device or a pipe, which may never end, is none.
fn read_file(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let unreadable = |error: std::io::Error| {
        let message = format!("{}: {error}", path.display());
        KeyFileError::Unreadable(message)
    };
    let invalid = |what: &str| KeyFileError::Invalid(format!("{}: {what}", path.display()));
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(invalid("is no regular file"));
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    file.take(limit)
        .read_to_end(&mut text)
        .map_err(unreadable)?;
    match text.len() <= MAX_BYTES {
        true => Ok(text),
        false => Err(invalid(&format!("is longer than {MAX_BYTES} bytes"))),
    }
}

#[cfg(test)]
mod tests;
