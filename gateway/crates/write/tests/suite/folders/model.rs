//! Names against a model: each answer to a mount was true in the bucket at most as long ago as the profile allows, and
//! not before this process changed the name.

use std::collections::BTreeMap;

use futures_util::stream;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate_plan::Timestamp;
use tidegate_plan::attributes::Attributes;
use tidegate_plan::digest::Digests;
use tidegate_write::FolderRename;
use tidegate_write::receive::{IncomingObject, WriteCondition};

use super::*;
use crate::support::engine::{clock, first, valid};
use crate::support::spool::{Desk, Terms};

/// Files, and names that are never there. `d/a` has a stem that others continue.
const FILES: [&str; 11] = [
    "d/a", "d/a-1x1", "d/b", "d/s/x", "d/s/y", "d/t/x", "d/u/x", "d/u/v/x", "d/w/x", "d/w/y", "top",
];
const NEVER: [&str; 4] = ["d/a-2x2", "d/none", "d/s/z", "d/u/z"];
/// Enough in `d` for the listing of a tree.
const FOLDERS: [&str; 6] = ["d", "d/s", "d/t", "d/u", "d/u/v", "d/w"];
const MARKERS: [&str; 6] = ["d/", "d/s/", "d/t/", "d/u/", "d/u/v/", "d/w/"];
/// Two folders of which each may get the name of the other one.
const RENAMED: [(&str, &str); 2] = [("d/s/", "d/w/"), ("d/w/", "d/s/")];

const TTL: Duration = secs(60);
const NEGATIVE: Duration = secs(5);

/// One step, by index into [`FILES`].
#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    ForeignPut(usize),
    ForeignDelete(usize),
    Write(usize),
    Remove(usize),
    Rename(usize, usize),
    HttpPut(usize),
    HttpDelete(usize),
    Chmod(usize),
    MakeFolder(usize),
    RemoveFolder(usize),
    RenameFolder(usize),
    Open(usize),
    Look(usize),
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..FILES.len();
    let any = 0..FILES.len() + NEVER.len() + FOLDERS.len();
    prop_oneof![
        2 => prop::sample::select(vec![1_u64, 900, 2000, 4999, 5000, 20_000, 59_000, 60_000])
            .prop_map(Step::Pass),
        2 => file.clone().prop_map(Step::ForeignPut),
        2 => file.clone().prop_map(Step::ForeignDelete),
        1 => file.clone().prop_map(Step::Write),
        1 => file.clone().prop_map(Step::Remove),
        1 => (file.clone(), file.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => file.clone().prop_map(Step::HttpPut),
        1 => file.clone().prop_map(Step::HttpDelete),
        1 => file.clone().prop_map(Step::Chmod),
        1 => (0..FOLDERS.len()).prop_map(Step::MakeFolder),
        1 => (0..FOLDERS.len()).prop_map(Step::RemoveFolder),
        1 => (0..RENAMED.len()).prop_map(Step::RenameFolder),
        1 => file.prop_map(Step::Open),
        8 => any.prop_map(Step::Look),
        6 => (0..FOLDERS.len() + 1).prop_map(Step::Read),
    ]
}

/// The history of every name: its state, since when, and whether this process made it so.
struct Truth {
    now: Box<dyn Fn() -> Timestamp>,
    there: BTreeMap<&'static str, bool>,
    /// The changes in order: the time, whether the name exists, and whether this process changed it.
    history: BTreeMap<&'static str, Vec<(Timestamp, bool, bool)>>,
    /// The last time at which this process wrote each file.
    written: BTreeMap<&'static str, Timestamp>,
    /// The last answer: the lowest possible index in the history, and its time.
    told: BTreeMap<&'static str, (usize, Timestamp)>,
}

impl Truth {
    fn new() -> Self {
        let clock = clock();
        let all = FILES.into_iter().chain(NEVER).chain(FOLDERS).chain(MARKERS);
        Self {
            now: Box::new(move || clock()),
            there: BTreeMap::new(),
            written: BTreeMap::new(),
            told: BTreeMap::new(),
            history: all
                .map(|name| (name, vec![(Timestamp(0), false, false)]))
                .collect(),
        }
    }

