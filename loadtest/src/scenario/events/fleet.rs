//! A fleet of three gateways in front of one bucket.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use super::{KEY, PROFILE, TIMEOUT, body, reads};
use crate::client::Connection;
use crate::context::Context;
use crate::measure::Latency;
use crate::peers::Peer;
use crate::peers::nats::Nats;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::report::Report;
use crate::scenario::purge::operator::Operator;

const GATEWAYS: usize = 3;

/// A gateway of the fleet, with a reader and an operator of its own.
struct Member {
    peer: Peer,
    reader: Connection,
    operator: Operator,
}

async fn member(context: &Context, nats: &Nats, report: &mut Report) -> Result<Member> {
    let settings = Settings {
        profile: PROFILE,
        ..Settings::WEB
    };
    let mut home = Home::new(context.new_dir("fleet-")?, context.origin(), settings);
    home.sections = format!("[fleet]\nnats = [\"nats://{}\"]\n", nats.addr());
    let peer = home.start(StartState::Ready).await?;
    report.peer("tidegate, of a fleet", peer.config());
    Ok(Member {
        reader: Connection::open(peer.addr()).await?,
        operator: Operator::connect(&peer).await?,
        peer,
    })
}

/// Waits until each gateway knows the others.
async fn met(members: &[Member]) -> Result<()> {
    let since = Instant::now();
    for member in members {
        while member.peer.metric("tidegate_fleet_peers").await? != Some((GATEWAYS - 1) as f64) {
            ensure!(since.elapsed() < TIMEOUT, "the gateways do not meet");
        }
    }
    Ok(())
}

/// Measures purges, at each gateway in turn: from the request to fresh reads at all.
pub(super) async fn measure(context: &Context, count: u64, report: &mut Report) -> Result<Latency> {
    let nats = Nats::start(&context.new_dir("nats-")?)?;
    let mut members = vec![];
    for _ in 0..GATEWAYS {
        members.push(member(context, &nats, report).await?);
    }
    met(&members).await?;
    let path = members[0].peer.path(KEY);
    let purge = json!({ "paths": [&path] });
    let mut latency = Latency::default();
    for nth in 0..count {
        for member in &mut members {
            member.reader.get(&path, &[]).await?;
        }
        let new = body(nth);
        context.bucket.put(KEY, new.clone()).await?;
        let asked = Instant::now();
        let at = nth as usize % GATEWAYS;
        members[at].operator.purge(&purge).await?;
        for member in &mut members {
            reads(&mut member.reader, &path, &new).await?;
        }
        latency.record(asked.elapsed());
    }
    Ok(latency)
}
