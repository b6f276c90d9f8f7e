//! Hooks of a whole gateway: what is written through it is reported to receivers, of which some are ill.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "hooks/receiver.rs"]
mod receiver;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use gateway::{Whole, send};
use receiver::{Manner, Receiver, Request};
use world::World;

const TOKEN: &str = "a token of the tests";

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// A gateway with a writable route and these hooks.
async fn start(world: &World, hooks: &str) -> Whole {
    let config = world.config("ttl = \"1h\"");
    let route = format!(
        "[[route]]\npath = \"/\"\norigin = \"media\"\nwritable = true\nwrite_token = \"{TOKEN}\"\n"
    );
    Whole::start(&format!("{config}{route}{hooks}")).await
}

async fn change(gateway: &Whole, method: Method, path: &str) {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    let got = send(gateway.http, method.clone(), path, &headers, "bytes").await;
    assert!((200..300).contains(&got.status), "{method} {path}: {got:?}");
}

async fn put(gateway: &Whole, path: &str) {
    change(gateway, Method::PUT, path).await;
}

fn body(request: &Request) -> Value {
    serde_json::from_str(&request.body).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_come_together_are_one_call() {
    let world = World::new().await;
    let receiver = Receiver::start(Manner::Ok).await;
    let hook = format!(
        "[[hook]]\nprefix = \"books/\"\nurl = \"http://{}/scan?bucket={{bucket}}\"\ndebounce = \"1h\"\nmax_delay = \"1h\"\n\
         body = '{{\"key\":\"{{key}}\",\"event\":\"{{event}}\",\"count\":{{count}}}}'\n\
         bearer = \"s3cret\"\n",
        receiver.address
    );
    let gateway = start(&world, &hook).await;
    for path in [
        "/books/a/1.mp3",
        "/books/a/2.mp3",
        "/films/x",
        "/books/a/1.mp3",
    ] {
        put(&gateway, path).await;
    }
    // The end of the process ends each window, however long the writes took.
    gateway.stop().await;
    let request = receiver.next().await;
    let target = format!("POST /scan?bucket={}", world.origin.bucket());
    assert_eq!(request.line, target);
    assert_eq!(request.headers["authorization"], "Bearer s3cret");
    assert_eq!(request.headers["content-type"], "application/json");
    let two = json!({ "key": "books/a/", "event": "created", "count": 2 });
    assert_eq!(body(&request), two);
    let gateway = start(&world, &hook).await;
    change(&gateway, Method::DELETE, "/books/a/2.mp3").await;
    gateway.stop().await;
    let one = json!({ "key": "books/a/2.mp3", "event": "removed", "count": 1 });
    assert_eq!(body(&receiver.next().await), one);
    assert_eq!(receiver.seen(), 2, "one call a window");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_key_stays_in_its_place() {
    let world = World::new().await;
    let receiver = Receiver::start(Manner::Ok).await;
    let hook = format!(
        "[[hook]]\nurl = \"http://{}/k/{{key}}?f={{folder}}&x=1\"\ndebounce = \"1ms\"\neach = \"key\"\n\
         headers = {{ X-Token = \"s3cret\" }}\nbody = '{{\"key\":\"{{key}}\",\"path\":\"{{path}}\"}}'\n\
         path_prefix = \"/mnt/\"\n",
        receiver.address
    );
    let gateway = start(&world, &hook).await;
    for (path, key) in [
        ("/a%22%2C%22x%22%3A%22%5C", "a\",\"x\":\"\\"),
        ("/%7Bkey%7D/%7B%7D", "{key}/{}"),
        ("/%F0%9F%8E%A7%20%C3%BC/%23%3F%26%3D%25", "🎧 ü/#?&=%"),
        (
            "/a%0D%0AHost:%20evil%0D%0A%0D%0A",
            "a\r\nHost: evil\r\n\r\n",
        ),
    ] {
        // The embedded bucket keeps objects as files, and takes not every key: the mark of a write precedes its answer.
        put(&gateway, path).await;
        let request = receiver.next().await;
        let expected = json!({ "key": key, "path": format!("/mnt/{key}") });
        assert_eq!(body(&request), expected);
        let target = request.line.strip_prefix("POST /k/").expect("its path");
        let (encoded, query) = target.split_once('?').expect("its query");
        let decoded = percent_encoding::percent_decode_str(encoded);
        assert_eq!(decoded.decode_utf8().expect("text"), key);
        assert_eq!(query.matches('&').count(), 1, "{query}");
        assert_eq!(request.headers["x-token"], "s3cret");
    }
    gateway.stop().await;
}

/// The manner of each receiver, and the result that is counted.
const ILL: [(&str, Manner, &str); 5] = [
    ("down", Manner::Down, "unreachable"),
    ("silent", Manner::Silent, "timeout"),
    ("broken", Manner::Status(500), "failed"),
    ("elsewhere", Manner::Redirect, "redirected"),
    ("endless", Manner::Endless, "done"),
];

#[tokio::test(flavor = "multi_thread")]
async fn receivers_that_are_ill_are_in_no_reader_s_way() {
    let world = World::new().await;
    let (mut hooks, mut receivers) = (String::new(), BTreeMap::new());
    for (name, manner, _) in ILL {
        let receiver = Receiver::start(manner).await;
        let timeout = match manner {
            Manner::Silent => "200ms",
            _ => "5m",
        };
        hooks.push_str(&format!(
            "[[hook]]\nname = \"{name}\"\nurl = \"http://{}/\"\ndebounce = \"1ms\"\nretries = 1\n\
             timeout = \"{timeout}\"\nbearer = \"s3cret\"\n",
            receiver.address
        ));
        receivers.insert(name, receiver);
    }
    let gateway = start(&world, &hooks).await;
    put(&gateway, "/a").await;
    assert_eq!(gateway.get("/a", &[]).await.status, 200);
    for (name, _, result) in ILL {
        let count = match result {
            "unreachable" | "timeout" | "failed" => 2,
            _ => 1,
        };
        let words = [
            "tidegate_hook_requests_total",
            &format!("hook=\"{name}\""),
            &format!("result=\"{result}\""),
        ];
        let begun = Instant::now();
        while gateway.metric(&words).await < count {
            assert!(begun.elapsed() < LONG, "{name}: too few {result}");
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(gateway.metric(&words).await, count, "{name}");
    }
    assert_eq!(gateway.get("/a", &[]).await.status, 200);
    gateway.stop().await;
    // The redirect leads to a path of the same receiver.
    assert_eq!(receivers["elsewhere"].seen(), 1, "it is not followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_at_the_end_is_sent() {
    let world = World::new().await;
    let receiver = Receiver::start(Manner::Ok).await;
    let hook = format!(
        "[[hook]]\nurl = \"http://{}/{{key}}\"\ndebounce = \"1h\"\nmax_delay = \"1h\"\n",
        receiver.address
    );
    let gateway = start(&world, &hook).await;
    put(&gateway, "/a").await;
    gateway.stop().await;
    assert_eq!(receiver.next().await.line, "POST /a");
}

/// The requests that the recipes of config/hooks.toml make of these changes.
#[tokio::test(flavor = "multi_thread")]
async fn the_recipes_call_what_their_programs_know() {
    let world = World::new().await;
    let receiver = Receiver::start(Manner::Ok).await;
    let recipes =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../config/hooks.toml"));
    let recipes = recipes.expect("the recipes");
    let (_, mut hooks) = recipes.split_once("origin = \"media\"\n").map_or_else(
        || panic!("a route before the hooks"),
        |(before, hooks)| (before, hooks.to_owned()),
    );
    for authority in [
        "http://127.0.0.1:13378",
        "http://127.0.0.1:8096",
        "http://127.0.0.1:32400",
        "http://127.0.0.1:6081",
        "https://blog.example.org",
    ] {
        assert!(hooks.contains(authority), "{authority}");
        hooks = hooks.replace(authority, &format!("http://{}", receiver.address));
    }
    for name in [
        "audiobookshelf-key",
        "jellyfin-key",
        "plex-token",
        "wordpress-purge",
    ] {
        let file = format!("{{ file = \"$CREDENTIALS_DIRECTORY/{name}\" }}");
        assert!(hooks.contains(&file), "{name}");
        hooks = hooks.replace(&file, &format!("\"{name}\""));
    }
    let gateway = start(&world, &hooks).await;
    put(&gateway, "/books/a%20book/1.mp3").await;
    put(&gateway, "/films/A%20%26%20B/a.mkv").await;
    put(&gateway, "/wp-content/uploads/2026/11/p%20q.jpg").await;
    gateway.stop().await;
    let mut told = Vec::new();
    for _ in 0..5 {
        let request = receiver.next().await;
        let of = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
        let secret = ["authorization", "x-emby-token", "x-plex-token"]
            .map(of)
            .concat();
        told.push(format!("{} [{secret}] {}", request.line, request.body));
    }
    told.sort();
    assert_eq!(
        told,
        [
            "GET /library/sections/2/refresh?path=/mnt/films/A%20%26%20B [plex-token] ",
            "POST /Library/Media/Updated [jellyfin-key] \
             {\"Updates\":[{\"Path\":\"/mnt/films/A & B\",\"UpdateType\":\"Modified\"}]}",
            "POST /api/libraries/LIBRARY/scan [Bearer audiobookshelf-key] ",
            "POST /wp-json/tidegate/v1/purge [Bearer wordpress-purge] ",
            "PURGE /wp-content/uploads/2026/11/p%20q.jpg [] ",
        ]
    );
}
