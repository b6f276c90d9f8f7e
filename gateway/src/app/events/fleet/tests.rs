//! The buckets of a fleet's member, which a reload exchanges. No NATS carries the messages.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_cache::Stores;
use tidegate_engine::{Assists, Budget, EncodingTimes, OpenOptions, Parts, ReadContext};
use tidegate_origin::{FakeOrigin, Origin};
use tidegate_plan::{ETag, Geometry, Profile, RangeSpec, Sequencer};

use super::*;

/// A member whose only bucket is `media`, and a bucket `photos` that may join.
struct Member {
    link: FleetLink,
    sink: Arc<MemberSink>,
    photos: FakeOrigin,
    source: Arc<ReadContext>,
}

fn config(names: &[&str]) -> Config {
    let origin = |name: &&str| format!("[[origin]]\nname = \"{name}\"\nbucket = \"{name}\"\n");
    let routes = names
        .iter()
        .map(|name| format!("[[route]]\npath = \"/{name}/\"\norigin = \"{name}\"\n"));
    let text: String = names.iter().map(origin).chain(routes).collect();
    let loaded = tidegate_config::parse("t.toml", &text, &Environment::default());
    loaded.expect("it is right").config
}

impl Member {
    fn new() -> Self {
        let opened = tidegate_cache::open(
            &tidegate_cache::Settings::default(),
            &mut Registry::default(),
        );
        let Stores {
            chunks, meta, pins, ..
        } = opened.expect("stores in memory");
        let photos = FakeOrigin::new();
        // No two times are equal.
        let clock = AtomicU64::new(1_700_000_000_000);
        let engine = Engine::new(Parts {
            assists: Assists::default(),
            encoding: EncodingTimes::default(),
            runtime: None,
            chunks,
            meta,
            geometry: Geometry::new(1 << 20).expect("a power of two"),
            budget: Budget::new(64 << 20),
            clock: Arc::new(move || Timestamp(clock.fetch_add(1, Ordering::Relaxed))),
            origins: Vec::new(),
        });
        let env = Environment::default();
        let hooks = crate::app::hooks::start(&config(&["media"]), &env, &Origins::new(), None);
        let buckets = Arc::new(FleetBuckets(ArcSwap::default()));
        let sink = Arc::new(MemberSink {
            engine: engine.clone(),
            hooks: hooks.expect("no hook"),
            pins,
            buckets: buckets.clone(),
            log: Arc::default(),
        });
        let clock = Arc::new(|| Timestamp(1));
        let made = Fleet::new(None, sink.clone(), clock, FleetMetrics::default());
        let fleet = made.expect("chance");
        let profile = Profile {
            ttl: Duration::from_secs(3600),
            ..Profile::web()
        };
        let origin: Arc<dyn Origin> = Arc::new(photos.clone());
        Self {
            link: FleetLink {
                fleet,
                engine,
                buckets,
            },
            sink,
            source: Arc::new(ReadContext::new(origin, profile)),
            photos,
        }
    }

    /// Puts a configuration with these origins in force.
    fn reload(&self, names: &[&str]) -> impl Future<Output = ()> + use<'_> {
        let origin = |name: &&str| -> (String, Arc<dyn Origin>) {
            let origin: Arc<dyn Origin> = match *name {
                "photos" => Arc::new(self.photos.clone()),
                _ => Arc::new(FakeOrigin::new().seen_by("media")),
            };
            ((*name).to_owned(), origin)
        };
        let origins = names.iter().map(origin).collect();
        self.link.replace(&config(names), &origins)
    }

    async fn open(&self, key: &ObjectKey) {
        let first = OpenOptions {
            first: Some(RangeSpec::From(0)),
            ..OpenOptions::default()
        };
        let opened = self.link.engine.open(&self.source, key, first).await;
        opened.expect("it is there");
    }
}

