//! A site on recipe 1: its uploads are a mount of a gateway, which also answers nginx.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use loadtest::bucket::Bucket;
use loadtest::peers::Origin;
use loadtest::peers::cloud::Cloud;
use loadtest::peers::minio::Minio;
use loadtest::tally::{RequestCounts, Tally};
use loadtest::wordpress::gateway::{Gateway, PublicListener};
use loadtest::wordpress::photos::{self, SMALL};
use loadtest::wordpress::recipe::{self, Home};
use loadtest::wordpress::{Answer, Curl, Media, Places, Site, must};
use tempfile::TempDir;

use crate::door::Door;
use crate::rights;

/// Timeout of a test's waits; only a failure waits so long.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// Waits until `holds` returns true.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) -> Result<()> {
    let since = Instant::now();
    while !holds().await {
        ensure!(since.elapsed() < LONG, "it never comes");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// A MinIO of the test's own with a bucket, the simulated cloud before it (20 ms, 20 MB/s a connection), and the folder
/// of the test's files. Fields are dropped in this order.
pub(crate) struct Store {
    pub(crate) bucket: Bucket,
    pub(crate) cloud: Cloud,
    pub(crate) minio: Minio,
    pub(crate) dir: TempDir,
}

impl Store {
    pub(crate) async fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("tidegate-wp-").tempdir()?;
        let minio = Minio::start(dir.path())?;
        let bucket = Bucket::create(minio.addr(), BUCKET).await?;
        let cloud = Cloud::start(dir.path(), minio.addr()).await?;
        Ok(Self {
            bucket,
            cloud,
            minio,
            dir,
        })
    }

    /// Returns the bucket as an origin of a gateway.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            addr: self.cloud.addr(),
            bucket: BUCKET.into(),
        }
    }
}

const BUCKET: &str = "wordpress";
/// The recipe of most worlds.
const RECIPE: &str = "wordpress-mount.toml";

/// The time without requests after which the gateway counts as done: longer than it waits before it sends changed
/// attributes.
const QUIET: Duration = Duration::from_secs(3);

/// Returns the mode that the recipe's socket unit gives its socket.
fn socket_mode() -> Result<u32> {
    let unit = recipe::read("systemd/wordpress/tidegate-mount.socket")?;
    let mode = unit
        .lines()
        .find_map(|line| line.strip_prefix("SocketMode="));
    Ok(u32::from_str_radix(mode.context("no SocketMode=")?, 8)?)
}

/// A site, its gateway, and its bucket behind a door and a count of requests. Fields are dropped in this order.
pub(crate) struct World {
    pub(crate) site: Site,
    pub(crate) gateway: Gateway,
    pub(crate) home: Home,
    pub(crate) bucket: Bucket,
    pub(crate) door: Door,
    pub(crate) tally: Tally,
    _beneath: Beneath,
    _cloud: Cloud,
    _minio: Minio,
    dir: TempDir,
}

/// The way in which a world's gateway runs.
struct Run {
    recipe: &'static str,
    listens: fn(&Home) -> Result<PublicListener>,
    /// Whether it has the rights of its unit, in place of root's.
    is_service: bool,
}

impl Run {
    /// Returns a run of that recipe, by root.
    fn of(recipe: &'static str) -> Self {
        Self {
            recipe,
            listens: |home| Ok(PublicListener::Unix(home.socket())),
            is_service: false,
        }
    }
}

/// The folder below the mount, as the recipe makes it: no program can write to it, not even root's. The unit lets its user
/// write to it while it runs.
struct Beneath(Places);

impl Beneath {
    fn made(places: Places, is_service: bool) -> Result<Self> {
        let folder = places.uploads();
        let (mode, owner) = match is_service {
            true => ("0755", rights::USER),
            false => ("0555", "root"),
        };
        must(Command::new("chmod").arg(mode).arg(&folder))?;
        must(Command::new("chown").arg(owner).arg(&folder))?;
        if !is_service {
            // If the file system has no such flag, root's programs are trusted.
            let _ = Command::new("chattr").arg("+i").arg(&folder).output();
        }
        Ok(Self(places))
    }
}

impl Drop for Beneath {
    fn drop(&mut self) {
        let _ = Command::new("chattr")
            .arg("-i")
            .arg(self.0.uploads())
            .output();
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(|toml| toml).await
    }

    /// Starts a world; `change` replaces options of the recipe.
    pub(crate) async fn with(change: impl FnOnce(String) -> String) -> Self {
        let store = Store::start().await.expect("MinIO and toxiproxy");
        Self::on(store, RECIPE, change).await
    }

    /// Starts a world on that store, by that recipe.
    pub(crate) async fn on(
        store: Store,
        recipe: &'static str,
        change: impl FnOnce(String) -> String,
    ) -> Self {
        Self::run(store, Run::of(recipe), change).await
    }

    /// Starts a world with the recipe's socket unit: the public socket exists whether the gateway runs or not.
    pub(crate) async fn with_socket_unit() -> Self {
        let listens = |home: &Home| {
            let listener = UnixListener::bind(home.socket())?;
            fs::set_permissions(home.socket(), fs::Permissions::from_mode(socket_mode()?))?;
            Ok(PublicListener::Passed(listener))
        };
        let run = Run {
            listens,
            ..Run::of(RECIPE)
        };
        let store = Store::start().await.expect("MinIO and toxiproxy");
        Self::run(store, run, |toml| toml).await
    }

