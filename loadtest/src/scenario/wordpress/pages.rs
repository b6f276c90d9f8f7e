//! Posts with images, loaded as by a browser through each site's nginx: 100 pages by 20 users. A browser asks WordPress
//! for the page, reads which sizes of the images it needs, and loads them over six connections.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bytes::Bytes;

use self::loads::{Loads, WAYS};
use super::running_server::{self, RunningServer};
use super::sites::{Kind, Stage};
use crate::context::{Context, progress};
use crate::measure::Latency;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::scenario::page::{FOURTEEN, THREE};
use crate::wordpress::photos;

mod loads;

/// The users at once, and the pages that each loads in a full run.
const USERS: u64 = 20;
const LOADS: u64 = 5;

/// The images of a page, as files to upload.
pub(super) struct Images {
    names: Vec<&'static str>,
    pub(super) files: Vec<PathBuf>,
    /// The contents of these files.
    bytes: Vec<Bytes>,
}

impl Images {
    fn make(dir: &Path, images: &[(&'static str, u64)]) -> Result<Self> {
        let dir = dir.join(format!("page-{}", images.len()));
        std::fs::create_dir_all(&dir)?;
        let mut made = Self {
            names: images.iter().map(|(name, _)| *name).collect(),
            files: vec![],
            bytes: vec![],
        };
        for (seed, (name, len)) in (0..).zip(images) {
            let file = dir.join(name);
            photos::picture(&file, *len, seed)?;
            made.bytes.push(std::fs::read(&file)?.into());
            made.files.push(file);
        }
        Ok(made)
    }
}

/// A server of the pages.
struct Place {
    name: &'static str,
    kind: Option<Kind>,
    addr: SocketAddr,
    /// The site's name in requests.
    host: String,
    /// The posts of each page. They have the same images, each in files of its own.
    posts: [Vec<u64>; 2],
}

/// Publishes both pages on each site, empties its caches, and loads the pages, cold and warm; also from other servers
/// behind nginx.
pub(super) async fn run(
    context: &Context,
    stages: &mut [Stage],
    each: u64,
    report: &mut Report,
) -> Result<()> {
    let each = each.min(LOADS);
    let pages = [
        Images::make(context.dir(), THREE)?,
        Images::make(context.dir(), FOURTEEN)?,
    ];
    let mut places = vec![];
    for stage in stages.iter_mut().filter(|stage| stage.kind != Kind::Close) {
        progress(format!("posts: {}", stage.kind.name()));
        let mut posts = [vec![], vec![]];
        for (images, posts) in pages.iter().zip(&mut posts) {
            *posts = stage.publish(images, USERS * each).await?;
        }
        stage.empty()?;
        let addr = stage.site.places.addr;
        places.push(Place {
            name: stage.kind.name(),
            kind: Some(stage.kind),
            addr,
            host: addr.to_string(),
            posts,
        });
    }
    let served = serve(context, stages, &mut places, report).await;
    for (at, images) in pages.iter().enumerate() {
        let mut found = vec![];
        for place in &places {
            let count = images.names.len();
            progress(format!("pages of {count} images, {}", place.name));
            for way in &WAYS {
                let loads = loads::load(place, &place.posts[at], images, way, each).await;
                found.push((place, way, loads.context(place.name)?));
            }
        }
        let title = format!(
            "a page's {} images, {} loads by {USERS} users, ms",
            images.names.len(),
            USERS * each
        );
        tables(report, title, images, &found);
        judge(report, images.names.len(), &found);
    }
    drop(served);
    Ok(())
}

/// Starts other servers of the local site's uploads, behind an nginx each.
async fn serve(
    context: &Context,
    stages: &[Stage],
    places: &mut Vec<Place>,
    report: &mut Report,
) -> Vec<RunningServer> {
    let mut all = vec![];
    let local = stages.iter().find(|stage| stage.kind == Kind::Local);
    let posts = places.iter().find(|place| place.kind == Some(Kind::Local));
    let (Some(local), Some(posts)) = (local, posts.map(|place| place.posts.clone())) else {
        return all;
    };
    for name in [running_server::SECOND_NGINX, running_server::RCLONE] {
        if !context.takes_part(name) {
            continue;
        }
        let served = match name {
            running_server::RCLONE => running_server::rclone(context, &local.site).await,
            _ => running_server::second_nginx(context, &local.site),
        };
        match served {
            Ok(served) => {
                report.peer(name, &served.config);
                places.push(Place {
                    name,
                    kind: None,
                    addr: served.addr,
                    host: local.site.places.addr.to_string(),
                    posts: posts.clone(),
                });
                all.push(served);
            }
            Err(error) => report.notes.push(format!("{name} left out: {error:#}")),
        }
    }
    all
}

type PageLoads<'a> = (&'a Place, &'static loads::Way, Loads);

/// Adds a table with the page's HTML, its images, and the page as a whole; images have rows of their own if they are few.
fn tables(report: &mut Report, title: String, images: &Images, found: &[PageLoads<'_>]) {
    let row = |what: &str, (place, way, _): &PageLoads<'_>, latency: &Latency| {
        let found = latency.percentiles();
        let figures = [found.avg, found.p50, found.p90, found.p99, found.p100];
        let names = [what, place.name, way.name].map(str::to_owned);
        names.into_iter().chain(figures.map(figure)).collect()
    };
    let mut rows: Vec<Vec<String>> = vec![];
    rows.extend(found.iter().map(|one| row("HTML", one, &one.2.html)));
    if images.names.len() <= THREE.len() {
        for (at, name) in images.names.iter().enumerate() {
            rows.extend(found.iter().map(|one| row(name, one, &one.2.images[at])));
        }
    }
    rows.extend(found.iter().map(|one| row("all images", one, &one.2.all())));
    rows.extend(found.iter().map(|one| row("the page", one, &one.2.page)));
    let columns = ["", "uploads", "", "avg", "p50", "p90", "p99", "p100"];
    report.table(title, &columns, rows);
}

/// Compares the images of a warm page, which do not compete on one connection, with those of a local folder.
fn judge(report: &mut Report, count: usize, found: &[PageLoads<'_>]) {
    let of = |name| {
        let one = found
            .iter()
            .find(|(place, way, _)| place.name == name && way.connections == 1);
        one.map(|(_, _, loads)| loads.all().percentiles())
    };
    let [ours, local] = [Kind::Background, Kind::Local].map(|kind| of(kind.name()));
    if let (Some(ours), Some(floor)) = (&ours, of(running_server::SECOND_NGINX)) {
        let (middle, last) = (ours.p50 / floor.p50, ours.p99 / floor.p99);
        report.notes.push(format!(
            "{count} images, warm, over a second nginx behind the first: p50 {middle:.2}, p99 {last:.2}"
        ));
    }
    if let (Some(ours), Some(local)) = (ours, local) {
        let figure =
            |what: &str| format!("{count} images, warm, {what} over nginx on a local folder");
        report.aim(figure("p50"), ours.p50 / local.p50, Target::AtMost(1.2));
        report.aim(figure("p99"), ours.p99 / local.p99, Target::AtMost(1.3));
        let micros = (ours.p50 - local.p50) * 1e3;
        report.notes.push(format!(
            "{count} images, warm: p50 {micros:.0} µs above a local folder"
        ));
    }
}
