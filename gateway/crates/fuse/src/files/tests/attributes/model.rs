//! Drawn changes against a reference: the attributes that a local disk would show.

use std::collections::BTreeMap;

use super::*;

/// Draws numbers, the same ones for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % most
    }
}

/// The attributes that a local disk would show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    perm: u16,
    uid: u32,
    gid: u32,
    /// The set time, if the file was not written to since.
    modified: Option<UnixTime>,
    size: u64,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Writes a byte at the end of a file of this size.
async fn append(world: &World, ino: u64, size: u64) {
    let opened = world.files.open(ino, OpenFlags(1), BY).await;
    let (handle, _) = opened.expect("it opens");
    let written = world.files.write((handle, 0), size, "x".into(), false);
    written.await.expect("written");
    assert_eq!(world.files.flush(handle, 0).await, Ok(()));
    world.files.close(handle).await;
}

/// Changes one file in a drawn way, and the reference alike.
async fn step(world: &World, truth: &mut BTreeMap<&'static str, Shown>, draw: &mut Draw) {
    let name = NAMES[usize::try_from(draw.below(3)).expect("small")];
    let Some(shown) = truth.get(name).copied() else {
        world.filled(name, "12345").await;
        let made = Shown {
            perm: 0o750,
            uid: 1000,
            gid: 1001,
            modified: None,
            size: 5,
        };
        truth.insert(name, made);
        return;
    };
    let ino = world.walk(name).await.ino.0;
    let mut next = shown;
    match draw.below(7) {
        0 => {
            next.perm = u16::try_from(draw.below(0o1000)).expect("small");
            world.set(ino, mode(next.perm.into())).await;
        }
        1 => {
            next.uid = u32::try_from(draw.below(50)).expect("small");
            next.gid = u32::try_from(draw.below(50)).expect("small");
            world.set(ino, owner(next.uid, next.gid)).await;
        }
        2 => {
            let secs = i64::try_from(draw.below(1 << 32)).expect("small") - (1 << 31);
            let time = UnixTime::new(secs, u32::try_from(draw.below(1000)).expect("small"));
            next.modified = Some(time);
            world.set(ino, dated(time.secs(), time.nanos())).await;
        }
        3 => {
            append(world, ino, shown.size).await;
            (next.size, next.modified) = (shown.size + 1, None);
        }
        4 => {
            let to = NAMES[usize::try_from(draw.below(3)).expect("small")];
            let renamed = world
                .files
                .rename((ROOT_INO, name.into()), (ROOT_INO, to.into()), false);
            assert_eq!(renamed.await, Ok(()));
            truth.remove(name);
            truth.insert(to, shown);
            return;
        }
        5 => {
            let removed = world.files.unlink(ROOT_INO, name.into()).await;
            assert_eq!(removed, Ok(()));
            truth.remove(name);
            return;
        }
        _ => world.all_sent().await,
    }
    truth.insert(name, next);
}

/// Compares what `stat` shows with the reference.
async fn compare(world: &World, truth: &BTreeMap<&'static str, Shown>, what: &str) {
    for name in NAMES {
        let Some(expected) = truth.get(name) else {
            assert_eq!(
                world.look(ROOT_INO, name).await.map(drop),
                Err(Errno::ENOENT),
                "{what}: {name}"
            );
            continue;
        };
        let attr = world.walk(name).await;
        let time = attr::shown_time(attr.mtime);
        let shown = Shown {
            perm: attr.perm,
            uid: attr.uid,
            gid: attr.gid,
            modified: expected.modified.map(|_| time),
            size: attr.size,
        };
        assert_eq!(shown, *expected, "{what}: {name}");
    }
}

/// Compares what the bucket has with the reference, once nothing waits.
fn compare_stored(world: &World, truth: &BTreeMap<&'static str, Shown>, what: &str) {
    for (name, expected) in truth {
        let stored = world.attributes(&format!("p/{name}"));
        let shown = Shown {
            perm: u16::try_from(stored.permissions().expect("a mode")).expect("small"),
            uid: stored.uid.expect("an owner"),
            gid: stored.gid.expect("a group"),
            modified: expected.modified.and(stored.modified),
            size: expected.size,
        };
        assert_eq!(shown, *expected, "{what}: {name}");
    }
}

#[tokio::test]
async fn drawn_changes_are_shown_and_stored_as_a_local_disk_would() {
    for seed in 0..12 {
        let mut draw = Draw(seed);
        let (mut world, mut truth) = (World::keeping(), BTreeMap::new());
        for number in 0..40 {
            let what = format!("seed {seed}, step {number}");
            step(&world, &mut truth, &mut draw).await;
            compare(&world, &truth, &what).await;
            if draw.below(8) == 0 {
                world = world.restarted(true).await;
                compare(&world, &truth, &format!("{what}, restarted")).await;
            }
        }
        world.all_sent().await;
        compare_stored(&world, &truth, &format!("seed {seed}"));
        let world = world.restarted(false).await;
        compare(&world, &truth, &format!("seed {seed}, without its index")).await;
    }
}
