//! Recipe 1 with its socket unit: the gateway is restarted under load.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use loadtest::wordpress::{Browser, Curl, Media};

use crate::world::{LONG, World};

/// Number of concurrent visitors.
const VISITORS: u64 = 4;
/// The largest image that a visitor requests. It fits into a socket's buffer, so a kill cuts no answer in two: nginx
/// cannot repeat an answer that has begun.
const SMALL: usize = 100 << 10;

/// The ends of the gateway, `true` for a kill.
const ENDS: [bool; 4] = [true, false, true, false];

/// The requests of visitors, and their answers.
#[derive(Default)]
struct Visits {
    begun: AtomicU64,
    done: AtomicU64,
    /// Requests answered with 502.
    failed: AtomicU64,
    /// Begins and ends of kills.
    kills: AtomicU64,
    stop: AtomicBool,
}

impl Visits {
    /// Requests one image after the other, until told to stop.
    fn go_on(&self, curl: &Curl, images: &[(String, Vec<u8>)]) -> Result<()> {
        for (path, bytes) in images.iter().cycle() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.begun.fetch_add(1, Ordering::Relaxed);
            let answer = curl.get(path)?;
            match answer.status {
                502 => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                }
                status => ensure!(status == 200 && answer.body == *bytes, "{path}: {status}"),
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn until(&self, holds: impl Fn(u64, u64) -> bool) -> Result<()> {
        let since = Instant::now();
        while !holds(
            self.begun.load(Ordering::Relaxed),
            self.done.load(Ordering::Relaxed),
        ) {
            ensure!(since.elapsed() < LONG, "visits do not go on");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the gateway in the middle of visits, and starts it again when every visitor waits. Requests that nginx can
    /// repeat do not fail: all of them after an orderly end, and after a kill all but those under way.
    fn restart(&self, world: &mut World, killed: bool) -> Result<()> {
        let before = self.done.load(Ordering::Relaxed);
        self.until(|_, done| done >= before + 10 * VISITORS)?;
        match killed {
            true => {
                self.kills.fetch_add(1, Ordering::SeqCst);
                world.gateway.kill()?;
                self.kills.fetch_add(1, Ordering::SeqCst);
            }
            false => world.gateway.stop(),
        }
        self.until(|begun, done| begun == done + VISITORS)?;
        world.gateway.restart()?;
        let before = self.done.load(Ordering::Relaxed);
        self.until(|_, done| done >= before + VISITORS)?;
        let (failed, under_way) = (self.failed.swap(0, Ordering::Relaxed), VISITORS);
        let most = if killed { under_way } else { 0 };
        ensure!(failed <= most, "{failed} visits failed, killed: {killed}");
        Ok(())
    }
}

/// The photos that WordPress has recorded, each with its file.
#[derive(Default)]
struct Uploads {
    /// With the sizes that WordPress has read back: their closes had succeeded.
    read: Vec<Media>,
    /// Those that it could not read back. Either the close had failed, which PHP ignores, or the folder was gone after it.
    unread: Vec<UnreadPhoto>,
}

struct UnreadPhoto {
    media: Media,
    file: PathBuf,
    /// Whether the gateway was killed while it was uploaded.
    killed: bool,
}

impl Uploads {
    /// Uploads every photo until WordPress has read it back. An upload that finds the gateway down is repeated.
    fn of(editor: &Browser, photos: &[PathBuf], kills: &AtomicU64) -> Self {
        let (mut uploads, since) = (Self::default(), Instant::now());
        for photo in photos {
            while let Err(error) = uploads.upload(editor, photo, kills) {
                assert!(since.elapsed() < LONG, "{error:#}");
            }
        }
        uploads
    }

    fn upload(&mut self, editor: &Browser, photo: &Path, kills: &AtomicU64) -> Result<()> {
        let before = kills.load(Ordering::SeqCst);
        let mut media = editor.upload(photo)?;
        let killed = kills.load(Ordering::SeqCst) > before;
        let Some(paths) = editor.read_back(&media)? else {
            let file = photo.to_owned();
            self.unread.push(UnreadPhoto {
                media,
                file,
                killed,
            });
            assert!(
                self.unread.len() <= ENDS.len(),
                "more than the ends explain"
            );
            bail!("{} was not read back", photo.display());
        };
        media.paths = paths;
        self.read.push(media);
        Ok(())
    }

    /// Requires every photo that WordPress has read back, and of the others those that no kill has met.
    async fn are_kept(&self, world: &World) -> Result<()> {
        for media in &self.read {
            world.is_well(media, 1).await?;
        }
        for UnreadPhoto { media, file, .. } in self.unread.iter().filter(|photo| !photo.killed) {
            let photo = fs::read(file)?;
            let is_there = |path: &String| world.visit(path).body == photo;
            let kept = media.paths.iter().any(is_there);
            ensure!(kept, "an orderly end has failed the close of {}", media.url);
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_under_load_fails_no_visitor_and_loses_no_write() -> Result<()> {
    let mut world = World::with_socket_unit().await;
    let editor = world.site.log_in()?;
    let first = editor.upload(&world.photo("first.jpg", 1))?;
    let seen = first.paths.iter().map(|path| {
        let answer = world.visit(path);
        assert_eq!(answer.status, 200, "{path}");
        (path.clone(), answer.body)
    });
    let small: Vec<_> = seen.filter(|(_, body)| body.len() <= SMALL).collect();
    assert!(small.len() >= 2, "few small sizes: {:?}", first.paths);
    let photos: Vec<_> = (2..6)
        .map(|n| world.photo(&format!("{n}.jpg"), n))
        .collect();
    let (curl, visits) = (world.site.curl(), Visits::default());
    let uploads = thread::scope(|scope| {
        let visitors: Vec<_> = (0..VISITORS)
            .map(|_| scope.spawn(|| visits.go_on(&curl, &small)))
            .collect();
        let uploads = scope.spawn(|| Uploads::of(&editor, &photos, &visits.kills));
        let restarted = ENDS
            .into_iter()
            .try_for_each(|killed| visits.restart(&mut world, killed));
        let uploaded = uploads.join();
        visits.stop.store(true, Ordering::Relaxed);
        let uploaded = uploaded.expect("no panic");
        let visited = visitors
            .into_iter()
            .try_for_each(|visitor| visitor.join().expect("no panic"));
        visited.and(restarted).map(|()| uploaded)
    })?;
    world.shows(&first.paths)?;
    uploads.are_kept(&world).await
}
