//! Faults at every call of the spool to its file system, in the life of an object that is written: the power is cut
//! around the call, or it fails. Nothing promised is lost, nothing else is published. The tests need root and
//! /dev/fuse.
//!
//! `docs/SPOOL.md` has the outcome of each; `UPDATE=1` writes it.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

#[path = "../crates/engine/tests/support/draw.rs"]
mod draw;
#[expect(dead_code, reason = "other suites ask more of it")]
#[path = "../crates/engine/tests/support/engine.rs"]
mod engine;
#[expect(dead_code, reason = "other suites hang it")]
#[path = "support/sick_fs.rs"]
mod sick_fs;
#[expect(dead_code, reason = "other suites have a desk")]
#[path = "../crates/write/tests/support/spool.rs"]
mod spool;
#[path = "support/volatile.rs"]
mod volatile;

#[path = "real_spool_faults/life.rs"]
mod life;
#[path = "real_spool_faults/read_only.rs"]
mod read_only;
#[path = "real_spool_faults/table.rs"]
mod table;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tidegate_origin::FakeOrigin;

use draw::Draw;
use life::{KEY, Life, PUBLISHED, Told, described, is_allowed, taken_up};
use sick_fs::{Fate, Moment, SickFs};
use table::{Fault, Row, Table, label};
use volatile::Volatile;

/// Number of random losses that are drawn for a cut at each call.
const DRAWS: u64 = 3;

/// A moment at which the power may go.
struct Cut {
    row: Row,
    moment: Moment,
    disk: Volatile,
    bucket: FakeOrigin,
    told: Told,
}

