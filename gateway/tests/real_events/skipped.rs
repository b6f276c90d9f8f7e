//! Messages that a real stream loses before the gateway has them: what was confirmed before falls back to its TTL.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::Stream;
use tokio::time::{Instant, sleep};

use crate::covered::ROUTE;
use crate::door::Door;
use crate::gateway::Whole;
use crate::ways::{STREAM, configuration, connect};
use crate::{LONG, Way, World, free_addr};

/// The objects that do not change.
const OTHERS: usize = 10;

/// The consumer of the gateway, by the API of the server.
const CONSUMER: &str = "MEDIA.gate-1";

/// More than `ttl` of the route.
const STALE: Duration = Duration::from_millis(200);

/// The way in which a stream loses a message.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Deleted,
    Purged,
}

/// Returns a configuration whose heartbeats come so seldom that none shows a loss before the next event does.
fn seldom(text: &str) -> String {
    assert!(text.contains("every = \"1s\""));
    text.replace("every = \"1s\"", "every = \"15s\"")
}

async fn stream(world: &World) -> Stream {
    let client = connect(world.nats_address).await;
    let stream = jetstream::new(client).get_stream(STREAM).await;
    stream.expect("the stream")
}

/// Waits until a stream has a message about a key, of those from `first` on. Returns its number.
async fn published(stream: &Stream, key: &str, first: u64) -> u64 {
    let (since, named) = (Instant::now(), format!("media/{key}\""));
    loop {
        let last = stream.get_info().await.expect("known").state.last_sequence;
        for sequence in first..=last {
            let message = stream.get_raw_message(sequence).await;
            let is_it = |payload: &[u8]| String::from_utf8_lossy(payload).contains(&named);
            if message.is_ok_and(|message| is_it(&message.payload)) {
                return sequence;
            }
        }
        assert!(since.elapsed() < LONG, "{key} is not published");
        sleep(Duration::from_millis(5)).await;
    }
}

impl World {
    /// Has the server deliver nothing until then, or go on.
    async fn pause_consumer(&self, until: &str) {
        let client = connect(self.nats_address).await;
        let request = format!("{{\"pause_until\":\"{until}\"}}");
        let subject = format!("$JS.API.CONSUMER.PAUSE.{CONSUMER}");
        let answer = client.request(subject, request.into()).await;
        let answer = answer.expect("an answer").payload;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.contains("\"error\""), "{answer}");
    }

    /// Returns the gaps whose reason begins so.
    async fn gaps(&self, reason: &str) -> u64 {
        let reason = format!("reason=\"{reason}");
        let gaps = ["tidegate_bucket_events_gaps_total{", &reason];
        self.gateway().metric(&gaps).await
    }

    /// Returns a read of the object.
    async fn read(&self, key: &str) -> String {
        let got = self.gateway().get(&format!("/{key}"), &[]).await;
        assert_eq!(got.status, 200, "{key}");
        got.text()
    }

    /// Reads all objects until events cover them: their lifetime is over, and the bucket is not asked.
    async fn covered(&self) {
        let since = Instant::now();
        loop {
            self.alive(1).await;
            let before = self.caused_by_readers().await;
            sleep(STALE).await;
            for n in 0..OTHERS {
                self.read(&format!("other/{n}")).await;
            }
            self.read("lost").await;
            if self.caused_by_readers().await == before {
                return;
            }
            assert!(since.elapsed() < LONG, "all is asked for");
        }
    }

    /// Reads all objects: each has what the bucket has, which was asked for it.
    async fn falls_back(&self, body: &str) {
        let before = self.caused_by_readers().await;
        sleep(STALE).await;
        assert_eq!(self.read("lost").await, body);
        for n in 0..OTHERS {
            assert_eq!(self.read(&format!("other/{n}")).await, "x");
        }
        let asked = self.caused_by_readers().await - before;
        assert!(asked > OTHERS as u64, "{asked} requests");
    }

    async fn put_all(&self) {
        self.bucket.put("lost", "at first").await;
        for n in 0..OTHERS {
            self.bucket.put(&format!("other/{n}"), "x").await;
        }
    }

    /// Waits until more events than these are applied.
    async fn passes(&self, applied: u64) {
        let since = Instant::now();
        while self.applied().await == applied {
            assert!(since.elapsed() < LONG, "nothing is delivered any more");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Has the stream lose the message of a change before it is delivered, and looks what the gateway does at the next one.
    /// Returns whether its number alone has told: a slow machine lets a heartbeat stay away as well.
    async fn lose(&self, loss: Loss, round: usize) -> bool {
        let stream = stream(self).await;
        self.covered().await;
        let before = (self.gaps("sequence").await, self.gaps("").await);
        self.pause_consumer("2100-01-01T00:00:00Z").await;
        let first = stream.get_info().await.expect("known").state.last_sequence + 1;
        let body = format!("{loss:?} in round {round}");
        self.bucket.put("lost", body.clone()).await;
        let lost = published(&stream, "lost", first).await;
        let gone = match loss {
            Loss::Deleted => stream.delete_message(lost).await.expect("deleted"),
            Loss::Purged => stream.purge().await.expect("purged").success,
        };
        assert!(gone);
        let (next, applied) = (format!("next/{loss:?}/{round}"), self.applied().await);
        self.bucket.put(&next, "x").await;
        published(&stream, &next, lost + 1).await;
        self.pause_consumer("0001-01-01T00:00:00Z").await;
        self.passes(applied).await;
        let skipped = self.gaps("sequence").await - before.0;
        let others = self.gaps("").await - before.1 - skipped;
        assert!(skipped + others > 0, "{loss:?}: the gap is not seen");
        self.falls_back(&body).await;
        skipped > 0 && others == 0
    }
}

/// The gateway is connected, and nothing but the number of the next message says that one is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_stream_has_lost_ends_what_events_cover() {
    let setting = (Way::JetStream, free_addr());
    let world = World::configured(setting, |_| ROUTE.to_owned(), |text| seldom(&text)).await;
    world.put_all().await;
    for loss in [Loss::Deleted, Loss::Purged] {
        let (since, mut round) = (Instant::now(), 0);
        while !world.lose(loss, round).await {
            assert!(since.elapsed() < LONG, "{loss:?}: heartbeats stay away");
            round += 1;
        }
    }
}

