//! A purge of keys of which the kernel of a mount knows, and of the same keys before it does.

use anyhow::{Context as _, Result, ensure};

use super::operator::Operator;
use super::{AT_ONCE, KINDS, OF_KEYS, is_soft};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::median;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::mounts::Mount;
use crate::peers::tidegate::{Home, Settings};
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::need_root;

/// The purges of each kind with and without the kernel, of which the median counts.
const ROUNDS: usize = 3;
/// The length of a file.
const LEN: u64 = 100;

/// Measures the kernel's part of purges.
pub(super) async fn run(context: &Context, report: &mut Report) -> Result<()> {
    if let Err(error) = need_root("mounting") {
        report
            .notes
            .push(format!("the purge with a mount is left out: {error:#}"));
        return Ok(());
    }
    let count = (context.count(100 * AT_ONCE) / 100).clamp(1, AT_ONCE);
    let key = |n: u64| format!("mounted/{n:05}");
    let object = |n| (key(n), Pattern { seed: n, len: LEN });
    progress(format!("{count} files of a mount"));
    context.bucket.put_all((0..count).map(object)).await?;
    let settings = Settings {
        profile: "ttl = \"1d\"\n",
        ..Settings::WEB
    };
    let dir = context.new_dir("purge-mounted-")?;
    let state = dir.join("state");
    let mut home = Home::new(dir, context.origin(), settings);
    home.state = Some(state);
    let mount = Mount::tidegate(&home).await?;
    report.peer("tidegate with a mount", mount.config());
    let peer = mount.gateway().context("it is ours")?;
    let paths: Vec<_> = (0..count).map(|n| format!("/{}", key(n))).collect();
    let names = serde_json::json!({ "paths": paths });
    let mut operator = Operator::connect(peer).await?;
    let mut rows = vec![];
    for kind in KINDS {
        let purge = is_soft(names.clone(), kind);
        let (mut without, mut with) = (vec![], vec![]);
        for _ in 0..ROUNDS {
            read_all(peer, &paths).await?;
            without.push(operator.purge(&purge).await?.0);
            read_all(peer, &paths).await?;
            let files: Vec<_> = (0..count).map(|n| mount.file(&key(n))).collect();
            tokio::task::spawn_blocking(move || know_all(&files)).await??;
            with.push(operator.purge(&purge).await?.0);
        }
        let [without, with] = [without, with].map(|all| median(&all).unwrap_or(f64::NAN));
        let figures = [without, with, with - without].map(figure);
        rows.push([kind.to_owned()].into_iter().chain(figures).collect());
        let name =
            format!("purge of {count} keys beside a mount whose kernel knows none, {kind}, ms");
        report.aim(name, without, Target::AtMost(OF_KEYS));
    }
    let title = format!("purges of {count} keys beside a mount, p50 of {ROUNDS}, ms");
    let columns = ["purge", "the kernel knows none", "it knows all", "its part"];
    report.table(title, &columns, rows);
    Ok(())
}

/// Has the gateway know every key, and no kernel.
async fn read_all(peer: &Peer, paths: &[String]) -> Result<()> {
    let mut connection = Connection::open(peer.addr()).await?;
    for path in paths {
        let (answer, _) = connection.get(path, &[]).await?;
        ensure!(answer.head.status == 200, "{path}: {}", answer.head.status);
    }
    Ok(())
}

/// Has the kernel know every file with its bytes.
fn know_all(files: &[std::path::PathBuf]) -> Result<()> {
    for file in files {
        let bytes = std::fs::read(file)?;
        ensure!(bytes.len() as u64 == LEN, "{}", file.display());
    }
    Ok(())
}
