//! A bucket that reports its changes to a gateway.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{KEY, MOST, PROFILE};
use crate::bucket::Bucket;
use crate::child::free_addr;
use crate::client::Connection;
use crate::context::Context;
use crate::peers::minio::Minio;
use crate::peers::mounts::Mount;
use crate::peers::nats::Nats;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::peers::{Origin, Peer};
use crate::slow_disk::need_root;

/// MinIO sends one with spaces as it is, without `Bearer`.
const TOKEN: &str = "token-of-the-bucket-of-the-load-test";
const SUBJECT: &str = "media-events";

/// The time in which a first event comes, once both ends are connected; MinIO may let its queue wait for 3 s.
const FIRST: Duration = Duration::from_secs(5);
/// The first changes that may be missed while they connect.
const MISSED: u64 = 30;
/// The target where MinIO looks into its queue each 3 s, in milliseconds.
const MAX_QUEUE_DELAY: f64 = 3500.0;
/// One of so many rounds is measured there.
const QUEUE_SHARE: u64 = 20;

/// The way of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Webhook,
    /// By a `queue_dir`, in which MinIO looks for events each 3 s.
    Queue,
    Nats,
}

impl Way {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Queue => "webhook with queue_dir",
            Self::Nats => "NATS",
        }
    }

    /// Returns the target's percentile at most, in milliseconds.
    pub(super) const fn most(self) -> f64 {
        match self {
            Self::Webhook | Self::Nats => MOST,
            Self::Queue => MAX_QUEUE_DELAY,
        }
    }

    /// Returns the rounds that are measured, of so many.
    pub(super) const fn rounds(self, all: u64) -> u64 {
        match self {
            Self::Webhook | Self::Nats => all,
            Self::Queue => all.div_ceil(QUEUE_SHARE),
        }
    }

    /// Returns the subscription of the gateway.
    fn subscription(self, nats: &Nats) -> String {
        let how = match self {
            Self::Webhook | Self::Queue => format!("token = \"{TOKEN}\"\n"),
            Self::Nats => format!(
                "kind = \"nats\"\nservers = [\"nats://{}\"]\nsubject = \"{SUBJECT}\"\n",
                nats.addr()
            ),
        };
        format!("[[events]]\nname = \"media\"\norigin = \"media\"\n{how}")
    }

    /// Starts a store whose target is the gateway's webhook or NATS, and has its bucket report there.
    async fn store(
        self,
        (address, dir): (SocketAddr, &Path),
        (admin, nats): (SocketAddr, &Nats),
    ) -> Result<(Minio, Bucket)> {
        let endpoint = format!("http://{admin}/events/media");
        let servers = nats.addr().to_string();
        let queue = dir.join("queue").display().to_string();
        let mut variables = match self {
            Self::Webhook | Self::Queue => vec![
                ("MINIO_NOTIFY_WEBHOOK_ENABLE_GATE", "on"),
                ("MINIO_NOTIFY_WEBHOOK_ENDPOINT_GATE", &*endpoint),
                ("MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_GATE", TOKEN),
            ],
            Self::Nats => vec![
                ("MINIO_NOTIFY_NATS_ENABLE_GATE", "on"),
                ("MINIO_NOTIFY_NATS_ADDRESS_GATE", &*servers),
                ("MINIO_NOTIFY_NATS_SUBJECT_GATE", SUBJECT),
            ],
        };
        if self == Self::Queue {
            variables.push(("MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_GATE", &queue));
        }
        let minio = Minio::start_at(address, dir, &variables)?;
        let bucket = Bucket::create(address, "media").await?;
        let target = match self {
            Self::Webhook | Self::Queue => "webhook",
            Self::Nats => "nats",
        };
        let target = format!("arn:minio:sqs::GATE:{target}");
        bucket.report_to(&target).await?;
        Ok((minio, bucket))
    }
}

/// A gateway, perhaps with a mount beside its listeners.
#[derive(Debug)]
enum Gateway {
    Alone(Peer),
    Mounted(Mount),
}

impl Gateway {
    /// Starts it; the bucket need not be there.
    async fn start(home: &Home, is_mounted: bool) -> Result<Self> {
        Ok(match is_mounted {
            true => Self::Mounted(Mount::tidegate_until(home, StartState::Listening).await?),
            false => Self::Alone(home.start(StartState::Listening).await?),
        })
    }

    fn peer(&self) -> Result<&Peer> {
        match self {
            Self::Alone(peer) => Ok(peer),
            Self::Mounted(mount) => mount.gateway().context("it is ours"),
        }
    }
}

/// A store that reports, its gateway, and what is between them.
pub(super) struct ReportingStore {
    pub(super) bucket: Bucket,
    gateway: Gateway,
    _minio: Minio,
    _nats: Nats,
}

impl ReportingStore {
    /// Starts them, the gateway as root with a mount, and waits until events arrive.
    pub(super) async fn start(context: &Context, way: Way) -> Result<Self> {
        let dir = context.new_dir("events-")?;
        let nats = Nats::start(&dir)?;
        let address = free_addr();
        let origin = Origin {
            addr: address,
            bucket: "media".to_owned(),
        };
        let settings = Settings {
            profile: PROFILE,
            ..Settings::WEB
        };
        let mut home = Home::new(dir.join("gateway"), origin, settings);
        home.sections = way.subscription(&nats);
        // Looks of programs while MinIO waits for 3 s would only take a processor from it.
        let is_mounted = way != Way::Queue && need_root("mounting").is_ok();
        // The store wants to know its target, and the gateway waits for its bucket.
        let gateway = Gateway::start(&home, is_mounted).await?;
        let admin = gateway.peer()?.admin();
        let admin = admin.context("it has an admin listener")?;
        let (minio, bucket) = way.store((address, &dir), (admin, &nats)).await?;
        let store = Self {
            bucket,
            gateway,
            _minio: minio,
            _nats: nats,
        };
        store.arrive().await?;
        Ok(store)
    }

    pub(super) fn peer(&self) -> Result<&Peer> {
        self.gateway.peer()
    }

    /// Returns the mount of the bucket; `None`: there is none.
    pub(super) const fn mount(&self) -> Option<&Mount> {
        match &self.gateway {
            Gateway::Alone(_) => None,
            Gateway::Mounted(mount) => Some(mount),
        }
    }

    /// Changes the object until the gateway is told of it: the first events may be missed.
    async fn arrive(&self) -> Result<()> {
        let peer = self.peer()?;
        let path = peer.path(KEY);
        let mut connection = Connection::open(peer.addr()).await?;
        for nth in 0..MISSED {
            let new = format!("first {nth}").into();
            self.bucket.put(KEY, new).await?;
            let since = Instant::now();
            while since.elapsed() < FIRST {
                let (answer, _) = connection.get(&path, &[]).await?;
                if nth > 0 && answer.body == format!("first {nth}") {
                    return Ok(());
                }
            }
        }
        anyhow::bail!("no event arrives:\n{}", peer.log_tail())
    }

    /// Checks that so many changes were reported, so that nothing else has brought them.
    pub(super) async fn ensure_reported(&self, changes: u64) -> Result<()> {
        let events = "tidegate_bucket_events_total";
        let applied = self.peer()?.metric_where(events, "applied").await?;
        let applied = applied.unwrap_or_default();
        ensure!(
            applied >= changes as f64,
            "{applied} events for {changes} changes"
        );
        Ok(())
    }
}
