//! The pages: whole without a script, and nothing in them from elsewhere.

use std::time::SystemTime;

use http::Method;
use serde_json::{Value, json};

use super::admission::log_in;
use super::{World, ask, configuration, page_at, post, started};
use crate::gateway::Whole;

const PAGES: [&str; 9] = [
    "/",
    "/console/streams",
    "/console/objects?path=/o/",
    "/console/tiers",
    "/console/writes",
    "/console/events",
    "/console/settings?edit=cache.memory",
    "/console/doctor",
    "/console/sessions",
];

/// Writes a full history into the state folder: a point each 10 s for an hour, and each 5 minutes for a day.
fn write_history(world: &World) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs_f64();
    let points = |count: usize, period: usize| -> Vec<Value> {
        let point = |n: usize| {
            // Values that jump, as those of a busy gateway.
            let value = |seed: usize| (n * 7919 + seed * 104_729) % 99_991;
            let time = value(1) as f64 / 1e5;
            json!({
                "time": now - (period * (count - n)) as f64 + period as f64 / 2.0,
                "figures": {
                    "requests_per_second": value(2) as f64 / 7.0,
                    "bytes_per_second": value(3) as f64 * 1e4,
                    "fetched_bytes_per_second": value(4) as f64 * 1e3,
                    "hit_share": { "memory": 0.5, "disk": 0.25, "origin": 0.25 },
                    "amplification": 0.25,
                    "first_byte": { "p50": time / 4.0, "p90": time / 2.0, "p99": time },
                    "stalls": value(5),
                    "errors": value(6),
                },
            })
        };
        (0..count).map(point).collect()
    };
    let history = json!({ "hour": points(360, 10), "day": points(288, 300) });
    let state = world.folder.path().join("state");
    std::fs::create_dir_all(&state).expect("made");
    let file = state.join("console-history.json");
    std::fs::write(file, history.to_string()).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_keeps_to_its_policy_and_is_small() {
    let world = World::new().await;
    write_history(&world);
    let gateway = started(&world).await;
    let (cookie, _) = log_in(&gateway).await;
    let session = [("cookie", cookie.as_str())];
    let mut assets = 0;
    for path in [
        "/console/console.css",
        "/console/console.js",
        "/console/icon.svg",
    ] {
        let got = ask(gateway.admin, Method::GET, path, &[]).await;
        assert_eq!(
            (got.status, got.header("x-content-type-options")),
            (200, "nosniff"),
            "{path}"
        );
        assets += got.body.len();
    }
    for path in PAGES {
        let got = ask(gateway.admin, Method::GET, path, &session).await;
        assert_eq!(got.status, 200, "{path}: {}", got.text());
        let policy = got.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        let text = got.text();
        for inline in [
            "<style",
            " style=",
            " onclick=",
            "javascript:",
            "src=\"http",
            "href=\"http",
        ] {
            assert!(!text.contains(inline), "{path} has {inline}");
        }
        assert_eq!(text.matches("<script").count(), 1, "{path}");
        assert_eq!(text.matches("<h1").count(), 1, "{path}");
        if path == "/" {
            let (live, charts) = text.split_once("<div id=\"charts\">").expect("both");
            assert!(live.contains("tiles") && !live.contains("class=\"chart\""));
            assert_eq!(charts.matches("class=\"chart\"").count(), 22, "{charts}");
            let steps = charts.matches('l').count();
            assert!(steps > 2 * 6 * (360 + 280), "the history is full: {steps}");
        }
        let compressed = [session[0], ("accept-encoding", "gzip, deflate, br")];
        let got = ask(gateway.admin, Method::GET, path, &compressed).await;
        assert_eq!(got.header("content-encoding"), "gzip", "{path}");
        let whole = got.body.len() + assets;
        assert!(whole < 100_000, "{path}: {whole} bytes");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_shows_its_objects_and_their_orders() {
    let world = World::new().await;
    world.put("o/<b>&\"'.png", b"x").await;
    let gateway = started(&world).await;
    let (cookie, csrf) = log_in(&gateway).await;
    let show = async |path: &str| page_at(gateway.admin, path, &cookie).await;
    let text = show("/console/objects?path=/o/").await;
    assert!(text.contains("whole: 98 KiB in memory"), "{text}");
    assert!(
        text.contains("&lt;b&gt;&amp;&quot;") && !text.contains("<b>"),
        "names are text"
    );
    let fields = format!("path=%2Fo%2F4.png&order=warm&back=%2Fo%2F&csrf={csrf}");
    let got = post(&gateway, "/console/objects", &cookie, &fields).await;
    assert_eq!(got.status, 303);
    let text = show(got.header("location")).await;
    assert!(text.contains("Fetching 1 object."), "{text}");
    let text = show("/console/objects?path=/o/").await;
    assert!(
        !text.contains("Fetching 1 object."),
        "a message is told once"
    );
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_shows_only_what_no_browser_runs() {
    let world = World::new().await;
    let gateway = Whole::start(&configuration(&world)).await;
    gateway.ready().await;
    let put = async |key: &str, kind: &str, text: &'static str| {
        let body = futures_util::stream::iter([std::io::Result::Ok(bytes::Bytes::from_static(
            text.as_bytes(),
        ))]);
        world.origin.put(key, kind, body).await.expect("written");
    };
    put("a.png", "image/png", "not really a picture").await;
    put("a.svg", "image/svg+xml", "<svg onload='alert(1)'/>").await;
    put("a.html", "text/html", "<script>alert(1)</script>").await;
    let (cookie, _) = log_in(&gateway).await;
    let session = [("cookie", cookie.as_str()), ("range", "bytes=4-9")];
    let path = |key: &str| format!("/console/preview/bytes?path=/{key}");
    let got = ask(gateway.admin, Method::GET, &path("a.png"), &session).await;
    assert_eq!((got.status, got.text().as_str()), (206, "really"));
    assert_eq!(
        got.header("content-security-policy"),
        "sandbox; default-src 'none'"
    );
    assert_eq!(got.header("x-content-type-options"), "nosniff");
    assert_eq!(got.header("content-range"), "bytes 4-9/20");
    let etag = got.header("etag").to_owned();
    for (condition, tag, status) in [
        ("if-range", &*etag, 206),
        ("if-range", "\"other\"", 200),
        ("if-none-match", &etag, 304),
        ("if-match", "\"other\"", 412),
    ] {
        let headers = [&session[..], &[(condition, tag)]].concat();
        let got = ask(gateway.admin, Method::GET, &path("a.png"), &headers).await;
        assert_eq!(
            (got.status, got.header("etag")),
            (status, &*etag),
            "{condition}: {tag}"
        );
    }
    for key in ["a.svg", "a.html"] {
        let got = ask(gateway.admin, Method::GET, &path(key), &session).await;
        assert_eq!(got.status, 415, "{key}");
    }
    let got = ask(gateway.admin, Method::GET, &path("none"), &session).await;
    assert_eq!(got.status, 404);
    gateway.stop().await;
}
