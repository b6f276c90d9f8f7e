//! The pure parts of a hit, each by itself, and the engine's share of a hit: `just bench-pure`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use http::HeaderMap;
use http::header::{HeaderValue, IF_NONE_MATCH, RANGE};
use prometheus_client::registry::Registry;
use tidegate_benches::{Hot, KEY, SIZE};
use tidegate_cache::{Admit, ChunkKey, ChunkStore as _, Tiers};
use tidegate_plan::Ranges;
use tidegate_plan::freshness::Policy;
use tidegate_plan::precondition::{self, Validators};
use tidegate_plan::readahead::{Limits, ReadAhead};
use tidegate_plan::route::{RouteRule, RouteTable};
use tidegate_plan::{
    ByteRange, ETag, ObjectId, ObjectKey, OriginId, Profile, Timestamp, Version, VersionId,
};

const MIB: u64 = 1 << 20;

mod access;
mod jwt;

use access::access_and_limits;
use jwt::jwts;

criterion_group!(
    hit,
    request,
    access_and_limits,
    jwts,
    version,
    readahead,
    memory,
    engine
);
criterion_main!(hit);

/// Measures the work on a request's head before the look-up.
fn request(c: &mut Criterion) {
    let path = KEY.replace('-', "%20");
    c.bench_function("key from path", |b| {
        b.iter(|| ObjectKey::from_path("media/", black_box(KEY)));
    });
    c.bench_function("key from path, encoded", |b| {
        b.iter(|| ObjectKey::from_path("media/", black_box(&path)));
    });
    for (name, value) in [
        ("range, one", "bytes=1048576-2097151"),
        ("range, three", "bytes=0-99,1000-1999,-500"),
    ] {
        c.bench_function(name, |b| b.iter(|| Ranges::parse(black_box(value))));
    }
    // Sixteen sites, and a path that belongs to none of them.
    let host = |n: u32| RouteRule {
        host: Some(format!("site-{n}.example")),
        path: "/wp-content/uploads/".to_owned(),
    };
    let rest = RouteRule {
        host: None,
        path: "/".to_owned(),
    };
    let table = RouteTable::new((0..16).map(host).chain([rest]));
    let path = format!("/wp-content/uploads/{KEY}");
    c.bench_function("route, the last of 17", |b| {
        b.iter(|| table.find(black_box("other.example:8080"), black_box(&path)));
    });
}

/// Measures the decisions about the version that was found.
fn version(c: &mut Criterion) {
    let version = version_of(&[("cache-control", "public, max-age=600")]);
    let profile = Profile::web();
    let confirmed = Timestamp::from_secs(1_800_000_000);
    c.bench_function("freshness", |b| {
        b.iter(|| {
            let policy = Policy::new(black_box(&version), &profile, confirmed);
            policy.judge(black_box(Duration::from_secs(5)), false)
        });
    });
    let current = Validators {
        etag: &version.etag,
        last_modified: version.last_modified,
        confirmed,
    };
    let none = HeaderMap::new();
    let mut both = HeaderMap::new();
    let tags = HeaderValue::from_static("W/\"one\", \"another\"");
    both.insert(IF_NONE_MATCH, tags);
    both.insert(RANGE, HeaderValue::from_static("bytes=0-1023"));
    for (name, headers) in [("preconditions, none", &none), ("preconditions", &both)] {
        let ranges = precondition::requested_ranges(headers);
        c.bench_function(name, |b| {
            b.iter(|| {
                precondition::decide(black_box(headers), ranges.as_ref(), current, version.size)
            });
        });
    }
}

/// Measures a sequence of 64 KiB reads: one read, and its effect on the window.
fn readahead(c: &mut Criterion) {
    let limits = Limits {
        window: 128 * MIB,
        streams: 16,
    };
    let step = 64 << 10;
    let mut cursor = ReadAhead::new(limits, 0, Duration::ZERO);
    let mut at = 0;
    c.bench_function("read-ahead step", |b| {
        b.iter(|| {
            let range = ByteRange::new(at * step, (at + 1) * step);
            at += 1;
            cursor.record_read(range, Duration::from_micros(at * 650));
            let window = cursor.window(0);
            let streams = cursor.streams(black_box(Some(20e6)), false);
            (
                ReadAhead::part(window, u64::MAX, streams, Some(20e6)),
                window,
            )
        });
    });
}

/// Measures the memory tier by itself.
fn memory(c: &mut Criterion) {
    let runtime = runtime();
    let _inside = runtime.enter();
    let settings = tidegate_cache::Settings {
        memory: 64 * MIB,
        ..tidegate_cache::Settings::default()
    };
    let tiers = Tiers::open(&settings, &mut Registry::default()).expect("no disk to fail");
    let id = ObjectId {
        origin: OriginId::new("http://bucket.example", "media"),
        key: ObjectKey::new(KEY).expect("a key"),
    };
    let key = ChunkKey {
        version: VersionId::new(&id, &version_of(&[]), 0),
        index: 0,
    };
    tiers.insert(key, vec![b'x'; SIZE].into(), Admit::Memory);
    assert!(tiers.get_memory(&key).is_some());
    c.bench_function("memory tier", |b| {
        b.iter(|| tiers.get_memory(black_box(&key)));
    });
}

/// Measures metadata, freshness and memory together.
fn engine(c: &mut Criterion) {
    let runtime = runtime();
    let hot = runtime.block_on(Hot::start());
    c.bench_function("engine, open", |b| {
        b.iter(|| runtime.block_on(hot.open()).expect("hot"));
    });
    c.bench_function("engine, open and read 35 KB", |b| {
        b.iter(|| runtime.block_on(hot.read()).expect("hot"));
    });
    assert_eq!(hot.origin.gets(), 1, "every one was a hit");
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime")
}

fn version_of(headers: &[(&'static str, &'static str)]) -> Version {
    let header = |&(name, value): &(&'static str, &'static str)| {
        let name = http::HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    };
    Version {
        etag: ETag::parse("\"4fc7b1be102144ccabbb5e7959a45db0\"").expect("a tag"),
        size: SIZE as u64,
        last_modified: Some(Timestamp::from_secs(1_700_000_000)),
        version_id: None,
        headers: headers.iter().map(header).collect(),
    }
}
