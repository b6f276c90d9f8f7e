//! NATS by TLS, with an authority of its own, and users with credentials files.

use crate::{LONG, World};

/// Returns a file of the fixtures of NATS.
fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/events/fixtures/nats/");
    format!("{folder}{name}")
}

/// Returns the options of a server by TLS, whose users show a JWT of its operator.
pub(super) fn options() -> [String; 7] {
    [
        "--tls".to_owned(),
        "--tlscert".to_owned(),
        fixture("server.pem"),
        "--tlskey".to_owned(),
        fixture("server.key"),
        "-c".to_owned(),
        fixture("operator.conf"),
    ]
}

/// Returns a configuration of the fleet with TLS and a credentials file in place of a user and a password.
pub(super) fn configuration(config: &str) -> String {
    let user = "user = \"tidegate\"\npassword = \"s3cret-of-nats\"\n";
    assert!(config.contains(user) && config.contains("nats://"));
    let credentials = format!(
        "credentials = {{ file = \"{}\" }}\nca = \"{}\"\n",
        fixture("gate.creds"),
        fixture("authority.pem"),
    );
    config
        .replace(user, &credentials)
        .replace("[\"nats://", "[\"tls://")
}

/// A server that is away for a while is found again, also by TLS and with the same credentials.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_by_tls_with_credentials_hears_of_all() {
    let mut world = World::with(true).await;
    for nth in 0..3 {
        let body = format!("by {nth}");
        world.put(nth, "/media/secured", &body).await;
        world.reads("/media/secured", &body, LONG).await;
        world.warm("/media/secured").await;
    }
    drop(world.nats.take());
    world.put(0, "/media/secured", "during a cut").await;
    world.start_nats().await;
    world.reads("/media/secured", "during a cut", LONG).await;
    world.warm("/media/secured").await;
    world.met().await;
    world.put(1, "/media/secured", "after it").await;
    world.reads("/media/secured", "after it", LONG).await;
    world.stop().await;
}
