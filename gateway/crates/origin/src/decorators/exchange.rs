//! An origin whose settings are exchanged while requests are answered.
//!
//! A request that has begun ends with the settings that it began with. A store that refuses a request may do so because
//! its keys were replaced: their files are read again, and the request is sent once more with the new ones.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use futures_core::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::{
    Answer, Get, List, Listing, Metrics, Origin, OriginError, OriginWrite, Settings, SetupError,
    Write, WriteOutcome, connect,
};
use tidegate_plan::{Bucket, ObjectKey, OriginId, Version};

/// The least time between two readings of the secrets because of a refusal: a bucket may refuse single keys for ever.
const READING_INTERVAL: Duration = Duration::from_secs(1);

/// The time that a reading may take.
const READING_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the settings again, with the secrets in their files as they are now; `None` if they cannot be read. Blocks.
pub type SettingsReader = Arc<dyn Fn() -> Option<Settings> + Send + Sync>;

/// See the module documentation.
pub struct LiveOrigin {
    id: OriginId,
    bucket: Bucket,
    current: ArcSwap<ConnectedOrigin>,
    metrics: Metrics,
    /// The time of the last reading because of a refusal. Locked while it is under way.
    last_reading: Mutex<Option<Instant>>,
}

/// An origin, the settings that it was connected with, and the way to read them again.
pub struct ConnectedOrigin {
    settings: Settings,
    read_again: SettingsReader,
    origin: Arc<dyn Origin>,
}

impl fmt::Debug for ConnectedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectedOrigin")
            .field("settings", &self.settings)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LiveOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveOrigin")
            .field(&self.current.load())
            .finish()
    }
}

impl LiveOrigin {
    /// Connects to the bucket that `settings` describe, with every decorator around it.
    ///
    /// # Errors
    /// The settings do not describe a usable bucket.
    pub async fn connect(
        settings: Settings,
        metrics: &Metrics,
        read_again: SettingsReader,
    ) -> Result<Self, SetupError> {
        let origin = connect(&settings, metrics).await?;
        Ok(Self {
            id: settings.id(),
            bucket: settings.place(),
            current: ArcSwap::from_pointee(ConnectedOrigin {
                settings,
                read_again,
                origin,
            }),
            metrics: metrics.clone(),
            last_reading: Mutex::default(),
        })
    }

    /// Connects with other settings of the same bucket and identity, which `read_again` reads; `None` if they are of
    /// another bucket or identity. Settings that stay keep their connections and what the decorators know. Nothing changes
    /// before [`LiveOrigin::exchange`].
    ///
    /// # Errors
    /// The settings do not describe a usable bucket.
    pub async fn prepare(
        &self,
        settings: Settings,
        read_again: SettingsReader,
    ) -> Result<Option<ConnectedOrigin>, SetupError> {
        if settings.id() != self.id {
            return Ok(None);
        }
        let current = self.current.load_full();
        let origin = match settings == current.settings {
            true => current.origin.clone(),
            false => connect(&settings, &self.metrics).await?,
        };
        Ok(Some(ConnectedOrigin {
            settings,
            read_again,
            origin,
        }))
    }

    /// Puts prepared settings in force.
    pub fn exchange(&self, connected: ConnectedOrigin) {
        self.current.store(Arc::new(connected));
    }

    /// Sends a request; if it is refused and the secrets have changed, sends it again.
    async fn send<T>(
        &self,
        send: impl Fn(Arc<ConnectedOrigin>) -> BoxFuture<'static, Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let used = self.current.load_full();
        let answer = send(used.clone()).await;
        if !matches!(answer, Err(OriginError::Forbidden)) {
            return answer;
        }
        match self.with_other_secrets(&used).await {
            Some(other) => send(other).await,
            None => answer,
        }
    }

