//! Conditional requests: whether an object is sent, and which of its bytes (RFC 9110, 13).
//!
//! [`decide`] takes the steps of RFC 9110, 13.2.2 in their order and ends with the bytes to send. A date that cannot be
//! read counts as not sent, and so does a header that is sent twice but may be sent once.

use http::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};

use crate::{ByteRange, ETag, Ranges, Selection, Timestamp, has_header};

/// The validators of an object's current version.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// Its entity tag.
    pub etag: &'a ETag,
    /// The time of its last write, to the second.
    pub last_modified: Option<Timestamp>,
    /// The time at which the version was last known to be the current one.
    pub confirmed: Timestamp,
}

/// The answer to a GET. The answer to a HEAD is the same, but without `Range`, which a HEAD does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// 412: the request named a version that is not the current one.
    Failed,
    /// 304: the client has the current version.
    NotModified,
    /// 416: none of the ranges lies within the object.
    Unsatisfiable,
    /// 200.
    Whole,
    /// 206, one piece.
    Single(ByteRange),
    /// 206, several pieces.
    Several(Vec<ByteRange>),
}

/// The result of a request's conditions, before its ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionVerdict {
    /// They hold.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Decides the answer to a GET (`ranges` as [`requested_ranges`] read them) or a HEAD (`None`).
#[must_use]
pub fn decide(
    headers: &HeaderMap,
    ranges: Option<&Ranges>,
    current: Validators<'_>,
    size: u64,
) -> Decision {
    match evaluate(headers, current) {
        ConditionVerdict::Failed => return Decision::Failed,
        ConditionVerdict::NotModified => return Decision::NotModified,
        ConditionVerdict::Proceed => {}
    }
    match ranges {
        Some(ranges) if range_applies(headers, current) => match ranges.select(size) {
            Selection::Unsatisfiable => Decision::Unsatisfiable,
            Selection::Single(range) => Decision::Single(range),
            Selection::Several(pieces) => Decision::Several(pieces),
        },
        _ => Decision::Whole,
    }
}

/// Returns the request's `Range`, if it has a valid one.
#[must_use]
pub fn requested_ranges(headers: &HeaderMap) -> Option<Ranges> {
    if !has_header(headers, &RANGE) {
        return None;
    }
    Ranges::parse(single_value(headers, &RANGE)?)
}

/// Takes steps 1 to 4 of RFC 9110, 13.2.2, for GET and HEAD.
#[must_use]
pub fn evaluate(headers: &HeaderMap, current: Validators<'_>) -> ConditionVerdict {
    // Once through the few headers that a request has costs less than four look-ups, which hash their names.
    if !headers.keys().any(|name| name.as_str().starts_with("if-")) {
        return ConditionVerdict::Proceed;
    }
    if headers.contains_key(IF_MATCH) {
        if !any_tag(headers, &IF_MATCH, |tag| tag.strong_eq(current.etag)) {
            return ConditionVerdict::Failed;
        }
    } else if let (Some(since), Some(modified)) =
        (date(headers, &IF_UNMODIFIED_SINCE), current.last_modified)
        && modified.secs() > since.secs()
    {
        return ConditionVerdict::Failed;
    }
    let unchanged = if headers.contains_key(IF_NONE_MATCH) {
        any_tag(headers, &IF_NONE_MATCH, |tag| tag.weak_eq(current.etag))
    } else {
        match (date(headers, &IF_MODIFIED_SINCE), current.last_modified) {
            (Some(since), Some(modified)) => modified.secs() <= since.secs(),
            _ => false,
        }
    };
    if unchanged {
        ConditionVerdict::NotModified
    } else {
        ConditionVerdict::Proceed
    }
}

/// Returns the tag in a request's `If-None-Match` that matches `tag` by the weak comparison, as the client wrote it.
/// `*` names none.
#[must_use]
pub fn matching_tag(headers: &HeaderMap, tag: &ETag) -> Option<ETag> {
    let lines = headers.get_all(IF_NONE_MATCH).iter();
    let lines = lines.filter_map(|value| value.to_str().ok());
    lines.flat_map(Tags).find(|known| known.weak_eq(tag))
}

