//! The text form of sizes, lengths of time and addresses in a configuration or an answer; a size is also read from a
//! number. Behind the feature `serde`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

use crate::{ByteSize, Listen, Network, Period};

/// Reads a value from text in the visitor rather than after it, for there the error is given the
/// place of the text, also within a list.
#[derive(Debug)]
pub struct FromText<T> {
    expecting: &'static str,
    value: PhantomData<T>,
}

impl<T: FromStr<Err = String>> FromText<T> {
    /// Reads a `T`; `expecting` says what it is, in case the value is no text.
    ///
    /// # Errors
    /// The value is no text, or the text is no `T`.
    pub fn read<'de, D>(input: D, expecting: &'static str) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
    {
        input.deserialize_str(Self {
            expecting,
            value: PhantomData,
        })
    }
}

impl<T: FromStr<Err = String>> Visitor<'_> for FromText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Size;

        impl Visitor<'_> for Size {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size, such as \"256KiB\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<ByteSize, E> {
                let bytes = u64::try_from(number);
                bytes
                    .map(ByteSize)
                    .map_err(|_| E::custom(format!("`{number}` is no size; it is negative")))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(number))
            }
        }

        input.deserialize_any(Size)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "pattern": "^ *[0-9]+ *([KMGT]i?B|B)? *$",
            "minimum": 0,
            "x-kind": "size",
        })
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Length;

        impl Visitor<'_> for Length {
            type Value = Period;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time, such as \"60s\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Period, E> {
                text.parse().map_err(E::custom)
            }

            /// Zero is the same in every unit; any other bare number is refused.
            fn visit_i64<E: Error>(self, number: i64) -> Result<Period, E> {
                number.to_string().parse().map_err(E::custom)
            }
        }

        input.deserialize_any(Length)
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "pattern": "^ *(0|[0-9]+ *(ms|s|m|h|d)) *$",
            "minimum": 0,
            "maximum": 0,
            "x-kind": "duration",
        })
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        FromText::read(input, "an IP address or a network")
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

impl JsonSchema for Network {
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-kind": "network" })
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        FromText::read(input, "an address")
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

impl JsonSchema for Listen {
    fn schema_name() -> Cow<'static, str> {
        "Listen".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-kind": "address" })
    }
}
