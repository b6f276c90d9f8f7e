//! The time of an upload, and its requests to the bucket.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::sites::{Kind, Stage};
use crate::context::progress;
use crate::late::LateCounts;
use crate::measure::{median, median_ratio, turns};
use crate::report::terminal::figure;
use crate::report::{Report, Target, Weight};
use crate::tally::RequestCounts;
use crate::wordpress::photos::{self, LARGE, SMALL};

/// The seconds for which the gateway keeps a new file that was closed empty: a writer that is later costs one more PUT.
const EMPTY_FILE_DELAY: f64 = 0.5;

/// The photos of one size, in the order of rounds.
pub(super) struct Photos {
    title: &'static str,
    pub(super) files: Vec<PathBuf>,
    /// The most times of `background` and `close`, over a local folder.
    targets: [f64; 2],
}

/// Makes `count` photos of each size.
pub(super) fn photos(dir: &Path, count: u64) -> Result<[Photos; 2]> {
    let make = |title: &'static str, size, targets| {
        let seeds = 0..u32::try_from(count).unwrap_or(u32::MAX);
        let files = seeds.map(|seed| {
            let file = dir.join(format!("{}-{seed}.jpg", title.replace(' ', "-")));
            photos::photo(&file, size, seed).map(|()| file)
        });
        Ok::<_, anyhow::Error>(Photos {
            title,
            files: files.collect::<Result<_>>()?,
            targets,
        })
    };
    Ok([
        make("2 megapixels", SMALL, [1.10, 1.3])?,
        make("12 megapixels", LARGE, [1.05, 1.15])?,
    ])
}

/// The results for each size and each site.
pub(super) struct UploadResults(Vec<Size>);

struct Size {
    title: &'static str,
    targets: [f64; 2],
    sites: Vec<(Kind, UploadFigures)>,
}

#[derive(Default)]
struct UploadFigures {
    seconds: Vec<f64>,
    files: u64,
    asked: Option<RequestCounts>,
    /// Of these, the requests that Tidegate sent because something was late.
    late: LateCounts,
}

/// Uploads every photo to every site, in turns. A turn begins when the files of the turn before are in the bucket.
pub(super) async fn run(stages: &[Stage], photos: &[Photos; 2]) -> Result<UploadResults> {
    // Warms up the folder of the month, PHP and the database.
    for stage in stages {
        stage.editor.upload(&photos[0].files[0])?;
    }
    let mut sizes = vec![];
    for size in photos {
        let mut found: Vec<UploadFigures> =
            stages.iter().map(|_| UploadFigures::default()).collect();
        let mut before = vec![];
        for stage in stages {
            before.push((stage.asked().await?, LateCounts::of(stage.admin).await?));
        }
        for (round, file) in (0..).zip(&size.files) {
            progress(format!(
                "{}, round {}/{}",
                size.title,
                round + 1,
                size.files.len()
            ));
            let order: Vec<usize> = (0..stages.len()).collect();
            for at in turns(&order, round) {
                let media = stages[at].upload(file).await?;
                ensure!(media.paths.len() >= 6, "sizes: {:?}", media.paths);
                found[at].seconds.push(media.took.as_secs_f64());
                found[at].files += media.paths.len() as u64;
            }
        }
        for ((stage, found), (before, late)) in stages.iter().zip(&mut found).zip(before) {
            let after = stage.asked().await?;
            found.late = LateCounts::of(stage.admin).await?.since(late);
            found.asked = after.zip(before).map(|(after, before)| after.since(before));
        }
        let kinds = stages.iter().map(|stage| stage.kind);
        sizes.push(Size {
            title: size.title,
            targets: size.targets,
            sites: kinds.zip(found).collect(),
        });
    }
    Ok(UploadResults(sizes))
}

impl UploadResults {
    pub(super) fn judge(&self, report: &mut Report) {
        for size in &self.0 {
            size.judge(report);
        }
    }
}

