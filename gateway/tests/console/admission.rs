//! No change without the token, or a session of it; also not for a page of another origin, nor under another host.

use std::net::SocketAddr;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Method;

use super::document::of_the_code;
use super::{
    AUTH, LARGE, SlowReader, Whole, World, ask, one_reads_ahead, post, post_to, sample, send,
    started,
};

/// Every request that changes something, but to log in and out.
const CHANGES: [(&str, &str); 18] = [
    ("DELETE", "/api/v1/streams/1"),
    ("DELETE", "/api/v1/sessions/1"),
    ("POST", "/api/v1/writes"),
    ("POST", "/api/v1/links"),
    ("POST", "/api/v1/doctor"),
    ("POST", "/console/streams"),
    ("POST", "/console/objects"),
    ("POST", "/console/writes"),
    ("POST", "/console/settings"),
    ("POST", "/console/doctor"),
    ("POST", "/console/sessions"),
    ("POST", "/purge?path=/o/1.png"),
    ("PUT", "/cache/disk"),
    ("POST", "/warm"),
    ("PUT", "/pins"),
    ("DELETE", "/pins"),
    ("POST", "/reload"),
    ("POST", "/overrides"),
];

/// Every page, and the API.
const READS: [&str; 29] = [
    "/",
    "/console/streams",
    "/console/objects",
    "/console/tiers",
    "/console/writes",
    "/console/events",
    "/console/settings",
    "/console/doctor",
    "/console/sessions",
    "/console/live?section=now",
    "/console/preview?path=/o/1.png",
    "/console/preview/bytes?path=/o/1.png",
    "/console/doctor/bytes",
    "/api/v1/now",
    "/api/v1/history",
    "/api/v1/streams",
    "/api/v1/objects?path=/",
    "/api/v1/warms",
    "/api/v1/tiers",
    "/api/v1/origins",
    "/api/v1/writes",
    "/api/v1/events",
    "/api/v1/hooks",
    "/api/v1/fleet",
    "/api/v1/doctor",
    "/api/v1/routes",
    "/api/v1/settings",
    "/api/v1/sessions",
    "/api/v1/openapi.json",
];

/// A change that the list leaves out would be tried by no test.
#[test]
fn every_change_of_the_api_is_tried() {
    let document = of_the_code();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let method = method.to_uppercase();
            let path = path.replace("{id}", "1");
            let is_tried = match (&*method, operation.is_object()) {
                ("GET", true) => READS
                    .iter()
                    .any(|read| read.split('?').next() == Some(&*path)),
                (_, true) => CHANGES.contains(&(&*method, &*path)),
                _ => true,
            };
            assert!(is_tried, "{method} {path}");
        }
    }
}

async fn status(gateway: &Whole, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
    let method: Method = method.parse().expect("a method");
    ask(gateway.admin, method, path, headers).await.status
}

/// Logs in; returns the cookie, and the CSRF token of its session.
pub(super) async fn log_in(gateway: &Whole) -> (String, String) {
    log_in_at(gateway.admin).await
}

