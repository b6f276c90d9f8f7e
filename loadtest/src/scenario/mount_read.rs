//! A mount read in the usual ways: in sequence, in small steps, at random; cold, again, and from
//! the kernel's pages. Also the cost of look-ups.

use anyhow::Result;

use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::{Access, Mount};
use crate::peers::tidegate::{Home, Settings};
use crate::report::Report;
use crate::slow_disk::drop_file_cache;

mod again;
mod cold;
mod lookups;
mod paced;
mod random;
mod small;

/// The object that is read in sequence.
const KEY: &str = "audiobook.m4b";
const OURS: &str = "tidegate, mount";

/// Settings with a time to live so long that no request to the origin comes from age alone.
const STREAM: Settings = Settings {
    profile: "ttl = \"1h\"\n",
    ..Settings::STREAM
};

/// Reads an object of `--count` MB, and smaller ones.
///
/// # Errors
/// If it could not be carried out, or a mount gives wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("mount-read");
    lookups::run(context, &mut report).await?;
    let pattern = Pattern {
        seed: context.options.seed ^ 0x3047,
        len: context.count(864) * 1_000_000,
    };
    progress(format!("an object of {} MB", pattern.len / 1_000_000));
    context.bucket.put(KEY, pattern.all()).await?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    cold::run(context, &origin, pattern, &mut report).await?;
    small::run(context, &origin, &mut report).await?;
    again::run(context, &origin, pattern, &mut report).await?;
    random::run(context, &origin, &mut report).await?;
    drop(cloud);
    paced::run(context, pattern, &mut report).await?;
    Ok(report)
}

/// Returns a gateway with nothing cached, and no disk.
fn home(context: &Context, origin: &Origin) -> Result<Home> {
    let dir = context.new_dir("mount-")?;
    Ok(Home::new(dir, origin.clone(), STREAM))
}

/// Mounts a peer by name, with nothing cached, not even kernel pages. If its program is missing, it
/// is left out with a note.
async fn mounted(
    context: &Context,
    name: &str,
    origin: &Origin,
    report: &mut Report,
) -> Result<Option<Mount>> {
    if name != OURS && !context.takes_part(name) {
        return Ok(None);
    }
    drop_file_cache()?;
    let mount = if name == OURS {
        Some(Mount::tidegate(&home(context, origin)?).await?)
    } else {
        Mount::other(name, Access::Reading, &context.new_dir("mount-")?, origin)?
    };
    match &mount {
        Some(mount) => report.peer(name, mount.config()),
        None => report.left_out(name),
    }
    Ok(mount)
}
