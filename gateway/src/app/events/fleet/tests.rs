//! The buckets of a fleet's member, which a reload exchanges. No NATS carries the messages.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_cache::Stores;
use tidegate_engine::{Assists, Budget, Open, Parts, ReadContext};
use tidegate_events::fleet::Outgoing;
use tidegate_origin::{FakeOrigin, Origin};
use tidegate_plan::{Geometry, Profile, RangeSpec};

use super::*;

/// A member whose only bucket is `media`, and a bucket `photos` that may join.
struct Member {
    link: FleetLink,
    sink: Arc<MemberSink>,
    outgoing: Outgoing,
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
            chunks,
            meta,
            pinning,
            ..
        } = opened.expect("stores in memory");
        let photos = FakeOrigin::new();
        // No two times are equal.
        let clock = AtomicU64::new(1_700_000_000_000);
        let engine = Engine::new(Parts {
            assists: Assists::default(),
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
            pinning,
            buckets: buckets.clone(),
            log: Arc::default(),
        });
        let clock = Arc::new(|| Timestamp(1));
        let made = Fleet::new(None, sink.clone(), clock, FleetMetrics::default());
        let (fleet, outgoing) = made.expect("chance");
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
            outgoing,
            source: Arc::new(ReadContext::new(origin, profile)),
            photos,
        }
    }

    /// Puts a configuration with these origins in force.
    async fn reload(&self, names: &[&str]) {
        let origin = |name: &&str| -> (String, Arc<dyn Origin>) {
            let origin: Arc<dyn Origin> = match *name {
                "photos" => Arc::new(self.photos.clone()),
                _ => Arc::new(FakeOrigin::new().seen_by("media")),
            };
            ((*name).to_owned(), origin)
        };
        let origins = names.iter().map(origin).collect();
        self.link.replace(&config(names), &origins).await;
    }

    async fn open(&self, key: &ObjectKey) {
        let first = Open {
            first: Some(RangeSpec::From(0)),
            ..Open::default()
        };
        let opened = self.link.engine.open(&self.source, key, first).await;
        opened.expect("it is there");
    }
}

#[tokio::test]
async fn a_bucket_joins_and_leaves_with_a_reload() {
    let mut member = Member::new();
    let key = ObjectKey::new("k").expect("a key");
    let photos = member.photos.id();
    member.photos.put("k", "bytes");
    let change = FleetChange::Changed {
        bucket: "photos".to_owned(),
        key: key.clone(),
        kind: ChangeKind::Created,
    };
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
        assert_eq!(member.outgoing.try_recv().is_ok(), is_known, "{names:?}");
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
