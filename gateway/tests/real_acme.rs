//! Certificates of a real authority (Pebble), which looks whether the names lead to the real gateway.
#![cfg(feature = "real-parts")]

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tidegate_outbound::{Client, ClientSettings, Roots};
use tokio::time::{Instant, sleep};

#[path = "tls/authority.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod authority;
#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[path = "support/pebble.rs"]
mod pebble;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/process.rs"]
mod process;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use authority::Authority;
use mount::TOKEN;
use pebble::{Pebble, PebbleSettings, REFUSED};
use ports::free_addr;
use serving::Serving;
use world::{World, sample};

const LONG: Duration = Duration::from_secs(300);
const NAME: &str = "media.example";
const DAYS: Duration = Duration::from_secs(90 * 24 * 3600);

/// A gateway with one listener with TLS, and the places of an authority.
struct Ordered {
    world: World,
    serving: Serving,
    public: SocketAddr,
    directory: SocketAddr,
    management: SocketAddr,
}

impl Ordered {
    async fn new() -> Self {
        let world = World::new().await;
        world.put("o", &sample(1000, 1)).await;
        let folder = world.folder.path();
        let authority = Authority::new();
        authority.write(folder, "pebble", &["localhost"]);
        authority.write_root(&folder.join("pebble-root.pem"));
        let ordered = Self {
            serving: Serving::configured("[admin]\n"),
            public: free_addr(),
            directory: free_addr(),
            management: free_addr(),
            world,
        };
        ordered.configure(&[NAME], "a@example.org");
        ordered
    }

    fn folder(&self) -> &Path {
        self.world.folder.path()
    }

    /// Writes a configuration that orders certificates for these names.
    fn configure(&self, names: &[&str], contact: &str) {
        self.configure_with(names, contact, "");
    }

    /// Does so with further lines of `[tls.acme]`.
    fn configure_with(&self, names: &[&str], contact: &str, more: &str) {
        let own = format!("token = \"{TOKEN}\"");
        let config = self.world.config("ttl = \"1h\"");
        let config = config.replace("token = \"t0ken-of-the-tests\"", &own);
        let acme = format!(
            "[[route]]\norigin = \"media\"\n[tls.acme]\nnames = {names:?}\nterms_agreed = true\n\
             directory = \"https://localhost:{}/dir\"\ncontact = [\"mailto:{contact}\"]\n\
             directory_ca = \"{}\"\n{more}",
            self.directory.port(),
            self.folder().join("pebble-root.pem").display(),
        );
        self.serving.configure(&format!("{config}{acme}"));
        let public = self.public;
        let listen = format!("{{ address = \"{public}\", tls = true }}");
        self.serving.listen_on(&listen);
    }

    async fn pebble(&self, lifetime: Duration, bad_nonces: u32) -> Pebble {
        let settings = PebbleSettings {
            folder: self.folder(),
            directory: self.directory,
            management: self.management,
            tls_port: self.public.port(),
            lifetime,
            bad_nonces,
            external_accounts: &[],
        };
        Pebble::start(&settings, free_addr())
    }

    /// Writes the root of the authority that runs.
    async fn write_root(&self) -> PathBuf {
        let settings = ClientSettings {
            roots: Roots::File(self.folder().join("pebble-root.pem")),
            ..ClientSettings::default()
        };
        let url = format!("https://localhost:{}/roots/0", self.management.port());
        let request = Request::get(url).body(Full::<Bytes>::default());
        let client = Client::new(&settings).expect("a client");
        let root = client.fetch(request.expect("a request"), LONG, 1 << 20);
        let path = self.folder().join("issued-by.pem");
        let root = root.await.expect("a root").into_body();
        std::fs::write(&path, root).expect("written");
        path
    }

