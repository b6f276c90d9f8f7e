//! The rule in a simulation of one reader, one disk and one origin, in steps of a millisecond.

use std::collections::VecDeque;

use super::*;

mod bounds;

const CHUNK: u64 = 256 << 10;
const WINDOW: u64 = 128 << 20;
const PART: u64 = 8 << 20;
const STREAMS: usize = 16;
const OBJECT: u64 = 864_000_000 / CHUNK * CHUNK;
const TICK: f64 = 0.001;

/// Rates in bytes a second: of the disk, of one connection to the origin, of all of them, and of
/// the reader.
#[derive(Debug, Clone, Copy)]
struct World {
    disk: f64,
    each: f64,
    all: f64,
    pace: f64,
}

/// One request: its next chunk, the bytes still to come, and the time to the first of them.
#[derive(Debug)]
struct Request {
    next: usize,
    arrived: f64,
    left: u64,
    wait: f64,
}

/// A read of the whole object, all of which is on disk.
struct Simulation {
    world: World,
    landed: Vec<bool>,
    flying: Vec<bool>,
    disk: VecDeque<usize>,
    done: f64,
    requests: Vec<Request>,
    position: f64,
    frontier: usize,
    waits: bool,
    fetched: u64,
}

impl Simulation {
    fn new(world: World) -> Self {
        let chunks = usize::try_from(OBJECT / CHUNK).expect("small");
        Self {
            world,
            landed: vec![false; chunks],
            flying: vec![false; chunks],
            disk: VecDeque::new(),
            done: 0.0,
            requests: vec![],
            position: 0.0,
            frontier: 0,
            waits: true,
            fetched: 0,
        }
    }

    /// Returns the seconds, and the share of bytes from the origin.
    fn run(mut self) -> (f64, f64) {
        let mut clock = 0.0;
        while self.position < OBJECT as f64 {
            self.assign(clock);
            self.step();
            clock += TICK;
            assert!(clock < 600.0, "stuck at {}", self.position);
        }
        (clock, self.fetched as f64 / OBJECT as f64)
    }

    fn connection(&self) -> ConnectionEstimate {
        let rate = self
            .world
            .each
            .min(self.world.all / (self.requests.len() as f64 + 1.0));
        ConnectionEstimate {
            first_byte: Duration::from_millis(20),
            rate,
        }
    }

    fn assign(&mut self, clock: f64) {
        let window = WINDOW.min((2.0 * self.position) as u64 + (512 << 10));
        let end = ((self.position as u64 + window) / CHUNK).min(OBJECT / CHUNK);
        let reader = (clock > 0.0).then(|| self.position / clock);
        while (self.frontier as u64) < end {
            let at = self.frontier;
            if self.landed[at] || self.flying[at] {
                self.frontier += 1;
                continue;
            }
            let queued = (self.disk.len() as u64 * CHUNK) as f64 - self.done;
            let takes = (queued + CHUNK as f64) / self.world.disk.max(1.0);
            let disk = DiskEstimate {
                read: ReadEstimate {
                    takes: Duration::from_secs_f64(takes),
                    scatter: Duration::ZERO,
                    is_idle: self.disk.is_empty(),
                },
                rate: self.world.disk,
            };
            let free = self.requests.len() < STREAMS;
            let all = self.world.all.min(self.world.each * STREAMS as f64);
            let outlook = ChunkOutlook {
                distance: (at as u64 * CHUNK).saturating_sub(self.position as u64),
                speed: approach_rate(
                    reader,
                    self.waits,
                    Some(self.world.disk).filter(|rate| *rate > 0.0),
                    Some(all),
                ),
                disk: (self.world.disk > 0.0).then_some(disk),
                origin: (free && all > 0.0).then(|| self.connection()),
            };
            match outlook.choose(CHUNK) {
                ChunkSource::Disk => {
                    self.disk.push_back(at);
                    self.flying[at] = true;
                }
                ChunkSource::Origin { most } => self.request(at, most, end),
                ChunkSource::Later => break,
            }
        }
    }

