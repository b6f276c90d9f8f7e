//! A project that is cloned, changed and committed.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::{Desk, LOCAL, OURS};
use crate::context::{Context, progress};
use crate::measure::turns;
use crate::peers::cloud::Cloud;
use crate::report::{Report, Target};
use crate::ways::Ways;

const RCLONE: &str = "rclone-writes";
const ALL: [&str; 3] = [OURS, LOCAL, RCLONE];
const FILES: usize = 60;

const CLONE: &str = "
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
    git clone -q \"$from\" work
    cd work
    for n in 1 2 3; do echo more >> \"text $n.txt\"; done
    git -c user.name=A -c user.email=a@example.org commit -qam more";

/// The checks of the clone.
const CHECK: &str = "
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
    cd work; git fsck; git log --format=%s | grep -q more; cd ..; rm -r work";

pub(super) async fn run(context: &Context, cloud: &Cloud, report: &mut Report) -> Result<()> {
    let source = context.new_dir("library-")?;
    make(&source)?;
    let mut seconds = Ways::new("s");
    let rounds = context.rounds(5);
    for round in 0..rounds {
        progress(format!(
            "git clone and commit, round {}/{rounds}",
            round + 1
        ));
        for way in turns(&ALL, round) {
            if !context.takes_part(way) {
                continue;
            }
            let origin = context.origin_behind(cloud.addr());
            let Some(desk) = Desk::start(context, way, &origin, report).await? else {
                continue;
            };
            seconds.add(way, desk.timed(CLONE, &[("from", source.as_path())]).await?);
            desk.timed(CHECK, &[]).await?;
            drop(desk);
            context.delete_all("").await?;
        }
    }
    if let Some(ratio) = seconds.ratio(OURS, RCLONE) {
        let figure = format!("git clone and commit: time over {RCLONE}");
        report.aim(figure, ratio, Target::AtMost(0.8));
    }
    seconds.write(report, &format!("git clone of {FILES} files, and a commit"));
    Ok(())
}

/// Makes a repository.
fn make(folder: &Path) -> Result<()> {
    for n in 0..FILES {
        let text = format!("{n}\n").repeat(300);
        std::fs::write(folder.join(format!("text {n}.txt")), text)?;
    }
    let script = "
        export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
        git init -q; git add .; git -c user.name=A -c user.email=a@example.org commit -qm first";
    let mut command = Command::new("sh");
    let status = command.args(["-ec", script]).current_dir(folder).status()?;
    ensure!(status.success(), "git failed");
    Ok(())
}
