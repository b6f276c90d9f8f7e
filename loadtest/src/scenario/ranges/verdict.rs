//! The check of an answer to a `Range` request.

use std::ops::Range;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{StatusCode, header};

use super::ask::Ask;
use crate::client::{Answer, Head};
use crate::pattern::Pattern;

/// A piece of an object in an answer.
#[derive(Debug)]
struct Part {
    range: Range<u64>,
    bytes: Bytes,
}

/// Compares an answer with the request and the object.
///
/// # Errors
/// If the answer is wrong; the error gives the reason.
pub fn check(ask: &Ask, object: Pattern, answer: &Answer) -> Result<()> {
    let wanted = ask.resolve(object.len);
    match answer.head.status {
        StatusCode::RANGE_NOT_SATISFIABLE => {
            ensure!(wanted.is_empty(), "416, though {wanted:?} can be satisfied");
            let said = field(&answer.head, header::CONTENT_RANGE)?;
            ensure!(
                said == format!("bytes */{}", object.len),
                "416 with Content-Range `{said}`"
            );
            Ok(())
        }
        StatusCode::OK => {
            ensure!(
                may_be_ignored(&wanted, object.len),
                "200 instead of 206 or 416"
            );
            ensure!(
                answer.body.len() as u64 == object.len,
                "a body of {}",
                answer.body.len()
            );
            ensure!(object.matches(0, &answer.body), "wrong bytes in 200");
            Ok(())
        }
        StatusCode::PARTIAL_CONTENT => check_parts(&wanted, object, answer),
        status => bail!("status {status}"),
    }
}

/// Tells whether the whole object is a right answer too. No Content-Range can describe a part of an
/// empty object (RFC 9110, 14.4). A server may ignore a set that asks for more bytes than the
/// object has (14.2).
fn may_be_ignored(wanted: &[Range<u64>], size: u64) -> bool {
    let sum: u64 = wanted.iter().map(|range| range.end - range.start).sum();
    size == 0 || (wanted.len() > 1 && sum > size)
}

fn check_parts(wanted: &[Range<u64>], object: Pattern, answer: &Answer) -> Result<()> {
    ensure!(!wanted.is_empty(), "206, though nothing can be satisfied");
    let length = field(&answer.head, header::CONTENT_LENGTH)?;
    ensure!(
        length == answer.body.len().to_string(),
        "Content-Length {length}"
    );
    let parts = parts(answer, object.len)?;
    for part in &parts {
        ensure!(
            object.matches(part.range.start, &part.bytes),
            "wrong bytes in {:?}",
            part.range
        );
    }
    if let [only] = wanted {
        ensure!(
            parts.len() == 1 && parts[0].range == *only,
            "{parts:?} instead of {only:?}"
        );
    }
    let hull = hull(wanted).context("something was wanted")?;
    let beyond = |part: &&Part| part.range.start < hull.start || part.range.end > hull.end;
    if let Some(part) = parts.iter().find(beyond) {
        bail!("{:?} lies outside of what was asked", part.range);
    }
    for range in wanted {
        let within = |part: &Part| part.range.start <= range.start && range.end <= part.range.end;
        ensure!(parts.iter().any(within), "{range:?} is missing");
    }
    Ok(())
}

fn hull(ranges: &[Range<u64>]) -> Option<Range<u64>> {
    let start = ranges.iter().map(|range| range.start).min()?;
    Some(start..ranges.iter().map(|range| range.end).max()?)
}

/// Returns the parts of a 206: the body itself, or those of a `multipart/byteranges` body (RFC
/// 9110, 14.6).
fn parts(answer: &Answer, size: u64) -> Result<Vec<Part>> {
    let kind = field(&answer.head, header::CONTENT_TYPE).unwrap_or_default();
    let Some(boundary) = kind.strip_prefix("multipart/byteranges; boundary=") else {
        let said = field(&answer.head, header::CONTENT_RANGE)?;
        return Ok(vec![part(&said, size, answer.body.clone())?]);
    };
    let delimiter = format!("--{}", boundary.trim_matches('"'));
    let mut found = vec![];
    let mut rest = answer.body.clone();
    skip(&mut rest, b"\r\n");
    loop {
        ensure!(
            skip(&mut rest, delimiter.as_bytes()),
            "a part does not begin with its delimiter"
        );
        if skip(&mut rest, b"--") {
            ensure!(
                rest.is_empty() || rest == "\r\n",
                "something follows the last part"
            );
            return Ok(found);
        }
        ensure!(
            skip(&mut rest, b"\r\n"),
            "a delimiter does not end its line"
        );
        let head_end = find(&rest, b"\r\n\r\n").context("a part's head does not end")?;
        let head = String::from_utf8(rest.split_to(head_end + 4).to_vec())?;
        let said = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-range"))
            .context("a part without Content-Range")?;
        // The length follows from the range, because the bytes themselves may look like a
        // delimiter.
        let range = content_range(said.1, size)?;
        let len = usize::try_from(range.end - range.start)?;
        ensure!(rest.len() >= len, "the part {range:?} is cut off");
        found.push(Part {
            range,
            bytes: rest.split_to(len),
        });
        ensure!(skip(&mut rest, b"\r\n"), "a part is longer than its range");
    }
}

fn part(said: &str, size: u64, bytes: Bytes) -> Result<Part> {
    let range = content_range(said, size)?;
    ensure!(
        bytes.len() as u64 == range.end - range.start,
        "{} bytes of `{said}`",
        bytes.len()
    );
    Ok(Part { range, bytes })
}

/// Parses `bytes FIRST-LAST/SIZE` (RFC 9110, 14.4).
fn content_range(said: &str, size: u64) -> Result<Range<u64>> {
    let parse = || {
        let (range, total) = said.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        let right = first <= last && last < size && total.parse() == Ok(size);
        right.then_some(first..last + 1)
    };
    parse().with_context(|| format!("Content-Range `{said}` of an object of {size}"))
}

fn field(head: &Head, name: header::HeaderName) -> Result<String> {
    let value = head
        .headers
        .get(&name)
        .with_context(|| format!("no {name}"))?;
    Ok(value.to_str()?.to_owned())
}

fn skip(rest: &mut Bytes, prefix: &[u8]) -> bool {
    let there = rest.starts_with(prefix);
    if there {
        let _ = rest.split_to(prefix.len());
    }
    there
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests;
