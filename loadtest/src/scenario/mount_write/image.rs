//! A disk image: converted onto the mount with writes at random places, over a copy.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{OURS, copied, made_ready, mounted, say, timed};
use crate::child::find_program;
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::turns;
use crate::pattern::Pattern;
use crate::peers::{Origin, Peer};
use crate::report::{Report, Target};
use crate::ways::Ways;

const KEY: &str = "disk.qcow2";
const CP: &str = "tidegate, cp of the image";
const CONVERT: &str = "tidegate, qemu-img convert of the image";
const ALL: [&str; 2] = [CP, CONVERT];

/// Returns the gateway's peak memory, in bytes.
pub(super) async fn run(
    context: &Context,
    origin: &Origin,
    len: u64,
    report: &mut Report,
) -> Result<u64> {
    let Some(qemu) = find_program("TIDEGATE_QEMU_IMG", &["qemu-img"]) else {
        let note = "qemu-img convert left out: there is no qemu-img here";
        report.notes.push(note.to_owned());
        return Ok(0);
    };
    let image = image(context, &qemu, len).await?;
    let (mut ways, mut peak) = (Ways::new("s"), 0);
    let rounds = context.rounds(3);
    for round in 0..rounds {
        say("an image", round, rounds);
        for way in turns(&ALL, round) {
            made_ready(&image).await?;
            let mount = mounted(context, origin).await?;
            report.peer(OURS, mount.config());
            let target = mount.file(KEY);
            ways.add(
                way,
                if way == CP {
                    copied(&image, &target).await?
                } else {
                    timed(convert(&qemu, "qcow2", &image, &target)).await?
                },
            );
            peak = peak.max(mount.usage()?.peak_rss);
            drop(mount);
            verified(context, &qemu, &image).await?;
        }
    }
    std::fs::remove_file(image)?;
    let ratio = ways.ratio(CONVERT, CP).unwrap_or(f64::NAN);
    let figure = "qemu-img convert onto the mount: time over cp of the same image";
    report.aim(figure, ratio, Target::AtMost(1.05));
    ways.write(report, &format!("an image of {} MB", len / 1_000_000));
    Ok(peak)
}

/// Makes a qcow2 image with every cluster in use.
async fn image(context: &Context, qemu: &Path, len: u64) -> Result<PathBuf> {
    progress(format!("an image of {} MB", len / 1_000_000));
    let (raw, image) = (
        context.dir().join("disk.raw"),
        context.dir().join("image.qcow2"),
    );
    // A disk consists of whole sectors.
    let pattern = Pattern {
        seed: context.options.seed ^ 0x1a6e,
        len: len.next_multiple_of(512),
    };
    std::fs::write(&raw, pattern.all())?;
    timed(convert(qemu, "raw", &raw, &image)).await?;
    std::fs::remove_file(raw)?;
    Ok(image)
}

fn convert(qemu: &Path, format: &str, from: &Path, to: &Path) -> Command {
    let mut command = Command::new(qemu);
    command.args(["convert", "-f", format, "-O", "qcow2"]);
    command.arg(from).arg(to);
    command
}

/// Fetches the image from the bucket itself, checks and compares it with `qemu-img`, and deletes
/// it.
async fn verified(context: &Context, qemu: &Path, image: &Path) -> Result<()> {
    let direct = Peer::direct(&context.origin());
    let mut connection = Connection::open(direct.addr()).await?;
    let back = context.dir().join("back.qcow2");
    let mut file = std::fs::File::create(&back)?;
    let write = |piece: &[u8]| Ok(std::io::Write::write_all(&mut file, piece)?);
    fetch(&mut connection, &direct.path(KEY), write).await?;
    let mut check = Command::new(qemu);
    check.args(["check", "-f", "qcow2"]).arg(&back);
    timed(check).await?;
    let mut compare = Command::new(qemu);
    compare.args(["compare", "-f", "qcow2", "-F", "qcow2"]);
    compare.arg(image).arg(&back);
    timed(compare).await?;
    std::fs::remove_file(back)?;
    context.delete_all(KEY).await
}

async fn fetch(
    connection: &mut Connection,
    path: &str,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let stream = connection.stream(path, &[], |head, piece| {
        anyhow::ensure!(head.status.is_success(), "{path}: status {}", head.status);
        write(&piece)
    });
    stream.await?;
    Ok(())
}
