//! Variants: made once for all readers, by few encoders within a budget, and cached as chunks.

use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_cache::fake::Faults;
use tidegate_engine::{Error, Variant, VariantReader, VariantState};
use tidegate_origin::FakeOrigin;
use tidegate_origin::fake::Fault;
use tidegate_plan::{ByteRange, Coding};
use tokio::time::Instant;

use crate::support::{KIB, MIB, Setup, World, pass, sample, secs, settle};

mod encoders;

const BR: Coding = Coding::Brotli;

/// Returns text that compresses by half and differs for each `seed`.
fn text(seed: u64, length: u64) -> Bytes {
    let bytes = sample(seed, length.div_ceil(2));
    let digits = bytes.iter().flat_map(|byte| {
        let digit = |half: u8| char::from_digit(half.into(), 16).expect("a digit") as u8;
        [digit(byte >> 4), digit(byte & 15)]
    });
    let mut text: Vec<u8> = digits.collect();
    text.truncate(usize::try_from(length).expect("fits into memory"));
    text.into()
}

fn decoded(bytes: &[u8]) -> Bytes {
    let mut text = Vec::new();
    let mut decoder = brotli::Decompressor::new(bytes, 4096);
    decoder.read_to_end(&mut text).expect("sound");
    text.into()
}

async fn rest(mut reader: VariantReader) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}

async fn read(variant: &Variant) -> Result<Vec<u8>, Error> {
    rest(variant.read_at(ByteRange::new(0, variant.size()))).await
}

/// The counters of a world.
struct Counts(Registry);

impl Counts {
    fn of(world: &World) -> Self {
        let mut registry = Registry::default();
        world.engine.register(&mut registry);
        Self(registry)
    }

    fn runs(&self, result: &str) -> u64 {
        self.get(&format!(
            "encoder_runs_total{{coding=\"br\",result=\"{result}\"}} "
        ))
    }

    fn refused(&self, reason: &str) -> u64 {
        self.get(&format!("encoders_refused_total{{reason=\"{reason}\"}} "))
    }

    fn get(&self, line: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.0).expect("text");
        let value = text.lines().find_map(|own| own.strip_prefix(line));
        value.map_or(0, |value| value.parse().expect("a number"))
    }
}

/// Returns a bucket whose bodies pause for half a second after 1,000 bytes, so that readers wait in the middle.
fn pausing() -> FakeOrigin {
    let bucket = FakeOrigin::new();
    bucket.set_faults([Fault::Pause {
        after: 1000,
        pause: Duration::from_millis(500),
    }]);
    bucket
}

