use prometheus_client::registry::Registry;

use super::*;
use crate::fake_server::{FakeServer, Says};
use tokio::time::advance;

const KEY: &str =
    r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

const REFRESH: Duration = Duration::from_secs(3600);

/// The longest wait for what has to come; only a failure waits so long.
const LONG: Duration = Duration::from_secs(60);

fn set(keys: usize) -> String {
    format!("{{\"keys\":[{}]}}", vec![KEY; keys].join(","))
}

fn says_set(keys: usize) -> Says {
    Says::Text("200 OK".into(), set(keys))
}

fn source(location: JwksLocation, metrics: &Metrics) -> KeySource {
    KeySource::new("members", location, metrics).expect("a client")
}

fn of_url(uri: Uri) -> KeySource {
    refreshed(uri, REFRESH)
}

/// Returns the source of a URL that is fetched again after this time.
fn refreshed(uri: Uri, refresh: Duration) -> KeySource {
    let source = source(JwksLocation::Url(uri, refresh), &Metrics::default());
    source.apply(source.prepare(None).expect("no file"));
    source
}

fn of_file(path: &Path) -> Result<KeySource, KeyFileError> {
    let location = JwksLocation::File(path.to_owned());
    let source = source(location, &Metrics::default());
    source.apply(source.prepare(None)?);
    Ok(source)
}

/// Returns the source of a new file with so many keys, which goes with the folder.
fn of_new_file(keys: usize) -> (tempfile::TempDir, PathBuf, KeySource) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jwks.json");
    fs::write(&path, set(keys)).expect("written");
    let source = of_file(&path).expect("a set");
    (folder, path, source)
}

fn secret(text: &str) -> Option<KeySet> {
    Some(KeySet::shared(&text.repeat(32)).expect("long"))
}

/// Lets time pass, while no timer of a request runs.
async fn later(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Waits until the source's own task has come so far, while the clock of its timers stands. The task shares this thread, and
/// has set its next timer when it lets another run.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = std::time::Instant::now();
    while !is_so() {
        assert!(since.elapsed() < LONG, "{what}");
        tokio::task::yield_now().await;
    }
}

