//! The certificates of SNS: fetched once, with bounds for strangers who name others in forged messages.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_plan::Generations;
use tidegate_telemetry::locks::Recover as _;
use tokio::time::Instant;

use super::signature::Certificate;
use super::{AwsUrl, Fetch, FetchError, SnsError};

/// The certificates that are kept. A region has one or two.
const MAX_CERTIFICATES: usize = 8;

/// A certificate that was not to be had is not fetched again for this long.
pub(super) const FAILURE_MEMORY: Duration = Duration::from_secs(30);

/// The most fetches in [`FETCH_WINDOW`]: forged messages can name any number of certificates.
pub(super) const MAX_FETCHES: usize = 8;

/// See [`MAX_FETCHES`].
pub(super) const FETCH_WINDOW: Duration = Duration::from_secs(60);

/// The most of them for certificates that are named for the first time. The others are for those that were refused before: SNS
/// names its own in each message, and sends a refused message again.
pub(super) const MAX_NEW_FETCHES: usize = MAX_FETCHES / 2;

/// At least as many certificates are remembered as refused or not to be had, and at most twice as many.
const MAX_REFUSED: usize = 1024;

/// The certificates that messages have named.
#[derive(Default)]
pub(super) struct Certificates(Mutex<Answers>);

struct Answers {
    kept: VecDeque<(AwsUrl, Arc<Certificate>)>,
    /// The fetches of the last [`FETCH_WINDOW`], the oldest first.
    fetches: VecDeque<Instant>,
    /// Those that were not to be had lately: as many as fetches may begin meanwhile.
    failed: VecDeque<(AwsUrl, Instant, SnsError)>,
    /// By the hash of their URL, whether those that are not known may have a fetch beyond [`MAX_NEW_FETCHES`]: they were
    /// refused, and no fetch has failed.
    refused: Generations<u64, bool>,
    hasher: RandomState,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            fetches: VecDeque::new(),
            failed: VecDeque::new(),
            refused: Generations::new(MAX_REFUSED),
            hasher: RandomState::new(),
        }
    }
}

impl Certificates {
    /// Returns the certificate at `url`, fetched if it is not known.
    pub(super) async fn get(
        &self,
        url: AwsUrl,
        fetch: &dyn Fetch,
    ) -> Result<Arc<Certificate>, SnsError> {
        if let Some(answer) = self.answers().known(&url, Instant::now()) {
            return answer;
        }
        let fetched = fetch.fetch(&url).await.map_err(SnsError::from);
        let read = |document: bytes::Bytes| Certificate::read(&document).ok_or(SnsError::Signature);
        let answer = fetched.and_then(read).map(Arc::new);
        self.answers().add(url, &answer, Instant::now());
        answer
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().recover()
    }
}

impl Answers {
    /// Returns what is known of a certificate; `None` if it is to be fetched, which counts as begun.
    fn known(&mut self, url: &AwsUrl, now: Instant) -> Option<Result<Arc<Certificate>, SnsError>> {
        if let Some((_, certificate)) = self.kept.iter().find(|(other, _)| other == url) {
            return Some(Ok(certificate.clone()));
        }
        self.failed
            .retain(|(_, at, _)| now.duration_since(*at) < FAILURE_MEMORY);
        if let Some((.., error)) = self.failed.iter().find(|(other, ..)| other == url) {
            return Some(Err(error.clone()));
        }
        self.fetches
            .retain(|at| now.duration_since(*at) < FETCH_WINDOW);
        let hash = self.hasher.hash_one(url);
        let refused = self.refused.get(&hash).copied();
        let max_fetches = match refused {
            Some(true) => MAX_FETCHES,
            _ => MAX_NEW_FETCHES,
        };
        if self.fetches.len() >= max_fetches {
            if refused.is_none() {
                self.refused.insert(hash, true);
            }
            let error = FetchError("too many certificates are asked for".to_owned());
            return Some(Err(error.into()));
        }
        self.fetches.push_back(now);
        None
    }

    fn add(&mut self, url: AwsUrl, answer: &Result<Arc<Certificate>, SnsError>, now: Instant) {
        match answer {
            Ok(certificate) => {
                if self.kept.len() == MAX_CERTIFICATES {
                    self.kept.pop_front();
                }
                self.kept.push_back((url, certificate.clone()));
            }
            Err(error) => {
                self.refused.insert(self.hasher.hash_one(&url), false);
                self.failed.push_back((url, now, error.clone()));
            }
        }
    }
}
