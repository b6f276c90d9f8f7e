//! A bucket's events reach the cache of a whole gateway: the test plays the store that sends them.

use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/store_events.rs"]
mod store_events;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use gateway::{Got, Whole, send};
use store_events::{alive, beat, message, post, record};
use world::World;

const TOKEN: &str = "t0ken-of-the-bucket";
const LONG: Duration = Duration::from_secs(300);

/// Starts a gateway that would keep an object for an hour, and takes events.
async fn start(world: &World, more: &str) -> Whole {
    start_with(world, "ttl = \"1h\"", more).await
}

/// Starts a gateway with this profile that takes events.
async fn start_with(world: &World, profile: &str, more: &str) -> Whole {
    let gateway = Whole::start(&format!(
        "{}[[events]]\nname = \"bucket\"\norigin = \"media\"\ntoken = \"{TOKEN}\"\n{more}",
        world.config(profile),
    ))
    .await;
    gateway.ready().await;
    gateway
}

async fn created(gateway: &Whole, world: &World, key: &str, sequencer: &str) -> u16 {
    let record = record(
        world.origin.bucket(),
        "s3:ObjectCreated:Put",
        key,
        "e",
        sequencer,
    );
    post(gateway.admin, TOKEN, &message(&[record])).await.status
}

async fn counted(gateway: &Whole, result: &str) -> u64 {
    let label = format!("result=\"{result}\"");
    gateway
        .metric(&["tidegate_bucket_events_total{", &label])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reported_change_is_read_at_once() {
    let world = World::new().await;
    world.put("a b+c.txt", b"first").await;
    let gateway = start(&world, "").await;
    let read = async || gateway.get("/a%20b+c.txt", &[]).await.text();
    assert_eq!(read().await, "first");
    world.put("a b+c.txt", b"second").await;
    assert_eq!(read().await, "first", "it is fresh for an hour");
    assert_eq!(
        post(gateway.admin, "t0ken-of-another", "{}").await.status,
        401
    );
    let other = record("other", "s3:ObjectCreated:Put", "a+b%2Bc.txt", "e", "01");
    assert_eq!(
        post(gateway.admin, TOKEN, &message(&[other])).await.status,
        200
    );
    assert_eq!(read().await, "first", "another bucket's change");
    assert_eq!(created(&gateway, &world, "a+b%2Bc.txt", "01").await, 200);
    assert_eq!(read().await, "second");
    for (result, count) in [("applied", 1), ("foreign", 1), ("failed", 0)] {
        assert_eq!(counted(&gateway, result).await, count, "{result}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_twice_late_and_by_the_thousand() {
    let world = World::new().await;
    let gateway = start(&world, "").await;
    world.put("k", b"first").await;
    let read = async || gateway.get("/k", &[]).await.text();
    for sequencer in ["02", "02"] {
        assert_eq!(created(&gateway, &world, "k", sequencer).await, 200);
    }
    assert_eq!(read().await, "first");
    // Through a node of the store whose clock is behind.
    world.put("k", b"second").await;
    assert_eq!(created(&gateway, &world, "k", "02").await, 200);
    assert_eq!(read().await, "first", "that event is known");
    assert_eq!(created(&gateway, &world, "k", "01").await, 200);
    assert_eq!(read().await, "second");
    for (result, count) in [("applied", 1), ("duplicate", 2), ("late", 1)] {
        assert_eq!(counted(&gateway, result).await, count, "{result}");
    }
    let bucket = world.origin.bucket();
    let thousand: Vec<_> = (0..1000)
        .map(|n| record(bucket, "ObjectRemoved:Delete", &format!("k{n}"), "", "01"))
        .collect();
    assert_eq!(
        post(gateway.admin, TOKEN, &message(&thousand)).await.status,
        200
    );
    assert_eq!(counted(&gateway, "applied").await, 1001);
    gateway.stop().await;
}

/// Announces a message of so many bytes, of which none is sent. Returns the beginning of the answer.
async fn announce(gateway: &Whole, header: &str, length: u64) -> String {
    let mut stream = TcpStream::connect(gateway.admin).await.expect("listening");
    let head = format!(
        "POST /events/bucket HTTP/1.1\r\nhost: gate\r\n{header}\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    let read = timeout(LONG, stream.read_exact(&mut answer)).await;
    read.expect("in time").expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_messages_have_a_bounded_answer() {
    let world = World::new().await;
    let gateway = start(&world, "").await;
    let deep = format!(
        "{}{}",
        r#"{"Records":"#.repeat(100_000),
        "}".repeat(100_000)
    );
    for body in ["", "{", "[]", "\u{0}", &deep] {
        assert_eq!(
            post(gateway.admin, TOKEN, body).await.status,
            400,
            "{body:.20}"
        );
    }
    let unknown = record(world.origin.bucket(), "ObjectDreamed:Of", "k", "", "01");
    let body = message(&[unknown, "null".to_owned()]);
    assert_eq!(post(gateway.admin, TOKEN, &body).await.status, 200);
    assert_eq!(
        (
            counted(&gateway, "unknown").await,
            counted(&gateway, "invalid").await
        ),
        (1, 1)
    );
    // A gigabyte is refused by its length, before a byte of it was sent.
    let bearer = format!("authorization: Bearer {TOKEN}");
    assert_eq!(announce(&gateway, &bearer, 1 << 30).await, "HTTP/1.1 413");
    let gaps = [
        "tidegate_bucket_events_gaps_total{",
        "reason=\"unreadable\"",
    ];
    assert_eq!(gateway.metric(&gaps).await, 7);
    gateway.stop().await;
}

/// The topic of the messages of SNS, and one of them.
const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:media";
const NOTIFICATION: &str = include_str!("../crates/events/fixtures/sns/notification-v2.json");

/// Sends a message as SNS does, without a token, or with these headers more.
async fn post_signed(gateway: &Whole, more: &[(&str, &str)], body: &str) -> Got {
    let kind = ("x-amz-sns-message-type", "Notification");
    let headers = [&[kind], more].concat();
    send(
        gateway.admin,
        Method::POST,
        "/events/bucket",
        &headers,
        body,
    )
    .await
}

/// A message of a listed topic is checked further: here its certificate is said to come from a stranger's host, and nothing
/// is fetched.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_sns_count_by_the_topics_that_are_configured() {
    let world = World::new().await;
    let gateway = Whole::start(&format!(
        "{}[[events]]\nname = \"bucket\"\norigin = \"media\"\ntopics = [\"{TOPIC}\", \"{TOPIC}-2\"]\n",
        world.config("ttl = \"1h\""),
    ))
    .await;
    gateway.ready().await;
    let foreign = NOTIFICATION.replace(TOPIC, "arn:aws:sns:eu-west-1:123456789012:other");
    let listed = NOTIFICATION.replace("sns.eu-west-1.amazonaws.com", "evil.example");
    let second = listed.replace(TOPIC, &format!("{TOPIC}-2"));
    let (topic, url) = ("the topic is not one of `topics`", "a URL does not lead to");
    for (message, reason) in [(&foreign, topic), (&listed, url), (&second, url)] {
        let got = post_signed(&gateway, &[], message).await;
        assert_eq!(got.status, 403, "{message}");
        assert!(got.text().contains(reason), "{}", got.text());
    }
    // There is no token to show, and none to guess.
    let bearer = ("authorization", "Bearer t0ken-of-the-bucket");
    assert_eq!(
        post_signed(&gateway, &[bearer], NOTIFICATION).await.status,
        401
    );
    assert_eq!(post(gateway.admin, TOKEN, "{}").await.status, 401);
    let kind = "x-amz-sns-message-type: Notification";
    let long = (1 << 20) + 1;
    assert_eq!(announce(&gateway, kind, long).await, "HTTP/1.1 413");
    // Strangers have sent all of them: none says that an event is missing.
    let gaps = ["tidegate_bucket_events_gaps_total{"];
    assert_eq!(gateway.metric(&gaps).await, 0);
    gateway.stop().await;
}

/// Waits until the gateway does not know that events arrive.
async fn until_silent(gateway: &Whole) {
    let since = Instant::now();
    while alive(gateway.admin).await > 0 {
        assert!(since.elapsed() < LONG, "it stays alive");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_that_come_back_say_that_events_arrive() {
    let world = World::new().await;
    let gateway = start(
        &world,
        "heartbeat = { prefix = \".tidegate/\", every = \"1s\" }\n",
    )
    .await;
    assert_eq!(gateway.metric(&["tidegate_bucket_events_alive{"]).await, 0);
    beat(gateway.admin, &world, TOKEN).await;
    // No event comes any more.
    until_silent(&gateway).await;
    let gaps = ["tidegate_bucket_events_gaps_total{", "reason=\"heartbeat\""];
    assert!(gateway.metric(&gaps).await >= 1);
    let applied = counted(&gateway, "applied").await;
    assert_eq!(applied, 0, "a heartbeat is no change");
    gateway.stop().await;
}

/// Without events this profile asks the bucket for each answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_events_cover_is_not_asked_for_until_one_comes_or_may_be_missed() {
    let world = World::new().await;
    world.put("k", b"first").await;
    let gateway = start_with(
        &world,
        "ttl = \"0s\"\nstale_while_revalidate = \"0s\"\nnegative_ttl = \"0s\"",
        "heartbeat = { prefix = \".tidegate/\", every = \"30s\" }\n\
         [[route]]\npath = \"/\"\norigin = \"media\"\nevents = \"bucket\"\n",
    )
    .await;
    let asked = async || gateway.metric(&["tidegate_resolves_total"]).await;
    let read = async || gateway.get("/k", &[]).await.text();
    assert_eq!(read().await, "first");
    assert_eq!(read().await, "first");
    assert_eq!(asked().await, 2, "no event is known to come");

    beat(gateway.admin, &world, TOKEN).await;
    assert_eq!(read().await, "first");
    assert_eq!(
        asked().await,
        3,
        "it was confirmed before the first heartbeat"
    );
    for _ in 0..3 {
        let got = gateway.get("/k", &[]).await;
        assert!(got.header("cache-status").starts_with("tidegate; hit"));
        assert_eq!((got.header("age"), &*got.text()), ("0", "first"));
    }
    assert_eq!(asked().await, 3);

    world.put("k", b"second").await;
    assert_eq!(created(&gateway, &world, "k", "01").await, 200);
    assert_eq!(read().await, "second");
    assert_eq!(read().await, "second");
    assert_eq!(asked().await, 4);

    // A message that cannot be read may have been any.
    assert_eq!(post(gateway.admin, TOKEN, "{").await.status, 400);
    assert_eq!(read().await, "second");
    assert_eq!(read().await, "second");
    assert_eq!(asked().await, 6);
    gateway.stop().await;
}