    fn request(&mut self, at: usize, most: u64, end: u64) {
        let most = usize::try_from(most.min(PART) / CHUNK)
            .expect("small")
            .max(1);
        let end = usize::try_from(end).expect("small");
        let run = (at..end.min(at + most))
            .take_while(|i| !self.flying[*i] && !self.landed[*i])
            .count();
        self.flying[at..at + run].fill(true);
        self.requests.push(Request {
            next: at,
            arrived: 0.0,
            left: run as u64 * CHUNK,
            wait: 0.02,
        });
        self.fetched += run as u64 * CHUNK;
    }

    fn step(&mut self) {
        let rate = self
            .world
            .each
            .min(self.world.all / self.requests.len().max(1) as f64);
        for request in &mut self.requests {
            request.wait -= TICK;
            if request.wait > 0.0 {
                continue;
            }
            request.arrived += rate * TICK;
            while request.arrived >= CHUNK as f64 && request.left > 0 {
                request.arrived -= CHUNK as f64;
                request.left -= CHUNK;
                self.landed[request.next] = true;
                request.next += 1;
            }
        }
        self.requests.retain(|request| request.left > 0);
        self.done += self.world.disk * TICK;
        while self.done >= CHUNK as f64 {
            match self.disk.pop_front() {
                Some(at) => self.landed[at] = true,
                // The disk is idle: the time is lost.
                None => self.done = CHUNK as f64,
            }
            self.done -= CHUNK as f64;
        }
        if self.disk.is_empty() {
            self.done = 0.0;
        }
        self.read();
    }

    /// Takes the ready bytes in order, as fast as the reader wants.
    fn read(&mut self) {
        let wanted = (self.position + self.world.pace * TICK).min(OBJECT as f64);
        let first = (self.position / CHUNK as f64) as usize;
        let ready = self.landed[first..]
            .iter()
            .take_while(|landed| **landed)
            .count();
        let until = ((first + ready) as u64 * CHUNK) as f64;
        self.waits = until < wanted;
        self.position = wanted.min(until).max(self.position);
    }
}

fn rate(world: World) -> (f64, f64) {
    let (seconds, share) = Simulation::new(world).run();
    (OBJECT as f64 / seconds, share)
}

const AT_ONCE: f64 = 1e12;
const CLOUD: World = World {
    disk: 2e9,
    each: 20e6,
    all: 270e6,
    pace: AT_ONCE,
};

#[test]
fn a_slow_disk_costs_nothing() {
    let (without, _) = rate(World { disk: 0.0, ..CLOUD });
    for disk in [0.1e6, 1e6, 10e6, 50e6] {
        let (with, _) = rate(World { disk, ..CLOUD });
        assert!(with >= 0.98 * without, "disk {disk}: {with} over {without}");
    }
}

#[test]
fn two_of_about_one_speed_add_up() {
    let published = World {
        disk: 80e6,
        each: 20e6,
        all: 56e6,
        pace: AT_ONCE,
    };
    let (both, share) = rate(published);
    assert!(both >= 120e6, "{both}");
    assert!((0.3..0.5).contains(&share), "{share}");
    let (both, _) = rate(World {
        disk: 200e6,
        ..CLOUD
    });
    assert!(both >= 0.9 * 470e6, "{both}");
}

#[test]
fn a_fast_disk_leaves_the_origin_alone() {
    let (rate, share) = rate(CLOUD);
    assert!(rate >= 1.5e9, "{rate}");
    assert!(share <= 0.02, "{share}");
}

#[test]
fn a_disk_that_feeds_the_reader_is_all_that_is_asked() {
    let (rate, share) = rate(World {
        disk: 80e6,
        pace: 40e6,
        ..CLOUD
    });
    assert!(rate >= 39e6, "{rate}");
    assert!(share <= 0.02, "{share}");
}

#[test]
fn without_an_origin_the_disk_gives_all_it_has() {
    let (rate, share) = rate(World {
        disk: 200e6,
        all: 0.0,
        ..CLOUD
    });
    assert!(rate >= 0.97 * 200e6, "{rate}");
    assert!(share <= 0.0, "{share}");
}