/// A write request's condition on its object, as far as the headers alone tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedState {
    /// There is no condition.
    Nothing,
    /// The object must not exist.
    Absent,
    /// The object must have this version.
    Version(ETag),
    /// The condition needs [`evaluate`] on the present version, without `If-Modified-Since`, which has no meaning here
    /// (RFC 9110, 13.1.3).
    Judge,
}

/// Reads the conditions of a PUT or DELETE.
#[must_use]
pub fn requested_state(headers: &HeaderMap) -> RequestedState {
    let matching = headers.contains_key(IF_MATCH);
    let none_matching = headers.contains_key(IF_NONE_MATCH);
    match (matching, none_matching) {
        (false, false) if headers.contains_key(IF_UNMODIFIED_SINCE) => RequestedState::Judge,
        (false, false) => RequestedState::Nothing,
        (false, true) if single_value(headers, &IF_NONE_MATCH) == Some("*") => {
            RequestedState::Absent
        }
        (true, false) => {
            let line = single_value(headers, &IF_MATCH).unwrap_or_default();
            let mut tags = Tags(line);
            match (tags.next(), tags.next()) {
                (Some(tag), None) if !tag.is_weak() => RequestedState::Version(tag),
                _ => RequestedState::Judge,
            }
        }
        _ => RequestedState::Judge,
    }
}

/// Takes step 5: returns whether `If-Range` permits `Range`. A tag is compared strongly, and a date must equal the
/// version's (RFC 9110, 13.1.5). A date is strong only if the version outlasted its second: another one may have been
/// written within it (8.8.2.2). If the header is unreadable, the whole object is sent.
#[must_use]
pub fn range_applies(headers: &HeaderMap, current: Validators<'_>) -> bool {
    if !headers.contains_key(IF_RANGE) {
        return true;
    }
    let Some(value) = single_value(headers, &IF_RANGE) else {
        return false;
    };
    let mut tags = Tags(value);
    match tags.next() {
        Some(tag) => tags.0.trim().is_empty() && tag.strong_eq(current.etag),
        None => match (parse_date(value), current.last_modified) {
            (Some(date), Some(modified)) => {
                date.secs() == modified.secs() && modified.secs() < current.confirmed.secs()
            }
            _ => false,
        },
    }
}

/// Returns the value of a header that may occur once, if it occurs once and is text.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values
        .next()
        .is_none()
        .then(|| value.to_str().ok())
        .flatten()
        .map(str::trim)
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Timestamp> {
    parse_date(single_value(headers, name)?)
}

/// Parses any of the three formats of RFC 9110, 5.6.7.
fn parse_date(value: &str) -> Option<Timestamp> {
    httpdate::parse_http_date(value).ok().map(Timestamp::from)
}

/// Returns whether the header is `*`, or any tag of its list matches. The list may span several lines.
fn any_tag(headers: &HeaderMap, name: &HeaderName, alike: impl Fn(&ETag) -> bool) -> bool {
    let lines = headers.get_all(name);
    let mut lines = lines.iter().filter_map(|value| value.to_str().ok());
    lines.any(|line| line.trim() == "*" || Tags(line).any(|tag| alike(&tag)))
}

/// The entity tags of a list, up to the first invalid one. Tags may contain commas.
struct Tags<'a>(&'a str);

impl Iterator for Tags<'_> {
    type Item = ETag;

    fn next(&mut self) -> Option<ETag> {
        let text = self.0.trim_start_matches([' ', '\t', ',']);
        let mark = if text.starts_with("W/") { 2 } else { 0 };
        let inner = text[mark..].strip_prefix('"')?;
        let end = mark + 1 + inner.find('"')? + 1;
        self.0 = &text[end..];
        ETag::parse(&text[..end])
    }
}

#[cfg(test)]
mod tests;
