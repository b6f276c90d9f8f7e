//! The end of the bound, by what the gateways have heard of each other and not by the clock of a slow machine.

use std::time::Duration;

use tokio::time::Instant;

use crate::gateway::Got;
use crate::{BUCKETS, HEARTBEATS, KEYS, LONG, World};

/// An object as its bucket has it.
#[derive(Debug)]
pub(super) struct KnownObject {
    pub(super) path: String,
    /// Its bytes; empty: there is none.
    pub(super) body: String,
    /// Whether it carries a tag, so that a purge by tag covers it.
    pub(super) is_tagged: bool,
    /// Whether a soft purge was its last change: what is cached is served once more while it is confirmed.
    pub(super) is_softened: bool,
}

impl KnownObject {
    pub(super) fn new(number: u64) -> Self {
        let bucket = BUCKETS[usize::from(number >= KEYS)];
        Self {
            path: format!("/{bucket}/{}", number % KEYS),
            body: String::new(),
            is_tagged: false,
            is_softened: false,
        }
    }

    /// Takes a change that has these bytes, without a tag.
    pub(super) fn is_now(&mut self, body: String) {
        (self.body, self.is_tagged, self.is_softened) = (body, false, false);
    }
}

impl World {
    /// Waits for the end of the bound, and reads every object through each gateway. Returns the time up to that end.
    pub(super) async fn shows_all(&self, round: u64, objects: &mut [KnownObject]) -> Duration {
        let since = Instant::now();
        // The end of a gateway that could not say it has been seen once all are connected.
        self.connected().await;
        let lost = self.lost().await;
        self.settled(round).await;
        let settled = since.elapsed();
        for object in objects {
            match std::mem::take(&mut object.is_softened) {
                true => self.reads(&object.path, &object.body, LONG).await,
                false => self.reads_at_once(&object.path, &object.body, lost).await,
            }
        }
        settled
    }

    /// Returns how often a gateway took another one for lost, because a busy machine had silenced it.
    pub(super) async fn lost(&self) -> u64 {
        let (mut lost, doubts) = (0, ["tidegate_fleet_doubts_total{", "reason=\"lost\""]);
        for gateway in &self.gateways {
            lost += gateway.metric(&doubts).await;
        }
        lost
    }

    /// Waits until each gateway knows of all that the others have said, or that it has missed some of it. All are connected.
    ///
    /// Then heartbeats say what was missed. A gateway's messages arrive in their order: once all have its
    /// last purge, what it said before has come or is known to be missing. The doubt of what is missing rests for up to a
    /// second, in which the doubting gateway sends a heartbeat.
    async fn settled(&self, round: u64) {
        self.pass_heartbeats().await;
        for nth in 0..self.gateways.len() {
            let path = format!("/media/marker-{nth}");
            self.warm(&path).await;
            let body = format!("{nth} in round {round}");
            self.change_past(&path, &body).await;
            self.purge(nth, &format!("path={path}")).await;
            self.reads(&path, &body, LONG).await;
        }
        self.pass_heartbeats().await;
    }

    /// Waits until each gateway has sent three heartbeats.
    async fn pass_heartbeats(&self) {
        let mut before = Vec::new();
        for gateway in &self.gateways {
            before.push((gateway, gateway.metric(&HEARTBEATS).await));
        }
        for (gateway, sent) in before {
            self.until(|| async { gateway.metric(&HEARTBEATS).await > sent + 2 })
                .await;
        }
    }

    /// Reads a path through each gateway: the first answer has this body; empty: there is no object. Only a gateway that was
    /// lost since `lost` were counted may need more time.
    async fn reads_at_once(&self, path: &str, body: &str, lost: u64) {
        let is_right = |got: &Got| match body {
            "" => got.status == 404,
            body => got.status == 200 && got.body == body.as_bytes(),
        };
        for (nth, gateway) in self.gateways.iter().enumerate() {
            let got = gateway.get(path, &[]).await;
            if !is_right(&got) {
                let (status, text) = (got.status, got.text());
                let is_late = self.lost().await > lost;
                assert!(is_late, "{nth}: {path}: {status} {text}, not {body}");
                self.reads(path, body, LONG).await;
            }
        }
    }
}
