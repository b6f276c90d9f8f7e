//! Readers of access logs: the requested paths and their counts. Formats: nginx's `combined` and formats that begin
//! like it, and Tidegate's own as text and as JSON.

use std::collections::HashMap;

use percent_encoding::percent_decode;

use super::key::encoded;

/// The content of a line of an access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// The path of an answered GET, without the query, percent-encoded in one way whatever the client's spelling.
    Path(String),
    /// Another request: not a GET, or not answered with a 2xx or 304.
    Other,
    /// A line that is in none of the formats.
    Unread,
}

/// Reads one line.
#[must_use]
pub fn read(line: &str) -> Line {
    let line = line.trim();
    let found = if line.starts_with('{') {
        json(line)
    } else if let Some((_, fields)) = line.split_once("tidegate::access:") {
        text(fields)
    } else {
        combined(line)
    };
    match found {
        None => Line::Unread,
        Some(Request { method, status, .. }) if !is_answer(&method, status) => Line::Other,
        Some(request) => path(&request.target).map_or(Line::Unread, Line::Path),
    }
}

struct Request {
    method: String,
    /// Path and query, as bytes because a client may send any bytes.
    target: Vec<u8>,
    status: u16,
}

fn is_answer(method: &str, status: u16) -> bool {
    method == "GET" && (matches!(status, 200..=299) || status == 304)
}

/// Reads `address - user [time] "GET /path HTTP/1.1" 200 …`.
fn combined(line: &str) -> Option<Request> {
    let (_, rest) = line.split_once('"')?;
    let (request, rest) = rest.split_once('"')?;
    let status = rest.split_whitespace().next()?.parse().ok()?;
    let (method, rest) = request.split_once(' ')?;
    let target = rest.rsplit_once(' ').map_or(rest, |(target, _)| target);
    Some(Request {
        method: method.to_owned(),
        target: unescape_hex(target),
        status,
    })
}

/// Decodes nginx's `\xNN`, which stands for `"`, `\` and bytes that are no printable ASCII.
fn unescape_hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escaped = match rest {
            [b'\\', b'x', a, b, ..] => std::str::from_utf8(&[*a, *b])
                .ok()
                .and_then(|hex| u8::from_str_radix(hex, 16).ok()),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[4..] } else { more };
    }
    bytes
}

/// Reads ` method="GET" path="/path" status=200 …`.
fn text(fields: &str) -> Option<Request> {
    let status = field(fields, "status=")?;
    Some(Request {
        method: quoted(field(fields, "method=")?)?,
        target: quoted(field(fields, "path=")?)?.into_bytes(),
        status: status.split(' ').next()?.parse().ok()?,
    })
}

/// Returns the text after a field's name. Only a quoted value can hold ` path=`, and those come after the wanted
/// fields.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    let at = fields.match_indices(name).find(|(at, _)| {
        let before = fields[..*at].chars().next_back();
        before.is_none_or(|c| c == ' ')
    });
    at.map(|(at, _)| &fields[at + name.len()..])
}

/// Returns the quoted text at the start of `value`.
fn quoted(value: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = value.strip_prefix('"')?.chars();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => text.push(chars.next()?),
            c => text.push(c),
        }
    }
}

fn json(line: &str) -> Option<Request> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| line[key].as_str().map(str::to_owned);
    Some(Request {
        method: text("method")?,
        target: text("path")?.into_bytes(),
        status: line["status"].as_u64()?.try_into().ok()?,
    })
}

/// Returns the path of a target in its one spelling. A target may be a whole URL (RFC 9112, 3.2.2).
fn path(target: &[u8]) -> Option<String> {
    let bare = target.split(|byte| matches!(byte, b'?' | b'#')).next()?;
    let schemes: [&[u8]; 2] = [b"http://", b"https://"];
    let after = schemes.iter().find_map(|scheme| bare.strip_prefix(*scheme));
    let path = match after {
        Some(rest) => &rest[rest.iter().position(|byte| *byte == b'/')?..],
        None => bare,
    };
    let decoded = percent_decode(path).decode_utf8().ok()?;
    let is_path = decoded.starts_with('/') && !decoded.contains('\0');
    is_path.then(|| encoded(&decoded).to_string())
}