/// Returns whether the last fetch has failed.
fn has_failed(source: &KeySource) -> bool {
    let state = source.loader.state.try_lock();
    state.is_ok_and(|state| state.failure.is_some())
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_url_are_fetched_again_by_themselves() {
    let refresh = Duration::from_secs(300);
    let server = FakeServer::start(says_set(2)).await;
    let source = refreshed(server.url("/"), refresh);
    let keys = source.keys();
    until("the first fetch", || keys.len() == 2).await;
    advance(refresh / 2).await;
    // One was withdrawn: it admits until the time is over, and no longer.
    server.say(says_set(1));
    advance(refresh / 2).await;
    until("the second fetch", || keys.len() == 1).await;
    assert_eq!(server.seen().len(), 2);

    // What fails is repeated after a shorter time, and then the usual one counts again.
    server.say(Says::status("503 Service Unavailable"));
    advance(refresh).await;
    until("the third fetch", || has_failed(&source)).await;
    server.say(says_set(3));
    advance(MIN_INTERVAL).await;
    until("the fourth fetch", || keys.len() == 3).await;
    server.say(says_set(2));
    advance(refresh - MIN_INTERVAL).await;
    server.say(says_set(1));
    advance(MIN_INTERVAL).await;
    until("the fifth fetch", || keys.len() == 1).await;
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_file_is_looked_at_by_itself() {
    let (_folder, path, source) = of_new_file(3);
    let keys = source.keys();
    for (text, failed, left) in [
        (set(1), false, 1),
        ("{".to_owned(), true, 1),
        (set(2), false, 2),
    ] {
        // Its task waits: it has set its timer, or has just been started.
        tokio::task::yield_now().await;
        fs::write(&path, text).expect("written");
        advance(FILE_INTERVAL).await;
        until("a look", || {
            has_failed(&source) == failed && keys.len() == left
        })
        .await;
    }
}

#[tokio::test]
async fn keys_are_fetched_and_once_more_for_an_unknown_one() {
    let server = FakeServer::start(says_set(1)).await;
    let source = of_url(server.url("/jwks.json"));
    let keys = source.keys();
    source.refresh().await;
    assert_eq!((keys.len(), server.seen().len()), (1, 1));
    let head = server.seen().remove(0).to_ascii_lowercase();
    assert!(head.starts_with("get /jwks.json http/1.1\r\n"), "{head}");
    // What clients send cannot have it asked more often.
    server.say(says_set(2));
    for _ in 0..100 {
        source.refresh().await;
    }
    assert_eq!((keys.len(), server.seen().len()), (1, 1));
    later(MIN_INTERVAL).await;
    let all = (0..100).map(|_| source.refresh());
    futures_util::future::join_all(all).await;
    assert_eq!((keys.len(), server.seen().len()), (2, 2));
}

#[tokio::test]
async fn a_secret_beside_a_set_stays_without_it() {
    let server = FakeServer::start(Says::status("503 Service Unavailable")).await;
    let location = JwksLocation::Url(server.url("/"), REFRESH);
    let source = source(location, &Metrics::default());
    source.apply(source.prepare(secret("a")).expect("no file"));
    source.refresh().await;
    assert_eq!(source.keys().len(), 1);
    server.say(says_set(2));
    later(MIN_INTERVAL).await;
    source.refresh().await;
    assert_eq!(source.keys().len(), 3);
    // Another secret, or none, changes nothing of the set.
    source.apply(source.prepare(secret("b")).expect("no file"));
    assert_eq!(source.keys().len(), 3);
    source.apply(source.prepare(None).expect("no file"));
    assert_eq!(source.keys().len(), 2);
}

#[tokio::test]
async fn keys_that_are_prepared_are_not_in_force_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jwks.json");
    let mut registry = Registry::default();
    let metrics = Metrics::default();
    metrics.register(&mut registry);
    let shown = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(str::to_owned).collect::<Vec<_>>()
    };
    let source = source(JwksLocation::File(path.clone()), &metrics);
    fs::write(&path, set(2)).expect("written");
    let prepared = source.prepare(secret("a")).expect("a set");
    assert_eq!((source.keys().len(), shown()), (0, Vec::new()));
    source.apply(prepared);
    let two = shown();
    assert_eq!((source.keys().len(), two.len()), (3, 3), "{two:?}");
    // The configuration after it is refused: its keys stay, and so does what is counted.
    fs::write(&path, set(3)).expect("written");
    source.prepare(None).expect("a set");
    fs::write(&path, "{").expect("written");
    source.prepare(None).expect_err("no set");
    assert_eq!((source.keys().len(), shown()), (3, two));
}

#[tokio::test]
async fn a_fetch_that_ends_after_its_access_has_gone_shows_nothing() {
    let mut registry = Registry::default();
    let metrics = Metrics::default();
    metrics.register(&mut registry);
    let samples = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        text.lines().filter(|line| !line.starts_with('#')).count()
    };
    let server = FakeServer::start(says_set(2)).await;
    let source = source(JwksLocation::Url(server.url("/"), REFRESH), &metrics);
    source.apply(source.prepare(None).expect("no file"));
    assert_eq!(samples(), 3);
    metrics.forget_keys("members");
    source.refresh().await;
    assert_eq!((source.keys().len(), samples()), (2, 0));
}