#[tokio::test(start_paused = true)]
async fn one_run_serves_all_readers_of_a_variant_at_a_time() {
    let setup = Setup {
        budget: 48 * MIB,
        ..Setup::bucket(pausing())
    };
    let (world, script) = (setup.build(), text(1, 300 * KIB));
    let counts = Counts::of(&world);
    world.bucket.put("a.js", script.clone());
    let object = world.get("a.js").await.expect("there");
    let want = |_| {
        let object = object.clone();
        tokio::spawn(async move { object.variant(BR).await })
    };
    let readers: Vec<_> = (0..1200).map(want).collect();
    settle().await;
    let used = world.used();
    assert!(
        (4 * MIB..8 * MIB).contains(&used),
        "one encoder and one fetch: {used}"
    );
    let mut bodies = Vec::new();
    for reader in readers {
        let variant = reader.await.expect("no panic").expect("made");
        bodies.push(read(&variant).await.expect("kept"));
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    assert!(bodies[0].len() < 200 << 10);
    assert_eq!(decoded(&bodies[0]), script);
    assert_eq!(counts.runs("kept"), 1);
    drop(object);
    settle().await;
    assert_eq!(world.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_variant_is_found_in_both_tiers_and_gone_with_its_version() {
    let setup = Setup {
        chunk: 4 * KIB,
        ..Setup::default()
    };
    let (world, script) = (setup.build(), text(1, 100 * KIB));
    let counts = Counts::of(&world);
    world.bucket.put("a.js", script.clone());
    let object = world.get("a.js").await.expect("there");
    let variant = object.variant(BR).await.expect("made");
    let bytes = read(&variant).await.expect("kept");
    assert!(bytes.len() > 16 << 10, "many pieces");

    world.store.evict_memory();
    let disk = world.store.counts().disk_reads;
    let again = object.variant(BR).await.expect("on disk");
    assert_eq!(read(&again).await.expect("on disk"), bytes);
    assert!(world.store.counts().disk_reads > disk);
    assert!(matches!(
        object.variant_state(Coding::Gzip).await,
        VariantState::Nothing
    ));

    world.purge("a.js").await;
    let purged = world.get("a.js").await.expect("there");
    assert!(matches!(
        purged.variant_state(BR).await,
        VariantState::Nothing
    ));
    world.bucket.put("a.js", text(2, 100 * KIB));
    pass(secs(3600)).await;
    let changed = world.get("a.js").await.expect("there");
    assert!(matches!(
        changed.variant_state(BR).await,
        VariantState::Nothing
    ));
    let other = changed.variant(BR).await.expect("made");
    assert_eq!(
        decoded(&read(&other).await.expect("kept")),
        text(2, 100 * KIB)
    );
    assert_eq!(counts.runs("kept"), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_under_a_reader_is_made_again_to_the_byte() {
    let setup = Setup {
        chunk: 4 * KIB,
        ..Setup::default()
    };
    let world = setup.build();
    let counts = Counts::of(&world);
    world.bucket.put("a.js", text(1, 100 * KIB));
    let object = world.get("a.js").await.expect("there");
    let variant = object.variant(BR).await.expect("made");
    let bytes = read(&variant).await.expect("kept");

    let mut reader = variant.read_at(ByteRange::new(0, variant.size()));
    let mut got = reader.next().await.expect("one").expect("kept").to_vec();
    world.store.forget_everything();
    got.extend(rest(reader).await.expect("made again"));
    assert_eq!(got, bytes);
    assert_eq!(counts.runs("kept"), 2);

    // Some chunks are lost while there is no reader.
    world.store.evict_memory();
    world.store.lose_every(3);
    let again = object.variant(BR).await.expect("made again");
    assert_eq!(read(&again).await.expect("kept"), bytes);
    assert_eq!(counts.runs("kept"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_variant_that_no_tier_takes_is_read_all_the_same() {
    let world = World::plain();
    world.store.set(Faults {
        refuse_disk: true,
        refuse_memory: true,
        ..Faults::default()
    });
    world.bucket.put("a.js", text(1, 100 * KIB));
    let object = world.get("a.js").await.expect("there");
    let variant = object.variant(BR).await.expect("made");
    assert_eq!(
        decoded(&read(&variant).await.expect("held")),
        text(1, 100 * KIB)
    );
    assert!(world.used() >= variant.size(), "it is paid for");
    drop((variant, object));
    settle().await;
    assert_eq!(world.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_gets_no_smaller_is_tried_once_and_what_may_not_be_kept_never() {
    let world = World::plain();
    let counts = Counts::of(&world);
    world.bucket.put("noise.js", sample(1, 100 * KIB));
    let object = world.get("noise.js").await.expect("there");
    for _ in 0..3 {
        assert!(object.variant(BR).await.is_none());
    }
    assert!(matches!(
        object.variant_state(BR).await,
        VariantState::Identity
    ));
    assert_eq!(counts.runs("identity"), 1);

    let private = [("cache-control", "no-store")];
    world
        .bucket
        .put_with("secret.js", text(1, 4 * KIB), &private);
    world.bucket.put("large.js", text(1, 4 * MIB + 1));
    world.bucket.put("most.js", text(1, 4 * MIB));
    for (key, may) in [("secret.js", false), ("large.js", false), ("most.js", true)] {
        let object = world.get(key).await.expect("there");
        assert_eq!(object.may_be_encoded(), may, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_come_holds_an_answer_for_a_second() {
    let bucket = FakeOrigin::new();
    let world = Setup::bucket(bucket).build();
    let counts = Counts::of(&world);
    world.bucket.put("a.js", text(1, 300 * KIB));
    let stall = |pause| Fault::Pause { after: 1000, pause };
    world.bucket.set_faults([stall(secs(5))]);
    let object = world.get("a.js").await.expect("there");
    let began = Instant::now();
    assert!(object.variant(BR).await.is_none());
    assert_eq!(began.elapsed(), secs(1));
    // It is made all the same, for later readers.
    pass(secs(6)).await;
    assert!(matches!(
        object.variant_state(BR).await,
        VariantState::Variant(_)
    ));
    assert_eq!(counts.runs("kept"), 1);
}
