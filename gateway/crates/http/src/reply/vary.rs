//! `Vary` (RFC 9110, 12.5.5), in one line: nginx before 1.23 reads the last of several alone.

use http::header::VARY;
use http::{HeaderMap, HeaderValue};

/// Adds `name` to the request's headers that the answer differs by. `*` stays alone, for it means all of them.
pub(crate) fn add(headers: &mut HeaderMap, name: &'static str) {
    let name = name.as_bytes();
    let is_one_line = headers.get_all(VARY).iter().nth(1).is_none();
    if is_one_line && members(headers).any(|own| own == b"*" || own.eq_ignore_ascii_case(name)) {
        return;
    }
    let mut names: Vec<&[u8]> = Vec::new();
    for own in members(headers).chain([name]) {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(own)) {
            names.push(own);
        }
    }
    if names.contains(&&b"*"[..]) {
        names = vec![b"*"];
    }
    let line = HeaderValue::try_from(names.join(&b", "[..]));
    headers.insert(VARY, line.expect("parts of header values are one"));
}

fn members(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(VARY).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_in_one_line() {
        for (lines, expected) in [
            (&[][..], "Origin"),
            (&[""], "Origin"),
            (&["Accept-Encoding"], "Accept-Encoding, Origin"),
            (&["accept-encoding ,,ORIGIN"], "accept-encoding ,,ORIGIN"),
            (&["X-Origin"], "X-Origin, Origin"),
            (&["Cookie", "origin, cookie"], "Cookie, origin"),
            (&["Cookie", "Accept"], "Cookie, Accept, Origin"),
            (&["*"], "*"),
            (&["Cookie", "*"], "*"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(VARY, HeaderValue::from_static(line));
            }
            for _ in 0..2 {
                add(&mut headers, "Origin");
                let found: Vec<_> = headers.get_all(VARY).iter().collect();
                assert_eq!(found, [expected], "{lines:?}");
            }
        }
    }
}
