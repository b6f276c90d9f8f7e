//! Players with media in the bucket, over the simulated cloud: Chromium, mpv and VLC, with nothing cached. Beside signed
//! URLs straight to the bucket, a mount of rclone, and a local folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::context::{Context, progress};
use crate::measure::turns;
use crate::peers::cloud::{self, Cloud};
use crate::peers::tidegate::Settings;
use crate::players::chromium::Chromium;
use crate::players::media::{self, Medium};
use crate::players::{Playback, mpv, vlc};
use crate::report::Report;
use crate::wordpress::open_to_others;

mod results;
mod source;

use results::Results;
use source::Source;

const OURS: &str = "tidegate";
const DIRECT: &str = "direct";
const MOUNT: &str = "tidegate-mount";
const RCLONE: &str = "rclone";
const LOCAL: &str = "local";
/// The minutes of the book. A film has a sixth of them.
const MINUTES: u64 = 60;
/// The seconds of each playback.
const SECONDS: u64 = 10;
/// The seconds of a playback that is not counted.
const WARM_UP: f64 = 0.5;
/// The uploads at once.
const UPLOADS: usize = 4;

/// The profile for media, with times to live that no run outlasts.
const SETTINGS: Settings = Settings {
    profile: "ttl = \"1h\"\n",
    ..Settings::STREAM
};

/// The players, each with the ways that it can take.
const PLAYERS: [(&str, &[&str]); 3] = [
    ("chromium", &[OURS, DIRECT]),
    ("mpv", &[OURS, MOUNT, DIRECT, RCLONE, LOCAL]),
    ("vlc", &[OURS, MOUNT, DIRECT, RCLONE, LOCAL]),
];

/// A player that is ready.
enum Player {
    Chromium(Box<Chromium>),
    Mpv,
    Vlc,
}

/// Plays all media in all players, or in those among the peers. Each round has a gateway and mounts with nothing cached.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("players");
    let players = players(&context.options.peers)?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    open_to_others(context.dir())?;
    let minutes = context.count(MINUTES);
    progress(format!("media of {minutes} minutes"));
    let folder = tokio::task::spawn_blocking(move || media::folder(minutes)).await??;
    let shelf = shelve(context, &folder).await?;
    let (mut results, rounds) = (Results::default(), context.rounds(5));
    for round in 0..rounds {
        for (name, ways) in &players {
            progress(format!("{name}, round {}/{rounds}", round + 1));
            let Some(player) = Player::start(name, context, &mut report).await? else {
                continue;
            };
            let mut sources = vec![];
            for way in turns(ways, round) {
                let source = Source::start(context, way, &cloud, &shelf.local, &mut report);
                sources.extend(source.await?);
            }
            let start = Source::start(context, DIRECT, &cloud, &shelf.local, &mut report);
            let stage = Stage {
                name,
                player,
                warm_up: start.await?,
                seconds: context.options.seconds.unwrap_or(SECONDS) as f64,
            };
            let played = stage.play_all(context, &shelf.media, &mut sources, &mut results);
            played.await?;
            for source in sources {
                results.wrong += source.wrong_bytes(&shelf.files).await?;
            }
            stage.player.end().await?;
        }
    }
    results.write(&mut report, &shelf.media);
    Ok(report)
}

/// Returns the players that take part, each with its ways: those among the peers. Peers without a player mean all players,
/// and peers without a way mean all ways.
fn players(peers: &[String]) -> Result<Vec<(&'static str, Vec<&'static str>)>> {
    let is_asked = |name: &&str| peers.iter().any(|peer| peer == name);
    let all: Vec<_> = PLAYERS.iter().map(|(player, _)| *player).collect();
    let all_ways = PLAYERS.iter().flat_map(|(_, ways)| *ways).copied();
    let all_ways: Vec<_> = all_ways.collect();
    let is_known = |peer: &String| all.iter().chain(&all_ways).any(|name| name == peer);
    let (names_player, names_way) = (all.iter().any(is_asked), all_ways.iter().any(is_asked));
    let mut found = vec![];
    for (player, ways) in PLAYERS {
        let ways = ways.iter().copied();
        let ways: Vec<_> = ways.filter(|way| !names_way || is_asked(way)).collect();
        if (!names_player || is_asked(&player)) && !ways.is_empty() {
            found.push((player, ways));
        }
    }
    if found.is_empty() || !peers.iter().all(is_known) {
        bail!("nothing is played by {peers:?}; there are {PLAYERS:?}");
    }
    Ok(found)
}

/// The media: in the bucket, and in a folder that every user may read.
struct Shelf {
    media: Vec<Medium>,
    local: PathBuf,
    /// Every file's key and content.
    files: BTreeMap<String, Bytes>,
}

