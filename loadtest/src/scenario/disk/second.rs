//! Second reads after a restart, with an empty file cache. The cases are a disk much slower than
//! the origin, a disk alone, and an ordinary disk beside other caches.

use anyhow::{Result, ensure};

use super::{KEY, Object, Rounds, STREAM, fill, long_object, read, room_mib};
use crate::context::{Context, progress};
use crate::file::{DD, sequence};
use crate::line::Line;
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::{Access, Mount};
use crate::peers::rclone::{self, Cache};
use crate::peers::tidegate::{Home, StartState};
use crate::report::{Report, Target};
use crate::slow_disk::{Limit, Rates, Volume, drop_file_cache};

mod fio;

const NONE: &str = "through the cloud, no disk";
const SLOW: &str = "through the cloud, disk held to 10 MB/s";
const FIO: &str = "fio, sequential, on a disk held to 200 MB/s";
const ALONE: &str = "origin cut off, disk held to 200 MB/s";
const ORDINARY: &str = "through the cloud, ordinary disk";
const MOUNTPOINT: &str = "through the cloud, mountpoint-s3 --cache";
const RCLONE: &str = "through the cloud, rclone full";

/// Reads an object of `--count` MB again in each of these ways.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-second");
    fio::find()?;
    drop(Limit::new()?);
    let pattern = long_object(context).await?;
    let object = [(KEY.to_owned(), pattern)];
    let mut ways = Rounds::default();
    slow(context, &object, &mut report, &mut ways).await?;
    alone(context, &object, &mut report, &mut ways).await?;
    if context.takes_part("rclone-full") {
        beside(context, pattern, &mut report, &mut ways).await?;
    }
    ways.write(
        &mut report,
        "second read, after a restart, file cache empty",
    );
    let figure = "disk held to 10 MB/s over no disk";
    report.aim(figure, ways.ratio(SLOW, NONE), Target::AtLeast(0.98));
    let figure = "disk held to 200 MB/s, origin cut off, over fio";
    report.aim(figure, ways.ratio(ALONE, FIO), Target::AtLeast(0.95));
    if context.takes_part("rclone-full") {
        let figure = "ordinary disk over rclone full";
        report.aim(figure, ways.ratio(ORDINARY, RCLONE), Target::AtLeast(2.0));
    }
    if ways.rates.contains_key(MOUNTPOINT) {
        let figure = "ordinary disk over mountpoint-s3 --cache";
        report.aim(
            figure,
            ways.ratio(ORDINARY, MOUNTPOINT),
            Target::AtLeast(1.0),
        );
    }
    Ok(report)
}

/// Measures a disk much slower than the origin: the reader must not wait for its chunks.
async fn slow(
    context: &Context,
    object: &[Object],
    report: &mut Report,
    ways: &mut Rounds,
) -> Result<()> {
    let pattern = object[0].1;
    let mib = room_mib(pattern);
    let limit = Limit::new()?;
    let volume = Volume::new(context.dir(), mib + mib / 4 + 128)?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    let none = Home::new(context.new_dir("none-")?, origin.clone(), STREAM);
    let disk = Home::new(context.new_dir("slow-")?, origin, STREAM)
        .with_disk(volume.path().join("cache"), mib, 16)
        .within(&limit);
    // Fill while the disk is still fast; the limit follows.
    let share = fill(&disk, object).await?;
    report.series(SLOW, "share on disk", &[share]);
    limit.hold(&volume, Rates::mb(10))?;
    for _ in rounds(context) {
        for (way, home) in [(NONE, &none), (SLOW, &disk)] {
            drop_file_cache()?;
            let peer = home.start(StartState::Ready).await?;
            report.peer(way, peer.config());
            ways.read(way, &peer, pattern).await?;
        }
    }
    Ok(())
}

