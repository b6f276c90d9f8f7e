//! Recipe 1: the requests to the bucket that an upload costs.

use std::time::{Duration, Instant};

use anyhow::Result;
use loadtest::tally::Asked;
use loadtest::wordpress::recipe;

use crate::world::{Store, World};

/// Number of sizes that WordPress makes of a photo, with the original.
const SIZES: usize = 6;

/// Uploads a photo into a folder that the gateway knows. Each file is one PUT; nothing is asked and nothing read back,
/// neither by WordPress nor for visitors. The folder is listed once each time that its names are older than `ttl`, and the
/// bucket itself is asked once in each `probe`.
async fn an_upload_costs_one_put_a_file(
    world: &World,
    ttl: Duration,
    probe: Option<Duration>,
) -> Result<()> {
    let editor = world.site.log_in()?;
    editor.upload(&world.photo("first.jpg", 1))?;
    let photo = world.photo("second.jpg", 2);
    let before = world.asked().await;
    let since = Instant::now();
    let media = editor.upload(&photo)?;
    world.is_well(&media, SIZES).await?;
    let times = |time: Duration| 1 + since.elapsed().as_secs() / time.as_secs();
    let (lists, probes) = (times(ttl), probe.map_or(0, times));
    let asked = world.asked().await.since(before);
    let files = u64::try_from(media.paths.len())?;
    assert!(asked.list <= lists, "{lists} LISTs at most: {asked:?}");
    assert!(asked.bucket <= probes, "{probes} probes at most: {asked:?}");
    let expected = Asked {
        put: files,
        list: asked.list,
        bucket: asked.bucket,
        sent: asked.sent,
        ..Asked::default()
    };
    assert_eq!(asked, expected, "one PUT a file");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_in_the_background_is_one_put_a_file() -> Result<()> {
    let ttl = Duration::from_mins(10);
    an_upload_costs_one_put_a_file(&World::start().await, ttl, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_with_close_is_one_put_a_file() -> Result<()> {
    let store = Store::start().await?;
    let change = |toml: String| recipe::lasting(&toml).expect("the recipe");
    let world = World::on(store, "wordpress-servers.toml", change).await;
    let second = Duration::from_secs(1);
    an_upload_costs_one_put_a_file(&world, second, Some(second)).await
}
