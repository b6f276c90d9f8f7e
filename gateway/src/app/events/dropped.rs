//! A bucket whose events a proxy drops at random, heartbeats among them, under simulated time: how old an answer may be.

use std::collections::VecDeque;

use futures_util::StreamExt as _;
use tidegate_cache::Stores;
use tidegate_engine::{Assists, Budget, EncodingTimes, Engine, OpenOptions, Parts, ReadContext};
use tidegate_origin::{FakeOrigin, Origin};
use tidegate_plan::{ByteRange, Geometry, ObjectKey, Profile, RangeSpec, Timestamp};
use tokio::time::{Instant, sleep};

use super::*;

const TTL: Duration = Duration::from_secs(20);
const STALE: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_secs(10);
const MAX_AGE: Duration = Duration::from_secs(60);

/// The longest time that the proxy keeps an event which it does not drop.
const MAX_DELAY: Duration = Duration::from_secs(3);

/// The longest step of the test, and the longest time until the subscription looks for a missing heartbeat.
const STEP: Duration = Duration::from_secs(1);

const KEYS: u64 = 12;
const HEARTBEAT: &str = ".tidegate/heartbeat-bucket";

const CONFIG: &str = "[[origin]]\nname = \"media\"\nbucket = \"bucket\"\n\
    [[events]]\nname = \"bucket\"\norigin = \"media\"\ntoken = \"t0ken-of-the-bucket\"\n\
    heartbeat = { prefix = \".tidegate/\", every = \"10s\" }\n\
    [[route]]\npath = \"/\"\norigin = \"media\"\nevents = \"bucket\"\nevents_max_age = \"1m\"\n";

/// Random numbers (xorshift64*), the same ones for a seed each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.below(most.as_millis() as u64))
    }
}

/// An event on its way to the gateway.
struct OnItsWay {
    arrives: Instant,
    message: String,
    /// The key and the number of its version; none for a heartbeat.
    change: Option<(usize, u64)>,
}

/// One object of the bucket.
#[derive(Default)]
struct Written {
    /// The time at which each version was written.
    at: Vec<Instant>,
    /// The version whose event has reached the gateway.
    reported: u64,
}

/// The counts of a run, and its oldest answer.
#[derive(Debug, Default)]
struct Seen {
    reads: u64,
    gaps: u64,
    /// The greatest age of an answer, since the next version was written.
    oldest: Duration,
}

/// A gateway with a subscription, its bucket, and the proxy between them.
struct World {
    bucket: FakeOrigin,
    engine: Engine,
    source: Arc<ReadContext>,
    events: BucketEvents,
    written: Vec<Written>,
    way: VecDeque<OnItsWay>,
    /// The ETag of the last heartbeat that the proxy has seen, and the times at which it dropped one.
    heartbeat: Option<String>,
    dropped_heartbeats: Vec<Instant>,
    draw: Draw,
    seen: Seen,
}

fn engine() -> Engine {
    let settings = tidegate_cache::Settings::default();
    let opened = tidegate_cache::open(&settings, &mut Registry::default());
    let Stores { chunks, meta, .. } = opened.expect("stores in memory");
    let start = Instant::now();
    Engine::new(Parts {
        assists: Assists::default(),
        encoding: EncodingTimes::default(),
        runtime: None,
        chunks,
        meta,
        geometry: Geometry::new(1 << 20).expect("a power of two"),
        budget: Budget::new(64 << 20),
        clock: Arc::new(move || Timestamp::from_secs(1_700_000_000).plus(start.elapsed())),
        origins: Vec::new(),
    })
}

fn valid(key: &str) -> ObjectKey {
    ObjectKey::new(key).expect("a key")
}

impl World {
    async fn start(seed: u64) -> Self {
        let (engine, env) = (engine(), Environment::default());
        let loaded = tidegate_config::parse("t.toml", CONFIG, &env);
        let config = loaded.expect("it is right").config;
        let bucket = FakeOrigin::new();
        let origin: Arc<dyn Origin> = Arc::new(bucket.clone());
        let origins: Origins = [("media".to_owned(), origin.clone())].into();
        let receivers = ChangeReceivers {
            engine: engine.clone(),
            hooks: super::super::hooks::start(&config, &env, &origins, None).expect("no hook"),
            fleet: None,
            log: Arc::default(),
        };
        let proofs = Proofs::default().next(&config, &origins);
        let profile = Profile {
            ttl: TTL,
            stale_while_revalidate: STALE,
            ..Profile::web()
        };
        let source = Arc::new(ReadContext::new(origin, profile));
        let coverage = proofs.coverage(&config.routes()[0]).expect("right");
        source.events.store(coverage.map(Arc::new));
        let events = BucketEvents::new(receivers, &mut Registry::default());
        let prepared = events.prepare(&config, &env, (&origins, &proofs));
        events.apply(prepared.expect("right")).await;
        Self {
            bucket,
            engine,
            source,
            events,
            written: (0..KEYS).map(|_| Written::default()).collect(),
            way: VecDeque::new(),
            heartbeat: None,
            dropped_heartbeats: Vec::new(),
            draw: Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            seen: Seen::default(),
        }
    }

