//! Recipe 3 as it is shipped: WordPress on one of two servers, and the view of visitors of the
//! other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use loadtest::wordpress::recipe;

use crate::servers::Server;
use crate::world::{Store, World};

pub(crate) const RECIPE: &str = "wordpress-servers.toml";

/// Every body that visitors of a server got, by path.
type Seen = HashMap<String, Vec<Vec<u8>>>;

/// Returns a time from the recipe plus a tenth of it: later visitors see the change.
pub(crate) fn bound(key: &str) -> Result<Duration> {
    let text = recipe::read(RECIPE)?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
    let seconds = value.and_then(|value| value.strip_suffix("s\""));
    let seconds: u32 = seconds.context("a time in seconds")?.parse()?;
    Ok(Duration::from_secs(1) * seconds + Duration::from_millis(100) * seconds)
}

/// Visits every path over and over until told to stop.
fn look(server: &Server, paths: &[String], stop: &AtomicBool) -> Result<Seen> {
    let mut seen = Seen::new();
    for path in paths.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Some(body) = server.see(path)? else {
            continue;
        };
        let bodies = seen.entry(path.clone()).or_default();
        if !bodies.contains(&body) {
            bodies.push(body);
        }
    }
    Ok(seen)
}

/// Runs `act` on the one server while visitors of the other look; returns their bodies, too.
fn meanwhile<T>(
    other: &Server,
    paths: &[String],
    act: impl FnOnce() -> Result<T>,
) -> Result<(T, Seen)> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let visitor = scope.spawn(|| look(other, paths, &stop));
        let done = act();
        stop.store(true, Ordering::Relaxed);
        let seen = visitor.join().expect("no panic");
        Ok((done?, seen?))
    })
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn what_is_done_on_one_server_is_seen_whole_on_the_other_within_the_recipes_bound()
-> Result<()> {
    let store = Store::start().await?;
    let (dir, origin) = (store.dir.path().join("other"), store.origin());
    let world = World::on(store, RECIPE, |toml| toml).await;
    // Dropped before the world, which has the folder of both.
    let other = Server::start(&dir, "other", &origin, Ok)?;
    let editor = world.site.log_in()?;
    let first = editor.upload(&world.photo("first.jpg", 1))?;
    let coming = first
        .paths
        .iter()
        .map(|path| path.replace("/first", "/second"));
    let coming: Vec<_> = coming.collect();
    let photo = world.photo("second.jpg", 2);

    // A page with images that do not exist yet, and then do.
    let (second, seen) = meanwhile(&other, &coming, || {
        let second = editor.upload(&photo)?;
        thread::sleep(bound("negative_ttl")?);
        Ok(second)
    })?;
    ensure!(second.paths == coming, "{:?}", second.paths);
    world.shows(&second.paths)?;
    for path in &second.paths {
        let whole = world.visit(path).body;
        ensure!(
            other.see(path)?.as_ref() == Some(&whole),
            "{path}: not seen"
        );
        let half = seen
            .get(path)
            .into_iter()
            .flatten()
            .find(|body| **body != whole);
        ensure!(half.is_none(), "{path}: half of an image was seen");
    }

    // One is replaced in place, the other deleted.
    let (replaced, gone) = (&second.paths[0], &first.paths);
    let before = world.visit(replaced).body;
    ensure!(
        gone.iter()
            .all(|path| matches!(other.see(path), Ok(Some(_)))),
        "not seen"
    );
    let code = format!(
        "copy('{}', '{}') or die('copy');",
        world.file(&first.paths[0]).display(),
        world.file(replaced).display()
    );
    let ((), seen) = meanwhile(&other, &coming[..1], || {
        ensure!(world.site.php(&code)?.is_empty(), "not copied");
        editor.delete(first.id)?;
        thread::sleep(bound("ttl")?);
        Ok(())
    })?;
    let after = world.visit(replaced).body;
    ensure!(before != after, "it is another picture");
    ensure!(other.see(replaced)?.as_ref() == Some(&after), "too old");
    let mut bodies = seen.values().flatten();
    ensure!(
        bodies.all(|body| [&before, &after].contains(&body)),
        "half of an image"
    );
    for path in gone {
        ensure!(other.see(path)?.is_none(), "{path}: deleted for all");
    }
    Ok(())
}
