//! Hits on private and limited routes: their CPU over that of the open route, by each way in; and what the first
//! verification of a credential takes.
//!
//! All routes lead to one object, in one process: the luck of a start is the same for all. The ways are measured in turn.

use anyhow::{Context as _, Result, ensure};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::turns;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::report::{Report, Target};
use crate::ways::Ways;
use crate::wrk::{self, Load};

pub mod instructions;

mod first;
mod signer;
mod ways;

use signer::Signer;
use ways::Way;

/// The object, as long as a photograph on a web page.
const KEY: &str = "photograph.jpg";
const LEN: u64 = 35 << 10;

/// Clients at a time.
const CONNECTIONS: u32 = 64;

/// Measures hits by each way over several starts, and first verifications.
///
/// # Errors
/// If it could not be carried out, or an answer is wrong.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("access");
    let pattern = Pattern {
        seed: context.options.seed ^ LEN,
        len: LEN,
    };
    context.bucket.put(KEY, pattern.all()).await?;
    let signer = Signer::new()?;
    let rounds = context.rounds(5);
    let mut cpu = Ways::new("CPU µs a request");
    let mut ratios = Ways::new("over the open route's just before or after");
    let mut first = Ways::new("CPU µs more than when repeated");
    for round in 0..rounds {
        progress(format!("start {}/{rounds}", round + 1));
        let peer = home(context, &signer)?.start(StartState::Ready).await?;
        report.peer(peer.name(), peer.config());
        let ways = ways::all(&signer, &peer).await?;
        check_refusals(&peer, &ways).await?;
        let open = ways.iter().find(|way| way.name == ways::OPEN);
        let open = open.context("there is an open route")?;
        // The order changes, so that after-effects of one way fall on all alike.
        for (nth, way) in turns(&ways, round).into_iter().enumerate() {
            if way.name == ways::OPEN {
                continue;
            }
            // The machine's speed changes within seconds: each way has an open one beside it, in either order.
            let mut pair = [open, &way];
            pair.rotate_left(nth % 2);
            let mut found = [0.0; 2];
            for (found, way) in found.iter_mut().zip(pair) {
                *found = measure(context, &peer, way, pattern).await?;
                cpu.add(way.name, *found);
            }
            found.rotate_left(nth % 2);
            ratios.add(way.name, found[1] / found[0]);
        }
        first::measure(context, &signer, &peer, pattern, &mut first).await?;
    }
    cpu.write(&mut report, "hits of 35 KB");
    ratios.write(&mut report, "CPU of hits of 35 KB");
    for name in ratios.names() {
        if let Some(most) = ways::target(name) {
            let check = format!("{name}: CPU a request over the open route's");
            let ratio = ratios.median(name).unwrap_or(f64::NAN);
            report.aim(check, ratio, Target::AtMost(most));
        }
    }
    first.write(&mut report, "first verification");
    Ok(report)
}

/// Returns a gateway with all routes, and its keys beside its configuration.
fn home(context: &Context, signer: &Signer) -> Result<Home> {
    let dir = context.new_dir("access-")?;
    let settings = Settings {
        profile: "ttl = \"1h\"\n",
        sections: ways::SECTIONS,
        ..Settings::WEB
    };
    std::fs::write(dir.join(ways::KEY_SET), signer.key_set())?;
    Ok(Home::new(dir, context.origin(), settings))
}

/// Makes sure that a private route refuses the same request without its credential: else nothing was measured.
async fn check_refusals(peer: &Peer, ways: &[Way]) -> Result<()> {
    let mut connection = Connection::open(peer.addr()).await?;
    for way in ways.iter().filter(|way| way.is_private()) {
        let (answer, _) = connection.get(&way.without_credential(), &[]).await?;
        let status = answer.head.status.as_u16();
        ensure!(matches!(status, 401 | 403), "{}: status {status}", way.name);
    }
    Ok(())
}

/// Returns the CPU time of a hit, in microseconds.
async fn measure(context: &Context, peer: &Peer, way: &Way, pattern: Pattern) -> Result<f64> {
    let load = Load {
        connections: CONNECTIONS,
        keep_alive: true,
        seconds: context.options.seconds.unwrap_or(2),
    };
    let found = wrk::run(peer, &way.target, way.header(), pattern, load).await?;
    Ok(found.cpu_micros)
}
