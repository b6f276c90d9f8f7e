//! A mount by a recipe beside a local folder, in which each step is done in turn.

use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use loadtest::bucket::Bucket;
use loadtest::child::free_addr;
use loadtest::peers::Origin;
use loadtest::peers::minio::Minio;
use loadtest::tally::{RequestCounts, Tally};
use loadtest::wordpress::gateway::{Gateway, PublicListener};
use loadtest::wordpress::recipe::{self, Home};
use loadtest::wordpress::{Answer, Curl, must};
use tempfile::TempDir;

use crate::compare;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// The time without a request after which a step's requests count as complete.
const QUIET: Duration = Duration::from_millis(700);

const BUCKET: &str = "library";

/// The user, and the group, of the recipes' mounts.
const MOUNT_USER: u32 = 1000;

/// A file of `config/`, with the names in it that a test replaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipe {
    pub(crate) file: &'static str,
    pub(crate) bucket: &'static str,
    pub(crate) mount: &'static str,
}

pub(crate) const AUDIOBOOKSHELF: Recipe = Recipe {
    file: "audiobookshelf-mount.toml",
    bucket: "audiobooks",
    mount: "/mnt/audiobooks",
};
pub(crate) const JELLYFIN: Recipe = Recipe {
    file: "jellyfin.toml",
    bucket: "media",
    mount: "/mnt/media",
};
pub(crate) const PAPERLESS: Recipe = Recipe {
    file: "paperless.toml",
    bucket: "paperless",
    mount: "/mnt/paperless/media",
};
pub(crate) const NAVIDROME: Recipe = Recipe {
    file: "navidrome.toml",
    bucket: "music",
    mount: "/mnt/music",
};

/// The mount, the local folder, and everything behind the mount. Fields are dropped in this order.
pub(crate) struct Shelf {
    pub(crate) local: PathBuf,
    pub(crate) mount: PathBuf,
    /// The folder of files that steps take; `$given` in their scripts.
    pub(crate) given: PathBuf,
    pub(crate) gateway: Gateway,
    pub(crate) bucket: Bucket,
    admin: std::net::SocketAddr,
    title: &'static str,
    tally: Tally,
    costs: Vec<(String, RequestCounts)>,
    begun: SystemTime,
    _minio: Minio,
    _dir: TempDir,
}

impl Shelf {
    /// Starts a gateway with this recipe in front of an empty bucket.
    pub(crate) async fn start(recipe: Recipe) -> Result<Self> {
        Self::with(recipe, &[]).await
    }

    /// Does the same for a bucket with these objects.
    pub(crate) async fn with(recipe: Recipe, objects: &[(&str, Vec<u8>)]) -> Result<Self> {
        let begun = SystemTime::now();
        let dir = tempfile::Builder::new()
            .prefix("tidegate-shelf-")
            .tempdir()?;
        let minio = Minio::start(dir.path())?;
        let bucket = Bucket::create(minio.addr(), BUCKET).await?;
        for (key, bytes) in objects {
            bucket.put(key, bytes.clone().into()).await?;
        }
        let tally = Tally::start(minio.addr()).await?;
        let origin = Origin {
            addr: tally.addr(),
            bucket: BUCKET.into(),
        };
        let folder = |name: &str| -> Result<PathBuf> {
            let path = dir.path().join(name);
            std::fs::create_dir(&path)?;
            Ok(path)
        };
        let (local, mount, given) = (folder("local")?, folder("mount")?, folder("given")?);
        let home = Home::make(dir.path().join("gateway"))?;
        let (toml, public) = configuration(recipe, &home, &mount, &origin)?;
        let program = Path::new(env!("CARGO_BIN_EXE_tidegate"));
        let listens = PublicListener::Tcp(public);
        let gateway = Gateway::start_on(program, &home, &toml, Some(mount.clone()), listens)?;
        Ok(Self {
            local,
            mount,
            given,
            gateway,
            bucket,
            admin: home.admin,
            title: recipe.file,
            tally,
            costs: vec![],
            begun,
            _minio: minio,
            _dir: dir,
        })
    }

