//! Content codings: those that a client accepts, and its order of preference (RFC 9110, 12.5.3).

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

use crate::ObjectKey;

/// A content coding (RFC 9110, 8.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// The weight of an item that names none, in thousandths.
const FULL_WEIGHT: u16 = 1000;

impl Coding {
    /// Its name in `Content-Encoding`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the ending of keys under which encoded objects lie beside their originals.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }

    /// Returns the key under which the object of `key` lies in this coding, if there can be one.
    #[must_use]
    pub fn encoded_key(self, key: &ObjectKey) -> Option<ObjectKey> {
        ObjectKey::new(&format!("{}{}", key.as_str(), self.suffix())).ok()
    }

    fn has_name(self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name())
            || self == Self::Gzip && name.eq_ignore_ascii_case("x-gzip")
    }
}

/// The weights of a request's `Accept-Encoding`.
///
/// If no other coding is possible, identity is sent even to a client that forbids it; that is
/// better than 406.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedCodings {
    brotli: u16,
    gzip: u16,
    zstd: u16,
    identity: u16,
}

impl AcceptedCodings {
    /// Reads the header. An invalid weight counts as 0, and so does a coding that is not mentioned.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut own = [None; 4];
        let mut others = 0;
        let lines = headers.get_all(ACCEPT_ENCODING).iter();
        let lines = lines.filter_map(|value| value.to_str().ok());
        for item in lines.flat_map(|line| line.split(',')) {
            let (name, weight) = item.split_once(';').unwrap_or((item, ""));
            let (name, weight) = (name.trim(), weight_of(weight));
            match name {
                "*" => others = weight,
                _ if name.eq_ignore_ascii_case("identity") => own[3] = Some(weight),
                _ => {
                    let codings = [Coding::Brotli, Coding::Gzip, Coding::Zstd];
                    if let Some(at) = codings.iter().position(|own| own.has_name(name)) {
                        own[at] = Some(weight);
                    }
                }
            }
        }
        let [brotli, gzip, zstd, identity] = own.map(|weight| weight.unwrap_or(others));
        Self {
            brotli,
            gzip,
            zstd,
            identity,
        }
    }

    /// Returns whether the client can read it.
    #[must_use]
    pub fn accepts(self, coding: Coding) -> bool {
        self.weight(coding) > 0
    }

    /// Returns the codings of `offered` that the client prefers to identity or likes equally. The
    /// best come first; equal ones stay in the offered order.
    pub fn preferred(self, offered: &[Coding]) -> impl Iterator<Item = Coding> + use<> {
        let wanted =
            |coding: &Coding| self.accepts(*coding) && self.weight(*coding) >= self.identity;
        let mut wanted: Vec<Coding> = offered.iter().copied().filter(wanted).collect();
        wanted.sort_by_key(|coding| std::cmp::Reverse(self.weight(*coding)));
        wanted.into_iter()
    }

    fn weight(self, coding: Coding) -> u16 {
        match coding {
            Coding::Brotli => self.brotli,
            Coding::Gzip => self.gzip,
            Coding::Zstd => self.zstd,
        }
    }
}

/// Returns the weight in `;q=…`, in thousandths; [`FULL_WEIGHT`] without one.
fn weight_of(parameters: &str) -> u16 {
    let named = |text: &str| {
        let text = text.trim();
        let text = text.strip_prefix(['q', 'Q'])?.trim_start();
        text.strip_prefix('=').map(|text| text.trim().to_owned())
    };
    match parameters.split(';').find_map(named) {
        None => FULL_WEIGHT,
        Some(text) => thousandths(&text).unwrap_or(0),
    }
}

/// Parses `0`, `0.25`, `1.000`: at most three digits after the point, and at most 1 (RFC 9110,
/// 12.4.2).
fn thousandths(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 1 || part.len() > 3 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u16 = whole.parse().ok()?;
    let part: u16 = format!("{part:0<3}").parse().ok()?;
    Some(whole * FULL_WEIGHT + part).filter(|weight| *weight <= FULL_WEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    const OFFERED: [Coding; 3] = [Coding::Brotli, Coding::Gzip, Coding::Zstd];

    fn best(lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            let value = HeaderValue::from_str(line).expect("text");
            headers.append(ACCEPT_ENCODING, value);
        }
        let best = AcceptedCodings::from_headers(&headers).preferred(&OFFERED);
        best.map(Coding::name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_a_client_likes_best() {
        let rows = [
            ("", ""),
            ("gzip", "gzip"),
            ("x-gzip", "gzip"),
            ("gzip, deflate, br, zstd", "br gzip zstd"),
            ("br;q=0.5", "br"),
            ("br;q=0.5, GZIP;q=1.0", "gzip br"),
            ("br; q=0.5 , gzip ;Q=0.51", "gzip br"),
            ("*", "br gzip zstd"),
            ("*;q=0", ""),
            ("gzip;q=0, *", "br zstd"),
            ("identity", ""),
            ("identity, gzip", "gzip"),
            ("identity, gzip;q=0.9", ""),
            ("identity;q=0.5, gzip;q=0.9", "gzip"),
            ("identity;q=0, gzip;q=0.1", "gzip"),
            ("gzip;q=0", ""),
            ("gzip; q=0.000, identity", ""),
            ("gzip;q=2", ""),
            ("gzip;q=", ""),
            ("gzip;q=0.1234", ""),
            ("gzip;x=1", "gzip"),
            ("deflate", ""),
        ];
        for (line, expected) in rows {
            assert_eq!(best(&[line]), expected, "{line}");
        }
        assert_eq!(best(&[]), "");
        assert_eq!(best(&["gzip;q=0.5", "br;q=0.6"]), "br gzip");
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_panics_or_brings_what_is_refused(line in "[ -~]{0,40}") {
            let named = best(&[&line]);
            prop_assert_eq!(best(&[&line, "br;q=0, gzip;q=0, zstd;q=0"]), "");
            prop_assert!(named.split(' ').all(|name| ["", "br", "gzip", "zstd"].contains(&name)));
        }
    }
}