    /// Writes the next version of an object, whose body is its number; the proxy drops each third event.
    fn write(&mut self, key: usize) {
        let written = &mut self.written[key];
        written.at.push(Instant::now());
        let number = written.at.len() as u64;
        let name = format!("k{key}");
        let version = self.bucket.put(&name, number.to_string());
        if self.draw.below(3) > 0 {
            self.send(&name, version.etag.as_str(), Some((key, number)));
        }
    }

    fn send(&mut self, key: &str, etag: &str, change: Option<(usize, u64)>) {
        let (etag, sequencer) = (etag.trim_matches('"'), change.map_or(1, |(_, it)| it));
        let message = format!(
            r#"{{"Records":[{{"eventName":"s3:ObjectCreated:Put","s3":{{"bucket":{{"name":"bucket"}},"object":{{"key":"{key}","eTag":"{etag}","sequencer":"{sequencer:016x}"}}}}}}]}}"#
        );
        let arrives = Instant::now() + self.draw.up_to(MAX_DELAY);
        self.way.push_back(OnItsWay {
            arrives,
            message,
            change,
        });
    }

    /// Looks for a heartbeat that was written; the proxy drops one of twelve.
    fn look_for_heartbeat(&mut self) {
        let Some((version, _)) = self.bucket.object(HEARTBEAT) else {
            return;
        };
        let etag = version.etag.as_str().to_owned();
        if self.heartbeat.as_ref() == Some(&etag) {
            return;
        }
        match self.draw.below(12) {
            0 => self.dropped_heartbeats.push(Instant::now()),
            _ => self.send(HEARTBEAT, &etag, None),
        }
        self.heartbeat = Some(etag);
    }

    /// Hands the gateway the events that have arrived.
    async fn deliver(&mut self) {
        let now = Instant::now();
        let arrived = |one: &OnItsWay| one.arrives <= now;
        while let Some(nth) = self.way.iter().position(arrived) {
            let event = self.way.remove(nth).expect("it was found");
            let webhooks = self.events.webhooks();
            let taken = webhooks.deliver("bucket", event.message.into()).await;
            taken.expect("it can be read");
            if let Some((key, number)) = event.change {
                let reported = &mut self.written[key].reported;
                *reported = number.max(*reported);
            }
        }
    }

    /// Returns the number of the version that a reader gets.
    async fn read(&self, key: usize) -> u64 {
        let first = OpenOptions {
            first: Some(RangeSpec::From(0)),
            ..OpenOptions::default()
        };
        let opened = self
            .engine
            .open(&self.source, &valid(&format!("k{key}")), first)
            .await;
        let object = opened.expect("it is there");
        let all = ByteRange::new(0, object.version().size);
        let mut reader = object.read_at(all);
        let mut body = Vec::new();
        while let Some(piece) = reader.next().await {
            body.extend_from_slice(&piece.expect("a healthy bucket"));
        }
        let text = String::from_utf8(body).expect("text");
        text.parse().expect("a number")
    }

    /// Reads an object, and judges the age of the answer.
    async fn judge(&mut self, key: usize) {
        let number = self.read(key).await;
        let (now, written) = (Instant::now(), &self.written[key]);
        self.seen.reads += 1;
        assert!(number >= written.reported, "a reported change is read");
        let Some(replaced) = written.at.get(number as usize) else {
            return;
        };
        let age = now - *replaced;
        self.seen.oldest = self.seen.oldest.max(age);
        assert!(age < MAX_AGE, "{age:?}: the bucket is asked by then");
        let mut gaps = self.dropped_heartbeats.iter();
        let gap = gaps.find(|dropped| *dropped >= replaced);
        // A heartbeat that stays away is missed after `EVERY`. From then on the answer is as old as without events.
        let is_seen = gap.is_some_and(|gap| now > *gap + EVERY + STEP);
        assert!(!is_seen || age <= TTL + STALE, "{age:?} old, after {gap:?}");
    }

    async fn run(mut self) -> Seen {
        for key in 0..self.written.len() {
            self.write(key);
        }
        for _ in 0..6_000 {
            sleep(self.draw.up_to(STEP)).await;
            self.look_for_heartbeat();
            self.deliver().await;
            let key = self.draw.below(KEYS) as usize;
            match self.draw.below(10) {
                0 => self.write(key),
                _ => self.judge(key).await,
            }
        }
        self.seen.gaps = self.dropped_heartbeats.len() as u64;
        self.events.stop().await;
        self.seen
    }
}

#[tokio::test(start_paused = true)]
async fn however_events_are_dropped_no_answer_is_older_than_the_bound() {
    for seed in 1..=8 {
        let world = World::start(seed).await;
        let bucket = world.bucket.clone();
        let seen = world.run().await;
        assert!(seen.gaps >= 5, "heartbeats are dropped: {seen:?}");
        assert!(
            seen.oldest > TTL + STALE,
            "an event that is lost between two heartbeats is not known: {seen:?}"
        );
        assert!(bucket.gets() < seen.reads / 2, "events cover: {seen:?}");
    }
}
