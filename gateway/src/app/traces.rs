//! Traces: the tracer of the configuration, and the way of its spans to the collector.

mod client;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::process::machine::machine_name;
use client::HttpCollector;
use tidegate_config::{Environment, Trace};
use tidegate_telemetry::trace::Tracer;
use tidegate_telemetry::trace::otlp::Resource;

/// The path of a collector whose URL has none (OTLP, "OTLP/HTTP Request").
const TRACES_PATH: &str = "/v1/traces";

/// The time that a stop gives the collector.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The traces of a gateway; none if there is no collector.
#[derive(Debug, Default)]
pub(super) struct Traces {
    pub(super) tracer: Option<Arc<Tracer>>,
    exporter: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

impl Traces {
    /// Starts the traces of a configuration on a runtime.
    ///
    /// # Errors
    /// A secret cannot be read, or the certificates of this machine.
    pub(super) fn start(
        trace: &Trace,
        env: &Environment,
        runtime: Option<Handle>,
        registry: &mut Registry,
    ) -> anyhow::Result<Self> {
        let Some(collector) = collector(trace, env)? else {
            return Ok(Self::default());
        };
        let (tracer, exporter) = Tracer::new(trace.sample, trace.follow_parent);
        exporter.register(registry);
        let resource = Resource {
            service: trace.service.clone(),
            version: env!("CARGO_PKG_VERSION"),
            instance: instance(),
        };
        let stop = CancellationToken::new();
        let runtime = runtime.unwrap_or_else(Handle::current);
        let stopped = stop.clone().cancelled_owned();
        let exporter = runtime.spawn(exporter.run(resource, collector, stopped));
        tracing::info!(sample = trace.sample, "some requests are traced");
        Ok(Self {
            tracer: Some(tracer),
            exporter: Some(exporter),
            stop,
        })
    }

    /// Checks the way to the collector. Asks it nothing.
    ///
    /// # Errors
    /// As [`Traces::start`].
    pub(super) fn check(trace: &Trace, env: &Environment) -> anyhow::Result<()> {
        collector(trace, env).map(drop)
    }

    /// Delivers the spans that wait, in one batch, and ends. The collector has [`STOP_TIMEOUT`] for it; then they are
    /// dropped.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        let Some(mut exporter) = self.exporter else {
            return;
        };
        match timeout(STOP_TIMEOUT, &mut exporter).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the exporter of traces ended badly"),
            Err(_) => {
                exporter.abort();
                tracing::warn!(
                    "the collector of traces does not answer; its last spans are dropped"
                );
            }
        }
    }
}

/// Returns the collector of a configuration, if it has one.
fn collector(trace: &Trace, env: &Environment) -> anyhow::Result<Option<HttpCollector>> {
    let Some(endpoint) = &trace.endpoint else {
        return Ok(None);
    };
    let uri = collector_uri(endpoint).context("`trace.endpoint`")?;
    let collector = HttpCollector::new(uri, headers(trace, env)?);
    Ok(Some(collector.context("`trace.endpoint`")?))
}

/// Returns the URL that batches are sent to.
fn collector_uri(endpoint: &str) -> anyhow::Result<Uri> {
    let uri: Uri = endpoint.parse()?;
    if uri.path() != "/" {
        return Ok(uri);
    }
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(TRACES_PATH.parse()?);
    Ok(Uri::from_parts(parts)?)
}

/// Returns the headers for the collector, with their secrets read.
fn headers(trace: &Trace, env: &Environment) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &trace.headers {
        let read = || {
            let secret = value.resolve(env)?;
            // The error has no part of the value.
            let mut value = HeaderValue::from_str(secret.trim())
                .ok()
                .context("is no text that a header can carry")?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        };
        let value = read().with_context(|| format!("`trace.headers`: `{name}`"))?;
        headers.insert(HeaderName::from_bytes(name.as_bytes())?, value);
    }
    Ok(headers)
}

/// Returns the name of this process: the machine's name, and the process id.
fn instance() -> String {
    let machine = machine_name().unwrap_or_default();
    format!("{machine}-{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stop_leaves_a_collector_that_hangs() {
        let traces = Traces {
            exporter: Some(tokio::spawn(std::future::pending())),
            ..Traces::default()
        };
        let begun = Instant::now();
        traces.stop().await;
        assert_eq!(begun.elapsed(), STOP_TIMEOUT);
    }

    #[test]
    fn a_url_without_a_path_gets_that_of_the_protocol() {
        for (endpoint, uri) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://c.example/", "https://c.example/v1/traces"),
            (
                "https://c.example/otlp/v1/traces",
                "https://c.example/otlp/v1/traces",
            ),
        ] {
            assert_eq!(collector_uri(endpoint).expect("a URL").to_string(), uri);
        }
    }
}
