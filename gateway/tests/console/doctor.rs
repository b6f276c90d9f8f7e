//! The doctor of the page: it measures a running gateway, judges it, and its suggestions are settings that can be saved.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::admission::log_in_at;
use super::document::{check, of_the_code};
use super::serving::Serving;
use super::{AUTH, World, api_at, ask, configuration, page_at, post_to, sample, send};

/// Timeout of the measurements, which take some 20 s on a machine that is not busy.
const MEASURED: Duration = Duration::from_secs(300);

/// The rate of a client that is faster than this machine, in bytes a second.
const CLIENT: &str = "1000000000000";

/// The state of the last run.
async fn state(serving: &Serving) -> Value {
    api_at(serving.admin, "/api/v1/doctor").await
}

/// Waits for a state of the run.
async fn state_with(serving: &Serving, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let wanted = async {
        loop {
            let now = state(serving).await;
            if is_wanted(&now) {
                return now;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(MEASURED, wanted).await.expect("in time")
}

async fn reload_with_another_budget(serving: &Serving) {
    let text = std::fs::read_to_string(serving.config()).expect("written");
    let other = text.replace("budget = \"4MiB\"", "budget = \"8MiB\"");
    assert_ne!(text, other);
    std::fs::write(serving.config(), other).expect("written");
    let got = ask(serving.admin, Method::POST, "/reload", &[AUTH]).await;
    assert_eq!(got.status, 200, "{}", got.text());
}

/// Returns what the run suggests for a key.
fn suggestion<'a>(result: &'a Value, key: &str) -> &'a Value {
    let suggested = result["verdict"]["suggestions"].as_array();
    let found = suggested.and_then(|all| all.iter().find(|one| one["key"] == key));
    found.unwrap_or_else(|| panic!("nothing for {key}: {result}"))
}

async fn page(serving: &Serving, cookie: &str) -> String {
    page_at(serving.admin, "/console/doctor", cookie).await
}

/// Returns a gateway whose budget is too small for any bucket, with an object to measure.
async fn start(world: &World) -> Serving {
    world.put("measured.bin", &sample(4 << 20, 1)).await;
    let small = "[cache]\nbudget = \"4MiB\"";
    let config = configuration(world).replace("[cache]", small);
    let mut serving = Serving::configured(&config);
    serving.start().await;
    serving
}

#[tokio::test(flavor = "multi_thread")]
async fn it_measures_and_its_suggestions_are_saved() {
    let world = World::new().await;
    let mut serving = start(&world).await;
    let (cookie, csrf) = log_in_at(serving.admin).await;
    let order = |fields: &str| format!("csrf={csrf}&{fields}");
    let path = "/console/doctor";
    assert!(!page(&serving, &cookie).await.contains("What to set"));
    let begin = order(&format!("objects=%2Fmeasured.bin&client={CLIENT}"));
    let got = post_to(serving.admin, path, &cookie, &begin).await;
    assert_eq!(got.status, 303, "{}", got.text());
    assert!(page(&serving, &cookie).await.contains("It measures"));
    let json_type = ("content-type", "application/json");
    let headers = [AUTH, json_type];
    let again = send(
        serving.admin,
        Method::POST,
        "/api/v1/doctor",
        &headers,
        "{}",
    );
    assert_eq!(again.await.status, 409, "one at a time");
    state_with(&serving, |now| now["lines"] != json!([])).await;
    reload_with_another_budget(&serving).await;
    let result = state_with(&serving, |now| now["running"] == json!(false)).await;
    judges(&result);
    let received = async |cause: &str| {
        let cause = format!("cause=\"{cause}\"");
        serving
            .metric(&["origin_received_bytes_total{", &cause])
            .await
    };
    assert!(received("probe").await > 0, "what no reader takes");
    assert_eq!(received("demand").await, 0);
    let budget = suggestion(&result, "cache.budget");
    assert_eq!(budget["present"], "4MiB", "as it was measured");
    let text = page(&serving, &cookie).await;
    let narrow = result["verdict"]["narrowest"].as_str().expect("a stage");
    assert!(
        text.contains(&format!("The narrow one: {narrow}")),
        "{text}"
    );
    assert!(text.contains("value=\"cache.budget\""), "{text}");
    for words in [
        "fficiency",
        "One connection to media",
        "network to media (lo): ",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
    is_applied(&serving, &cookie, &order("apply=cache.budget"), &result).await;
    let path = "/api/v1/doctor";
    let got = send(serving.admin, Method::POST, path, &headers, "{}").await;
    assert_eq!(got.status, 202, "{}", got.text());
    check(&of_the_code(), ("post", path, 202), &got.body);
    serving.end().await;
}

/// Checks that each part was measured, and what follows from it.
fn judges(result: &Value) {
    assert_eq!(result["error"], Value::Null, "{result}");
    assert!(
        result["lines"]
            .as_array()
            .is_some_and(|lines| lines.len() >= 5)
    );
    let verdict = &result["verdict"];
    let stages = verdict["stages"].as_array().expect("stages");
    let names: Vec<_> = stages
        .iter()
        .map(|one| one["stage"].as_str().expect("a name"))
        .collect();
    let expected = [
        "bucket of media",
        "network to media (lo)",
        "disk ",
        "memory",
        "client: ",
    ];
    assert_eq!(names.len(), expected.len(), "{names:?}");
    for (name, expected) in names.iter().zip(expected) {
        assert!(name.starts_with(expected), "{names:?}");
    }
    assert_eq!(stages[4]["rate"].to_string().parse(), CLIENT.parse::<f64>());
    assert_eq!(verdict["not_measured"], json!([]), "{verdict}");
    assert!(stages.iter().all(|one| one["rate"].as_f64() > Some(0.0)));
    let slowest = stages
        .iter()
        .min_by(|a, b| {
            a["rate"]
                .as_f64()
                .partial_cmp(&b["rate"].as_f64())
                .expect("numbers")
        })
        .expect("stages");
    // The bucket is measured through the network: if it takes all of that, the network is the narrow one.
    let is_bucket = slowest["stage"] == stages[0]["stage"];
    let network = &stages[1]["stage"];
    assert!(
        verdict["narrowest"] == slowest["stage"] || is_bucket && verdict["narrowest"] == *network,
        "{verdict}"
    );
    assert_eq!(verdict["buckets_rate"], stages[0]["rate"], "{verdict}");
    let connections = &verdict["connections"][0];
    assert_eq!(connections["best"], stages[0]["rate"], "{verdict}");
    assert!(connections["one"].as_f64() > Some(0.0), "{verdict}");
    assert!(
        verdict["report"]
            .as_str()
            .is_some_and(|text| text.starts_with("Measured"))
    );
}

/// Applies a suggestion: first where it cannot be saved, and then where it can.
async fn is_applied(serving: &Serving, cookie: &str, form: &str, result: &Value) {
    let path = "/console/doctor";
    let right = std::fs::read_to_string(serving.config()).expect("written");
    std::fs::write(serving.config(), format!("{right}[nonsense]\n")).expect("written");
    let got = post_to(serving.admin, path, cookie, form).await;
    assert_eq!(got.status, 303, "{}", got.text());
    let text = page(serving, cookie).await;
    assert!(
        text.contains("there is no such key"),
        "its error is shown: {text}"
    );
    assert!(
        text.contains("value=\"cache.budget\""),
        "it can be tried again"
    );
    std::fs::write(serving.config(), right).expect("written");
    post_to(serving.admin, path, cookie, form).await;
    let text = page(serving, cookie).await;
    assert!(text.contains("In force now: cache.budget"), "{text}");
    assert!(!text.contains("value=\"cache.budget\""), "it is saved");
    let value = suggestion(result, "cache.budget")["value"].as_str();
    let kept = api_at(serving.admin, "/overrides").await;
    assert_eq!(kept, json!({ "overridden": ["cache.budget"] }));
    let settings = api_at(serving.admin, "/api/v1/settings").await;
    let all = settings["settings"].as_array().expect("a list");
    let shown = all.iter().find(|one| one["key"] == "cache.budget");
    let shown = shown.expect("the key");
    assert_eq!(shown["source"], "override", "{shown}");
    assert_eq!(shown["value"].as_str(), value, "{shown}");
    let unknown = form.replace("apply=cache.budget", "apply=admin.token");
    post_to(serving.admin, path, cookie, &unknown).await;
    assert!(
        page(serving, cookie)
            .await
            .contains("suggests nothing for this key")
    );
}

/// The bytes that a browser measures itself with: for a session, and one measurement at a time.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_is_sent_bytes_to_measure_itself() {
    let world = World::new().await;
    let mut serving = start(&world).await;
    let path = "/console/doctor/bytes";
    let (cookie, _) = log_in_at(serving.admin).await;
    let text = page(&serving, &cookie).await;
    assert!(text.contains(&format!("data-measure=\"{path}\"")), "{text}");
    let got = ask(serving.admin, Method::GET, path, &[]).await;
    assert_eq!(got.status, 303, "it has to log in");
    let got = ask(serving.admin, Method::GET, path, &[("cookie", &cookie)]).await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert!(got.body.len() >= 256 << 10, "{}", got.body.len());
    assert_eq!(got.header("cache-control"), "no-store");
    serving.end().await;
}