async fn shelve(context: &Context, folder: &Path) -> Result<Shelf> {
    let local = context.dir().join("local");
    std::fs::create_dir_all(&local)?;
    let mut files = BTreeMap::new();
    for found in std::fs::read_dir(folder)? {
        let found = found?;
        let name = found.file_name().to_string_lossy().into_owned();
        std::fs::copy(found.path(), local.join(&name))?;
        files.insert(name, Bytes::from(std::fs::read(found.path())?));
    }
    open_to_others(&local)?;
    stream::iter(files.clone())
        .map(|(name, bytes)| async move {
            let kind = media::content_type(&name);
            context.bucket.put_as(&name, kind, bytes).await
        })
        .buffer_unordered(UPLOADS)
        .try_for_each(async |()| Ok(()))
        .await?;
    Ok(Shelf {
        media: media::all(folder)?,
        local,
        files,
    })
}

/// A player before its sources.
struct Stage {
    name: &'static str,
    player: Player,
    /// Signed URLs that no counted playback has.
    warm_up: Option<Source>,
    seconds: f64,
}

impl Stage {
    /// Plays each medium from each source in turn.
    async fn play_all(
        &self,
        context: &Context,
        media: &[Medium],
        sources: &mut [Source],
        results: &mut Results,
    ) -> Result<()> {
        for medium in media {
            if !self.player.plays(medium).await? {
                progress(format!("   {}, {}: it cannot", self.name, medium.name));
                continue;
            }
            self.warm_up(context, medium).await?;
            for source in sources.iter_mut() {
                let url = source.url(medium).await?;
                let before = source.asked();
                let played = self.play(context, medium, &url, self.seconds).await;
                let asked = source.settled().await.since(before);
                results.add((self.name, medium.name, source.name()), played, asked);
            }
            sources.rotate_left(usize::from(sources.len() > 1));
        }
        Ok(())
    }

    /// Has a browser start what it needs for a medium: its first playback of a kind takes much longer than the others.
    async fn warm_up(&self, context: &Context, medium: &Medium) -> Result<()> {
        if let (Player::Chromium(_), Some(source)) = (&self.player, &self.warm_up) {
            let url = source.url(medium).await?;
            if let Err(error) = self.play(context, medium, &url, WARM_UP).await {
                progress(format!("   {} is not warm: {error:#}", medium.name));
            }
            source.settled().await;
        }
        Ok(())
    }

    async fn play(
        &self,
        context: &Context,
        medium: &Medium,
        url: &str,
        seconds: f64,
    ) -> Result<Playback> {
        let dir = context.dir();
        match &self.player {
            Player::Chromium(chromium) => chromium.play(medium.tag, url, seconds).await,
            Player::Mpv => mpv::play(dir, url, seconds).await,
            Player::Vlc => vlc::play(dir, url, medium.seconds, seconds).await,
        }
    }
}

impl Player {
    /// Starts a player; `None` if it is not installed.
    async fn start(name: &str, context: &Context, report: &mut Report) -> Result<Option<Self>> {
        Ok(match name {
            "chromium" => {
                let chromium = Chromium::start(context.dir()).await?;
                Some(Self::Chromium(Box::new(chromium)))
            }
            "mpv" if mpv::is_there() => {
                report.peer(name, &mpv::ARGUMENTS.join(" "));
                Some(Self::Mpv)
            }
            "vlc" if vlc::is_there() => {
                report.peer(name, &vlc::ARGUMENTS.join(" "));
                Some(Self::Vlc)
            }
            other => {
                ensure!(std::env::var_os("CI").is_none(), "{other} is not installed");
                report.left_out(other);
                None
            }
        })
    }

    async fn plays(&self, medium: &Medium) -> Result<bool> {
        Ok(match self {
            Self::Chromium(chromium) if medium.is_playlist() => chromium.plays_hls().await?,
            _ => true,
        })
    }

    async fn end(self) -> Result<()> {
        match self {
            Self::Chromium(chromium) => chromium.end().await,
            Self::Mpv | Self::Vlc => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(peers: &[&str]) -> Result<Vec<(&'static str, Vec<&'static str>)>> {
        let peers: Vec<_> = peers.iter().map(|peer| (*peer).to_owned()).collect();
        players(&peers)
    }

    #[test]
    fn peers_name_players_or_ways_or_both() {
        let all = PLAYERS.map(|(player, ways)| (player, ways.to_vec()));
        assert_eq!(of(&[]).unwrap(), all);
        assert_eq!(of(&["mpv"]).unwrap(), [all[1].clone()], "by all its ways");
        let mounted = [("mpv", vec![MOUNT]), ("vlc", vec![MOUNT])];
        assert_eq!(of(&[MOUNT]).unwrap(), mounted);
        assert_eq!(of(&["vlc", OURS]).unwrap(), [("vlc", vec![OURS])]);
        for nothing in [&["chromium", MOUNT][..], &["mpv", "nginx"]] {
            let error = of(nothing).unwrap_err().to_string();
            assert!(error.contains(nothing[1]), "{error}");
        }
    }
}
