//! Random purges, writes, and cuts: of NATS, and of one gateway's way to it.

use std::time::Duration;

use http::Method;

use crate::links::LinkState;
use crate::past::{WAYS, WAYS_FOR_ALL};
use crate::settled::KnownObject;
use crate::{KEYS, World};

/// Numbers that a seed determines (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn number(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// The numbers of the cuts: of all gateways at once, of one whose connection ends, and of one on which nothing passes.
#[derive(Debug, Default)]
struct Cuts {
    of_all: u32,
    of_one: u32,
    silent: u32,
}

impl Cuts {
    /// Stops NATS or starts it again.
    async fn turn_nats(&mut self, world: &mut World) {
        if world.nats.take().is_some() {
            self.of_all += 1;
        } else {
            world.start_nats().await;
        }
    }

    /// Cuts the way of one gateway, or mends it.
    async fn turn_link(&mut self, world: &mut World, (nth, state): (usize, LinkState)) {
        if world.links[nth].state != LinkState::Whole {
            return world.mend(nth).await;
        }
        match state {
            LinkState::Silent => self.silent += 1,
            _ => self.of_one += 1,
        }
        world.cut(nth, state);
    }
}

/// Writes an object past the gateways, and purges it through one of them in one of the ways.
async fn change_and_purge(
    world: &World,
    (nth, operation): (usize, u64),
    object: &mut KnownObject,
    chance: &mut Chance,
) {
    world.warm(&object.path).await;
    let ways = match object.is_tagged {
        true => WAYS.len() as u64,
        false => WAYS_FOR_ALL,
    };
    object.is_now(match chance.below(4) {
        0 => String::new(),
        _ => format!("{operation}"),
    });
    world.change_past(&object.path, &object.body).await;
    let way = WAYS[chance.below(ways) as usize];
    world.purge_one(nth, &object.path, way).await;
    object.is_tagged = !object.body.is_empty();
    object.is_softened = way.is_soft();
}

/// A gateway that was away forgets what it missed, and a lost NATS server or a lost way to it hides no change for longer than
/// the bound.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_stale_after_the_bound() {
    let count = number("TIDEGATE_FLEET_OPS", 200);
    let seed = number("TIDEGATE_SEED", 1);
    eprintln!("{count} operations, seed {seed}");
    let mut world = World::new().await;
    let mut chance = Chance(seed);
    let mut objects: Vec<_> = (0..2 * KEYS).map(KnownObject::new).collect();
    let (mut cuts, mut checks, mut latest) = (Cuts::default(), 0, Duration::ZERO);
    for operation in 0..count {
        let (at, nth) = (chance.below(2 * KEYS), chance.below(3));
        let (object, nth) = (&mut objects[at as usize], nth as usize);
        match chance.below(22) {
            0..5 => {
                object.is_now(format!("{operation}"));
                world.put(nth, &object.path, &object.body).await;
            }
            5..7 => {
                object.is_now(String::new());
                world.change(nth, Method::DELETE, &object.path, "").await;
            }
            7..11 => change_and_purge(&world, (nth, operation), object, &mut chance).await,
            11..13 => world.purge(nth, &format!("path={}", object.path)).await,
            13 => world.purge(nth, "path=/media/&prefix=true").await,
            14..18 => world.warm(&object.path).await,
            18 => cuts.turn_nats(&mut world).await,
            19 => cuts.turn_link(&mut world, (nth, LinkState::Silent)).await,
            _ => cuts.turn_link(&mut world, (nth, LinkState::Cut)).await,
        }
        if operation % 50 == 49 || operation + 1 == count {
            world.mend_all().await;
            latest = latest.max(world.shows_all(operation, &mut objects).await);
            checks += 3 * objects.len();
        }
    }
    let is_each = cuts.of_all > 0 && cuts.of_one > 0 && cuts.silent > 0;
    assert!(is_each, "{cuts:?}");
    eprintln!("{cuts:?}, {checks} reads, settled within {latest:?}, 6 heartbeats too");
    world.stop().await;
}
