//! The program over its sick disk, and the check after a cut.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;
use tokio::sync::watch;

use crate::bucket::Bucket;
use crate::draw::Draw;
use crate::minio::Minio;
use crate::model::{Edition, edition_of};
use crate::mount::{Folder, blocking, origin};
use crate::serving::{Serving, disk};
use crate::sick_fs::SickFs;
use crate::work::{Heard, Worker, ask};

/// The token that PUT and DELETE show.
pub(crate) const WRITE_TOKEN: &str = "the-token-of-a-writer-in-a-test-of-power-cuts";

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// The environment of the workers.
pub(crate) struct Scene {
    pub(crate) http: std::net::SocketAddr,
    pub(crate) admin: std::net::SocketAddr,
    pub(crate) folder: PathBuf,
    pub(crate) bucket: Bucket,
    /// Calls made since the start, and whether a close waits for the bucket.
    calls: watch::Sender<u64>,
    pub(crate) commits_on_close: std::sync::atomic::AtomicBool,
    dead: std::sync::atomic::AtomicBool,
}

impl Scene {
    /// Counts a call.
    pub(crate) fn call(&self) {
        self.calls.send_modify(|calls| *calls += 1);
    }

    /// Waits until so many calls were made.
    pub(crate) async fn made(&self, calls: u64) {
        let mut made = self.calls.subscribe();
        let waited = tokio::time::timeout(LONG, made.wait_for(|made| *made >= calls)).await;
        let _ = waited.expect("the workers make calls").expect("kept");
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Returns an object as the bucket has it.
    pub(crate) async fn stored(&self, key: &str) -> Option<Vec<u8>> {
        let Bucket::S3 { client, name } = &self.bucket else {
            panic!("a real one");
        };
        let got = client.get_object().bucket(name).key(key).send().await;
        let body = got.ok()?.body.collect().await.expect("a body");
        Some(body.into_bytes().to_vec())
    }
}

/// The program, its disk and its bucket.
pub(crate) struct House {
    pub(crate) scene: Arc<Scene>,
    toml: String,
    serving: Serving,
    sick: SickFs,
    _folder: Folder,
    _minio: Minio,
}

fn toml(minio: &Minio, folder: &Folder, sick: &SickFs) -> String {
    format!(
        "{}[[route]]\npath = \"/\"\norigin = \"o\"\nwritable = true\nwrite_token = \"{WRITE_TOKEN}\"\n\
         [[mount]]\npath = \"{}\"\nwritable = true\ncommit = \"COMMIT\"\n\
         [spool]\npath = \"{}\"\n[state]\npath = \"{}\"\n{}",
        origin(&minio.settings("media")),
        folder.path().display(),
        sick.path("spool").display(),
        sick.path("state").display(),
        disk(&sick.path("cache")),
    )
}

impl House {
    pub(crate) async fn build() -> Self {
        let minio = Minio::start().await;
        let bucket = Bucket::create(&minio.settings("media")).await;
        bucket.put("k/", "").await;
        let folder = Folder::new();
        let sick = SickFs::mount(&["state", "cache", "spool"]);
        let toml = toml(&minio, &folder, &sick);
        let serving = Serving::configured(&toml);
        let scene = Scene {
            http: serving.http,
            admin: serving.admin,
            folder: folder.path(),
            bucket,
            calls: watch::Sender::new(0),
            commits_on_close: true.into(),
            dead: true.into(),
        };
        Self {
            scene: Arc::new(scene),
            toml,
            serving,
            sick,
            _folder: folder,
            _minio: minio,
        }
    }

    /// Starts the program and waits until it is mounted.
    pub(crate) async fn start(&mut self, commits_on_close: bool) {
        let commit = match commits_on_close {
            true => "close",
            false => "background",
        };
        self.serving.configure(&self.toml.replace("COMMIT", commit));
        let order = std::sync::atomic::Ordering::SeqCst;
        self.scene.commits_on_close.store(commits_on_close, order);
        self.scene.calls.send_replace(0);
        self.serving.start().await;
        self.scene.dead.store(false, order);
    }

    /// Cuts the power, and forces the mount away. A killed process alone can live on: its thread that makes the kernel
    /// forget a name waits for the folder, which is held by a program that waits for the process.
    pub(crate) fn cut(&mut self, draw: &mut Draw) {
        let scene = &self.scene;
        self.serving.kill_with(|| {
            // This is set before the unmount: later reads see the folder below.
            scene.dead.store(true, std::sync::atomic::Ordering::SeqCst);
            let _ = rustix::mount::unmount(scene.folder.as_path(), UnmountFlags::FORCE);
        });
        self.sick.cut(draw);
    }

    pub(crate) fn log(&self) -> String {
        self.serving.log()
    }

    pub(crate) async fn end(&mut self) {
        self.serving.end().await;
    }