impl UploadFigures {
    /// Returns the requests for which the machine's lateness is no excuse, with the most of each. `local`: the seconds that the
    /// same photos took on a local folder.
    fn counts(&self, asked: &RequestCounts, local: &[f64]) -> [(&'static str, f64, f64); 6] {
        let (photos, files, late) = (self.seconds.len() as f64, self.files as f64, self.late);
        // WordPress makes one file after the other: each that is published empty has taken that time more than twice the
        // local folder's.
        let beyond = self.seconds.iter().sum::<f64>() - 2.0 * local.iter().sum::<f64>();
        let put_empty = asked.put_empty.min((beyond / EMPTY_FILE_DELAY) as u64);
        let puts = asked.put.saturating_sub(put_empty + late.retries);
        let gets = late.gets_beyond(asked.get);
        let read = late.bytes_beyond(asked.bytes) as f64 / 1e6;
        [
            (
                "PUT a file, without those for lateness",
                puts as f64 / files,
                1.0,
            ),
            ("COPY a photo", asked.copy as f64 / photos, 0.0),
            ("HEAD a photo", asked.head as f64 / photos, 0.0),
            (
                "GET a photo, without those for lateness",
                gets as f64 / photos,
                0.0,
            ),
            // More than an answer in each `probe` proves already.
            (
                "needless probes a photo",
                asked.bucket_again as f64 / photos,
                0.0,
            ),
            (
                "MB read back, without those for lateness",
                read / photos,
                0.0,
            ),
        ]
    }
}

impl Size {
    fn of(&self, kind: Kind) -> Option<&UploadFigures> {
        self.sites
            .iter()
            .find(|(one, _)| *one == kind)
            .map(|(_, found)| found)
    }

    fn judge(&self, report: &mut Report) {
        let local = self
            .of(Kind::Local)
            .map(|found| found.seconds.clone())
            .unwrap_or_default();
        let mut rows = vec![];
        for (kind, found) in &self.sites {
            report.series(
                kind.name(),
                &format!("seconds a photo of {}", self.title),
                &found.seconds,
            );
            let over = median_ratio(&found.seconds, &local).unwrap_or(f64::NAN);
            let photos = found.seconds.len() as f64;
            let asked = found.asked.map(|asked| {
                let files = found.files as f64;
                [
                    asked.put as f64 / files,
                    asked.head as f64 / photos,
                    asked.list as f64 / photos,
                    asked.get as f64 / photos,
                    asked.bucket as f64 / photos,
                    asked.bytes as f64 / 1e6 / photos,
                ]
            });
            let mut row = vec![
                kind.name().to_owned(),
                figure(median(&found.seconds).unwrap_or(f64::NAN)),
                figure(over),
            ];
            row.extend(match asked {
                Some(asked) => asked.map(figure),
                None => std::array::from_fn(|_| "–".to_owned()),
            });
            rows.push(row);
        }
        let columns = [
            "uploads",
            "s",
            "over local",
            "PUT a file",
            "HEAD a photo",
            "LIST",
            "GET",
            "bucket",
            "MB read",
        ];
        report.table(
            format!("a photo of {}, all its sizes", self.title),
            &columns,
            rows,
        );
        self.aim(report, &local);
    }

    /// Compares our sites with the targets.
    fn aim(&self, report: &mut Report, local: &[f64]) {
        let kinds = [Kind::Background, Kind::Close];
        for (kind, target) in kinds.into_iter().zip(self.targets) {
            let Some(found) = self.of(kind) else { continue };
            if let Some(ratio) = median_ratio(&found.seconds, local) {
                let what = format!("{}, {}, over a local folder", self.title, kind.name());
                report.aim(what, ratio, Target::AtMost(target));
            }
            let Some(asked) = found.asked else { continue };
            let (photos, files) = (found.seconds.len() as f64, found.files as f64);
            let figure = |what: &str| format!("{}, {}: {what}", self.title, kind.name());
            // Requests do not depend on the machine, but for those that its lateness explains: one too many fails the run.
            for (what, count, most) in found.counts(&asked, local) {
                report.must(figure(what), count, Target::AtMost(most));
            }
            let put = asked.put as f64 / files;
            report.aim(figure("PUT a file"), put, Target::AtMost(1.0));
            found.late.aim(report, &figure("lateness"));
            // But recipe 3 lists once more if a slow machine makes the photo a second after it has looked for its name.
            let weight = match kind {
                Kind::Close => Weight::Speed,
                _ => Weight::Correctness,
            };
            let listed = asked.list as f64 / photos;
            report.check(figure("LIST a photo"), listed, Target::AtMost(1.0), weight);
        }
        if let (Some(ours), Some(rclone)) = (self.of(Kind::Background), self.of(Kind::Rclone))
            && let Some(ratio) = median_ratio(&ours.seconds, &rclone.seconds)
        {
            let what = format!("{}, background, over an rclone mount", self.title);
            report.aim(what, ratio, Target::AtMost(1.0));
        }
    }
}
