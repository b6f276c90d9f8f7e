//! Reloads each of which replaces every name: what a name has left in the process would add up.

use http::Method;
use tokio::time::Instant;

use crate::gateway::ask;
use crate::world::{World, sample};
use crate::{LONG, SIZE, configuration, other_origin, report, serving};

/// The reloads before the first measurement, and all of them.
const SETTLED: usize = 40;
const RELOADS: usize = 200;

/// The bytes of memory that a reload may leave behind, of so many: less than a part that is kept, and more than the
/// allocator's own share of each.
const LEFT_BEHIND: usize = 25 << 10;

/// Returns a configuration whose origin, route, profile, access, limits, hook and subscription are named after the reload.
fn text(world: &World, nth: usize) -> String {
    let secret = world.disk().with_file_name("secret");
    let name = format!("round-{nth}");
    // With the same rights, so that the cache has the object once.
    let other = other_origin(world, &secret);
    let other = other.replace("name = \"other\"", &format!("name = \"{name}\""));
    let other = other.replace("origin = \"other\"", &format!("origin = \"{name}\""));
    configuration(
        world,
        &format!(
            "{other}profile = \"{name}\"\naccess = \"{name}\"\nlimits = \"{name}\"\n\
             [profile.{name}]\nttl = \"1h\"\n\
             [access.{name}]\ntokens = {{ {name} = \"a token of this round\" }}\n\
             auth_request = \"http://127.0.0.1:9/\"\n\
             [limits.{name}]\nrequests = \"1000/s\"\n\
             [[hook]]\nname = \"{name}\"\norigin = \"{name}\"\nurl = \"http://127.0.0.1:9/{{key}}\"\n\
             [[events]]\nname = \"{name}\"\norigin = \"{name}\"\ntoken = \"t0ken-of-the-bucket\"\n\
             heartbeat = {{ prefix = \".tidegate/\", every = \"1h\" }}\n"
        ),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_come_and_go_leave_nothing_behind() {
    let world = World::new().await;
    let serving = serving(&world).await;
    let right = &world.origin.credentials().secret_access_key;
    std::fs::write(world.disk().with_file_name("secret"), right).expect("written");
    let reload = async |nth: usize| {
        serving.configure(&text(&world, nth));
        report(&serving.post("/reload").await);
        let bearer = [("authorization", "Bearer a token of this round")];
        let got = ask(serving.http, Method::GET, "/other/1", &bearer).await;
        assert_eq!((got.status, &*got.body), (200, &*sample(SIZE, 1)), "{nth}");
    };
    let in_use = || (serving.descriptors(), serving.resident());
    for nth in 0..SETTLED {
        reload(nth).await;
    }
    let before = in_use();
    for nth in SETTLED..RELOADS {
        reload(nth).await;
    }
    let after = in_use();
    println!("descriptors and bytes resident: {before:?}, after {RELOADS} reloads {after:?}");
    let more = RELOADS - SETTLED;
    // Connections come and go; a leak would be one for each reload.
    assert!(after.0 < before.0 + more / 4, "{before:?} to {after:?}");
    let bound = before.1 + more * LEFT_BEHIND;
    assert!(after.1 < bound, "{before:?} to {after:?}");

    // The last of them alone is in the metrics. A reader that is counted late is forgotten with the next reload.
    let since = Instant::now();
    let last = format!("\"round-{}\"", RELOADS - 1);
    loop {
        let metrics = serving.look("/metrics").await.text();
        let of_rounds = metrics.lines().filter(|line| line.contains("\"round-"));
        let (own, left): (Vec<_>, Vec<_>) = of_rounds.partition(|line| line.contains(&last));
        assert!(!own.is_empty(), "{metrics}");
        if left.is_empty() {
            break;
        }
        assert!(since.elapsed() < LONG, "{left:#?}");
        report(&serving.post("/reload").await);
    }
}