/// The stream is purged while the gateway has no connection, or one on which nothing passes. The first event that comes
/// afterwards finds nothing covered any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_purged_during_a_cut_ends_what_events_cover() {
    let nats = free_addr();
    let door = Door::to(nats).await;
    let setting = (Way::JetStream, nats);
    let through = |text: String| {
        let text = text.replace(&nats.to_string(), &door.address().to_string());
        seldom(&text)
    };
    let world = World::configured(setting, |_| ROUTE.to_owned(), through).await;
    world.put_all().await;
    for (cut, body) in [(Door::shut as fn(&Door), "cut"), (Door::stick, "silent")] {
        world.covered().await;
        let stream = stream(&world).await;
        let first = stream.get_info().await.expect("known").state.last_sequence + 1;
        cut(&door);
        world.bucket.put("lost", body).await;
        published(&stream, "lost", first).await;
        assert!(stream.purge().await.expect("purged").success);
        let applied = world.applied().await;
        door.open();
        world.bucket.put(&format!("next/{body}"), "x").await;
        world.passes(applied).await;
        world.falls_back(body).await;
    }
}

/// The stream is purged while the gateway does not run. What it had confirmed is still in its state.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_purged_while_the_gateway_is_away_ends_what_events_cover() {
    let mut world = World::with(Way::JetStream, |_| ROUTE.to_owned()).await;
    world.put_all().await;
    world.covered().await;
    world.gateway.take().expect("it runs").stop().await;
    let stream = stream(&world).await;
    let first = stream.get_info().await.expect("known").state.last_sequence + 1;
    world.bucket.put("lost", "while it was away").await;
    published(&stream, "lost", first).await;
    assert!(stream.purge().await.expect("purged").success);
    let (minio, nats) = (&world.minio_address, world.nats_address);
    let text = configuration(world.way, minio, nats, &world.folder, ROUTE);
    world.gateway = Some(Whole::start(&text).await);
    // Also once events arrive again: nothing was confirmed under them.
    world.alive(1).await;
    let got = world.gateway().get("/other/0", &[]).await;
    let status = got.header("cache-status");
    assert!(status.contains("fwd=stale; fwd-status=304"), "{status}");
    world.falls_back("while it was away").await;
    world.covered().await;
}
