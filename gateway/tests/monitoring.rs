//! The dashboard and the rules under `config/`: they ask for metrics and labels that exist, and each alert has its runbook
//! line and its tests. `real_monitoring` runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;
use tidegate_telemetry::exposition::PREFIX;
use tidegate_telemetry::names::ALL;
use tidegate_telemetry::{Metric, MetricKind};

fn config() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config")
}

fn read(path: &str) -> String {
    let path = config().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names of the files in `prometheus/tests`.
fn rule_tests() -> Vec<String> {
    let files = std::fs::read_dir(config().join("prometheus/tests")).expect("a folder");
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        let name = file.expect("a file").file_name();
        format!("prometheus/tests/{}", name.to_str().expect("text"))
    };
    files.map(name).collect()
}

/// Returns the metric of a name as it is scraped.
fn metric(name: &str) -> Option<&'static Metric> {
    let name = name.strip_prefix(PREFIX)?.strip_prefix('_')?;
    ALL.iter().find(|metric| {
        let suffix = name.strip_prefix(metric.name);
        match metric.kind {
            MetricKind::Counter => suffix == Some("_total"),
            MetricKind::Gauge => suffix == Some(""),
            MetricKind::Info => suffix == Some("_info"),
            MetricKind::Histogram => matches!(suffix, Some("_bucket" | "_sum" | "_count")),
        }
    })
}

/// The labels whose values an operator chooses.
const CONFIGURED: [&str; 7] = [
    "access",
    "disk",
    "hook",
    "origin",
    "profile",
    "source",
    "subscription",
];

/// The crates whose words others use for labels.
const SHARED: [&str; 2] = ["access", "plan"];

/// The code of each crate without its tests: in that of a metric each value of its labels is written.
static CODE: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let one = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        (name, code_under(entry.path().join("src")))
    };
    let crates = std::fs::read_dir(crates).expect("a folder");
    crates.map(one).collect()
});

