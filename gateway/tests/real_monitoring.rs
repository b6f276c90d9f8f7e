//! A real Prometheus: it takes the rules and tests every alert, scrapes two running gateways under load, and answers every
//! query of the dashboard with data.
#![cfg(feature = "real-parts")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use http::Method;
use loadtest::client::Connection;
use loadtest::pattern::Pattern;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

#[path = "tls/authority.rs"]
#[expect(dead_code, reason = "other suites have clients that verify it")]
mod authority;
#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites delete and keep versions as well")]
mod bucket;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites run it in their own process")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[path = "support/nats.rs"]
mod nats;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/process.rs"]
mod process;
#[path = "hooks/receiver.rs"]
#[expect(dead_code, reason = "other suites read the requests")]
mod receiver;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites kill it")]
mod serving;

use authority::Authority;
use bucket::Bucket;
use gateway::{ask, send};
use minio::{Minio, SECRET, USER};
use mount::{Folder, TOKEN, blocking};
use nats::Nats;
use ports::free_addr;
use process::Process;
use receiver::{Manner, Receiver};
use serving::Serving;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

const MIB: usize = 1 << 20;

/// The object that clients of the load test read at once, and the reads of each.
const PATTERN: Pattern = Pattern {
    seed: 7,
    len: 3 * MIB as u64,
};
const CLIENTS: usize = 8;
const READS: usize = 4;

fn config() -> PathBuf {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    config.canonicalize().expect("it is there")
}

fn promtool(words: &[&str], files: &[PathBuf]) {
    let mut command = Command::new("promtool");
    command.args(words).args(files);
    let output = command
        .output()
        .expect("Debian's `prometheus` is installed");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

#[test]
fn the_rules_are_valid_and_each_alert_fires_when_it_should() {
    let rules = config().join("prometheus");
    let both = ["rules.yaml", "alerts.yaml"].map(|file| rules.join(file));
    promtool(&["check", "rules"], &both);
    let tests = std::fs::read_dir(rules.join("tests")).expect("a folder");
    let tests: Vec<_> = tests.map(|file| file.expect("a file").path()).collect();
    assert!(tests.len() >= 6, "{tests:?}");
    promtool(&["test", "rules"], &tests);
}

/// Two gateways of a fleet on one bucket, the first with everything that the dashboard shows, and a Prometheus.
struct World {
    gateways: Vec<Serving>,
    prometheus: SocketAddr,
    mount: Folder,
    bucket: Bucket,
    _scraper: Process,
    _receiver: Receiver,
    _nats: Nats,
    _minio: Minio,
    _folder: TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let minio = Minio::start().await;
        let bucket = Bucket::create(&minio.settings("media")).await;
        let nats_address = free_addr();
        let nats = Nats::start(nats_address, &folder.path().join("nats"), &[]).await;
        let receiver = Receiver::start(Manner::Ok).await;
        let mount = Folder::new();
        let common = common(&minio, nats_address, receiver.address);
        let rich = rich(folder.path(), &mount);
        let mut gateways = Vec::new();
        for (toml, has_tls) in [(format!("{common}{rich}"), true), (common, false)] {
            let mut gateway = Serving::configured(&toml);
            if has_tls {
                let (plain, tls) = (gateway.http, free_addr());
                gateway.listen_on(&format!(
                    "[\"{plain}\", {{ address = \"{tls}\", tls = true }}]"
                ));
            }
            gateway.start().await;
            gateways.push(gateway);
        }
        let prometheus = free_addr();
        let admins = Vec::from_iter(gateways.iter().map(|gateway| gateway.admin));
        Self {
            _scraper: scrape(folder.path(), prometheus, &admins),
            gateways,
            prometheus,
            mount,
            bucket,
            _receiver: receiver,
            _nats: nats,
            _minio: minio,
            _folder: folder,
        }
    }

    /// Reads with clients of the load test at once, which check each byte.
    async fn read_at_once(&self) {
        let address = self.gateways[0].http;
        let reads = (0..CLIENTS).map(|_| async move {
            let mut client = Connection::open(address).await?;
            for _ in 0..READS {
                client.verify("/patterned.bin", PATTERN).await?;
            }
            anyhow::Ok(())
        });
        let read = futures_util::future::try_join_all(reads).await;
        read.expect("each byte is right");
    }

    /// Reads and writes in every way that the dashboard shows: a bounded amount.
    async fn load(&self, round: usize) {
        self.read_at_once().await;
        let gateway = &self.gateways[0];
        let name = |number: usize| format!("films/{}.bin", (round * 4 + number) % 12);
        for number in 0..4 {
            let path = format!("/{}", name(number));
            for _ in 0..2 {
                assert_eq!(gateway.get(&path).await.status, 200, "{path}");
            }
            let range = [("range", "bytes=1000000-1999999")];
            let part = ask(gateway.http, Method::GET, &path, &range).await;
            assert_eq!(part.status, 206, "{path}");
        }
        assert_eq!(gateway.get("/missing").await.status, 404);
        assert_eq!(gateway.get("/private/a").await.status, 401);
        let bearer = format!("Bearer {TOKEN}");
        let (headers, body) = ([("authorization", &*bearer)], format!("round {round}"));
        let written = send(gateway.http, Method::PUT, "/written", &headers, &body);
        assert!((200..300).contains(&written.await.status));
        let (from, to) = (
            self.mount.path().join(name(0)),
            self.mount.path().join("copy"),
        );
        let copied = blocking(move || std::fs::copy(from, to)).await;
        assert_eq!(copied.expect("copied"), 2 * MIB as u64);
        self.report(round).await;
    }

    /// Reports a change as the bucket would.
    async fn report(&self, round: usize) {
        let record = format!(
            r#"{{"Records":[{{"eventName":"s3:ObjectCreated:Put","eventTime":"{}","s3":{{"bucket":{{"name":"media"}},"object":{{"key":"written","eTag":"e{round}","sequencer":"{round:08}"}}}}}}]}}"#,
            rfc3339(SystemTime::now()),
        );
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str())];
        let admin = self.gateways[0].admin;
        let told = send(admin, Method::POST, "/events/bucket", &headers, &record).await;
        assert_eq!(told.status, 200, "{}", told.text());
    }

    /// Returns the samples that a query yields now, but those that are no number.
    async fn query(&self, query: &str) -> Vec<Value> {
        let query = query
            .replace("$__rate_interval", "10s")
            .replace("$instance", ".*");
        let encoded = utf8_percent_encode(&query, NON_ALPHANUMERIC);
        let path = format!("/api/v1/query?query={encoded}");
        let answer = ask(self.prometheus, Method::GET, &path, &[]).await;
        let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let samples = answer["data"]["result"].as_array().expect("samples");
        let is_number = |sample: &&Value| {
            let value = sample["value"][1]
                .as_str()
                .and_then(|text| text.parse::<f64>().ok());
            value.is_some_and(f64::is_finite)
        };
        samples.iter().filter(is_number).cloned().collect()
    }
}

