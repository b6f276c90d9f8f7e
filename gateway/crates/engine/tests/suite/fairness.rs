//! One client asks for more than its share; the others are served all the same. Time is paused, so the figures are
//! rounds of the origin.

use std::time::Duration;

use bytes::Bytes;
use tidegate_engine::{Error, OpenOptions};
use tidegate_origin::FakeOrigin;
use tidegate_origin::fake::Fault;
use tidegate_plan::{Client, RangeSpec};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::*;

/// The time in which the origin answers.
const ROUND: Duration = Duration::from_millis(50);

/// Number of missing keys that one client requests at the same moment.
const FLOOD: u32 = 2000;

const HOSTILE: Client = Client::V4(1);
const READER: Client = Client::V6(2);

fn world() -> (World, Bytes) {
    let bucket = FakeOrigin::new();
    let bytes = sample(1, 3 * MIB + 5);
    bucket.put("cold", bytes.clone());
    bucket.set_faults([Fault::Latency(ROUND)]);
    let setup = Setup {
        budget: 192 * MIB,
        ..Setup::bucket(bucket)
    };
    (setup.build(), bytes)
}

fn by(client: Client, first: Option<RangeSpec>) -> OpenOptions {
    OpenOptions {
        first,
        client,
        ..OpenOptions::default()
    }
}

/// Starts every request of the flood, and returns their results.
async fn flood(world: &World, first: Option<RangeSpec>) -> JoinSet<Option<Error>> {
    let mut flood = JoinSet::new();
    for number in 0..FLOOD {
        let world = world.clone();
        flood.spawn(async move {
            let key = format!("random/{number}");
            world.open(&key, by(HOSTILE, first)).await.err()
        });
    }
    settle().await;
    flood
}

/// Reads the cold object whole; returns the rounds until its first bytes and until its last.
async fn read(world: &World, client: Client) -> Result<(Bytes, u128, u128), Error> {
    let began = Instant::now();
    let rounds = || began.elapsed().as_millis().div_ceil(ROUND.as_millis());
    let object = world
        .open("cold", by(client, Some(RangeSpec::From(0))))
        .await?;
    let first = rounds();
    Ok((whole(&object).await?, first, rounds()))
}

#[tokio::test(start_paused = true)]
async fn a_reader_beside_a_flood_of_missing_keys_waits_for_a_few_rounds() {
    // GETs take memory before they ask, HEADs do not.
    for asked in [Some(RangeSpec::From(0)), None] {
        let (world, bytes) = world();
        let flood = flood(&world, asked).await;
        let (read, first, last) = read(&world, READER).await.expect("it is never refused");
        same(&read, &bytes);
        println!("{asked:?}: first byte after {first} rounds, last after {last}");
        // Waiting requests hold memory, so the rest arrives in pieces as small as a chunk.
        assert!(first <= 4 && last <= 20, "{asked:?}: {first}, {last}");

        let found = flood.join_all().await;
        let missing = found
            .iter()
            .filter(|one| **one == Some(Error::NotFound))
            .count();
        let shed = found
            .iter()
            .filter(|one| matches!(one, Some(Error::Overloaded { .. })));
        assert_eq!(missing + shed.count(), FLOOD as usize);
        assert!(missing > 1000, "{missing}: what fits is answered");
        // The reader's cursor in the object is kept for a while.
        pass(secs(30)).await;
        assert_eq!(world.used(), 0);
    }
}

/// The contrast: the flood's own client waits behind the flood, or is refused.
#[tokio::test(start_paused = true)]
async fn a_request_of_the_flooding_client_itself_waits_its_turn() {
    let (world, _) = world();
    let flood = flood(&world, Some(RangeSpec::From(0))).await;
    let read = read(&world, HOSTILE)
        .await
        .map(|(_, first, last)| ((), first, last));
    println!("as one of the flood: {read:?}");
    match read {
        Ok((_, first, _)) => assert!(first > 6, "{first}"),
        Err(error) => assert!(matches!(error, Error::Overloaded { .. }), "{error:?}"),
    }
    drop(flood);
}

/// If several floods meet, the reader's share equals that of each of them.
#[tokio::test(start_paused = true)]
async fn ten_floods_leave_an_eleventh_share() {
    let (world, bytes) = world();
    let mut floods = JoinSet::new();
    for number in 0..FLOOD {
        let world = world.clone();
        floods.spawn(async move {
            let client = Client::V4(number % 10);
            let key = format!("random/{number}");
            world.open(&key, by(client, None)).await.err()
        });
    }
    settle().await;
    let (read, first, _) = read(&world, READER).await.expect("it is never refused");
    same(&read, &bytes);
    assert!(first <= 4, "{first}");
    drop(floods);
}