#[tokio::test]
async fn a_bucket_joins_and_leaves_with_a_reload() {
    let member = Member::new();
    let key = ObjectKey::new("k").expect("a key");
    let photos = member.photos.id();
    member.photos.put("k", "bytes");
    let change = KeyChange::of("photos", &key, ChangeKind::Created);
    let change = FleetChange::Changed(change);
    member.open(&key).await;
    member.open(&key).await;
    assert_eq!(member.photos.gets(), 1, "it is fresh for an hour");
    for (names, is_known) in [
        (&["media"][..], false),
        (&["media", "photos"], true),
        (&["photos", "media"], true),
        (&["media"], false),
    ] {
        member.reload(names).await;
        assert_eq!(member.sink.apply(&change).await, Ok(is_known), "{names:?}");
        member.link.changed(photos, &key, ChangeKind::Created);
        let sent = member.link.fleet.next_message();
        assert_eq!(sent.is_some(), is_known, "{names:?}");
    }
}

#[tokio::test]
async fn what_is_cached_of_a_bucket_that_joins_is_confirmed() {
    let member = Member::new();
    let key = ObjectKey::new("k").expect("a key");
    member.photos.put("k", "bytes");
    member.reload(&["media"]).await;
    member.open(&key).await;
    member.open(&key).await;
    assert_eq!(member.photos.gets(), 1);
    member.reload(&["media", "photos"]).await;
    member.open(&key).await;
    assert_eq!(member.photos.gets(), 2, "a message may have been ignored");
    member.reload(&["photos", "media"]).await;
    member.open(&key).await;
    assert_eq!(member.photos.gets(), 2, "it was there before");
}

#[tokio::test]
async fn a_bucket_that_joins_is_confirmed_before_that_is_durable() {
    let member = Member::new();
    let key = ObjectKey::new("k").expect("a key");
    member.photos.put("k", "bytes");
    member.reload(&["media"]).await;
    member.open(&key).await;
    // A reload exchanges the routes before it waits.
    let durable = member.reload(&["media", "photos"]);
    member.open(&key).await;
    assert_eq!(member.photos.gets(), 2);
    durable.await;
}

#[tokio::test]
async fn an_event_that_is_passed_on_asks_for_nothing_where_its_version_is_known() {
    let (a, b) = (Member::new(), Member::new());
    let key = ObjectKey::new("k").expect("a key");
    b.photos.put("k", "bytes");
    for member in [&a, &b] {
        member.reload(&["photos"]).await;
    }
    b.open(&key).await;
    b.open(&key).await;
    let (version, gets) = (b.photos.object("k").expect("there").0, b.photos.gets());
    let of = |etag: &ETag| KeyChange {
        etag: Some(etag.clone()),
        size: Some(version.size),
        time: version.last_modified,
        sequencer: Sequencer::parse("01"),
        ..KeyChange::of("photos", &key, ChangeKind::Created)
    };
    let other = ETag::parse("\"other\"").expect("a tag");
    for (etag, asked) in [(&version.etag, 0), (&other, 1)] {
        // A webhook has told `a` of it.
        a.link.reported(&of(etag), false);
        let message = a.link.fleet.next_message().expect("it is passed on");
        let received = b.link.fleet.take(&message).expect("a change");
        b.link.fleet.apply(received).await;
        b.open(&key).await;
        assert_eq!(b.photos.gets(), gets + asked);
    }
}

/// Two endpoints may each have a bucket of one name, and a bucket two origins: the hooks of each bucket are called once.
#[test]
fn each_bucket_of_a_name_has_its_hooks_called_once() {
    let at = |endpoint| Bucket::new(Some(endpoint), "media");
    let origins = [
        ("a", at("http://one"), None),
        ("b", at("http://other"), None),
        ("a for readers", at("http://one"), Some("a reader")),
    ];
    let named = origins
        .map(|(name, bucket, identity)| (name.to_owned(), bucket.identity_for(identity), bucket));
    let named = NamedOrigins::from([("media".to_owned(), named.to_vec())]);
    let buckets = FleetBuckets(ArcSwap::from_pointee(named));
    let asked = buckets.one_each("media");
    let names: Vec<_> = asked.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}
