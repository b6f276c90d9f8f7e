//! Subscriptions to events that come, change and go. The test plays the store that sends them.

use std::path::Path;

use serde_json::json;

use crate::serving::Serving;
use crate::store_events::{alive, beat, post};
use crate::world::World;
use crate::{MORE, configuration, report};

/// A subscription whose token lies in `file`, and a route that it covers.
fn subscribed(world: &World, file: &Path, every: &str, more: &str) -> String {
    let text = configuration(
        world,
        &format!(
            "events = \"bucket\"\n[[events]]\nname = \"bucket\"\norigin = \"media\"\n\
             token = {{ file = \"{}\" }}\n\
             heartbeat = {{ prefix = \".tidegate/\", every = \"{every}\" }}\n{more}",
            file.display()
        ),
    );
    unconfirmed(&text)
}

/// The same with a profile that asks the bucket for each answer.
fn unconfirmed(text: &str) -> String {
    text.replace(
        "ttl = \"1h\"",
        "ttl = \"0s\"\nstale_while_revalidate = \"0s\"",
    )
}

/// Returns how often the bucket is asked for three reads of an object.
async fn asked(serving: &Serving) -> u64 {
    let resolves = async || serving.metric(&["tidegate_resolves_total"]).await;
    let before = resolves().await;
    for _ in 0..3 {
        assert_eq!(serving.get("/o/1").await.status, 200);
    }
    resolves().await - before
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_comes_changes_and_goes() {
    const FIRST_TOKEN: &str = "t0ken-of-the-bucket";
    const SECOND: &str = "an0ther-token-of-it";
    let world = World::new().await;
    let serving = crate::serving(&world).await;
    let file = world.disk().with_file_name("token");
    std::fs::write(&file, FIRST_TOKEN).expect("written");
    let reload = async |text: &str| {
        serving.configure(text);
        let told = report(&serving.post("/reload").await);
        assert_eq!(told["needs_restart"], json!([]), "{told}");
        told["changed"].to_string()
    };
    let of = |every: &str, more: &str| subscribed(&world, &file, every, more);
    assert_eq!(
        post(serving.admin, FIRST_TOKEN, "{}").await.status,
        401,
        "there is none"
    );

    let changed = reload(&of("60s", "")).await;
    assert!(changed.contains("events[0].heartbeat.every"), "{changed}");
    assert_eq!(asked(&serving).await, 3, "no event is known to come");
    beat(serving.admin, &world, FIRST_TOKEN).await;
    assert_eq!(asked(&serving).await, 1, "it was confirmed before that");
    assert_eq!(asked(&serving).await, 0);

    // What does not change it leaves it as it is.
    reload(&of("60s", MORE)).await;
    reload(&of("60s", "")).await;
    assert_eq!((alive(serving.admin).await, asked(&serving).await), (1, 0));
    // A change that is refused leaves no trace of what it would have begun.
    let webhook = "[[events]]\nname = \"m\"\norigin = \"media\"\ntoken = \"an0ther-token-of-it\"\n";
    // The file is there, and has no credentials: that is seen when the subscription is made.
    serving.configure(&of("60s", &format!("{webhook}[[events]]\nname = \"n\"\norigin = \"media\"\n\
         kind = \"nats\"\nservers = [\"nats://127.0.0.1:9\"]\nsubject = \"s\"\ncredentials = {{ file = \"{}\" }}\n", file.display())));
    let refused = serving.post("/reload").await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("events `n`"), "{}", refused.text());
    let metrics = serving.look("/metrics").await.text();
    assert!(metrics.contains("subscription=\"bucket\"") && !metrics.contains("subscription=\"m\""));
    assert_eq!((alive(serving.admin).await, asked(&serving).await), (1, 0));

    // Another interval is another subscription: what was confirmed falls back to its TTL.
    reload(&of("50s", "")).await;
    assert_eq!((alive(serving.admin).await, asked(&serving).await), (0, 3));
    beat(serving.admin, &world, FIRST_TOKEN).await;
    asked(&serving).await;
    assert_eq!(asked(&serving).await, 0);

    // So is another secret, also if no key has changed.
    std::fs::write(&file, SECOND).expect("written");
    assert_eq!(reload(&of("50s", "")).await, "[]");
    assert_eq!((alive(serving.admin).await, asked(&serving).await), (0, 3));
    assert_eq!(post(serving.admin, FIRST_TOKEN, "{}").await.status, 401);
    beat(serving.admin, &world, SECOND).await;

    reload(&unconfirmed(&configuration(&world, ""))).await;
    assert_eq!(post(serving.admin, SECOND, "{}").await.status, 401);
    assert_eq!(asked(&serving).await, 3);
    let metrics = serving.look("/metrics").await.text();
    assert!(!metrics.contains("subscription=\"bucket\""));
}

/// A server that is away holds up no reload, and a connection that waits for it leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_by_nats_come_and_go_while_their_server_is_away() {
    let world = World::new().await;
    let serving = crate::serving(&world).await;
    let server = crate::ports::free_addr();
    let plain = configuration(&world, "");
    let nats = |subject: &str| {
        let events = format!(
            "[[events]]\nname = \"n\"\norigin = \"media\"\nkind = \"nats\"\n\
             servers = [\"nats://{server}\"]\nsubject = \"{subject}\"\n"
        );
        configuration(&world, &events)
    };
    let reload = async |text: &str| {
        serving.configure(text);
        let told = report(&serving.post("/reload").await);
        assert_eq!(told["needs_restart"], json!([]), "{told}");
    };
    reload(&nats("first")).await;
    let before = serving.descriptors();
    for nth in 0..20 {
        reload(&nats(&format!("subject-{nth}"))).await;
        reload(&plain).await;
    }
    let after = serving.descriptors();
    // Connections of this test come and go; a leak would be one for each.
    assert!(after < before + 10, "{before} to {after}");
    assert_eq!(serving.get("/o/1").await.status, 200);
}
