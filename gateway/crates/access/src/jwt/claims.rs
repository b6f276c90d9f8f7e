//! The claims of a JWT (RFC 7519, 4.1), as far as an access reads them.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
};

/// The claims that an access reads. A claim that stands twice, or is of another type, makes the token unreadable
/// (RFC 7519, 4: names are unique).
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) issuer: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) audience: Option<Texts>,
    pub(super) expires: Option<NumericDate>,
    pub(super) not_before: Option<NumericDate>,
    /// The prefixes of paths, in the claim that the access names.
    pub(super) prefixes: Option<Texts>,
}

impl Claims {
    /// Reads the payload of a token, whose claim `prefixes` lists paths. `None`: it cannot be read.
    pub(super) fn read(payload: &[u8], prefixes: Option<&str>) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_slice(payload);
        let claims = ClaimsSeed { prefixes }.deserialize(&mut json).ok()?;
        json.end().ok()?;
        Some(claims)
    }
}

/// A text, or a list of texts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Texts(pub(super) Vec<String>);

/// Seconds since 1970, without their fraction; times before are 0, and those beyond the range of the type its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NumericDate(pub(super) u64);

struct ClaimsSeed<'s> {
    prefixes: Option<&'s str>,
}

impl<'de> DeserializeSeed<'de> for ClaimsSeed<'_> {
    type Value = Claims;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Claims, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ClaimsSeed<'_> {
    type Value = Claims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("claims")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Claims, A::Error> {
        let mut claims = Claims::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                own if self.prefixes == Some(own) => set(&mut claims.prefixes, &mut map)?,
                "iss" => set(&mut claims.issuer, &mut map)?,
                "sub" => set(&mut claims.subject, &mut map)?,
                "aud" => set(&mut claims.audience, &mut map)?,
                "exp" => set(&mut claims.expires, &mut map)?,
                "nbf" => set(&mut claims.not_before, &mut map)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(claims)
    }
}

/// Reads the value of a claim that was not there before.
fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    claim: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    match claim.replace(map.next_value()?) {
        None => Ok(()),
        Some(_) => Err(A::Error::custom("a claim stands twice")),
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Form {
            One(String),
            Several(Vec<String>),
        }
        Ok(Self(match Form::deserialize(input)? {
            Form::One(text) => vec![text],
            Form::Several(texts) => texts,
        }))
    }
}

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(DateVisitor)
    }
}

struct DateVisitor;

impl Visitor<'_> for DateVisitor {
    type Value = NumericDate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seconds since 1970")
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<NumericDate, E> {
        Ok(NumericDate(seconds))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<NumericDate, E> {
        Ok(NumericDate(u64::try_from(seconds).unwrap_or(0)))
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<NumericDate, E> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and drops the fraction"
        )]
        Ok(NumericDate(seconds as u64))
    }
}

#[cfg(test)]
mod tests;
