//! A gateway whose process is away while the others change what lies on its disk. Nothing but its start tells it that it has
//! missed something: what it has cached would be fresh for an hour.

use http::Method;

use crate::gateway::{Got, send};
use crate::links::LinkState;
use crate::serving::Serving;
use crate::{HEARTBEATS, TOKEN, World, knows_both};

/// The number of the gateway that goes away.
const ABSENTEE: usize = 2;

/// The objects that it has cached before.
const CACHED: [&str; 5] = ["purged", "by-tag", "written", "removed", "kept"];

/// An object that it knows to be missing.
const MISSING: &str = "created";

/// The names of the objects, each with the content that the bucket has when the gateway comes back. An empty one stands for a
/// missing object.
const CONTENTS: [(&str, &str); 6] = [
    // First: the others' bytes may be asked for twice, and the second ones come at any time.
    ("kept", "old"),
    ("purged", "new"),
    ("by-tag", "new"),
    ("written", "new"),
    ("removed", ""),
    (MISSING, "new"),
];

/// The end of its process.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    InOrder,
    Killed,
}

/// A fleet whose third gateway is a process of its own.
struct Fleet {
    /// The other two, and what all have in common.
    world: World,
    away: Serving,
}

impl Fleet {
    async fn new() -> Self {
        let mut world = World::new().await;
        world.gateways.pop().expect("the third").stop().await;
        let mut config = world.configuration(ABSENTEE);
        for (recipe, here) in [
            ("[http]\nlisten = \"127.0.0.1:8080\"\n", ""),
            ("listen = \"127.0.0.1:8081\"\n", ""),
            // What has stopped in this process lets go of its own a moment later.
            ("/gateway-2\"", "/away\""),
        ] {
            assert!(config.contains(recipe), "the recipe has no {recipe}");
            config = config.replace(recipe, here);
        }
        let mut away = Serving::configured(&config);
        away.start().await;
        let fleet = Self { world, away };
        fleet.joined().await;
        fleet
    }

    /// Waits until all three know each other, and until the doubts of newcomers have had their turn: they rest for up to a
    /// second, in which a heartbeat is sent.
    async fn joined(&self) {
        self.world.connected().await;
        let known = || async { knows_both(&self.away.look("/metrics").await) };
        self.world.until(known).await;
        let sent = self.away.metric(&HEARTBEATS).await;
        let passed = || async { self.away.metric(&HEARTBEATS).await > sent + 2 };
        self.world.until(passed).await;
    }

    /// Reads the objects of a round through all three, until they are cached, by the third one on its disk as well.
    async fn cache(&self, round: usize) {
        for name in CACHED {
            self.world.change_past(&path(round, name), "old").await;
        }
        for name in CACHED.into_iter().chain([MISSING]) {
            let path = path(round, name);
            self.world.warm(&path).await;
            // What a doubt meets meanwhile is confirmed, and then asked for no more.
            let is_cached = || async {
                let got = self.away.get(&path).await;
                got.header("cache-status").starts_with("tidegate; hit") || got.status == 404
            };
            self.world.until(is_cached).await;
        }
        for name in CACHED {
            let stat = format!("/stat?path={}", path(round, name));
            let is_on_disk = || async {
                let stat = self.away.look(&stat).await;
                let stat: serde_json::Value = serde_json::from_slice(&stat.body).expect("JSON");
                stat["objects"][0]["bytes"]["disk"] == 3
            };
            self.world.until(is_on_disk).await;
        }
        // A purge is durable before its answer, and so is all that was recorded before it.
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str())];
        let other = "/purge?path=/photos/other";
        let got = send(self.away.admin, Method::POST, other, &headers, "").await;
        assert_eq!(got.status, 200, "{}", got.text());
    }

    /// Changes all but one of them through the other gateways, and pins a prefix.
    async fn change(&self, round: usize) {
        for name in ["purged", "by-tag", MISSING] {
            self.world.change_past(&path(round, name), "new").await;
        }
        self.world.change_past(&path(round, "removed"), "").await;
        for (nth, names) in [
            (0, format!("\"paths\": [\"{}\"]", path(round, "purged"))),
            (1, format!("\"tags\": [\"media-away-{round}-by-tag\"]")),
            (0, format!("\"paths\": [\"{}\"]", path(round, "removed"))),
            (1, format!("\"paths\": [\"{}\"]", path(round, MISSING))),
        ] {
            let body = format!("{{{names}}}");
            let got = self.world.operate(nth, Method::POST, "/purge", &body);
            assert_eq!(got.await.status, 200, "{body}");
        }
        self.world.put(0, &path(round, "written"), "new").await;
        let pin = format!("{{\"path\": \"/media/pinned-{round}/\", \"limit\": \"1MiB\"}}");
        let got = self.world.operate(1, Method::PUT, "/pins", &pin).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }

    /// The first answer of each object is what the bucket has, and the cached bytes of one that has not changed are served.
    async fn answers(&self, round: usize, how: (Ending, LinkState)) {
        let received = ["tidegate_origin_received_bytes_total{"];
        for (name, body) in CONTENTS {
            let before = self.away.metric(&received).await;
            let got: Got = self.away.get(&path(round, name)).await;
            let status = if body.is_empty() { 404 } else { 200 };
            assert_eq!(got.status, status, "{name} after {how:?}: {}", got.text());
            let cached = got.header("cache-status");
            assert!(
                body.is_empty() || got.body == body.as_bytes(),
                "{name} after {how:?}: {}, {cached}",
                got.text()
            );
            if name == "kept" {
                let is_confirmed = cached.contains("fwd=stale; fwd-status=304");
                assert!(is_confirmed, "{name} after {how:?}: {cached}");
                assert_eq!(self.away.metric(&received).await, before, "{name}: {how:?}");
            }
        }
    }

    /// The third gateway ends, and comes back in front of a bucket that has changed.
    async fn comes_back(&mut self, round: usize, (ending, link): (Ending, LinkState)) {
        self.cache(round).await;
        match ending {
            Ending::InOrder => self.away.end().await,
            Ending::Killed => self.away.kill(),
        }
        self.change(round).await;
        self.world.cut(ABSENTEE, link);
        self.away.start().await;
        self.answers(round, (ending, link)).await;
        self.world.cut(ABSENTEE, LinkState::Whole);
        self.joined().await;
        let pinned = || async {
            let pins = self.away.look("/pins").await.text();
            pins.contains(&format!("\"pinned-{round}/\""))
        };
        self.world.until(pinned).await;
    }
}

fn path(round: usize, name: &str) -> String {
    format!("/media/away-{round}/{name}")
}

/// Its fleet tells it what it has missed, or no message reaches it: either way its first answers are what the bucket has.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_comes_back_serves_nothing_that_it_has_missed() {
    let mut fleet = Fleet::new().await;
    let ways = [
        (Ending::InOrder, LinkState::Cut),
        (Ending::Killed, LinkState::Silent),
        (Ending::Killed, LinkState::Whole),
        (Ending::InOrder, LinkState::Whole),
    ];
    for (round, how) in ways.into_iter().enumerate() {
        fleet.comes_back(round, how).await;
    }
    fleet.away.end().await;
    fleet.world.stop().await;
}
