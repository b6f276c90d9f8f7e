//! The text form of sizes, lengths of time and addresses in a configuration or an answer; a size is also read from a
//! number. Behind the feature `serde`.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::{ByteSize, Listen, Network, Period};

/// Reads a value from text in the visitor rather than after it, for there the error is given the
/// place of the text, also within a list.
#[derive(Debug)]
pub struct TextVisitor<T> {
    expecting: &'static str,
    value: PhantomData<T>,
}

impl<T: FromStr<Err = String>> TextVisitor<T> {
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

impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Gives a type its form in a configuration: written as its text, described by a schema, and read from its text if
/// `read` says what that is.
#[macro_export]
macro_rules! text_form {
    ($type:ty, $name:literal, $schema:tt) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
                output.collect_str(self)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
    ($type:ty, $name:literal, read: $expecting:literal, $schema:tt) => {
        $crate::text_form!($type, $name, $schema);

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                $crate::serial::TextVisitor::read(input, $expecting)
            }
        }
    };
}

text_form!(ByteSize, "Size", {
    "type": ["string", "integer"],
    "pattern": "^ *[0-9]+ *([KMGT]i?B|B)? *$",
    "minimum": 0,
    "x-kind": "size",
});

text_form!(Period, "Duration", {
    "type": ["string", "integer"],
    "pattern": "^ *(0|[0-9]+ *(ms|s|m|h|d)) *$",
    "minimum": 0,
    "maximum": 0,
    "x-kind": "duration",
});

text_form!(Network, "Network", read: "an IP address or a network", {
    "type": "string",
    "x-kind": "network",
});

text_form!(Listen, "Listen", read: "an address", { "type": "string", "x-kind": "address" });

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
