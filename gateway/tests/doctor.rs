//! `tidegate doctor` end to end, with short measurements: it measures, judges, prints settings that load, and leaves
//! nothing behind. `plan::diagnosis` tests the meaning of measurements.

use std::io::{self, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tidegate::doctor::{DoctorOptions, Origins, Progress, Report, run};
use tidegate::embedded::EmbeddedOrigin;
use tidegate_config::{Config, Environment, parse};
use tidegate_origin::Metrics;
use tidegate_origin::fake::FakeOrigin;
use tidegate_plan::ByteSize;
use tidegate_plan::diagnosis::{Rate, Stage};

const KEY: &str = "audio/a b.bin";

/// 0.8 Mbit/s.
const CLIENT: Rate = Rate(1e5);

/// Creates an origin with one object, and a configuration that leads to it.
async fn stage(folder: &Path) -> (EmbeddedOrigin, Config, Origins) {
    let embedded = EmbeddedOrigin::start(&folder.join("origin"))
        .await
        .expect("an origin");
    let body = Bytes::from(vec![7; 2 << 20]);
    let body = stream::iter([Ok::<_, io::Error>(body)]);
    let put = embedded.put(KEY, "application/octet-stream", body).await;
    put.expect("an object");

    let settings = embedded.settings("media");
    let connected = tidegate_origin::connect(&settings, &Metrics::default()).await;
    let origins = Origins::from([("media".to_owned(), connected.expect("a bucket"))]);
    let config = config(folder, &settings.endpoint.unwrap_or_default());
    (embedded, config, origins)
}

fn config(folder: &Path, endpoint: &str) -> Config {
    let text = format!(
        "[[cache.disk]]\npath = {:?}\ncapacity = \"1GiB\"\nmin_free = \"1MiB\"\n\
         [[origin]]\nname = \"media\"\nbucket = \"media\"\nendpoint = {endpoint:?}\n\
         [[route]]\npath = \"/books/\"\nkey_prefix = \"audio/\"\norigin = \"media\"\n",
        folder.join("cache")
    );
    let loaded = parse("t.toml", &text, &Environment::default());
    loaded.expect("it is right").config
}

fn options(objects: &[&str]) -> DoctorOptions {
    DoctorOptions {
        objects: objects.iter().map(|path| (*path).to_owned()).collect(),
        time: Duration::from_millis(20),
        scratch: ByteSize(4 << 20),
        ..DoctorOptions::default()
    }
}

/// The output of the run.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn examined(config: &Config, options: &DoctorOptions, origins: &Origins) -> (Report, String) {
    let said = Said::default();
    let mut progress = Progress::new(said.clone());
    let report = run(config, options, origins, &mut progress).await;
    let said = String::from_utf8(said.0.lock().expect("not poisoned").clone());
    (report.expect("it ran"), said.expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn measures_everything_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_embedded, config, origins) = stage(folder.path()).await;
    std::fs::create_dir(folder.path().join("cache")).expect("a folder");
    let mut options = options(&["/books/a%20b.bin"]);
    options.disks.push(folder.path().join("other"));
    // A client that is slower than any machine here.
    options.client = Some(CLIENT);
    let (report, said) = examined(&config, &options, &origins).await;

    assert_eq!(report.missing, Vec::<String>::new());
    let measured = &report.measurements;
    assert!(measured.memory.0 > 0.0);
    assert_eq!(measured.disks.len(), 2);
    for disk in &measured.disks {
        for rate in [disk.write, disk.read, disk.chunk_write, disk.chunk_read] {
            assert!(rate.0 > 0.0, "{disk:?}");
        }
        assert!(
            disk.capacity.0 > 0 && disk.chunk_time > Duration::ZERO,
            "{disk:?}"
        );
    }
    let origin = &measured.origins[0];
    assert!(origin.first_byte > Duration::ZERO);
    let connections: Vec<u32> = origin.rates.iter().map(|(n, _)| *n).collect();
    assert!(
        connections.starts_with(&[1, 2, 4]),
        "two steps tell that nothing grows"
    );
    assert!(origin.rates.iter().all(|(_, rate)| rate.0 > 0.0));

    let network = &measured.networks[0];
    assert_eq!((&*network.origin, &*network.interface), ("media", "lo"));
    assert!(network.rate > Some(Rate(0.0)) && network.round_trip > Duration::ZERO);
    assert_eq!(measured.client, Some(CLIENT));
    assert_eq!(report.not_measured(), Vec::<String>::new());
    assert_eq!(report.diagnosis.bottleneck, (Stage::Client, CLIENT));

    for step in [
        "network to \"media\": connecting … ",
        "memory: copying … ",
        "disk ",
        "origin \"media\": 1 connection … ",
    ] {
        assert!(said.contains(step), "{step}: {said}");
    }
    let text = report.to_string();
    assert!(
        text.contains("\n  network to \"media\": lo, a round trip takes "),
        "{text}"
    );
    assert!(text.contains("\n  client: takes 0.1 MB/s\n"), "{text}");
    let (_, toml) = text.split_once("\n# To set").expect("something to set");
    let loaded = parse(
        "t.toml",
        &format!("# To set{toml}"),
        &Environment::default(),
    );
    let loaded = loaded.expect("it is right").config;
    assert!(loaded.profile("measured").is_some());

    assert!(!folder.path().join("other").exists());
    let left = std::fs::read_dir(folder.path().join("cache")).expect("a folder");
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn without_an_object_it_says_what_is_missing_and_asks_for_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = FakeOrigin::new();
    let origins = Origins::from([("media".to_owned(), Arc::new(fake) as Arc<_>)]);
    let closed = TcpListener::bind(("127.0.0.1", 0)).and_then(|one| one.local_addr());
    let endpoint = format!("http://{}", closed.expect("an address"));
    let config = config(folder.path(), &endpoint);
    let (report, _) = examined(&config, &options(&[]), &origins).await;
    assert_eq!(report.measurements.origins, []);
    let missing = &report.missing;
    assert!(
        missing[0].starts_with("network to \"media\": "),
        "{missing:?}"
    );
    assert!(missing[1].contains("--object"), "{missing:?}");
    assert!(!report.lacks_named);
    assert_eq!(report.diagnosis.settings, None);
}

