//! Recipe 3: two web servers, each with its own gateway and mount, on one bucket.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use loadtest::peers::Origin;
use loadtest::wordpress::gateway::Gateway;
use loadtest::wordpress::recipe::{self, Home};
use loadtest::wordpress::{Places, Web};

use crate::world::{LONG, PROGRAM, Store};

/// The time for which one server may show a replaced file: shorter than the recipe's, which `balanced` tests.
const BOUND: Duration = Duration::from_secs(1);

pub(crate) struct Server {
    web: Web,
    home: Home,
    gateway: Gateway,
    // Dropped last: it holds the mount.
    places: Places,
}

impl Server {
    /// Starts a server; `change` replaces options of the recipe.
    pub(crate) fn start(
        dir: &Path,
        name: &str,
        origin: &Origin,
        change: impl FnOnce(String) -> Result<String>,
    ) -> Result<Self> {
        let places = Places::lay_out(&dir.join(name))?;
        let home = Home::make(dir.join(format!("{name}-gateway")))?;
        let toml = recipe::gateway("wordpress-servers.toml", &home, &places.root, origin)?;
        let toml = change(toml)?;
        let gateway = Gateway::start(Path::new(PROGRAM), &home, &toml, Some(places.uploads()))?;
        let http = recipe::nginx("wordpress-mount.conf", &home, &places)?;
        Ok(Self {
            web: Web::start(&places, &http)?,
            places,
            home,
            gateway,
        })
    }

    /// Starts a server with a bound of one second.
    fn quick(dir: &Path, name: &str, origin: &Origin) -> Result<Self> {
        let short = [("ttl = \"10s\"", "ttl = \"1s\"".to_owned())];
        Self::start(dir, name, origin, |toml| recipe::replaced(&toml, &short))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        Ok(fs::write(self.places.uploads().join(name), bytes)?)
    }

    /// Returns the body that a visitor of this server gets.
    fn visit(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.see(&format!("/wp-content/uploads/{name}"))
    }

    /// Does the same for a whole path.
    pub(crate) fn see(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let answer = self.web.curl().get(name)?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            status => anyhow::bail!("{name}: {status}"),
        }
    }
}

fn picture(seed: u8) -> Vec<u8> {
    (0..3_000_000_u32)
        .map(|at| (at % 251) as u8 ^ seed)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_server_writes_the_other_shows_in_time_and_whole() -> Result<()> {
    let store = Store::start().await?;
    let (origin, dir) = (store.origin(), store.dir.path());
    let one = Server::quick(dir, "one", &origin)?;
    let other = Server::quick(dir, "other", &origin)?;
    let versions: Vec<Vec<u8>> = (0..4).map(picture).collect();
    // A missing file is remembered no longer than the bound.
    ensure!(other.visit("photo.jpg")?.is_none(), "there is none yet");
    for version in &versions {
        // A visitor of the other meanwhile sees one whole version, or none.
        let seen = std::thread::scope(|scope| {
            let looks = scope.spawn(|| -> Result<_> {
                let since = Instant::now();
                loop {
                    let seen = other.visit("photo.jpg")?;
                    let whole = seen.as_ref().is_none_or(|seen| versions.contains(seen));
                    ensure!(
                        whole,
                        "{:?} bytes of no version",
                        seen.map(|seen| seen.len())
                    );
                    if seen.as_ref() == Some(version) {
                        return Ok(());
                    }
                    ensure!(since.elapsed() < LONG, "never seen");
                }
            });
            one.write("photo.jpg", version)?;
            // The writer's own server shows it at once.
            ensure!(one.visit("photo.jpg")?.as_ref() == Some(version), "its own");
            tokio::task::block_in_place(|| std::thread::sleep(BOUND + BOUND / 10));
            // A visitor that comes after the bound sees it on every server.
            ensure!(
                other.visit("photo.jpg")?.as_ref() == Some(version),
                "too old"
            );
            looks.join().expect("no panic")
        });
        seen?;
    }
    fs::remove_file(one.places.uploads().join("photo.jpg"))?;
    ensure!(one.visit("photo.jpg")?.is_none(), "deleted");
    std::thread::sleep(BOUND + BOUND / 10);
    ensure!(other.visit("photo.jpg")?.is_none(), "deleted for all");
    Ok(())
}

/// If nginx has two gateways, none of its visitors sees one of them restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_seen_by_no_visitor_where_nginx_has_another_gateway() -> Result<()> {
    let store = Store::start().await?;
    let (origin, dir) = (store.origin(), store.dir.path());
    let one = Server::quick(dir, "one", &origin)?;
    let mut other = Server::quick(dir, "other", &origin)?;
    let photo = picture(1);
    one.write("photo.jpg", &photo)?;
    // A third nginx, for visitors, has both.
    let places = Places::lay_out(&dir.join("visitors"))?;
    let both = format!(
        "server unix:{};\n    server unix:{};",
        one.home.socket().display(),
        other.home.socket().display()
    );
    let http = recipe::nginx("wordpress-mount.conf", &one.home, &places)?;
    let single = format!("server unix:{};", one.home.socket().display());
    let http = recipe::replaced(&http, &[(single.as_str(), both)])?;
    let web = Web::start(&places, &http)?;
    let stop = AtomicBool::new(false);
    let visited = std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| -> Result<u32> {
                    let mut visits = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let answer = web.curl().get("/wp-content/uploads/photo.jpg")?;
                        ensure!(answer.status == 200, "{}", answer.status);
                        ensure!(answer.body == photo, "other bytes");
                        visits += 1;
                    }
                    Ok(visits)
                })
            })
            .collect();
        let restarted = (0..3).try_for_each(|_| other.gateway.restart());
        stop.store(true, Ordering::Relaxed);
        let visits = visitors
            .into_iter()
            .map(|one| one.join().expect("no panic"));
        restarted.and(visits.sum::<Result<u32>>())
    })?;
    ensure!(visited > 0, "no visitor came");
    Ok(())
}
