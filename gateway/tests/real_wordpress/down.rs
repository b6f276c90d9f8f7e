//! Recipe 1 while the bucket or the gateway is down.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use loadtest::wordpress::{Answer, Browser, Media, photos, recipe};

use crate::world::{Store, World, until};

/// Number of sizes that WordPress makes of a photo, with the original.
const SIZES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_outlives_a_bucket_that_is_down() -> Result<()> {
    an_upload_outlives_a_bucket_that_goes(Gone::Before).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_outlives_a_bucket_that_goes_meanwhile() -> Result<()> {
    an_upload_outlives_a_bucket_that_goes(Gone::AtTheFirstPut).await
}

/// The moment from which the bucket is down.
#[derive(Clone, Copy)]
enum Gone {
    Before,
    AtTheFirstPut,
}

/// Uploads while the bucket goes.
async fn upload_meanwhile(world: &World, editor: &Browser, photo: &Path) -> Result<Media> {
    let before = world.asked().await.put;
    let upload = tokio::task::spawn_blocking({
        let (editor, photo) = (editor.clone(), photo.to_owned());
        move || editor.upload(&photo)
    });
    until(async || world.tally.asked().put > before).await?;
    world.door.shut();
    upload.await?
}

async fn an_upload_outlives_a_bucket_that_goes(gone: Gone) -> Result<()> {
    let mut world = World::start().await;
    let editor = world.site.log_in()?;
    editor.upload(&world.photo("first.jpg", 1))?;
    // From now on the month's folder was there before the gateway, which has listed it once.
    world.gateway.kill()?;
    world.gateway.restart()?;
    editor.upload(&world.photo("before.jpg", 3))?;
    let photo = world.photo("second.jpg", 2);
    let media = match gone {
        Gone::Before => {
            world.door.shut();
            editor.upload(&photo)?
        }
        Gone::AtTheFirstPut => upload_meanwhile(&world, &editor, &photo).await?,
    };
    assert!(media.paths.len() >= SIZES, "{:?}", media.paths);
    // Visitors see what is in the spool alone. At the first PUT, not all files were there.
    world.shows(&media.paths)?;
    let seen = media.paths.iter().map(|path| (path, world.visit(path)));
    let is_unsent = |(_, seen): &(&String, Answer)| {
        (seen.header("etag"), seen.header("cache-control")) == (None, Some("no-cache"))
    };
    let unsent: Vec<_> = seen.filter(is_unsent).collect();
    let expected = match gone {
        Gone::Before => media.paths.len(),
        Gone::AtTheFirstPut => 1,
    };
    assert!(
        unsent.len() >= expected,
        "{} files are unsent",
        unsent.len()
    );
    // The next process serves it as well, and it arrives.
    world.gateway.kill()?;
    world.gateway.restart()?;
    for (path, seen) in &unsent {
        assert_eq!(world.visit(path).body, seen.body, "{path}");
    }
    world.door.open();
    world.is_well(&media, SIZES).await
}

/// The deadline of a mount in place of the default of 30 s.
const DEADLINE: Duration = Duration::from_secs(5);

/// Returns the recipe with that deadline.
fn soon(toml: String) -> String {
    let probe = "probe = \"1s\"";
    let names = [(
        probe,
        format!("{probe}\ndeadline = \"{}s\"", DEADLINE.as_secs()),
    )];
    recipe::replaced(&toml, &names).expect("the recipe's option")
}

#[tokio::test(flavor = "multi_thread")]
async fn with_close_an_upload_fails_in_time_and_leaves_nothing() -> Result<()> {
    let store = Store::start().await?;
    let world = World::on(store, "wordpress-servers.toml", soon).await;
    let editor = world.site.log_in()?;
    let media = editor.upload(&world.photo("first.jpg", 1))?;
    world.is_well(&media, SIZES).await?;
    world.has_sent_all().await?;
    let before = world.bucket.list("").await?;
    let photo = world.photo("second.jpg", 2);
    world.door.shut();
    // The bucket's last answers count for that long.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let since = Instant::now();
    let answer = editor.try_upload(&photo)?;
    let took = since.elapsed();
    let said = answer.text();
    assert!(
        said.contains("\"success\":false") && said.contains("message"),
        "{said}"
    );
    // The open fails before the deadline, and WordPress gives up. The rest is left to a slow machine.
    assert!(took < DEADLINE * 6, "{took:?}");
    // Earlier files are still served.
    world.shows(&media.paths)?;
    world.door.open();
    // Nothing of it comes later either, whole or in parts.
    world.has_sent_all().await?;
    let coming = media
        .paths
        .iter()
        .map(|path| path.replace("/first", "/second"));
    let coming: Vec<_> = coming.collect();
    assert_eq!(world.bucket.list("").await?, before);
    // The gateway asks the bucket again a moment after it is back.
    until(async || world.visit(&coming[0]).status != 503).await?;
    for path in &coming {
        assert_eq!(world.visit(path).status, 404, "{path}");
        let key = path.replace("/wp-content/", "");
        assert_eq!(world.bucket.unfinished(&key).await?, 0, "{key}");
    }
    // A plain retry succeeds as soon as the bucket is asked again.
    let mut again = None;
    until(async || {
        again = editor.upload(&photo).ok();
        again.is_some()
    })
    .await?;
    let media = again.expect("uploaded");
    assert_eq!(media.paths, coming);
    world.is_well(&media, SIZES).await
}

/// A film larger than a part, whose upload is under way when the bucket goes.
const FILM: u64 = 48 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn with_close_an_upload_that_is_cut_in_the_middle_is_whole_or_nothing() -> Result<()> {
    let store = Store::start().await?;
    let world = World::on(store, "wordpress-servers.toml", soon).await;
    let editor = world.site.log_in()?;
    let media = editor.upload(&world.photo("first.jpg", 1))?;
    let film = world.source("film.mp4");
    photos::film(&film, FILM)?;
    let path = media.paths[0].rsplit_once('/').context("a path")?.0;
    let path = format!("{path}/film.mp4");
    let key = path.replace("/wp-content/", "");
    let before = world.asked().await.put;
    let answer = tokio::task::spawn_blocking({
        let (editor, film) = (editor.clone(), film.clone());
        move || editor.try_upload(&film)
    });
    // With its first part the gateway knows the upload, and can give it up.
    until(async || world.tally.asked().put > before).await?;
    world.door.shut();
    assert!(world.bucket.get(&key).await.is_err(), "half of it is there");
    // PHP does not look at what a close says: so WordPress may call it done, and then it comes.
    let said = answer.await??.text();
    world.door.open();
    world.has_sent_all().await?;
    assert_eq!(world.bucket.unfinished(&key).await?, 0);
    match said.contains("\"success\":true") {
        true => world.arrives(&[path]).await,
        false => {
            assert!(world.bucket.get(&key).await.is_err(), "{said}");
            Ok(())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_gateway_nothing_is_written_and_pages_go_on() -> Result<()> {
    let mut world = World::start().await;
    let editor = world.site.log_in()?;
    let media = editor.upload(&world.photo("first.jpg", 1))?;
    let photo = world.photo("second.jpg", 2);
    for killed in [true, false] {
        match killed {
            true => world.gateway.kill()?,
            // An orderly unmount: programs see the folder below.
            false => world.gateway.stop(),
        }
        let said = editor.try_upload(&photo)?.text();
        assert!(said.contains("\"success\":false"), "{said}");
        assert_eq!(world.visit("/").status, 200, "a page");
        assert_eq!(world.visit(&media.paths[0]).status, 502, "an image");
        if !killed {
            let below = fs::read_dir(world.site.places.uploads())?.count();
            assert_eq!(below, 0, "files beneath the mount point");
        }
        world.gateway.restart()?;
        world.shows(&media.paths)?;
        world.is_well(&editor.upload(&photo)?, SIZES).await?;
    }
    Ok(())
}