/// The number of requests for each path.
#[derive(Debug, Default)]
pub struct Tally {
    counts: HashMap<String, u64>,
    /// Lines of requests that warming cannot repeat.
    pub others: u64,
    /// Lines that could not be read.
    pub unread: u64,
}

impl Tally {
    /// Counts a line; an empty line is ignored.
    pub fn add(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        match read(line) {
            Line::Path(path) => *self.counts.entry(path).or_default() += 1,
            Line::Other => self.others += 1,
            Line::Unread => self.unread += 1,
        }
    }

    /// Returns the paths, the most requested first; paths with equal counts in alphabetical order.
    #[must_use]
    pub fn paths(self) -> Vec<String> {
        let mut paths: Vec<_> = self.counts.into_iter().collect();
        paths.sort_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
        paths.into_iter().map(|(path, _)| path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nginx(request: &str, status: u16) -> String {
        format!(
            "10.0.0.1 - - [21/Nov/2026:12:00:00 +0000] \"{request}\" {status} 5 \"-\" \"x \\x22y\""
        )
    }

    #[test]
    fn reads_what_nginx_writes() {
        let path = |path: &str| Line::Path(path.to_owned());
        for (request, status, expected) in [
            ("GET /a%20b.jpg?ver=6 HTTP/1.1", 200, path("/a%20b.jpg")),
            ("GET /%61+b&c HTTP/2.0", 206, path("/a%2Bb%26c")),
            ("GET /\\xC3\\xBC\\x22 HTTP/1.1", 304, path("/%C3%BC%22")),
            ("GET http://h.example/a/b?x HTTP/1.1", 200, path("/a/b")),
            ("GET /a b HTTP/1.1", 200, path("/a%20b")),
            ("HEAD /a HTTP/1.1", 200, Line::Other),
            ("GET /a HTTP/1.1", 404, Line::Other),
            ("GET /a HTTP/1.1", 499, Line::Other),
            ("GET a HTTP/1.1", 200, Line::Unread),
            ("GET /%ff HTTP/1.1", 200, Line::Unread),
            ("GET /%00 HTTP/1.1", 200, Line::Unread),
            ("\\x16\\x03\\x01", 400, Line::Unread),
        ] {
            assert_eq!(read(&nginx(request, status)), expected, "{request}");
        }
    }

    #[test]
    fn reads_what_we_write() {
        let text = "2026-11-21T12:00:00.1Z  INFO tidegate::access: method=\"GET\" path=\"/a%20b\\\"\" \
                    status=200 bytes=5 cache=\"hit\" duration_ms=0.5 client=::1 complete=true";
        let path = Line::Path("/a%20b%22".to_owned());
        assert_eq!(read(text), path);
        assert_eq!(read(&text.replace("=200", "=404")), Line::Other);
        let json = "{\"level\":\"INFO\",\"target\":\"tidegate::access\",\"method\":\"GET\",\
                    \"path\":\"/a%20b\\\"\",\"status\":200,\"bytes\":5}";
        assert_eq!(read(json), path);
        let other = "{\"level\":\"INFO\",\"target\":\"tidegate\",\"message\":\"serving\"}";
        assert_eq!(read(other), Line::Unread);
    }

    #[test]
    fn what_is_asked_for_most_comes_first_and_the_rest_is_counted() {
        let mut tally = Tally::default();
        for path in ["/b", "/a", "/c", "/%61", "/b?x=1", "/b"] {
            tally.add(&nginx(&format!("GET {path} HTTP/1.1"), 200));
        }
        for line in ["", "nonsense", "{", &nginx("POST /a HTTP/1.1", 200)] {
            tally.add(line);
        }
        assert_eq!((tally.others, tally.unread), (1, 2));
        assert_eq!(tally.paths(), ["/b", "/a", "/c"]);
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_much(line in "\\PC{0,80}|.{0,40}\"GET .{0,20}\" [0-9]{3}.*") {
            let _ = read(&line);
        }
    }
}
