//! One attack beside a polite client.

use std::time::Duration;

use tokio::time::sleep;

use crate::bystander::{Bystander, Latencies, p99};
use crate::target::{PROMISE, Target};

/// The factor by which a request may take longer beside an attack.
const FACTOR: u32 = 3;

/// The factor by which it may take longer than a plain server does beside the same attack: the machine's own time.
const PLAIN_FACTOR: u32 = 5;

/// The wait below which the factors do not count: attacker, program and polite client share a machine of two cores.
const FLOOR: Duration = Duration::from_millis(250);

/// The time that a plain server takes on the machine for which that is set. On a slower one it is as much longer.
const PLAIN: Duration = Duration::from_millis(10);

/// Duration of the polite client's measurement before the attack.
const BEFORE: Duration = Duration::from_secs(1);

/// The result of an attack.
pub(crate) struct Siege<T> {
    name: &'static str,
    /// The attack's return value; often connections that it keeps open.
    pub(crate) held: T,
    before: Latencies,
    beside: Latencies,
    /// Peak memory at the attack's end, in bytes.
    pub(crate) peak: u64,
}

impl Target {
    /// Runs `attack` beside a polite client.
    pub(crate) async fn besiege<T>(
        &self,
        name: &'static str,
        attack: impl Future<Output = T>,
    ) -> Siege<T> {
        let client = Bystander::start(self.http, self.admin);
        sleep(BEFORE).await;
        let before = client.stop().await;
        let client = Bystander::start(self.http, self.admin);
        let held = attack.await;
        let beside = client.stop().await;
        let siege = Siege {
            name,
            held,
            before,
            beside,
            peak: self.peak(),
        };
        siege.report();
        siege
    }
}

impl<T> Siege<T> {
    fn report(&self) {
        let [read, health] = [&self.before, &self.beside]
            .map(|of| (p99(&of.reads), p99(&of.health)))
            .map(|(a, b)| format!("{a:.1?} {b:.1?}"));
        let [plain, beside] = [&self.before, &self.beside].map(|of| p99(&of.plain));
        println!(
            "{}: peak {} MiB; p99 of a read and of /healthz before {read}, beside {health}; of a plain server \
             {plain:.1?} and {beside:.1?}",
            self.name,
            self.peak >> 20,
        );
    }

    /// Asserts that memory stayed within the promise and the polite client was served as before. Returns the attack's
    /// result.
    pub(crate) fn bore(self) -> T {
        let name = self.name;
        assert!(
            self.peak <= PROMISE,
            "{name}: {} MiB at the peak, {} MiB are promised",
            self.peak >> 20,
            PROMISE >> 20
        );
        let rows = [
            ("a read", &self.before.reads, &self.beside.reads),
            ("/healthz", &self.before.health, &self.beside.health),
        ];
        let plain = p99(&self.beside.plain);
        let slowness = p99(&self.before.plain).div_duration_f64(PLAIN).max(1.0);
        let floor = FLOOR.mul_f64(slowness);
        for (what, before, beside) in rows {
            let (before, beside) = (p99(before), p99(beside));
            let bound = floor.max(before * FACTOR).max(plain * PLAIN_FACTOR);
            assert!(
                beside <= bound,
                "{name}: {what} takes {beside:?}, {before:?} before; a plain server {plain:?}"
            );
        }
        self.held
    }
}
