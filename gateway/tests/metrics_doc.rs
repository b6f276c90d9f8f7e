//! Checks `docs/METRICS.md`, which is generated from the list of metrics. `UPDATE=1 cargo test
//! --test metrics_doc` rewrites it.

use std::fmt::Write;
use std::path::Path;

use tidegate_telemetry::exposition::PREFIX;
use tidegate_telemetry::names::ALL;
use tidegate_telemetry::{Metric, MetricKind};

#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;

use gateway::Whole;

const HEAD: &str = "\
# Metrics

Generated from `gateway/crates/telemetry/src/names.rs`; edit that.

`GET /metrics` on the admin listener answers OpenMetrics text, which Prometheus scrapes. Units are
base units and part of the name. A counter is scraped with `_total` behind it, a histogram as
`_bucket`, `_sum` and `_count`; a name below is what to type in a query. No metric has a key or an
ETag as a label.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
";

/// Returns the name as scraped.
fn scraped(metric: &Metric) -> String {
    let suffix = match metric.kind {
        MetricKind::Counter => "_total",
        MetricKind::Info => "_info",
        MetricKind::Gauge | MetricKind::Histogram => "",
    };
    format!("{PREFIX}_{}{suffix}", metric.name)
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    for metric in ALL {
        let labels: Vec<_> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            scraped(metric),
            metric.kind.as_str(),
            labels.join(", "),
            metric.help.replace('|', "\\|"),
        )
        .expect("writing to a string does not fail");
    }
    text
}

#[test]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/METRICS.md");
    let expected = document();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).expect("writes the document");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/METRICS.md is not what the code says; run this test with UPDATE=1"
    );
}

/// Scrapes a gateway whose origin is down, after one request. Many metrics have samples by then;
/// the others cannot be checked.
async fn scrape() -> String {
    let disk = tempfile::tempdir().expect("a folder");
    let gateway = Whole::start(&format!(
        "[[cache.disk]]\npath = \"{}\"\ncapacity = \"64MiB\"\nmin_free = \"1MiB\"\n\
         [[origin]]\nname = \"o\"\nbucket = \"b\"\nanonymous = true\nretries = 0\n\
         endpoint = \"http://127.0.0.1:1\"\n",
        disk.path().display()
    ))
    .await;
    assert_eq!(gateway.get("/missing", &[]).await.status, 503);
    let text = gateway.look("/metrics").await.text();
    gateway.stop().await;
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_scraped_is_what_is_listed() {
    let text = scrape().await;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut seen = 0;
    for (name, kind) in types.filter_map(|line| line.split_once(' ')) {
        let metric = ALL
            .iter()
            .find(|metric| format!("{PREFIX}_{}", metric.name) == name)
            .unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!(metric.kind.as_str(), kind, "{name}");
        for sample in text.lines().filter(|line| is_sample_of(metric, line)) {
            assert_eq!(labels(sample), metric.labels, "{sample}");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}:\n{text}");
}

fn is_sample_of(metric: &Metric, line: &str) -> bool {
    let name = line.split(['{', ' ']).next().unwrap_or_default();
    let parts: &[&str] = match metric.kind {
        MetricKind::Histogram => &["_bucket", "_sum", "_count"],
        _ => &[""],
    };
    let base = scraped(metric);
    parts
        .iter()
        .any(|part| name.strip_suffix(part) == Some(&base))
}

/// Returns the names of a sample's labels, without `le` of a histogram's buckets.
fn labels(sample: &str) -> Vec<&str> {
    let inner = sample
        .split_once('{')
        .and_then(|(_, rest)| rest.rsplit_once('}'));
    let pairs = inner.map_or("", |(inner, _)| inner).split("\",");
    pairs
        .filter_map(|pair| pair.split_once("=\"").map(|(name, _)| name))
        .filter(|name| *name != "le")
        .collect()
}
