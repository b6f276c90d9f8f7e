//! A headless Chromium, driven through WebDriver (W3C) by Debian's chromedriver.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::child::{Server, find_program, free_addr};

/// Time limit of one order, and of the browser's start, also on a slow machine; only a failure waits so long.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Root may not use the sandbox.
const ARGUMENTS: [&str; 4] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
];

/// A browser with one window. Dropping it ends chromedriver, and the browser with it.
#[derive(Debug)]
pub struct WebDriver {
    addr: SocketAddr,
    session: String,
    client: Client<HttpConnector, Full<Bytes>>,
    _driver: Server,
}

impl WebDriver {
    /// Starts chromedriver with its output in the file `log`, and a browser with more `arguments`.
    ///
    /// # Errors
    /// If either is not installed or does not start.
    pub async fn start(log: &Path, arguments: &[&str]) -> Result<Self> {
        Self::begin(log, arguments, json!({})).await
    }

    /// Does the same with a browser that traces itself in these categories, and its requests: see [`Self::traced`].
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn start_traced(log: &Path, arguments: &[&str], categories: &str) -> Result<Self> {
        let traced =
            json!({ "enableNetwork": true, "enablePage": false, "traceCategories": categories });
        Self::begin(log, arguments, json!({ "perfLoggingPrefs": traced })).await
    }

    async fn begin(log: &Path, arguments: &[&str], mut options: Value) -> Result<Self> {
        let program = find_program("TIDEGATE_CHROMEDRIVER", &["chromedriver"])
            .context("chromedriver is missing: apt-get install chromium-driver")?;
        let addr = free_addr();
        let mut command = Command::new(program);
        command.arg(format!("--port={}", addr.port()));
        let mut browser = Self {
            addr,
            session: String::new(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            _driver: Server::start(command, log, addr)?,
        };
        let arguments: Vec<_> = ARGUMENTS.iter().chain(arguments).collect();
        options["args"] = json!(arguments);
        options["browserStartupTimeout"] = json!(u64::try_from(TIMEOUT.as_millis())?);
        let logged = match options["perfLoggingPrefs"].is_object() {
            true => json!({ "performance": "ALL" }),
            false => json!({}),
        };
        let wanted = json!({
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logged
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": wanted } });
        let begun = browser.order(Method::POST, "", &wanted).await?;
        let session = begun["sessionId"].as_str();
        browser.session = session.context("a session without an id")?.to_owned();
        Ok(browser)
    }

    /// Sends an order, and returns the status and the value of its answer. `path` is below the session.
    ///
    /// # Errors
    /// If chromedriver does not answer in time.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(StatusCode, Value)> {
        self.ask_within(TIMEOUT, method, path, body).await
    }

    async fn ask_within(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(StatusCode, Value)> {
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!("/{session}"),
        };
        let body = match method {
            Method::GET => Bytes::new(),
            _ => Bytes::from(body.to_string()),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}/session{session}{path}", self.addr))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        let answered = async {
            let answer = self.client.request(request).await?;
            let status = answer.status();
            anyhow::Ok((status, answer.into_body().collect().await?.to_bytes()))
        };
        let answered = tokio::time::timeout(limit, answered).await;
        let (status, body) = answered.context("chromedriver does not answer")??;
        let mut answer: Value = serde_json::from_slice(&body)?;
        Ok((status, answer["value"].take()))
    }

    /// Sends an order that has to succeed, and returns its value.
    ///
    /// # Errors
    /// If it does not succeed.
    pub async fn order(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let answered = self.ask(method, path, body).await?;
        succeeded(path, answered)
    }

    /// Opens a page, and waits until it is loaded.
    ///
    /// # Errors
    /// If the browser cannot open it.
    pub async fn open(&self, url: &str) -> Result<()> {
        let page = json!({ "url": url });
        self.order(Method::POST, "/url", &page).await.map(drop)
    }

    /// Runs a script in the page, and returns its result.
    ///
    /// # Errors
    /// If it throws.
    pub async fn run(&self, script: &str, arguments: Value) -> Result<Value> {
        let script = json!({ "script": script, "args": arguments });
        self.order(Method::POST, "/execute/sync", &script).await
    }

    /// Runs a script whose last argument is called with the result, for `limit` at most.
    ///
    /// # Errors
    /// If it throws, or does not call in time.
    pub async fn run_async(
        &self,
        script: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Value> {
        let timeouts = json!({ "script": u64::try_from(limit.as_millis())? });
        self.order(Method::POST, "/timeouts", &timeouts).await?;
        let (script, path) = (
            json!({ "script": script, "args": arguments }),
            "/execute/async",
        );
        // Chromedriver itself tells that the script is late.
        let answered = self.ask_within(limit + TIMEOUT, Method::POST, path, &script);
        succeeded(path, answered.await?)
    }

    /// Sends an order of Chromium's own protocol.
    ///
    /// # Errors
    /// If the browser refuses.
    pub async fn devtools(&self, name: &str, parameters: Value) -> Result<Value> {
        let order = json!({ "cmd": name, "params": parameters });
        self.order(Method::POST, "/goog/cdp/execute", &order).await
    }

    /// Returns what the browser has traced of itself and its requests since the last call: events of its own protocol, each
    /// with `method` and `params`.
    ///
    /// # Errors
    /// If it was not started to trace.
    pub async fn traced(&self) -> Result<Vec<Value>> {
        let order = json!({ "type": "performance" });
        let entries = self.order(Method::POST, "/se/log", &order).await?;
        let entries = entries.as_array().context("no list of entries")?;
        let event = |entry: &Value| {
            let text = entry["message"].as_str().context("an entry without text")?;
            let mut entry: Value = serde_json::from_str(text)?;
            Ok(entry["message"].take())
        };
        entries.iter().map(event).collect()
    }

    /// Closes the browser.
    ///
    /// # Errors
    /// If chromedriver refuses.
    pub async fn end(self) -> Result<()> {
        self.order(Method::DELETE, "", &json!({})).await.map(drop)
    }
}

/// Returns the value of an answer that has to be a success.
fn succeeded(path: &str, (status, value): (StatusCode, Value)) -> Result<Value> {
    ensure!(status == StatusCode::OK, "{path}: {status}: {value}");
    Ok(value)
}
