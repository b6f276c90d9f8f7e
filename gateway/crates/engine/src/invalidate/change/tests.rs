use super::*;
use crate::{Assists, Budget, EncodingTimes, OpenOptions, Parts, ReadContext};
use prometheus_client::registry::Registry;
use tidegate_origin::FakeOrigin;
use tidegate_plan::{Geometry, Profile, Timestamp};

#[tokio::test]
async fn names_are_forgotten_before_a_request_can_see_the_doubt() {
    let settings = tidegate_cache::Settings::default();
    let stores = tidegate_cache::open(&settings, &mut Registry::default());
    let stores = stores.expect("stores in memory");
    let engine = Engine::new(Parts {
        assists: Assists::default(),
        encoding: EncodingTimes::default(),
        runtime: None,
        chunks: stores.chunks,
        meta: stores.meta,
        geometry: Geometry::new(1 << 20).expect("a power of two"),
        budget: Budget::new(64 << 20),
        clock: Arc::new(|| Timestamp::from_secs(1_700_000_000)),
        origins: Vec::new(),
    });
    let bucket = FakeOrigin::new();
    bucket.put("key", "bytes");
    let source = Arc::new(ReadContext::new(Arc::new(bucket), Profile::web()));
    let key = ObjectKey::new("key").expect("a key");
    for kind in [ChangeKind::Created, ChangeKind::Removed] {
        let opened = engine.open(&source, &key, OpenOptions::default()).await;
        opened.expect("it is there");
        let (core, id) = (engine.core(), source.object(&key));
        let known = core.meta.peek(&id);
        assert!(matches!(&known, Some(Entry::Present(record)) if !record.must_confirm));
        let mut seen = None;
        let forget = || seen = Some((core.meta.peek(&id), core.resolves.try_lock().is_err()));
        judge_record(core, &id, &KeyChange::of("b", &key, kind), forget);
        // The lock keeps confirmations out meanwhile.
        assert_eq!(seen, Some((known.clone(), true)), "{kind:?}");
        assert_ne!(core.meta.peek(&id), known, "{kind:?}");
    }
}
