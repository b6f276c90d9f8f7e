//! Recipe 1: the requests to the bucket that an upload costs.

use std::time::{Duration, Instant};

use anyhow::Result;
use loadtest::tally::Asked;
use loadtest::wordpress::{photos, recipe};

use crate::world::{Store, World, until};

/// Number of sizes that WordPress makes of a photo, with the original.
const SIZES: usize = 6;

/// Size of a photo that WordPress does not scale down.
const PHOTO: (u32, u32) = (2400, 1800);

/// Uploads a photo into a folder that the gateway knows. Each file is one PUT; nothing is asked and nothing read back,
/// neither by WordPress nor for visitors. The folder is listed once each time that its names are older than `ttl`, and
/// until the photo is made, which its sizes continue, once in each `negative_ttl`. The bucket itself is asked only if
/// `probes`, and only where it has answered nothing for as long as an answer counts.
async fn an_upload_costs_one_put_a_file(
    world: &World,
    (ttl, negative_ttl): (Duration, Duration),
    probes: bool,
) -> Result<()> {
    let editor = world.site.log_in()?;
    editor.upload(&world.photo("first.jpg", 1))?;
    // WordPress works on its sizes for longer than an answer of the bucket counts.
    let photo = world.source("second.jpg");
    photos::photo(&photo, PHOTO, 2)?;
    let before = world.asked().await;
    let since = Instant::now();
    let upload = tokio::task::spawn_blocking(move || editor.upload(&photo));
    until(async || world.tally.asked().put > before.put).await?;
    let made = since.elapsed();
    let media = upload.await??;
    world.is_well(&media, SIZES).await?;
    let times = |time: Duration, bound: Duration| time.as_secs() / bound.as_secs();
    let lists = 1 + times(made, negative_ttl) + times(since.elapsed(), ttl);
    let asked = world.asked().await.since(before);
    let files = u64::try_from(media.paths.len())?;
    assert!(asked.list <= lists, "{lists} LISTs at most: {asked:?}");
    assert!(asked.bucket == 0 || probes, "probes: {asked:?}");
    assert_eq!(asked.bucket_again, 0, "needless probes: {asked:?}");
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
    an_upload_costs_one_put_a_file(&World::start().await, (ttl, ttl), false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_with_close_is_one_put_a_file() -> Result<()> {
    let store = Store::start().await?;
    let change = |toml: String| recipe::lasting(&toml).expect("the recipe");
    let world = World::on(store, "wordpress-servers.toml", change).await;
    let times = (Duration::from_hours(1), Duration::from_secs(1));
    an_upload_costs_one_put_a_file(&world, times, true).await
}
