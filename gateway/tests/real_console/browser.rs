//! The browser of the console's suite: the load test's Chromium, with waits and pictures. Each step has to succeed.

use std::path::Path;
use std::time::Duration;

use http::Method;
use loadtest::webdriver::WebDriver;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::LONG;

/// A name that leads to this machine in this browser.
pub(crate) const REBOUND: &str = "rebound.example";

/// The name of an element's reference in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The categories of Chromium's tracing that have the begin of a navigation and its paints.
const TRACED: &str = "blink.user_timing,loading";

/// The cost of a page, from Chromium's own tracing.
#[derive(Debug)]
pub(crate) struct PageCost {
    /// The requests of the page that are over.
    pub(crate) requests: usize,
    /// Their bytes over the wire, heads included.
    pub(crate) bytes: f64,
    /// The times from the begin of the navigation to the first paint, and to that of text or a picture, in milliseconds.
    pub(crate) first_paint: f64,
    pub(crate) first_content: f64,
}

/// A browser with one window.
pub(crate) struct Browser {
    driver: WebDriver,
    _home: tempfile::TempDir,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let log = home.path().join("chromedriver.log");
        // As a page does that makes its own name resolve to this machine.
        let rebound = format!("--host-resolver-rules=MAP {REBOUND} 127.0.0.1");
        let driver = WebDriver::start_traced(&log, &[&rebound], TRACED).await;
        Self {
            driver: driver.expect("Chromium is installed"),
            _home: home,
        }
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let done = self.driver.order(Method::POST, path, &body).await;
        done.expect("done")
    }

    pub(crate) async fn open(&self, url: &str) {
        self.driver.open(url).await.expect("opened");
    }

    /// Returns the element that a CSS selector names, once it is there.
    pub(crate) async fn find(&self, selector: &str) -> String {
        let begun = Instant::now();
        let wanted = json!({ "using": "css selector", "value": selector });
        loop {
            let got = self.driver.ask(Method::POST, "/element", &wanted).await;
            let (_, found) = got.expect("an answer");
            if let Some(element) = found[ELEMENT].as_str() {
                return element.to_owned();
            }
            assert!(
                begun.elapsed() < LONG,
                "no {selector}: {}",
                self.text("body").await
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn click(&self, selector: &str) {
        let element = self.find(selector).await;
        self.post(&format!("/element/{element}/click"), json!({}))
            .await;
    }

    /// Replaces the text of a field.
    pub(crate) async fn write(&self, selector: &str, text: &str) {
        let element = self.find(selector).await;
        self.post(&format!("/element/{element}/clear"), json!({}))
            .await;
        self.post(
            &format!("/element/{element}/value"),
            json!({ "text": text }),
        )
        .await;
    }

    /// Presses a key: `Tab` or `Enter`.
    pub(crate) async fn press(&self, key: &str) {
        // The code points of WebDriver for keys without a character (17.4.2).
        let value = match key {
            "Tab" => "\u{e004}",
            "Enter" => "\u{e007}",
            other => panic!("{other} is not known here"),
        };
        let strokes = ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": value }));
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", json!({ "actions": [keyboard] }))
            .await;
    }

    /// Returns the text of an element as it is seen.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        let text = self.run(script, json!([selector])).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script in the page.
    pub(crate) async fn run(&self, script: &str, arguments: Value) -> Value {
        self.driver.run(script, arguments).await.expect("no error")
    }

    /// Runs a script whose last argument is called with the result.
    pub(crate) async fn run_async(&self, script: &str) -> Value {
        let ran = self.driver.run_async(script, json!([]), LONG).await;
        ran.expect("no error")
    }

    /// Waits until a script returns something that is true.
    pub(crate) async fn until(&self, what: &str, script: &str) {
        let begun = Instant::now();
        while self.run(script, json!([])).await != json!(true) {
            assert!(
                begun.elapsed() < LONG,
                "never: {what}: {}",
                self.text("body").await
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sets the width of the window and the scheme of colours.
    pub(crate) async fn look(&self, width: u32, scheme: &str) {
        let metrics =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
            .await;
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// Sets the size of text that the user of the browser has chosen, in CSS pixels.
    pub(crate) async fn set_text_size(&self, pixels: u32) {
        let sizes = json!({ "fontSizes": { "standard": pixels, "fixed": pixels } });
        self.devtools("Page.setFontSizes", sizes).await;
    }

    /// Sends an order of Chromium's own protocol.
    async fn devtools(&self, name: &str, parameters: Value) -> Value {
        let done = self.driver.devtools(name, parameters).await;
        done.expect("done")
    }

    /// Opens a page without the browser's cache, and returns what that cost.
    pub(crate) async fn cost(&self, url: &str) -> PageCost {
        let uncached =
            |is: bool| self.devtools("Network.setCacheDisabled", json!({ "cacheDisabled": is }));
        uncached(true).await;
        // What was traced before is not of this page.
        self.driver.traced().await.expect("a log");
        self.open(url).await;
        uncached(false).await;
        let (begun, mut events) = (Instant::now(), Vec::new());
        // The page's own process hands its part over later.
        loop {
            events.extend(self.driver.traced().await.expect("a log"));
            if let Some(cost) = PageCost::of(&events, url) {
                return cost;
            }
            assert!(begun.elapsed() < LONG, "no paint of {url}: {events:#?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Keeps a picture of the whole page.
    pub(crate) async fn picture(&self, file: &Path) {
        let parameters = json!({ "format": "png", "captureBeyondViewport": true });
        let shot = self.devtools("Page.captureScreenshot", parameters).await;
        let text = shot["data"].as_str().expect("a picture");
        let bytes = decode(text);
        assert!(bytes.starts_with(b"\x89PNG"), "a picture");
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(file, bytes).expect("written");
    }

    /// Ends the browser.
    pub(crate) async fn end(self) {
        self.driver.end().await.expect("ended");
    }
}

impl PageCost {
    /// Returns the cost of the page as far as it was traced; `None`: a paint is missing yet.
    fn of(events: &[Value], url: &str) -> Option<Self> {
        let params = |method: &'static str| {
            let named = events.iter().filter(move |event| event["method"] == method);
            named.map(|event| &event["params"])
        };
        let is_page = |sent: &&Value| sent["type"] == "Document" && sent["documentURL"] == url;
        let navigation = &params("Network.requestWillBeSent").find(is_page)?["loaderId"];
        let sent: Vec<_> = params("Network.requestWillBeSent")
            .filter(|sent| sent["loaderId"] == *navigation)
            .map(|sent| &sent["requestId"])
            .collect();
        let ended: Vec<_> = params("Network.loadingFinished")
            .filter(|ended| sent.contains(&&ended["requestId"]))
            .map(|ended| ended["encodedDataLength"].as_f64().expect("a number"))
            .collect();
        // In microseconds.
        let time_of = |name: &str| {
            let mut traced = params("Tracing.dataCollected");
            let of_page = |event: &&Value| {
                event["name"] == name && event["args"]["data"]["navigationId"] == *navigation
            };
            traced.find(of_page)?["ts"].as_f64()
        };
        let begun = time_of("navigationStart")?;
        Some(Self {
            requests: ended.len(),
            bytes: ended.iter().sum(),
            first_paint: (time_of("firstPaint")? - begun) / 1e3,
            first_content: (time_of("firstContentfulPaint")? - begun) / 1e3,
        })
    }
}

/// Decodes base64 (RFC 4648, 4).
fn decode(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits = text.bytes().filter(|byte| *byte != b'=');
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for digit in digits {
        bits = bits << 6 | u32::from(value(digit));
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
