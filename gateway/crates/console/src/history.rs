//! The figures of the last hour and the last day, kept across restarts.
//!
//! Two rings: a point every 10 s for an hour, and one every 5 minutes for a day. They lie in one small file of the state
//! folder, which is replaced as a whole. A file that cannot be read is left out: it holds nothing but figures.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::figures::{ErrorCount, Figures};

/// The file in the state folder.
const FILE_NAME: &str = "console-history.json";

/// The longest file.
const MAX_BYTES: u64 = 2 << 20;

/// Points of the hour, one every 10 s, and of the day, one every 5 minutes.
const HOUR_POINTS: usize = 360;
const DAY_POINTS: usize = 288;

/// The most causes of failures that a point keeps.
const MAX_CAUSES: usize = 20;

/// The figures of a period that ended at `time`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    /// The end of the period, in seconds since 1970.
    pub time: f64,
    /// The figures of the period.
    pub figures: Figures,
    /// The failures of the period by cause, the most frequent first: at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<ErrorCount>,
}

/// The failures of one cause in the last hour or day.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RecentCause {
    /// The cause, in words.
    pub cause: String,
    /// The failures in that time.
    pub count: u64,
    /// The time of the last one, in seconds since 1970: to 10 s, and to 5 minutes if it was before the last hour.
    pub last: f64,
}

/// The figures of the last hour and day, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// A point every 10 s.
    #[schema(value_type = Vec<Point>)]
    pub hour: VecDeque<Point>,
    /// A point every 5 minutes, and one of a shorter period at each stop.
    #[schema(value_type = Vec<Point>)]
    pub day: VecDeque<Point>,
}

impl History {
    /// Adds a point to the hour.
    pub(crate) fn add_to_hour(&mut self, mut point: Point) {
        point.causes.truncate(MAX_CAUSES);
        add(&mut self.hour, point, HOUR_POINTS, 3600.0);
    }

    /// Adds a point to the day.
    pub(crate) fn add_to_day(&mut self, mut point: Point) {
        point.causes.truncate(MAX_CAUSES);
        add(&mut self.day, point, DAY_POINTS, 86_400.0);
    }

    /// Returns the causes of failures of the hour before `now`, the latest first. `latest` are those since the last point.
    pub(crate) fn causes(&self, latest: &[ErrorCount], now: f64) -> Vec<RecentCause> {
        let points = self.hour.iter().filter(|point| point.time > now - 3600.0);
        sum(points, latest, now)
    }

    /// Returns the causes of failures of the day before `now`, as [`Self::causes`] does for the hour.
    pub(crate) fn causes_of_day(&self, latest: &[ErrorCount], now: f64) -> Vec<RecentCause> {
        let day = self.day.iter().filter(|point| point.time > now - 86_400.0);
        let end = self.day.back().map_or(0.0, |point| point.time);
        // What no point of the day covers yet.
        let hour = self.hour.iter().filter(|point| point.time > end);
        sum(day.chain(hour), latest, now)
    }

    /// Reads the history in a state folder; an empty one if there is none that can be read. Points that are not of the
    /// day before `now` are left out. Blocks.
    pub(crate) fn read(state: &Path, now: f64) -> Self {
        let file = state.join(FILE_NAME);
        let read = fs::metadata(&file).and_then(|found| match found.len() <= MAX_BYTES {
            true => fs::read(&file),
            false => Err(io::Error::other("longer than 2 MiB")),
        });
        let history = read.and_then(|bytes| Ok(serde_json::from_slice::<Self>(&bytes)?));
        let mut history = match history {
            Ok(history) => history,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::default(),
            Err(error) => {
                tracing::warn!(path = %file.display(), %error, "the console's history is left out");
                return Self::default();
            }
        };
        let keep = |points: &mut VecDeque<Point>, age: f64, most: usize| {
            points.retain(|point| point.time <= now && point.time > now - age);
            points
                .make_contiguous()
                .sort_by(|a, b| a.time.total_cmp(&b.time));
            while points.len() > most {
                points.pop_front();
            }
        };
        keep(&mut history.hour, 3600.0, HOUR_POINTS);
        keep(&mut history.day, 86_400.0, DAY_POINTS);
        history
    }

    /// Writes the history into a state folder, for its owner alone. Blocks.
    ///
    /// # Errors
    /// Those of the system. The file is as it was then.
    pub(crate) fn write(&self, state: &Path) -> io::Result<()> {
        let (file, fresh) = (state.join(FILE_NAME), fresh_name(state));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(state)?;
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        // What an earlier process left there, or a link, which would be followed.
        let _ = fs::remove_file(&fresh);
        let mut new = options.open(&fresh)?;
        new.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&fresh, &file)
    }
}

fn fresh_name(state: &Path) -> PathBuf {
    state.join(format!("{FILE_NAME}.new"))
}

/// Adds a point behind the others; those that are too old or too many go.
fn add(points: &mut VecDeque<Point>, point: Point, most: usize, age: f64) {
    let now = point.time;
    // After the clock was set back, later points are those of another time.
    while points.back().is_some_and(|last| last.time >= now) {
        points.pop_back();
    }
    points.push_back(point);
    while points.len() > most || points.front().is_some_and(|first| first.time <= now - age) {
        points.pop_front();
    }
}

