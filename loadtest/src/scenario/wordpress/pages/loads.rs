//! The page loads of many browsers at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use http::StatusCode;

use super::{Images, Place, USERS};
use crate::client::Connection;
use crate::measure::Latency;
use crate::wordpress::html;

/// Connections of a browser to one server.
const BROWSER: usize = 6;
/// The width of a browser's window in pixels.
const WINDOW: u32 = 1920;
/// A user's pause before the next page, so that the load stays below the capacity of two cores. WordPress needs
/// some 50 ms of one for a page.
const READS: Duration = Duration::from_secs(2);

/// A way to load the pages.
pub(super) struct Way {
    pub(super) name: &'static str,
    /// The connections of a user.
    pub(super) connections: usize,
    /// Whether each load is of another page, which was not seen before.
    is_cold: bool,
}

/// The ways, in turn.
pub(super) const WAYS: [Way; 3] = [
    Way {
        name: "cold",
        connections: BROWSER,
        is_cold: true,
    },
    Way {
        name: "warm",
        connections: BROWSER,
        is_cold: false,
    },
    Way {
        name: "warm, one connection",
        connections: 1,
        is_cold: false,
    },
];

/// Durations of the loads of a page.
#[derive(Debug, Clone, Default)]
pub(super) struct Loads {
    pub(super) html: Latency,
    /// Those of each image.
    pub(super) images: Vec<Latency>,
    /// From the request for the HTML to the end of the last image.
    pub(super) page: Latency,
}

impl Loads {
    fn of(images: &Images) -> Self {
        Self {
            images: vec![Latency::default(); images.names.len()],
            ..Self::default()
        }
    }

    /// Returns the durations of all images.
    pub(super) fn all(&self) -> Latency {
        let mut all = Latency::default();
        self.images.iter().for_each(|one| all.merge(one));
        all
    }

    fn merge(&mut self, other: &Self) {
        self.html.merge(&other.html);
        self.page.merge(&other.page);
        for (one, other) in self.images.iter_mut().zip(&other.images) {
            one.merge(other);
        }
    }
}

/// Loads `posts` by all users, `each` of them.
pub(super) async fn load(
    place: &Place,
    posts: &[u64],
    images: &Images,
    way: &Way,
    each: u64,
) -> Result<Loads> {
    let users = (0..USERS).map(|user| async move {
        let mut loads = Loads::of(images);
        let opened = (0..way.connections).map(|_| Connection::open(place.addr));
        let opened = try_join_all(opened).await?.into_iter();
        let mut browser: Vec<_> = opened
            .map(|connection| connection.to_host(place.host.clone()))
            .collect();
        tokio::time::sleep(READS * u32::try_from(user)? / u32::try_from(USERS)?).await;
        for load in 0..each {
            let post = if way.is_cold { user * each + load } else { 0 };
            let post = posts.get(usize::try_from(post)?).context("no post")?;
            loads.page(&mut browser, *post, images).await?;
            tokio::time::sleep(READS).await;
        }
        anyhow::Ok(loads)
    });
    let mut all = Loads::of(images);
    for one in try_join_all(users).await? {
        all.merge(&one);
    }
    Ok(all)
}

impl Loads {
    /// Loads a page. Each connection takes the next image from a common list.
    async fn page(&mut self, browser: &mut [Connection], post: u64, images: &Images) -> Result<()> {
        for connection in browser.iter_mut() {
            connection.revive().await?;
        }
        let since = Instant::now();
        let (answer, timing) = browser[0].get(&format!("/?p={post}"), &[]).await?;
        let status = answer.head.status;
        ensure!(status == StatusCode::OK, "post {post}: {status}");
        let shown = html::images(&String::from_utf8_lossy(&answer.body), WINDOW);
        let paths = shown.iter().filter_map(|address| {
            let from = address.find("/wp-content/uploads/")?;
            Some(&address[from..])
        });
        let paths: Vec<_> = paths.collect();
        ensure!(paths.len() == images.names.len(), "post {post}: {shown:?}");
        let next = AtomicUsize::new(0);
        let loading = browser
            .iter_mut()
            .map(|connection| fetch(connection, &next, &paths, images));
        let loaded = try_join_all(loading).await?;
        self.page.record(since.elapsed());
        self.html.record(timing.total);
        for (image, took) in loaded.into_iter().flatten() {
            self.images[image].record(took);
        }
        Ok(())
    }
}

/// Loads images until none is left, and compares them with what was uploaded.
async fn fetch(
    connection: &mut Connection,
    next: &AtomicUsize,
    paths: &[&str],
    images: &Images,
) -> Result<Vec<(usize, Duration)>> {
    let mut took = vec![];
    loop {
        let image = next.fetch_add(1, Ordering::Relaxed);
        let Some(path) = paths.get(image) else {
            return Ok(took);
        };
        let (answer, timing) = connection.get(path, &[]).await?;
        let status = answer.head.status;
        ensure!(status == StatusCode::OK, "{path}: {status}");
        ensure!(
            answer.body == images.bytes[image],
            "{path}: other bytes than {}",
            images.names[image]
        );
        took.push((image, timing.total));
    }
}
