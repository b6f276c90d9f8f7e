//! From the configuration to the rules: what it says of accesses and limits holds in a real gateway.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::gateway::Whole;
use super::server::{Server, answer};
use super::world::{World, sample};

mod issuer;
mod rows;

use issuer::Issuer;
use rows::{ADMISSION, NO_ROUTE, Parties, Probe, Row, path_of};

/// Bytes of the object that each route has, `o`.
const SIZE: usize = 1000;

/// Bytes of the object `large`.
const LARGE: usize = 300_000;

/// The keys without a row, and the tests that they have in place of one.
const OTHERS: [(&str, &str); 7] = [
    ("access.clients", "tls::a_client_s_certificate_is_a_way_in"),
    (
        "access.jwt.refresh",
        "accesses::a_source_of_keys_stays_while_its_place_does",
    ),
    (
        "access.auth_request.url",
        "as_many_answers_are_kept_as_the_table_says",
    ),
    (
        "access.auth_request.entries",
        "as_many_answers_are_kept_as_the_table_says",
    ),
    (
        "access.auth_request.timeout",
        "a_server_has_the_time_that_its_table_says",
    ),
    ("limits.bytes", "bytes_wait"),
    ("limits.connections", "an_answer_under_way_holds_its_place"),
];

/// Starts a gateway with these tables, which takes the word of a proxy on this machine for its clients' addresses.
async fn start(tables: &str) -> (World, Whole) {
    let world = World::new().await;
    world.put("o", &sample(SIZE, 1)).await;
    world.put("large", &sample(LARGE, 2)).await;
    let http = "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let config = format!("{}{http}{tables}", world.config("ttl = \"1h\""));
    let gateway = Whole::start(&config).await;
    gateway.ready().await;
    (world, gateway)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_of_an_access_and_of_limits_is_handed_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let issuer = Issuer::new();
    let keys_file = folder.path().join("jwks.json");
    std::fs::write(&keys_file, issuer.key_set()).expect("written");
    let key_set = answer("200 OK", &issuer.key_set());
    let keys = Server::start(move |_| key_set.clone()).await;
    let desk = Server::start(|head| match head.contains("session=good") {
        true => answer("204 Here", ""),
        false => answer("403 Forbidden", ""),
    })
    .await;
    let parties = Parties {
        issuer,
        keys_file: keys_file.to_str().expect("text").to_owned(),
        keys_url: keys.url("/keys"),
        auth_url: desk.url("/auth"),
    };
    let rows = parties.rows();
    each_key_is_tested(&rows);
    let tables: String = rows.iter().map(Row::tables).collect();
    let (_world, gateway) = start(&tables).await;
    let mut wrong = Vec::new();
    for Row { key, probes, .. } in &rows {
        for (nth, probe) in probes.iter().enumerate() {
            let found = outcome(&gateway, &path_of(key), probe).await;
            if found != probe.outcome {
                wrong.push(format!("{key}[{nth}]: {found}, not {}", probe.outcome));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    gateway.stop().await;
}

/// Sends a request, and returns its outcome in the words of a row.
async fn outcome(gateway: &Whole, path: &str, probe: &Probe) -> String {
    let headers = probe.headers.iter();
    let headers: Vec<_> = headers.map(|(name, value)| (*name, &**value)).collect();
    let path = format!("{path}{}", probe.target);
    let got = gateway.get(&path, &headers).await;
    let status = got.header("cache-status");
    match (got.status, status.strip_prefix("tidegate; detail=")) {
        (200, None) if got.body == sample(SIZE, 1) => ADMISSION.to_owned(),
        (404, None) if status.is_empty() => NO_ROUTE.to_owned(),
        (401 | 403 | 429, Some(detail)) => detail.to_owned(),
        (code, _) => format!("{code} {status}"),
    }
}

/// Checks that the tables have no key without a row or a test of its own.
fn each_key_is_tested(rows: &[Row]) {
    let schema = tidegate_config::json_schema();
    let mut keys = BTreeSet::new();
    for section in ["access", "limits"] {
        let table = &schema["properties"][section]["additionalProperties"];
        find_keys(table, section, &mut keys);
    }
    assert!(keys.contains("access.jwt.issuer"), "{keys:?}");
    let others = OTHERS.map(|(key, _)| key);
    let is_row = |key: &String| {
        let form = format!("{key}.");
        let is_of = |row: &Row| row.key == key || row.key.starts_with(&form);
        rows.iter().any(is_of) || others.contains(&&**key)
    };
    let untested: Vec<_> = keys.iter().filter(|key| !is_row(key)).collect();
    assert!(untested.is_empty(), "without a test: {untested:?}");
}

/// Adds the keys of a table in a schema, with those of the tables in it.
fn find_keys(schema: &Value, path: &str, keys: &mut BTreeSet<String>) {
    let itself = std::slice::from_ref(schema);
    let forms = schema["anyOf"].as_array().map_or(itself, Vec::as_slice);
    let table = forms.iter().find_map(|form| form["properties"].as_object());
    match table {
        None => {
            keys.insert(path.to_owned());
        }
        Some(table) => {
            for (key, schema) in table {
                find_keys(schema, &format!("{path}.{key}"), keys);
            }
        }
    }
}

/// Starts a gateway with routes that ask this server by a table with these further keys.
async fn asking<const N: usize>(desk: &Server, routes: [(&str, &str); N]) -> (World, Whole) {
    let url = desk.url("/auth");
    let tables = routes.map(|(name, more)| {
        format!(
            "[[route]]\norigin = \"media\"\npath = \"/{name}/\"\naccess = \"{name}\"\n\
             [access.{name}]\nauth_request = {{ url = \"{url}\", {more} }}\n"
        )
    });
    start(&tables.concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_answers_are_kept_as_the_table_says() {
    let desk = Server::start(|_| answer("204 Here\r\ncache-control: max-age=3600", "")).await;
    let routes = [("one", "entries = 1"), ("none", "entries = 0")];
    let (_world, gateway) = asking(&desk, routes).await;
    for (path, expected) in [("/one/o", 1), ("/none/o", 3)] {
        let before = desk.asked();
        for _ in 0..3 {
            assert_eq!(gateway.get(path, &[]).await.status, 200);
        }
        assert_eq!(desk.asked() - before, expected, "{path}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_has_the_time_that_its_table_says() {
    let desk = Server::start(|_| answer("204 Here", "")).await;
    let routes = [
        ("patient", "timeout = \"60s\""),
        ("hurried", "timeout = \"50ms\""),
    ];
    let (_world, gateway) = asking(&desk, routes).await;
    desk.hold();
    let patient = gateway.get("/patient/o", &[]);
    let hurried = async {
        desk.until_asked(1).await;
        // It is the second to ask, and gives up while the first still waits.
        let got = gateway.get("/hurried/o", &[]).await;
        desk.release();
        got
    };
    let (patient, hurried) = tokio::join!(patient, hurried);
    let status = hurried.header("cache-status");
    assert_eq!(hurried.status, 503);
    assert_eq!(status, "tidegate; detail=access-unanswered");
    assert_eq!(patient.status, 200, "{}", patient.header("cache-status"));
    gateway.stop().await;
}

/// Returns a route whose limits have this name and these lines.
fn limited(name: &str, lines: &str) -> String {
    format!(
        "[[route]]\norigin = \"media\"\npath = \"/{name}/\"\nlimits = \"{name}\"\n[limits.{name}]\n{lines}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_wait() {
    let (_world, gateway) = start(&limited("slow", "bytes = \"100KB/s\"")).await;
    let begun = Instant::now();
    let got = gateway.get("/slow/large", &[]).await;
    assert!(got.status == 200 && got.body == sample(LARGE, 2));
    // One second's bytes go at once.
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(1800), "{took:?}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_under_way_holds_its_place() {
    // The object takes minutes.
    let lines = "connections = 1\nbytes = \"1KB/s\"";
    let (_world, gateway) = start(&limited("narrow", lines)).await;
    let mut slow = TcpStream::connect(gateway.http).await.expect("listening");
    let head = b"GET /narrow/large HTTP/1.1\r\nhost: a\r\n\r\n";
    slow.write_all(head).await.expect("sent");
    slow.read_exact(&mut [0; 64]).await.expect("an answer");
    let first = ("range", "bytes=0-9");
    let got = gateway.get("/narrow/o", &[first]).await;
    let detail = got.header("cache-status");
    assert_eq!(detail, "tidegate; detail=limit-connections");
    assert_eq!(got.status, 429);
    let another = ("x-forwarded-for", "192.0.2.1");
    let got = gateway.get("/narrow/o", &[first, another]).await;
    assert_eq!(got.status, 206);
    drop(slow);
    gateway.stop().await;
}