/// Lives a life on a healthy disk, and records every moment in it.
async fn moments(life: Life) -> Vec<Cut> {
    let sick = SickFs::mount(&["spool"]);
    let bucket = life::bucket();
    let (told, cuts) = (
        Arc::new(Mutex::new(Told::default())),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (of, into, at) = (bucket.clone(), cuts.clone(), told.clone());
    sick.watch(Box::new(move |moment, call, disk| {
        let cut = Cut {
            row: label(call),
            moment,
            disk: disk.clone(),
            bucket: of.copied(),
            told: at.lock().expect("sound").clone(),
        };
        into.lock().expect("sound").push(cut);
        None
    }));
    let lived = life.live(&sick.path("spool"), bucket, &told).await;
    assert!(lived.is_published, "nothing fails");
    sick.watch(Box::new(|_, _, _| None));
    std::mem::take(&mut *cuts.lock().expect("sound"))
}

/// The power is cut before and after every call, and tears the bytes under way.
#[tokio::test(start_paused = true)]
async fn a_cut_at_any_call_loses_nothing_promised_and_publishes_nothing_else() {
    let mut table = Table::read();
    let mut drawn = 0;
    for life in Life::ALL {
        for (number, cut) in moments(life).await.into_iter().enumerate() {
            for draw in 0..DRAWS {
                let mut disk = cut.disk.clone();
                disk.cut(&mut Draw::new(number as u64 * DRAWS + draw + 1));
                let sick = SickFs::over(disk);
                let found = taken_up(life, &sick.path("spool"), cut.bucket.copied()).await;
                let (row, moment) = (cut.row, cut.moment);
                assert!(
                    is_allowed(&found, &cut.told),
                    "{life:?}, cut {number} {moment:?} `{row}`, draw {draw}: {} in place of {:?}",
                    described(&found, &cut.told),
                    cut.told
                );
                drawn += 1;
            }
            table.cut(cut.row, cut.moment);
        }
    }
    table.agree_on_cuts();
    println!("{drawn} power cuts");
}

/// Makes call `number` fail, counted from 0 among those that can meet the fault. The result names it afterwards.
fn fail_call(sick: &SickFs, number: usize, fault: Fault) -> Arc<Mutex<Option<Row>>> {
    let (failed, mut calls) = (Arc::new(Mutex::new(None)), 0);
    let tell = failed.clone();
    sick.watch(Box::new(move |moment, call, _| {
        let counts = moment == Moment::Before && fault.can_meet(call);
        calls += usize::from(counts);
        let fails = counts && calls == number + 1;
        if fails {
            *tell.lock().expect("sound") = Some(label(call));
        }
        fails.then_some(fault.fate())
    }));
    failed
}

/// Returns the outcome of an object with one failed call.
async fn failing(life: Life, number: usize, fault: Fault) -> Option<(Row, &'static str)> {
    let sick = SickFs::mount(&["spool"]);
    let bucket = life::bucket();
    let told = Arc::new(Mutex::new(Told::default()));
    let failed = fail_call(&sick, number, fault);
    let lived = life.live(&sick.path("spool"), bucket.clone(), &told).await;
    let row = (*failed.lock().expect("sound"))?;
    let told = told.lock().expect("sound").clone();
    let found = bucket.object(KEY).map(|(_, bytes)| bytes);
    let what = format!("{life:?}, call {number} `{row}` fails ({fault:?})");
    assert!(
        is_allowed(&found, &told) || life::is_untouched(&found),
        "{what}: {} in place of {told:?}",
        described(&found, &told)
    );
    // The state after the end of the process, and after a power cut.
    for draw in 0..DRAWS {
        let mut disk = sick.disk();
        if draw > 0 {
            disk.cut(&mut Draw::new(number as u64 * DRAWS + draw));
        }
        let sick = SickFs::over(disk);
        let again = taken_up(life, &sick.path("spool"), bucket.copied()).await;
        assert!(
            is_allowed(&again, &told),
            "{what}, started again, draw {draw}: {} in place of {told:?}",
            described(&again, &told)
        );
    }
    Some((row, lived.outcome(&told)))
}

/// Each call fails once.
#[tokio::test(start_paused = true)]
async fn a_call_that_fails_loses_nothing_promised_and_publishes_nothing_else() {
    let mut table = Table::read();
    for life in Life::ALL {
        for fault in Fault::ALL {
            let mut number = 0;
            while let Some((row, outcome)) = failing(life, number, fault).await {
                table.failed(row, fault, outcome);
                number += 1;
            }
            assert!(
                number > 3,
                "{life:?} makes {number} calls that may meet {fault:?}"
            );
        }
    }
    table.agree_on_faults();
}

/// The remains of an interrupted life are recovered over a disk that fails, and once more over a healthy one.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_up_is_left_until_it_can() {
    let mut table = Table::read();
    for life in Life::ALL {
        let cuts = moments(life).await;
        let is_left = |cut: &Cut| {
            let object = cut.bucket.object(KEY).map(|(_, bytes)| bytes);
            cut.told.is_promised() && life::is_untouched(&object)
        };
        let Some(cut) = cuts.into_iter().rfind(is_left) else {
            continue;
        };
        let mut rows = BTreeSet::new();
        for fault in Fault::ALL {
            for number in 0.. {
                let sick = SickFs::over(cut.disk.clone());
                let failed = fail_call(&sick, number, fault);
                let bucket = cut.bucket.copied();
                let found = taken_up(life, &sick.path("spool"), bucket.clone()).await;
                let Some(row) = *failed.lock().expect("sound") else {
                    break;
                };
                let what =
                    format!("{life:?}, call {number} `{row}` of taking up fails ({fault:?})");
                let before = life::is_untouched(&found);
                assert!(
                    before || is_allowed(&found, &cut.told),
                    "{what}: {}",
                    described(&found, &cut.told)
                );
                let sick = SickFs::over(sick.disk());
                let again = taken_up(life, &sick.path("spool"), bucket).await;
                assert!(
                    is_allowed(&again, &cut.told),
                    "{what}, and again: {}",
                    described(&again, &cut.told)
                );
                let outcome = match before && !is_allowed(&found, &cut.told) {
                    true => "left; the next start publishes it",
                    false => PUBLISHED,
                };
                rows.insert(row);
                table.failed(row, fault, outcome);
            }
        }
        assert!(rows.len() > 3, "{rows:?}");
    }
    table.agree_on_faults();
}

/// Makes the file system one that neither punches holes nor sets room aside, as NFS before 4.2 is.
fn without_fallocate(sick: &SickFs) {
    sick.watch(Box::new(|moment, call, _| {
        let fails = moment == Moment::Before && call.what == "fallocate";
        fails.then_some(Fate::Fails(fuser::Errno::EOPNOTSUPP))
    }));
}

/// A file system that punches no holes does all the same, also for the remains of an interrupted life.
#[tokio::test(start_paused = true)]
async fn a_disk_without_holes_loses_nothing_promised_and_publishes_nothing_else() {
    for life in Life::ALL {
        let sick = SickFs::mount(&["spool"]);
        without_fallocate(&sick);
        let told = Arc::new(Mutex::new(Told::default()));
        let lived = life.live(&sick.path("spool"), life::bucket(), &told).await;
        let told = told.lock().expect("sound").clone();
        assert!(
            lived.is_published && told.is_unnoticed(),
            "{life:?}: {told:?}"
        );
        for (number, cut) in moments(life).await.into_iter().enumerate() {
            let sick = SickFs::over(cut.disk);
            without_fallocate(&sick);
            let found = taken_up(life, &sick.path("spool"), cut.bucket).await;
            assert!(
                is_allowed(&found, &cut.told),
                "{life:?}, cut {number} `{}`: {} in place of {:?}",
                cut.row,
                described(&found, &cut.told),
                cut.told
            );
        }
    }
}
