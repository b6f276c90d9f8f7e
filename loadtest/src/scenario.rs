//! The measurements: each scenario is a function from a [`Context`] to a report.

use anyhow::Result;
use futures_util::future::BoxFuture;

use crate::context::{Context, Options};
use crate::measure::process::Machine;
use crate::report::Report;

pub mod access;
pub mod audiobook;
pub mod churn;
pub mod cold_requests;
pub mod disk;
pub mod documents;
pub mod events;
pub mod first_byte;
pub mod first_second;
pub mod herd;
pub mod hot;
pub mod library;
pub mod many;
pub mod mixed;
pub mod mount_folder;
pub mod mount_read;
pub mod mount_scan;
pub mod mount_small;
pub mod mount_write;
pub mod page;
pub mod players;
pub mod purge;
pub mod ramp;
pub mod ranges;
pub mod requests;
pub mod seek;
pub mod slow_clients;
pub mod stalls;
pub mod wordpress;
pub mod zipf;

/// A scenario by name.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The unit of `--count`, and the amount of a full run.
    pub count: &'static str,
    run: for<'a> fn(&'a Context) -> BoxFuture<'a, Result<Report>>,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Scenario {
    /// Runs the scenario with a bucket of its own.
    ///
    /// # Errors
    /// If it could not be carried out. Bad results are no error; the report shows them.
    pub async fn run(&self, options: Options) -> Result<Report> {
        let context = Context::new(options).await?;
        let before = Machine::now()?;
        let mut report = (self.run)(&context).await?;
        report.about = self.about.to_owned();
        report.notes.push(format!(
            "{} processors, {:.0} % idle over the whole of the run",
            std::thread::available_parallelism()?,
            Machine::now()?.idle_share_since(before) * 100.0
        ));
        Ok(report)
    }
}

