//! The power is cut under the real program, again and again, at a moment drawn from a seed. Cache, state and spool lie
//! on a file system that loses or tears unsynced bytes. After each cut the program starts over the remains, and every
//! object is compared with the promises. The test needs a real MinIO, root and /dev/fuse.
//!
//! `TIDEGATE_CUTS` sets the number of cuts, `TIDEGATE_SEED` their moments and their losses.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites keep versions as well")]
mod bucket;
#[path = "../crates/engine/tests/support/draw.rs"]
mod draw;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites run programs on it")]
mod mount;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites end it in order")]
mod serving;
#[path = "support/sick_fs.rs"]
#[expect(dead_code, reason = "other suites hang it")]
mod sick_fs;
#[path = "support/volatile.rs"]
mod volatile;

#[path = "real_power_cut/house.rs"]
mod house;
#[path = "real_power_cut/model.rs"]
mod model;
#[path = "real_power_cut/work.rs"]
mod work;

use std::sync::Arc;

use draw::Draw;
use house::House;
use work::Worker;

/// Returns the value of an environment variable, or `short` without it.
fn count(variable: &str, short: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => short,
    }
}

/// Number of concurrent writers; each has keys of its own.
const WORKERS: u64 = 3;

/// Lets the workers work until they have made `calls` calls, then cuts the power.
async fn cut_amid(
    house: &mut House,
    workers: Vec<Worker>,
    calls: u64,
    draw: &mut Draw,
) -> Vec<Worker> {
    let at_work: Vec<_> = workers
        .into_iter()
        .map(|worker| tokio::spawn(worker.work(Arc::clone(&house.scene))))
        .collect();
    house.scene.made(calls).await;
    house.cut(draw);
    let mut workers = Vec::new();
    for worker in at_work {
        let worker = worker.await.unwrap_or_else(|panic| {
            panic!("a worker saw something wrong: {panic}\n{}", house.log())
        });
        workers.push(worker);
    }
    workers
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_promised_is_lost_in_power_cuts() {
    let (cuts, seed) = (count("TIDEGATE_CUTS", 10), count("TIDEGATE_SEED", 1));
    let mut house = House::build().await;
    let mut draw = Draw::new(seed);
    let mut workers: Vec<Worker> = (0..WORKERS).map(|who| Worker::new(who, seed)).collect();
    let mut checked = 0;
    for cut in 0..cuts {
        house.start(draw.below(2) == 0).await;
        // Sometimes the power goes again while the program recovers.
        let again = cut > 0 && draw.below(5) == 0;
        let calls = match again {
            true => draw.below(4),
            false => 10 + draw.below(250),
        };
        if !again {
            checked += house.check(&mut workers, cut).await;
        }
        workers = cut_amid(&mut house, workers, calls, &mut draw).await;
    }
    house.start(true).await;
    checked += house.check(&mut workers, cuts).await;
    house.end().await;
    let made: u64 = workers.iter().map(|worker| worker.acknowledged).sum();
    println!("{cuts} power cuts (seed {seed}): {made} promises, {checked} objects compared");
}