#[tokio::test]
async fn keys_outlast_an_outage_of_a_day() {
    let server = FakeServer::start(says_set(2)).await;
    let source = of_url(server.url("/"));
    let keys = source.keys();
    source.refresh().await;
    assert_eq!(keys.len(), 2);
    server.say(Says::status("503 Service Unavailable"));
    later(MIN_INTERVAL).await;
    source.refresh().await;
    assert_eq!((keys.len(), server.seen().len()), (2, 2));
    later(MAX_AGE).await;
    source.refresh().await;
    assert_eq!(keys.len(), 0);
    server.say(says_set(1));
    later(MIN_INTERVAL).await;
    source.refresh().await;
    assert_eq!(keys.len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_no_key_set_gives_no_keys() {
    let inside = FakeServer::start(says_set(1)).await;
    let redirect = format!("302 Found\r\nlocation: {}", inside.url("/jwks.json"));
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for says in [
        Says::Text(redirect, set(1)),
        Says::Text("404 Not Found".into(), set(1)),
        Says::Text("206 Partial Content".into(), set(1)),
        Says::Text("200 OK".into(), " ".repeat(MAX_BYTES) + &set(1)),
        Says::Text("200 OK".into(), "<html>".into()),
        Says::Text("200 OK".into(), "{\"keys\":[]}".into()),
        Says::Text("200 OK".into(), String::new()),
        Says::Endless(chunked, "4\r\n    \r\n"),
        Says::Endless("HTTP/1.1 200 OK\r\n", "x-a: b\r\n"),
        Says::Endless("SSH-2.0\r\n", "\r\n"),
    ] {
        let server = FakeServer::start(says.clone()).await;
        let source = of_url(server.url("/"));
        source.refresh().await;
        assert_eq!(source.keys().len(), 0, "{says:?}");
        assert_eq!(server.seen().len(), 1, "{says:?}");
    }
    assert_eq!(inside.seen().len(), 0, "no redirect is followed");
    // A port on which no server listens.
    let closed = FakeServer::start(Says::Silence).await.url("/");
    let source = of_url(closed);
    source.refresh().await;
    assert!(source.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up() {
    let server = FakeServer::start(Says::Silence).await;
    let source = of_url(server.url("/"));
    let began = Instant::now();
    source.refresh().await;
    assert!(began.elapsed() <= FETCH_TIMEOUT + Duration::from_secs(1));
    assert!(source.keys().is_empty());
}

#[tokio::test]
async fn a_file_is_read_again_when_it_has_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jwks.json");
    let write = |text: &str| fs::write(&path, text).expect("written");
    write(&set(1));
    let source = of_file(&path).expect("a set");
    let keys = source.keys();
    assert_eq!(keys.len(), 1);
    for (text, expected) in [
        (set(3), 3),
        // Half a file is none: the keys before it stay.
        (set(2)[..20].to_owned(), 3),
        (set(2), 2),
    ] {
        write(&text);
        source.loader.look(&path).await;
        assert_eq!(keys.len(), expected, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_gone_takes_its_keys_with_it_after_a_day() {
    let (_folder, path, source) = of_new_file(2);
    fs::remove_file(&path).expect("removed");
    for _ in 0..3 {
        source.loader.look(&path).await;
        assert_eq!(source.keys().len(), 2);
    }
    tokio::time::advance(MAX_AGE).await;
    source.loader.look(&path).await;
    assert_eq!(source.keys().len(), 0);
    fs::write(&path, set(1)).expect("written");
    source.loader.look(&path).await;
    assert_eq!(source.keys().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_half_written_keeps_the_keys_that_stayed_for_long() {
    let (_folder, path, source) = of_new_file(2);
    tokio::time::advance(MAX_AGE).await;
    source.loader.look(&path).await;
    fs::write(&path, "{").expect("written");
    source.loader.look(&path).await;
    assert_eq!(source.keys().len(), 2);
}

#[tokio::test]
async fn a_file_that_never_ends_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("long.json");
    fs::write(&long, " ".repeat(MAX_BYTES) + &set(1)).expect("written");
    let none = folder.path().join("none.json");
    for path in [Path::new("/dev/zero"), folder.path(), &long, &none] {
        let error = of_file(path).expect_err("no set").to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}
