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

/// The places of the seeks, as shares of the length; see [`places`].
pub const PLACES: [f64; 3] = [0.5, 0.95, 0.1];

/// The seconds that every place leaves to the end: a player on a slow machine must not come to the end of a short film before
/// it is told to seek again.
const END_MARGIN: f64 = 6.0;

/// Time limit of each step of a player, also on a slow machine; only a failure waits so long.
const TIMEOUT: Duration = Duration::from_secs(300);

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

/// Returns the places in a medium of `duration` seconds, in seconds.
fn places(duration: f64) -> [f64; PLACES.len()] {
    PLACES.map(|place| (duration * place).min(duration - END_MARGIN).max(0.0))
}

/// The fewest seconds to play at the end: the last frame of a film may come long before its length.
const LAST: f64 = 1.0;

/// The seconds to play from the beginning, after each seek, and at the end, where they are at least [`LAST`].
fn share(seconds: f64) -> f64 {
    seconds / (PLACES.len() + 2) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_short_film_leaves_time_to_the_end() {
        assert_eq!(places(3600.0), [1800.0, 3420.0, 360.0]);
        assert_eq!(places(20.0), [10.0, 14.0, 2.0]);
        assert_eq!(places(5.0), [0.0; 3]);
    }
}
