//! A transient error leads to a retry from the reached byte; a lasting one is returned at once.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;
use crate::Guard;
use crate::decorators::checked_origin::CheckedOrigin;
use crate::fake::{FakeOrigin, Fault};
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::stack;
use crate::testing::{bounded, content, drain, get, key, sample};

const SIZE: usize = 1000;
const GONE: OriginError = OriginError::Unavailable("connection lost");

fn over(fake: &FakeOrigin) -> Resume {
    let checked = CheckedOrigin::new(Arc::new(fake.clone()));
    Resume::new(
        Arc::new(checked),
        Retry::default(),
        Metrics::default().of("test"),
    )
}

fn setup() -> (FakeOrigin, Resume) {
    let fake = FakeOrigin::new().with_frames(64);
    fake.put("k", sample(SIZE));
    let origin = over(&fake);
    (fake, origin)
}

fn ranges(fake: &FakeOrigin) -> Vec<Option<RangeSpec>> {
    fake.log().iter().map(|get| get.range).collect()
}

#[tokio::test(start_paused = true)]
async fn a_broken_body_goes_on_from_the_byte_it_reached_on_the_same_version() {
    let (fake, origin) = setup();
    fake.fail_next([Fault::Reset(150)]);
    fake.fail_next([Fault::Truncate(200)]);
    let answer = content(&origin, get(bounded(100, 899)))
        .await
        .expect("a head");
    let etag = answer.version.etag.clone();
    assert_eq!(
        drain(answer.body).await,
        (sample(SIZE)[100..900].to_vec(), None)
    );
    assert_eq!(
        ranges(&fake),
        [bounded(100, 899), bounded(250, 899), bounded(450, 899)]
    );
    for again in &fake.log()[1..] {
        let Condition::Match { etag: asked, .. } = &again.condition else {
            panic!("resumed without a condition");
        };
        assert_eq!(*asked, etag);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_body_goes_on_too() {
    let (fake, _) = setup();
    let settings = Settings::new("test", "test");
    let origin = stack(Arc::new(fake.clone()), &settings, &Metrics::default());
    fake.fail_next([Fault::Stall(400)]);
    let begun = Instant::now();
    let answer = content(&*origin, get(None)).await.expect("a head");
    assert_eq!(drain(answer.body).await, (sample(SIZE).to_vec(), None));
    assert_eq!(ranges(&fake)[1], bounded(400, 999));
    assert!(begun.elapsed() >= settings.deadlines.stall);
    assert_eq!(fake.running(), 0, "the stalled request is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_suffix_of_an_unknown_object_goes_on_too() {
    let (fake, origin) = setup();
    fake.fail_next([Fault::Reset(10)]);
    let answer = content(&origin, get(Some(RangeSpec::Suffix(100)))).await;
    let read = drain(answer.expect("a head").body).await;
    assert_eq!(read, (sample(SIZE)[900..].to_vec(), None));
    assert_eq!(ranges(&fake)[1], bounded(910, 999));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changed_meanwhile_is_never_mixed() {
    let (fake, origin) = setup();
    fake.fail_next([Fault::Reset(150)]);
    let answer = content(&origin, get(None)).await.expect("a head");
    fake.put("k", vec![9; SIZE]);
    let read = drain(answer.body).await;
    assert_eq!(
        read,
        (sample(SIZE)[..150].to_vec(), Some(OriginError::Changed))
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_with_an_id_is_read_to_its_end_after_it_was_replaced() {
    let fake = FakeOrigin::new().with_versions();
    fake.put("k", sample(SIZE));
    let origin = over(&fake);
    fake.fail_next([Fault::Reset(150)]);
    let answer = content(&origin, get(None)).await.expect("a head");
    fake.put("k", "new");
    assert_eq!(drain(answer.body).await, (sample(SIZE).to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn tries_are_bounded_for_heads_and_bodies() {
    let (fake, origin) = setup();
    fake.set_faults([Fault::Refuse(GONE)]);
    assert_eq!(content(&origin, get(None)).await.expect_err("down"), GONE);
    assert_eq!(fake.gets(), 3);
    assert_eq!(origin.head(&key("k")).await.expect_err("down"), GONE);
    assert_eq!(fake.heads(), 3);

    fake.set_faults([Fault::Reset(100)]);
    let answer = content(&origin, get(None)).await.expect("a head");
    let read = drain(answer.body).await;
    assert_eq!(read, (sample(SIZE)[..300].to_vec(), Some(GONE)));
    assert_eq!(fake.gets(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_long_body_may_break_often_if_it_gets_on() {
    let mib = 1 << 20;
    let fake = FakeOrigin::new();
    fake.put("k", sample(8 * mib));
    let origin = over(&fake);
    fake.set_faults([Fault::Reset(mib as u64)]);
    let answer = content(&origin, get(None)).await.expect("a head");
    let (bytes, error) = drain(answer.body).await;
    // At the very end the last part breaks too, with no bytes left to request.
    assert_eq!((bytes.len(), error), (8 * mib, Some(GONE)));
    assert_eq!(fake.gets(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_pause_asked_for_is_kept_within_reason() {
    let (fake, origin) = setup();
    let throttled = |seconds| OriginError::Throttled {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let begun = Instant::now();
    fake.fail_next([Fault::Refuse(throttled(4))]);
    assert!(content(&origin, get(None)).await.is_ok());
    let waited = begun.elapsed().as_secs_f64();
    assert!((4.0..4.2).contains(&waited), "{waited}");

    let begun = Instant::now();
    fake.fail_next([Fault::Refuse(throttled(60))]);
    let refused = content(&origin, get(None)).await;
    assert_eq!(refused.expect_err("too long to wait"), throttled(60));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_is_asked_once() {
    let (fake, origin) = setup();
    let lasting = [
        OriginError::NotFound,
        OriginError::NoSuchBucket,
        OriginError::Forbidden,
        breaker::BREAKER_OPEN,
    ];
    for (n, error) in (1..).zip(lasting) {
        fake.fail_next([Fault::Refuse(error.clone())]);
        assert_eq!(
            content(&origin, get(None)).await.expect_err("refused"),
            error
        );
        assert_eq!(fake.gets(), n);
    }
}

/// A bucket that keeps versions compares the second try with the delete marker of the first.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_was_lost_is_no_other_writers_change() {
    for expected in [Ok(WriteOutcome::Done), Err(OriginError::Changed)] {
        let fake = FakeOrigin::new().with_versions();
        let origin = over(&fake);
        let etag = fake.put("k", "ours").etag.clone();
        fake.fail_next([Fault::LoseAnswer]);
        let deleted = origin.write(Write::Delete {
            key: key("k"),
            version_id: None,
            guard: Guard::Same(etag),
        });
        let meanwhile = async {
            while fake.count("delete") == 0 {
                tokio::task::yield_now().await;
            }
            if expected.is_err() {
                fake.put("k", "theirs");
            }
        };
        assert_eq!(tokio::join!(deleted, meanwhile).0, expected);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Refused,
    Reset(u64),
    Truncated(u64),
    Other,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Refused),
        (0..500_u64).prop_map(Step::Reset),
        (0..500_u64).prop_map(Step::Truncated),
        Just(Step::Other),
    ]
}

proptest! {
    #[test]
    fn what_arrives_is_always_a_true_beginning(
        steps in prop::collection::vec(step(), 0..5),
        frame in 1..200_usize,
        first in 0..1000_u64,
        length in 1..1000_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let fake = FakeOrigin::new().with_frames(frame);
            fake.put("k", sample(SIZE));
            for step in &steps {
                fake.fail_next([match step {
                    Step::Refused => Fault::Refuse(GONE),
                    Step::Reset(at) => Fault::Reset(*at),
                    Step::Truncated(at) => Fault::Truncate(*at),
                    Step::Other => Fault::WrongRange,
                }]);
            }
            let origin = over(&fake);
            if let Ok(answer) = content(&origin, get(bounded(first, first + length - 1))).await {
                let meant = answer.range;
                let (bytes, error) = drain(answer.body).await;
                let truth = &sample(SIZE)[meant.start as usize..meant.end as usize];
                assert!(truth.starts_with(&bytes));
                assert!(error.is_some() || bytes.len() == truth.len());
                if steps.len() <= 2 {
                    assert_eq!(bytes.len(), truth.len(), "two failures are survived");
                }
            } else {
                assert!(steps.len() > 2, "two failures are survived");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_does_not_go_on_with_another_object_of_the_same_tag() {
    let (fake, origin) = setup();
    fake.put_tagged("k", "\"same\"", sample(SIZE));
    fake.fail_next([Fault::Reset(150)]);
    let answer = content(&origin, get(bounded(0, 899)))
        .await
        .expect("a head");
    fake.put_tagged("k", "\"same\"", vec![7; SIZE + 1]);
    let (bytes, error) = drain(answer.body).await;
    assert_eq!(bytes, sample(SIZE)[..150]);
    assert_eq!(error, Some(OriginError::Changed));
}
