//! More changes at once than the queue of messages to the fleet holds.

use std::time::Instant;

use http::Method;

use crate::gateway::send;
use crate::{LONG, World};

/// The changes of one message of the bucket; the queue holds 4,096.
const CHANGES: usize = 6_000;

/// Each so many of them is of an object that all gateways have cached.
const EVERY: usize = 300;

/// The token of the subscription.
const TOKEN: &str = "t0ken-of-the-bucket";

/// The subscription of each gateway to the bucket `media`.
pub(super) const SUBSCRIPTION: &str =
    "[[events]]\nname = \"media\"\norigin = \"media\"\ntoken = \"t0ken-of-the-bucket\"\n";

impl World {
    /// Reports these keys of the bucket `media` as created to one gateway, in one message.
    async fn report(&self, nth: usize, keys: impl Iterator<Item = String>) {
        let record = |key| {
            format!(
                r#"{{"eventName":"s3:ObjectCreated:Put","s3":{{"bucket":{{"name":"media"}},"object":{{"key":"{key}"}}}}}}"#
            )
        };
        let records: Vec<_> = keys.map(record).collect();
        let message = format!("{{\"Records\":[{}]}}", records.join(","));
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str())];
        let admin = self.gateways[nth].admin;
        let got = send(admin, Method::POST, "/events/media", &headers, &message).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }
}

/// Each gateway in turn gets the message. No other one stays stale, and the hook is called for the last change of it.
#[tokio::test(flavor = "multi_thread")]
async fn more_changes_than_the_queue_holds_reach_all() {
    let world = World::new().await;
    let keys: Vec<_> = (0..CHANGES / EVERY).map(|n| format!("burst/{n}")).collect();
    let path = |key: &str| format!("/media/{key}");
    for nth in 0..3 {
        for key in &keys {
            let body = format!("{nth}: {key}");
            world.change_past(&path(key), &body).await;
        }
        let changed = (0..CHANGES).map(|n| match n % EVERY {
            0 => keys[n / EVERY].clone(),
            _ => format!("others/{nth}/{n}"),
        });
        let begun = Instant::now();
        let hooked = format!("hook/{nth}");
        world.report(nth, changed.chain([hooked])).await;
        for key in &keys {
            let body = format!("{nth}: {key}");
            world.reads(&path(key), &body, LONG).await;
        }
        world.receiver.next().await;
        let gateway = world.gateways[nth].look("/metrics").await;
        eprintln!(
            "{CHANGES} changes through one gateway: {} not sent, fresh at all after {:?}",
            gateway.metric(&["tidegate_fleet_dropped_total "]),
            begun.elapsed(),
        );
        for key in &keys {
            world.warm(&path(key)).await;
        }
    }
    for gateway in &world.gateways {
        let doubts = ["tidegate_fleet_doubts_total{", "reason=\"gap\""];
        eprintln!("gaps: {}", gateway.metric(&doubts).await);
    }
    world.stop().await;
}
