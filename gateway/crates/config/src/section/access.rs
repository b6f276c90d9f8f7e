//! `[access.NAME]`: the requests that a route admits.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::Secret;
use tidegate_access::date;
use tidegate_plan::{Network, Period, Timestamp};

/// The requests that a route admits. One of `networks`, `tokens`, `clients`, `signed`, `jwt` and `auth_request` is enough;
/// `referers` must hold as well.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// Addresses and networks of clients that need no credentials.
    ///
    /// The client's address is the peer's, or the one that a proxy of `http.trusted_proxies` names.
    #[schemars(extend("examples" = [["10.0.0.0/8", "2001:db8::/32"]]))]
    pub networks: Vec<Network>,
    /// Tokens by the names of their holders, for `Authorization: Bearer`, or `Basic` as the password.
    ///
    /// Each is a secret of at least 16 characters. `expires` beside it ends it: a day (its first second) or a time in
    /// UTC, such as `2027-01-31T12:00:00Z`. A token in the file itself is then `{ secret = "…", expires = "…" }`.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "alice": { "file": "/etc/tidegate/alice", "expires": "2030-01-01" } }]))]
    pub tokens: BTreeMap<String, AccessToken>,
    /// Names in clients' certificates: the common name, or an alternative name (a host, an address of e-mail).
    ///
    /// The certificate is one that an authority of `tls.client_ca` has signed. Names are compared letter by letter.
    #[schemars(extend("examples" = [["alice", "player@example.org"]]))]
    pub clients: Vec<String>,
    /// Links that expire: SigV4 presigned URLs and signed prefixes, as `tidegate sign` makes them.
    ///
    /// `keys` has the secrets by the ids of the keys. `skew` is the most that the clock of a link's maker may differ
    /// from the gateway's (`1m` if left out); it lengthens each link.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "keys": { "k1": { "env": "SIGN_K1" } }, "skew": "1m" }]))]
    pub signed: Option<SignedLinks>,
    /// JSON Web Tokens that admit a request; `jwt = { … }` of the access.
    ///
    /// A token stands in `Authorization: Bearer`, the query or a cookie. It is signed with RS256, ES256, EdDSA or HS256, and
    /// has `exp`.
    #[serde(skip_serializing)]
    #[schemars(extend("x-section" = true))]
    pub jwt: Option<Jwt>,
    /// A URL that is asked about each request that nothing else admits, as by nginx's `auth_request`.
    ///
    /// 2xx admits, 401 and 403 refuse. `Cache-Control: max-age` of the answer says for how long it is kept. A table adds
    /// `timeout` (`5s`) and `entries`, the most answers that are kept (4096).
    #[schemars(extend("examples" = ["http://127.0.0.1:9090/auth"]))]
    pub auth_request: Option<AuthRequest>,
    /// Sites whose pages may embed the objects, with `*` as first or last label; left out: all.
    ///
    /// `example.org/galleries/` stands for the pages whose path begins so, `server_names` for the hosts of the routes that
    /// have this access, `none` for no `Referer`, `blocked` for one that a proxy has emptied. A browser that says that the
    /// page is of the same site needs no entry.
    #[schemars(extend("examples" = [["example.org", "*.example.org", "none"]]))]
    pub referers: Vec<String>,
    /// Answer what is refused as where there is no route: 404 in place of 401 and 403.
    pub hide: bool,
}

/// The keys of signed links.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["keys"]))]
pub struct SignedLinks {
    /// Secrets by the ids of the keys; links name theirs, so that keys can be replaced one by one.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "k1": { "env": "SIGN_K1" } }]))]
    pub keys: BTreeMap<String, Secret>,
    /// The most that the clock of a link's maker may differ from the gateway's.
    pub skew: Period,
}

impl Default for SignedLinks {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            skew: Period::secs(60),
        }
    }
}

/// The JWTs that an access admits, and their keys.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Jwt {
    /// The JWK set with the keys: a path, or an `http://` or `https://` URL.
    ///
    /// A file is read again when it changes. A URL is fetched at the start, every `refresh`, and for an unknown `kid`,
    /// 10 s after the last time at the earliest.
    #[schemars(extend("examples" = ["/etc/tidegate/jwks.json"]))]
    pub jwks: Option<String>,
    /// A shared secret for HS256, of at least 32 characters; in place of `jwks`, or beside it.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "env": "JWT_SECRET" }]))]
    pub secret: Option<Secret>,
    /// The issuer that a token must name; left out: any.
    #[schemars(extend("examples" = ["https://id.example.org"]))]
    pub issuer: Option<String>,
    /// The audience that a token must name; left out: it must name none.
    #[schemars(extend("examples" = ["media"]))]
    pub audience: Option<String>,
    /// The claim that lists the paths that a token opens; left out: it opens all.
    ///
    /// An entry that ends in `/` opens the paths below it, each other one the path that it is.
    #[schemars(extend("examples" = ["paths"]))]
    pub prefixes: Option<String>,
    /// The cookie in which a token may stand; left out: none.
    #[schemars(extend("examples" = ["session"]))]
    pub cookie: Option<String>,
    /// The parameter of the query in which a token may stand; empty: none.
    pub query: String,
    /// The time after which a URL is fetched again.
    pub refresh: Period,
    /// The most that the clock of the issuer may differ from the gateway's.
    pub skew: Period,
}