/// Returns the time as events of buckets have it.
fn rfc3339(time: SystemTime) -> String {
    // RFC 1123 has the same fields: `Thu, 26 Nov 2026 08:00:00 GMT`.
    let text = httpdate::fmt_http_date(time);
    let [_, day, month, year, clock, _] = Vec::from_iter(text.split(' '))[..] else {
        panic!("{text}")
    };
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = 1 + months.iter().position(|it| *it == month).expect("a month");
    format!("{year}-{month:02}-{day}T{clock}Z")
}

/// Returns what both gateways have in common; one of them calls the hook.
fn common(minio: &Minio, nats: SocketAddr, hook: SocketAddr) -> String {
    let endpoint = minio.settings("media").endpoint.expect("MinIO's");
    format!(
        "[admin]\ntoken = \"{TOKEN}\"\n[fleet]\nnats = [\"nats://{nats}\"]\n\
         [[origin]]\nname = \"media\"\nbucket = \"media\"\npath_style = true\nendpoint = \"{endpoint}\"\n\
         access_key_id = \"{USER}\"\nsecret_access_key = \"{SECRET}\"\n\
         [[hook]]\nname = \"scan\"\norigin = \"media\"\nurl = \"http://{hook}/scan\"\ndebounce = \"100ms\"\n"
    )
}

