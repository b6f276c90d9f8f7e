//! A bucket that reports its changes to a gateway.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{KEY, PROFILE, body, reads};
use crate::bucket::Bucket;
use crate::child::free_addr;
use crate::client::Connection;
use crate::context::Context;
use crate::measure::Latency;
use crate::peers::minio::Minio;
use crate::peers::nats::Nats;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::peers::{Origin, Peer};
use crate::report::Report;

/// MinIO sends one with spaces as it is, without `Bearer`.
const TOKEN: &str = "token-of-the-bucket-of-the-load-test";
const SUBJECT: &str = "media-events";

/// The time in which a first event comes, once both ends are connected.
const FIRST: Duration = Duration::from_secs(2);
/// The first changes that may be missed while they connect.
const MISSED: u64 = 30;

/// The way of the events.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Webhook,
    Nats,
}

impl Way {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Nats => "NATS",
        }
    }
}

/// A store that reports, its gateway, and what is between them.
struct ReportingStore {
    bucket: Bucket,
    peer: Peer,
    _minio: Minio,
    _nats: Nats,
}

impl ReportingStore {
    async fn start(context: &Context, way: Way) -> Result<Self> {
        let dir = context.new_dir("events-")?;
        let nats = Nats::start(&dir)?;
        let store = free_addr();
        let origin = Origin {
            addr: store,
            bucket: "media".to_owned(),
        };
        let settings = Settings {
            profile: PROFILE,
            ..Settings::WEB
        };
        let mut home = Home::new(dir.join("gateway"), origin, settings);
        let how = match way {
            Way::Webhook => format!("token = \"{TOKEN}\"\n"),
            Way::Nats => format!(
                "kind = \"nats\"\nservers = [\"nats://{}\"]\nsubject = \"{SUBJECT}\"\n",
                nats.addr()
            ),
        };
        home.sections = format!("[[events]]\nname = \"media\"\norigin = \"media\"\n{how}");
        // The store wants to know its target, and the gateway waits for its bucket.
        let peer = home.start(StartState::Listening).await?;
        let admin = peer.admin().context("it has an admin listener")?;
        let endpoint = format!("http://{admin}/events/media");
        let servers = nats.addr().to_string();
        let variables = match way {
            Way::Webhook => vec![
                ("MINIO_NOTIFY_WEBHOOK_ENABLE_GATE", "on"),
                ("MINIO_NOTIFY_WEBHOOK_ENDPOINT_GATE", &*endpoint),
                ("MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_GATE", TOKEN),
            ],
            Way::Nats => vec![
                ("MINIO_NOTIFY_NATS_ENABLE_GATE", "on"),
                ("MINIO_NOTIFY_NATS_ADDRESS_GATE", &*servers),
                ("MINIO_NOTIFY_NATS_SUBJECT_GATE", SUBJECT),
            ],
        };
        let minio = Minio::start_at(store, &dir, &variables)?;
        let bucket = Bucket::create(store, "media").await?;
        let target = match way {
            Way::Webhook => "webhook",
            Way::Nats => "nats",
        };
        let target = format!("arn:minio:sqs::GATE:{target}");
        bucket.report_to(&target).await?;
        Ok(Self {
            bucket,
            peer,
            _minio: minio,
            _nats: nats,
        })
    }

    /// Changes the object until the gateway is told of it: the first events may be missed.
    async fn arrive(&self, connection: &mut Connection) -> Result<()> {
        let path = self.peer.path(KEY);
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
        anyhow::bail!("no event arrives:\n{}", self.peer.log_tail())
    }
}

/// Measures changes: from the answer of a PUT to the first fresh read.
pub(super) async fn measure(
    context: &Context,
    way: Way,
    count: u64,
    report: &mut Report,
) -> Result<Latency> {
    let reporting = ReportingStore::start(context, way).await?;
    let (bucket, peer) = (&reporting.bucket, &reporting.peer);
    report.peer(&format!("tidegate, {}", way.name()), peer.config());
    let mut connection = Connection::open(peer.addr()).await?;
    reporting.arrive(&mut connection).await?;
    let mut latency = Latency::default();
    for nth in 0..count {
        let new = body(nth);
        bucket.put(KEY, new.clone()).await?;
        let answered = Instant::now();
        reads(&mut connection, &peer.path(KEY), &new).await?;
        latency.record(answered.elapsed());
    }
    let events = peer.metric_where("tidegate_bucket_events_total", "applied");
    let events = events.await?.unwrap_or_default();
    ensure!(
        events >= count as f64,
        "{events} events for {count} changes"
    );
    Ok(latency)
}