#[test]
fn an_awaited_chunk_comes_from_the_sooner_source() {
    let origin = ConnectionEstimate {
        first_byte: Duration::from_millis(20),
        rate: 20e6,
    };
    let ask = |millis, rate, span| {
        let read = ReadEstimate {
            takes: Duration::from_millis(millis),
            ..ReadEstimate::default()
        };
        choose_awaited(DiskEstimate { read, rate }, origin, CHUNK, span)
    };
    assert_eq!(ask(1, 100e6, CHUNK), ChunkSource::Disk);
    assert_eq!(
        ask(200, 100e6, CHUNK),
        ChunkSource::Origin { most: u64::MAX }
    );
    // A chunk comes sooner from a slow disk, and the following chunks do not.
    assert_eq!(ask(52, 5e6, CHUNK), ChunkSource::Disk);
    assert_eq!(
        ask(52, 5e6, 32 * CHUNK),
        ChunkSource::Origin { most: u64::MAX }
    );
    assert_eq!(ask(26, 80e6, 32 * CHUNK), ChunkSource::Disk);
}

#[test]
fn a_disk_that_does_not_help_is_asked_for_one_chunk_at_a_time_where_that_is_early_enough() {
    let outlook = |distance, is_idle, scatter| ChunkOutlook {
        distance,
        speed: 300e6,
        disk: Some(DiskEstimate {
            read: ReadEstimate {
                takes: Duration::from_millis(26),
                scatter: Duration::from_millis(scatter),
                is_idle,
            },
            rate: 10e6,
        }),
        origin: Some(ConnectionEstimate {
            first_byte: Duration::from_millis(20),
            rate: 20e6,
        }),
    };
    let origin = ChunkSource::Origin { most: u64::MAX };
    assert_eq!(outlook(64 << 20, true, 0).choose(CHUNK), ChunkSource::Disk);
    assert_eq!(outlook(64 << 20, false, 0).choose(CHUNK), origin);
    assert_eq!(outlook(64 << 20, true, 300).choose(CHUNK), origin);
    // The chunk is too near for either: the following chunks must not wait for that disk either.
    assert_eq!(outlook(1 << 20, true, 0).choose(CHUNK), origin);
}

#[test]
fn late_is_three_times_what_was_expected_but_never_a_hiccup() {
    assert_eq!(hedge_delay(Duration::from_millis(1)), MIN_HEDGE_DELAY);
    assert_eq!(
        hedge_delay(Duration::from_millis(50)),
        Duration::from_millis(150)
    );
}

/// A reader that turns out to be fast has to wait for chunks that were left to a slow disk.
#[test]
fn little_is_put_off_before_a_readers_speed_is_known() {
    let outlook = |millis, speed| ChunkOutlook {
        distance: 1 << 20,
        speed,
        disk: Some(DiskEstimate {
            read: ReadEstimate {
                takes: Duration::from_millis(millis),
                ..ReadEstimate::default()
            },
            rate: 10e6,
        }),
        origin: None,
    };
    assert_eq!(outlook(200, 1e6).choose(CHUNK), ChunkSource::Disk);
    assert_eq!(outlook(200, 0.0).choose(CHUNK), ChunkSource::Later);
    assert_eq!(outlook(26, 0.0).choose(CHUNK), ChunkSource::Disk);
}

/// The origin is not asked for chunks of a disk that is as fast as the reader, even if the disk is busy.
#[test]
fn a_busy_disk_that_keeps_up_is_waited_for() {
    let outlook = |speed| ChunkOutlook {
        distance: 64 << 20,
        speed,
        disk: Some(DiskEstimate {
            read: ReadEstimate {
                takes: Duration::from_secs(1),
                ..ReadEstimate::default()
            },
            rate: 80e6,
        }),
        origin: Some(ConnectionEstimate {
            first_byte: Duration::from_millis(20),
            rate: 20e6,
        }),
    };
    assert_eq!(outlook(80e6).choose(CHUNK), ChunkSource::Later);
    let chosen = outlook(81e6).choose(CHUNK);
    assert!(matches!(chosen, ChunkSource::Origin { .. }), "{chosen:?}");
}