/// Returns what the first gateway has beyond that. Memory is so small that chunks are evicted all the time.
fn rich(folder: &Path, mount: &Folder) -> String {
    Authority::new().write(folder, "gate", &["localhost"]);
    let at = |name: &str| folder.join(name).display().to_string();
    format!(
        "[cache]\nmemory = \"4MiB\"\n{}[spool]\npath = \"{}\"\nsize = \"1GiB\"\n\
         [[tls.certificates]]\ncertificate = \"{}\"\nkey = {{ file = \"{}\" }}\n\
         [[route]]\npath = \"/\"\norigin = \"media\"\nprofile = \"stream\"\nwritable = true\n\
         write_token = \"{TOKEN}\"\n\
         [[route]]\npath = \"/private/\"\norigin = \"media\"\naccess = \"members\"\n\
         [access.members]\ntokens = {{ alice = \"{TOKEN}\" }}\n\
         [[events]]\nname = \"bucket\"\norigin = \"media\"\ntoken = \"{TOKEN}\"\n\
         [[events]]\nname = \"proven\"\norigin = \"media\"\ntoken = \"{TOKEN}\"\n\
         heartbeat = {{ prefix = \".tidegate/\", every = \"10s\" }}\n\
         [[mount]]\npath = \"{}\"\nwritable = true\n",
        serving::disk(&folder.join("disk")),
        at("spool"),
        at("gate.pem"),
        at("gate.key"),
        mount.path().display(),
    )
}

/// Starts a Prometheus that scrapes these addresses each second, with the rules.
fn scrape(folder: &Path, address: SocketAddr, admins: &[SocketAddr]) -> Process {
    let targets = Vec::from_iter(admins.iter().map(|admin| format!("\"{admin}\""))).join(", ");
    let rules = config().join("prometheus").display().to_string();
    let text = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [\"{rules}/rules.yaml\", \"{rules}/alerts.yaml\"]\n\
         scrape_configs:\n  - job_name: tidegate\n    static_configs: [{{ targets: [{targets}] }}]\n"
    );
    let file = folder.join("prometheus.yaml");
    std::fs::write(&file, text).expect("written");
    promtool(&["check", "config"], std::slice::from_ref(&file));
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("series").display()
        ))
        .arg(format!("--web.listen-address={address}"));
    Process::start(command, &folder.join("prometheus.log"), address)
}

/// Returns the queries of the dashboard, each with the title of its panel.
fn queries() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(config().join("grafana/tidegate.json"));
    let dashboard: Value = serde_json::from_str(&text.expect("the dashboard")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let of_panel = |panel: &Value| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let query = move |target: Value| {
            let query = target["expr"].as_str().expect("a query");
            // The metric itself has data too.
            (title.clone(), query.replace(" or vector(0)", ""))
        };
        targets.into_iter().map(query)
    };
    panels.flat_map(of_panel).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_the_dashboard_answers_with_data() {
    let world = World::new().await;
    for number in 0..12 {
        let key = format!("films/{number}.bin");
        world.bucket.put(&key, vec![number; 2 * MIB]).await;
    }
    world.bucket.put("patterned.bin", PATTERN.all()).await;
    let mut silent = queries();
    assert!(silent.len() > 80, "{}", silent.len());
    let waited = "tidegate:reader_wait_seconds:rate5m > 0";
    silent.push(("readers waited for the bucket".into(), waited.into()));
    let begun = Instant::now();
    for round in 0.. {
        world.load(round).await;
        let mut left = Vec::new();
        for (title, query) in silent {
            if world.query(&query).await.is_empty() {
                left.push((title, query));
            }
        }
        silent = left;
        if silent.is_empty() {
            break;
        }
        assert!(begun.elapsed() < LONG, "without data: {silent:#?}");
        sleep(Duration::from_millis(200)).await;
    }

    // Without a heartbeat nothing tells whether events arrive: there is nothing that an alert could fire for.
    for (subscription, shown) in [("proven", 1), ("bucket", 0)] {
        let alive = format!("tidegate_bucket_events_alive{{subscription=\"{subscription}\"}}");
        assert_eq!(world.query(&alive).await.len(), shown, "{subscription}");
    }

    let rules = ask(world.prometheus, Method::GET, "/api/v1/rules", &[]).await;
    let rules: Value = serde_json::from_slice(&rules.body).expect("JSON");
    let groups = rules["data"]["groups"].as_array().expect("groups");
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().expect("rules"));
    let mut seen = 0;
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
        seen += 1;
    }
    assert!(seen > 40, "{seen}");
}
