//! Recipes 1 and 3: the requests to the bucket that uploads cost.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use loadtest::tally::RequestCounts;
use loadtest::wordpress::{Media, photos, recipe};

use crate::mounted::make_the_months;
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
    let lists = most_lists((made, negative_ttl), (since.elapsed(), ttl));
    costs_one_put_a_file(world, before, &[media], lists, probes).await
}

/// Returns the most listings of a folder of one page: one, and one more whenever its missing names, until `made`, or all of
/// its names were too old.
fn most_lists(
    (made, negative_ttl): (Duration, Duration),
    (took, ttl): (Duration, Duration),
) -> u64 {
    1 + made.as_secs() / negative_ttl.as_secs() + took.as_secs() / ttl.as_secs()
}

/// Checks the requests since `before`: one PUT a file, at most so many listings, probes of the bucket if any are allowed and
/// none that was needless, and nothing else.
async fn costs_one_put_a_file(
    world: &World,
    before: RequestCounts,
    uploaded: &[Media],
    lists: u64,
    probes: bool,
) -> Result<()> {
    let asked = world.asked().await.since(before);
    let files: usize = uploaded.iter().map(|media| media.paths.len()).sum();
    assert!(asked.list <= lists, "{lists} LISTs at most: {asked:?}");
    assert!(asked.bucket == 0 || probes, "probes: {asked:?}");
    assert_eq!(asked.bucket_again, 0, "needless probes: {asked:?}");
    let expected = RequestCounts {
        put: u64::try_from(files)?,
        list: asked.list,
        bucket: asked.bucket,
        sent: asked.sent,
        ..RequestCounts::default()
    };
    assert_eq!(asked, expected, "one PUT a file");
    Ok(())
}

/// The number of photos that are uploaded at once.
const AT_ONCE: u32 = 10;

/// Uploads ten photos at once into a month that is empty.
async fn ten_uploads_at_once_cost_one_put_a_file(
    world: &World,
    (ttl, negative_ttl): (Duration, Duration),
    probes: bool,
) -> Result<()> {
    let editor = world.site.log_in()?;
    // WordPress fails if two uploads make the folder of a month at the same moment, on any file system.
    make_the_months(world)?;
    let photos: Vec<_> = (0..AT_ONCE)
        .map(|n| world.photo(&format!("photo-{n}.jpg"), n))
        .collect();
    let before = world.asked().await;
    let since = Instant::now();
    let upload = |photo: PathBuf| {
        let editor = editor.clone();
        tokio::task::spawn_blocking(move || editor.upload(&photo))
    };
    let uploads: Vec<_> = photos.into_iter().map(upload).collect();
    let originals = async || {
        let found = world.bucket.list("uploads/").await.unwrap_or_default();
        let is_original =
            |key: &str| (0..AT_ONCE).any(|n| key.ends_with(&format!("/photo-{n}.jpg")));
        found.iter().filter(|(key, _)| is_original(key)).count() == AT_ONCE as usize
    };
    until(originals).await?;
    let made = since.elapsed();
    let mut uploaded = vec![];
    for upload in uploads {
        uploaded.push(upload.await??);
    }
    for media in &uploaded {
        world.is_well(media, SIZES).await?;
    }
    let lists = most_lists((made, negative_ttl), (since.elapsed(), ttl));
    costs_one_put_a_file(world, before, &uploaded, lists, probes).await
}

/// Starts a world on the recipe for several servers, with a `ttl` of an hour.
async fn closing() -> Result<World> {
    let store = Store::start().await?;
    let change = |toml: String| recipe::lasting(&toml).expect("the recipe");
    Ok(World::on(store, "wordpress-servers.toml", change).await)
}

/// The `ttl` and `negative_ttl` of the recipe for one machine, and of [`closing`].
const BACKGROUND_TTLS: (Duration, Duration) = (Duration::from_mins(10), Duration::from_mins(10));
const CLOSING_TTLS: (Duration, Duration) = (Duration::from_hours(1), Duration::from_secs(1));

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_in_the_background_is_one_put_a_file() -> Result<()> {
    an_upload_costs_one_put_a_file(&World::start().await, BACKGROUND_TTLS, false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_with_close_is_one_put_a_file() -> Result<()> {
    an_upload_costs_one_put_a_file(&closing().await?, CLOSING_TTLS, true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_uploads_at_once_in_the_background_are_one_put_a_file() -> Result<()> {
    let world = World::start().await;
    ten_uploads_at_once_cost_one_put_a_file(&world, BACKGROUND_TTLS, false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_uploads_at_once_with_close_are_one_put_a_file() -> Result<()> {
    ten_uploads_at_once_cost_one_put_a_file(&closing().await?, CLOSING_TTLS, true).await
}
