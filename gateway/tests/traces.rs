//! Traces of requests at a collector: steps and their parents, what they tell and what not, and a collector that hangs.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::Method;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::time::timeout;

#[path = "support/collector.rs"]
mod collector;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites start gateways by it")]
mod world;

use collector::{Receiver, named, text};
use gateway::{Whole, ask, send};
use world::{World, sample};

/// The words of the count of spans that found no room.
const DROPPED: [&str; 2] = ["tidegate_trace_spans_total{", "\"dropped\""];

/// The readers at once that make spans.
const READERS: usize = 8;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;

/// The secrets of a request and of the collector: none of them may be in a trace.
const SECRETS: [&str; 3] = [
    "s3cret-of-the-client",
    "s3cret-of-the-cookie",
    "s3cret-in-the-query",
];
const COLLECTOR_SECRET: &str = "s3cret-of-the-collector";

/// Returns the lines of a configuration that send every request's trace to `collector`.
fn traced(collector: SocketAddr) -> String {
    format!(
        "[trace]\nendpoint = \"http://{collector}\"\nsample = 1.0\nservice = \"media\"\n\
         headers = {{ X-Key = \"{COLLECTOR_SECRET}\" }}\n"
    )
}

async fn start(world: &World, more: &str) -> Whole {
    let gateway = Whole::start(&format!("{}{more}", world.config("read_ahead = \"0\""))).await;
    gateway.ready().await;
    gateway
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miss_and_a_hit_are_traced_step_by_step() {
    let world = World::new().await;
    // The first request brings 1 MiB, a flight the rest.
    world.put("films/a.bin", &sample(2 << 20, 1)).await;
    let collector = Receiver::start(true).await;
    let gateway = start(&world, &traced(collector.address)).await;
    let bearer = format!("Bearer {}", SECRETS[0]);
    let headers = [
        ("traceparent", PARENT),
        ("authorization", &*bearer),
        ("cookie", SECRETS[1]),
    ];
    let path = format!("/films/a.bin?token={}", SECRETS[2]);
    assert_eq!(gateway.get(&path, &headers).await.status, 200);
    let miss = collector.traces("GET", 1).await;
    assert_eq!(gateway.get("/films/a.bin", &[]).await.status, 200);
    let all = collector.traces("GET", 2).await;
    gateway.stop().await;

    let root = named(&miss, "GET")[0];
    is_a_miss(root, &all);
    is_a_hit(&root.trace_id, &all);
    tells_no_secret(&collector);
}

/// Checks the steps of the request that fetched the object: its look-up, its first bytes, and the flight of the rest.
fn is_a_miss(root: &Span, all: &[Span]) {
    let in_trace: Vec<_> = all
        .iter()
        .filter(|span| span.trace_id == TRACE.to_be_bytes())
        .cloned()
        .collect();
    assert_eq!(root.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    let look_up = named(&in_trace, "look-up")[0];
    let first = named(&in_trace, "first bytes")[0];
    for step in [look_up, first] {
        assert_eq!(step.parent_span_id, root.span_id, "{step:?}");
    }
    assert_eq!(
        (
            text(look_up, "tidegate.known"),
            text(first, "tidegate.tier")
        ),
        ("false".into(), "origin".into())
    );
    let asked = named(&in_trace, "origin request");
    let of_look_up = asked
        .iter()
        .find(|span| span.parent_span_id == look_up.span_id);
    let of_look_up = of_look_up.expect("the look-up asks the bucket");
    assert_eq!(text(of_look_up, "tidegate.cause"), "demand");
    assert_eq!(text(of_look_up, "tidegate.result"), "content");
    let flights = named(&in_trace, "flight");
    let is_of_flight = |span: &&&Span| flights.iter().any(|it| it.span_id == span.parent_span_id);
    assert!(
        asked.iter().any(|span| is_of_flight(&span)),
        "the rest comes by a flight: {in_trace:#?}"
    );
    assert!(
        !named(&in_trace, "wait").is_empty(),
        "the reader waited for it"
    );
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/films/a.bin"),
        ("http.response.status_code", "200"),
        ("http.response.body.size", "2097152"),
        ("tidegate.cache", "miss"),
        ("tidegate.complete", "true"),
        ("client.address", "127.0.0.1"),
    ] {
        assert_eq!(text(root, name), value, "{name}");
    }
}

/// Checks the steps of the request that found the object in memory.
fn is_a_hit(miss: &[u8], all: &[Span]) {
    let hit = named(all, "GET")
        .into_iter()
        .find(|span| span.trace_id != miss);
    let hit = hit.expect("a trace of its own");
    assert_eq!(
        (text(hit, "tidegate.cache"), &*hit.parent_span_id),
        ("hit".into(), &[][..])
    );
    let of_hit: Vec<_> = all
        .iter()
        .filter(|span| span.trace_id == hit.trace_id)
        .cloned()
        .collect();
    let names: Vec<_> = of_hit.iter().map(|span| &*span.name).collect();
    assert_eq!(
        names,
        ["look-up", "first bytes", "GET"],
        "nothing was fetched"
    );
    assert_eq!(text(&of_hit[1], "tidegate.tier"), "memory");
}

/// Checks that the collector got its own secret, and no other one.
fn tells_no_secret(collector: &Receiver) {
    for (head, body) in collector.requests() {
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("application/x-protobuf"), "{head}");
        assert!(head.contains(COLLECTOR_SECRET), "{head}");
        let body = String::from_utf8_lossy(&body).into_owned();
        for secret in SECRETS
            .iter()
            .chain([&COLLECTOR_SECRET, &"t0ken-of-the-tests"])
        {
            assert!(!body.contains(secret), "{secret}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_from_disk_is_traced() {
    let world = World::new().await;
    // One chunk.
    world.put("films/a.bin", &sample(200_000, 1)).await;
    let kept = world.config("ttl = \"1h\"\nread_ahead = \"0\"");
    let before = Whole::start(&kept).await;
    before.ready().await;
    assert_eq!(before.get("/films/a.bin", &[]).await.status, 200);
    before.stop().await;
    let collector = Receiver::start(true).await;
    let gateway = Whole::start(&format!("{kept}{}", traced(collector.address))).await;
    // Only then the index of the disk is loaded.
    gateway.ready().await;
    let got = gateway
        .get("/films/a.bin", &[("traceparent", PARENT)])
        .await;
    assert_eq!(got.body, sample(200_000, 1));
    gateway.stop().await;

    let spans = collector.traces("GET", 1).await;
    let (root, first) = (named(&spans, "GET")[0], named(&spans, "first bytes")[0]);
    assert_eq!(root.trace_id, TRACE.to_be_bytes());
    assert_eq!(text(root, "tidegate.cache"), "hit");
    assert_eq!(text(first, "tidegate.tier"), "disk");
    let reads = named(&spans, "disk read");
    let [read] = &*reads else {
        panic!("one chunk was read: {spans:#?}")
    };
    assert_eq!(read.trace_id, root.trace_id);
    assert_eq!(read.parent_span_id, first.span_id);
    let of_read =
        ["first_chunk", "chunks", "ahead"].map(|it| text(read, &format!("tidegate.{it}")));
    assert_eq!(of_read, ["0", "1", "false"]);
    for step in ["flight", "origin request"] {
        assert!(named(&spans, step).is_empty(), "{step}: {spans:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_is_traced() {
    let world = World::new().await;
    world.put("films/a.bin", b"bytes").await;
    let collector = Receiver::start(true).await;
    let more = format!(
        "{}[http]\npurge_networks = [\"127.0.0.1\"]\n",
        traced(collector.address)
    );
    let gateway = start(&world, &more).await;
    let purge = async |headers: &[(&str, &str)]| {
        let purge = Method::from_bytes(b"PURGE").expect("a method");
        let got = ask(gateway.http, purge, "/films/a.bin", headers).await;
        got.status
    };
    assert_eq!(purge(&[("traceparent", PARENT)]).await, 200);
    let refused = [("x-forwarded-for", "192.0.2.1")];
    assert_eq!(purge(&refused).await, 403);
    let spans = collector.traces("PURGE", 2).await;
    gateway.stop().await;

    let roots = named(&spans, "PURGE");
    let is_own = |span: &&&Span| span.trace_id == TRACE.to_be_bytes();
    let (done, other): (Vec<_>, Vec<_>) = roots.iter().partition(|span| is_own(span));
    for (root, status) in [(done[0], "200"), (other[0], "403")] {
        assert_eq!(text(root, "http.request.method"), "PURGE");
        assert_eq!(text(root, "url.path"), "/films/a.bin");
        assert_eq!(text(root, "http.response.status_code"), status);
    }
    // The refused one has nothing below it.
    let steps = named(&spans, "purge");
    assert_eq!(steps.len(), 1, "{spans:#?}");
    assert_eq!(steps[0].parent_span_id, done[0].span_id);
    assert_eq!(text(steps[0], "tidegate.targets"), "1");
}

/// Returns the kinds, causes and results of the requests to the bucket in the trace of a span.
fn asked(spans: &[Span], root: &Span) -> Vec<[String; 3]> {
    let all = named(spans, "origin request").into_iter();
    let own = all.filter(|span| span.trace_id == root.trace_id);
    let keys = ["tidegate.kind", "tidegate.cause", "tidegate.result"];
    own.map(|span| keys.map(|key| text(span, key))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_traced_to_the_request_that_changes_the_bucket() {
    let world = World::new().await;
    let collector = Receiver::start(true).await;
    let more = format!(
        "{}[[route]]\npath = \"/\"\norigin = \"media\"\nwritable = true\nwrite_token = \"{}\"\n",
        traced(collector.address),
        SECRETS[0],
    );
    let gateway = start(&world, &more).await;
    let bearer = format!("Bearer {}", SECRETS[0]);
    let headers = [("traceparent", PARENT), ("authorization", &*bearer)];
    for (method, name, status, kind) in [
        (Method::PUT, "PUT", 201, "put"),
        (Method::DELETE, "DELETE", 204, "delete"),
    ] {
        let ask = async |path, headers: &[(&str, &str)]| {
            let got = send(gateway.http, method.clone(), path, headers, "bytes");
            got.await.status
        };
        assert_eq!(ask("/films/a.bin", &headers).await, status, "{name}");
        assert_eq!(ask("/films/b.bin", &[]).await, 401, "{name}");
        let spans = collector.traces(name, 2).await;
        let roots = named(&spans, name);
        let is_own = |span: &&&Span| span.trace_id == TRACE.to_be_bytes();
        let (done, refused): (Vec<_>, Vec<_>) = roots.iter().partition(|span| is_own(span));
        for (root, path, status) in [
            (done[0], "/films/a.bin", status),
            (refused[0], "/films/b.bin", 401),
        ] {
            assert_eq!(text(root, "http.request.method"), name);
            assert_eq!(text(root, "url.path"), path);
            let shown = text(root, "http.response.status_code");
            assert_eq!(shown, status.to_string(), "{name}");
        }
        let found = asked(&spans, done[0]);
        let written = [kind, "write", "written"].map(str::to_owned);
        assert!(found.contains(&written), "{name}: {found:?}");
        let none: [[String; 3]; 0] = [];
        assert_eq!(asked(&spans, refused[0]), none, "the bucket is not asked");
    }
    gateway.stop().await;
    tells_no_secret(&collector);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_auth_request_can_go_on_with_the_trace() {
    let world = World::new().await;
    world.put("a", b"bytes").await;
    let (collector, auth) = (Receiver::start(true).await, Receiver::start(true).await);
    let more = format!(
        "{}[[route]]\npath = \"/\"\norigin = \"media\"\naccess = \"desk\"\n\
         [access.desk]\nauth_request = \"http://{}/auth\"\n",
        traced(collector.address),
        auth.address,
    );
    let gateway = start(&world, &more).await;
    assert_eq!(
        gateway.get("/a", &[("traceparent", PARENT)]).await.status,
        200
    );
    let spans = collector.traces("GET", 1).await;
    gateway.stop().await;
    let asked = named(&spans, "auth_request")[0];
    assert_eq!(asked.parent_span_id, named(&spans, "GET")[0].span_id);
    let id: [u8; 8] = asked.span_id.clone().try_into().expect("8 bytes");
    let expected = format!(
        "traceparent: 00-{TRACE:032x}-{:016x}-01",
        u64::from_be_bytes(id)
    );
    let heads = auth.requests();
    assert!(
        heads[0].0.contains(&expected),
        "{expected} is not in {}",
        heads[0].0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_can_go_on_with_the_trace() {
    let world = World::new().await;
    let (collector, store) = (Receiver::start(true).await, Receiver::start(true).await);
    let more = format!(
        "{}[[route]]\npath = \"/\"\norigin = \"media\"\n[[route]]\npath = \"/other/\"\norigin = \"other\"\n\
         [[origin]]\nname = \"other\"\nbucket = \"other\"\nendpoint = \"http://{}\"\npath_style = true\n\
         access_key_id = \"id\"\nsecret_access_key = \"of-the-store\"\nretries = 0\n",
        traced(collector.address),
        store.address,
    );
    let gateway = start(&world, &more).await;
    gateway.get("/other/a", &[("traceparent", PARENT)]).await;
    let spans = collector.traces("GET", 1).await;
    gateway.stop().await;
    let asked = named(&spans, "origin request");
    let handed_on = |span: &&&Span| {
        let id: [u8; 8] = span.span_id.clone().try_into().expect("8 bytes");
        let id = u64::from_be_bytes(id);
        let expected = format!("traceparent: 00-{TRACE:032x}-{id:016x}-01");
        let heads = store.requests();
        let of_object = heads.iter().find(|(head, _)| head.contains("/other/a"));
        of_object.is_some_and(|(head, _)| head.contains(&expected))
    };
    assert!(
        asked.iter().any(|span| handed_on(&span)),
        "{:?}",
        store.requests()
    );
    // What is not traced has no such header: the probe of the bucket.
    let heads = store.requests();
    assert!(heads.iter().any(|(head, _)| !head.contains("traceparent")));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_waits_for_a_collector_that_hangs() {
    let world = World::new().await;
    world.put("a", b"bytes").await;
    let collector = Receiver::start(false).await;
    let gateway = start(&world, &traced(collector.address)).await;
    // The first batch is at the collector, which never answers; more spans come than wait.
    assert_eq!(gateway.get("/a", &[]).await.status, 200);
    timeout(LONG, collector.seen.arrived.notified())
        .await
        .expect("a batch");
    let begun = Instant::now();
    while gateway.metric(&DROPPED).await == 0 {
        assert!(begun.elapsed() < LONG, "no span is dropped");
        let some = (0..READERS).map(|_| async {
            for _ in 0..50 {
                assert_eq!(gateway.get("/a", &[]).await.status, 200);
            }
        });
        join_all(some).await;
    }
    gateway.stop().await;
    // A batch is given up after 5 s, and the next one is begun.
    let most = 3 + begun.elapsed().as_secs() / 5;
    assert!(collector.requests().len() as u64 <= most);
    let mut ids: Vec<_> = collector.spans().into_iter().map(|it| it.span_id).collect();
    let sent = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), sent, "nothing is tried again");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_traced_unless_it_is_asked_for() {
    let world = World::new().await;
    world.put("a", b"bytes").await;
    let collector = Receiver::start(true).await;
    let off = start(&world, "").await;
    assert_eq!(off.get("/a", &[("traceparent", PARENT)]).await.status, 200);
    assert!(
        !off.look("/metrics")
            .await
            .text()
            .contains("tidegate_trace_spans")
    );
    off.stop().await;
    let none = traced(collector.address).replace("1.0", "0.0");
    let gateway = start(&world, &none).await;
    let sampled = PARENT.replace("7-00", "7-01");
    assert_eq!(
        gateway.get("/a", &[("traceparent", &sampled)]).await.status,
        200
    );
    gateway.stop().await;
    assert_eq!(collector.requests().len(), 0, "a client cannot ask for it");
}
