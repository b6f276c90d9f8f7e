//! Players of media: Chromium, mpv and VLC. Each plays a little from the beginning, seeks to the middle, near the end and
//! back, and plays the last seconds to the end.
//!
//! - [`media`] makes what is played, [`chromium`], [`mpv`] and [`vlc`] play it.
//! - A player that reports an error, stops before a place is reached, or does not come to the end fails: a [`Playback`] is of
//!   a playback without fault.

use std::time::Duration;

pub mod chromium;
pub mod media;
pub mod mpv;
mod page;
pub mod vlc;

/// The places of the seeks, as shares of the length.
pub const PLACES: [f64; 3] = [0.5, 0.95, 0.1];

/// Time limit of each step of a player; only a failure waits so long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The figures of a playback.
#[derive(Debug, Clone)]
pub struct Playback {
    /// The milliseconds until it could begin: `canplay` of a browser.
    pub ready: f64,
    /// The milliseconds of each seek, in the order of [`PLACES`].
    pub seeks: Vec<f64>,
    /// The waits for bytes while it played.
    pub stalls: u64,
    /// The seconds of the medium that were played.
    pub seconds: f64,
}

/// The fewest seconds to play at the end: the last frame of a film may come long before its length.
const LAST: f64 = 1.0;

/// The seconds to play from the beginning, after each seek, and at the end, where they are at least [`LAST`].
fn share(seconds: f64) -> f64 {
    seconds / (PLACES.len() + 2) as f64
}