/// Logs in at an admin listener.
pub(super) async fn log_in_at(admin: SocketAddr) -> (String, String) {
    let got = post_to(admin, "/console/login", "", "token=t0ken-of-the-tests").await;
    assert_eq!(got.status, 303, "{}", got.text());
    let set = got.header("set-cookie").to_owned();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(attribute), "{set}");
    }
    assert!(!set.contains("Secure"), "the listener has no TLS: {set}");
    let cookie = set.split(';').next().expect("a cookie").to_owned();
    let page = ask(admin, Method::GET, "/", &[("cookie", &cookie)]).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let text = page.text();
    let (_, after) = text.split_once("name=\"csrf\" value=\"").expect("a form");
    let csrf = after.split('"').next().expect("a value").to_owned();
    assert_eq!(csrf.len(), 128);
    (cookie, csrf)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_or_changed_without_the_token() {
    let world = World::new().await;
    let gateway = started(&world).await;
    for (method, path) in CHANGES {
        assert!(
            [401, 403].contains(&status(&gateway, method, path, &[]).await),
            "{path}"
        );
        let wrong = [("cookie", "tidegate-session=0123")];
        assert!(
            [401, 403].contains(&status(&gateway, method, path, &wrong).await),
            "{path}"
        );
    }
    for path in READS {
        let expected = if path.starts_with("/api/") { 401 } else { 303 };
        assert_eq!(status(&gateway, "GET", path, &[]).await, expected, "{path}");
    }
    let wrong = post(&gateway, "/console/login", "", "token=t0ken-of-the-test").await;
    assert_eq!(wrong.status, 401);
    assert_eq!(wrong.header("set-cookie"), "");
    let image = gateway.get("/o/1.png", &[]).await;
    assert!(image.header("cache-status").contains("hit"));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_origin_or_a_rebinding_host_is_refused_with_all_credentials() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, csrf) = log_in(&gateway).await;
    let all = [
        AUTH,
        ("cookie", cookie.as_str()),
        ("x-csrf-token", csrf.as_str()),
    ];
    for (method, path) in CHANGES.into_iter().chain(READS.map(|path| ("GET", path))) {
        let rebound = [&all[..], &[("host", "evil.example")]].concat();
        assert_eq!(
            status(&gateway, method, path, &rebound).await,
            403,
            "{path}"
        );
        let foreign = [&all[..], &[("origin", "http://evil.example")]].concat();
        assert_eq!(
            status(&gateway, method, path, &foreign).await,
            403,
            "{path}"
        );
    }
    let login = [
        ("host", "evil.example"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let body = "token=t0ken-of-the-tests";
    let got = send(gateway.admin, Method::POST, "/console/login", &login, body).await;
    assert_eq!(got.status, 403);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_form_of_a_page_shows_the_token_of_its_session() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, csrf) = log_in(&gateway).await;
    let fields = "path=%2F&order=warm&stop=1&decide=ours+media+a&action=reload&end=0";
    let forms = CHANGES
        .iter()
        .filter(|(_, path)| path.starts_with("/console/"));
    let mut tried = 0;
    for (_, path) in forms {
        let wrong = format!("{fields}&csrf={}", "0".repeat(128));
        let got = post(&gateway, path, &cookie, &wrong).await;
        assert_eq!(got.status, 403, "{path}: {}", got.text());
        let right = format!("{fields}&csrf={csrf}");
        let got = post(&gateway, path, &cookie, &right).await;
        assert_eq!(got.status, 303, "{path}: {}", got.text());
        tried += 1;
    }
    assert_eq!(tried, 6);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_changes_things_by_its_own_forms_alone() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, csrf) = log_in(&gateway).await;
    let (other, _) = log_in(&gateway).await;
    let purge = "path=%2Fo%2F1.png&order=purge&back=%2Fo%2F";
    for (cookie, fields) in [
        (&cookie, format!("{purge}&csrf=")),
        (&cookie, format!("{purge}&csrf={}", "0".repeat(64))),
        (&cookie, format!("{purge}&csrf={}", "0".repeat(128))),
        (&other, format!("{purge}&csrf={csrf}")),
    ] {
        let got = post(&gateway, "/console/objects", cookie, &fields).await;
        assert_eq!(got.status, 403, "{}", got.text());
    }
    let hit = gateway.get("/o/1.png", &[]).await;
    assert!(
        hit.header("cache-status").contains("hit"),
        "nothing was purged"
    );
    let got = post(
        &gateway,
        "/console/objects",
        &cookie,
        &format!("{purge}&csrf={csrf}"),
    )
    .await;
    assert_eq!(
        (got.status, got.header("location")),
        (303, "/console/objects?path=%2Fo%2F&host=")
    );
    let miss = gateway.get("/o/1.png", &[]).await;
    assert!(
        !miss.header("cache-status").contains("hit"),
        "it was purged"
    );

    // A script shows the token of the session in a header.
    let session = [("cookie", cookie.as_str())];
    let path = "/api/v1/sessions/2";
    assert_eq!(status(&gateway, "DELETE", path, &session).await, 403);
    let both = [("cookie", cookie.as_str()), ("x-csrf-token", csrf.as_str())];
    assert_eq!(status(&gateway, "DELETE", path, &both).await, 204);
    assert_eq!(
        status(&gateway, "GET", "/", &[("cookie", other.as_str())]).await,
        303,
        "it has ended"
    );
    let got = post(
        &gateway,
        "/console/logout",
        &cookie,
        &format!("csrf={csrf}"),
    )
    .await;
    assert_eq!(got.status, 303);
    assert_eq!(
        status(&gateway, "GET", "/", &session).await,
        303,
        "it has ended"
    );
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_may_open_the_console_to_readers_or_switch_it_off() {
    let world = World::new().await;
    world.put("large.bin", &sample(LARGE, 1)).await;
    for (console, read, change) in [("read", 200, 403), ("off", 404, 404)] {
        let config = super::configuration(&world);
        let config = config.replace("[admin]\n", &format!("[admin]\nconsole = \"{console}\"\n"));
        let gateway = Whole::start(&config).await;
        gateway.ready().await;
        for path in ["/", "/api/v1/now", "/console/settings"] {
            assert_eq!(
                status(&gateway, "GET", path, &[]).await,
                read,
                "{console}: {path}"
            );
        }
        for path in ["/api/v1/writes", "/console/settings"] {
            assert_eq!(
                status(&gateway, "POST", path, &[]).await,
                change,
                "{console}: {path}"
            );
        }
        if console == "read" {
            let reader = SlowReader::start(&gateway, "/large.bin").await;
            one_reads_ahead(&gateway).await;
            nothing_is_offered_to_readers(&gateway).await;
            drop(reader);
        }
        let preview = status(&gateway, "GET", "/console/preview/bytes?path=/o/1.png", &[]).await;
        assert_eq!(
            preview, change,
            "{console}: bytes of objects are for those who log in"
        );
        gateway.stop().await;
    }
}

