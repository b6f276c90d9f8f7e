//! The pages: whole without a script, and nothing in them from elsewhere.

use http::Method;

use super::admission::log_in;
use super::{World, ask, configuration, post, started};
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

#[tokio::test(flavor = "multi_thread")]
async fn each_page_keeps_to_its_policy_and_is_small() {
    let world = World::new().await;
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
        let is_settings = path.starts_with("/console/settings");
        let whole = text.len() + assets;
        assert!(whole < 100_000 || is_settings, "{path}: {whole} bytes");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_shows_its_objects_and_their_orders() {
    let world = World::new().await;
    world.put("o/<b>&\"'.png", b"x").await;
    let gateway = started(&world).await;
    let (cookie, csrf) = log_in(&gateway).await;
    let session = [("cookie", cookie.as_str())];
    let page = ask(
        gateway.admin,
        Method::GET,
        "/console/objects?path=/o/",
        &session,
    )
    .await;
    let text = page.text();
    assert!(text.contains("whole: 98 KiB in memory"), "{text}");
    assert!(
        text.contains("&lt;b&gt;&amp;&quot;") && !text.contains("<b>"),
        "names are text"
    );
    let fields = format!("path=%2Fo%2F4.png&order=warm&back=%2Fo%2F&csrf={csrf}");
    let got = post(&gateway, "/console/objects", &cookie, &fields).await;
    assert_eq!(got.status, 303);
    let page = ask(gateway.admin, Method::GET, got.header("location"), &session).await;
    assert!(
        page.text().contains("1 objects are being fetched"),
        "{}",
        page.text()
    );
    let page = ask(
        gateway.admin,
        Method::GET,
        "/console/objects?path=/o/",
        &session,
    )
    .await;
    assert!(
        !page.text().contains("are being fetched"),
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
    for key in ["a.svg", "a.html"] {
        let got = ask(gateway.admin, Method::GET, &path(key), &session).await;
        assert_eq!(got.status, 415, "{key}");
    }
    let got = ask(gateway.admin, Method::GET, &path("none"), &session).await;
    assert_eq!(got.status, 404);
    gateway.stop().await;
}