/// All scenarios.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "hot",
        about: "hits of 4 KB to 8 MB: requests/s and CPU over nginx, bare hyper, Varnish, nginx proxy_cache; fresh starts",
        count: "KB of the object, instead of all sizes",
        run: |context| Box::pin(hot::direct(context)),
    },
    Scenario {
        name: "hot-proxied",
        about: "the same behind nginx, over TCP and a Unix socket: over a second nginx, nginx proxy_cache, its own files",
        count: "KB of the object, instead of all sizes",
        run: |context| Box::pin(hot::proxied(context)),
    },
    Scenario {
        name: "access",
        about: "hits of 35 KB by token, signed link, JWT and with limits: CPU over the open route; first verifications",
        count: "credentials of each kind (3,000)",
        run: |context| Box::pin(access::run(context)),
    },
    Scenario {
        name: "instructions",
        about: "instructions of the shipped binary for a hit of 35 KB, open and by each way in, by callgrind",
        count: "batches of 100 requests by each way (15)",
        run: |context| Box::pin(access::instructions::run(context)),
    },
    Scenario {
        name: "first-byte",
        about: "first byte of cold objects through the simulated cloud, over the same GET made directly",
        count: "objects of each size (100)",
        run: |context| Box::pin(first_byte::run(context)),
    },
    Scenario {
        name: "herd",
        about: "clients all at once on one cold 64 MB object: bytes fetched, bodies, memory",
        count: "clients (500)",
        run: |context| Box::pin(herd::run(context)),
    },
    Scenario {
        name: "cold-requests",
        about: "what the origin is asked for a cold object ten folders deep among many siblings",
        count: "siblings (10,000)",
        run: |context| Box::pin(cold_requests::run(context)),
    },
    Scenario {
        name: "purge",
        about: "POST /purge of 10,000 keys, of a prefix and a tag over many, and beside a mount: time until it is durable",
        count: "keys that are known (1,000,000)",
        run: |context| Box::pin(purge::run(context)),
    },
    Scenario {
        name: "events",
        about: "from a PUT or DELETE in the bucket until readers and a mount see it, by webhook, NATS and with queue_dir; from a purge to all of a fleet of three",
        count: "changes of each kind by each way, and purges (200)",
        run: |context| Box::pin(events::run(context)),
    },
    Scenario {
        name: "churn",
        about: "an object replaced again and again under 32 readers: no body of two versions",
        count: "replacements (1,000)",
        run: |context| Box::pin(churn::run(context)),
    },
    Scenario {
        name: "ranges",
        about: "random ranges over objects of 0 B to 50 MB, each compared with the slice",
        count: "requests (100,000)",
        run: |context| Box::pin(ranges::run(context)),
    },
    Scenario {
        name: "audiobook",
        about: "a long object in sequence, cold and from disk: rate over 16 bare GETs, rclone, nginx slice",
        count: "MB of the object (864)",
        run: |context| Box::pin(audiobook::run(context)),
    },
    Scenario {
        name: "ramp",
        about: "a cold read at full speed over near and far buckets: over 16 bare GETs; the cost of a probe",
        count: "MB of the object (864)",
        run: |context| Box::pin(ramp::run(context)),
    },
    Scenario {
        name: "seek",
        about: "random reads of 256 KB in 864 MB: first byte over a bare ranged GET, bytes fetched",
        count: "seeks (200)",
        run: |context| Box::pin(seek::run(context)),
    },
    Scenario {
        name: "stalls",
        about: "connections to the origin pause in turn: waits of a reader at 90 MB/s; rate of another",
        count: "MB of the object (1800)",
        run: |context| Box::pin(stalls::run(context)),
    },
    Scenario {
        name: "wordpress-3",
        about: "a page with 3 images over 6 connections, cold and warm: over nginx local files, nginx cache, varnish, rclone",
        count: "warm page loads (10,000)",
        run: |context| Box::pin(page::run(context, "wordpress-3", page::THREE)),
    },
    Scenario {
        name: "wordpress-14",
        about: "the same with 14 images of mixed sizes",
        count: "warm page loads (10,000)",
        run: |context| Box::pin(page::run(context, "wordpress-14", page::FOURTEEN)),
    },
    Scenario {
        name: "documents",
        about: "documents of 40 to 500 KB at random, 8 readers: cold over 8 bare GETs, warm over rclone full",
        count: "documents (2,000)",
        run: |context| Box::pin(documents::run(context)),
    },
    Scenario {
        name: "first-second",
        about: "a 512 KB object in reads of 4 KB, the first and the second time",
        count: "objects (10)",
        run: |context| Box::pin(first_second::run(context)),
    },
    Scenario {
        name: "mount-read",
        about: "a mount: look-ups, cold over HTTP and other mounts, small steps, from disk, from pages, at random (root)",
        count: "MB of the object (864)",
        run: |context| Box::pin(mount_read::run(context)),
    },
    Scenario {
        name: "mount-scan",
        about: "a library's scan through a mount beside a playback: waits of the playback, bytes fetched (root)",
        count: "files (10,000)",
        run: |context| Box::pin(mount_scan::run(context)),
    },
    Scenario {
        name: "mount-write",
        about: "a long file copied onto the mount over bare parts, aws s3 cp, mountpoint-s3; qemu-img (root)",
        count: "MB of the file (8,000)",
        run: |context| Box::pin(mount_write::run(context)),
    },
    Scenario {
        name: "mount-folder",
        about: "a folder of small files through mounts, by find, ls -lR, tar, grep -r, cold and again (root)",
        count: "files (10,000)",
        run: |context| Box::pin(mount_folder::run(context)),
    },
    Scenario {
        name: "mount-small",
        about: "files of 8 KiB copied onto mounts until all are in the bucket, read back by tar (root)",
        count: "files (6,400)",
        run: |context| Box::pin(mount_small::run(context)),
    },
    Scenario {
        name: "slow-clients",
        about: "clients at 1 Mbit/s on an object each: memory over cache and budget",
        count: "clients (2,000)",
        run: |context| Box::pin(slow_clients::run(context)),
    },
    Scenario {
        name: "many",
        about: "1, 16 and 200 cold streams side by side over bare GETs; listeners at 256 kbit/s from disk; idle connections: memory",
        count: "listeners (2,000), and five idle connections for each",
        run: |context| Box::pin(many::run(context)),
    },
    Scenario {
        name: "mixed",
        about: "a small hot object while 8 cold streams run: P99 over nginx static beside the same streams",
        count: "MB of each stream (400)",
        run: |context| Box::pin(mixed::run(context)),
    },
    Scenario {
        name: "zipf",
        about: "objects by popularity, at a steady rate: hit ratio beside a simulation of the policy",
        count: "objects (100,000)",
        run: |context| Box::pin(zipf::run(context)),
    },
    Scenario {
        name: "disk-first",
        about: "first read through the simulated cloud with a disk, and a slow one, over none (root)",
        count: "MB of the object (864)",
        run: |context| Box::pin(disk::first::run(context)),
    },
    Scenario {
        name: "disk-published",
        about: "origin held to 56 MB/s in all, disk to 80: first read over no cache, second read (root)",
        count: "MB of the object (864)",
        run: |context| Box::pin(disk::published::run(context)),
    },
    Scenario {
        name: "disk-second",
        about: "second reads after a restart: slow disk over none, disk alone over fio, over mountpoint-s3, rclone (root)",
        count: "MB of the object (864)",
        run: |context| Box::pin(disk::second::run(context)),
    },
    Scenario {
        name: "disk-hit",
        about: "second reads with nothing in memory, 64 MB and 468 KB: over nginx sendfile from the same disk (root)",
        count: "MB of each size (512)",
        run: |context| Box::pin(disk::hit::run(context)),
    },
    Scenario {
        name: "disk-two",
        about: "second read of one object from two disks over one, origin cut off (root)",
        count: "MB of the object (864)",
        run: |context| Box::pin(disk::two::run(context)),
    },
    Scenario {
        name: "disk-start",
        about: "many small chunks on disk: first answer, index complete, memory of the index (root)",
        count: "chunks (1,000,000)",
        run: |context| Box::pin(disk::start::run(context)),
    },
    Scenario {
        name: "disk-zipf",
        about: "hit ratio of popular objects before and after a scan of three times the cache",
        count: "objects (20,000)",
        run: |context| Box::pin(disk::zipf::run(context)),
    },
    Scenario {
        name: "disk-down",
        about: "the origin is down after a restart and after a kill: all that is cached is served",
        count: "objects (2,000)",
        run: |context| Box::pin(disk::down::run(context)),
    },
    Scenario {
        name: "disk-kill",
        about: "kill -9 at random moments under load: wrong bytes, chunks found again",
        count: "kills (50)",
        run: |context| Box::pin(disk::kill::run(context)),
    },
    Scenario {
        name: "disk-flips",
        about: "bit flips and truncations in the cache's files: wrong bytes, failed requests",
        count: "damages (1,000)",
        run: |context| Box::pin(disk::flips::run(context)),
    },
    Scenario {
        name: "wordpress",
        about: "a real WordPress with its uploads on a mount, beside a local folder and rclone (root)",
        count: "photos of each size (20)",
        run: |context| Box::pin(wordpress::run(context)),
    },
    Scenario {
        name: "requests",
        about: "what the bucket is asked for uploads, a library's day and a scan, by kind, beside other mounts (root)",
        count: "photos (20); 20 times as many files are scanned",
        run: |context| Box::pin(requests::run(context)),
    },
    Scenario {
        name: "library",
        about: "a library on mounts: scans of books, a renamed folder, restic, git, beside local and other mounts (root)",
        count: "books (1,000)",
        run: |context| Box::pin(library::run(context)),
    },
    Scenario {
        name: "players",
        about: "Chromium, mpv and VLC play and seek in cold media: over signed URLs, rclone mount, a local folder (root)",
        count: "minutes of a book (60); a film has a sixth of them",
        run: |context| Box::pin(players::run(context)),
    },
    Scenario {
        name: "disk-faults",
        about: "a disk full, read-only, broken, pulled, hung: failed requests, added waits (root, loop devices)",
        count: "",
        run: |context| Box::pin(disk::faults::run(context)),
    },
];

/// Returns the scenario of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}