    /// Compares every object with the promises to its writer; returns the number of objects.
    pub(crate) async fn check(&self, workers: &mut [Worker], cut: u64) -> u64 {
        // Before the spool's remains are in the bucket: each object is whole, and of an edition that existed.
        for (key, known) in workers.iter().flat_map(|worker| &worker.keys) {
            let found = self.served(key).await;
            let found = found.unwrap_or_else(|wrong| self.wrong(cut, key, "at once", &wrong));
            assert!(
                found.is_none() || known.ever.contains(&found),
                "cut {cut}: {key} is {found:?}, which it never was: {known:?}"
            );
        }
        self.settled(cut).await;
        for worker in workers.iter_mut() {
            for (key, known) in &mut worker.keys {
                if std::mem::take(&mut known.unpurged) {
                    let purged = self.serving.post(&format!("/purge?path=/{key}")).await;
                    assert_eq!(purged.status, 200, "{}", purged.text());
                }
                let found = self.one(key, cut).await;
                known.note(format!("found {found:?} after cut {cut}"));
                if !known.allows(found) {
                    let wrong = format!("{found:?} in place of {known:?}");
                    self.wrong(cut, key, "in the end", &wrong);
                }
                known.promise(found);
            }
            self.moved(worker, cut);
        }
        workers.iter().map(|worker| worker.keys.len() as u64).sum()
    }

    /// Checks that a file in the middle of a move is at one of both names.
    fn moved(&self, worker: &mut Worker, cut: u64) {
        let Some((from, to, number)) = worker.moving.take() else {
            return;
        };
        let at = |key: &String| worker.keys[key].promised == Some(number);
        if !at(&from) && !at(&to) {
            let (left, right) = (&worker.keys[&from], &worker.keys[&to]);
            let wrong = format!("edition {number} is at neither: {left:?}, {right:?}");
            self.wrong(cut, &from, "moved", &wrong);
        }
    }

    fn wrong(&self, cut: u64, key: &str, when: &str, wrong: &str) -> ! {
        panic!("cut {cut}: {key}, {when}: {wrong}\n{}", self.serving.log());
    }

    /// Returns the edition that is served over HTTP.
    async fn served(&self, key: &str) -> Result<Edition, String> {
        match ask(self.scene.http, "GET", &format!("/{key}"), Vec::new()).await {
            Heard::Said(200, body) => edition_of(&body).map(Some),
            Heard::Said(404, _) => Ok(None),
            heard => Err(heard.to_string()),
        }
    }

    /// Returns the edition in the bucket, over HTTP and on the mount, which must agree.
    async fn one(&self, key: &str, cut: u64) -> Edition {
        let fail = |when: &str| {
            let when = when.to_owned();
            move |wrong: String| -> Edition { self.wrong(cut, key, &when, &wrong) }
        };
        let stored = self.scene.stored(key).await;
        let stored = stored.map(|bytes| edition_of(&bytes)).transpose();
        let stored = stored.unwrap_or_else(fail("in the bucket"));
        let served = self.served(key).await.unwrap_or_else(fail("over HTTP"));
        let path = self.scene.folder.join(key);
        let read = blocking(move || std::fs::read(path)).await;
        let read = match read {
            Ok(bytes) => edition_of(&bytes).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::IsADirectory => self.remnant(key).await,
            Err(error) => Err(error.to_string()),
        };
        let read = read.unwrap_or_else(fail("on the mount"));
        if served != stored || read != stored {
            let wrong =
                format!("{stored:?} in the bucket, {served:?} served, {read:?} on the mount");
            self.wrong(cut, key, "compared", &wrong);
        }
        stored
    }

    /// Removes the folder of an object's name that MinIO shows after a PUT whose client was killed: it keeps a part's
    /// file without its object, and lists a prefix below which is no key. Returns what the name is then.
    async fn remnant(&self, key: &str) -> Result<Edition, String> {
        let Bucket::S3 { client, name } = &self.scene.bucket else {
            panic!("a real one");
        };
        let prefix = format!("{key}/");
        let list = client.list_objects_v2().bucket(name).prefix(&prefix);
        let below = list.send().await.expect("a listing").key_count;
        let list = client.list_objects_v2().bucket(name).prefix(key);
        let listed = list.delimiter("/").send().await.expect("a listing");
        let shown: Vec<_> = listed
            .common_prefixes()
            .iter()
            .filter_map(|it| it.prefix())
            .collect();
        if below != Some(0) || shown != [prefix.as_str()] {
            return Err(format!(
                "a directory; below are {below:?} keys, listed is {shown:?}"
            ));
        }
        println!("{key}: MinIO lists a prefix without keys");
        let path = self.scene.folder.join(key);
        let removed = blocking(move || {
            std::fs::remove_dir(&path)?;
            std::fs::read(path)
        });
        match removed.await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => Err(format!("not removed: {:?}", other.map(|bytes| bytes.len()))),
        }
    }

    /// Waits until the spool's remains are in the bucket.
    async fn settled(&self, cut: u64) {
        let begun = Instant::now();
        loop {
            let pending = self.serving.look("/pending").await.text();
            if pending.contains("\"pending\":[]") {
                return;
            }
            if begun.elapsed() > LONG {
                self.wrong(cut, "/pending", "after a minute", &pending);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
