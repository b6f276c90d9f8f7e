use super::*;
use tokio::time::advance;

const LIMITS: Timeouts = Timeouts {
    header: Duration::from_secs(10),
    idle: Duration::from_secs(60),
    stall: Duration::from_secs(30),
};

async fn after(activity: &ConnectionActivity, secs: u64) -> Option<Expiry> {
    advance(Duration::from_secs(secs)).await;
    activity.check(LIMITS).err()
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_owes_a_head() {
    let activity = ConnectionActivity::new(Arc::default());
    assert_eq!(after(&activity, 9).await, None);
    activity.record_read();
    activity.settle();
    assert_eq!(
        after(&activity, 1).await,
        Some(Expiry::Header),
        "a drip buys no time"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_handed_over_stalls_until_the_client_takes_it() {
    let activity = ConnectionActivity::new(Arc::default());
    activity.begin_request(Instant::now(), None);
    activity.record_write();
    activity.record_full();
    activity.settle();
    activity.set_waiting(false);
    activity.end_request(false);
    // The next request comes before that: the answer moves on, and its head has time.
    assert_eq!(after(&activity, 20).await, None);
    activity.record_read();
    activity.record_write();
    activity.record_full();
    activity.settle();
    assert_eq!(after(&activity, 20).await, None);
    assert!(!activity.is_idle_for(Duration::from_secs(5)));
    assert_eq!(after(&activity, 10).await, Some(Expiry::Stalled));
    activity.record_write();
    activity.settle();
    assert_eq!(after(&activity, 9).await, None);
    assert_eq!(after(&activity, 1).await, Some(Expiry::Header));
}

#[tokio::test(start_paused = true)]
async fn keep_alive_may_idle_until_the_next_head_begins() {
    let activity = ConnectionActivity::new(Arc::default());
    activity.begin_request(Instant::now(), None);
    activity.end_request(true);
    activity.settle();
    assert_eq!(after(&activity, 59).await, None);
    activity.record_read();
    activity.settle();
    assert_eq!(
        after(&activity, 5).await,
        None,
        "the head has a time of its own"
    );
    assert_eq!(after(&activity, 5).await, Some(Expiry::Header));

    let activity = ConnectionActivity::new(Arc::default());
    drop(stream(&activity));
    activity.record_read();
    activity.settle();
    assert_eq!(
        after(&activity, 59).await,
        None,
        "HTTP/2 sends more than heads"
    );
    activity.record_write();
    activity.settle();
    assert_eq!(
        after(&activity, 59).await,
        None,
        "since the stream was seen to end"
    );
    assert_eq!(
        after(&activity, 1).await,
        Some(Expiry::Idle),
        "PING is no request"
    );
}

fn stream(activity: &ConnectionActivity) -> Arc<Http2Stream> {
    let stream = activity.new_stream();
    activity.begin_request(Instant::now(), Some(&stream));
    stream
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_reset_ends_its_connection() {
    let activity = ConnectionActivity::new(Arc::default());
    let (slow, stalled) = (stream(&activity), stream(&activity));
    assert_eq!(
        after(&activity, 1000).await,
        None,
        "we are slow, not the client"
    );
    stalled.set_waiting(false);
    assert_eq!(after(&activity, 29).await, None);
    assert_eq!(
        after(&activity, 1).await,
        Some(Expiry::StreamStalled),
        "another may end first"
    );
    assert_eq!(after(&activity, 29).await, None);
    assert_eq!(after(&activity, 1).await, Some(Expiry::Stalled));
    drop(slow);

    let activity = ConnectionActivity::new(Arc::default());
    stream(&activity).set_waiting(false);
    let stalled = stream(&activity);
    stalled.set_waiting(false);
    assert_eq!(
        after(&activity, 30).await,
        Some(Expiry::Stalled),
        "nothing else moves"
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_clients_own_delay_counts_as_a_stall() {
    let activity = ConnectionActivity::new(Arc::default());
    activity.begin_request(Instant::now(), None);
    assert_eq!(
        after(&activity, 1000).await,
        None,
        "we are slow, not the client"
    );
    activity.set_waiting(false);
    activity.record_progress(Instant::now());
    assert_eq!(after(&activity, 29).await, None);
    activity.record_progress(Instant::now());
    assert_eq!(after(&activity, 29).await, None, "slow, but it moves");
    assert_eq!(after(&activity, 1).await, Some(Expiry::Stalled));
    activity.set_waiting(true);
    assert_eq!(after(&activity, 1000).await, None);
}
