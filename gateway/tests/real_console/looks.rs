//! How the pages look and behave: at each width, in each scheme, with large text, for a screen reader, by keyboard.

use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::browser::Browser;
use super::foreign::DOT;
use super::gateway::send;
use super::mount::blocking;
use super::{EVENTS_TOKEN, Stage, a_write_is_refused, pictures};

/// The widths of the pictures: a phone, a tablet, a desktop.
const WIDTHS: [u32; 3] = [390, 820, 1440];

/// The targets of a page: bytes over the wire, and milliseconds to the first paint on loopback.
const MAX_BYTES: f64 = 100_000.0;
const FIRST_PAINT: f64 = 300.0;

/// The pages, by the names of their pictures.
const PAGES: [(&str, &str); 9] = [
    ("now", "/"),
    ("streams", "/console/streams"),
    ("objects", "/console/objects?path=/o/"),
    ("tiers", "/console/tiers"),
    ("writes", "/console/writes"),
    ("events", "/console/events"),
    ("settings", "/console/settings?edit=cache.memory"),
    ("doctor", "/console/doctor"),
    ("sessions", "/console/sessions"),
];

/// Pages of a moment: seen on a phone in light, and on a desktop in dark.
const MOMENTS: [(&str, &str); 4] = [
    ("login", "/console/login"),
    ("preview", "/console/preview?path=/o/dot.png"),
    ("failure", "/console/objects?path=/o/&page=gone"),
    ("unknown", "/console/objects?path=nowhere"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_fit_to_be_seen() {
    let stage = Stage::set().await;
    let dot = stage.folder.path().join("o/dot.png");
    blocking(move || std::fs::write(dot, DOT).expect("written")).await;
    for n in 0..3 {
        stage.serving.get(&format!("/o/{n}.bin")).await;
    }
    let stop = CancellationToken::new();
    let readers = [
        stage.paced("/large.bin", stop.clone()),
        stage.paced("/large.bin", stop.clone()),
    ];
    a_write_is_refused(&stage).await;
    an_event_comes(&stage).await;
    a_verdict_is_there(&stage).await;
    for (name, path) in PAGES {
        is_seen(&stage, name, path).await;
    }
    for (name, path) in MOMENTS {
        for (width, scheme) in [(390, "light"), (1440, "dark")] {
            is_right(&stage, (name, path), (width, scheme)).await;
            is_accessible(&stage.browser, name).await;
        }
    }
    stop.cancel();
    for reader in readers {
        reader.await.expect("no panic");
    }
    a_refused_setting_is_accessible(&stage).await;
    stage.end().await;
}

/// The bucket tells of an object.
async fn an_event_comes(stage: &Stage) {
    let body = r#"{"Records":[{"eventName":"s3:ObjectCreated:Put","eventTime":"2026-11-26T02:30:00.000Z",
        "s3":{"bucket":{"name":"media"},"object":{"key":"o/1.bin","eTag":"t","sequencer":"17"}}}]}"#;
    let bearer = format!("Bearer {EVENTS_TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    let (admin, path) = (stage.serving.admin, "/events/bucket");
    let got = send(admin, Method::POST, path, &headers, body).await;
    assert_eq!(got.status, 200, "{}", got.text());
}

/// The doctor measures all stages, this browser too.
async fn a_verdict_is_there(stage: &Stage) {
    let browser = &stage.browser;
    browser.open(&stage.url("/console/doctor")).await;
    browser.write("#objects", "/large.bin").await;
    browser.click("main form button").await;
    browser.find("main pre").await;
    let text = browser.text("#live").await;
    for stage in [
        "bucket of o",
        "network to o (lo)",
        "disk ",
        "memory",
        "client: ",
    ] {
        assert!(text.contains(stage), "no {stage}: {text}");
    }
}

/// Looks at one page at each width and in each scheme.
async fn is_seen(stage: &Stage, name: &str, path: &str) {
    let browser = &stage.browser;
    costs(stage, name, path).await;
    for width in WIDTHS {
        for scheme in ["light", "dark"] {
            is_right(stage, (name, path), (width, scheme)).await;
            if [(390, "light"), (1440, "dark")].contains(&(width, scheme)) {
                is_accessible(browser, name).await;
            }
        }
        if width > 390 {
            // WCAG 2.2, 1.4.4: text of twice the size, and nothing is lost.
            browser.set_text_size(32).await;
            browser.open(&stage.url(path)).await;
            let size = "return getComputedStyle(document.documentElement).fontSize";
            assert_eq!(browser.run(size, json!([])).await, json!("32px"));
            fits(browser, &format!("{name} with large text"), width).await;
            let file = format!("{name}-{width}-large.png");
            browser.picture(&pictures().join(file)).await;
            browser.set_text_size(16).await;
        }
    }
}

/// Opens a page at a width and in a scheme, and keeps a picture of it.
async fn is_right(stage: &Stage, (name, path): (&str, &str), (width, scheme): (u32, &str)) {
    let browser = &stage.browser;
    browser.look(width, scheme).await;
    browser.open(&stage.url(path)).await;
    fits(browser, name, width).await;
    let file = format!("{name}-{width}-{scheme}.png");
    browser.picture(&pictures().join(file)).await;
}

