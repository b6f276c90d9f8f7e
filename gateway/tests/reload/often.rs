//! Reloads by the hundred, each of which changes everything that a reload can change, under the load of readers.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::Method;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::authority::{Authority, connect, first_of};
use crate::gateway::ask;
use crate::load::{Load, OBJECTS, Places};
use crate::mount::Folder;
use crate::ports::free_addr;
use crate::serving::{Serving, disk};
use crate::world::{World, sample};
use crate::{MORE, MOUNTS, SIZE, configuration, other_origin, report};

/// The bytes of memory that a reload may leave behind, of many: those that the allocator keeps are not of each.
const LEFT_BEHIND: usize = 10 << 10;

/// The reloads that are enough to tell their memory from that of the readers.
const MANY: usize = 500;

/// The reloads of the short form.
const FEW: usize = 60;

/// Memory is measured first after one reload of so many.
const SETTLED: usize = 10;

/// The token of the private route, in turn.
const TOKENS: [&str; 2] = ["alice has this token", "alice has another one"];

/// The keys that every reload changes.
const CHANGED: [&str; 9] = [
    "access.members.tokens.alice",
    "cache.budget",
    "cache.disk[0].capacity",
    "cache.memory",
    "hook[0].url",
    "limits.fair.requests",
    "log.level",
    "profile.web.ttl",
    "route[1].path",
];

/// A gateway, and what its configurations name.
struct Reloads {
    world: World,
    serving: Serving,
    /// The bucket is mounted on it, where FUSE is. Unmounted once the gateway has ended.
    mounted: Option<Folder>,
    authority: Authority,
    /// Listens at each even reload.
    second: SocketAddr,
    /// Listens always, with a certificate that each reload replaces.
    encrypted: SocketAddr,
    /// The secret of the other origin.
    secret: PathBuf,
}

impl Reloads {
    async fn start() -> Self {
        let world = World::new().await;
        for n in 0..OBJECTS {
            world.put(&format!("o/{n}"), &sample(SIZE, n)).await;
        }
        let mut reloads = Self {
            serving: Serving::configured(""),
            mounted: MOUNTS.then(Folder::new),
            secret: world.disk().with_file_name("secret"),
            authority: Authority::new(),
            second: free_addr(),
            encrypted: free_addr(),
            world,
        };
        reloads.write(0);
        reloads.serving.start().await;
        reloads
    }

    fn load(&self) -> Load {
        Load::start(Places {
            plain: self.serving.http,
            encrypted: self.encrypted,
            folder: self.mounted.as_ref().map(|it| it.path().join("o")),
            client: self.authority.client(&["h2"]),
        })
    }

    /// Returns the configuration of a reload. The other origin has its secret, then a wrong one, and then it is gone.
    fn text(&self, nth: usize) -> String {
        let (turn, folder) = (nth % 2, self.world.folder.path());
        let hook = "[[hook]]\nname = \"h\"\nurl = \"http://127.0.0.1:9/{key}\"\n";
        let even = format!("{MORE}{hook}{}", disk(&folder.join("second")));
        let members = format!(
            "[access.members]\ntokens = {{ alice = \"{}\" }}\n[limits.fair]\nrequests = \"{}\"\n\
             [[route]]\npath = \"/members/\"\norigin = \"media\"\nkey_prefix = \"o/\"\n\
             access = \"members\"\nlimits = \"fair\"\n",
            TOKENS[turn],
            ["1000/s", "1/h"][turn],
        );
        let tls = format!(
            "[[tls.certificates]]\ncertificate = \"{0}/a.pem\"\nkey = {{ file = \"{0}/a.key\" }}\n",
            folder.display()
        );
        let other = match nth % 3 {
            2 => String::new(),
            _ => other_origin(&self.world, &self.secret),
        };
        let level = ["info", "warn"][turn];
        let more = [&even, ""][turn];
        let mount = |it: &Folder| format!("[[mount]]\npath = \"{}\"\n", it.path().display());
        let mount = self.mounted.as_ref().map(mount).unwrap_or_default();
        let more = format!("{more}{members}{other}{tls}{mount}[log]\nlevel = \"{level}\"\n");
        let mut text = configuration(&self.world, &more);
        if turn == 0 {
            for (one, other) in [
                ("[cache]\n", "[cache]\nbudget = \"16MiB\"\n"),
                ("memory = \"64MiB\"", "memory = \"32MiB\""),
                ("capacity = \"128MiB\"", "capacity = \"96MiB\""),
                ("ttl = \"1h\"", "ttl = \"2h\""),
            ] {
                assert!(text.contains(one), "{one}");
                text = text.replace(one, other);
            }
        }
        text
    }

