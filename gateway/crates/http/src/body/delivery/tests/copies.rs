//! Copies that hold no chunk: a client gets them if it is very slow, or if clients hold too much memory.

use super::*;
use crate::body::client_memory::SMALL_COPY_BYTES;
use crate::record::RequestRecord;
use crate::server::timeouts::{ConnectionActivity, Expiry, Timeouts};

#[tokio::test]
async fn copies_go_out_while_the_memory_is_used_up() {
    for cached in [true, false] {
        let mut fake = Fake::new(100_000, 40_000);
        fake.cached = cached;
        let (body, memory) = single(&fake, fake.all(), 39_999);
        let (bytes, lengths) = taken(body).await;
        assert_eq!(bytes, fake.bytes);
        // The last frame of 20,000 bytes fits.
        let copies = [COPY_BYTES, COPY_BYTES, 40_000 - 2 * COPY_BYTES];
        assert_eq!(lengths, [&copies[..], &copies, &[20_000]].concat());
        assert_eq!(memory.used(), 0);
        let reads = fake.reads.lock().expect("not poisoned").len();
        assert_eq!(
            reads,
            if cached { 1 + 6 } else { 1 },
            "held where reading again costs"
        );
    }
}

#[tokio::test]
async fn small_copies_go_out_one_at_a_time_while_the_memory_is_overdrawn() {
    let mut fake = Fake::new(100_000, 40_000);
    fake.cached = false;
    let (mut body, memory) = single(&fake, fake.all(), 10);
    memory.force_reserve(16);
    let first = next(&mut body).await;
    assert_eq!(first.len(), SMALL_COPY_BYTES);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
    assert!(body.content.waits_for_client(), "it waits for the client");
    assert_eq!(memory.used(), 16 + SMALL_COPY_BYTES, "no frame is held");
    drop(first);
    let (bytes, lengths) = taken(body).await;
    assert_eq!(bytes, fake.bytes[SMALL_COPY_BYTES..]);
    assert!(lengths.iter().all(|length| *length <= SMALL_COPY_BYTES));
    assert_eq!(memory.used(), 16);
}

/// It waited for bytes from here, and clients hold too much when they have come.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_held_back_is_watched_again() {
    let timeouts = Timeouts {
        header: Duration::from_secs(1),
        idle: Duration::from_secs(1),
        stall: Duration::from_secs(1),
    };
    for multiplexed in [false, true] {
        let mut fake = Fake::new(100_000, 50_000);
        let all = fake.all();
        let reader = fake.read_at(all);
        fake.fault = Some((SMALL_COPY_BYTES, Fault::Hangs));
        let memory = Arc::new(ClientMemory::new(COPY_BYTES));
        let delivery = Delivery::new(fake, reader, all, memory.clone());
        let activity = Arc::new(ConnectionActivity::new(Arc::default()));
        let (method, uri) = (http::Method::GET, http::Uri::from_static("/"));
        let record = RequestRecord::begin(activity.clone(), None, method, uri, multiplexed);
        let mut body = Body::new(Content::Delivery(Box::new(delivery)), record);
        let taken_later = body.frame().await.expect("more").expect("whole");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
        tokio::time::advance(Duration::from_secs(5)).await;
        activity.check(timeouts).expect("it waits for us");
        memory.force_reserve(10 * COPY_BYTES);
        assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(
            activity.check(timeouts),
            Err(Expiry::Stalled),
            "{multiplexed}"
        );
        drop(taken_later);
    }
}

#[tokio::test]
async fn a_byte_is_copied_out_of_its_chunk() {
    let mut fake = Fake::new(400_000, 256 << 10);
    fake.pinned = Some(256 << 10);
    let (body, memory) = single(&fake, ByteRange::new(7, 8), usize::MAX);
    let frames = frames(body).await.expect("whole");
    assert_eq!(
        (frames.concat(), memory.used()),
        (fake.bytes[7..8].to_vec(), 1)
    );
    drop(frames);
    let (mut body, memory) = single(&fake, ByteRange::new(7, 20_007), usize::MAX);
    let frame = next(&mut body).await;
    assert_eq!(memory.used(), 256 << 10, "all of what it keeps alive");
    drop(frame);
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_very_slow_client_gets_copies_until_it_is_faster() {
    let fake = Fake::new(400_000, 100_000);
    let (mut body, memory) = single(&fake, fake.all(), usize::MAX);
    let mut length_after = async |wait: u64| {
        tokio::time::advance(Duration::from_millis(wait)).await;
        next(&mut body).await.len()
    };
    assert_eq!(length_after(0).await, 100_000);
    assert_eq!(length_after(1000).await, 100_000, "100 kB/s will do");
    assert_eq!(length_after(3000).await, COPY_BYTES, "33 kB/s is very slow");
    assert_eq!(memory.used(), 0);
    for _ in 0..5 {
        assert_eq!(length_after(100).await, COPY_BYTES);
    }
    assert_eq!(length_after(100).await, 100_000 - 6 * COPY_BYTES);
    assert_eq!(length_after(100).await, 100_000, "fast again");
}

#[tokio::test(start_paused = true)]
async fn a_slow_engine_does_not_make_the_client_slow() {
    let fake = Fake::new(100_000, 50_000);
    let pause = || async {
        tokio::time::sleep(Duration::from_secs(60)).await;
    };
    let slow = fake.read_at(fake.all()).then(move |frame| async move {
        pause().await;
        frame
    });
    let delivery = Delivery::new(
        fake.clone(),
        slow.boxed(),
        fake.all(),
        Arc::new(ClientMemory::new(usize::MAX)),
    );
    let frames = frames(unrecorded(Content::Delivery(Box::new(delivery))))
        .await
        .expect("whole");
    assert_eq!(
        frames.iter().map(Bytes::len).collect::<Vec<_>>(),
        [50_000, 50_000]
    );
}
