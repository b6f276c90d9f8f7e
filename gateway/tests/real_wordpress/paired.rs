//! Recipe 3 as it is shipped: two servers of one site, each with PHP, a gateway and a mount of its own, on one database
//! and one bucket. What one PHP writes the other's PHP works with.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use loadtest::wordpress::gateway::Gateway;
use loadtest::wordpress::recipe::{self, Home};
use loadtest::wordpress::{Edit, Places, Site};

use crate::balanced::{RECIPE, bound};
use crate::world::{PROGRAM, Store, World};

/// Returns the path of an upload below a server's mount.
fn file(site: &Site, path: &str) -> PathBuf {
    site.places.root.join(path.trim_start_matches('/'))
}

/// Returns the checksum that a server's PHP finds of each file in its mount; `none` for what is not there.
fn sums(site: &Site, paths: &[String]) -> Result<Vec<String>> {
    let files = paths
        .iter()
        .map(|path| format!("'{}'", file(site, path).display()));
    let said = site.php(&format!(
        "foreach ([{}] as $file) {{ echo file_exists($file) ? md5_file($file) : 'none', \"\\n\"; }}",
        files.collect::<Vec<_>>().join(", ")
    ))?;
    let sums: Vec<_> = said.lines().map(str::to_owned).collect();
    ensure!(sums.len() == paths.len(), "{said}");
    Ok(sums)
}

/// Checks that both servers' PHP finds the same whole files.
fn are_the_same(one: &Site, other: &Site, paths: &[String]) -> Result<()> {
    let sums = [sums(one, paths)?, sums(other, paths)?];
    ensure!(!sums[0].contains(&"none".to_owned()), "{sums:?}");
    ensure!(sums[0] == sums[1], "{paths:?}: {sums:?}");
    Ok(())
}

/// The path of a file, and bytes that a program has read of it.
type FileRead = (String, Vec<u8>);

/// Runs `act`, while a program on a server reads these files over and over; returns all that it has read of each.
fn read_meanwhile<T>(
    site: &Site,
    paths: &[String],
    act: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<FileRead>)> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = vec![];
            for path in paths.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let found = fs::read(file(site, path)).map(|bytes| (path.clone(), bytes));
                seen.extend(found.ok().filter(|found| !seen.contains(found)));
            }
            seen
        });
        let done = act();
        stop.store(true, Ordering::Relaxed);
        Ok((done?, reader.join().expect("no panic")))
    })
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn what_is_uploaded_on_one_server_is_edited_and_deleted_on_the_other() -> Result<()> {
    let store = Store::start().await?;
    let dir = store.dir.path();
    let places = Places::lay_out(&dir.join("other"))?;
    let home = Home::make(dir.join("other-gateway"))?;
    let toml = recipe::gateway(RECIPE, &home, &places.root, &store.origin())?;
    let world = World::on(store, RECIPE, |toml| toml).await;
    let program = Path::new(PROGRAM);
    let _gateway = Gateway::start(program, &home, &toml, Some(places.uploads()))?;
    let http = recipe::nginx("wordpress-mount.conf", &home, &places)?;
    let (one, other) = (&world.site, &world.site.beside(places, &http)?);
    let editor = one.log_in()?;
    let first = editor.upload(&world.photo("first.jpg", 1))?;
    let photo = world.photo("second.jpg", 2);
    let coming = first
        .paths
        .iter()
        .map(|path| path.replace("/first", "/second"));
    let coming: Vec<_> = coming.collect();

    // The other server's programs have looked for the files before they are there.
    ensure!(sums(other, &coming)?.iter().all(|sum| sum == "none"));
    let (second, seen) = read_meanwhile(other, &coming, || {
        let second = editor.upload(&photo)?;
        thread::sleep(bound("negative_ttl")?);
        are_the_same(one, other, &second.paths)?;
        Ok(second)
    })?;
    ensure!(second.paths == coming, "{:?}", second.paths);
    for (path, bytes) in &seen {
        ensure!(
            fs::read(file(one, path))? == *bytes,
            "{path}: half was read"
        );
    }

    // The editor's next request goes to the other server, whose PHP reads the photo and makes its sizes anew.
    let edited = editor.at(other).edit(&second, &[Edit::Rotate(90)])?;
    ensure!(edited != second.paths, "not edited");
    thread::sleep(bound("negative_ttl")?);
    are_the_same(one, other, &edited)?;
    world.shows(&edited)?;

    // A folder that the one server has made answers for others' names no longer than any other.
    let made =
        one.php("$up = wp_upload_dir();\nwp_mkdir_p(\"$up[basedir]/made\") or die('mkdir');")?;
    let new = ["/wp-content/uploads/made/new.txt".to_owned()];
    ensure!(made.is_empty() && sums(one, &new)? == ["none"], "{made}");
    thread::sleep(bound("negative_ttl")?);
    let code = format!(
        "file_put_contents('{}', 'new') or die('put');",
        file(other, &new[0]).display()
    );
    ensure!(other.php(&code)?.is_empty(), "not written");
    thread::sleep(bound("negative_ttl")?);
    are_the_same(one, other, &new)?;

    // One file is replaced in place on the one server, another upload is deleted on the other.
    let replaced = &edited[..1];
    let before = sums(other, replaced)?;
    ensure!(!sums(other, &first.paths)?.contains(&"none".to_owned()));
    let code = format!(
        "copy('{}', '{}') or die('copy');",
        file(one, &first.paths[0]).display(),
        file(one, &replaced[0]).display()
    );
    ensure!(one.php(&code)?.is_empty(), "not copied");
    editor.at(other).delete(first.id)?;
    thread::sleep(bound("ttl")?);
    are_the_same(one, other, replaced)?;
    ensure!(sums(other, replaced)? != before, "too old");
    let gone = sums(one, &first.paths)?;
    ensure!(gone.iter().all(|sum| sum == "none"), "{gone:?}");
    let visitor = first.paths.first().context("a path")?;
    ensure!(world.visit(visitor).status == 404, "{visitor}");
    Ok(())
}