/// Looks at each page with and without a session, while a stream is under way. Without a session no form is there, and the
/// style sheet hides each button, because the form that it belongs to is not there.
async fn nothing_is_offered_to_readers(gateway: &Whole) {
    let (cookie, _) = log_in(gateway).await;
    let style = ask(gateway.admin, Method::GET, "/console/console.css", &[]).await;
    let hides = "body:not(:has(#act)) [form=\"act\"] { display: none; }";
    assert!(style.text().contains(hides), "{}", style.text());
    let pages = READS.iter().filter(|path| !path.contains("live?"));
    let pages = pages.filter(|path| !path.contains("/preview") && !path.contains("bytes"));
    for path in pages.filter(|path| !path.starts_with("/api/")) {
        let show = async |headers: &[(&str, &str)]| {
            let got = ask(gateway.admin, Method::GET, path, headers).await;
            assert_eq!(got.status, 200, "{path}");
            got.text()
        };
        let text = show(&[]).await;
        assert!(
            !text.contains("<form") && !text.contains("name=\"end\""),
            "{path}: {text}"
        );
        let buttons = text.split("<button").skip(1);
        let mut buttons = buttons.filter_map(|rest| rest.split('>').next());
        let is_hidden = |button: &str| button.contains("form=\"act\"");
        assert!(buttons.all(is_hidden), "{path}: {text}");
        assert!(text.contains("href=\"/console/login"), "{path}: {text}");
        let own = show(&[("cookie", &cookie)]).await;
        let is_live = own.contains("data-live");
        assert_eq!(own.contains("<form id=\"act\""), is_live, "{path}: {own}");
        assert_eq!(
            own.contains("name=\"end\""),
            *path == "/console/sessions",
            "{path}"
        );
        assert_eq!(
            own.contains("name=\"stop\""),
            *path == "/console/streams",
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_no_way_to_guess_the_token() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let wrong = [("authorization", "Bearer t0ken-of-the-test")];
    for (method, path) in [("GET", "/"), ("POST", "/console/objects")] {
        let got = ask(gateway.admin, method.parse().expect("one"), path, &wrong).await;
        assert_eq!(got.status, 401, "{method} {path}");
        assert!(got.header("www-authenticate").starts_with("Bearer"));
    }
    // Each one waits longer than the one before, and only a few may wait at a time.
    let guess = |_| status(&gateway, "GET", "/", &wrong);
    let mut guesses = (0..20).map(guess).collect::<FuturesUnordered<_>>();
    let mut is_counted = false;
    while let Some(status) = guesses.next().await {
        assert!([401, 429].contains(&status), "{status}");
        is_counted = status == 429;
        if is_counted {
            break;
        }
    }
    assert!(is_counted, "all were answered");
    drop(guesses);
    assert_eq!(status(&gateway, "GET", "/", &[AUTH]).await, 200);
    gateway.stop().await;
}
