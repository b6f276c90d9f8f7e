//! Recipe 1: a film larger than the gateway's memory, through PHP and the spool.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use loadtest::wordpress::{Curl, photos};

use crate::world::{World, until};

/// Megabytes of the film, unless `TIDEGATE_FILM` says otherwise; `just long-wordpress` has 1,024.
const FILM: u64 = 160;
/// The most memory that the gateway may add during the upload: its cache and its budget as configured here, and some
/// more.
const MOST_MEMORY: u64 = 80 << 20;

/// Returns the spool's use, in bytes.
fn spooled(admin: SocketAddr) -> Result<u64> {
    let text = Curl::new(admin, None).get("/metrics")?.text();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("tidegate_spool_used_bytes "));
    Ok(value.context("no such metric")?.parse()?)
}

/// Returns a figure of `/proc/PID/status` in bytes (proc_pid_status(5)).
fn memory(pid: u32, name: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_suffix(" kB"));
    let kibibytes: u64 = value.context("no such line")?.trim().parse()?;
    Ok(kibibytes << 10)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_takes_neither_memory_nor_room_for_long() -> Result<()> {
    let asked = std::env::var("TIDEGATE_FILM").map(|text| text.parse());
    let film = asked.unwrap_or(Ok(FILM))? << 20;
    let little = |toml: String| {
        let recipes = "memory = \"512MiB\"";
        assert!(toml.contains(recipes));
        toml.replace(recipes, "memory = \"16MiB\"\nbudget = \"32MiB\"")
    };
    let world = World::with(little).await;
    let editor = world.site.log_in()?;
    world
        .is_well(&editor.upload(&world.photo("photo.jpg", 1))?, 1)
        .await?;
    let (admin, pid) = (world.home.admin, world.gateway.pid().context("it runs")?);
    let before = memory(pid, "VmRSS:")?;
    let source = world.source("film.mp4");
    photos::film(&source, film)?;
    let stop = AtomicBool::new(false);
    let (media, most) = thread::scope(|scope| {
        let watch = scope.spawn(|| -> Result<u64> {
            let mut most = 0;
            while !stop.load(Ordering::Relaxed) {
                most = most.max(spooled(admin)?);
                thread::sleep(Duration::from_millis(50));
            }
            Ok(most)
        });
        let media = editor.upload(&source);
        stop.store(true, Ordering::Relaxed);
        anyhow::Ok((media?, watch.join().expect("no panic")?))
    })?;
    world.shows(&media.paths)?;
    world.arrives(&media.paths).await?;
    // It was uploaded in parts: MinIO's ETag has their number.
    let head = world.site.curl().run(&media.paths[0], &["-I"])?;
    let etag = head.header("etag").context("no ETag")?;
    ensure!(etag.contains('-'), "one single PUT: {etag}");
    until(async || spooled(admin).is_ok_and(|used| used == 0)).await?;
    let grown = memory(pid, "VmHWM:")?.saturating_sub(before);
    println!(
        "a film of {} MB in {:.1} s: {} MB of memory, {} MB in the spool at most",
        film >> 20,
        media.took.as_secs_f64(),
        grown >> 20,
        most >> 20
    );
    ensure!(grown <= MOST_MEMORY, "{grown} bytes of memory");
    ensure!(most <= film + (film >> 3), "{most} bytes in the spool");
    Ok(())
}