/// Nothing is wider than the window, and nothing was refused by the page's own policy.
async fn fits(browser: &Browser, name: &str, width: u32) {
    // The root's own width: a phone's window grows with what is wider.
    let script = "const root = document.documentElement;
        const wide = [...document.querySelectorAll('main *')].filter(one =>
            one.getBoundingClientRect().right > root.clientWidth + 1 && !one.closest('pre, svg, .hidden, thead'));
        return [root.clientWidth, root.scrollWidth, wide.slice(0, 3).map(one => one.outerHTML.slice(0, 200))]";
    let told = browser.run(script, json!([])).await;
    let [seen, all] = [0, 1].map(|at| told[at].as_u64().expect("a width"));
    assert!(
        seen <= u64::from(width),
        "{name}: the window has {width}, the page {seen}"
    );
    assert!(
        all <= seen && told[2] == json!([]),
        "{name} at {width}: {told}"
    );
    let styled = "return getComputedStyle(document.querySelector('header')).display === 'flex'";
    assert_eq!(
        browser.run(styled, json!([])).await,
        json!(true),
        "{name}: the style is in force"
    );
}

/// Bounds the bytes of a page over the wire, and reports its first paint, by Chromium's own tracing.
async fn costs(stage: &Stage, name: &str, path: &str) {
    let cost = stage.browser.cost(&stage.url(path)).await;
    println!(
        "{name}: {} bytes in {} requests (target {MAX_BYTES}), first paint after {:.0} ms (target {FIRST_PAINT}), of text \
         after {:.0} ms",
        cost.bytes, cost.requests, cost.first_paint, cost.first_content
    );
    // The page, its style and its script at least.
    assert!(
        cost.requests >= 3 && cost.bytes > 3000.0,
        "{name}: {cost:?}"
    );
    assert!(cost.bytes <= MAX_BYTES, "{name}: {cost:?}");
    // Its time is the machine's as well: only that there is one is judged.
    assert!(
        cost.first_paint > 0.0 && cost.first_content >= cost.first_paint,
        "{name}: {cost:?}"
    );
}

async fn a_refused_setting_is_accessible(stage: &Stage) {
    let browser = &stage.browser;
    browser
        .open(&stage.url("/console/settings?edit=cache.memory"))
        .await;
    browser.write("#edit-value", "much").await;
    browser.click("#edit button[value=set]").await;
    browser.find("#edit-errors").await;
    is_accessible(browser, "a refused setting").await;
}

/// axe-core finds nothing serious. `loadtest/setup --minimal` fetches it from the npm registry.
async fn is_accessible(browser: &Browser, name: &str) {
    let file = std::env::var_os("TIDEGATE_AXE").filter(|file| !file.is_empty());
    let file = file.expect("TIDEGATE_AXE names axe.min.js: `loadtest/setup --minimal` fetches it");
    let axe = std::fs::read_to_string(&file);
    let axe = axe.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    browser.run(&axe, json!([])).await;
    let script = "const done = arguments[arguments.length - 1];
        axe.run(document).then(({ violations }) => done(violations.map(one =>
            `${one.impact}: ${one.id}: ${one.nodes.map(node => node.html).slice(0, 3).join(' | ')}`)))";
    let found = browser.run_async(script).await;
    let found: Vec<_> = found
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let serious: Vec<_> = found
        .iter()
        .filter(|one| one.starts_with("serious") || one.starts_with("critical"))
        .collect();
    assert!(serious.is_empty(), "{name}: {serious:#?}");
    println!("{name}: {} lesser remarks {found:?}", found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_purged_by_keyboard() {
    let stage = Stage::set().await;
    assert_eq!(stage.serving.get("/o/0.bin").await.status, 200);
    let browser = &stage.browser;
    browser.open(&stage.url("/console/objects?path=/o/")).await;
    browser.press("Tab").await;
    assert_eq!(focused(browser, "className").await, "skip");
    browser.press("Enter").await;
    tab_until(browser, "tagName", "SUMMARY").await;
    browser.press("Enter").await;
    tab_until(browser, "value", "purge").await;
    browser.press("Enter").await;
    browser.find(".message").await;
    let said = browser.text(".message").await;
    assert!(said.contains("Purged: o/"), "{said}");
    stage.end().await;
}

/// Returns a property of the element that has the focus.
async fn focused(browser: &Browser, property: &str) -> String {
    let script = "return String(document.activeElement[arguments[0]] ?? '')";
    let told = browser.run(script, json!([property])).await;
    told.as_str().expect("a text").to_owned()
}

/// Moves the focus on until an element with this property has it; the focus is always to be seen.
async fn tab_until(browser: &Browser, property: &str, value: &str) {
    for _ in 0..100 {
        browser.press("Tab").await;
        let outline = "return getComputedStyle(document.activeElement).outlineStyle !== 'none'";
        assert_eq!(
            browser.run(outline, json!([])).await,
            json!(true),
            "the focus is seen"
        );
        if focused(browser, property).await == value {
            return;
        }
    }
    panic!("no {property} {value} by 100 tabs");
}