/// Measures the disk alone: reads must be as fast as the disk itself.
async fn alone(
    context: &Context,
    object: &[Object],
    report: &mut Report,
    ways: &mut Rounds,
) -> Result<()> {
    let pattern = object[0].1;
    let mib = room_mib(pattern);
    let limit = Limit::new()?;
    let volume = Volume::new(context.dir(), 2 * mib + mib / 4 + 128)?;
    let line = Line::start(context.origin().addr, None).await?;
    let origin = context.origin_behind(line.addr());
    let home = Home::new(context.new_dir("alone-")?, origin, STREAM)
        .with_disk(volume.path().join("cache"), mib, 16)
        .within(&limit);
    let share = fill(&home, object).await?;
    let figure = "share of the chunks on disk after filling";
    report.must(figure, share, Target::AtLeast(1.0));
    let file = volume.path().join("fio");
    std::fs::write(&file, pattern.all())?;
    limit.hold(&volume, Rates::mb(200))?;
    line.cut();
    report.peer(FIO, &fio::command(&file, pattern.len).join(" "));
    for _ in rounds(context) {
        drop_file_cache()?;
        ways.add_rate(FIO, fio::read(&limit, &file, pattern.len)?);
        drop_file_cache()?;
        let peer = home.start(StartState::Loaded).await?;
        report.peer(ALONE, peer.config());
        ways.read(ALONE, &peer, pattern).await?;
    }
    Ok(())
}

/// Measures other caches that keep files or parts of them on the same disk.
async fn beside(
    context: &Context,
    pattern: Pattern,
    report: &mut Report,
    ways: &mut Rounds,
) -> Result<()> {
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    let origin = context.origin_behind(cloud.addr());
    let dir = context.new_dir("ordinary-")?;
    let home = Home::new(dir.join("home"), origin.clone(), STREAM).with_disk(
        dir.join("disk"),
        room_mib(pattern),
        64,
    );
    let share = fill(&home, &[(KEY.to_owned(), pattern)]).await?;
    report.series(ORDINARY, "share on disk", &[share]);
    let at_rclone = || rclone::serve(&dir, &origin, Cache::Full);
    let peer = at_rclone()?;
    let first = read(&peer, pattern).await?;
    progress(format!(
        "   rclone full, first read: {:.1} MB/s",
        first.rate()
    ));
    drop(peer);
    let mount = mounted(&dir, &origin, pattern, report).await?;
    for _ in rounds(context) {
        drop_file_cache()?;
        let peer = home.start(StartState::Ready).await?;
        report.peer(ORDINARY, peer.config());
        ways.read(ORDINARY, &peer, pattern).await?;
        drop(peer);
        drop_file_cache()?;
        let peer = at_rclone()?;
        report.peer(RCLONE, peer.config());
        let flow = read(&peer, pattern).await?;
        ensure!(flow.bytes == pattern.len, "rclone gave too little");
        ways.add(RCLONE, &flow);
        drop(peer);
        if let Some(mount) = &mount {
            drop_file_cache()?;
            let flow = sequence(mount.file(KEY), pattern, DD).await?;
            ways.add(MOUNTPOINT, &flow);
        }
    }
    Ok(())
}

/// Returns mountpoint-s3's mount after it has read the object. If it is not installed, returns
/// `None` and adds a note.
async fn mounted(
    dir: &std::path::Path,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<Option<Mount>> {
    let found = Mount::other("mountpoint-s3-cache", Access::Reading, dir, origin)?;
    let Some(mount) = found else {
        let note = "mountpoint-s3 --cache left out: there is no mount-s3 here";
        report.notes.push(note.to_owned());
        return Ok(None);
    };
    report.peer(MOUNTPOINT, mount.config());
    // It empties its cache when it starts: the measured reads must follow in the same process.
    let first = sequence(mount.file(KEY), pattern, DD).await?;
    progress(format!(
        "   mountpoint-s3, first read: {:.1} MB/s",
        first.rate()
    ));
    Ok(Some(mount))
}

fn rounds(context: &Context) -> impl Iterator<Item = u32> {
    let rounds = context.rounds(3);
    (1..=rounds).inspect(move |round| progress(format!("round {round}/{rounds}")))
}