    fn set(&mut self, name: &'static str, there: bool, own: bool) {
        self.there.insert(name, there);
        let now = (self.now)();
        self.history
            .get_mut(name)
            .expect("known")
            .push((now, there, own));
        if there && own && FILES.contains(&name) {
            self.written.insert(name, now);
        }
        for folder in FOLDERS {
            let below =
                |(name, there): (&&str, &bool)| *there && name.starts_with(&format!("{folder}/"));
            let is = self.there.iter().any(below);
            // The bucket decides whether a folder has gone with its last file.
            let own = own && there && name.starts_with(&format!("{folder}/"));
            let history = self.history.get_mut(folder).expect("known");
            if history.last().is_some_and(|(_, was, _)| *was != is) || own {
                history.push((now, is, own));
            }
        }
    }

    /// Returns the greatest age of the answer that a name is missing: greater if it continues the stem of a file of ours.
    fn missing_bound(&self, name: &str) -> Duration {
        let (now, mut written) = ((self.now)(), self.written.iter());
        let counts = |(file, at): (&&str, &Timestamp)| {
            name.starts_with(&format!("{file}-")) && now.since(*at) < TTL
        };
        if written.any(counts) { TTL } else { NEGATIVE }
    }

    /// Checks an answer about a name, which may be as old as `bound`. It may not be older than the answer before it.
    fn tell(&mut self, name: &'static str, there: bool, bound: Duration) {
        let (history, now) = (&self.history[name], (self.now)());
        let own = history.iter().rposition(|(_, _, own)| *own).unwrap_or(0);
        let ended = |n: usize| history.get(n + 1).map_or(now, |(end, ..)| *end);
        let (last, at) = self.told.get(name).copied().unwrap_or_default();
        let mut may_be = (own..history.len()).filter(|n| {
            let recent = now.since(ended(*n)) <= bound;
            let onward = *n >= last || ended(*n) >= at;
            history[*n].1 == there && recent && onward
        });
        let Some(told) = may_be.next() else {
            panic!("{name} is told to be {there}, after {last} of {history:?} at {now:?}");
        };
        self.told.insert(name, (told.max(last), now));
    }
}

pub(super) async fn http_put(desk: &Desk, key: &str) {
    let incoming = IncomingObject {
        headers: Vec::new(),
        wanted: WriteCondition::Anything,
        length: Some(4),
        digests: Digests::default(),
    };
    let body = stream::iter([Ok("http".into())]);
    let key = valid(key);
    let write_path = desk.writers.write_path();
    let put = write_path.receive(&desk.world.source, &key, incoming, body);
    put.await.expect("written");
}

async fn take(desk: &Desk, truth: &mut Truth, step: Step) {
    let world = &desk.world;
    let is_there = |truth: &Truth, n: usize| truth.there.get(FILES[n]).copied().unwrap_or(false);
    match step {
        Step::Pass(millis) => pass(Duration::from_millis(millis)).await,
        Step::ForeignPut(n) => {
            world.bucket.put(FILES[n], "foreign");
            truth.set(FILES[n], true, false);
        }
        Step::ForeignDelete(n) => {
            world.bucket.delete(FILES[n]);
            truth.set(FILES[n], false, false);
        }
        Step::Write(n) => {
            desk.write(FILES[n], &"own".into()).await;
            truth.set(FILES[n], true, true);
        }
        Step::Remove(n) => {
            let removed = desk.writers.remove(&world.source, &valid(FILES[n])).await;
            removed.expect("removed");
            truth.set(FILES[n], false, true);
        }
        Step::Rename(from, to) if from != to && is_there(truth, from) => {
            let (old, new) = (valid(FILES[from]), valid(FILES[to]));
            desk.writers
                .rename(&world.source, &old, &new)
                .await
                .expect("renamed");
            truth.set(FILES[to], true, true);
            truth.set(FILES[from], false, true);
        }
        Step::Rename(..) => {}
        Step::HttpPut(n) => {
            http_put(desk, FILES[n]).await;
            truth.set(FILES[n], true, true);
        }
        Step::HttpDelete(n) => {
            let wanted = WriteCondition::Anything;
            let deleted = desk
                .writers
                .write_path()
                .delete(&world.source, &valid(FILES[n]), &wanted)
                .await;
            deleted.expect("deleted");
            truth.set(FILES[n], false, true);
        }
        Step::Chmod(n) => chmod(desk, truth, FILES[n]).await,
        Step::MakeFolder(n) => make_folder(desk, truth, n).await,
        Step::RemoveFolder(n) => remove_folder(desk, truth, n).await,
        Step::RenameFolder(n) => rename_folder(desk, truth, RENAMED[n]).await,
        Step::Open(n) => {
            let _ = world.open(FILES[n], first(RangeSpec::From(0))).await;
        }
        step => ask(world, truth, step).await,
    }
}

