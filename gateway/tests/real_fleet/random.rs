//! Random purges, writes, and cuts: of NATS, of one gateway's way to it, and of one gateway's process.

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

/// The numbers of the cuts: of all gateways at once, of one whose connection ends, of one on which nothing passes, and of one
/// whose process is away.
#[derive(Debug, Default)]
struct Cuts {
    of_all: u32,
    of_one: u32,
    silent: u32,
    restarts: u32,
}

/// The kinds of operations that change or read an object, as parts of all.
const CHANGES: u64 = 18;

/// The most changes while a gateway is away.
const MAX_CHANGES_AWAY: u64 = 4;

/// A fleet under random operations.
struct RandomRun {
    world: World,
    chance: Chance,
    objects: Vec<KnownObject>,
    cuts: Cuts,
}

impl RandomRun {
    async fn new(seed: u64) -> Self {
        Self {
            world: World::new().await,
            chance: Chance(seed),
            objects: (0..2 * KEYS).map(KnownObject::new).collect(),
            cuts: Cuts::default(),
        }
    }

    /// Carries out an operation of any kind.
    async fn operate(&mut self, operation: u64) {
        let nth = self.chance.below(3) as usize;
        match self.chance.below(CHANGES + 5) {
            kind @ 0..CHANGES => self.change(kind, nth, &operation.to_string()).await,
            18 => self.turn_nats().await,
            19 => self.turn_link(nth, LinkState::Silent).await,
            20 => self.restart(nth, operation).await,
            _ => self.turn_link(nth, LinkState::Cut).await,
        }
    }

    /// Changes, purges or reads one of the objects through one of the gateways that are there. `body` is like no other.
    async fn change(&mut self, kind: u64, nth: usize, body: &str) {
        let at = self.chance.below(2 * KEYS) as usize;
        let (world, object) = (&self.world, &mut self.objects[at]);
        match kind {
            0..5 => {
                object.is_now(body.to_owned());
                world.put(nth, &object.path, &object.body).await;
            }
            5..7 => {
                object.is_now(String::new());
                world.change(nth, Method::DELETE, &object.path, "").await;
            }
            7..11 => change_and_purge(world, (nth, body), object, &mut self.chance).await,
            11..13 => world.purge(nth, &format!("path={}", object.path)).await,
            13 => world.purge(nth, "path=/media/&prefix=true").await,
            _ => world.warm(&object.path).await,
        }
    }

    /// Stops NATS or starts it again.
    async fn turn_nats(&mut self) {
        if self.world.nats.take().is_some() {
            self.cuts.of_all += 1;
        } else {
            self.world.start_nats().await;
        }
    }

    /// Cuts the way of one gateway, or mends it.
    async fn turn_link(&mut self, nth: usize, state: LinkState) {
        if self.world.links[nth].state != LinkState::Whole {
            return self.world.mend(nth).await;
        }
        match state {
            LinkState::Silent => self.cuts.silent += 1,
            _ => self.cuts.of_one += 1,
        }
        self.world.cut(nth, state);
    }

    /// Stops one gateway, has the others change objects, and starts it again on its folder and its way to NATS.
    async fn restart(&mut self, nth: usize, operation: u64) {
        self.world.gateways.remove(nth).stop().await;
        for change in 0..=self.chance.below(MAX_CHANGES_AWAY) {
            let (kind, through) = (self.chance.below(CHANGES), self.chance.below(2) as usize);
            let body = format!("{operation}.{change}");
            self.change(kind, through, &body).await;
        }
        let back = self.world.start_gateway(nth).await;
        self.world.gateways.insert(nth, back);
        self.cuts.restarts += 1;
    }
}

/// Writes an object past the gateways, and purges it through one of them in one of the ways.
async fn change_and_purge(
    world: &World,
    (nth, body): (usize, &str),
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
        _ => body.to_owned(),
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
    let mut run = RandomRun::new(seed).await;
    let (mut checks, mut latest) = (0, Duration::ZERO);
    for operation in 0..count {
        run.operate(operation).await;
        if operation % 50 == 49 || operation + 1 == count {
            run.world.mend_all().await;
            let settled = run.world.shows_all(operation, &mut run.objects);
            latest = latest.max(settled.await);
            checks += 3 * run.objects.len();
        }
    }
    let cuts = run.cuts;
    let is_each = cuts.of_all > 0 && cuts.of_one > 0 && cuts.silent > 0 && cuts.restarts > 0;
    assert!(is_each, "{cuts:?}");
    eprintln!("{cuts:?}, {checks} reads, settled within {latest:?}, 6 heartbeats too");
    run.world.stop().await;
}