    /// Waits until the gateway shows a certificate for a name that is not `old`; returns it as `openssl` prints it.
    async fn shown(&self, name: &str, old: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(shown) = certificate(self.public, name)
                && shown != old
            {
                return shown;
            }
            let log = self.serving.log();
            assert!(
                begun.elapsed() < LONG,
                "no other certificate of {name}\n{log}"
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn orders(&self, result: &str) -> u64 {
        let result = format!("\"{result}\"");
        self.serving
            .metric(&["tidegate_acme_orders_total{", &result])
            .await
    }

    /// Waits until so many orders have had a result: a certificate is shown before it is counted.
    async fn counted(&self, result: &str, count: u64) {
        let begun = Instant::now();
        while self.orders(result).await < count {
            assert!(begun.elapsed() < LONG, "{}", self.serving.log());
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn reload(&self) {
        let got = self.serving.post("/reload").await;
        assert_eq!(got.status, 200, "{}", got.text());
    }

    /// Returns the files below the folder of keys, with their modes.
    fn kept(&self) -> Vec<(PathBuf, u32)> {
        let acme = self.world.disk().join("state/acme");
        let mut kept = Vec::new();
        for folder in std::fs::read_dir(acme).expect("there") {
            let folder = folder.expect("readable").path();
            for file in std::fs::read_dir(folder).expect("readable") {
                let file = file.expect("readable");
                let mode = file.metadata().expect("there").permissions().mode();
                kept.push((file.path(), mode & 0o777));
            }
        }
        kept.sort();
        kept
    }
}

/// Returns what a name's certificate is, as `openssl s_client` is shown it.
fn certificate(address: SocketAddr, name: &str) -> Option<String> {
    let said = openssl(address, name, &[]);
    let begin = said.find("-----BEGIN CERTIFICATE-----")?;
    let end = said[begin..].find("-----END CERTIFICATE-----")?;
    Some(said[begin..begin + end].to_owned())
}

/// Asks for a page over TLS.
fn openssl(address: SocketAddr, name: &str, options: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command
        .args([
            "s_client",
            "-connect",
            &address.to_string(),
            "-servername",
            name,
        ])
        .args(options)
        .stdin(Stdio::null());
    let output = command.output().expect("openssl is installed");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Checks that keys are for the gateway alone, and in no log.
fn keys_are_for_the_gateway_alone(ordered: &Ordered) {
    let kept = ordered.kept();
    let names: Vec<_> = kept.iter().map(|(path, _)| path.file_name()).collect();
    assert_eq!(
        names,
        ["account.json", "media.example.pem"].map(|name| Some(name.as_ref()))
    );
    assert!(kept.iter().all(|(_, mode)| *mode == 0o600), "{kept:?}");
    let pem = std::fs::read_to_string(&kept[1].0).expect("readable");
    let (_, key) = pem.split_once("PRIVATE KEY-----\n").expect("a key");
    let account = std::fs::read_to_string(&kept[0].0).expect("readable");
    let account: serde_json::Value = serde_json::from_str(&account).expect("JSON");
    let account = account["credentials"]["key_pkcs8"].as_str().expect("a key");
    let log = ordered.serving.log();
    assert!(
        !log.contains(&key[..20]) && !log.contains(&account[..20]),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_issued_and_stays_while_the_authority_is_away() {
    let mut ordered = Ordered::new().await;
    let pebble = ordered.pebble(DAYS, 5).await;
    ordered.serving.start().await;
    let first = ordered.shown(NAME, "").await;
    let root = ordered.write_root().await;
    let said = openssl(
        ordered.public,
        NAME,
        &[
            "-verify_return_error",
            "-verify_hostname",
            NAME,
            "-CAfile",
            root.to_str().expect("text"),
        ],
    );
    assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
    ordered
        .serving
        .logged(&["certificate issued and shown", NAME])
        .await;
    assert_eq!(ordered.orders("issued").await, 1);
    assert!(
        ordered
            .serving
            .metric(&["tls_certificate_expiry_seconds{"])
            .await
            > 0
    );

    keys_are_for_the_gateway_alone(&ordered);

    // A gateway that starts while the authority is away shows the same certificate, and asks for nothing.
    drop(pebble);
    ordered.serving.end().await;
    ordered.serving.start().await;
    assert_eq!(ordered.shown(NAME, "").await, first);
    for result in ["issued", "failed", "refused"] {
        assert_eq!(ordered.orders(result).await, 0, "{result}");
    }
    // One more name cannot be had; the other one stays. When the authority is back, it has lost its accounts.
    ordered.configure(&[NAME, "photos.example"], "a@example.org");
    ordered.reload().await;
    ordered
        .serving
        .logged(&["no certificate that holds", "photos.example"])
        .await;
    assert_eq!(ordered.shown(NAME, "").await, first);
    let _pebble = ordered.pebble(DAYS, 0).await;
    ordered.configure(&[NAME, "photos.example"], "b@example.org");
    ordered.reload().await;
    let photos = ordered.shown("photos.example", &first).await;
    assert_ne!(photos, first);
    assert_eq!(ordered.shown(NAME, "").await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_at_two_thirds_of_its_lifetime() {
    let mut ordered = Ordered::new().await;
    let _pebble = ordered.pebble(Duration::from_secs(12), 0).await;
    ordered.serving.start().await;
    let first = ordered.shown(NAME, "").await;
    let second = ordered.shown(NAME, &first).await;
    let third = ordered.shown(NAME, &second).await;
    assert!(third != first);
    ordered.counted("issued", 3).await;
    assert_eq!(ordered.orders("failed").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_authority_refuses_is_said_and_not_asked_again() {
    let mut ordered = Ordered::new().await;
    ordered.configure(&[REFUSED, NAME], "a@example.org");
    let pebble = ordered.pebble(DAYS, 0).await;
    ordered.serving.start().await;
    ordered.shown(NAME, "").await;
    ordered
        .serving
        .logged(&[
            "no certificate that holds",
            REFUSED,
            "rejectedIdentifier",
            "tls.acme.names",
        ])
        .await;
    assert_eq!(ordered.orders("refused").await, 1);
    drop(pebble);

    // An authority that takes no nonce, and one that finds another server on the port.
    let pebble = ordered.pebble(DAYS, 100).await;
    ordered.configure(&["b.example"], "a@example.org");
    ordered.reload().await;
    ordered
        .serving
        .logged(&["no certificate that holds", "b.example", "badNonce"])
        .await;
    drop(pebble);
    let settings = PebbleSettings {
        folder: ordered.folder(),
        directory: ordered.directory,
        management: ordered.management,
        tls_port: ordered.serving.admin.port(),
        lifetime: DAYS,
        bad_nonces: 0,
        external_accounts: &[],
    };
    let _pebble = Pebble::start(&settings, free_addr());
    ordered.configure(&["c.example"], "a@example.org");
    ordered.reload().await;
    ordered
        .serving
        .logged(&["no certificate that holds", "c.example", "port 443"])
        .await;
    assert_eq!(ordered.orders("issued").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_bound_to_the_one_that_the_authority_has_made() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    const OTHER: &str = "b10lLJs8l1GPIzsLP0s6pMt8O0XVGnfTaCeROxQM0BIt2XrJMDHJZBM5NuQmQJQH";
    let mut ordered = Ordered::new().await;
    let settings = PebbleSettings {
        folder: ordered.folder(),
        directory: ordered.directory,
        management: ordered.management,
        tls_port: ordered.public.port(),
        lifetime: DAYS,
        bad_nonces: 0,
        external_accounts: &[("kid-1", KEY)],
    };
    let _pebble = Pebble::start(&settings, free_addr());
    ordered.serving.start().await;
    let said = "set `tls.acme.external_account`";
    ordered
        .serving
        .logged(&["no certificate that holds", said])
        .await;

    let file = ordered.folder().join("acme-key");
    let more = format!(
        "external_account = {{ key_id = \"kid-1\", key = {{ file = \"{}\" }} }}\n",
        file.display()
    );
    ordered.configure_with(&[NAME], "a@example.org", &more);
    std::fs::write(&file, "n0 key").expect("written");
    let refused = ordered.serving.post("/reload").await;
    assert_eq!(refused.status, 422);
    assert!(!refused.text().contains("n0 key"), "{}", refused.text());
    std::fs::write(&file, OTHER).expect("written");
    ordered.reload().await;
    ordered
        .serving
        .logged(&["does not take `tls.acme.external_account`"])
        .await;
    assert_eq!(ordered.orders("issued").await, 0);

    // The right key is taken up at once, although no key of the configuration has changed.
    std::fs::write(&file, format!("{KEY}\n")).expect("written");
    ordered.reload().await;
    ordered.shown(NAME, "").await;
    ordered.counted("issued", 1).await;
    assert_eq!(ordered.orders("issued").await, 1);
    keys_are_for_the_gateway_alone(&ordered);
    let account = std::fs::read_to_string(&ordered.kept()[0].0).expect("readable");
    let log = ordered.serving.log();
    for key in [KEY, OTHER] {
        assert!(!account.contains(key) && !log.contains(key));
    }
    assert!(account.contains("\"external\":\"kid-1\""), "{account}");
}