impl Default for Jwt {
    fn default() -> Self {
        Self {
            jwks: None,
            secret: None,
            issuer: None,
            audience: None,
            prefixes: None,
            cookie: None,
            query: "token".to_owned(),
            refresh: Period::secs(300),
            skew: Period::secs(60),
        }
    }
}

impl Jwt {
    /// Returns whether its key set is fetched.
    #[must_use]
    pub fn is_fetched(&self) -> bool {
        self.jwks.as_ref().is_some_and(|text| text.contains("://"))
    }
}

/// A server that is asked about requests: its URL, or a table with the URL and its bounds.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(from = "AuthRequestForm")]
#[schemars(with = "AuthRequestForm", extend("x-kind" = "URL or table"))]
pub struct AuthRequest {
    /// The URL.
    pub url: String,
    /// The time within which it must answer.
    pub timeout: Period,
    /// The most answers that are kept.
    pub entries: u32,
}

impl From<AuthRequestForm> for AuthRequest {
    fn from(form: AuthRequestForm) -> Self {
        let table = match form {
            AuthRequestForm::Url(url) => AuthRequestTable {
                url,
                ..AuthRequestTable::default()
            },
            AuthRequestForm::Table(table) => table,
        };
        Self {
            url: table.url,
            timeout: table.timeout,
            entries: table.entries,
        }
    }
}

/// The forms of [`AuthRequest`].
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a URL, or a table of url, timeout and entries"
)]
enum AuthRequestForm {
    /// The URL alone.
    Url(String),
    /// The URL and its bounds.
    Table(AuthRequestTable),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["url"]))]
struct AuthRequestTable {
    url: String,
    timeout: Period,
    entries: u32,
}

impl Default for AuthRequestTable {
    fn default() -> Self {
        Self {
            url: String::new(),
            timeout: Period::secs(5),
            entries: 4096,
        }
    }
}

/// A token, and the time that ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// The secret.
    pub secret: Secret,
    /// The time from which it admits no more requests.
    pub expires: Option<Timestamp>,
}

const EXPECTED_TOKEN: &str = "text, or a table of one of secret, env and file, and perhaps expires";

impl<'de> Deserialize<'de> for AccessToken {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(TokenVisitor)
    }
}

struct TokenVisitor;

fn wrong_token<E: Error>() -> E {
    E::custom(format!("expected {EXPECTED_TOKEN}"))
}

impl<'de> Visitor<'de> for TokenVisitor {
    type Value = AccessToken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token")
    }

    // A value of the wrong type may still be the secret, and serde's own messages would repeat it.
    fn visit_bool<E: Error>(self, _: bool) -> Result<AccessToken, E> {
        Err(wrong_token())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<AccessToken, E> {
        Err(wrong_token())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<AccessToken, E> {
        Err(wrong_token())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<AccessToken, E> {
        Err(wrong_token())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AccessToken, E> {
        Ok(AccessToken {
            secret: literal(text)?,
            expires: None,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AccessToken, A::Error> {
        let (mut secret, mut expires) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            let found = match key.as_str() {
                "secret" => literal(&map.next_value::<String>().map_err(|_| wrong_token())?)?,
                "env" => Secret::Env(map.next_value()?),
                "file" => Secret::File(map.next_value()?),
                "expires" => {
                    expires = Some(map.next_value::<Expiry>()?.0);
                    continue;
                }
                _ => return Err(wrong_token()),
            };
            if secret.replace(found).is_some() {
                return Err(wrong_token());
            }
        }
        let secret = secret.ok_or_else(wrong_token)?;
        Ok(AccessToken { secret, expires })
    }
}

fn literal<E: Error>(text: &str) -> Result<Secret, E> {
    match text {
        "" => Err(E::custom("is empty")),
        text => Ok(Secret::Literal(text.to_owned())),
    }
}

/// A day or a time as text.
struct Expiry(Timestamp);

impl<'de> Deserialize<'de> for Expiry {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        let seconds = date::parse(&text);
        let millis = seconds.and_then(|seconds| seconds.checked_mul(1000));
        millis.map(|millis| Self(Timestamp(millis))).ok_or_else(|| {
            D::Error::custom(format!(
                "`{}` is no day such as 2027-01-31, and no time such as 2027-01-31T12:00:00Z",
                text.escape_debug()
            ))
        })
    }
}

impl JsonSchema for AccessToken {
    fn schema_name() -> Cow<'static, str> {
        "AccessToken".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let table = |key: &str| {
            json_schema!({
                "type": "object",
                "properties": { key: { "type": "string" }, "expires": { "type": "string" } },
                "required": [key],
                "additionalProperties": false,
            })
        };
        json_schema!({
            "anyOf": [{ "type": "string", "minLength": 1 }, table("secret"), table("env"), table("file")],
            "x-kind": "token",
        })
    }
}
