//! Under paused time: every wait ends on time, and the reader's pauses do not count.

use futures_util::StreamExt;
use tokio::time::sleep;

use super::*;
use crate::fake::{FakeOrigin, Fault};
use crate::testing::{content, drain, get, key, sample};

const S: fn(u64) -> Duration = Duration::from_secs;

fn setup() -> (FakeOrigin, Deadline) {
    let fake = FakeOrigin::new().with_frames(100);
    fake.put("k", sample(1000));
    let deadlines = Deadlines {
        first_byte: S(10),
        stall: S(5),
        total: S(60),
        ..Deadlines::default()
    };
    (fake.clone(), Deadline::new(Arc::new(fake), deadlines))
}

#[tokio::test(start_paused = true)]
async fn a_late_head_is_given_up() {
    let (fake, origin) = setup();
    fake.set_faults([Fault::Latency(S(11))]);
    let late = OriginError::Timeout(Phase::FirstByte);
    let begun = Instant::now();
    assert_eq!(content(&origin, get(None)).await.expect_err("late"), late);
    assert_eq!(begun.elapsed(), S(10));
    assert_eq!(fake.running(), 0, "the request is dropped");
    assert_eq!(origin.head(&key("k")).await.expect_err("late"), late);
    assert_eq!(origin.probe().await.expect_err("late"), late);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_body_is_given_up() {
    let (fake, origin) = setup();
    fake.set_faults([Fault::Stall(250)]);
    let answer = content(&origin, get(None)).await.expect("a head");
    let begun = Instant::now();
    let read = drain(answer.body).await;
    let error = Some(OriginError::Timeout(Phase::Stall));
    assert_eq!(read, (sample(1000)[..250].to_vec(), error));
    assert_eq!(begun.elapsed(), S(5));
    assert_eq!(fake.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_pauses_is_no_stall() {
    let (_, origin) = setup();
    let mut body = content(&origin, get(None)).await.expect("a head").body;
    let mut bytes = 0;
    while let Some(frame) = body.next().await {
        bytes += frame.expect("no deadline passes").len();
        sleep(S(3600)).await;
    }
    assert_eq!(bytes, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_trickle_ends_with_the_total() {
    let (fake, origin) = setup();
    // A frame of 100 bytes every 4 seconds never stalls, and takes 40 seconds. With 9 of the 60
    // gone before the head, that is still in time.
    fake.set_faults([Fault::Rate(25), Fault::Latency(S(9))]);
    let answer = content(&origin, get(None)).await.expect("a head");
    assert_eq!(drain(answer.body).await.1, None);

    let short = Deadlines {
        total: S(30),
        ..origin.deadlines
    };
    let origin = Deadline::new(origin.inner, short);
    let answer = content(&origin, get(None)).await.expect("a head");
    let (bytes, error) = drain(answer.body).await;
    assert_eq!(error, Some(OriginError::Timeout(Phase::Total)));
    assert_eq!(bytes.len(), 500, "21 seconds are left for the body");
}