    /// Returns the origin with other secrets than those that were refused, if there are any by now. Requests that are refused
    /// while the secrets are read wait for them.
    async fn with_other_secrets(
        &self,
        refused: &Arc<ConnectedOrigin>,
    ) -> Option<Arc<ConnectedOrigin>> {
        let mut last = self.last_reading.lock().await;
        let current = self.current.load_full();
        if !Arc::ptr_eq(&current, refused) {
            return Some(current);
        }
        if last.is_some_and(|last| last.elapsed() < READING_INTERVAL) {
            return None;
        }
        let read = timeout(READING_TIMEOUT, self.read_secrets(refused)).await;
        *last = Some(Instant::now());
        let connected = Arc::new(read.ok()??);
        // A reload may have put others in force meanwhile, which know better.
        let before = self.current.compare_and_swap(refused, connected.clone());
        if !Arc::ptr_eq(&before, refused) {
            return Some(Guard::into_inner(before));
        }
        tracing::info!(origin = %refused.settings.name, "the origin refused a request, and its secrets have changed: they are read again");
        Some(connected)
    }

    /// Connects with the secrets that are in their files by now, if they are others.
    async fn read_secrets(&self, refused: &ConnectedOrigin) -> Option<ConnectedOrigin> {
        let read_again = refused.read_again.clone();
        let read = tokio::task::spawn_blocking({
            let read_again = read_again.clone();
            move || read_again()
        });
        let settings = Settings {
            credentials: read.await.ok()??.credentials,
            ..refused.settings.clone()
        };
        if settings == refused.settings {
            return None;
        }
        let origin = connect(&settings, &self.metrics).await.ok()?;
        Some(ConnectedOrigin {
            settings,
            read_again,
            origin,
        })
    }
}

impl Origin for LiveOrigin {
    fn id(&self) -> OriginId {
        self.id
    }

    fn bucket(&self) -> Bucket {
        self.bucket
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(self.send(move |used| {
            let request = request.clone();
            Box::pin(async move { used.origin.get(request).await })
        }))
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        let key = key.clone();
        Box::pin(self.send(move |used| {
            let key = key.clone();
            Box::pin(async move { used.origin.head(&key).await })
        }))
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        let key = key.clone();
        Box::pin(self.send(move |used| {
            let key = key.clone();
            Box::pin(async move { used.origin.peek(&key).await })
        }))
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(self.send(move |used| {
            let request = request.clone();
            Box::pin(async move { used.origin.list(request).await })
        }))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        Box::pin(self.send(|used| Box::pin(async move { used.origin.probe().await })))
    }

    /// New settings are not proven by answers to the ones before.
    fn last_proof(&self) -> Option<Instant> {
        self.current.load().origin.last_proof()
    }
}

impl OriginWrite for LiveOrigin {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(self.send(move |used| {
            let write = write.clone();
            Box::pin(async move { used.origin.write(write).await })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_other_settings_of_the_same_bucket_are_connected_to() {
        let read_again = || -> SettingsReader { Arc::new(|| None) };
        let settings = Settings::new("media", "bucket");
        let origin = LiveOrigin::connect(settings.clone(), &Metrics::default(), read_again()).await;
        let origin = origin.expect("settings");
        let prepare = async |settings: &Settings| {
            let prepared = origin.prepare(settings.clone(), read_again()).await;
            prepared.expect("settings")
        };
        let stays = |prepared: &ConnectedOrigin| {
            Arc::ptr_eq(&prepared.origin, &origin.current.load().origin)
        };
        let other = Settings::new("media", "other");
        assert!(prepare(&other).await.is_none());
        assert!(prepare(&settings).await.is_some_and(|same| stays(&same)));
        let mut longer = settings;
        longer.max_queue += 1;
        let prepared = prepare(&longer).await.expect("the same bucket");
        assert!(!stays(&prepared));
        origin.exchange(prepared);
        let again = prepare(&longer).await;
        assert!(again.is_some_and(|same| stays(&same)), "in force");
    }
}