/// Adds up the failures of these points, and of `latest`, which are those up to `now`.
fn sum<'p>(
    points: impl Iterator<Item = &'p Point>,
    latest: &[ErrorCount],
    now: f64,
) -> Vec<RecentCause> {
    let points = points.map(|point| (point.time, point.causes.as_slice()));
    let mut causes = HashMap::<_, RecentCause>::new();
    for (time, counts) in points.chain([(now, latest)]) {
        for one in counts {
            let new = || RecentCause {
                cause: one.cause.clone(),
                count: 0,
                last: time,
            };
            let known = causes.entry(&one.cause).or_insert_with(new);
            known.count += one.count;
            known.last = time;
        }
    }
    let mut causes: Vec<_> = causes.into_values().collect();
    causes.sort_by(|a, b| {
        b.last
            .total_cmp(&a.last)
            .then_with(|| a.cause.cmp(&b.cause))
    });
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(time: f64) -> Point {
        Point {
            time,
            figures: Figures {
                requests_per_second: time,
                ..Figures::default()
            },
            causes: Vec::new(),
        }
    }

    #[test]
    fn causes_of_failures_stay_for_an_hour() {
        let count = |cause: &str, count| ErrorCount {
            cause: cause.to_owned(),
            count,
        };
        let mut history = History::default();
        for (time, causes) in [
            (10.0, vec![count("disk", 1)]),
            (20.0, vec![count("bucket", 2), count("disk", 3)]),
            (30.0, vec![count("bucket", 4)]),
            (40.0, Vec::new()),
        ] {
            history.add_to_hour(Point {
                causes,
                ..point(time)
            });
        }
        let told = |now, latest: &[ErrorCount]| -> Vec<_> {
            let causes = history.causes(latest, now).into_iter();
            causes.map(|one| (one.cause, one.count, one.last)).collect()
        };
        let (bucket, disk) = ("bucket".to_owned(), "disk".to_owned());
        assert_eq!(
            told(45.0, &[]),
            [(bucket.clone(), 6, 30.0), (disk.clone(), 4, 20.0)]
        );
        let latest = [count("disk", 1)];
        assert_eq!(
            told(45.0, &latest),
            [(disk, 5, 45.0), (bucket.clone(), 6, 30.0)]
        );
        assert_eq!(told(3625.0, &[]), [(bucket, 4, 30.0)], "an hour later");
        history.add_to_day(Point {
            causes: vec![count("disk", 9); MAX_CAUSES + 3],
            ..point(25.0)
        });
        let of_day = history.causes_of_day(&latest, 45.0).into_iter();
        let of_day: Vec<_> = of_day.map(|one| (one.cause, one.count)).collect();
        let expected = [("disk", 9 * MAX_CAUSES as u64 + 1), ("bucket", 4)];
        assert_eq!(
            of_day,
            expected.map(|(cause, count)| (cause.to_owned(), count))
        );
        history.day.clear();
        let text = serde_json::to_string(&history).expect("JSON");
        assert_eq!(
            text.matches("causes").count(),
            3,
            "none are left out: {text}"
        );
    }

    #[test]
    fn the_rings_are_bounded_in_number_and_age() {
        let mut history = History::default();
        for n in 0..1000 {
            history.add_to_hour(point(f64::from(n) * 10.0));
        }
        assert_eq!(history.hour.len(), HOUR_POINTS);
        history.add_to_hour(point(9000.0));
        assert!(
            history.hour.iter().all(|point| point.time <= 9000.0),
            "the clock was set back"
        );
        history.add_to_hour(point(50_000.0));
        assert_eq!(history.hour.len(), 1);
    }

    #[test]
    fn it_outlives_a_restart_and_survives_a_broken_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        assert_eq!(History::read(&state, 0.0), History::default());
        let mut history = History::default();
        (1..5).for_each(|n| history.add_to_day(point(f64::from(n) * 300.0)));
        history.add_to_hour(point(1200.0));
        history.write(&state).expect("written");
        assert_eq!(History::read(&state, 1200.0), history);
        assert_eq!(History::read(&state, 90_000.0).hour.len(), 0, "too old");
        assert_eq!(History::read(&state, 600.0).day.len(), 2, "of the future");
        fs::write(state.join(FILE_NAME), "{\"hour\":").expect("written");
        assert_eq!(History::read(&state, 1200.0), History::default());
    }

    /// Another user of the machine may have put it there.
    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (state, target) = (folder.path().join("state"), folder.path().join("target"));
        fs::create_dir(&state).expect("made");
        fs::write(&target, "not ours").expect("written");
        for name in [FILE_NAME.to_owned(), format!("{FILE_NAME}.new")] {
            std::os::unix::fs::symlink(&target, state.join(name)).expect("a link");
        }
        History::default().write(&state).expect("written");
        assert_eq!(fs::read(&target).expect("there"), b"not ours");
        let written = fs::symlink_metadata(state.join(FILE_NAME));
        assert!(written.expect("there").is_file());
    }
}
