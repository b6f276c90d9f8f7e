//! Addresses in a configuration: text, or a list if several are allowed.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use tidegate_plan::Listen;

/// One address or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners(pub Vec<Listen>);

impl<'de> Deserialize<'de> for Listeners {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct ListenersVisitor;

        impl<'de> Visitor<'de> for ListenersVisitor {
            type Value = Listeners;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address or a list of addresses")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Listeners, E> {
                Ok(Listeners(vec![text.parse().map_err(E::custom)?]))
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

impl Serialize for Listeners {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(output),
            several => several.serialize(output),
        }
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
        json_schema!({
            "type": ["string", "array"],
            "items": { "type": "string" },
            "minItems": 1,
            "x-kind": "address or list of addresses",
        })
    }
}
