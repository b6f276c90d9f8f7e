//! A mount beside the listeners: what its kernel holds of a name is over when an event reports a change.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

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
    /// Waits until a program sees these bytes in a file, with their number as its size, or that there is none.
    async fn shows(&self, name: &str, bytes: Option<&'static str>) {
        let path = folder(self.folder.path()).join(name);
        let since = Instant::now();
        loop {
            let path = path.clone();
            let look = move || {
                let size = fs::metadata(&path).ok()?.len();
                Some((size, fs::read_to_string(&path).ok()?))
            };
            let seen = tokio::task::spawn_blocking(look).await.expect("no panic");
            let wanted = bytes.map(|bytes| (bytes.len() as u64, bytes.to_owned()));
            if seen == wanted {
                return;
            }
            assert!(since.elapsed() < LONG, "{name}: {seen:?}, not {wanted:?}");
            sleep(Duration::from_millis(5)).await;
        }
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