#[tokio::test]
async fn what_cannot_be_measured_is_named_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_embedded, mut config, origins) = stage(folder.path()).await;
    config.cache.disk[0].min_free = ByteSize(u64::MAX);
    let (report, said) = examined(&config, &options(&["/books/no"]), &origins).await;
    assert_eq!(report.measurements.disks, []);
    assert!(
        report.missing[0].contains("nearly full"),
        "{:?}",
        report.missing
    );
    assert!(
        report.missing[1].contains("no such key"),
        "{:?}",
        report.missing
    );
    assert!(report.lacks_named, "the object was named");
    assert!(!said.contains("writing"), "{said}");
    assert!(report.to_string().contains("not measured: disk"));
}

#[tokio::test]
async fn a_path_that_leads_nowhere_ends_it_before_it_begins() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path(), "http://127.0.0.1:9");
    for (path, why) in [
        ("books/a", "does not begin with `/`"),
        ("/films/a", "no route"),
        ("/books/../a", "names no object"),
    ] {
        let said = Said::default();
        let mut progress = Progress::new(said.clone());
        let ran = run(&config, &options(&[path]), &Origins::new(), &mut progress).await;
        let error = format!("{:#}", ran.expect_err(path));
        assert!(error.contains(why), "{error}");
        assert!(said.0.lock().expect("not poisoned").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_measured_where_it_would_be_made_and_on_no_disk_further_above() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_embedded, config, origins) = stage(folder.path()).await;
    let mut options = options(&[]);
    let [made, mistyped] = ["other", "wrong/other"].map(|path| folder.path().join(path));
    options.disks = vec![made.clone(), mistyped];
    let (report, _) = examined(&config, &options, &origins).await;
    let mut disks = report
        .missing
        .iter()
        .filter(|what| what.starts_with("disk "));
    let missing = disks.next().expect("a disk is missing");
    assert!(
        missing.contains("wrong/other") && disks.next().is_none(),
        "{missing}"
    );
    let measured = report.measurements.disks.iter();
    let measured: Vec<_> = measured.map(|disk| disk.path.as_str()).collect();
    assert!(
        measured.contains(&made.to_string_lossy().as_ref()),
        "{measured:?}"
    );
}