/// Looks for a name, and checks the answer.
async fn look(world: &World, truth: &mut Truth, name: &'static str) -> NameKind {
    let found = world.entry(name).await;
    let there = found != NameKind::Missing;
    let missing = truth.missing_bound(name);
    truth.tell(name, there, if there { TTL } else { missing });
    found
}

/// Changes attributes as a mount does. They are sent two seconds later.
async fn chmod(desk: &Desk, truth: &mut Truth, name: &'static str) {
    let since = desk.world.engine.name_epoch();
    let NameKind::File(facts) = look(&desk.world, truth, name).await else {
        return;
    };
    let attributes = Attributes {
        mode: Some(0o100_600),
        ..Attributes::default()
    };
    let (source, key) = (&desk.world.source, valid(name));
    let changed = desk
        .writers
        .change_attributes(source, &key, (&facts, since), attributes);
    // A listing that the look-up caused is later than the epoch.
    let _ = changed.await;
    // The object that the copy makes may have been gone for a listing.
    truth.written.insert(name, (truth.now)().plus(secs(2)));
}

async fn make_folder(desk: &Desk, truth: &mut Truth, n: usize) {
    if look(&desk.world, truth, FOLDERS[n]).await != NameKind::Missing {
        return;
    }
    let (source, key) = (&desk.world.source, valid(MARKERS[n]));
    let made = desk.writers.make_folder(source, &key, None).await;
    made.expect("made");
    truth.set(MARKERS[n], true, true);
}

/// Removes a folder that the bucket says is empty.
async fn remove_folder(desk: &Desk, truth: &mut Truth, n: usize) {
    pass(NEGATIVE).await;
    let (world, marker) = (&desk.world, MARKERS[n]);
    let is_empty = world.engine.is_empty(&world.source, marker).await;
    if is_empty.expect("an answer") {
        let removed = desk.writers.remove(&world.source, &valid(marker)).await;
        removed.expect("removed");
        truth.set(marker, false, true);
    }
}

async fn rename_folder(desk: &Desk, truth: &mut Truth, (from, to): (&'static str, &'static str)) {
    let (writers, source) = (&desk.writers, &desk.world.source);
    let locked = writers.lock_folders(source, [from, to]).await;
    let renamed = writers
        .rename_folder(source, (from, to), 100, &locked)
        .await;
    if !matches!(renamed, Ok(FolderRename::Copied(_))) {
        return;
    }
    let all = || FILES.into_iter().chain(MARKERS);
    let is_there = |name: &str| truth.there.get(name).copied().unwrap_or(false);
    let old: Vec<_> = all()
        .filter(|name| name.starts_with(from) && is_there(name))
        .collect();
    let renamed = |old: &str| old.replacen(from, to, 1);
    let new = |old: &str| all().find(|name| *name == renamed(old)).expect("a name");
    // The marker of an empty folder is replaced.
    truth.set(new(from), false, false);
    for old in &old {
        truth.set(new(old), true, true);
    }
    for old in old {
        truth.set(old, false, true);
    }
}

/// Takes the steps that return an answer, and checks it.
async fn ask(world: &World, truth: &mut Truth, step: Step) {
    match step {
        Step::Look(n) => {
            let all: Vec<_> = FILES.into_iter().chain(NEVER).chain(FOLDERS).collect();
            look(world, truth, all[n]).await;
        }
        Step::Read(n) => {
            let folder = FOLDERS.get(n).copied().unwrap_or("");
            let prefix = if folder.is_empty() {
                String::new()
            } else {
                format!("{folder}/")
            };
            let names = world.names(&prefix).await;
            for path in FILES.into_iter().chain(NEVER).chain(FOLDERS) {
                let Some(name) = path.strip_prefix(&prefix).filter(|it| !it.contains('/')) else {
                    continue;
                };
                let count = names.iter().filter(|it| *it == name).count();
                assert!(count <= 1, "{path} twice");
                // The longer bound covers both answers.
                truth.tell(path, count == 1, TTL);
            }
        }
        step => unreachable!("{step:?} asks nothing"),
    }
}

