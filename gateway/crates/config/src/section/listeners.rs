//! Addresses in a configuration: text, or a table that says `tls` as well; or a list of these if several are allowed.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value;

use tidegate_plan::Listen;

/// One address to listen on, and whether its connections are encrypted: `"127.0.0.1:80"` or
/// `{ address = "0.0.0.0:443", tls = true }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// The address.
    pub address: Listen,
    /// Whether it speaks TLS, with the certificates of `[tls]`.
    pub tls: bool,
}

/// One address or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners(pub Vec<ListenAddress>);

impl From<Listen> for ListenAddress {
    fn from(address: Listen) -> Self {
        let tls = false;
        Self { address, tls }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        match self.tls {
            true => f.write_str(" (TLS)"),
            false => Ok(()),
        }
    }
}

impl ListenAddress {
    /// Returns whether bytes that are sent here may cross a network in the clear.
    #[must_use]
    pub fn is_in_the_clear(&self) -> bool {
        !self.tls && self.address.is_exposed()
    }
}

/// The table form.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenTable {
    address: Listen,
    #[serde(default)]
    tls: bool,
}

impl From<ListenTable> for ListenAddress {
    fn from(ListenTable { address, tls }: ListenTable) -> Self {
        Self { address, tls }
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct ListenVisitor;

        impl<'de> Visitor<'de> for ListenVisitor {
            type Value = ListenAddress;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ListenAddress, E> {
                let address: Listen = text.parse().map_err(E::custom)?;
                Ok(address.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ListenAddress, A::Error> {
                let table = ListenTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(table.into())
            }
        }

        input.deserialize_any(ListenVisitor)
    }
}

impl<'de> Deserialize<'de> for Listeners {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct ListenersVisitor;

        impl<'de> Visitor<'de> for ListenersVisitor {
            type Value = Listeners;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address or a list of addresses")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Listeners, E> {
                let address: Listen = text.parse().map_err(E::custom)?;
                Ok(Listeners(vec![address.into()]))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Listeners, A::Error> {
                let table = ListenTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Listeners(vec![table.into()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Listeners, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = list.next_element()? {
                    all.push(one);
                }
                Ok(Listeners(all))
            }
        }

        input.deserialize_any(ListenersVisitor)
    }
}

impl Serialize for ListenAddress {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        match self.tls {
            false => self.address.serialize(output),
            true => {
                let pairs = [
                    ("address", Value::from(self.address.to_string())),
                    ("tls", Value::from(true)),
                ];
                output.collect_map(pairs)
            }
        }
    }
}

impl Serialize for Listeners {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(output),
            several => several.serialize(output),
        }
    }
}

/// Returns the schema of the table form.
fn table() -> Schema {
    json_schema!({
        "type": "object",
        "properties": { "address": { "type": "string" }, "tls": { "type": "boolean" } },
        "required": ["address"],
        "additionalProperties": false,
    })
}

impl JsonSchema for ListenAddress {
    fn schema_name() -> Cow<'static, str> {
        "ListenOn".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "string" }, table()],
            "x-kind": "address",
        })
    }
}

impl JsonSchema for Listeners {
    fn schema_name() -> Cow<'static, str> {
        "Listeners".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let list = json_schema!({
            "type": "array",
            "items": { "anyOf": [{ "type": "string" }, table()] },
            "minItems": 1,
        });
        json_schema!({
            "anyOf": [{ "type": "string" }, table(), list],
            "x-kind": "address or list of addresses",
        })
    }
}