    /// Runs a shell's script in both folders, and compares output, exit code and what is there afterwards.
    pub(crate) async fn step(&mut self, name: &str, script: &str) -> Result<String> {
        let local = self.run(&self.local, script)?;
        let mount = self
            .counted(name, |shelf| shelf.run(&shelf.mount, script))
            .await?;
        let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            local.status.code() == mount.status.code() && said(&local) == said(&mount),
            "{name}: in the local folder {local:?}, in the mount {mount:?}"
        );
        ensure!(
            local.status.success(),
            "{name} fails in both folders: {local:?}"
        );
        compare::same(name, &self.local, &self.mount, self.begun)?;
        Ok(said(&mount))
    }

    /// Compares one folder below both, after a step that makes other names and bytes elsewhere.
    pub(crate) fn same_below(&self, name: &str, folder: &str) -> Result<()> {
        let (local, mount) = (self.local.join(folder), self.mount.join(folder));
        compare::same(name, &local, &mount, self.begun)
    }

    /// Counts the requests of one act on the mount, which become those of the step `name`.
    pub(crate) async fn counted<T>(
        &mut self,
        name: &str,
        act: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.tally.quiet_for(QUIET).await;
        let done = act(self).with_context(|| name.to_owned())?;
        self.sent_all()
            .await
            .with_context(|| format!("{name}: something waits"))?;
        let asked = self.tally.quiet_for(QUIET).await.since(before);
        self.costs.push((name.to_owned(), asked));
        Ok(done)
    }

    /// Waits until the gateway has nothing left to send.
    async fn sent_all(&self) -> Result<()> {
        let admin = Curl::new(self.admin, None);
        let since = Instant::now();
        let is_empty = |answer: Answer| answer.text().contains("\"pending\":[]");
        while !admin.get("/pending").is_ok_and(is_empty) {
            ensure!(since.elapsed() < LONG, "{:?}", admin.get("/pending"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Returns the requests of a step.
    pub(crate) fn cost(&self, name: &str) -> RequestCounts {
        let found = self.costs.iter().find(|(step, _)| step == name);
        found.map(|(_, asked)| *asked).expect("a step of that name")
    }

    /// Runs a shell's script in a folder.
    pub(crate) fn run(&self, folder: &Path, script: &str) -> Result<Output> {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(folder);
        command.env("given", &self.given).stdin(Stdio::null());
        Ok(command.output()?)
    }

    /// Writes a local file as the mount shows an object of another program: it belongs to the mount's user, as its folders do.
    pub(crate) fn write_foreign(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.local.join(name);
        let own = |path: &Path| chown(path, Some(MOUNT_USER), Some(MOUNT_USER));
        let above = path.ancestors().skip(1);
        let above = above.take_while(|folder| *folder != self.local && !folder.exists());
        for folder in above.collect::<Vec<_>>().into_iter().rev() {
            std::fs::create_dir(folder)?;
            own(folder)?;
        }
        std::fs::write(&path, bytes)?;
        Ok(own(&path)?)
    }

    /// Purges a key through the admin listener.
    pub(crate) fn purge(&self, key: &str) -> Result<()> {
        let bearer = format!("authorization: Bearer {}", recipe::TOKEN);
        let url = format!("http://{}/purge?path=/{key}", self.admin);
        let mut curl = Command::new("curl");
        must(curl.args(["-sSf", "-X", "POST", "-H", &bearer, &url])).map(drop)
    }

    /// Waits until the bucket has every file of the local folder, with the same bytes, and no other object but the
    /// markers of folders. Prints the costs of all steps.
    pub(crate) async fn finish(self) -> Result<()> {
        let local = self.local.clone();
        self.arrives(&local).await
    }

    /// Does the same for the files of the mount, where those of the local folder have other names and bytes.
    pub(crate) async fn finish_alone(self) -> Result<()> {
        let mount = self.mount.clone();
        self.arrives(&mount).await
    }

    async fn arrives(mut self, root: &Path) -> Result<()> {
        self.print();
        let wanted = files(root)?;
        let since = Instant::now();
        loop {
            let found = self.stored().await?;
            if found == wanted {
                break;
            }
            ensure!(
                since.elapsed() < LONG,
                "the bucket has {found:?} instead of {wanted:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for (name, _) in &wanted {
            let (path, there) = (root.join(name), self.bucket.get(name).await?);
            // The object of a symbolic link is its target.
            let here = match std::fs::read_link(&path) {
                Ok(target) => target.into_os_string().into_vec(),
                Err(_) => std::fs::read(&path)?,
            };
            ensure!(there == here, "{name} has other bytes in the bucket");
        }
        if let Some(line) = self.gateway.complaint() {
            anyhow::bail!("the gateway's log: {line}");
        }
        self.gateway.stop();
        Ok(())
    }

    async fn stored(&self) -> Result<Vec<(String, u64)>> {
        let listed = self.bucket.list("").await?.into_iter();
        Ok(listed.filter(|(key, _)| !key.ends_with('/')).collect())
    }

    fn print(&self) {
        println!(
            "{}: step, GET, HEAD, LIST, PUT, COPY, DELETE, parts, MB in, MB out",
            self.title
        );
        for (name, asked) in &self.costs {
            println!(
                "  {name}: {} {} {} {} {} {} {} {:.2} {:.2}",
                asked.get,
                asked.head,
                asked.list,
                asked.put,
                asked.copy,
                asked.delete,
                asked.multipart,
                asked.bytes as f64 / 1e6,
                asked.sent as f64 / 1e6,
            );
        }
    }
}

/// Returns the recipe with names, ports, passwords and paths replaced, and its public listener.
fn configuration(
    recipe: Recipe,
    home: &Home,
    mount: &Path,
    origin: &Origin,
) -> Result<(String, std::net::SocketAddr)> {
    let public = free_addr();
    let bucket = format!("bucket = \"{}\"", recipe.bucket);
    let path = format!("path = \"{}\"", recipe.mount);
    let mut names = vec![
        ("127.0.0.1:8080", public.to_string()),
        (
            "[admin]\n",
            format!("[admin]\nlisten = \"{}\"\n", home.admin),
        ),
        ("$CREDENTIALS_DIRECTORY/token", home.path("token")),
        ("$CREDENTIALS_DIRECTORY/s3-secret", home.path("s3-secret")),
        ("/var/cache/tidegate-mount", home.path("cache")),
        ("/var/lib/tidegate-mount", home.path("state")),
        (&*bucket, format!("bucket = \"{}\"", origin.bucket)),
        (&*path, format!("path = \"{}\"", mount.display())),
    ];
    names.extend(recipe::store(origin));
    let toml = recipe::replaced(&recipe::read(recipe.file)?, &names)?;
    Ok((toml, public))
}

/// Returns all files below a folder with their lengths, in the order of their names.
fn files(root: &Path) -> Result<Vec<(String, u64)>> {
    let (mut found, mut folders) = (vec![], vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let stat = std::fs::symlink_metadata(&path)?;
            if stat.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
                found.push((name, stat.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}
