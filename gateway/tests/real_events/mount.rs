//! A mount beside the listeners: what its kernel holds of a name is over when an event reports a change.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::mount::{Folder, blocking};
use crate::ways::configuration;
use crate::{LONG, Way, World};

fn folder(of_test: &Path) -> PathBuf {
    of_test.join("mnt")
}

/// Returns the section of a mount in the test's folder.
fn section(of_test: &Path) -> String {
    let folder = folder(of_test);
    fs::create_dir_all(&folder).expect("a folder");
    format!(
        "[[mount]]\npath = \"{}\"\nroute = \"/\"\n",
        folder.display()
    )
}

impl World {
    async fn shows(&self, name: &str, bytes: Option<&'static str>) {
        shows(&folder(self.folder.path()).join(name), bytes).await;
    }
}

/// Waits until a file has this size.
async fn shows_size(path: &Path, size: usize) {
    let since = Instant::now();
    loop {
        let file = path.to_owned();
        let seen = blocking(move || fs::metadata(file).ok().map(|one| one.len())).await;
        if seen == Some(size as u64) {
            return;
        }
        assert!(since.elapsed() < LONG, "{path:?}: {seen:?}, not {size}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a program sees these bytes in a file, with their number as its size, or that there is none.
async fn shows(path: &Path, bytes: Option<&'static str>) {
    let since = Instant::now();
    loop {
        let file = path.to_owned();
        let look = move || {
            let size = fs::metadata(&file).ok()?.len();
            Some((size, fs::read_to_string(&file).ok()?))
        };
        let seen = tokio::task::spawn_blocking(look).await.expect("no panic");
        let wanted = bytes.map(|bytes| (bytes.len() as u64, bytes.to_owned()));
        if seen == wanted {
            return;
        }
        assert!(since.elapsed() < LONG, "{path:?}: {seen:?}, not {wanted:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Without events each name and size would stand for an hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_mount_shows_what_an_event_reports() {
    let mut world = World::with(Way::Webhook, section).await;
    world.shows("a.txt", None).await;
    world.bucket.put("a.txt", "first").await;
    world.shows("a.txt", Some("first")).await;
    world.bucket.put("a.txt", "the second one").await;
    world.shows("a.txt", Some("the second one")).await;
    world.bucket.delete("a.txt").await;
    world.shows("a.txt", None).await;
    // The mount goes before its folder does.
    world.gateway.take().expect("it runs").stop().await;
}

/// Waits until `ls` of a folder has these names, and no others.
async fn lists(folder: &Path, names: &[&str]) {
    let since = Instant::now();
    loop {
        let folder = folder.to_owned();
        let seen = blocking(move || -> Vec<String> {
            // A folder is there as long as a key is in it.
            let entries = fs::read_dir(&folder).into_iter().flatten();
            let names = entries.map(|entry| entry.expect("a name").file_name());
            let mut names: Vec<_> = names
                .map(|name| name.into_string().expect("text"))
                .collect();
            names.sort();
            names
        })
        .await;
        if seen == names {
            return;
        }
        assert!(since.elapsed() < LONG, "{seen:?}, not {names:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Without events each listing would stand for an hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_shows_what_an_event_reports() {
    let mut world = World::with(Way::Webhook, section).await;
    let album = folder(world.folder.path()).join("album");
    lists(&album, &[]).await;
    let mut there = Vec::new();
    for name in ["1.txt", "2.txt", "3.txt"] {
        world.bucket.put(&format!("album/{name}"), "x").await;
        there.push(name);
        lists(&album, &there).await;
    }
    while let Some(name) = there.pop() {
        world.bucket.delete(&format!("album/{name}")).await;
        lists(&album, &there).await;
    }
    world.gateway.take().expect("it runs").stop().await;
}

/// The event tells the kernel of the new version while a program reads the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_open_across_an_event_ends_on_its_version() {
    const SIZE: usize = 4 << 20;
    let mut world = World::with(Way::Webhook, section).await;
    let old = "o".repeat(SIZE);
    world.bucket.put("a.txt", old.clone()).await;
    world.reads("/a.txt", 200, &old).await;
    let path = folder(world.folder.path()).join("a.txt");
    shows_size(&path, SIZE).await;
    let opened = path.clone();
    let (mut file, begin) = blocking(move || {
        let mut file = fs::File::open(opened).expect("there");
        let mut begin = vec![0; 4096];
        file.read_exact(&mut begin).expect("read");
        (file, begin)
    })
    .await;
    world.bucket.put("a.txt", "the second one").await;
    world.shows("a.txt", Some("the second one")).await;
    let rest = blocking(move || {
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).expect("read to its end");
        rest
    })
    .await;
    assert!(
        [begin, rest].concat() == old.as_bytes(),
        "it mixes versions"
    );
    world.gateway.take().expect("it runs").stop().await;
}

/// Its gateway goes on with all events: the mount takes none of those that wait for the gateway's consumer.
#[tokio::test(flavor = "multi_thread")]
async fn a_mount_by_itself_shows_what_an_event_reports() {
    let world = World::new(Way::JetStream).await;
    let (local, folder) = (tempfile::tempdir().expect("a folder"), Folder::new());
    let (config, log) = (local.path().join("t.toml"), local.path().join("log"));
    let (minio, nats) = (&world.minio_address, world.nats_address);
    let text = configuration(world.way, minio, nats, &local, "");
    fs::write(&config, text).expect("written");
    let written = fs::File::create(&log).expect("a log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("mount").arg(folder.path()).arg("--config");
    command.arg(&config).stdin(Stdio::null());
    command.stderr(written.try_clone().expect("a file"));
    let mut mount = command.stdout(written).spawn().expect("tidegate");
    let since = Instant::now();
    loop {
        let said = fs::read_to_string(&log).expect("a log");
        if said.contains("events arrive") {
            break;
        }
        assert!(since.elapsed() < LONG, "{said}");
        sleep(Duration::from_millis(20)).await;
    }
    let file = folder.path().join("a.txt");
    shows(&file, None).await;
    for body in ["first", "the second one"] {
        world.bucket.put("a.txt", body).await;
        shows(&file, Some(body)).await;
        world.reads("/a.txt", 200, body).await;
    }
    world.bucket.delete("a.txt").await;
    shows(&file, None).await;
    world.reads("/a.txt", 404, "").await;
    world.alive(1).await;
    let gaps = ["tidegate_bucket_events_gaps_total{", "reason=\"sequence\""];
    assert_eq!(world.gateway().metric(&gaps).await, 0);
    let pid = rustix::process::Pid::from_child(&mount);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    let ended = blocking(move || mount.wait().expect("it ends")).await;
    assert!(ended.success(), "{ended}");
}
