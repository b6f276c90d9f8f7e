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

/// The requests that a route admits. One of `networks`, `tokens`, `clients` and `signed` is enough; `referers` must hold as
/// well.
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
    pub signed: Option<Signed>,
    /// Sites whose pages may embed the objects, with `*` as first or last label; left out: all.
    ///
    /// `none` stands for no `Referer`, `blocked` for one that a proxy has emptied. A browser that says that the page is
    /// of the same site needs no entry.
    #[schemars(extend("examples" = [["example.org", "*.example.org", "none"]]))]
    pub referers: Vec<String>,
    /// Answer what is refused as where there is no route: 404 in place of 401 and 403.
    pub hide: bool,
}

/// The keys of signed links.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["keys"]))]
pub struct Signed {
    /// Secrets by the ids of the keys; links name theirs, so that keys can be replaced one by one.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "k1": { "env": "SIGN_K1" } }]))]
    pub keys: BTreeMap<String, Secret>,
    /// The most that the clock of a link's maker may differ from the gateway's.
    pub skew: Period,
}

impl Default for Signed {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            skew: Period::secs(60),
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