    /// Writes the configuration of a reload, the secret and a new certificate.
    fn write(&self, nth: usize) {
        let (serving, turn) = (&self.serving, nth % 2);
        let right = &self.world.origin.credentials().secret_access_key;
        let secret = [right, "wrong"][usize::from(nth % 3 == 1)];
        std::fs::write(&self.secret, secret).expect("written");
        self.authority
            .write(self.world.folder.path(), "a", &["a.example"]);
        serving.configure(&self.text(nth));
        let encrypted = format!("{{ address = \"{}\", tls = true }}", self.encrypted);
        serving.listen_on(&match turn {
            0 => format!(
                "[\"{}\", \"{}\", {encrypted}]\nmax_connections = 50",
                serving.http, self.second
            ),
            _ => format!("[\"{}\", {encrypted}]", serving.http),
        });
    }

    /// Reloads once, and looks that all of it is in force.
    async fn reload(&self, nth: usize) {
        self.write(nth);
        let serving = &self.serving;
        let told = report(&serving.post("/reload").await);
        assert_eq!(told["needs_restart"], Value::Array(Vec::new()), "{told}");
        let changed = told["changed"].as_array().expect("a list");
        let is_changed = |key: &&str| changed.iter().any(|one| one == key);
        // The gateway was started with the first one.
        let missing = CHANGED.iter().find(|key| nth > 0 && !is_changed(key));
        assert_eq!(missing, None, "{told}");
        self.look(nth).await;
    }

    async fn look(&self, nth: usize) {
        let (serving, turn) = (&self.serving, nth % 2);
        let more = serving.get("/more/2").await.status;
        assert_eq!(more, [200, 404][turn], "{nth}");
        let connected = TcpStream::connect(self.second).await;
        assert_eq!(connected.is_ok(), turn == 0, "{nth}");

        let as_alice = async |token: &str| {
            let bearer = format!("Bearer {token}");
            let headers = [("authorization", bearer.as_str())];
            let got = ask(serving.http, Method::GET, "/members/1", &headers);
            got.await.status
        };
        assert_eq!(as_alice(TOKENS[turn]).await, 200, "{nth}");
        let again = as_alice(TOKENS[turn]).await;
        assert_eq!(again, [200, 429][turn], "{nth}: a limit of one");
        let old = as_alice(TOKENS[1 - turn]).await;
        assert_eq!(old, [401, 429][turn], "{nth}: the token of before");

        // The bucket is asked about a key that is not known: it looks at the secret.
        let other = serving.get(&format!("/other/none-{nth}")).await.status;
        assert_eq!(other, [404, 403, 404][nth % 3], "{nth}");
        let client = self.authority.client(&["http/1.1"]);
        let stream = connect(self.encrypted, &client, "a.example").await;
        let stream = stream.expect("TLS");
        let shown = stream.get_ref().1.peer_certificates().expect("some");
        let own = first_of(self.world.folder.path().join("a.pem"));
        assert_eq!(shown.first(), Some(&own), "{nth}");
    }
}

/// `TIDEGATE_RELOADS` reloads (60) of routes, accesses, profiles, limits, origins and their secrets, hooks, memory, the
/// budget, disks, certificates, the level of the log and listeners, under the load of readers over HTTP/1.1, TLS with HTTP/2
/// and, where FUSE is, of a mount: no failed request, and neither descriptors nor memory of each.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_however_often_it_is_reloaded() {
    let reloads = Reloads::start().await;
    let load = reloads.load();
    let count = std::env::var("TIDEGATE_RELOADS").ok();
    let count = count.map_or(FEW, |text| text.parse().expect("a number"));
    let settled = count / SETTLED;
    for nth in 0..settled {
        reloads.reload(nth).await;
    }
    let in_use = || (reloads.serving.descriptors(), reloads.serving.resident());
    let before = in_use();
    for nth in settled..count {
        reloads.reload(nth).await;
    }
    let after = in_use();
    let read = load.stop().await;
    println!(
        "{read:?}; descriptors and bytes resident: {before:?}, after {count} reloads {after:?}"
    );
    // Connections come and go; a leak would be one for each reload.
    let more = count - settled;
    assert!(after.0 < before.0 + more.min(50), "{before:?} to {after:?}");
    if more >= MANY {
        assert!(
            after.1 < before.1 + more * LEFT_BEHIND,
            "{before:?} to {after:?}"
        );
    }
}
