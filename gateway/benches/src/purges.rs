//! `purges FOLDER [KEYS]`: how long purges take over many known keys (`just purges`).
//!
//! It puts KEYS keys (a million) into a metadata store on disk, a tenth of them with a tag, and purges through the engine:
//! 10,000 keys at once, a prefix of all, and the tag; each soft and hard, durably, with no mount beside it. It fails if one
//! takes longer than its target.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::{StreamExt as _, stream};
use http::{HeaderName, HeaderValue};
use prometheus_client::registry::Registry;
use tidegate_cache::{Entry, MetaStore, Record, Settings, Stores};
use tidegate_engine::{
    Assists, Budget, EncodingTimes, Engine, Parts, PurgeKind, ReadContext, Scope,
};
use tidegate_origin::{FakeOrigin, Origin};
use tidegate_plan::tags::{DEFAULT_TAGS_HEADER, Tag};
use tidegate_plan::{ETag, Geometry, ObjectId, ObjectKey, OriginId, Profile, Timestamp, Version};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Keys that are put before the store is made durable once.
const BATCH: u64 = 20_000;
/// One key in so many has the tag.
const TAGGED: u64 = 10;
/// Keys of one request, and the purges that wait for the disk at once.
const AT_ONCE: (u64, usize) = (10_000, 1024);
/// The targets: 10,000 keys, and a prefix or a tag.
const OF_KEYS: Duration = Duration::from_secs(1);
const OF_ONE: Duration = Duration::from_millis(10);
/// Purges of a prefix or a tag, of which the median counts.
const ROUNDS: usize = 9;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (folder, keys) = match &args[..] {
        [folder] => (folder, 1_000_000),
        [folder, keys] => (folder, keys.parse()?),
        _ => return Err("usage: purges FOLDER [KEYS]".into()),
    };
    let folder = Path::new(folder).join(format!("purges-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(all(&folder, keys));
    std::fs::remove_dir_all(&folder)?;
    done
}

async fn all(folder: &Path, keys: u64) -> Result<()> {
    let settings = Settings {
        state: Some(folder.join("state")),
        state_size: u64::MAX,
        ..Settings::default()
    };
    let Stores { chunks, meta, .. } = tidegate_cache::open(&settings, &mut Registry::default())?;
    let origin = FakeOrigin::new();
    put_keys(&*meta, origin.id(), keys).await?;
    let engine = Engine::new(Parts {
        assists: Assists::default(),
        encoding: EncodingTimes::default(),
        runtime: None,
        chunks,
        meta,
        geometry: Geometry::default(),
        budget: Budget::new(64 << 20),
        clock: Arc::new(|| Timestamp::from(SystemTime::now())),
        origins: Vec::new(),
    });
    let source = ReadContext::new(Arc::new(origin), Profile::web());
    println!(
        "{keys} keys, {} of them tagged; ms, the median of {ROUNDS} but for keys",
        keys / TAGGED
    );
    let mut missed = Vec::new();
    for kind in [PurgeKind::Soft, PurgeKind::Hard] {
        let tag = Scope::Tag(Tag::new("tagged")?);
        let prefix = Scope::Prefix("2026/".into());
        let figures = [
            (
                "10,000 keys",
                many(&engine, &source, kind, keys).await?,
                OF_KEYS,
            ),
            ("a tag", median(&engine, &source, &tag, kind).await?, OF_ONE),
            (
                "a prefix",
                median(&engine, &source, &prefix, kind).await?,
                OF_ONE,
            ),
        ];
        for (name, took, target) in figures {
            println!("{kind:?} {name:>12} {:>8.1}", took.as_secs_f64() * 1e3);
            if took > target {
                missed.push(format!("{kind:?}, {name}: {took:?}"));
            }
        }
    }
    let reached = missed.is_empty().then_some(());
    reached.ok_or_else(|| missed.join("; ").into())
}

async fn put_keys(meta: &dyn MetaStore, origin: OriginId, keys: u64) -> Result<()> {
    for number in 0..keys {
        let id = ObjectId {
            origin,
            key: key(number)?,
        };
        let version = version(number)?;
        let record = Record {
            id: meta.address(&id, &version, meta.generation(&id).await),
            version: Arc::new(version),
            confirmed: Timestamp::from_secs(1_700_000_000),
            must_confirm: false,
            written: None,
        };
        meta.put(&id, Entry::Present(Arc::new(record)));
        if number % BATCH == BATCH - 1 {
            meta.flush().await;
        }
    }
    meta.flush().await;
    Ok(())
}

/// Purges 10,000 keys as one request does, and checks that all of them were known.
async fn many(
    engine: &Engine,
    source: &ReadContext,
    kind: PurgeKind,
    keys: u64,
) -> Result<Duration> {
    let count = AT_ONCE.0.min(keys);
    let targets = (0..count).map(|number| key(number * (keys / count)).map(Scope::Key));
    let targets = targets.collect::<Result<Vec<_>>>()?;
    let started = Instant::now();
    let purges = targets
        .iter()
        .map(|target| engine.purge(source, target, kind));
    let done: Vec<_> = stream::iter(purges)
        .buffer_unordered(AT_ONCE.1)
        .collect()
        .await;
    let took = started.elapsed();
    let mut known = 0;
    for one in done {
        known += u64::from(one?);
    }
    if known != count {
        return Err(format!("{known} of {count} keys were known").into());
    }
    Ok(took)
}

async fn median(
    engine: &Engine,
    source: &ReadContext,
    target: &Scope,
    kind: PurgeKind,
) -> Result<Duration> {
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        engine.purge(source, target, kind).await?;
        all.push(started.elapsed());
    }
    all.sort_unstable();
    Ok(all[ROUNDS / 2])
}

fn key(number: u64) -> Result<ObjectKey> {
    let key = format!("2026/{:02}/a-photograph-{number:08}.jpg", number % 12 + 1);
    Ok(ObjectKey::new(&key)?)
}

fn version(number: u64) -> Result<Version> {
    let tags = HeaderName::from_static(DEFAULT_TAGS_HEADER);
    let value = HeaderValue::from_static("front tagged");
    Ok(Version {
        etag: ETag::parse(&format!("\"{number:032x}\"")).ok_or("no ETag")?,
        size: 35 << 10,
        last_modified: Some(Timestamp::from_secs(1_690_000_000)),
        version_id: None,
        headers: match number % TAGGED {
            0 => vec![(tags, value)],
            _ => Vec::new(),
        },
    })
}