fn code_under(folder: PathBuf) -> String {
    let (mut text, mut folders) = (String::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.extension() {
                _ if path.file_stem().is_some_and(|stem| stem == "tests") => {}
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "rs" => {
                    let file = std::fs::read_to_string(path).expect("a file");
                    // A test that is written into the file is at its end.
                    text.push_str(file.split("mod tests {").next().unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    text
}

/// Returns whether a crate that counts in a metric, or shares its words, writes a value of a label.
fn is_written(metric: &Metric, value: &str) -> bool {
    let declared = format!("(\"{}\"", metric.name);
    let mut lines = CODE["telemetry"].lines();
    let line = lines.find(|line| line.contains(&declared));
    let constant = line.and_then(|line| line.trim().split(' ').next());
    let constant = format!("names::{}", constant.expect("its name"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let counts = |code: &str| {
        let mut uses = code.match_indices(&constant);
        uses.any(|(at, _)| !code[at + constant.len()..].starts_with(is_name))
    };
    let value = format!("\"{value}\"");
    CODE.iter().any(|(name, code)| {
        let is_of_metric = SHARED.contains(&name.as_str()) || counts(code);
        is_of_metric && code.contains(&value)
    })
}

/// Returns the values that a label is compared with, but patterns: `result=~"hit|stale"` has two.
fn values(pair: &str) -> Vec<&str> {
    let quoted = pair.split('"').nth(1).unwrap_or_default();
    let is_plain = |value: &&str| {
        !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    quoted.split('|').filter(is_plain).collect()
}

/// Checks every metric in a text, and the labels that it is selected by. Returns their number.
fn check(file: &str, text: &str) -> usize {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = 0;
    for (at, _) in text.match_indices(PREFIX) {
        if text[..at].ends_with(is_name) {
            continue;
        }
        let end = text[at..].find(|c| !is_name(c)).unwrap_or(text.len() - at);
        let name = &text[at..at + end];
        if !name.starts_with("tidegate_") {
            continue;
        }
        let metric = metric(name).unwrap_or_else(|| panic!("{file}: no metric {name}"));
        found += 1;
        let rest = &text[at + end..];
        let labels = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        for pair in labels.map_or("", |(labels, _)| labels).split(',') {
            let label = pair.trim().split(['=', '!']).next().unwrap_or_default();
            if ["", "job", "instance", "le"].contains(&label) {
                continue;
            }
            assert!(
                metric.labels.contains(&label),
                "{file}: {name} has no {label}"
            );
            let is_of_operator = CONFIGURED.contains(&label);
            for value in values(pair).into_iter().filter(|_| !is_of_operator) {
                let is_written = is_written(metric, value);
                assert!(is_written, "{file}: no {label} of {name} is {value:?}");
            }
        }
    }
    found
}

/// A word of another metric is none of this one.
#[test]
fn a_value_is_one_of_its_own_metric() {
    let metric = |name| metric(name).expect("it is declared");
    for (name, value, is_of_it) in [
        ("tidegate_fuse_operations_total", "failed", true),
        ("tidegate_fuse_operations_total", "throttled", false),
        ("tidegate_http_access_refused_total", "token", true),
        ("tidegate_store_disk_state", "slow", true),
        ("tidegate_store_disk_state", "revalidated", false),
        // Only a test of its crate has this word.
        ("tidegate_origin_requests_total", "gone", false),
    ] {
        assert_eq!(is_written(metric(name), value), is_of_it, "{name}, {value}");
    }
}

#[test]
fn every_metric_of_the_rules_and_the_dashboard_exists() {
    for file in ["prometheus/rules.yaml", "prometheus/alerts.yaml"] {
        assert!(check(file, &read(file)) > 10, "{file}");
    }
    for file in rule_tests() {
        assert!(check(&file, &read(&file)) > 0, "{file}");
    }
    let file = "grafana/tidegate.json";
    // Its queries are JSON strings: quotes of labels are escaped in the text.
    let text = read(file).replace("\\\"", "\"");
    assert!(check(file, &text) > 80, "{file}");
}

/// Returns the words of a list of the console.
fn console_words(list: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/console/src/figures.rs");
    let code = std::fs::read_to_string(path).expect("the console");
    let (_, words) = code
        .split_once(&format!("const {list}:"))
        .expect("the list");
    let (words, _) = words.split_once("];").expect("its end");
    let words = words.split('"').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

/// The console and the rules count the same results of requests to the bucket as failures.
#[test]
fn the_rules_and_the_console_mean_the_same_by_a_failure() {
    let console = console_words("FAILURES");
    let rules = read("prometheus/rules.yaml");
    let query = rules.split_once("tidegate:origin_errors:").expect("it").1;
    let (_, results) = query.split_once("result=~\"").expect("results");
    let results = results.split('"').next().unwrap_or_default();
    let recorded: BTreeSet<_> = results.split('|').map(str::to_owned).collect();
    assert_eq!(recorded, console);
    assert!(recorded.len() > 10, "{recorded:?}");
}

/// The console, the rules, the alerts and the dashboard count the bytes of the same causes as fetched for readers.
#[test]
fn all_mean_the_same_by_bytes_that_are_fetched_for_readers() {
    let console = console_words("READERS");
    assert!(console.len() > 3, "{console:?}");
    for (file, uses) in [
        ("prometheus/rules.yaml", 1),
        ("prometheus/alerts.yaml", 1),
        ("grafana/tidegate.json", 2),
    ] {
        let text = read(file).replace("\\\"", "\"");
        let labels = text.split("origin_received_bytes_total{").skip(1);
        let labels = labels.filter_map(|rest| rest.split('}').next());
        let causes: Vec<_> = labels
            .filter_map(|labels| labels.split_once("cause"))
            .map(|(_, causes)| causes)
            .collect();
        assert_eq!(causes.len(), uses, "{file}");
        for causes in causes {
            let list = causes.strip_prefix("=~\"").expect("a list of causes");
            let list = list.split('"').next().unwrap_or_default();
            let list: BTreeSet<_> = list.split('|').map(str::to_owned).collect();
            assert_eq!(list, console, "{file}");
        }
    }
}

#[test]
fn alerts_use_recorded_series_that_are_recorded() {
    let rules = read("prometheus/rules.yaml");
    let recorded: BTreeSet<_> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- record: "))
        .collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let alerts = read("prometheus/alerts.yaml");
    let mut used = 0;
    for text in [&rules, &alerts] {
        for (at, _) in text.match_indices("tidegate:") {
            let end = text[at..].find(|c| !is_name(c)).unwrap_or(text.len() - at);
            let name = &text[at..at + end];
            assert!(recorded.contains(name), "{name} is not recorded");
            used += 1;
        }
    }
    assert!(used > recorded.len());
}

#[test]
fn each_alert_has_its_runbook_line_and_its_tests() {
    let alerts = read("prometheus/alerts.yaml");
    let alerts: Vec<_> = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    let runbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/OPERATIONS.md");
    let runbook = std::fs::read_to_string(runbook).expect("the runbook");
    let tests: String = rule_tests().iter().map(|file| read(file)).collect();
    for alert in &alerts {
        let rows = runbook.matches(&format!("| `{alert}` |")).count();
        assert_eq!(rows, 1, "OPERATIONS.md has one line for {alert}");
        let silent = format!("alertname: {alert}, exp_alerts: []");
        assert!(tests.contains(&silent), "{alert} is silent at first");
        let fires = format!("alertname: {alert}\n        exp_alerts:\n          - exp_labels");
        assert!(tests.contains(&fires), "{alert} fires");
    }
    let rows = runbook.matches("| `Tidegate").count();
    assert_eq!(rows, alerts.len(), "a line for an alert that is gone");
}

#[test]
fn the_dashboard_has_its_rows_and_each_panel_says_what_it_shows() {
    let dashboard: Value = serde_json::from_str(&read("grafana/tidegate.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let titles: Vec<_> = panels
        .iter()
        .filter(|panel| panel["type"] == "row")
        .map(|panel| panel["title"].as_str().expect("a title"))
        .collect();
    let rows = [
        "Overview",
        "Readers",
        "Tiers",
        "Bucket and cost",
        "Writes",
        "Events and fleet",
        "Process",
    ];
    assert_eq!(titles, rows);
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        let about = panel["description"].as_str().expect("a description");
        assert!(about.ends_with('.'), "{about}");
        for target in panel["targets"].as_array().expect("queries") {
            let query = target["expr"].as_str().expect("a query");
            assert!(
                query.contains("$instance"),
                "{query}: for the chosen gateways"
            );
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{query}");
        }
    }
}