    /// Starts a world with the users and capabilities of the recipe's units.
    pub(crate) async fn with_the_units_rights() -> Self {
        let run = Run {
            is_service: true,
            ..Run::of(RECIPE)
        };
        let store = Store::start().await.expect("MinIO and toxiproxy");
        Self::run(store, run, |toml| toml).await
    }

    async fn run(store: Store, run: Run, change: impl FnOnce(String) -> String) -> Self {
        let made = Self::make(store, run, change).await;
        made.unwrap_or_else(|error| panic!("{error:#}"))
    }

    async fn make(store: Store, run: Run, change: impl FnOnce(String) -> String) -> Result<Self> {
        let Store {
            bucket,
            cloud,
            minio,
            dir,
        } = store;
        let tally = Tally::start(cloud.addr()).await?;
        let door = Door::to(tally.addr()).await;
        let origin = Origin {
            addr: door.address(),
            bucket: BUCKET.into(),
        };
        let mut places = Places::lay_out(&dir.path().join("site"))?;
        let beneath = Beneath::made(places.clone(), run.is_service)?;
        let home = Home::make(dir.path().join("gateway"))?;
        let toml = change(recipe::gateway(run.recipe, &home, &places.root, &origin)?);
        let mount = Some(places.uploads());
        let mut program = PathBuf::from(PROGRAM);
        if run.is_service {
            program = rights::program(&home, &program)?;
            rights::USER.clone_into(&mut places.gateway_group);
        }
        let listens = (run.listens)(&home)?;
        let gateway = Gateway::start_on(&program, &home, &toml, mount, listens)?;
        let http = recipe::nginx("wordpress-mount.conf", &home, &places)?;
        Ok(Self {
            site: Site::start(places, &http)?,
            gateway,
            home,
            bucket,
            door,
            tally,
            _beneath: beneath,
            _cloud: cloud,
            _minio: minio,
            dir,
        })
    }

    /// Returns the path of an upload below the mount.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.site.places.root.join(path.trim_start_matches('/'))
    }

    /// Returns the path of a file to upload.
    pub(crate) fn source(&self, name: &str) -> PathBuf {
        let folder = self.dir.path().join("sources");
        fs::create_dir_all(&folder).expect("a folder");
        folder.join(name)
    }

    /// Makes a photo to upload.
    pub(crate) fn photo(&self, name: &str, seed: u32) -> PathBuf {
        let file = self.source(name);
        photos::photo(&file, SMALL, seed).expect("ffmpeg");
        file
    }

    /// Waits until the gateway has nothing left to send.
    pub(crate) async fn has_sent_all(&self) -> Result<()> {
        let admin = Curl::new(self.home.admin, None);
        let is_empty = async || {
            let pending = admin.get("/pending").map(|answer| answer.text());
            pending.is_ok_and(|text| text.contains("\"pending\":[]"))
        };
        until(is_empty).await.context("something waits")
    }

    /// Returns the gateway's requests to the bucket so far, after they have ceased.
    pub(crate) async fn asked(&self) -> RequestCounts {
        self.has_sent_all().await.expect("it sends all");
        self.tally.quiet_for(QUIET).await
    }

    /// Returns a visitor's answer, through nginx.
    pub(crate) fn visit(&self, path: &str) -> Answer {
        self.site.curl().get(path).expect("nginx answers")
    }

    /// Checks that nginx serves all sizes as the mount shows them, and that pictures are whole.
    pub(crate) fn shows(&self, paths: &[String]) -> Result<()> {
        for path in paths {
            let file = self.file(path);
            let written = fs::read(&file).with_context(|| file.display().to_string())?;
            let seen = self.visit(path);
            ensure!(
                seen.status == 200,
                "{path}: {}\n{}",
                seen.status,
                seen.text()
            );
            ensure!(
                seen.body == written,
                "{path}: other bytes than in the mount"
            );
            if path.ends_with(".jpg") {
                ensure!(written.ends_with(&[0xff, 0xd9]), "{path}: a JPEG cut short");
            }
        }
        Ok(())
    }

    /// Waits until every file has arrived, and compares it byte for byte with the mount.
    pub(crate) async fn arrives(&self, paths: &[String]) -> Result<()> {
        for path in paths {
            let key = path.replace("/wp-content/", "");
            let written = fs::read(self.file(path))?;
            let arrived = async || {
                let stored = self.bucket.get(&key).await;
                stored.is_ok_and(|stored| stored == written)
            };
            until(arrived).await.context(key.clone())?;
        }
        Ok(())
    }

    /// Checks that visitors see an upload at once, in all its sizes, and that it arrives.
    pub(crate) async fn is_well(&self, media: &Media, at_least: usize) -> Result<()> {
        ensure!(media.paths.len() >= at_least, "sizes: {:?}", media.paths);
        self.shows(&media.paths)?;
        self.arrives(&media.paths).await?;
        self.shows(&media.paths)
    }
}
