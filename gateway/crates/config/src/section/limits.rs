//! `[limits.NAME]`: the share of a client.

use std::borrow::Cow;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use tidegate_access::limits::Rate;
use tidegate_plan::{ByteSize, text_form};

/// The share of a client, or of all clients of a route: requests, bytes and connections.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests that may come in a second, a minute (`m`) or an hour (`h`); more are answered with 429.
    #[schemars(extend("examples" = ["50/s"]))]
    pub requests: Option<RequestRate>,
    /// Requests that may come at once before the rate holds; left out: as many as in one second.
    #[schemars(extend("examples" = [100]))]
    pub burst: Option<u32>,
    /// Bytes of bodies in a second; a faster answer waits.
    #[schemars(extend("examples" = ["20MB/s"]))]
    pub bytes: Option<ByteRate>,
    /// Answers under way at once, each until its last byte has gone out; more are answered with 429.
    #[schemars(extend("examples" = [64]))]
    pub connections: Option<u32>,
    /// The clients that count together.
    ///
    /// Those of one address (of IPv6 a network of 64 bits), those that one key or token of the access admits, or all.
    pub per: LimitScope,
}

/// The clients that share limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitScope {
    /// Those of one address.
    #[default]
    Address,
    /// Those that one key or token of the access admits; others by their address.
    Key,
    /// All.
    Route,
}

/// The names of the limits of a route: one as text, or a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitNames(pub Vec<String>);

impl<'de> Deserialize<'de> for LimitNames {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct NamesVisitor;

        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = LimitNames;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a list of names")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<LimitNames, E> {
                Ok(LimitNames(vec![name.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<LimitNames, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(LimitNames(names))
            }
        }

        input.deserialize_any(NamesVisitor)
    }
}

impl JsonSchema for LimitNames {
    fn schema_name() -> Cow<'static, str> {
        "LimitNames".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let list = json_schema!({ "type": "array", "items": { "type": "string" } });
        json_schema!({
            "anyOf": [{ "type": "string" }, list],
            "x-kind": "text or list",
        })
    }
}

/// A number of requests in a time: `50/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRate(pub Rate);

impl FromStr for RequestRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = || {
            let (number, unit) = text.trim().split_once('/')?;
            let seconds = match unit.trim() {
                "s" => 1,
                "m" => 60,
                "h" => 3600,
                _ => return None,
            };
            Some(Self(Rate {
                requests: number.trim().parse::<NonZeroU32>().ok()?,
                time: Duration::from_secs(seconds),
            }))
        };
        rate().ok_or_else(|| {
            format!(
                "`{text}` is no rate; write a whole number of requests and a time, such as 50/s"
            )
        })
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.0.time.as_secs() {
            60 => 'm',
            3600 => 'h',
            _ => 's',
        };
        write!(f, "{}/{unit}", self.0.requests)
    }
}

text_form!(RequestRate, "RequestRate", read: "a rate, such as \"50/s\"", {
    "type": "string",
    "pattern": "^ *[0-9]+ */ *[smh] *$",
    "x-kind": "rate",
});

/// A number of bytes a second: `20MB/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRate(pub NonZeroU64);

impl FromStr for ByteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = text.trim().strip_suffix("/s").map(str::parse::<ByteSize>);
        let bytes = size.and_then(|size| NonZeroU64::new(size.ok()?.0));
        bytes
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no rate; write a size a second, such as 20MB/s"))
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", ByteSize(self.0.get()))
    }
}

text_form!(ByteRate, "ByteRate", read: "a rate, such as \"20MB/s\"", {
    "type": "string",
    "pattern": "^ *[0-9]+ *([KMGT]i?B|B)? */s *$",
    "x-kind": "rate",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_written() {
        for (text, requests, seconds) in [("50/s", 50, 1), (" 1 / m ", 1, 60), ("7/h", 7, 3600)] {
            let rate: RequestRate = text.parse().expect(text);
            assert_eq!(
                (rate.0.requests.get(), rate.0.time.as_secs()),
                (requests, seconds)
            );
            assert_eq!(rate.to_string(), text.replace(' ', ""));
        }
        for bad in [
            "",
            "50",
            "0/s",
            "-1/s",
            "1.5/s",
            "50/d",
            "50/",
            "/s",
            "4294967296/s",
        ] {
            assert!(bad.parse::<RequestRate>().is_err(), "{bad}");
        }
        for (text, bytes, again) in [
            ("20MB/s", 20_000_000, "20MB/s"),
            ("1KiB /s", 1024, "1KiB/s"),
        ] {
            let rate: ByteRate = text.parse().expect(text);
            assert_eq!((rate.0.get(), rate.to_string()), (bytes, again.to_owned()));
        }
        for bad in ["", "20MB", "0/s", "MB/s", "20MB/m", "-1/s"] {
            assert!(bad.parse::<ByteRate>().is_err(), "{bad}");
        }
    }
}
