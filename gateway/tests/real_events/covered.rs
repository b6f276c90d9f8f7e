//! A route with the events of a real MinIO: what has not changed is not asked for, and what has changed is read at once.

use std::time::Duration;

use http::Method;
use tokio::time::{Instant, sleep};

use crate::gateway::ask;
use crate::{LONG, Way, World};

/// A lifetime that would have every read confirm its object, but for the events.
pub(crate) const ROUTE: &str = "[profile.short]\nttl = \"100ms\"\nnegative_ttl = \"100ms\"\n\
    stale_while_revalidate = \"0s\"\n\
    [[route]]\npath = \"/\"\norigin = \"media\"\nprofile = \"short\"\nevents = \"bucket\"\n";

const OBJECTS: usize = 100;

impl World {
    /// Returns the requests that readers have caused.
    pub(crate) async fn caused_by_readers(&self) -> u64 {
        let metrics = self.gateway().look("/metrics").await;
        let of = |cause| metrics.metric(&["tidegate_origin_requests_total{", cause]);
        of("cause=\"demand\"") + of("cause=\"revalidate\"")
    }

    /// Waits until so many heartbeats have come back: one a second is written.
    async fn pass_heartbeats(&self, count: u64) {
        let seen = [
            "tidegate_bucket_events_heartbeats_total{",
            "result=\"seen\"",
        ];
        let (since, before) = (Instant::now(), self.gateway().metric(&seen).await);
        while self.gateway().metric(&seen).await < before + count {
            assert!(since.elapsed() < LONG, "no heartbeat comes back");
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn read_all(&self, body: &str) {
        for n in 0..OBJECTS {
            let got = ask(self.gateway().http, Method::GET, &format!("/{n}"), &[]).await;
            assert_eq!((got.status, got.text().as_str()), (200, body));
        }
        let missing = ask(self.gateway().http, Method::GET, "/missing", &[]).await;
        assert_eq!(missing.status, 404);
    }

    /// Reads everything until three rounds in a row have caused no request. Returns the requests of readers up to then.
    ///
    /// A heartbeat that a busy machine makes late is a gap: what is read in its round is confirmed, and in the next round
    /// what was read before it.
    async fn rounds_without_a_request(&self) -> u64 {
        let since = Instant::now();
        let (mut gaps, mut rounds, mut before) = (None, 0, 0);
        loop {
            if rounds == 0 {
                // The events of the writes have come, and the chain of heartbeats is older than what is read from here on.
                self.alive(1).await;
                self.pass_heartbeats(2).await;
            }
            self.read_all("first").await;
            let caused = self.caused_by_readers().await;
            // A chain that was over during the reads is counted as a gap before the second heartbeat is.
            self.pass_heartbeats(2).await;
            let gaps_total = ["tidegate_bucket_events_gaps_total{"];
            let seen = self.gateway().metric(&gaps_total).await;
            rounds = if gaps == Some(seen) { rounds + 1 } else { 0 };
            if rounds > 1 {
                assert_eq!(caused, before, "no gap is counted");
            }
            if rounds == 4 {
                return caused;
            }
            assert!(since.elapsed() < LONG, "{seen} gaps");
            (gaps, before) = (Some(seen), caused);
        }
    }
}

async fn unchanged_objects_are_not_asked_for(way: Way) {
    let world = World::with(way, |_| ROUTE.to_owned()).await;
    for n in 0..OBJECTS {
        world.bucket.put(&n.to_string(), "first").await;
    }
    let caused = world.rounds_without_a_request().await;
    assert!(caused > OBJECTS as u64);

    for n in 0..OBJECTS {
        world.bucket.put(&n.to_string(), "second").await;
    }
    world.bucket.put("missing", "found").await;
    for n in 0..OBJECTS {
        world.reads(&format!("/{n}"), 200, "second").await;
    }
    world.reads("/missing", 200, "found").await;
    assert!(world.caused_by_readers().await > caused + OBJECTS as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_covers_what_has_not_changed() {
    unchanged_objects_are_not_asked_for(Way::Webhook).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_covers_what_has_not_changed() {
    unchanged_objects_are_not_asked_for(Way::JetStream).await;
}
