//! A row for each key of `[access.NAME]` and `[limits.NAME]`: a table with the key, and requests whose outcome differs if
//! the key does not reach the rules.

use serde_json::{Value, json};
use tidegate_access::SigningKey;

use super::issuer::{Issuer, now, shared_token};

/// The outcome of a request that is answered with the object.
pub(super) const ADMISSION: &str = "admitted";

/// The outcome of a request that is answered as where there is no route.
pub(super) const NO_ROUTE: &str = "hidden";

const MINUTE: u64 = 60;

const ALICE: &str = "Bearer t0ken-of-alice-here";
const BOB: &str = "Bearer t0ken-of-bob-is-here";

/// The tokens of both.
const TOKENS: &str =
    "tokens = { alice = \"t0ken-of-alice-here\", bob = \"t0ken-of-bob-is-here\" }\n";

const SECRETS: [&str; 2] = ["secret-of-the-first-key", "secret-of-the-second-key"];

const SHARED_SECRET: &str = "shared-secret-of-the-issuer-0123456789";

type Header = (&'static str, String);

/// A key, and what shows that it is handed on.
pub(super) struct Row {
    /// The key, or one of the forms of its value.
    pub(super) key: &'static str,
    /// The lines of the access's table; empty: the route is open.
    access: String,
    /// The lines of the limits' table; empty: none.
    limits: &'static str,
    pub(super) probes: Vec<Probe>,
}

/// A request, and its outcome.
pub(super) struct Probe {
    /// The target below the row's route.
    pub(super) target: String,
    pub(super) headers: Vec<Header>,
    /// [`ADMISSION`], [`NO_ROUTE`], or the detail of the refusal in `Cache-Status`.
    pub(super) outcome: &'static str,
}

/// Returns the path of the route of a key.
pub(super) fn path_of(key: &str) -> String {
    format!("/{}/", name_of(key))
}

fn name_of(key: &str) -> String {
    key.replace('.', "_")
}

impl Row {
    fn of_access(key: &'static str, access: impl Into<String>) -> Self {
        Self {
            key,
            access: access.into(),
            limits: "",
            probes: Vec::new(),
        }
    }

    fn of_limits(key: &'static str, limits: &'static str) -> Self {
        Self {
            limits,
            ..Self::of_access(key, "")
        }
    }

    /// Adds a request for the object with these headers.
    fn get<const N: usize>(
        self,
        headers: [(&'static str, &str); N],
        outcome: &'static str,
    ) -> Self {
        self.get_at("o", headers, outcome)
    }

    /// Adds a request for this target below the route.
    fn get_at<const N: usize>(
        mut self,
        target: &str,
        headers: [(&'static str, &str); N],
        outcome: &'static str,
    ) -> Self {
        self.probes.push(Probe {
            target: target.to_owned(),
            headers: headers.map(|(name, value)| (name, value.to_owned())).into(),
            outcome,
        });
        self
    }

    /// Returns the tables of its route, its access and its limits.
    pub(super) fn tables(&self) -> String {
        let (name, path) = (name_of(self.key), path_of(self.key));
        let mut route = format!("[[route]]\norigin = \"media\"\npath = \"{path}\"\n");
        let mut tables = String::new();
        for (key, section, lines) in [
            ("access", "access", &*self.access),
            ("limits", "limits", self.limits),
        ] {
            if !lines.is_empty() {
                route += &format!("{key} = \"{name}\"\n");
                tables += &format!("[{section}.{name}]\n{lines}\n");
            }
        }
        route + &tables
    }
}

/// The parties that the rows' tables name.
pub(super) struct Parties {
    pub(super) issuer: Issuer,
    /// The path of the file with the issuer's keys.
    pub(super) keys_file: String,
    /// The URL of the same keys.
    pub(super) keys_url: String,
    /// The URL of a server that admits the cookie `session=good`.
    pub(super) auth_url: String,
}

impl Parties {
    /// Returns a JWT of the issuer, as a bearer.
    fn bearer(&self, claims: Value) -> String {
        format!("Bearer {}", self.issuer.token(claims))
    }

    /// Returns the table of JWTs with the file's keys and these further keys.
    fn jwt(&self, more: &str) -> String {
        format!("jwt = {{ jwks = \"{}\", {more} }}", self.keys_file)
    }

    /// Returns all rows.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = self.access_rows();
        rows.extend(signed_rows());
        rows.extend(self.key_rows());
        rows.extend(self.claim_rows());
        rows.extend(self.place_rows());
        rows.extend(limit_rows());
        rows
    }

    fn access_rows(&self) -> Vec<Row> {
        let expiring = "tokens = { alice = { secret = \"t0ken-of-alice-here\", expires = \"2020-01-01\" }, \
             bob = { secret = \"t0ken-of-bob-is-here\", expires = \"2100-01-01\" } }";
        let foreign = "https://evil.example/a";
        vec![
            Row::of_access("access.networks", "networks = [\"10.0.0.0/8\"]")
                .get([from("10.1.2.3")], ADMISSION)
                .get([from("192.0.2.1")], "access-missing"),
            Row::of_access("access.tokens", TOKENS)
                .get([authorized(ALICE)], ADMISSION)
                .get([authorized("Bearer wrong")], "access-token"),
            Row::of_access("access.tokens.expires", expiring)
                .get([authorized(ALICE)], "access-expired")
                .get([authorized(BOB)], ADMISSION),
            Row::of_access(
                "access.auth_request",
                format!("auth_request = \"{}\"", self.auth_url),
            )
            .get([("cookie", "session=good")], ADMISSION)
            .get([("cookie", "session=bad")], "access-denied"),
            Row::of_access("access.referers", "referers = [\"example.org\"]")
                .get([("referer", "https://example.org/a")], ADMISSION)
                .get([("referer", foreign)], "access-referer")
                .get([], "access-referer"),
            Row::of_access("access.hide", format!("{TOKENS}hide = true"))
                .get([authorized(ALICE)], ADMISSION)
                .get([authorized("Bearer wrong")], NO_ROUTE)
                .get([], NO_ROUTE),
        ]
    }

    /// Returns rows about the keys of JWTs.
    fn key_rows(&self) -> Vec<Row> {
        let by_url = format!("jwt = {{ jwks = \"{}\" }}", self.keys_url);
        let shared = format!("jwt = {{ secret = \"{SHARED_SECRET}\" }}");
        let [own, other] = [&self.issuer, &Issuer::new()]
            .map(|issuer| format!("Bearer {}", issuer.token(json!({}))));
        let [right, wrong] = [SHARED_SECRET, "another-secret-of-another-0123456789"]
            .map(|secret| format!("Bearer {}", shared_token(secret)));
        vec![
            Row::of_access("access.jwt.jwks.url", by_url)
                .get([authorized(&own)], ADMISSION)
                .get([authorized(&other)], "access-signature"),
            Row::of_access("access.jwt.jwks.file", self.jwt("skew = \"1s\""))
                .get([authorized(&own)], ADMISSION)
                .get([authorized(&other)], "access-signature"),
            Row::of_access("access.jwt.secret", shared)
                .get([authorized(&right)], ADMISSION)
                .get([authorized(&wrong)], "access-signature"),
        ]
    }

    /// Returns rows about the claims of JWTs.
    fn claim_rows(&self) -> Vec<Row> {
        let bearer = |claims| self.bearer(claims);
        let ended = |ago: u64| bearer(json!({ "exp": now() - ago }));
        let own = path_of("access.jwt.prefixes");
        vec![
            Row::of_access("access.jwt.issuer", self.jwt("issuer = \"own\""))
                .get([authorized(&bearer(json!({ "iss": "own" })))], ADMISSION)
                .get(
                    [authorized(&bearer(json!({ "iss": "a" })))],
                    "access-claims",
                )
                .get([authorized(&bearer(json!({})))], "access-claims"),
            Row::of_access("access.jwt.audience", self.jwt("audience = \"media\""))
                .get([authorized(&bearer(json!({ "aud": "media" })))], ADMISSION)
                .get(
                    [authorized(&bearer(json!({ "aud": "a" })))],
                    "access-claims",
                )
                .get([authorized(&bearer(json!({})))], "access-claims"),
            Row::of_access("access.jwt.prefixes", self.jwt("prefixes = \"paths\""))
                .get([authorized(&bearer(json!({ "paths": [own] })))], ADMISSION)
                .get(
                    [authorized(&bearer(json!({ "paths": ["/a/"] })))],
                    "access-prefix",
                )
                .get([authorized(&bearer(json!({})))], "access-claims"),
            Row::of_access("access.jwt.skew", self.jwt("skew = \"10m\""))
                .get([authorized(&ended(5 * MINUTE))], ADMISSION)
                .get([authorized(&ended(20 * MINUTE))], "access-expired"),
        ]
    }

    /// Returns rows about the places of JWTs in a request.
    fn place_rows(&self) -> Vec<Row> {
        let token = self.issuer.token(json!({}));
        let [named, others] = ["member", "session"].map(|name| format!("{name}={token}"));
        let [by_key, by_token] = ["key", "token"].map(|name| format!("o?{name}={token}"));
        vec![
            Row::of_access("access.jwt.cookie", self.jwt("cookie = \"member\""))
                .get([("cookie", &*named)], ADMISSION)
                .get([("cookie", &*others)], "access-missing"),
            Row::of_access("access.jwt.query.name", self.jwt("query = \"key\""))
                .get_at(&by_key, [], ADMISSION)
                .get_at(&by_token, [], "access-missing"),
            Row::of_access("access.jwt.query.none", self.jwt("query = \"\""))
                .get_at(&by_token, [], "access-missing")
                .get_at(&format!("o?={token}"), [], "access-missing"),
        ]
    }
}

fn signed_rows() -> Vec<Row> {
    let keys = format!(
        "keys = {{ k1 = \"{}\", k2 = \"{}\" }}",
        SECRETS[0], SECRETS[1]
    );
    let link = |row: &str, (id, secret): (&str, &str), expires: u64| {
        let key = SigningKey::new(id, secret).expect("a key");
        format!("o?{}", key.sign_prefix(&path_of(row), expires))
    };
    let [first, second] = SECRETS;
    let later = now() + 60 * MINUTE;
    let by_key = |key| link("access.signed.keys", key, later);
    let ended = |ago: u64| link("access.signed.skew", ("k1", first), now() - ago);
    vec![
        Row::of_access("access.signed.keys", format!("signed = {{ {keys} }}"))
            .get_at(&by_key(("k1", first)), [], ADMISSION)
            .get_at(&by_key(("k2", second)), [], ADMISSION)
            .get_at(&by_key(("k2", first)), [], "access-signature")
            .get_at(&by_key(("k3", first)), [], "access-key"),
        Row::of_access(
            "access.signed.skew",
            format!("signed = {{ {keys}, skew = \"10m\" }}"),
        )
        .get_at(&ended(5 * MINUTE), [], ADMISSION)
        .get_at(&ended(20 * MINUTE), [], "access-expired"),
    ]
}

fn limit_rows() -> Vec<Row> {
    const LIMIT_REFUSAL: &str = "limit-requests";
    let [one, two] = ["192.0.2.1", "192.0.2.2"].map(from);
    let by_key = "requests = \"1/h\"\nper = \"key\"";
    vec![
        Row::of_limits("limits.requests", "requests = \"1/h\"")
            .get([one], ADMISSION)
            .get([one], LIMIT_REFUSAL),
        Row::of_limits("limits.burst", "requests = \"1/h\"\nburst = 3")
            .get([one], ADMISSION)
            .get([one], ADMISSION)
            .get([one], ADMISSION)
            .get([one], LIMIT_REFUSAL),
        // The requests of one second: five at once are fewer, on however slow a machine.
        Row::of_limits("limits.burst.default", "requests = \"600/m\"")
            .get([one], ADMISSION)
            .get([one], ADMISSION)
            .get([one], ADMISSION)
            .get([one], ADMISSION)
            .get([one], ADMISSION),
        Row {
            access: TOKENS.to_owned(),
            ..Row::of_limits("limits.per.key", by_key)
        }
        .get([authorized(ALICE), one], ADMISSION)
        .get([authorized(ALICE), two], LIMIT_REFUSAL)
        .get([authorized(BOB), two], ADMISSION),
        Row::of_limits("limits.per.route", "requests = \"1/h\"\nper = \"route\"")
            .get([one], ADMISSION)
            .get([two], LIMIT_REFUSAL),
    ]
}

/// Returns the header by which the trusted proxy names a client.
fn from(address: &str) -> (&'static str, &str) {
    ("x-forwarded-for", address)
}

fn authorized(credentials: &str) -> (&'static str, &str) {
    ("authorization", credentials)
}