/// Runs the steps with pages of `keys` keys.
async fn run(steps: Vec<Step>, (bound, keys): (u32, u16)) {
    let setup = Setup {
        bucket: FakeOrigin::new().with_min_part(1).with_page_keys(keys),
        profile: Profile {
            ttl: TTL,
            negative_ttl: NEGATIVE,
            stale_while_revalidate: Duration::ZERO,
            list_pages: bound,
            ..Profile::web()
        },
        ..Setup::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let desk = Desk::over(setup.build(), folder, &Terms::default());
    let mut truth = Truth::new();
    for step in steps {
        // The clock counts milliseconds, so events within one cannot be told apart.
        pass(Duration::from_millis(1)).await;
        take(&desk, &mut truth, step).await;
    }
}

#[test]
fn what_is_told_of_names_was_so_within_its_time() {
    let config = ProptestConfig::with_cases(200);
    let terms = (0_u32..3, prop::sample::select(vec![3, 1000]));
    let steps = (prop::collection::vec(step(), 1..80), terms);
    let held = TestRunner::new(config).run(&steps, |(steps, terms)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(steps, terms));
        Ok(())
    });
    held.unwrap_or_else(|error| panic!("{error}"));
}

/// A listed name that the next page may still make a folder's is told with that page. It was removed in between.
#[tokio::test(start_paused = true)]
async fn what_is_held_back_and_removed_stays_removed() {
    use Step::{ForeignPut, Look, MakeFolder, Pass, Read, Rename};
    let steps = vec![
        MakeFolder(0),
        ForeignPut(0),
        MakeFolder(1),
        ForeignPut(2),
        Pass(4999),
        Look(0),
        Rename(2, 3),
        Read(0),
    ];
    run(steps, (1, 3)).await;
}

/// The folder was listed as missing before another writer put a file into it.
#[tokio::test(start_paused = true)]
async fn a_made_folder_has_what_was_found_in_it() {
    use Step::{ForeignPut, Look, MakeFolder, Read};
    let steps = vec![Read(3), ForeignPut(7), Look(7), MakeFolder(4), Read(4)];
    run(steps, (0, 3)).await;
}

/// Its listing did not have the file, which another writer had removed.
#[tokio::test(start_paused = true)]
async fn a_removed_folder_brings_no_removed_file_back() {
    use Step::{ForeignDelete, Look, Read, RemoveFolder, Write};
    let steps = vec![
        Write(6),
        ForeignDelete(6),
        Read(3),
        RemoveFolder(3),
        Look(6),
    ];
    run(steps, (0, 3)).await;
}

/// The folder was listed as gone. A file in it that is still known gets a mode.
#[tokio::test(start_paused = true)]
async fn a_change_of_attributes_brings_no_folder_back() {
    use Step::{Chmod, ForeignDelete, Look, Pass, Read, RemoveFolder, Rename, Write};
    let steps = vec![
        Write(0),
        RemoveFolder(0),
        Look(2),
        Rename(0, 5),
        ForeignDelete(5),
        Look(1),
        Pass(59_000),
        Look(18),
        Chmod(5),
        RemoveFolder(3),
        Read(0),
    ];
    run(steps, (1, 3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_folder_brings_nothing_back_that_it_was_told_without() {
    use Step::{ForeignDelete, HttpPut, Look, MakeFolder, Read, RemoveFolder};
    let steps = vec![
        HttpPut(9),
        Look(9),
        ForeignDelete(9),
        MakeFolder(1),
        MakeFolder(5),
        Read(5),
        RemoveFolder(5),
        Look(9),
    ];
    run(steps, (0, 3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_file_says_nothing_of_names_with_another_stem() {
    use Step::{ForeignPut, Look, Pass, Read, Write};
    let steps = vec![Read(0), Write(0), ForeignPut(2), Pass(5000), Look(2)];
    run(steps, (1, 1000)).await;
}
